"""A party's own records in fixed point, block by block, with its dummies as one block more."""
import numpy as np

from fate_dp.components.common.frame_checks import bad_feature, check_features, require_distinct_ids
from fate_dp.components.common.frames import feature_blocks, label_blocks, match_id_blocks
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.crypto.joined_records import FRACTION_BITS, MAGNITUDE_BITS, encode_values

from .dummies import record_name

LIMIT = 2.0**MAGNITUDE_BITS
# What encode_values takes: nothing that rounding would bring to the limit.
LARGEST = LIMIT - 2.0**-FRACTION_BITS
DUMMIES_AT_ONCE = 4096


def check_table(frame, role: str) -> None:
    """What can be aligned: rows with ids of their own, and finite numbers below 16; at the host no label.

    Raises:
        ValueError: one sentence; the column is named to its own party alone.
    """
    if frame.shape[0] == 0:
        raise ValueError("The table has no rows; there is nothing to align.")
    if frame.schema.weight_name is not None:
        name = frame.schema.weight_name
        raise PrivateReason(
            f"The table has the weight column {name!r}; sample weights are not supported.",
            "The table has a weight column; sample weights are not supported.",
        )
    if role == "host" and frame.schema.label_name is not None:
        name = frame.schema.label_name
        raise PrivateReason(
            f"The host's table has the label column {name!r}; only the guest has labels.",
            "The host's table has a label column; only the guest has labels.",
        )
    require_distinct_ids(frame)
    low, high = check_features(frame)
    for name, smallest, largest in zip(frame.schema.columns, low, high):
        if max(-smallest, largest) >= LARGEST:
            raise bad_feature(name, f"has a value that is not below {LIMIT:g} in magnitude; standardise it")
    if frame.schema.label_name is not None:
        _check_labels(frame)


def columns_of(frame, role: str) -> int:
    """Columns of a party's records: its features, and at the guest the label, if any, and the membership."""
    label = frame.schema.label_name is not None
    return len(frame.schema.columns) + (role == "guest") * (1 + label)


def record_blocks(frame, role: str, dummies):
    """Table {block: (names, int64 (rows, columns_of))}; dummies are zero throughout.

    Args:
        dummies: names of the party's dummies, none unless the size is hidden.
    """
    blocks = match_id_blocks(frame).join(feature_blocks(frame), _pair)
    if role == "guest":
        if frame.schema.label_name is not None:
            blocks = blocks.join(label_blocks(frame), _with_column)
        blocks = blocks.mapValues(_with_membership)
    blocks = blocks.mapValues(_encoded)
    if not dummies:
        return blocks
    parts = [dummies[at : at + DUMMIES_AT_ONCE] for at in range(0, len(dummies), DUMMIES_AT_ONCE)]
    zeros = [np.zeros((len(part), columns_of(frame, role)), dtype=np.int64) for part in parts]
    # The blocks of a frame are numbered from 0.
    added = frame._ctx.computing.parallelize(
        [(-1 - number, block) for number, block in enumerate(zip(parts, zeros))],
        partition=blocks.num_partitions, key_serdes_type=blocks.key_serdes_type,
        value_serdes_type=blocks.value_serdes_type, partitioner_type=blocks.partitioner_type,
    )  # fmt: skip
    return blocks.union(added)


def _check_labels(frame):
    try:
        labels = label_blocks(frame)
    except ValueError as error:
        raise PrivateReason(str(error), "The label column is not numeric; labels must be numbers.") from error
    worst = labels.mapValues(_largest).reduce(max)
    if not worst < LARGEST:
        raise ValueError(
            f"A label is missing or not below {LIMIT:g} in magnitude; every record of the guest must have one."
        )


def _largest(labels):
    return float(np.where(np.isfinite(labels), np.abs(labels), np.inf).max(initial=0.0))


def _pair(ids, features):
    return ids, features


def _with_column(block, column):
    ids, values = block
    return ids, np.column_stack([values, column])


def _with_membership(block):
    ids, values = block
    return ids, np.column_stack([values, np.ones(len(ids))])


def _encoded(block):
    ids, values = block
    return [record_name(match_id) for match_id in ids], encode_values(values, range(values.shape[1]))
