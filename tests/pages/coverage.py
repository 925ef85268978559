"""``docs/coverage.md``: what the documents describe, row by row, and what shows it, written from docs/coverage.yaml.

    python -m tests.pages.coverage docs/coverage.md

`problems` holds the table to the repository: tests, targets of the Makefile, commands and pages that a row names exist, and
a row that is not done says why.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from fate_dp.pipelines.cli.main import parser
from tests.pages.computed_tables import markdown_table

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "coverage.yaml"
DONE, PARTLY, LEFT_OUT = STATES = ("done", "partly", "left out")
DESIGN = "Design"
INTRODUCTION = """\
# Coverage of the documents

<!-- Written by `make docs-coverage` from docs/coverage.yaml; a change by hand is lost. -->

FATE-DP implements what five documents describe ([references](references.md#the-documents-that-fate-dp-implements)) and the
project's own design. Each row names its state and what shows it: a test (`.venv/bin/python -m pytest -q FILE`), a benchmark or
a command. *Partly* and *left out* give the reason; *done* has a remark where we do it another way. Where a document is wrong,
the project does what is right ([rules that do not hold](privacy/tables.md#rules-that-do-not-hold)), and the row counts as done.
"""


@dataclass(frozen=True)
class Row:
    """One thing that a document describes."""

    section: str
    described: str
    state: str
    shown: tuple[str, ...] = ()
    remark: str = ""


@dataclass(frozen=True)
class Document:
    """A document by its key in docs/references.md, or the design."""

    key: str
    title: str
    rows: tuple[Row, ...]

    @property
    def states(self) -> tuple[int, ...]:
        """How many rows have each state."""
        counts = Counter(row.state for row in self.rows)
        return tuple(counts[state] for state in STATES)


def documents(path: Path = TABLE) -> tuple[Document, ...]:
    """The table.

    Raises:
        TypeError: a row has a key that `Row` does not know, or lacks one.
    """
    return tuple(
        Document(
            given["key"],
            given["title"],
            tuple(Row(**{**row, "shown": tuple(row.get("shown", ()))}) for row in given["rows"]),
        )
        for given in yaml.safe_load(path.read_text(encoding="utf-8"))
    )


def coverage_page(found: tuple[Document, ...]) -> str:
    """The page as Markdown: how many rows have each state, and one table of all rows."""
    counts = [(document.title, _cited(document), *map(str, document.states)) for document in found]
    total = [str(sum(column)) for column in zip(*(document.states for document in found))]
    rows = [
        (
            _cited(document),
            row.section,
            row.described,
            row.state,
            ", ".join(f"`{name}`" for name in row.shown) or "-",
            row.remark or "-",
        )
        for document in found
        for row in document.rows
    ]
    parts = [
        INTRODUCTION,
        markdown_table(("title", "document", *STATES), [*counts, ("all", "", *total)]),
        markdown_table(("document", "section", "described", "state", "shown by", "remark"), rows),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _cited(document: Document) -> str:
    return DESIGN if document.key == DESIGN else f"[{document.key}]"


def problems(found: tuple[Document, ...]) -> list[str]:
    """Every fault of the table as a sentence."""
    said = []
    for document in found:
        for row in document.rows:
            place = f"{document.key}, {row.section}, {row.described!r}"
            if row.state not in STATES:
                said.append(f"{place}: the state must be one of {', '.join(STATES)}, got {row.state!r}.")
            if row.state == DONE and not row.shown:
                said.append(f"{place}: it is done, but nothing shows it.")
            if row.state != DONE and not row.remark:
                said.append(f"{place}: it is {row.state}, but no remark says why.")
            said += [f"{place}: there is no {name!r}." for name in row.shown if not exists(name)]
    return said


def exists(name: str) -> bool:
    """Whether what a row names as shown by is there."""
    first, *rest = name.split()
    if first == "make":
        return len(rest) == 1 and rest[0] in _targets()
    if first == "fate-dp":
        return _is_command(rest)
    if name.startswith("python -m "):
        module = ROOT / rest[1].replace(".", "/")
        return module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()
    return name.startswith(("tests/", "docs/")) and (ROOT / name).is_file()


@cache
def _targets() -> set[str]:
    """What the Makefile declares as targets that are no files."""
    lines = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    return {name for line in lines for name in line.split()}


def _is_command(words: list[str]) -> bool:
    """Whether these words lead to a command of ``fate-dp`` that is no mere group of others."""
    place = parser()
    for word in words:
        groups = [action for action in place._actions if isinstance(action, argparse._SubParsersAction)]
        if not groups or word not in groups[0].choices:
            return False
        place = groups[0].choices[word]
    return bool(words)


def main() -> None:
    found = documents()
    said = problems(found)
    if said:
        raise SystemExit("\n".join(said))
    Path(sys.argv[1]).write_text(coverage_page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
