"""Noise on second moments as another party sees it: of the stated scale, and audited beside mutants that must fail.

The observer is another data party: it knows its own rows and its own noise, subtracts both, and is left with the
moments plus the noise of the party under attack alone.
"""

import math

import numpy as np
import pytest

from fate_dp.privacy.mechanisms import second_moments
from fate_dp.privacy.mechanisms import second_moments as bounded_rows
from fate_dp.privacy.mechanisms.second_moments import RowBounds, SecondMoments, clip_rows, unit_scales
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits
from tests.statistical.mutants import keys_are_constant, noise_halved, noise_off
from tests.support.distinguishing import audit_claim

pytestmark = pytest.mark.statistical
LIMIT = 5.0
WRONG = (2 / 3, 3 / 2)
UNIT = 2.0**48
RUNS = 800
# The worst case: at radius 1 and Q = 1.96 the cosine between the two rows is -0.98. They lie far beyond the clip.
OWN, OTHER = RowBounds(2, 1.0), RowBounds(1, 1.4)
FIRST, SECOND = np.array([[1000.0, 0.0]]), np.array([[-980.0, 1000 * math.sqrt(1 - 0.98**2)]])
MOMENTS = SecondMoments((OWN, OTHER), (1.0, 1.0))


def variance_score(noise, scale):
    """By how many standard deviations the mean square differs from that of noise of the stated scale."""
    squares = (np.asarray(noise, dtype=float) / UNIT / scale) ** 2
    return abs(squares.mean() - 1) / math.sqrt(2 / squares.size)


def test_the_scale_is_right_and_two_thirds_and_three_halves_are_rejected():
    moments = SecondMoments((RowBounds(39, 6.0, intercept=True, target=2.0), RowBounds(40, 6.0)), (1.5, 0.7))
    stream = ReproducibleStream(11)
    for party, other in ((0, 1), (1, 0)):
        draws = [moments.draw(party, "model", stream) for _ in range(6)]
        moving, sigma = moments.bounds[party].moving, moments.sigma(party)
        above = np.triu_indices(moments.bounds[party].columns, 1)
        parts = (
            ([draw.gram[moving, moving] for draw in draws], sigma),
            ([draw.gram[above] for draw in draws], sigma / math.sqrt(2)),
            ([draw.cross[other][moving] for draw in draws], sigma),
        )
        for noise, scale in parts:
            assert variance_score(noise, scale) < LIMIT
            assert all(variance_score(noise, scale * wrong) > LIMIT for wrong in WRONG)


def test_no_two_entries_share_their_noise():
    draw = MOMENTS.draw(0, "host", ReproducibleStream(5))
    entries = [*draw.gram[np.triu_indices(2)], *draw.cross[1].ravel()]
    assert len(set(map(abs, entries))) == 5


def moments_of(features):
    """Gram matrix and cross block of a table of one record, the other's row as long as it may be; unit 2^-48."""
    rows = clip_rows(features, unit_scales(OWN), OWN, MOMENTS.fraction_bits).astype(object)
    other = clip_rows([[9.0]], unit_scales(OTHER), OTHER, MOMENTS.fraction_bits).astype(object)
    return rows.T @ rows, rows.T @ other


def seen(gram, cross):
    """The moments as one vector on which the noise is even: the off-diagonal entry counts sqrt(2) times."""
    vector = [gram[0, 0], gram[1, 1], math.sqrt(2) * int(gram[0, 1]), *cross.ravel()]
    return np.array(vector, dtype=float) / UNIT


def audit():
    """The score is the place along the line from one table's moments to the other's: the best that can be done."""
    exact = {id(features): moments_of(features) for features in (FIRST, SECOND)}
    line = seen(*exact[id(SECOND)]) - seen(*exact[id(FIRST)])

    def release(features, stream):
        (gram, cross), noise = exact[id(features)], MOMENTS.draw(0, "host", stream)
        return seen(gram + noise.gram, cross + noise.cross[1]) @ line

    control = audits.without_privacy(lambda features: seen(*exact[id(features)]) @ line)
    claimed = audits.stated_epsilon(MOMENTS.draw(0, "host").event)
    return audit_claim(audits.gaussian_attack(FIRST, SECOND), audits.run_by_run(release), control, claimed)


def own_block_only(patch):
    patch.setattr(second_moments, "replace_one_sensitivity", lambda own, others: math.sqrt(2) * own)


MUTANTS = {
    "noise off": lambda patch: noise_off(second_moments, "discrete_gaussian", patch),
    "half noise": lambda patch: noise_halved(second_moments, "discrete_gaussian", patch),
    "clip off": lambda patch: patch.setattr(bounded_rows, "_shortened", lambda rows, radius: rows / 100),
    "sensitivity of the own block only": own_block_only,
}


def test_the_audit_does_not_refute_the_claim(monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    found = audit()
    assert not found.refutes and found.found > found.claimed / 5


@pytest.mark.parametrize("name", MUTANTS)
def test_the_audit_refutes_mutants(name, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    MUTANTS[name](monkeypatch)
    assert audit().refutes


def two_draws_differ():
    draws = [MOMENTS.draw(0, "host") for _ in range(2)]
    return not (draws[0].cross[1] == draws[1].cross[1]).any()


def test_a_fixed_seed_is_noticed(monkeypatch):
    assert two_draws_differ()
    keys_are_constant(monkeypatch)
    assert not two_draws_differ()
