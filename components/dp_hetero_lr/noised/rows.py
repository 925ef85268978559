"""Rows of bounded norm from a party's block tables, and what adaptive scales read of them."""
from functools import partial

import numpy as np

from fate_dp.crypto.fixed_point import FEATURE_FRACTION_BITS
from fate_dp.privacy.adaptive_scales import contribution_sums
from fate_dp.privacy.mechanisms.bounded_rows import RowBounds, clip_rows, clip_target

from .joint_noise import CURVATURE


def clipped(rows, scales: np.ndarray, bounds: RowBounds, fraction_bits: int):
    """The rows with their features divided by the scales, clipped and rounded to the grid; an intercept stays 1."""
    return rows.mapValues(partial(_clipped, scales=scales, bounds=bounds, fraction_bits=fraction_bits))


def clipped_targets(labels: np.ndarray, bounds: RowBounds, fraction_bits: int) -> np.ndarray:
    """float64 (rows,): the targets c (y - 1/2) on the grid, of which `own_targets` makes the exact integers."""
    return clip_target(CURVATURE * (labels - 0.5), bounds, fraction_bits) * 2.0**-FEATURE_FRACTION_BITS


def contributions(rows, weights: np.ndarray, features: int) -> np.ndarray:
    """int64 (features,): sums over all records of `contribution_sums`; secret.

    A record's contributions are divided by their sum, so it does not matter by how much its row would be shortened.
    """
    return rows.mapValues(partial(_contributions, weights=weights[:features])).reduce(np.add)


def _clipped(block, scales, bounds, fraction_bits):
    features = clip_rows(_numbers(block, bounds.features), scales, bounds, fraction_bits)
    return block._replace(features=np.hstack([features, block.features[:, bounds.features :]]))


def _contributions(block, weights):
    return contribution_sums(_numbers(block, len(weights)), weights)


def _numbers(block, features):
    return block.features[:, :features] * 2.0**-FEATURE_FRACTION_BITS
