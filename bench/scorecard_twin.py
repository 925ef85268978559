"""The scorecard without cryptography: what the parties of ``dp_scorecard`` would compute together from the same tables.

Noise, ridge and fit are those of the component; only the sums are in float64 here. Streams are seeded, so nothing is
private.
"""

import math

import numpy as np

from fate_dp.components.dp_scorecard.additive import label_moments_of, label_ridge, solve
from fate_dp.crypto.contingency import one_hot
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS, TARGET, BinnedRows, ContingencyTables
from fate_dp.privacy.mechanisms.second_moments import UNIT_BITS, noise_multiplier_for

UNIT = 2.0**-FRACTION_BITS
RIDGE_WITHOUT_NOISE = 1.0
OBSERVERS = ("host", "model")


def rows_of(bins, parts):
    """Rows of zeros and ones of all parties, side by side, float64."""
    return np.hstack(
        [one_hot(own.places(own.codes(part)), own.total) for own, part in zip(bins, parts)], dtype=np.float64
    )


def fit_without_noise(bins, parts, labels):
    rows = rows_of(bins, parts)
    return solve(rows.T @ rows, rows.T @ target(labels), RIDGE_WITHOUT_NOISE)


def fit_records(bins, parts, labels, epsilon, delta, stream):
    """Each party's own noise at (epsilon, delta) on all tables that it has a part in."""
    tables = tables_of(bins, [noise_multiplier_for(epsilon, delta)] * len(bins))
    matrix, linear = noisy_sums(tables, bins, parts, labels, stream)
    return solve(matrix, linear, tables.required_ridge())


def fit_labels(bins, parts, labels, epsilon, delta, stream, host_epsilon=None):
    """Noise on X^T t, and that of hosts on their tables at (host_epsilon, delta); None leaves theirs out."""
    hosts = 0.0 if host_epsilon is None else noise_multiplier_for(host_epsilon, delta)
    tables = tables_of(bins, [0.0] + [hosts] * (len(bins) - 1))
    matrix, linear = noisy_sums(tables, bins, parts, labels, stream)
    moments = label_moments_of([part.shape[1] for part in parts], noise_multiplier_for(epsilon, delta))
    noise = moments.draw(len(linear), OBSERVERS, stream).values.astype(float) * 4.0**-UNIT_BITS
    ridge = math.hypot(tables.required_ridge(), label_ridge(moments, len(linear)))
    return solve(matrix, linear + noise, ridge)


def tables_of(bins, multipliers):
    """The terms of the tables, the guest's part first."""
    sizes = tuple(BinnedRows(own.counts, labelled=not position) for position, own in enumerate(bins))
    return ContingencyTables(sizes, tuple(multipliers))


def noisy_sums(tables, bins, parts, labels, stream):
    """X^T X and X^T t with the noise of every party that has some."""
    rows = rows_of(bins, parts)
    widths = [size.width for size in tables.parties]
    # The guest's target is the last of its entries.
    places = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
    at = tables.parties[0].bins
    joint = np.insert(rows, at, target(labels), axis=1)
    sums = joint.T @ joint
    for party, own in enumerate(places):
        noise = tables.draw(party, OBSERVERS, stream)
        sums[np.ix_(own, own)] += noise.own * UNIT
        for other, block in noise.cross.items():
            sums[np.ix_(own, places[other])] += block * UNIT
            sums[np.ix_(places[other], own)] += block.T * UNIT
    kept = np.delete(np.arange(len(sums)), at)
    return sums[np.ix_(kept, kept)], sums[kept, at]


def target(labels):
    return TARGET * (2.0 * labels - 1.0)
