"""Every clause of the contract for every component, stage and setting."""

import pytest

from . import clauses, hostile
from .registry import CASES

CLAUSES = {
    "a drawn is charged": clauses.drawn_is_charged,
    "b charged before it leaves": clauses.charged_before_it_leaves,
    "c neighbours": clauses.neighbours_differ_by_no_more,
    "d hostile data": hostile.hostile_data_shows_nothing,
    "e checks are called": hostile.agreed_terms_are_checked,
    "f streams": clauses.streams_are_separated,
}


@pytest.mark.parametrize("clause", CLAUSES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_contract(case, clause, tmp_path):
    problems = CLAUSES[clause](case, tmp_path)
    assert not problems, "\n".join(problems)
