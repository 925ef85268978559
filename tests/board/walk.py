"""The pages of FATE-Board 2.1.0 as a person walks them: where things stand on a page, and how to get there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_dp.deploy.board.start import RunningBoard

from .browser import Browser

DIALOG = ".f-output-dialog"
TABS = f"{DIALOG} .el-tabs__item"
FACT = f"{DIALOG} .f-d-table .el-table__body tr"
# Of a chart's pixels those with a colour: axes, grid and letters are grey.
COLOURED = """
    const canvas = arguments[0];
    const {width, height} = canvas, pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    let found = 0;
    for (let at = 0; at < pixels.length; at += 4) {
        const three = [pixels[at], pixels[at + 1], pixels[at + 2]];
        found += pixels[at + 3] > 0 && Math.max(...three) - Math.min(...three) > 60;
    }
    return found;
"""


@dataclass
class Walk:
    """A browser on a board, with the folder of its screenshots."""

    browser: Browser
    board: RunningBoard
    shots: Path

    def shot(self, name: str) -> None:
        self.browser.wait(self.has_loaded, "goes on loading")
        self.browser.screenshot(self.shots / f"{name}.png")

    def has_loaded(self) -> bool:
        """Whether nothing of the page lies under the veil of what is still asked for, or fades in or out."""
        moving = "[class*='-enter-active'], [class*='-leave-active']"
        return not self.browser.texts(f".el-loading-mask, {moving}")

    def page(self, path: str) -> None:
        """Go to a page, as by its address in a fresh window: the board keeps what it loaded of another party."""
        self.browser.go("about:blank")
        self.browser.go(f"{self.board.url}/#/{path}")

    def sign_in(self, password: str) -> None:
        self.page("signIn")
        self.browser.element("button", "Sign in")
        for name, keys in (("Username", self.board.user), ("Password", password)):
            self.browser.type(f"input[placeholder={name}]", keys)
        self.browser.click("button", "Sign in")

    def job(self, job_id: str, role: str, party: str, page: str = "detail") -> None:
        self.page(f"{page}/{job_id}/{role}/{party}")
        self.browser.wait(lambda: self.tasks(), "draws no graph")

    def history(self) -> dict[str, str]:
        """{job: status} of the list of jobs, over all its pages."""
        row, number = ".f-history-table tbody tr", ".f-history-table .el-pager .number"
        found: dict[str, str] = {}
        seen: list[list[str]] = []

        def is_new() -> list[list[str]]:
            rows = self.browser.rows(row) if self.has_loaded() else []
            return rows if rows and rows[0][0] and rows != seen else []

        seen = self.browser.wait(is_new, "lists no jobs")
        for page in self.browser.texts(number):
            if page not in self.browser.texts(f"{number}.is-active"):
                self.browser.click(number, page)
                seen = self.browser.wait(is_new, f"has nothing on page {page} of its jobs")
            found |= {cells[0]: cells[7] for cells in seen}
        return found

    def tasks(self) -> list[str]:
        """The names in the graph."""
        names = self.browser.texts(".dag_graphic text[cursor=pointer]")
        return [name for name in names if name and name != "retry"]

    def arrows(self) -> int:
        return len(self.browser.run("return [...document.querySelectorAll('.dag_graphic > svg > svg > path')]"))

    def choose(self, task: str, component: str) -> str:
        """Click a task in the graph and unfold its parameters; returns their text."""
        self.pick(task)
        label = ".f-parameter-tree .el-tree-node__label"
        self.browser.element(label, f"component: {component}")
        self.browser.click(label, "parameters")
        self.browser.wait(lambda: ":" in self.parameters(), "unfolds no parameters")
        return self.parameters()

    def pick(self, task: str) -> None:
        """Click a task in the graph, again while it still moves into its place."""
        label = ".f-parameter-tree .el-tree-node__label"

        def is_picked() -> bool:
            self.browser.click(".dag_graphic text", task)
            time.sleep(2)
            return f"task_name: {task}" in self.browser.texts(label)

        self.browser.wait(is_picked, f"does not take a click on {task}")

    def parameters(self) -> str:
        """What stands under the node `parameters` of the tree."""
        script = """
            const node = [...document.querySelectorAll(".f-parameter-tree .el-tree-node")]
                .find(each => each.querySelector(".el-tree-node__label").textContent.trim() === "parameters");
            return node ? node.querySelector(".el-tree-node__children").innerText : "";
        """
        return self.browser.run(script)

    def outputs(self) -> list[str]:
        """Open the outputs of the chosen task; returns the names of their tabs."""
        self.browser.click("button", "View the Outputs")
        self.browser.element(f"{DIALOG} .el-dialog__headerbtn")
        self.browser.element(f"{DIALOG} .el-tab-pane")
        return self.browser.texts(TABS)

    def tab(self, name: str) -> None:
        self.browser.click(TABS, name)
        self.browser.element(f"{TABS}.is-active", name)

    def pane(self) -> str:
        """The text of the tab that is open."""
        return self.browser.text(f"{DIALOG} .el-tab-pane")

    def cut(self) -> list[str]:
        """The names and values above the summary's table that the page shows without their ends."""
        script = """
            return [...document.querySelectorAll(arguments[0])]
                .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent.trim());
        """
        return self.browser.run(script, f"{DIALOG} .f-d-text .fb-txOverflow-content")

    def await_facts(self) -> None:
        """Wait for the first page of the summary."""
        self.browser.element(FACT)

    def facts(self) -> dict[str, str]:
        """The summary, over all pages of its table."""
        self.await_facts()
        found: dict[str, str] = {}
        pages = self.browser.texts(f"{DIALOG} .el-pager .number") or [None]
        for page in pages:
            if page is not None:
                self.browser.click(f"{DIALOG} .el-pager .number", page)
                self.browser.element(f"{DIALOG} .el-pager .number.is-active", page)
            found |= {cells[1]: cells[2] for cells in self.browser.rows(FACT) if len(cells) == 3}
        return found

    def coloured(self, css: str) -> int:
        """How many pixels of a chart are neither white nor grey, once it is drawn."""
        canvas = self.browser.element(css)
        self.browser.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
        return self.browser.wait(lambda: self.browser.run(COLOURED, canvas), "draws nothing in its chart")

    def columns(self) -> list[str]:
        """The names of the columns in the data tab, none where a task has no table."""
        self.browser.element(f"{DIALOG} .f-info-data-title")
        # Nothing on the page tells a table that is still asked for from none.
        time.sleep(3)
        return [name for row in self.browser.rows(f"{DIALOG} .f-info-data-table .el-table__header tr") for name in row]

    def table(self) -> list[dict[str, Any]]:
        """The rows of the data tab, by the names of their columns."""
        table = f"{DIALOG} .f-info-data-table"
        self.browser.element(f"{table} .el-table__body tr")
        names = self.browser.rows(f"{table} .el-table__header tr")[0]
        return [dict(zip(names, cells)) for cells in self.browser.rows(f"{table} .el-table__body tr")]
