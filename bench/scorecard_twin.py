"""The scorecard without cryptography: what the parties of ``dp_scorecard`` would compute together from the same tables.

Noise, ridge and fit are those of the component; only the sums are in float64 here. Streams are seeded, so nothing is
private.
"""

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
    sizes = tuple(BinnedRows(own.counts, labelled=not position) for position, own in enumerate(bins))
    tables = ContingencyTables(sizes, (noise_multiplier_for(epsilon, delta),) * len(sizes))
    rows = rows_of(bins, parts)
    widths = [size.width for size in sizes]
    # The guest's target is the last of its entries.
    places = np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])
    at = sizes[0].bins
    joint = np.insert(rows, at, target(labels), axis=1)
    sums = joint.T @ joint
    for party, own in enumerate(places):
        noise = tables.draw(party, OBSERVERS, stream)
        sums[np.ix_(own, own)] += noise.own * UNIT
        for other, block in noise.cross.items():
            sums[np.ix_(own, places[other])] += block * UNIT
            sums[np.ix_(places[other], own)] += block.T * UNIT
    kept = np.delete(np.arange(len(sums)), at)
    return solve(sums[np.ix_(kept, kept)], sums[kept, at], tables.required_ridge())


def fit_labels(bins, parts, labels, epsilon, delta, stream):
    """Noise on X^T t alone."""
    rows = rows_of(bins, parts)
    moments = label_moments_of([part.shape[1] for part in parts], noise_multiplier_for(epsilon, delta))
    noise = moments.draw(rows.shape[1], OBSERVERS, stream).values.astype(float) * 4.0**-UNIT_BITS
    return solve(rows.T @ rows, rows.T @ target(labels) + noise, label_ridge(moments, rows.shape[1]))


def target(labels):
    return TARGET * (2.0 * labels - 1.0)
