"""Checks of a party's own table before work starts; each raises ValueError with one sentence."""
from functools import partial

import numpy as np

from .frames import feature_blocks, label_blocks
from .record_stream import count_distinct_ids


def require_rows(frame) -> None:
    if frame.shape[0] == 0:
        raise ValueError("The table has no rows: the parties have no ids in common.")


def require_label(frame) -> None:
    """The guest must have rows and a label column."""
    require_rows(frame)
    if frame.schema.label_name is None:
        raise ValueError("The guest's table has no label column; upload it with label_name set.")


def refuse_label(frame) -> None:
    """A host must have rows and no label column."""
    require_rows(frame)
    if frame.schema.label_name is not None:
        raise ValueError(f"The host's table has the label column {frame.schema.label_name!r}; only the guest has labels.")


def refuse_weight(frame) -> None:
    if frame.schema.weight_name is not None:
        raise ValueError(f"The table has the weight column {frame.schema.weight_name!r}; sample weights are not supported.")


def require_distinct_ids(frame) -> None:
    if count_distinct_ids(frame) != frame.shape[0]:
        raise ValueError("An id occurs more than once in the table; every record needs its own match id.")


def distinct_labels(frame, limit: int) -> set:
    """Label values that occur, at most ``limit + 1`` per block. Raises ValueError when a label is missing."""
    values = label_blocks(frame).mapValues(partial(_distinct, limit=limit)).reduce(_union)
    if any(np.isnan(value) for value in values):
        raise ValueError("A label is missing; every record of the guest must have one.")
    return values


def check_features(frame, magnitude: float, constant_allowed: bool = False) -> None:
    """Features must exist, be numbers, finite, below ``magnitude`` and not constant; names the first bad column."""
    names = frame.schema.columns.to_list()
    if not names:
        raise ValueError("The table has no feature columns; each data party needs at least one.")
    for name in names:
        if not frame.data_manager.get_block(frame.data_manager.loc_block(name, with_offset=False)).is_numeric():
            raise ValueError(f"Feature {name!r} is not numeric; all features must be numbers.")
    low, high, finite = feature_blocks(frame).mapValues(_ranges).reduce(_merge_ranges)
    for name, smallest, largest, sound in zip(names, low, high, finite):
        if not sound:
            raise ValueError(f"Feature {name!r} has a missing or infinite value; all values must be finite numbers.")
        if smallest == largest and not constant_allowed:
            raise ValueError(f"Feature {name!r} is constant; drop it before training.")
        if max(-smallest, largest) >= magnitude:
            raise ValueError(f"Feature {name!r} reaches a magnitude of {magnitude:g}; standardise the features.")


def _distinct(labels, limit):
    if np.isnan(labels).any():
        return {float("nan")}
    return set(np.unique(labels)[: limit + 1].tolist())


def _union(first, second):
    return first | second


def _ranges(features):
    finite = np.isfinite(features).all(axis=0)
    safe = np.where(np.isfinite(features), features, 0.0)
    return safe.min(axis=0), safe.max(axis=0), finite


def _merge_ranges(first, second):
    return np.minimum(first[0], second[0]), np.maximum(first[1], second[1]), first[2] & second[2]
