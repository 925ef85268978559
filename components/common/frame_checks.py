"""Checks of a party's own table before work starts; each raises ValueError with one sentence."""
import operator
from functools import partial

import numpy as np

from fate_dp.crypto.fixed_point import MAGNITUDE_BITS, ROW_BITS

from .frames import feature_blocks, label_blocks, unusable_ids
from .preflight import PrivateReason
from .record_stream import count_distinct_ids

FEATURE_LIMIT = 2.0**MAGNITUDE_BITS


def check_guest_table(frame) -> None:
    """What the guest must bring to any task on labels: rows, a label column, sound features."""
    require_rows(frame)
    if frame.schema.label_name is None:
        raise ValueError("The guest's table has no label column; upload it with label_name set.")
    if label_blocks(frame).mapValues(_any_missing).reduce(operator.or_):
        raise ValueError("A label is missing; every record of the guest must have one.")
    check_training_table(frame)


def check_host_table(frame) -> None:
    """What a host must bring: rows, no label column, sound features."""
    refuse_label(frame)
    check_training_table(frame)


def check_training_table(frame) -> None:
    """What training needs of the table of any party."""
    if frame.schema.weight_name is not None:
        raise PrivateReason(
            f"The table has the weight column {frame.schema.weight_name!r}; sample weights are not supported.",
            public="The table has a weight column; sample weights are not supported.",
        )
    require_distinct_ids(frame)
    low, high = check_features(frame)
    for name, smallest, largest in zip(frame.schema.columns, low, high):
        if smallest == largest:
            raise bad_feature(name, "is constant; drop it before training")


def require_rows(frame) -> None:
    if frame.shape[0] == 0:
        raise ValueError("The table has no rows: the parties have no ids in common.")
    if frame.shape[0] > 2**ROW_BITS:
        raise ValueError(f"The table has {frame.shape[0]} rows; at most 2^{ROW_BITS} fit into an encrypted sum.")


def refuse_label(frame) -> None:
    """A host must have rows and no label column."""
    require_rows(frame)
    if frame.schema.label_name is not None:
        raise PrivateReason(
            f"The host's table has the label column {frame.schema.label_name!r}; only the guest has labels.",
            public="The host's table has a label column; only the guest has labels.",
        )


def require_distinct_ids(frame) -> None:
    """Records without an id would otherwise match each other."""
    if unusable_ids(frame).reduce(operator.or_):
        raise ValueError("A match id is missing, empty or no valid text; every record needs its own match id.")
    if count_distinct_ids(frame) != frame.shape[0]:
        raise ValueError("An id occurs more than once in the table; every record needs its own match id.")


def distinct_labels(frame, limit: int) -> set:
    """Label values that occur, at most ``limit + 1`` per block."""
    return label_blocks(frame).mapValues(partial(_distinct, limit=limit)).reduce(operator.or_)


def check_features(frame) -> tuple:
    """Features must exist, be numbers, finite and below 2^20; the first bad column is named to its own party only.

    Returns the smallest and the largest value of each feature.
    """
    names = frame.schema.columns.to_list()
    if not names:
        raise ValueError("The table has no feature columns; each data party needs at least one.")
    for name in names:
        if not frame.data_manager.get_block(frame.data_manager.loc_block(name, with_offset=False)).is_numeric():
            raise bad_feature(name, "is not numeric; all features must be numbers")
    low, high, finite = feature_blocks(frame).mapValues(_ranges).reduce(_merge_ranges)
    for name, smallest, largest, sound in zip(names, low, high, finite):
        if not sound:
            raise bad_feature(name, "has a missing or infinite value; all values must be finite numbers")
        if max(-smallest, largest) >= FEATURE_LIMIT:
            raise bad_feature(name, f"reaches a magnitude of {FEATURE_LIMIT:g}; standardise the features")
    return low, high


def bad_feature(name: str, what: str) -> PrivateReason:
    return PrivateReason(f"Feature {name!r} {what}.", public=f"A feature {what}.")


def _distinct(labels, limit):
    return set(np.unique(labels)[: limit + 1].tolist())


def _any_missing(labels):
    return bool(np.isnan(labels).any())


def _ranges(features):
    finite = np.isfinite(features).all(axis=0)
    safe = np.where(np.isfinite(features), features, 0.0)
    return safe.min(axis=0, initial=np.inf), safe.max(axis=0, initial=-np.inf), finite


def _merge_ranges(first, second):
    return np.minimum(first[0], second[0]), np.maximum(first[1], second[1]), first[2] & second[2]
