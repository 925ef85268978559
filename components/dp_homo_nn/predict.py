"""Prediction: each data party scores its own rows with the model that all of them hold; no message, no cost."""
import logging
from functools import partial

from fate_dp.components.common.frame_checks import check_features, require_rows
from fate_dp.components.common.frames import feature_blocks
from fate_dp.components.common.party_home import home_of

from .job_model import ModelSource
from .model import spec_of, weights_of
from .preflight_checks import check_module

logger = logging.getLogger(__name__)


def predict_party(ctx, document: dict, frame):
    """The prediction frame of a test table, in FATE's format."""
    from fate.ml.utils.predict_tools import TEST_SET

    spec = spec_of(document)
    check_module(home_of(ctx).policy, spec.name)
    require_rows(frame)
    if list(frame.schema.columns) != document["data"]["estimator"]["header"]:
        raise ValueError("The model was trained on other columns than this table has; names and order must agree.")
    check_features(frame)
    return prediction_frame(ctx, frame, document, TEST_SET)


def prediction_frame(ctx, frame, document: dict, dataset_type: str):
    """label (if any), predict_score, predict_result, predict_detail, type: as FATE's Evaluation takes them.

    The score is P(label 1) of two classes, and the largest probability of more.
    """
    from fate.arch.dataframe.manager.block_manager import BlockType
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils.predict_tools import PREDICT_DETAIL, PREDICT_RESULT, PREDICT_SCORE

    source = ModelSource.of(spec_of(document), document["data"]["estimator"]["loss"], home_of(ctx).policy.model_modules)
    score = partial(
        _scored, source=source, weights=weights_of(document), classes=document["meta"]["labels"],
        threshold=document["meta"]["threshold"],
    )  # fmt: skip
    result = _named_frame(frame)
    manager = result.data_manager.duplicate()
    # FATE's own way, apply_row, calls pandas once per row, and takes no column with several probabilities.
    blocks = manager.append_columns(
        [PREDICT_SCORE, PREDICT_RESULT, PREDICT_DETAIL], [BlockType.float64, BlockType.int32, BlockType.np_object]
    )
    append = partial(_append, convert=[manager.blocks[block].convert_block for block in blocks])
    table = result.block_table.join(feature_blocks(frame).mapValues(score), append)
    scored = type(frame)(frame._ctx, table, frame.partition_order_mappings, manager)
    logger.info("%d rows scored", frame.shape[0])
    return add_dataset_type(scored, dataset_type)


def _named_frame(frame):
    """Ids and, if the table has one, the label under the name that FATE's Evaluation looks for."""
    from fate.ml.utils.predict_tools import LABEL

    result = frame.create_frame(with_label=frame.schema.label_name is not None, with_weight=False)
    if result.schema.label_name not in (None, LABEL):
        result.rename(label_name=LABEL)
    return result


def _scored(features, source, weights, classes, threshold):
    """Scores, results and details of a block: three lists."""
    from fate.ml.utils.predict_tools import predict_detail_dict_to_str

    from .models.scattering_linear import model_inputs

    probabilities = source.gradients().scores(weights, model_inputs(source.spec(), features))
    if len(classes) == 2:
        scores, results = probabilities[:, 1], probabilities[:, 1] > threshold
    else:
        scores, results = probabilities.max(axis=1), probabilities.argmax(axis=1)
    details = [predict_detail_dict_to_str(dict(zip(classes, row))) for row in probabilities.tolist()]
    return scores.tolist(), results.astype(int).tolist(), details


def _append(blocks, scored, convert):
    return [*blocks, *(make([[value] for value in column]) for make, column in zip(convert, scored))]
