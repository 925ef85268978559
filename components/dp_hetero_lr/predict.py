"""Prediction: the guest gets X_h w_h from each host and holds the joint scores; the stage, and the parts training uses."""
from functools import partial
from typing import Optional

import numpy as np

from fate_dp.components.common.frame_checks import check_features, refuse_label, require_rows
from fate_dp.components.common.frames import label_blocks, replace_labels
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.prediction_frames import prediction_frame_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import (
    LabelPrivacy,
    refuse_true_labels_of_released_records,
    remember_scores,
)
from fate_dp.components.common.record_stream import alignment_digest
from fate_dp.components.common.summary import show_summary

from . import few_values
from .figures import PREDICTED_ROWS, figures
from .model import check_header, columns_of, has_intercept, header_of
from .rounded_scores import rounded_scores
from .rows import prepare_rows
from .score_release import ScoreRelease
from .scoring import contexts_of_models, joint_score_blocks, probabilities, side_by_side
from .terms import check_aligned


def predict_guest(ctx, document: dict, frame, step: float, true_labels: bool):
    """Returns the prediction frame in FATE's format; ``true_labels`` says that its labels are true ones, for the summary."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_roles(ctx, arbiter=False)
    known = {}

    def check():
        require_table(frame)
        check_scored_rows(frame, header_of(document))
        known["labels"] = check_scored_labels(home_of(ctx), frame, true_labels)
        return {}

    def commit(hosts):
        check_aligned(frame, {name: facts["digest"] for name, facts in hosts.items()})
        check_same_models(document, hosts)
        return {}

    agree(ctx, check, commit)
    scored = prediction_frame(frame, ask_scores(ctx.sub_ctx("predict"), frame, document, step), document, TEST_SET)
    remember_scores(home_of(ctx), scored, document)
    show_scored(ctx, scored, document, known["labels"], true_labels)
    return scored


def predict_host(ctx, document: dict, frame, step: float) -> None:
    """Records the release in this host's ledger, then sends this host's part of the scores, rounded to ``step``.

    Few rows take few values: whether columns do was seen when the model was trained.
    """
    check_roles(ctx, arbiter=False)
    columns, known = columns_of(document), {}

    def check():
        require_table(frame)
        refuse_label(frame)
        check_scored_rows(frame, header_of(document))
        known["release"] = release = ScoreRelease.of(home_of(ctx), job_of(ctx), frame)
        if document["meta"].get("few_valued") and not release.home.policy.consents_to_few_values(release.dataset):
            raise ValueError(few_values.refusal("The host"))
        known["release"].check(frame, columns)
        return {"digest": alignment_digest(frame), "models": len(columns)}

    agree(ctx, check)
    known["release"].record_prediction(frame, columns)
    give_scores(ctx.sub_ctx("predict"), frame, document, step)


def predict_arbiter(ctx) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    agree(ctx, dict)


def ask_scores(ctx, frame, document: dict, step: float) -> list:
    """At the guest: for every model a table of joint scores z of every row."""
    rows, columns = prepare_rows(frame, fit_intercept=has_intercept(document), with_label=False), columns_of(document)
    contexts = contexts_of_models(ctx, len(columns))
    return [joint_score_blocks(of_model, rows, weights, step) for of_model, weights in zip(contexts, columns)]


def give_scores(ctx, frame, document: dict, step: float) -> None:
    """At a host: send X_h w_h of every row and model to the guest, rounded. The caller has counted it."""
    rows, columns = prepare_rows(frame, fit_intercept=False, with_label=False), columns_of(document)
    for of_model, weights in zip(contexts_of_models(ctx, len(columns)), columns):
        of_model.guest.put("scores", rounded_scores(rows, weights, home_of(ctx).key, step))


def check_same_models(document: dict, hosts: dict) -> None:
    """At the guest: hosts' models must be of as many classes, or messages would be waited for that nobody sends."""
    own = len(columns_of(document))
    for name, facts in hosts.items():
        if facts["models"] != own:
            raise ValueError(
                f"input_model of the guest holds {own} models, that of {name} {facts['models']}; take those of one training."
            )


def prediction_frame(frame, joint_scores: list, document: dict, dataset_type: str):
    """FATE's prediction format: label (if any), predict_score, predict_result, predict_detail, type.

    Family binomial scores by P(y = 1); a soft label appears as its more probable class, since FATE's Evaluation takes
    classes only. Family gaussian scores by z itself. Of more than two classes, ``predict_detail`` holds each one's
    probability against the rest, which need not add up to 1, ``predict_result`` the most probable one, and
    ``predict_score`` its probability.

    Args:
        joint_scores: a table of joint scores z for every model.
    """
    if len(joint_scores) > 1:
        score = partial(_scored_classes, classes=document["meta"]["labels"])
        return prediction_frame_of(frame, side_by_side(joint_scores).mapValues(score), dataset_type)
    (only,) = joint_scores
    from fate.arch.tensor import DTensor
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils import predict_tools

    binomial = document["meta"].get("family", "binomial") == "binomial"
    scored = only.mapValues(_probability_tensor if binomial else _score_tensor)
    shapes = [shape for _, shape in sorted(scored.mapValues(_shape).collect())]
    has_label = frame.schema.label_name is not None
    classified = has_label and binomial
    labelled = replace_labels(frame, label_blocks(frame).mapValues(_harder)) if classified else frame
    result = labelled.create_frame(with_label=has_label, with_weight=False)
    result[predict_tools.PREDICT_SCORE] = DTensor.from_sharding_table(scored, shapes=shapes)
    task = predict_tools.BINARY if binomial else predict_tools.REGRESSION
    details = predict_tools.compute_predict_details(
        result, task, classes=document["meta"]["labels"], threshold=document["meta"]["threshold"]
    )
    return add_dataset_type(details, dataset_type)


def _scored_classes(joint_scores: np.ndarray, classes: list) -> tuple:
    """Scores, results and details of a block: three lists. FATE's results are classes' numbers; these are the classes."""
    from fate.ml.utils.predict_tools import predict_detail_dict_to_str

    of_classes = probabilities(joint_scores)
    details = [predict_detail_dict_to_str(dict(zip(classes, row))) for row in of_classes.tolist()]
    return of_classes.max(axis=1).tolist(), [classes[at] for at in of_classes.argmax(axis=1)], details


def require_table(frame) -> None:
    """FATE takes test_data as optional, since scoring encrypted needs none at the hosts."""
    if frame is None:
        raise ValueError("The task has no test_data at this party; only with scoring encrypted, a host needs none.")


def check_scored_rows(frame, header: list) -> None:
    """Rows to be scored need the model's columns and sound values; a constant column is no harm here."""
    require_rows(frame)
    check_header(header, frame.schema.columns)
    check_features(frame)


def check_scored_labels(home, frame, true_labels: bool) -> Optional[LabelPrivacy]:
    """Refuse true labels of records whose flips were released, and ``true_labels`` of those that are flips or missing.

    Returns what the ledger knows of the labels, None for none or unknown ones.
    """
    found = refuse_true_labels_of_released_records(home, frame)
    check_true_labels(true_labels, frame.schema.label_name is not None, found)
    return found


def check_true_labels(true_labels: bool, labelled: bool, known: Optional[LabelPrivacy]) -> None:
    """Whether the labels of rows to predict can be the true ones that the job says they are."""
    if true_labels and not labelled:
        raise ValueError("true_labels is true, but the guest's table has no label column; leave it out.")
    if true_labels and known is not None and known.private:
        raise ValueError(
            "true_labels is true, but the labels of the guest's table are flips that were released; it is for rows held out of "
            "training whose labels were never flipped."
        )


def show_scored(ctx, scored, document: dict, labels: Optional[LabelPrivacy], true_labels: bool) -> None:
    """At the guest: the summary of a prediction."""
    facts = figures(PREDICTED_ROWS, scored, document, labels, true_labels=true_labels)
    show_summary(ctx, {"rows": scored.shape[0], **facts})


def _harder(labels):
    return np.where((labels > 0) & (labels < 1), labels > 0.5, labels)


def _probability_tensor(joint_scores):
    import torch

    return torch.as_tensor(probabilities(joint_scores)).reshape(-1, 1)


def _score_tensor(joint_scores):
    import torch

    return torch.as_tensor(joint_scores).reshape(-1, 1)


def _shape(tensor):
    return tensor.shape
