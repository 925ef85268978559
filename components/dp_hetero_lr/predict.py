"""Prediction: the guest gets X_h w_h from each host and holds the joint scores; the stage, and the parts training uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..common.charges import PartyHome, home_of, job_of
from ..common.frames import alignment_digest, check_features, refuse_label, require_rows
from ..common.provenance import LabelPrivacy, refuse_true_labels_of_released_records, remember_scores
from ..protocols.federation import check_roles
from ..protocols.prediction_frames import check_true_labels, prediction_frame, show_scored
from ..protocols.preflight import Preflight
from .model import check_header, columns_of, has_intercept, header_of
from .rows import Table, prepare_rows, refusal
from .scores import ScoreRelease, contexts_of_models, joint_score_blocks, rounded_scores
from .terms import Facts, check_aligned

if TYPE_CHECKING:
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame


@dataclass
class GuestPreflight(Preflight):
    """The guest's checks; ``labels`` is what its ledger knows of the labels of the rows."""

    document: dict
    frame: DataFrame | None
    true_labels: bool
    labels: LabelPrivacy | None = field(init=False)

    def check(self) -> dict:
        frame = required_table(self.frame)
        check_scored_rows(frame, header_of(self.document))
        self.labels = check_scored_labels(home_of(self.ctx), frame, self.true_labels)
        return {}

    def commit(self, hosts: Facts) -> dict:
        check_aligned(required_table(self.frame), {name: facts["digest"] for name, facts in hosts.items()})
        check_same_models(self.document, hosts)
        return {}


@dataclass
class HostPreflight(Preflight):
    """A host's checks; ``release`` is its consent.

    Few rows take few values: whether columns do was seen when the model was trained.
    """

    document: dict
    columns: Sequence[np.ndarray]
    frame: DataFrame | None
    release: ScoreRelease = field(init=False)

    def check(self) -> dict:
        frame = required_table(self.frame)
        refuse_label(frame)
        check_scored_rows(frame, header_of(self.document))
        self.release = release = ScoreRelease.of(home_of(self.ctx), job_of(self.ctx), frame)
        if self.document["meta"].get("few_valued") and not release.home.policy.consents_to_few_values(release.dataset):
            raise ValueError(refusal("The host"))
        release.check(frame, self.columns)
        return {"digest": alignment_digest(frame), "models": len(self.columns)}


def predict_guest(ctx: Context, document: dict, frame: DataFrame | None, step: float, true_labels: bool) -> DataFrame:
    """Returns the prediction frame in FATE's format; ``true_labels`` says that its labels are true ones, for the summary."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_roles(ctx, arbiter=False)
    checks = GuestPreflight(ctx, document, frame, true_labels)
    checks.agree()
    scores = ask_scores(ctx.sub_ctx("predict"), frame, document, step)
    scored = prediction_frame(frame, scores, document, TEST_SET)
    remember_scores(home_of(ctx), scored, document)
    show_scored(ctx, scored, document, checks.labels, true_labels)
    return scored


def predict_host(ctx: Context, document: dict, frame: DataFrame | None, step: float) -> None:
    """Records the release in this host's ledger, then sends this host's part of the scores, rounded to ``step``."""
    check_roles(ctx, arbiter=False)
    columns = columns_of(document)
    checks = HostPreflight(ctx, document, columns, frame)
    checks.agree()
    checks.release.record_prediction(frame, columns)
    give_scores(ctx.sub_ctx("predict"), frame, document, step)


def predict_arbiter(ctx: Context) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    Preflight(ctx).agree()


def ask_scores(ctx: Context, frame: DataFrame, document: dict, step: float) -> list[Table]:
    """At the guest: for every model a table of joint scores z of every row."""
    rows, columns = prepare_rows(frame, fit_intercept=has_intercept(document), with_label=False), columns_of(document)
    contexts = contexts_of_models(ctx, len(columns))
    return [joint_score_blocks(of_model, rows, weights, step) for of_model, weights in zip(contexts, columns)]


def give_scores(ctx: Context, frame: DataFrame, document: dict, step: float) -> None:
    """At a host: send X_h w_h of every row and model to the guest, rounded. The caller has counted it."""
    rows, columns = prepare_rows(frame, fit_intercept=False, with_label=False), columns_of(document)
    for of_model, weights in zip(contexts_of_models(ctx, len(columns)), columns):
        of_model.guest.put("scores", rounded_scores(rows, weights, home_of(ctx).key, step))


def check_same_models(document: dict, hosts: Facts) -> None:
    """At the guest: hosts' models must be of as many classes, or messages would be waited for that nobody sends."""
    own = len(columns_of(document))
    for name, facts in hosts.items():
        if facts["models"] != own:
            raise ValueError(
                f"input_model of the guest holds {own} models, that of {name} {facts['models']}; take those of one training."
            )


def required_table(frame: DataFrame | None) -> DataFrame:
    """FATE takes test_data as optional, since scoring encrypted needs none at the hosts."""
    if frame is None:
        raise ValueError("The task has no test_data at this party; only with scoring encrypted, a host needs none.")
    return frame


def check_scored_rows(frame: DataFrame, header: Sequence[str]) -> None:
    """Rows to be scored need the model's columns and sound values; a constant column is no harm here."""
    require_rows(frame)
    check_header(header, frame.schema.columns)
    check_features(frame)


def check_scored_labels(home: PartyHome, frame: DataFrame, true_labels: bool) -> LabelPrivacy | None:
    """Refuse true labels of records whose flips were released, and ``true_labels`` of those that are flips or missing.

    Returns:
        What the ledger knows of the labels, None for none or unknown ones.
    """
    found = refuse_true_labels_of_released_records(home, frame)
    check_true_labels(true_labels, frame.schema.label_name is not None, found)
    return found
