"""Noise on contingency tables as another party sees it, audited beside mutants that must fail.

The observer is a host: it knows its own rows and its own noise, subtracts both, and is left with the guest's tables plus the
guest's noise. The guest's two records are a worst pair: one bin and the label differ.
"""

import math

import numpy as np
import pytest

from fate_dp.privacy.mechanisms import contingency_tables
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS, TARGET, BinnedRows, ContingencyTables
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits
from tests.statistical.mutants import keys_are_constant, noise_halved, noise_off
from tests.statistical.test_second_moments_noise import LIMIT, WRONG
from tests.support.distinguishing import audit_claim

pytestmark = pytest.mark.statistical
RUNS = 800
UNIT = 2.0**-FRACTION_BITS
GUEST, HOST = BinnedRows((2, 2), labelled=True), BinnedRows((2, 2, 2, 2, 2, 2))
TABLES = ContingencyTables((GUEST, HOST), (1.0, 1.0))
FIRST, SECOND = np.array([1, 0, 1, 0, TARGET]), np.array([0, 1, 1, 0, -TARGET])
OF_HOST = np.array([1, 0] * 6)
APART = np.triu(GUEST.column_of_bins()[:, None] != GUEST.column_of_bins(), 1)


def seen(own, cross):
    """The entries with noise as one vector on which it is even: pairs count sqrt(2) times."""
    return np.concatenate([np.diag(own)[: GUEST.bins], math.sqrt(2) * own[APART], cross.ravel()])


def test_the_scale_is_right_and_two_thirds_and_three_halves_are_rejected():
    stream = ReproducibleStream(11)
    draws = [TABLES.draw(0, "host", stream) for _ in range(400)]
    for part in (
        lambda noise: np.diag(noise.own)[: GUEST.bins],
        lambda noise: math.sqrt(2) * noise.own[APART],
        lambda noise: noise.cross[1],
    ):
        squares = np.array([part(noise) for noise in draws], dtype=float) ** 2 * (UNIT / TABLES.sigma(0)) ** 2

        def score(factor):
            return abs(squares.mean() / factor**2 - 1) / math.sqrt(2 / squares.size)

        assert score(1) < LIMIT < min(map(score, WRONG))


def audit():
    """The score is the place along the line from one record's tables to the other's: the best that can be done."""
    exact = {row.tobytes(): seen(np.outer(row, row), np.outer(row, OF_HOST)) for row in (FIRST, SECOND)}
    line = exact[SECOND.tobytes()] - exact[FIRST.tobytes()]

    def release(row, stream):
        noise = TABLES.draw(0, "host", stream)
        return (exact[row.tobytes()] + seen(noise.own * UNIT, noise.cross[1] * UNIT)) @ line

    control = audits.without_privacy(lambda row: exact[row.tobytes()] @ line)
    claimed = audits.stated_epsilon(TABLES.draw(0, "host").event)
    return audit_claim(audits.gaussian_attack(FIRST, SECOND), audits.run_by_run(release), control, claimed)


# As if the label could not change, or the tables with others did not exist.
WITHOUT_LABEL = ContingencyTables((BinnedRows(GUEST.counts), HOST), (1.0, 1.0)).sensitivity(0)
OWN_TABLE = math.sqrt(2) * GUEST.square / 2


def sensitivity_is(value, patch):
    patch.setattr(ContingencyTables, "sensitivity", lambda self, party, relation="replace_one": value)


MUTANTS = {
    "noise off": lambda patch: noise_off(contingency_tables, "discrete_gaussian", patch),
    "half noise": lambda patch: noise_halved(contingency_tables, "discrete_gaussian", patch),
    "the label counts as public": lambda patch: sensitivity_is(WITHOUT_LABEL, patch),
    "the own table only": lambda patch: sensitivity_is(OWN_TABLE, patch),
}


def test_the_audit_does_not_refute_the_claim(monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    found = audit()
    assert not found.refutes and found.found > found.claimed / 5 and found.control > found.claimed


@pytest.mark.parametrize("name", MUTANTS)
def test_the_audit_refutes_mutants(name, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    MUTANTS[name](monkeypatch)
    assert audit().refutes


def test_a_fixed_seed_is_noticed(monkeypatch):
    def two_draws_differ():
        first, second = (TABLES.draw(0, "host").cross[1] for _ in range(2))
        return not (first == second).any()

    assert two_draws_differ()
    keys_are_constant(monkeypatch)
    assert not two_draws_differ()


def test_the_two_records_are_a_worst_pair():
    moved = seen(np.outer(FIRST, FIRST), np.outer(FIRST, OF_HOST)) - seen(
        np.outer(SECOND, SECOND), np.outer(SECOND, OF_HOST)
    )
    assert np.linalg.norm(moved) == pytest.approx(TABLES.sensitivity(0))
