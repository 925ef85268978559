"""Audits of every mechanism find less than is claimed, yet not absurdly little, beside controls that they break."""

import pytest

from tests.statistical.audits import AUDITS

pytestmark = pytest.mark.statistical
# An attack that finds less than this share of a claim that is tight would be too weak to mean much.
POWER = 0.25


@pytest.mark.parametrize("name", AUDITS)
def test_audit_finds_less_than_is_claimed_but_not_absurdly_little(name):
    audit = AUDITS[name]()
    assert POWER * audit.claimed < audit.found <= audit.claimed < audit.control
