"""Shares as columns of a FATE DataFrame, and back.

A share of up to 65 bits is kept in two int64 columns, ``<name>.high`` and ``<name>.low`` (`halves`). Rows lie
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


def write_shares(ctx, blocks, names: Sequence[str], starts: dict, session: str):
    """A FATE DataFrame of shares; match id of a row is its position, sample id the session and the position.

    Args:
        blocks: table {block: int64 (rows, 2 c)} as `halves.split_shares` gives them; blocks are numbered from 0.
        names: the c joined columns.
        starts: {block: position of its first row}.
        session: name of the alignment.
    """
    from fate.arch.dataframe import DataFrame
    from fate.arch.dataframe.ops._indexer import get_partition_order_mappings_by_block_table

    manager = _data_manager(ctx, names)
    table = blocks.map(partial(_written, manager=manager, starts=starts, session=session))
    return DataFrame(ctx, table, get_partition_order_mappings_by_block_table(table, manager.block_row_size), manager)


def belongs_to(frame, session: str) -> bool:
    """Whether all rows are those of one alignment, each at its position."""
    manager = frame.data_manager
    ids = [manager.loc_block(name, with_offset=False) for name in _id_names(frame)]
    return frame.block_table.mapValues(partial(_all_of, ids=ids, session=session)).reduce(_both)


def _id_names(frame):
    return frame.schema.sample_id_name, frame.schema.match_id_name


def _sample_id(session, position):
    return f"{session}-{position}"


def _all_of(blocks, ids, session):
    sample_ids, positions = (blocks[block] for block in ids)
    return all(found == _sample_id(session, position) for found, position in zip(sample_ids, positions))


def _both(first, second):
    return first and second


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


def _written(number, halves, manager, starts, session):
    ids = [str(position) for position in range(starts[number], starts[number] + len(halves))]
    values = {SAMPLE_ID: [_sample_id(session, position) for position in ids], MATCH_ID: ids,
              **dict(zip(manager.schema.columns, halves.T))}  # fmt: skip
    return number, [_block(block, [values[manager.get_field_name(at)] for at in block.field_indexes])
                    for block in manager.blocks]  # fmt: skip


def _block(block, columns):
    return block.convert_block(np.column_stack(columns) if block.is_numeric() else columns[0])


def _read(blocks, places):
    halves = [np.asarray(blocks[block][:, offset], dtype=np.int64) for block, offset in places]
    return join_shares(np.stack(halves, axis=1))
