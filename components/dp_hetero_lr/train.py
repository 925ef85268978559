"""The train stage of dp_hetero_lr: what each role checks, which solver trains, and one function per role."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..common.charges import home_of, job_of
from ..common.frames import alignment_digest
from ..common.provenance import (
    LabelPrivacy,
    derived_labels,
    find_label_privacy,
    record_use,
    refuse_true_labels_of_released_records,
    remember_scores,
)
from ..protocols.federation import check_roles
from ..protocols.label_figures import TRAINING_ROWS, VALIDATION_ROWS, figures, fitted_to
from ..protocols.optimizers import check_few_valued_batches
from ..protocols.prediction_frames import prediction_frame
from ..protocols.preflight import Preflight, show_summary
from ..protocols.training_terms import Descent, PartyNoise, TrainingTerms, models_of
from .combinations import NONE, PER_EPOCH, check_settings, solver_of
from .cross_product.protocol import CrossProduct
from .labels import Relabelling, check_hosts_classes, declared_classes, equivalent_epsilon, parameter_of
from .model import PartyModel, guest_summary, host_summary, initial_weights
from .noise import Noised, OwnNoise, noise_terms
from .per_epoch.protocol import PerEpoch
from .predict import ask_scores, check_scored_rows, give_scores
from .rows import Table, labels_of, prepare_rows, refusal
from .scores import NOT_ASKED, SHOWN, ScoreRelease, ask_consent, give_where_all_consent, left_out
from .settings import TrainSettings
from .terms import (
    Facts,
    JointTable,
    OwnPart,
    accept_terms,
    check_aligned,
    check_guest,
    check_host,
    check_hosts,
    check_labels,
    check_same_classes,
    check_same_run,
    check_warm_start,
    feature_counts,
    host_facts,
    run_of,
    score_epochs,
    size_bits,
    training_terms,
)

if TYPE_CHECKING:
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame

logger = logging.getLogger(__name__)

SCORES_OF_TRAINING, SCORES_OF_VALIDATION = "joint scores of training rows", "joint scores of validation rows"


class Solver(Protocol):
    """How a training is encrypted: what each role does, in step with the others."""

    def train_guest(self, ctx: Context, rows: Table, model: PartyModel, relabelling: Relabelling) -> None: ...

    def train_host(self, ctx: Context, rows: Table, model: PartyModel, release: ScoreRelease) -> None: ...

    def serve_arbiter(self, ctx: Context, terms: TrainingTerms) -> int:
        """Returns the epochs that ran."""
        ...


def chosen_solver(name: str, terms: TrainingTerms, noise: OwnNoise | None = None) -> Solver:
    """The solver of that name, see `solver_of`, with noise where the terms have any; ``noise`` is this party's part."""
    if name == PER_EPOCH:
        return PerEpoch()
    return Noised(CrossProduct(), noise) if terms.noise else CrossProduct()


@dataclass
class GuestPreflight(Preflight):
    """The guest's checks, and what it keeps of them.

    Attributes:
        privacy: of the labels.
        validation: of the labels of the validation rows, None for unknown ones.
        classes: that the training tells apart.
        rows: blocks of the training table.
        noise: the guest's own, None without.
        bits: of its columns, see `size_bits`.
        relabelling: flipback between epochs.
        told: what the summary says of flipback that was left out.
        terms: of the training.
    """

    settings: TrainSettings
    descent: Descent
    train_data: DataFrame
    validate_data: DataFrame | None
    warm_start: dict | None
    privacy: LabelPrivacy = field(init=False)
    validation: LabelPrivacy | None = field(init=False)
    classes: tuple[float, ...] = field(init=False)
    rows: Table = field(init=False)
    noise: OwnNoise | None = field(init=False)
    bits: int = field(init=False)
    relabelling: Relabelling = field(init=False)
    told: dict = field(init=False, default_factory=dict)
    terms: TrainingTerms = field(init=False)

    def __post_init__(self) -> None:
        self.home = home_of(self.ctx)

    def check(self) -> dict:
        settings, frame = self.settings, self.train_data
        fit_intercept = self.descent.fit_intercept
        check_settings(settings, self.warm_start)
        check_guest(frame, fit_intercept, self.warm_start)
        check_warm_start(self.ctx, self.descent, self.warm_start)
        self.privacy = find_label_privacy(self.home, frame, settings.label_source)
        if settings.noise != NONE and self.privacy.derived:
            raise derived_labels()
        self.privacy.refuse_numbers(settings.family)
        self.classes = declared_classes(self.home, settings, self.privacy)
        check_same_classes(self.warm_start, self.classes)
        check_labels(frame, settings.family, self.classes)
        if self.validate_data is not None:
            check_scored_rows(self.validate_data, frame.schema.columns.to_list())
            self.validation = refuse_true_labels_of_released_records(self.home, self.validate_data)
        self.rows = prepare_rows(frame, fit_intercept=fit_intercept, with_label=True)
        self.noise = OwnNoise.of(self.ctx, settings, frame, intercept=fit_intercept, has_target=True)
        self.bits = 0 if self.noise else size_bits(self.descent, self.rows, frame)
        self.relabelling = Relabelling(settings, labels_of(self.rows), self.privacy)
        return {}

    def commit(self, hosts: Facts) -> dict:
        descent, frame, shows = self.descent, self.train_data, self.settings.train_scores
        rounds = self._planned_rounds(hosts)
        planned = len(score_epochs(descent, rounds, self.warm_start))
        check_hosts(frame, hosts, planned, shows or self.validate_data is not None)
        check_hosts_classes(self.classes, hosts)
        check_same_run(self.warm_start, hosts)
        if self.validate_data is not None:
            check_aligned(self.validate_data, {name: facts["validation_digest"] for name, facts in hosts.items()})
        features = feature_counts(frame, descent.fit_intercept, hosts)
        if any(facts["few_valued"] for facts in hosts.values()):
            check_few_valued(frame, descent.batch_size, features, self.classes)
        bits = max([self.bits, *(facts["mean_square_bits"] for facts in hosts.values())])
        parts = {name: facts["noise"] and PartyNoise.from_wire(facts["noise"]) for name, facts in hosts.items()}
        noise = noise_terms(self.noise.part if self.noise else None, parts, frame.shape[0])
        epsilon = equivalent_epsilon(self.privacy, self.relabelling.labels)
        table = JointTable(frame.shape[0], features, bits, self.classes)
        self.terms = training_terms(descent, table, epsilon, self.warm_start, rounds, noise)
        if self.noise and noise:
            self.noise.charge(noise)
        record_use(self.home, self.privacy, job_of(self.ctx), frame.shape[0])
        return self.terms.to_wire()

    def _planned_rounds(self, hosts: Facts) -> list[int]:
        """Epochs with a round of flipback.

        Mode auto chooses what helps, so it chooses none where a host shows no joint scores: the job need not fail for it.
        """
        rounds = self.relabelling.rounds
        if self.settings.flipback.mode != "auto" or not rounds:
            return rounds
        needed = len(score_epochs(self.descent, rounds, self.warm_start))
        refusing = [
            name for name, facts in hosts.items() if facts["few_valued"] or facts["score_releases_left"] < needed
        ]
        if not refusing:
            return rounds
        self.relabelling.leave_out()
        told = f"none: too few releases of joint scores are left, or columns take few values, at {', '.join(refusing)}"
        logger.warning("flipback mode is %s", told)
        self.told = {"flipback mode": told}
        return []


@dataclass
class HostPreflight(Preflight):
    """A host's checks, and what it keeps of them.

    Attributes:
        release: consent to joint scores of the training rows.
        validation: the same of the validation rows.
        rows: blocks of the training table.
        noise: this host's own, None without.
        bits: of its columns, see `size_bits`.
        few_valued: whether columns take few values, which scores would show.
    """

    settings: TrainSettings
    descent: Descent
    train_data: DataFrame
    validate_data: DataFrame | None
    warm_start: dict | None
    release: ScoreRelease = field(init=False)
    validation: ScoreRelease = field(init=False)
    rows: Table = field(init=False)
    noise: OwnNoise | None = field(init=False)
    bits: int = field(init=False)
    few_valued: bool = field(init=False)

    def check(self) -> dict:
        settings, frame = self.settings, self.train_data
        home, job = home_of(self.ctx), job_of(self.ctx)
        check_settings(settings, self.warm_start)
        check_host(frame, settings.batch_size, self.warm_start)
        check_warm_start(self.ctx, self.descent, self.warm_start)
        self.release = ScoreRelease.of(home, job, frame, "train_data")
        self.rows = prepare_rows(frame, fit_intercept=False, with_label=False)
        self.noise = OwnNoise.of(self.ctx, settings, frame)
        self.bits = 0 if self.noise else size_bits(self.descent, self.rows, frame)
        facts = {
            **host_facts(frame, self.release, self.rows),
            "mean_square_bits": self.bits,
            "noise": self.noise and self.noise.part.to_wire(),
            "warm_start_run": run_of(self.warm_start),
            "classes": parameter_of(settings),
        }
        self.few_valued = facts["few_valued"]
        if self.validate_data is not None:
            check_scored_rows(self.validate_data, frame.schema.columns.to_list())
            self.validation = ScoreRelease.of(home, job, self.validate_data, "validate_data")
            facts["validation_digest"] = alignment_digest(self.validate_data)
        return facts

    def accept(self, wire: dict) -> TrainingTerms:
        """Take the guest's terms, charge noise, and remember the rows: the last step before work starts."""
        settings, frame = self.settings, self.train_data
        own = OwnPart.of(self.ctx, frame, self.bits)
        terms = accept_terms(wire, settings, frame.shape[0], self.warm_start, own, self.noise)
        if self.few_valued:
            check_few_valued(frame, settings.batch_size, terms.features, terms.classes)
            if terms.score_epochs or settings.train_scores or self.validate_data is not None:
                raise ValueError(refusal("This host"))
        if self.noise is not None and terms.noise is not None:
            self.noise.charge(terms.noise)
        self.release.remember_training(frame)
        return terms


def check_few_valued(
    frame: DataFrame, batch_size: int | None, features: tuple[int, ...], classes: tuple[float, ...]
) -> None:
    """`check_few_valued_batches` of a training of all data parties' features."""
    check_few_valued_batches(frame.shape[0], batch_size, sum(features) + models_of(classes) - 1)


def train_guest(
    ctx: Context,
    settings: TrainSettings,
    train_data: DataFrame,
    validate_data: DataFrame | None,
    warm_start: dict | None,
) -> tuple[dict, DataFrame | None]:
    """Returns the guest's JSON model and its prediction frame (None without train_scores, or where a host shows none)."""
    from fate.ml.utils.predict_tools import TRAIN_SET, VALIDATE_SET

    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    descent = Descent.of(settings, shared=solver != PER_EPOCH)
    checks = GuestPreflight(ctx, settings, descent, train_data, validate_data, warm_start)
    checks.agree()
    terms, relabelling = checks.terms, checks.relabelling
    model = start_model(ctx, settings, terms, train_data, warm_start, descent.fit_intercept)
    chosen_solver(solver, terms, checks.noise).train_guest(ctx.sub_ctx("train"), checks.rows, model, relabelling)
    privacy, mode = checks.privacy.after(warm_start), relabelling.mode_that_ran
    document, step = model.to_json(privacy.to_json(mode)), settings.score_step
    told: dict[str, Any] = {SCORES_OF_TRAINING: NOT_ASKED}
    training = validation = None
    if settings.train_scores:
        told[SCORES_OF_TRAINING], scores = _asked(ctx.sub_ctx("predict"), "training rows", train_data, document, step)
        if scores is not None:
            training = prediction_frame(train_data, scores, document, TRAIN_SET)
            remember_scores(checks.home, training, document)
    if validate_data is not None:
        of_validation = ctx.sub_ctx("validate_predict")
        told[SCORES_OF_VALIDATION], scores = _asked(of_validation, "validation rows", validate_data, document, step)
        if scores is not None:
            validation = prediction_frame(validate_data, scores, document, VALIDATE_SET)
    if training is not None:
        fitted = fitted_to(terms, mode, warm_start)
        told.update(figures(TRAINING_ROWS, training, document, checks.privacy, fitted=fitted))
    if validation is not None:
        told.update(figures(VALIDATION_ROWS, validation, document, checks.validation))
    show_summary(ctx, {**guest_summary(model, privacy, mode), **checks.told, **told})
    return document, _together(training, validation)


def train_host(
    ctx: Context,
    settings: TrainSettings,
    train_data: DataFrame,
    validate_data: DataFrame | None,
    warm_start: dict | None,
) -> dict:
    """Returns the host's JSON model."""
    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    descent = Descent.of(settings, shared=solver != PER_EPOCH)
    checks = HostPreflight(ctx, settings, descent, train_data, validate_data, warm_start)
    terms, release = checks.accept(checks.agree()), checks.release
    model = start_model(ctx, settings, terms, train_data, warm_start, fit_intercept=False)
    model.few_valued = checks.few_valued
    chosen_solver(solver, terms, checks.noise).train_host(ctx.sub_ctx("train"), checks.rows, model, release)
    document, told, columns = model.to_json(), {}, model.columns
    if settings.train_scores:
        of_training, consents = ctx.sub_ctx("predict"), release.allows(columns)
        record = partial(release.record_all, columns, "prediction on training rows")
        give = partial(give_scores, of_training, train_data, document, settings.score_step)
        shown = give_where_all_consent(of_training, consents, partial(_in_order, record, give))
        told[SCORES_OF_TRAINING] = SHOWN if shown else release.left_out(consents)
    if validate_data is not None:
        validation, of_validation = checks.validation, ctx.sub_ctx("validate_predict")
        consents = validation.allows_prediction(validate_data, columns)
        record = partial(validation.record_prediction, validate_data, columns)
        give = partial(give_scores, of_validation, validate_data, document, settings.score_step)
        shown = give_where_all_consent(of_validation, consents, partial(_in_order, record, give))
        told[SCORES_OF_VALIDATION] = SHOWN if shown else validation.left_out(consents)
    show_summary(ctx, {**host_summary(model, release), **told})
    return document


def train_arbiter(ctx: Context, settings: TrainSettings) -> dict:
    """Returns the arbiter's JSON model: progress only, since it learns nothing else."""
    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    terms = TrainingTerms.from_wire(Preflight(ctx).agree(), Descent.of(settings))
    epochs_run = chosen_solver(solver, terms).serve_arbiter(ctx.sub_ctx("train"), terms)
    return {"data": {"epochs_run": epochs_run}, "meta": {"epochs": settings.epochs, "he_param": settings.he_param}}


def start_model(
    ctx: Context,
    settings: TrainSettings,
    terms: TrainingTerms,
    frame: DataFrame,
    warm_start: dict | None,
    fit_intercept: bool,
) -> PartyModel:
    """A fresh model, or one that goes on from ``warm_start``."""
    if warm_start is not None:
        return PartyModel.from_json(warm_start, settings, terms)
    header = frame.schema.columns.to_list()
    start = partial(initial_weights, settings.init_param, len(header), home_of(ctx).key, fit_intercept)
    return PartyModel(settings, terms, header, [start(model) for model in range(terms.models)], fit_intercept)


def _asked(ctx: Context, rows: str, frame: DataFrame, document: dict, step: float) -> tuple[str, list[Table] | None]:
    """What the summary says of the joint scores of some rows, and the scores, None where a host shows none."""
    refusing = ask_consent(ctx, rows)
    if refusing:
        return left_out(refusing), None
    return SHOWN, ask_scores(ctx, frame, document, step)


def _in_order(*steps: Callable[[], None]) -> None:
    """A release is counted before it is given."""
    for step in steps:
        step()


def _together(*frames: DataFrame | None) -> DataFrame | None:
    """One frame of those that there are, None without any."""
    from fate.arch.dataframe import DataFrame

    there = [frame for frame in frames if frame is not None]
    return DataFrame.vstack(there) if len(there) > 1 else (there[0] if there else None)
