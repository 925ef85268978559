"""Vertical training on noisy second moments, without cryptography: what the parties would compute together.

Clipping, scales, noise and their sizes are those of ``fate_dp.privacy``; only the sums are in float64 here, and the
model is the exact minimiser to which enough epochs of descent lead. Streams are seeded, so nothing here is private.
"""

from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.adaptive_scales import AdaptiveBudget, adaptive_scales, contribution_sums, release_contributions
from fate_dp.privacy.mechanisms.second_moments import (
    UNIT_BITS,
    RowBounds,
    SecondMoments,
    clip_rows,
    clip_target,
    noise_multiplier_for,
    unit_scales,
)

CURVATURE = 4
TARGET = CURVATURE / 2
MODEL = ("host", "model")


@dataclass(frozen=True, eq=False)
class Model:
    """Weights in the unit of the unscaled features, per party; scales and bounds with which rows were clipped."""

    weights: tuple[np.ndarray, ...]
    intercept: float
    scales: tuple[np.ndarray, ...]
    bounds: tuple[RowBounds, ...]

    def scores(self, parts):
        """Joint scores of rows as they are."""
        return sum(part @ own for part, own in zip(parts, self.weights)) + self.intercept

    def scores_of_clipped(self, parts):
        """Joint scores when every party clips its rows before scoring, too, as it did before training."""
        clipped = [
            clip_rows(part, own, bounds) * 2.0**-UNIT_BITS * own
            for part, own, bounds in zip(parts, self.scales, self.bounds)
        ]
        return self.scores(clipped)


def bounds_of(task, radius_factor=1.0):
    """Public bounds: a radius is the norm of a typical row, times a factor; the target is 4 (y - 1/2)."""
    radii = [radius_factor * square**0.5 for square in task.typical_squares]
    return tuple(
        RowBounds(features, radius, intercept=position == 0, target=TARGET if position == 0 else 0.0)
        for position, (features, radius) in enumerate(zip(task.features, radii))
    )


def fit_uniform(task, bounds, epsilon, delta, stream):
    """One noisy release, all scales 1."""
    multiplier = noise_multiplier_for(epsilon, delta)
    return fit_noisy(task, bounds, [unit_scales(own) for own in bounds], multiplier, stream)


def fit_adaptive(task, bounds, epsilon, delta, stream, power=-0.5):
    """First fit, contributions and scales of each party, and training, within the same (epsilon, delta)."""
    budget = AdaptiveBudget(epsilon, delta)
    even = [unit_scales(own) for own in bounds]
    first = fit_noisy(task, bounds, even, budget.first_fit_multiplier, stream)
    scales = []
    for part, weights in zip(task.train_parts, first.weights):
        sums = contribution_sums(part, weights)
        released = release_contributions(
            sums, len(part), budget.contribution_epsilon, observers=MODEL, rng=stream
        ).value
        scales.append(adaptive_scales(released, power))
    return fit_noisy(task, bounds, scales, budget.training_multiplier, stream)


def fit_noisy(task, bounds, scales, multiplier, stream):
    """Minimiser of w^T H w / 2 - b^T w with the required ridge, H and b from noisy moments of clipped rows."""
    moments = SecondMoments(bounds, (multiplier,) * len(bounds))
    rows = [
        party_rows(part, task.train_labels, own, own_scales, moments.fraction_bits)
        for part, own, own_scales in zip(task.train_parts, bounds, scales)
    ]
    noisy = np.hstack(rows).T @ np.hstack(rows) + joint_noise(moments, stream)
    kept = np.concatenate([np.arange(own.columns) < own.weights for own in bounds])
    (target,) = np.flatnonzero(~kept)
    scale = CURVATURE * len(task.train_labels)
    hessian, linear = noisy[np.ix_(kept, kept)] / scale, noisy[kept, target] / scale
    ridge = moments.required_ridge(len(task.train_labels), CURVATURE)
    return in_feature_units(solve(hessian, linear, ridge), bounds, scales)


def fit_without_noise(task, alpha):
    """The same least squares with neither clip nor noise, and a ridge of ``alpha``."""
    ones = np.ones((len(task.train_labels), 1))
    rows = np.hstack([task.train_parts[0], ones, *task.train_parts[1:]])
    target = CURVATURE * (task.train_labels - 0.5)
    scale = CURVATURE * len(rows)
    bounds = bounds_of(task)
    weights = solve(rows.T @ rows / scale, rows.T @ target / scale, alpha)
    return in_feature_units(weights, bounds, [unit_scales(own) for own in bounds])


def party_rows(part, labels, bounds, scales, fraction_bits):
    """All columns of a party's rows as floats, exactly the integers that would be encrypted."""
    columns = [clip_rows(part, scales, bounds, fraction_bits)]
    if bounds.intercept:
        columns.append(np.full((len(part), 1), 2**UNIT_BITS))
    if bounds.target:
        columns.append(clip_target(CURVATURE * (labels - 0.5), bounds, fraction_bits)[:, None])
    return np.hstack(columns) * 2.0**-UNIT_BITS


def joint_noise(moments, stream):
    """Noise on the joint moments: each party's own Gram matrix, and both parties' noise on a cross block."""
    ends = np.cumsum([0, *(own.columns for own in moments.bounds)])
    places = [slice(start, end) for start, end in zip(ends, ends[1:])]
    noise = np.zeros((ends[-1], ends[-1]))
    for party, place in enumerate(places):
        drawn = moments.draw(party, MODEL, stream)
        noise[place, place] += drawn.gram.astype(float)
        for other, block in drawn.cross.items():
            noise[place, places[other]] += block.astype(float)
            noise[places[other], place] += block.astype(float).T
    return noise * 4.0**-UNIT_BITS


def solve(hessian, linear, ridge):
    return np.linalg.solve(hessian + ridge * np.eye(len(linear)), linear)


def in_feature_units(weights, bounds, scales):
    """The joint weights of scaled features, divided between the parties and by the scales."""
    parts = np.split(weights, np.cumsum([own.weights for own in bounds])[:-1])
    mapped = tuple(own[: bound.features] / scale for own, bound, scale in zip(parts, bounds, scales))
    return Model(mapped, float(parts[0][-1]), tuple(scales), tuple(bounds))
