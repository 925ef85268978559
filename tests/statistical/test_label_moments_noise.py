"""Noise on X^T t as an observer sees it who knows all rows: of the stated scale, and audited beside mutants that must fail."""

import math

import numpy as np
import pytest

from fate_dp.privacy.mechanisms import label_moments
from fate_dp.privacy.mechanisms.label_moments import LabelMoments
from fate_dp.privacy.mechanisms.second_moments import RowBounds, clip_rows, clip_target
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits
from tests.statistical.mutants import keys_are_constant, noise_halved, noise_off
from tests.statistical.test_second_moments_noise import LIMIT, UNIT, WRONG, variance_score
from tests.support.distinguishing import audit_claim

pytestmark = pytest.mark.statistical
RUNS = 800
# One record that fills its clips, an intercept beside them; its label is replaced, and other rows stay.
OWN, OTHER = RowBounds(2, 1.0, intercept=True, target=2.0), RowBounds(2, 1.4)
FEATURES = [np.array([[600.0, 800.0], [0.1, 0.2]]), np.array([[9.0, 9.0], [0.3, 0.0]])]
ZERO, ONE = np.array([-2.0, 2.0]), np.array([2.0, 2.0])
MOMENTS = LabelMoments.of_rows((OWN, OTHER), 1.0)


def test_the_scale_is_right_and_two_thirds_and_three_halves_are_rejected():
    for moments in (LabelMoments((39.0, 40.0, 1.0), 1.0, 3.7), LabelMoments((0.5,), 4.0, 0.4)):
        stream = ReproducibleStream(11)
        noise = [moments.draw(300, "model", stream).values for _ in range(4)]
        assert variance_score(noise, moments.sigma) < LIMIT
        assert all(variance_score(noise, moments.sigma * wrong) > LIMIT for wrong in WRONG)


def test_no_two_entries_share_their_noise():
    assert len(set(map(abs, MOMENTS.draw(5, "host", ReproducibleStream(5)).values))) == 5


def sums_of(targets):
    """X^T t as integers in units of 2^-48, of rows and targets as the parties clip them."""
    bits = MOMENTS.fraction_bits
    parts = [clip_rows(own, np.ones(2), bounds, bits) for own, bounds in zip(FEATURES, (OWN, OTHER))]
    rows = np.hstack([parts[0], np.full((2, 1), 2**24), parts[1]]).astype(object)
    return rows.T @ clip_target(targets, OWN, bits).astype(object)


def audit():
    """The score is the place along the line from one label's sums to the other's: the best that can be done."""
    exact = {id(targets): sums_of(targets) for targets in (ZERO, ONE)}
    line = np.array(exact[id(ONE)] - exact[id(ZERO)], dtype=float) / UNIT

    def release(targets, stream):
        return np.array(MOMENTS.release(exact[id(targets)], "host", stream).value, dtype=float) / UNIT @ line

    control = audits.without_privacy(lambda targets: np.array(exact[id(targets)], dtype=float) / UNIT @ line)
    claimed = audits.stated_epsilon(MOMENTS.draw(5, "host").event)
    return audit_claim(audits.gaussian_attack(ZERO, ONE), audits.run_by_run(release), control, claimed)


def sensitivity_times(factor, patch):
    stated = LabelMoments.sensitivity.fget
    patch.setattr(LabelMoments, "sensitivity", property(lambda self: factor * stated(self)))


MUTANTS = {
    "noise off": lambda patch: noise_off(label_moments, "discrete_gaussian", patch),
    "half noise": lambda patch: noise_halved(label_moments, "discrete_gaussian", patch),
    "half of the spread": lambda patch: sensitivity_times(0.5, patch),
    "the guest's own rows only": lambda patch: sensitivity_times(math.sqrt(2 / (2 + 1.4**2)), patch),
}


def test_the_audit_does_not_refute_the_claim(monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    found = audit()
    assert not found.refutes and found.found > found.claimed / 5 and found.control > found.claimed


@pytest.mark.parametrize("name", MUTANTS)
def test_the_audit_refutes_mutants(name, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", 4 * RUNS if name.startswith("the guest") else RUNS)
    MUTANTS[name](monkeypatch)
    assert audit().refutes


def test_a_fixed_seed_is_noticed(monkeypatch):
    def two_draws_differ():
        first, second = (MOMENTS.draw(3, "host").values for _ in range(2))
        return not (first == second).any()

    assert two_draws_differ()
    keys_are_constant(monkeypatch)
    assert not two_draws_differ()
