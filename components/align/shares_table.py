"""Shares as columns of a FATE DataFrame, and back.

A share of up to 66 bits is kept in two int64 columns, ``<name>.high`` and ``<name>.low`` (`halves`). Rows lie
in blocks with the same keys and the same rows in the same order at both parties. Everything stays distributed.
"""
from functools import partial
from typing import Sequence

import numpy as np

from .halves import join_shares

MATCH_ID, SAMPLE_ID = "id", "sample_id"


def share_blocks(frame, names: Sequence[str]):
    """Table of object arrays (rows, c): this party's shares of the columns, in units of 2^-20.

    Args:
        frame: what align wrote.
        names: joined columns, a part of `Alignment.names` in any order.

    Raises:
        ValueError: the frame has no shares of a column.
    """
    present = set(frame.schema.columns)
    missing = [name for name in names if not present.issuperset(_pair(name))]
    if missing:
        raise ValueError(f"The table has no shares of the column {missing[0]!r}; connect align's output_data.")
    places = frame.data_manager.loc_block([half for name in names for half in _pair(name)])
    return frame.block_table.mapValues(partial(_read, places=places))


def write_shares(ctx, blocks, names: Sequence[str], starts: dict):
    """A FATE DataFrame of shares; match id and sample id of a row are its position.

    Args:
        blocks: table {block: int64 (rows, 2 c)} as `halves.split_shares` gives them; blocks are numbered from 0.
        names: the c joined columns.
        starts: {block: position of its first row}.
    """
    from fate.arch.dataframe import DataFrame
    from fate.arch.dataframe.ops._indexer import get_partition_order_mappings_by_block_table

    manager = _data_manager(ctx, names)
    table = blocks.map(partial(_written, manager=manager, starts=starts))
    return DataFrame(ctx, table, get_partition_order_mappings_by_block_table(table, manager.block_row_size), manager)


def _pair(name):
    return f"{name}.high", f"{name}.low"


def _data_manager(ctx, names):
    from fate.arch.dataframe.manager import DataManager

    manager = DataManager()
    manager.init_from_local_file(
        sample_id_name=SAMPLE_ID, columns=[MATCH_ID, *(half for name in names for half in _pair(name))],
        match_id_list=None, match_id_name=MATCH_ID, label_name=None, weight_name=None, label_type=None,
        weight_type=None, dtype="int64", anonymous_site_name=ctx.local.name,
    )  # fmt: skip
    return manager


def _written(number, halves, manager, starts):
    ids = [str(position) for position in range(starts[number], starts[number] + len(halves))]
    values = {SAMPLE_ID: ids, MATCH_ID: ids, **dict(zip(manager.schema.columns, halves.T))}
    return number, [_block(block, [values[manager.get_field_name(at)] for at in block.field_indexes])
                    for block in manager.blocks]  # fmt: skip


def _block(block, columns):
    return block.convert_block(np.column_stack(columns) if block.is_numeric() else columns[0])


def _read(blocks, places):
    halves = [np.asarray(blocks[block][:, offset], dtype=np.int64) for block, offset in places]
    return join_shares(np.stack(halves, axis=1))
