"""A headless Chromium that a test drives through chromedriver, in the words of W3C's WebDriver, over plain HTTP.

Debian's chromium and chromium-driver suffice: the handful of requests that a walk takes needs no library of its own.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fate_dp.deploy.flow.programs import free_port, wait_until

PATIENCE = 60.0
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
CHROMIUM, DRIVER = ("chromium", "chromium-browser", "google-chrome"), "chromedriver"
# A container's /dev/shm may be small, and its user root, whom Chromium's own sandbox refuses.
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars")
SIZE = (1440, 1000)


class PageError(AssertionError):
    """The page does not show what was waited for."""


def missing_program() -> str | None:
    """A sentence where Chromium or its driver is missing."""
    if not any(map(shutil.which, CHROMIUM)) or not shutil.which(DRIVER):
        return "Chromium or chromedriver is missing; install Debian's chromium and chromium-driver."
    return None


class Browser:
    """One window; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)

    def __enter__(self) -> Browser:
        port = free_port()
        with (self._folder / "chromedriver.log").open("wb") as log:
            self._driver = subprocess.Popen([shutil.which(DRIVER), f"--port={port}"], stdout=log, stderr=log)
        self._address = f"http://127.0.0.1:{port}"
        try:
            assert wait_until(self._is_ready, lambda: self._driver.poll() is None, PATIENCE), "chromedriver is silent."
            arguments = [*FLAGS, f"--window-size={SIZE[0]},{SIZE[1]}", f"--user-data-dir={self._folder / 'profile'}"]
            options = {"args": arguments, "binary": next(filter(None, map(shutil.which, CHROMIUM)))}
            options["prefs"] = {"download.default_directory": str(self._folder)}
            wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self._driver.kill()
            raise
        self._session = f"/session/{session['sessionId']}"
        return self

    def __exit__(self, *failure: object) -> None:
        try:
            self._ask("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait(PATIENCE)

    def _is_ready(self) -> bool:
        try:
            return bool(self._ask("GET", "/status")["ready"])
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: dict | None = None) -> Any:
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=5 * PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            told = json.load(error)["value"]
            raise PageError(f"{told['error']}: {told['message'].splitlines()[0]}") from None

    def go(self, url: str) -> None:
        self._ask("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """What a script returns that runs in the page, with `arguments` in the array of that name."""
        return self._ask("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def element(self, css: str, text: str | None = None) -> dict:
        """The first visible element of a selector, with `text` as its own text where that is given; waits for it."""
        script = """
            const [css, text] = arguments;
            return [...document.querySelectorAll(css)].find(each => each.getClientRects().length
                && (text === null || each.textContent.trim() === text)) || null;
        """
        which = css if text is None else f"{css} with the text {text!r}"
        return self.wait(lambda: self.run(script, css, text), f"shows no {which}")

    def click(self, css: str, text: str | None = None) -> None:
        """A click as a person makes it: where something else lies over the element, it fails."""
        element = self.element(css, text)
        self._ask("POST", f"{self._session}/element/{element[ELEMENT]}/click")

    def type(self, css: str, keys: str) -> None:
        element = self.element(css)
        self._ask("POST", f"{self._session}/element/{element[ELEMENT]}/value", {"text": keys})

    def text(self, css: str = "body") -> str:
        """The text of all visible elements of a selector, as a person reads it."""
        script = """
            return [...document.querySelectorAll(arguments[0])].filter(each => each.getClientRects().length)
                .map(each => each.innerText ?? each.textContent).join("\\n");
        """
        return self.run(script, css)

    def texts(self, css: str) -> list[str]:
        """The texts of the visible elements of a selector, one by one."""
        script = """
            return [...document.querySelectorAll(arguments[0])].filter(each => each.getClientRects().length)
                .map(each => (each.innerText ?? each.textContent).trim());
        """
        return self.run(script, css)

    def rows(self, css: str) -> list[list[str]]:
        """The cells of a table's visible rows."""
        script = """
            return [...document.querySelectorAll(arguments[0])].filter(each => each.getClientRects().length)
                .map(row => [...row.querySelectorAll("th, td")].map(cell => cell.innerText.trim()));
        """
        return self.run(script, css)

    def wait(self, holds: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """What `holds` returns once it is true of the page; raises PageError with the end of a sentence, `what`."""
        deadline = time.monotonic() + patience
        while True:
            try:
                found = holds()
            except PageError:
                found = None
            if found:
                return found
            if time.monotonic() > deadline:
                raise PageError(f"The page {what}; it shows:\n{self.text()[:3000]}")
            time.sleep(0.3)

    def screenshot(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def complaints(self) -> list[str]:
        """What the page wrote into the browser's console as an error since the last question."""
        lines = self._ask("POST", f"{self._session}/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] == "SEVERE"]
