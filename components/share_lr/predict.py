"""Prediction for shared rows: the guest gets the score of each and, of family binomial, the label, in random order.

Nobody else gets any of them. The guest learns no id and no feature; but it knows the labels and its own features of all
records of its table, and beside a score and a label it may recognise some.
"""
from functools import partial
from typing import Optional

import numpy as np

from fate_dp.components.align.alignment import LABEL
from fate_dp.components.align.shares_table import share_blocks
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.common.together import Together
from fate_dp.components.dp_hetero_lr.cross_product.joint_columns import JointColumns
from fate_dp.components.dp_hetero_lr.cross_product.keys import exchange_keys
from fate_dp.components.dp_hetero_lr.predict import check_true_labels, prediction_frame, show_scored
from fate_dp.crypto.joined_records import FRACTION_BITS

from .model import JoinedModel
from .rows import SharedRows, check_two_parties
from .score_release import JoinedScoreRelease
from .scoring import leading_bits, opened_scores, score_modulus, score_shares
from .side import Side
from .terms import refuse_hidden_size


def predict_guest(ctx, document: dict, frame, alignment: dict, key_length: int, true_labels: bool):
    """Returns the prediction frame in FATE's format; ``true_labels`` says that its labels are true ones, for the summary."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_two_parties(ctx)
    known = {}

    def check():
        known["model"], known["rows"] = model, rows = JoinedModel.from_json(document), SharedRows.of(frame, alignment)
        check_scored_rows(model, rows)
        known["labels"] = _label_privacy(rows)
        check_true_labels(true_labels, rows.alignment.labelled, known["labels"])
        return {}

    def commit(hosts):
        (facts,) = hosts.values()
        if facts["run"] != known["model"].run:
            raise ValueError("The input_model of guest and host do not come from the same training.")
        known["rows"].check_same({name: facts["rows"] for name, facts in hosts.items()})
        if facts["key_length"] != key_length:
            found = facts["key_length"]
            raise ValueError(f"he_param.key_length is {found} at the host and {key_length} at the guest; set one at both.")
        return {}

    agree(ctx, check, commit)
    await_release(ctx)
    scored = take_scores(ctx.sub_ctx("predict"), known["rows"], known["model"], document, TEST_SET, key_length)
    show_scored(ctx, scored, document, known["labels"], true_labels)
    return scored


def predict_host(ctx, document: dict, frame, alignment: dict, key_length: int) -> None:
    """Records the release in this host's ledger, then opens this host's share of scores and labels to the guest."""
    check_two_parties(ctx)
    known = {}

    def check():
        known["model"], known["rows"] = model, rows = JoinedModel.from_json(document), SharedRows.of(frame, alignment)
        check_scored_rows(model, rows)
        known["release"] = JoinedScoreRelease.of(home_of(ctx), job_of(ctx), rows.alignment, model.reveal, model.origin)
        known["release"].check()
        return {"run": model.run, "rows": rows.facts(), "key_length": key_length}

    agree(ctx, check)
    count_release(ctx, known["release"])
    give_scores(ctx.sub_ctx("predict"), known["rows"], known["model"], key_length)


def _label_privacy(rows: SharedRows) -> Optional[LabelPrivacy]:
    """What the guest's ledger knew of the labels when align joined them."""
    known = rows.alignment.label_privacy
    return None if known is None else LabelPrivacy.from_json(known)


def count_release(ctx, release: JoinedScoreRelease) -> None:
    """At the host: count what will be opened; if another job took what was left, the guest learns of it, too."""
    Together(ctx)("release", release.record)


def await_release(ctx) -> None:
    """At the guest: wait until the host has counted."""
    Together(ctx)("release", lambda: None)


def check_scored_rows(model: JoinedModel, rows: SharedRows) -> None:
    """At each party: the model's columns, and no hidden size, which opened scores would show."""
    if list(model.header) != rows.features or model.own_columns != rows.alignment.own:
        raise ValueError("The model was trained on other columns than align joined; names and order must agree.")
    refuse_hidden_size(rows, "Rows are to be scored")


def take_scores(ctx, rows: SharedRows, model: JoinedModel, document: dict, dataset_type: str, key_length: int):
    """At the guest: the prediction frame in FATE's format."""
    modulus = score_modulus(len(model.factors))
    own, received = _score_shares(ctx, rows, model, key_length), ctx.hosts[0].get("score_shares")
    scores = own.join(received, partial(opened_scores, modulus=modulus))
    scored = rows.frame.create_frame()
    if opens_labels(rows, model):
        labels = _label_shares(rows).join(ctx.hosts[0].get("label_shares"), _opened_labels)
        scored.label = _one_column(scored, labels)
    return prediction_frame(scored, [scores], document, dataset_type)


def give_scores(ctx, rows: SharedRows, model: JoinedModel, key_length: int) -> None:
    """At the host: send the leading bits of its share of every score, and its share of every label; see `count_release`."""
    modulus = score_modulus(len(model.factors))
    shares = _score_shares(ctx, rows, model, key_length)
    ctx.guest.put("score_shares", shares.mapValues(partial(leading_bits, modulus=modulus)))
    if opens_labels(rows, model):
        ctx.guest.put("label_shares", _label_shares(rows))


def opens_labels(rows: SharedRows, model: JoinedModel) -> bool:
    """Labels that are classes, but not numbers: those would tell the guest which of its records matched."""
    return rows.alignment.labelled and model.family == "binomial"


def _score_shares(ctx, rows: SharedRows, model: JoinedModel, key_length: int):
    weights = len(model.factors)
    columns = JointColumns.of(ctx, {"features": [weights, 0]})
    keys = Together(ctx)("keys sent", partial(exchange_keys, ctx.sub_ctx("keys"), columns, key_length))
    side = Side.of(ctx, keys, columns)
    return score_shares(side, rows.blocks(model.factors), weights, model.weights, model.reveal)


def _label_shares(rows: SharedRows):
    return share_blocks(rows.frame, [LABEL])


def _one_column(frame, blocks):
    """A frame like ``frame`` whose only column holds the numbers of ``blocks``."""
    from fate.arch.tensor import DTensor

    tensors = blocks.mapValues(_tensor)
    column = frame.create_frame()
    column[LABEL] = DTensor.from_sharding_table(
        tensors, shapes=[shape for _, shape in sorted(tensors.mapValues(_shape).collect())]
    )
    return column


def _opened_labels(own, received):
    return (own + received)[:, 0].astype(np.float64) * 2.0**-FRACTION_BITS


def _tensor(labels):
    import torch

    return torch.as_tensor(labels).reshape(-1, 1)


def _shape(tensor):
    return tensor.shape
