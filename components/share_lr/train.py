"""The train stage of share_lr: what each role checks, and one function per role."""

import secrets
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ..common.charges import home_of, job_of
from ..common.federation import Context, Document
from ..common.frames import TRAIN_SET, DataFrame
from ..common.preflight import Preflight, Together, show_summary
from ..common.provenance import LabelPrivacy, record_use, unknown_labels
from ..protocols.prediction_frames import TRAINING_ROWS, figures, fitted_to
from ..protocols.score_counts import CountedLosses
from ..protocols.training_terms import TrainingTerms
from . import agreement
from .agreement import SharedRows, dataset_of
from .model import JoinedModel, guest_summary, host_summary
from .predict import JoinedScoreRelease, give_scores, take_scores
from .scoring import kept_share, open_weights
from .settings import ShareSettings
from .training import JoinedTraining, Progress, run_epochs

ORIGIN_BYTES = 16


@dataclass
class JoinedPreflight(Preflight):
    """What both parties check alike, and keep; ``size`` is the ledger's line on what is opened of a hidden size."""

    settings: ShareSettings
    frame: DataFrame
    alignment: Document
    rows: SharedRows = field(init=False)
    size: agreement.OpenedSize = field(init=False)

    def check(self) -> Document:
        self.rows = SharedRows.of(self.frame, self.alignment)
        agreement.check_rows(self.rows, self.settings)
        self.size = agreement.OpenedSize(self.ctx, self.rows, self.settings.reveal)
        return {}


@dataclass
class JoinedGuestPreflight(JoinedPreflight):
    """The guest's checks; ``privacy`` is of the labels."""

    privacy: LabelPrivacy = field(init=False)
    terms: TrainingTerms = field(init=False)

    def check(self) -> Document:
        super().check()
        known = self.rows.label_privacy()
        if known is None:
            raise unknown_labels()
        self.privacy = known
        self.privacy.refuse_numbers(self.settings.training.family)
        return {}

    def commit(self, hosts: dict[str, Document]) -> Document:
        (facts,) = hosts.values()
        agreement.check_same_request(facts["asked"], self.settings)
        self.rows.check_same(hosts)
        self.terms = agreement.joint_terms(self.rows, self.settings, self.privacy.epsilon)
        record_use(home_of(self.ctx), self.privacy, job_of(self.ctx), self.terms.rows)
        return self.terms.to_wire()


@dataclass
class JoinedHostPreflight(JoinedPreflight):
    """The host's checks; ``origin`` names the training, and the host alone chose it. ``release`` is None without train_scores."""

    losses: CountedLosses = field(init=False)
    origin: str = field(init=False)
    release: JoinedScoreRelease | None = field(init=False, default=None)

    def check(self) -> Document:
        super().check()
        self.origin = secrets.token_hex(ORIGIN_BYTES)
        home, job, alignment = home_of(self.ctx), job_of(self.ctx), self.rows.alignment
        self.losses = CountedLosses(home, job, dataset_of(home, alignment), alignment.rows)
        if self.settings.train_scores:
            self.release = JoinedScoreRelease.of(home, job, alignment, self.settings.reveal, self.origin)
            self.release.check()
        return {"asked": self.settings.to_json(), "rows": self.rows.facts()}

    def accept(self, wire: Document) -> TrainingTerms:
        terms = agreement.accept_terms(wire, self.rows, self.settings)
        self.size.record()
        return terms


def train_guest(
    ctx: Context, settings: ShareSettings, frame: DataFrame, alignment: Document
) -> tuple[Document, DataFrame | None]:
    """Returns the guest's JSON model and its prediction frame (None without train_scores)."""
    agreement.check_two_parties(ctx)
    checks = JoinedGuestPreflight(ctx, settings, frame, alignment)
    checks.agree()
    rows, privacy, terms = checks.rows, checks.privacy, checks.terms
    Together(ctx)("terms", checks.size.record)
    model, progress = _train(ctx.sub_ctx("train"), checks, terms, secrets.token_hex(ORIGIN_BYTES))
    checks.size.mark_released()
    document = model.to_json(settings, terms.optimizer, progress, privacy.to_json("none"))
    scored, shown = None, {}
    if settings.train_scores:
        scored = take_scores(ctx, rows, model, document, TRAIN_SET, terms.descent.key_length)
        shown = figures(TRAINING_ROWS, scored, document, privacy, fitted=fitted_to(terms, "none", None))
    show_summary(ctx, {**guest_summary(settings, rows.alignment, model, progress, privacy), **shown})
    return document, scored


def train_host(ctx: Context, settings: ShareSettings, frame: DataFrame, alignment: Document) -> Document:
    agreement.check_two_parties(ctx)
    checks = JoinedHostPreflight(ctx, settings, frame, alignment)
    wire = checks.agree()
    terms = Together(ctx)("terms", partial(checks.accept, wire))
    model, progress = _train(ctx.sub_ctx("train"), checks, terms, checks.origin, checks.losses)
    checks.size.mark_released()
    if checks.release is not None:
        give_scores(ctx, checks.release, checks.rows, model, terms.descent.key_length)
    show_summary(ctx, {**host_summary(checks.rows.alignment, model, progress), **checks.losses.told()})
    return model.to_json(settings, terms.optimizer, progress, None)


def _train(
    ctx: Context, checks: JoinedPreflight, terms: TrainingTerms, origin: str, losses: CountedLosses | None = None
) -> tuple[JoinedModel, Progress]:
    rows, settings = checks.rows, checks.settings
    training = JoinedTraining(ctx, rows.training_blocks(), terms, losses)
    progress = run_epochs(ctx, training)
    share = training.weight_share()
    weights: np.ndarray | None
    if settings.reveal == "nobody":
        weights = kept_share(share, ctx.local.role == "guest")
    else:
        weights = Together(ctx)("weights", partial(open_weights, ctx.sub_ctx("finish"), share, settings.reveal))
    model = JoinedModel(
        header=tuple(rows.features),
        own_columns=rows.alignment.own,
        family=terms.descent.family,
        fit_intercept=terms.descent.fit_intercept,
        reveal=settings.reveal,
        run=terms.run,
        origin=origin,
        weights=weights,
    )
    return model, progress
