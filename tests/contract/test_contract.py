"""Every clause of the contract for every component, stage and setting."""

from pathlib import Path

import pytest

from . import clauses, hostile
from .installed import TEMPLATE
from .registry import CASES, EXCUSED

CLAUSES = {
    "a drawn is charged": clauses.drawn_is_charged,
    "b charged before it leaves": clauses.charged_before_it_leaves,
    "c neighbours": clauses.neighbours_differ_by_no_more,
    "d hostile data": hostile.hostile_data_shows_nothing,
    "e checks are called": hostile.agreed_terms_are_checked,
    "f streams": clauses.streams_are_separated,
}
OURS = [path.parent.name for path in Path(__file__).parents[2].glob("components/*/component.py")]
COMPONENTS = sorted([TEMPLATE, *OURS])


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contract(case, clause, tmp_path, record_property):
    record_property("cell", f"{case.name}, {clause}")
    if (case.component, clause) in EXCUSED:
        pytest.skip(EXCUSED[case.component, clause])
    problems = CLAUSES[clause](case, tmp_path)
    assert not problems, "\n".join(problems)


def test_no_component_is_left_out():
    assert sorted({case.component for case in CASES}) == COMPONENTS
