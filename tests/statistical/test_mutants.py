"""Every mutant is noticed by the audit or the property beside it in ``mutants.MUTANTS``; unbroken, all of them hold."""

import pytest

from tests.statistical.audits import AUDITS
from tests.statistical.mutants import MUTANTS
from tests.statistical.properties import PROPERTIES

pytestmark = pytest.mark.statistical


@pytest.mark.parametrize("name", PROPERTIES)
def test_property_holds(name):
    PROPERTIES[name]()


@pytest.mark.parametrize("broken, mutate, check", MUTANTS, ids=[f"{broken}: {check}" for broken, _, check in MUTANTS])
def test_mutant_is_noticed(broken, mutate, check, monkeypatch):
    mutate(monkeypatch)
    if check in AUDITS:
        assert AUDITS[check]().refutes
    else:
        with pytest.raises(AssertionError):
            PROPERTIES[check]()


def test_every_audit_and_property_is_known_to_notice_something():
    assert {check for _, _, check in MUTANTS} == {*AUDITS, *PROPERTIES}
