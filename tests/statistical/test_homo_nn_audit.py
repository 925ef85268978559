"""Audits of whole trainings find less than is claimed, beside controls without noise that they break."""

import pytest

from tests.statistical.homo_nn_training import AUDITS

pytestmark = pytest.mark.statistical
# An attack that finds less than this share of the claim would be too weak to mean much; 0 where the claim is an upper
# bound on amplification, which no attack is known to come near.
POWER = {"shuffle_one_canary_among_many": 0.0, "shuffle_many_canaries": 0.6}
USUAL_POWER = 0.25


@pytest.mark.parametrize("name", AUDITS)
def test_audit_finds_less_than_is_claimed_but_not_absurdly_little(name):
    audit = AUDITS[name]()
    assert POWER.get(name, USUAL_POWER) * audit.claimed <= audit.found <= audit.claimed < audit.control
