"""A party's training table as arrays, and the table with synthetic rows after the real ones.

SMOTE looks for neighbours among all rows of a class, so the rows have to be in one place: this is the one component
that brings a whole table to the driver, 8 bytes a value. Only the new rows go back; the blocks of the real ones stay
where they are, bit by bit.
"""
from typing import NamedTuple

import numpy as np

from fate_dp.components.common.frames import block_starts, collect_column, feature_blocks, label_blocks
from fate_dp.data_prep.over_sampling import synthetic_ids


class Rows(NamedTuple):
    """Features (n, m) and labels (n,), float64, sorted by content: how a table lies in blocks must not change draws."""

    features: np.ndarray
    labels: np.ndarray


def pull(frame) -> Rows:
    """All rows of the table, in this process."""
    features, labels = collect_column(feature_blocks(frame)), collect_column(label_blocks(frame))
    order = np.lexsort((labels, *features.T))
    return Rows(features[order], labels[order])


def with_synthetic_rows(frame, features, labels, tag):
    """The frame with new rows, features (n, m) and labels (n,), in blocks after those of the real rows.

    Columns keep their types. Sample and match ids are ``synthetic-<tag>-<number>``.
    """
    from fate.arch.dataframe.ops._indexer import get_partition_order_mappings_by_block_table

    manager, table = frame.data_manager.duplicate(), frame.block_table
    schema, size = manager.schema, manager.block_row_size
    ids = list(synthetic_ids(len(labels), tag))
    values = {schema.sample_id_name: ids, schema.match_id_name: ids, schema.label_name: labels}
    values.update(zip(schema.columns, features.T))
    first = max(block_starts(frame)) + 1
    starts = range(0, len(labels), size)
    blocks = [(first + number, _blocks(manager, values, at, at + size)) for number, at in enumerate(starts)]
    added = frame._ctx.computing.parallelize(
        blocks,
        partition=table.num_partitions,
        key_serdes_type=table.key_serdes_type,
        value_serdes_type=table.value_serdes_type,
        partitioner_type=table.partitioner_type,
    )
    joined = table.union(added)
    return type(frame)(frame._ctx, joined, get_partition_order_mappings_by_block_table(joined, size), manager)


def _blocks(manager, values, first, last):
    """One row block of the frame: ids, labels and columns as the manager lays them out."""
    return [_block(block, [values[manager.get_field_name(at)][first:last] for at in block.field_indexes])
            for block in manager.blocks]  # fmt: skip


def _block(block, columns):
    if not block.is_numeric():
        return block.convert_block(columns[0])
    array = np.column_stack(columns)
    return block.convert_block(array if block.dtype.is_floating_point else np.rint(array))
