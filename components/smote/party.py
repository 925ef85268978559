"""What a party's training table must be like to be over-sampled; each check raises ValueError with one sentence.

The other parties learn that this one refuses, not what its labels and columns are like.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fate_dp.data_prep.over_sampling import KEEP_CATEGORIES, MAX_VALUE, OverSampling, over_sample_arrays, synthetic_ids

from ..common import frames
from ..common.charges import has_synthetic_rows, home_of, job_of
from ..common.federation import Context, Document, TableOutput, require
from ..common.frames import DataFrame
from ..common.preflight import Preflight, Refusal, show_summary
from .settings import MAX_SEED, Settings

Groups = Sequence[Sequence[str]]
"""Names of the one-hot columns of each group."""


def check_table(frame: DataFrame, groups: Groups, interpolated: Collection[str]) -> None:
    """Rows, ids and columns; ``interpolated`` is the set of columns that get values between those of two records."""
    frames.require_rows(frame)
    schema = frame.schema
    if schema.label_name is None:
        raise Refusal("The training table has no label column; every party that over-samples needs its own labels.")
    frames.refuse_weights(frame)
    if not schema.columns.to_list():
        raise Refusal("The table has no feature columns; over-sampling needs at least one.")
    for name in (name for group in groups for name in group if name not in schema.columns):
        raise ValueError(f"groups has the column {name!r}, which the table does not have.")
    if not interpolated:
        raise Refusal("All columns are in groups; smotenc needs a numeric column to find neighbours by.")
    for name in schema.columns:
        block = frames.block_of(frame, name)
        if not block.is_numeric():
            raise frames.bad_feature(name, "is not numeric; all features must be numbers")
        if name in interpolated and not block.dtype.is_floating_point:
            whole = "has a whole-number type, which holds no value between two records; upload it as float64"
            raise frames.bad_feature(name, whole)
    frames.require_distinct_ids(frame)
    if has_synthetic_rows(frame):
        raise Refusal("The table was over-sampled before; use the one without synthetic rows.")


def check_values(columns: Sequence[str], features: np.ndarray, groups: Groups) -> None:
    """No value of the features (n, m) missing or without bound, and exactly one 1 in each row of a group."""
    # A missing value fails the comparison.
    for name, sound in zip(columns, (np.abs(features) <= MAX_VALUE).all(axis=0)):
        if not sound:
            raise frames.bad_feature(name, f"must be finite and within {MAX_VALUE:g}, got a missing or larger value")
    for group in groups:
        values = features[:, [columns.index(name) for name in group]]
        if not np.isin(values, (0.0, 1.0)).all() or not (values.sum(axis=1) == 1.0).all():
            raise ValueError(
                f"The group of {group[0]!r} must be one-hot: in every row one of its {len(group)} columns 1 and the others 0."
            )


def check_labels(labels: np.ndarray, neighbours: int) -> None:
    """Labels (n,): none missing, two classes, of which one is smaller and still has enough neighbours."""
    if np.isnan(labels).any():
        raise ValueError("A label is missing. Every record needs one.")
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) != 2:
        raise ValueError(f"The labels take {len(classes)} values; over-sampling needs two.")
    if counts.min() == counts.max():
        # Without a synthetic row nothing would tell later steps that a record was looked at together with others.
        raise ValueError("Both classes have the same number of rows; leave smote out.")
    if counts.min() <= neighbours:
        raise ValueError(
            f"The label {classes[counts.argmin()]:g} has {counts.min()} rows; with neighbours {neighbours} it needs at "
            f"least {neighbours + 1}."
        )


class SmoteRows(NamedTuple):
    """Features (n, m) and labels (n,), float64, sorted by content: how a table lies in blocks must not change draws."""

    features: np.ndarray
    labels: np.ndarray


def pull(frame: DataFrame) -> SmoteRows:
    """All rows of the table, in this process, 8 bytes a value: SMOTE looks for neighbours among all rows of a class."""
    features = frames.collect_column(frames.feature_blocks(frame))
    labels = frames.collect_column(frames.label_blocks(frame))
    order = np.lexsort((labels, *features.T))
    return SmoteRows(features[order], labels[order])


def with_synthetic_rows(frame: DataFrame, features: np.ndarray, labels: np.ndarray, tag: str) -> DataFrame:
    """The frame with new rows, features (n, m) and labels (n,), in blocks after those of the real rows.

    Those stay where they are, bit by bit. Columns keep their types. Sample and match ids are ``synthetic-<tag>-<number>``.
    """
    from fate.arch.dataframe.ops._indexer import get_partition_order_mappings_by_block_table

    manager = frame.data_manager.duplicate()
    schema, size = manager.schema, manager.block_row_size
    ids = list(synthetic_ids(len(labels), tag))
    values = {schema.sample_id_name: ids, schema.match_id_name: ids, schema.label_name: labels}
    values.update(zip(schema.columns, features.T))
    first = max(frames.block_starts(frame)) + 1
    starts = range(0, len(labels), size)
    blocks = [(first + number, _blocks(manager, values, at, at + size)) for number, at in enumerate(starts)]
    joined = frames.with_blocks(frame, frame.block_table, blocks)
    return type(frame)(frame._ctx, joined, get_partition_order_mappings_by_block_table(joined, size), manager)


def _blocks(manager: Any, values: Mapping[str, Any], first: int, last: int) -> list:
    """One row block of the frame: ids, labels and columns as the manager lays them out."""
    made = []
    for block in manager.blocks:
        columns = [values[manager.get_field_name(at)][first:last] for at in block.field_indexes]
        content = np.column_stack(columns) if block.is_numeric() else columns[0]
        whole = block.is_numeric() and not block.dtype.is_floating_point
        made.append(block.convert_block(np.rint(content) if whole else content))
    return made


def over_sample_table(ctx: Context, frame: DataFrame, output: TableOutput, settings: Settings) -> None:
    """Check, over-sample, note it in the party's ledger, write the table with the synthetic rows.

    Refused at every party before any work: a table without labels or with weights, labels that do not allow it, missing
    values, groups that are not one-hot, synthetic rows. Nothing but that verdict leaves the party.

    Guarantee: none. One record decides between which records others are interpolated, so nothing that is computed from the
    rows afterwards protects a record, which the party's ledger says. Labels that label_flip released keep their epsilon:
    over-sampling reads the flipped ones, which is post-processing.
    """
    # The guest passes the verdicts on, so there must be one; hosts and an own model without any are welcome.
    require(ctx.federation.parties, "guest", "smote needs exactly one to tell all of a refusal.", at_most=1)
    tag = ctx.federation.local_party[1]
    rule = rule_of(settings.method, settings.neighbours, settings.groups)
    preflight = FitTable(ctx, frame, rule, settings.groups)
    preflight.agree()
    rows = preflight.rows
    columns = frame.schema.columns.to_list()
    places = tuple(tuple(columns.index(name) for name in group) for group in settings.groups)
    seed = secrets.randbelow(MAX_SEED + 1) if settings.seed is None else settings.seed
    # The same rows, seed and tag give the same new rows of the smaller class.
    synthetic = over_sample_arrays(rows.features, rows.labels, rule, groups=places, seed=seed, tag=tag)
    new_rows = len(synthetic.labels)
    # Whoever knows the draws and sees synthetic rows knows at which share between two records each of them lies.
    draws = "secret draws" if settings.seed is None else "draws NOT SECRET, from a seed that all parties know"
    home_of(ctx).ledger.record_over_sampling(
        dataset=settings.dataset,
        method=f"{rule.method}, {rule.neighbours} neighbours, {draws}",
        rows=len(rows.labels) + new_rows,
        synthetic_rows=new_rows,
        **job_of(ctx)._asdict(),
    )
    facts = {
        "mechanism": "over-sampling of this party's own rows",
        "method": rule.method,
        "neighbours": rule.neighbours,
        "draws": draws,
        "dataset": settings.dataset,
        **_counts("rows before", rows.labels),
        **_counts("rows after", np.concatenate([rows.labels, synthetic.labels])),
        "most synthetic rows that one record influenced (a diagnostic, no bound)": int(synthetic.largest_influence),
        "record-level epsilon from here on": "infinity",
    }
    output.write(with_synthetic_rows(frame, synthetic.features, synthetic.labels, tag))
    show_summary(ctx, facts)


@dataclass
class FitTable(Preflight):
    """Whether this party's table can be over-sampled; afterwards ``rows`` are its rows."""

    frame: DataFrame
    over_sampling: OverSampling
    groups: Groups
    rows: SmoteRows = field(init=False)

    def check(self) -> Document:
        columns, groups = self.frame.schema.columns.to_list(), self.groups
        kept = {name for group in groups for name in group} if self.over_sampling.method in KEEP_CATEGORIES else set()
        check_table(self.frame, groups, interpolated=set(columns) - kept)
        self.rows = pull(self.frame)
        check_values(columns, self.rows.features, groups)
        check_labels(self.rows.labels, self.over_sampling.neighbours)
        return {}


def rule_of(method: str, neighbours: int, groups: Groups) -> OverSampling:
    """What the parameters ask for; among numeric columns alone every method is smote."""
    return OverSampling(method=method if groups else "smote", neighbours=neighbours)


def _counts(name: str, labels: np.ndarray) -> Document:
    classes, counts = np.unique(labels, return_counts=True)
    return {f"{name}, label {label:g}": int(count) for label, count in zip(classes, counts)}
