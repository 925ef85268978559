"""A party's own columns: their bins, the table of bins' numbers, and counts by bin. Nothing here sends a message.

Everything stays distributed: what comes to the driver are sums over all rows.
"""

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.bins import ColumnBins, TableBins, quantile_bins
from fate_dp.privacy.events import Event
from fate_dp.privacy.mechanisms.quantiles import cell_counts, private_quantiles, quantile_event, quantile_levels

from ..common.frames import Block, DataFrame, Table, feature_blocks, require_numeric
from ..protocols.bin_rules import QuantileBins, Rule
from .settings import Settings

NOT_NUMERIC = "number its categories before"
EVENT = 1.0
"""The label that is counted as an event; every other value, a missing one included, is none."""


def checked_rules(frame: DataFrame, settings: Settings, special: Mapping[str, tuple[float, ...]]) -> dict[str, Rule]:
    """The rule of each column, in the table's order; raises ValueError where the table does not allow them.

    ``special`` are values that the operator declared with the table, for columns whose rules name none.
    Values are not looked at: a constant column, or one of missing values alone, gets its bins as any other.
    """
    require_numeric(frame, NOT_NUMERIC)
    try:
        rules = settings.rules_of(frame.schema.columns.to_list())
    except KeyError as unnamed:
        told = f"Column {unnamed.args[0]!r} has no rule; name it in columns, or set other_columns."
        raise ValueError(told) from None
    rules = {name: each.with_special(special[name]) if name in special else each for name, each in rules.items()}
    for name, each in rules.items():
        if each.most_bins > frame.shape[0]:
            raise ValueError(
                f"Column {name!r} has up to {each.most_bins} bins, more than the table has rows, {frame.shape[0]}."
            )
    return rules


def quantile_charges(
    rules: Mapping[str, Rule], epsilon: float | None, observers: Sequence[str]
) -> list[tuple[Event, int]]:
    """(event, count) of all quantiles of a party, whose columns share ``epsilon`` (nats) equally."""
    if epsilon is None:
        return []
    cut = [each for each in rules.values() if isinstance(each, QuantileBins)]
    levels: dict[int, int] = {}
    for each in cut:
        levels[each.quantiles] = levels.get(each.quantiles, 0) + quantile_levels(each.quantiles)
    share = epsilon / max(len(cut), 1)
    return [(quantile_event(share, quantiles, observers=observers), count) for quantiles, count in levels.items()]


def table_bins(frame: DataFrame, rules: Mapping[str, Rule], epsilon: float | None) -> TableBins:
    """The bins of all columns; those of quantiles are released here, after `quantile_charges` were charged."""
    cut = {name: each for name, each in rules.items() if isinstance(each, QuantileBins)}
    points = {name: each.points(name) for name, each in cut.items()}
    found: dict[str, ColumnBins] = {}
    if cut and epsilon is not None:
        places = [frame.schema.columns.to_list().index(name) for name in cut]
        kernel = partial(_cell_counts, places=places, points=list(points.values()), rules=list(cut.values()))
        counts = feature_blocks(frame).mapValues(kernel).reduce(operator.add)
        for of_column, (name, each) in zip(counts, cut.items()):
            chosen = private_quantiles(of_column, each.quantiles, epsilon / len(cut))
            found[name] = quantile_bins(name, points[name][chosen].tolist(), special=each.special)
    return TableBins(
        tuple(found[name] if isinstance(each, QuantileBins) else each.named(name) for name, each in rules.items())
    )


def _cell_counts(
    features: np.ndarray, places: Sequence[int], points: Sequence[np.ndarray], rules: Sequence[QuantileBins]
) -> np.ndarray:
    """int64 (columns, cells) of a block's rows; special values are in no count, as missing ones are."""
    found = []
    for place, grid, each in zip(places, points, rules):
        values = features[:, place]
        found.append(cell_counts(values[~np.isin(values, each.special)], grid))
    return np.stack(found)


def code_blocks(frame: DataFrame, bins: TableBins) -> Table:
    """Table of int64 arrays (rows, columns): the bin of every value, from 0 in each column."""
    return feature_blocks(frame).mapValues(bins.codes)


def event_blocks(labels: Table) -> Table:
    """Table of int64 arrays (rows,): 1 for an event, else 0."""
    return labels.mapValues(lambda values: (values == EVENT).astype(np.int64))


def bin_totals(codes: Table, bins: TableBins) -> np.ndarray:
    """int64 (bins of all columns,): how many rows each bin holds."""
    return codes.mapValues(partial(_totals, bins=bins)).reduce(operator.add)


def bin_events(codes: Table, events: Table, bins: TableBins) -> np.ndarray:
    """int64 (bins of all columns,): how many events each bin holds."""
    return codes.join(events, partial(_totals, bins=bins)).reduce(operator.add)


def _totals(codes: np.ndarray, weights: np.ndarray | None = None, *, bins: TableBins) -> np.ndarray:
    """Rows of a block by bin, or the sums of their whole-number weights (rows,)."""
    places = bins.places(codes)
    each = None if weights is None else np.repeat(weights, places.shape[1])
    # Sums of whole numbers up to 2^53 are exact in float64.
    return np.bincount(places.ravel(), weights=each, minlength=bins.total).astype(np.int64)


def with_codes(frame: DataFrame, codes: Table) -> DataFrame:
    """The frame with the numbers of bins as its features, all of them float64; ids and label stay."""
    from fate.arch.dataframe.manager.block_manager import BlockType

    manager, names = frame.data_manager.duplicate(), frame.schema.columns.to_list()
    if not names:
        return frame
    places = manager.loc_block(names)
    manager.promote_types([(block, BlockType.float64) for block in sorted({block for block, _ in places})])
    replaced = frame.block_table.join(codes, partial(_with_codes, places=places))
    return type(frame)(frame._ctx, replaced, frame.partition_order_mappings, manager)


def _with_codes(blocks: Block, codes: np.ndarray, places: Sequence[tuple[int, int]]) -> Block:
    import torch

    replaced: Any = list(blocks)
    for block in {block for block, _ in places}:
        replaced[block] = torch.as_tensor(blocks[block]).double().clone()
    for column, (block, offset) in enumerate(places):
        replaced[block][:, offset] = torch.as_tensor(codes[:, column], dtype=torch.float64)
    return replaced
