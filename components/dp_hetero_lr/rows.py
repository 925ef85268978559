"""A party's rows as the trainer holds them: fixed-point features block by block, and what is computed from them.

Everything is exact or done in one fixed order, so that training twice on the same rows gives bit-identical weights, with
full batches however the rows are spread over blocks (batches are consecutive rows, whose order FATE derives from the
spread). The host's ledger counts *different* scores, so this matters.
"""
from functools import partial
from typing import NamedTuple, Optional

import numpy as np

from fate_dp.components.common.frames import block_starts, collect_column, feature_blocks, label_blocks
from fate_dp.crypto.fixed_point import FEATURE_FRACTION_BITS, encode_features


class Block(NamedTuple):
    """Rows of one block: global index of the first one, int64 features (rows, m), labels (rows,) at the guest."""

    start: int
    features: np.ndarray
    labels: Optional[np.ndarray] = None

    def within(self, first: int, last: int) -> "Block":
        """The rows whose global index lies in [first, last)."""
        low = min(max(first - self.start, 0), len(self.features))
        high = min(max(last - self.start, 0), len(self.features))
        labels = None if self.labels is None else self.labels[low:high]
        return Block(self.start + low, self.features[low:high], labels)

    def quarter_scores(self, weights: np.ndarray) -> np.ndarray:
        """X w / 4 in float64, summed column by column so that a row's value does not depend on its neighbours."""
        total, unit = np.zeros(len(self.features)), 0.25 * 2.0**-FEATURE_FRACTION_BITS
        for column, weight in enumerate(weights):
            total += self.features[:, column] * (unit * weight)
        return total

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """X w in float64."""
        return 4.0 * self.quarter_scores(weights)


def prepare_rows(frame, *, fit_intercept: bool, with_label: bool):
    """Table block key -> `Block`; an intercept column of ones is appended last."""
    blocks = feature_blocks(frame).mapValues(partial(_encode, fit_intercept=fit_intercept))
    blocks = blocks.mapPartitions(partial(_with_start, starts=block_starts(frame)), preserves_partitioning=True)
    return blocks.join(label_blocks(frame), _with_labels) if with_label else blocks


def scores(rows, weights: np.ndarray):
    """Table of float64 arrays X w: this party's part of every record's score."""
    return rows.mapValues(partial(_scores, weights=weights))


def relabel(rows, labels: np.ndarray):
    """The rows with new labels, given as one column in global row order."""
    return rows.mapValues(partial(_relabelled, labels=labels))


def labels_of(rows) -> np.ndarray:
    """The label column on the guest's driver, in global row order."""
    return collect_column(rows.mapValues(_labels))


def _encode(features, fit_intercept):
    if fit_intercept:
        features = np.hstack([features, np.ones((len(features), 1))])
    return encode_features(features)


def _with_start(blocks, starts):
    for key, features in blocks:
        yield key, Block(starts[key], features)


def _with_labels(block, labels):
    return block._replace(labels=labels)


def _scores(block, weights):
    return block.scores(weights)


def _relabelled(block, labels):
    return block._replace(labels=labels[block.start : block.start + len(block.features)])


def _labels(block):
    return block.labels
