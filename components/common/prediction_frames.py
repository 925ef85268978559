"""Frames in FATE's prediction format from what a kernel scored block by block."""
from functools import partial


def prediction_frame_of(frame, scored, dataset_type: str):
    """label (if any), predict_score, predict_result, predict_detail, type: as FATE's Evaluation takes them.

    FATE's own way, apply_row, calls pandas once per row, and takes no column with several probabilities.

    Args:
        frame: whose ids and labels they are.
        scored: table of (scores, results, details) of every block: three lists.
    """
    from fate.arch.dataframe.manager.block_manager import BlockType
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils.predict_tools import PREDICT_DETAIL, PREDICT_RESULT, PREDICT_SCORE

    result = _named_frame(frame)
    manager = result.data_manager.duplicate()
    blocks = manager.append_columns(
        [PREDICT_SCORE, PREDICT_RESULT, PREDICT_DETAIL], [BlockType.float64, BlockType.int32, BlockType.np_object]
    )
    append = partial(_append, convert=[manager.blocks[block].convert_block for block in blocks])
    table = result.block_table.join(scored, append)
    return add_dataset_type(type(frame)(frame._ctx, table, frame.partition_order_mappings, manager), dataset_type)


def _named_frame(frame):
    """Ids and, if the table has one, the label under the name that FATE's Evaluation looks for."""
    from fate.ml.utils.predict_tools import LABEL

    result = frame.create_frame(with_label=frame.schema.label_name is not None, with_weight=False)
    if result.schema.label_name not in (None, LABEL):
        result.rename(label_name=LABEL)
    return result


def _append(blocks, scored, convert):
    return [*blocks, *(make([[value] for value in column]) for make, column in zip(convert, scored))]
