"""Columns of a FATE DataFrame as tables of numpy blocks, and back.

A block table maps a block's key to the block's rows; parties that ran PSI hold the same keys with the same rows in the
same order. Everything here stays distributed: no function returns rows to the driver but `collect_column`.
"""
from functools import partial

import numpy as np

from .preflight import PrivateReason


def feature_blocks(frame):
    """Table of float64 arrays (rows, features), columns in the order of ``frame.schema.columns``."""
    manager = frame.data_manager
    places = manager.loc_block(frame.schema.columns.to_list())
    return frame.block_table.mapValues(partial(_numeric_columns, places=places))


def label_blocks(frame):
    """Table of float64 arrays (rows,): the label column. Raises ValueError if the labels are not numbers."""
    place = frame.data_manager.loc_block(frame.schema.label_name)
    if not frame.data_manager.get_block(place[0]).is_numeric():
        raise PrivateReason(
            f"The label column {frame.schema.label_name!r} is not numeric; labels must be numbers.",
            public="The label column is not numeric; labels must be numbers.",
        )
    return frame.block_table.mapValues(partial(_label_column, place=place))


def match_id_blocks(frame):
    """Table of lists of match ids as text."""
    place = frame.data_manager.loc_block(frame.schema.match_id_name, with_offset=False)
    return frame.block_table.mapValues(partial(_ids, place=place))


def block_starts(frame) -> dict:
    """Block key -> global index of the block's first row.

    Counted, because ``frame.partition_order_mappings`` knows only one block a partition after FATE's
    ``loc(preserve_order=True)``, which makes the host's tables in cross-validation.
    """
    starts, rows = {}, 0
    for key, size in sorted(frame.block_table.mapValues(_rows).collect()):
        starts[key] = rows
        rows += size
    return starts


def replace_labels(frame, labels, soft=False):
    """The frame with its label column replaced by the table ``labels`` (block key -> array (rows,)).

    The column keeps its type, or becomes float64 for ``soft`` labels in [0, 1].
    """
    manager = frame.data_manager.duplicate()
    block, offset = manager.loc_block(frame.schema.label_name)
    if soft:
        from fate.arch.dataframe.manager.block_manager import BlockType

        # FATE's own label setter forgets to note the wider type, and the table is written as whole numbers.
        manager.promote_types([(block, BlockType.float64)])
    replaced = frame.block_table.join(labels, partial(_with_label, block=block, offset=offset, soft=soft))
    return type(frame)(frame._ctx, replaced, frame.partition_order_mappings, manager)


def collect_column(blocks) -> np.ndarray:
    """One number per record, in global row order, on the driver: for label-sized columns only."""
    parts = dict(blocks.collect())
    return np.concatenate([parts[key] for key in sorted(parts)]) if parts else np.empty(0)


def _rows(blocks):
    return len(blocks[0])


def _numeric_columns(blocks, places):
    columns = [np.asarray(blocks[block][:, offset], dtype=np.float64) for block, offset in places]
    return np.stack(columns, axis=1) if columns else np.empty((len(blocks[0]), 0))


def _label_column(blocks, place):
    return np.asarray(blocks[place[0]][:, place[1]], dtype=np.float64)


def unusable_ids(frame):
    """Table of booleans: whether a match id of the block is missing, empty, or no text that can be encoded."""
    place = frame.data_manager.loc_block(frame.schema.match_id_name, with_offset=False)
    return frame.block_table.mapValues(partial(_any_unusable, place=place))


def _any_unusable(blocks, place):
    return any(map(_is_unusable, blocks[place]))


def _is_unusable(match_id):
    if match_id is None or match_id != match_id or match_id == "":
        return True
    try:
        str(match_id).encode()
    except UnicodeEncodeError:
        return True
    return False


def _ids(blocks, place):
    return [str(match_id) for match_id in blocks[place]]


def _with_label(blocks, labels, block, offset, soft):
    import torch

    replaced = list(blocks)
    column = blocks[block].double() if soft else blocks[block].clone()
    column[:, offset] = torch.as_tensor(labels).to(column.dtype)
    replaced[block] = column
    return replaced
