"""Coverage of the documents: the page is what its table says, and the table names nothing that is not there."""

import re
from pathlib import Path

import pytest

from tests.pages.coverage import DESIGN, Document, Row, coverage_page, documents, exists, problems

ROOT = Path(__file__).parents[2]
DONE = Row("1", "flips", "done", ("tests/unit/test_flipback.py",))


def of(row):
    return (Document("He2021", "a title", (row,)),)


def test_the_committed_page_is_what_the_table_gives():
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    assert page == coverage_page(documents()), "run make docs-coverage"


def test_every_row_names_what_is_there_and_what_is_not_done_says_why():
    assert problems(documents()) == []


def test_the_table_holds_every_document_and_every_row_once():
    found = documents()
    cited = (ROOT / "docs" / "references.md").read_text(encoding="utf-8").split("\n## ")[1]
    assert [document.key for document in found] == [*re.findall(r"\*\*\[(\w+)\]\*\*", cited), DESIGN]
    rows = [(document.key, row.section, row.described) for document in found for row in document.rows]
    assert len(rows) == len(set(rows)) == 173


@pytest.mark.parametrize(
    "row, said",
    [
        (Row("1", "flips", "missing", ("make demo",), "later"), "must be one of done, partly, left out"),
        (Row("1", "flips", "done"), "nothing shows it"),
        (Row("1", "flips", "left out"), "it is left out, but no remark says why"),
        (Row("1", "flips", "partly", ("make demo",)), "it is partly, but no remark says why"),
        (Row("1", "flips", "done", ("tests/unit/test_nothing.py",)), "there is no 'tests/unit/test_nothing.py'"),
    ],
)
def test_a_fault_of_the_table_is_a_sentence(row, said):
    (sentence,) = problems(of(row))
    assert sentence.startswith("He2021, 1, 'flips': ") and said in sentence and problems(of(DONE)) == []


@pytest.mark.parametrize(
    "name, there",
    [
        ("make bench-align", True),
        ("make bench-nothing", False),
        ("make bench-align now", False),
        ("fate-dp plan labels", True),
        ("python -m examples.credit_risk", True),
        ("fate-dp plan nothing", False),
        ("fate-dp", False),
        ("python -m bench.shuffler_throughput", True),
        ("python -m bench.nothing", False),
        ("docs/cryptography.md", True),
        ("bench/label_dp.py", False),
    ],
)
def test_only_what_a_reader_can_run_or_open_counts(name, there):
    assert exists(name) is there


def test_every_row_of_the_page_has_as_many_cells_as_its_head():
    page = coverage_page(of(Row("1 | 2", "a | b", "done", ("make demo",))))
    tables = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
