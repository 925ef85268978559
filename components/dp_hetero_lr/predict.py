"""Prediction: the guest gets X_h w_h from each host and holds the joint scores; the stage, and the parts training uses."""
import numpy as np

from fate_dp.components.common.frame_checks import check_features, refuse_label, require_rows
from fate_dp.components.common.frames import label_blocks, replace_labels
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import refuse_true_labels_of_released_records
from fate_dp.components.common.record_stream import ids_digest

from .scoring import joint_score_blocks, probabilities
from .model import check_header, weights_of
from .rows import prepare_rows, scores
from .score_release import ScoreRelease
from .terms import check_aligned


def predict_guest(ctx, document: dict, frame):
    """Returns the prediction frame in FATE's format."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_roles(ctx, arbiter=False)

    def check():
        require_table(frame)
        check_scored_rows(frame, document["data"]["estimator"]["header"])
        refuse_true_labels_of_released_records(home_of(ctx), frame)
        return {}

    def commit(hosts):
        check_aligned(frame, {name: facts["digest"] for name, facts in hosts.items()})
        return {}

    agree(ctx, check, commit)
    return prediction_frame(frame, ask_scores(ctx.sub_ctx("predict"), frame, document), document, TEST_SET)


def predict_host(ctx, document: dict, frame) -> None:
    """Records the release in this host's ledger, then sends this host's part of the scores."""
    check_roles(ctx, arbiter=False)
    weights, known = weights_of(document), {}

    def check():
        require_table(frame)
        refuse_label(frame)
        check_scored_rows(frame, document["data"]["estimator"]["header"])
        known["release"] = ScoreRelease.of(home_of(ctx), job_of(ctx), frame)
        known["release"].check(frame, weights)
        return {"digest": ids_digest(frame)}

    agree(ctx, check)
    known["release"].record_prediction(frame, weights)
    give_scores(ctx.sub_ctx("predict"), frame, document)


def predict_arbiter(ctx) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    agree(ctx, dict)


def ask_scores(ctx, frame, document: dict):
    """At the guest: table of joint scores z of every row."""
    rows = prepare_rows(frame, fit_intercept=document["data"]["estimator"]["fit_intercept"], with_label=False)
    return joint_score_blocks(ctx, rows, weights_of(document))


def give_scores(ctx, frame, document: dict) -> None:
    """At a host: send X_h w_h of every row to the guest. The caller has counted it."""
    ctx.guest.put("scores", scores(prepare_rows(frame, fit_intercept=False, with_label=False), weights_of(document)))


def prediction_frame(frame, joint_scores, document: dict, dataset_type: str):
    """FATE's prediction format: label (if any), predict_score, predict_result, predict_detail, type.

    Family binomial scores by P(y = 1); a soft label appears as its more probable class, since FATE's Evaluation takes
    classes only. Family gaussian scores by z itself.
    """
    from fate.arch.tensor import DTensor
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils import predict_tools

    binomial = document["meta"].get("family", "binomial") == "binomial"
    scored = joint_scores.mapValues(_probability_tensor if binomial else _score_tensor)
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


def require_table(frame) -> None:
    """FATE takes test_data as optional, since scoring encrypted needs none at the hosts."""
    if frame is None:
        raise ValueError("The task has no test_data at this party; only with scoring encrypted, a host needs none.")


def check_scored_rows(frame, header: list) -> None:
    """Rows to be scored need the model's columns and sound values; a constant column is no harm here."""
    require_rows(frame)
    check_header(header, frame.schema.columns)
    check_features(frame)


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
