"""What a party's training table must be like to be over-sampled; each check raises ValueError with one sentence.

The other parties learn that this one refuses, not what its labels and columns are like.
"""
import numpy as np

from fate_dp.components.common.frame_checks import bad_feature, require_distinct_ids, require_rows
from fate_dp.components.common.over_sampled import has_synthetic_rows
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.data_prep.over_sampling import LARGEST_VALUE

LABELS_UNFIT = "The labels there do not allow this over-sampling; that party's operator can see why."


def check_table(frame, groups, interpolated) -> None:
    """Rows, ids and columns; ``interpolated`` is the set of columns that get values between those of two records."""
    require_rows(frame)
    schema = frame.schema
    if schema.label_name is None:
        raise ValueError("The training table has no label column; every party that over-samples needs its own labels.")
    if schema.weight_name is not None:
        raise ValueError(f"The table has the weight column {schema.weight_name!r}; sample weights are not supported.")
    _check_columns(schema.columns.to_list(), groups)
    if not interpolated:
        raise ValueError("All columns are in groups; smotenc needs a numeric column to find neighbours by.")
    _check_types(frame.data_manager, schema.columns, interpolated)
    require_distinct_ids(frame)
    if has_synthetic_rows(frame):
        raise ValueError("The table was over-sampled before; use the one without synthetic rows.")


def check_values(columns, features, groups) -> None:
    """No value of the features (n, m) missing or without bound, and exactly one 1 in each row of a group."""
    # A missing value fails the comparison.
    for name, sound in zip(columns, (np.abs(features) <= LARGEST_VALUE).all(axis=0)):
        if not sound:
            raise bad_feature(name, f"has a value that is missing or beyond {LARGEST_VALUE:g}; all must be finite")
    for group in groups:
        values = features[:, [columns.index(name) for name in group]]
        if not np.isin(values, (0.0, 1.0)).all() or not (values.sum(axis=1) == 1.0).all():
            raise PrivateReason(
                f"The group of {group[0]!r} is not one-hot: in every row one of its {len(group)} columns must be 1 and "
                "the others 0.",
                public="A group of columns is not one-hot there; that party's operator can see which.",
            )


def check_labels(labels, neighbours) -> None:
    """Labels (n,): none missing, two classes, of which one is smaller and still has enough neighbours."""
    if np.isnan(labels).any():
        raise PrivateReason("A label is missing; every record must have one.", public=LABELS_UNFIT)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) != 2:
        raise PrivateReason(f"The labels take {len(classes)} values; over-sampling needs two.", public=LABELS_UNFIT)
    if counts.min() == counts.max():
        # Without a synthetic row nothing would tell later steps that a record was looked at together with others.
        raise PrivateReason("Both classes have the same number of rows; leave smote out.", public=LABELS_UNFIT)
    if counts.min() <= neighbours:
        raise PrivateReason(
            f"The label {classes[counts.argmin()]:g} has {counts.min()} rows; with neighbours {neighbours} it needs at "
            f"least {neighbours + 1}.",
            public=LABELS_UNFIT,
        )


def _check_columns(columns, groups) -> None:
    if not columns:
        raise ValueError("The table has no feature columns; over-sampling needs at least one.")
    for name in (name for group in groups for name in group):
        if name not in columns:
            raise PrivateReason(
                f"groups has the column {name!r}, which the table does not have.",
                public="A column of groups is not in the table there; that party's operator can see which.",
            )


def _check_types(manager, columns, interpolated) -> None:
    for name in columns:
        block = manager.get_block(manager.loc_block(name, with_offset=False))
        if not block.is_numeric():
            raise bad_feature(name, "is not numeric; all features must be numbers")
        if name in interpolated and not block.dtype.is_floating_point:
            raise bad_feature(
                name, "has a whole-number type, which holds no value between two records; upload it as float64"
            )
