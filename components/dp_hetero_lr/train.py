"""The stages train and cross_validation of dp_hetero_lr: what each role checks, which solver trains, a function per role.

In cross-validation each of k folds is trained like a training of its own and scored on its held-out rows. Every fold
shows the guest the scores of another model, so each host's ledger counts one release a fold, one for each of more than
two classes, beside those of flipback; all of them are agreed on before the first fold.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..common import provenance
from ..common.charges import home_of, job_of, refuse_derived_labels
from ..common.federation import Context, Document, check_roles, others
from ..common.frames import TRAIN_SET, VALIDATE_SET, DataFrame, Table, alignment_digest, check_aligned
from ..common.preflight import Preflight, Refusal, show_summary
from ..common.provenance import LabelPrivacy
from ..common.vocabulary import LABEL, NONE, RECORD
from ..protocols import prediction_frames
from ..protocols.folds import folds_of
from ..protocols.prediction_frames import FOLD_ROWS, TRAINING_ROWS, VALIDATION_ROWS
from ..protocols.score_counts import NOT_SHOWN, remember_training
from ..protocols.training_terms import Descent, PartyNoise, TrainingTerms, models_of
from . import agreement
from .agreement import Facts, JointTable, OwnPart
from .cross_product.protocol import CrossProduct, first_targets
from .labels import Relabelling, check_hosts_classes, equivalent_epsilon, privacy_and_classes
from .model import PartyModel, guest_summary, host_summary, initial_weights, units_of
from .noise import Noised, OwnNoise, noise_terms
from .per_epoch.protocol import PerEpoch
from .predict import check_scored_rows
from .rows import Units, labels_of, prepare_rows, refusal
from .scores import SHOWN, ScoreRelease, ask_consent, ask_scores
from .settings import TrainSettings

logger = logging.getLogger(__name__)

SCORES_OF_TRAINING, SCORES_OF_VALIDATION = f"joint scores of {TRAINING_ROWS}", f"joint scores of {VALIDATION_ROWS}"
Solver = CrossProduct | PerEpoch | Noised
"""How a training is encrypted: what each role does, in step with the others."""


def chosen_solver(terms: TrainingTerms, noise: OwnNoise | None = None) -> Solver:
    """The solver of the terms, with noise where they have any; ``noise`` is this party's part."""
    if not terms.descent.shared:
        return PerEpoch()
    return Noised(CrossProduct(), noise) if terms.noise else CrossProduct()


def checked_descent(ctx: Context, settings: TrainSettings) -> Descent:
    """The descent that the settings give; refuses a task without the parties that their solver needs."""
    descent = settings.descent()
    check_roles(ctx, arbiter=not descent.shared)
    return descent


@dataclass
class HeteroPreflight(Preflight):
    """What guest and hosts check alike, and keep; for ``units`` see `units_to_train_in`, for ``bits`` `size_bits`."""

    settings: TrainSettings
    train_data: DataFrame
    validate_data: DataFrame | None
    warm_start: Document | None
    units: Units = field(init=False)
    rows: Table = field(init=False)
    noise: OwnNoise | None = field(init=False)
    bits: int = field(init=False)

    def __post_init__(self) -> None:
        self.descent, self.home = checked_descent(self.ctx, self.settings), home_of(self.ctx)

    def check_table(self) -> None:
        """What the role asks of its training table."""

    def prepare(self, *, fit_intercept: bool, with_label: bool) -> None:
        frame = self.train_data
        self.settings.check_noise(self.warm_start)
        self.check_table()
        agreement.check_warm_start(self.ctx, self.descent, self.warm_start)
        self.units = units_to_train_in(self.settings, frame, self.warm_start)
        self.units.check(frame)
        if self.validate_data is not None:
            check_scored_rows(self.validate_data, frame.schema.columns.to_list(), self.units)
        self.rows = prepare_rows(frame, self.units, fit_intercept=fit_intercept, with_label=with_label)
        self.noise = OwnNoise.of(self.ctx, self.settings, frame, intercept=fit_intercept, has_target=with_label)
        self.bits = 0 if self.noise else agreement.size_bits(self.descent, self.rows, frame)

    def start_model(self, terms: TrainingTerms, fit_intercept: bool) -> PartyModel:
        if self.warm_start is not None:
            return PartyModel.from_json(self.warm_start, self.settings, terms)
        return fresh_model(self.ctx, self.settings, terms, self.train_data, fit_intercept, self.units)


@dataclass
class HeteroGuestPreflight(HeteroPreflight):
    """The guest's checks; ``validation`` is what is known of the labels of those rows, ``told`` of flipback left out."""

    privacy: LabelPrivacy = field(init=False)
    validation: LabelPrivacy | None = field(init=False)
    classes: tuple[float, ...] = field(init=False)
    relabelling: Relabelling = field(init=False)
    told: Document = field(init=False, default_factory=dict)
    terms: TrainingTerms = field(init=False)

    def check_table(self) -> None:
        frame, protected = self.train_data, self.settings.privacy
        agreement.check_guest(frame, self.descent.fit_intercept, self.warm_start)
        self.privacy, self.classes = privacy_and_classes(self.home, frame, self.settings)
        if protected != NONE:
            refuse_derived_labels(frame)
        agreement.check_same_classes(self.warm_start, self.classes)
        if protected != LABEL:
            agreement.check_labels(frame, self.settings.family, self.classes)

    def check(self) -> Document:
        self.prepare(fit_intercept=self.descent.fit_intercept, with_label=True)
        if self.validate_data is not None:
            self.validation = provenance.refuse_true_labels_of_released_records(self.home, self.validate_data)
        self.relabelling = Relabelling(self.settings, labels_of(self.rows), self.privacy)
        return {}

    def commit(self, hosts: Facts) -> Document:
        descent, frame, rows = self.descent, self.train_data, self.train_data.shape[0]
        rounds = self._planned_rounds(hosts)
        planned = len(agreement.score_epochs(descent, rounds, self.warm_start))
        agreement.check_hosts(frame, hosts, planned, self.settings.train_scores or self.validate_data is not None)
        check_hosts_classes(self.classes, hosts)
        agreement.check_same_run(self.warm_start, hosts)
        if self.validate_data is not None:
            check_aligned(self.validate_data, hosts, "validation_digest")
        features = agreement.feature_counts(frame, descent.fit_intercept, hosts)
        few_valued = any(facts["few_valued"] for facts in hosts.values())
        agreement.check_few_valued(few_valued, rows, descent.batch_size, features, self.classes)
        bits = max([self.bits, *(facts["mean_square_bits"] for facts in hosts.values())])
        parts = {name: facts["noise"] and PartyNoise.from_wire(facts["noise"]) for name, facts in hosts.items()}
        noise = noise_terms(self.noise.part if self.noise else None, parts, rows)
        epsilon = equivalent_epsilon(self.privacy, self.relabelling.labels)
        table = JointTable(rows, features, bits, self.classes)
        self.terms = agreement.training_terms(descent, table, epsilon, self.warm_start, rounds, noise)
        if self.noise and noise:
            self.noise.charge(noise)
        provenance.record_use(self.home, self.privacy, job_of(self.ctx), rows)
        return self.terms.to_wire()

    def _planned_rounds(self, hosts: Facts) -> list[int]:
        """Epochs with a round of flipback.

        Mode auto chooses what helps, so it chooses none where a host shows no joint scores: the job need not fail for it.
        """
        rounds = self.relabelling.rounds
        needed = len(agreement.score_epochs(self.descent, rounds, self.warm_start))
        refusing = [
            name for name, facts in hosts.items() if facts["few_valued"] or facts["score_releases_left"] < needed
        ]
        if self.settings.flipback.mode != "auto" or not rounds or not refusing:
            return rounds
        self.relabelling.leave_out()
        told = f"none: too few releases of joint scores are left, or columns take few values, at {', '.join(refusing)}"
        logger.warning("flipback mode is %s", told)
        self.told = {"flipback mode": told}
        return []


@dataclass
class HeteroHostPreflight(HeteroPreflight):
    """A host's checks; ``release`` and ``validation`` are consent to joint scores of training and validation rows."""

    release: ScoreRelease = field(init=False)
    validation: ScoreRelease = field(init=False)
    few_valued: bool = field(init=False)

    def check_table(self) -> None:
        agreement.check_host(self.train_data, self.settings.batch_size, self.warm_start)

    def check(self) -> Document:
        job = job_of(self.ctx)
        self.prepare(fit_intercept=False, with_label=False)
        self.release = replace(ScoreRelease.of(self.home, job, self.train_data, "train_data"), units=self.units)
        shows_scores = self.settings.train_scores or self.validate_data is not None
        asks_values = self.settings.privacy != RECORD or shows_scores
        facts = {
            **agreement.host_facts(self.train_data, self.release, self.rows, asks_values),
            "mean_square_bits": self.bits,
            "noise": self.noise and self.noise.part.to_wire(),
            "warm_start_run": agreement.run_of(self.warm_start),
            "classes": self.settings.classes and list(self.settings.classes),
        }
        self.few_valued = facts["few_valued"]
        if self.validate_data is not None:
            shown = ScoreRelease.of(self.home, job, self.validate_data, "validate_data")
            self.validation = replace(shown, units=self.units)
            facts["validation_digest"] = alignment_digest(self.validate_data)
        return facts

    def accept(self, wire: Document) -> TrainingTerms:
        """Take the guest's terms, charge noise, and remember the rows: the last step before work starts."""
        own = OwnPart.of(self.ctx, self.train_data, self.bits)
        terms = agreement.accept_terms(wire, self.settings, self.warm_start, own, self.noise)
        agreement.check_few_valued(self.few_valued, own.rows, self.settings.batch_size, terms.features, terms.classes)
        if self.few_valued and (terms.score_epochs or self.settings.train_scores or self.validate_data is not None):
            raise Refusal(refusal("This host"))
        if self.noise is not None and terms.noise is not None:
            self.noise.charge(terms.noise)
        remember_training(self.home, self.release.dataset, self.train_data)
        return terms


def train_guest(
    ctx: Context,
    settings: TrainSettings,
    train_data: DataFrame,
    validate_data: DataFrame | None,
    warm_start: Document | None,
) -> tuple[Document, DataFrame | None]:
    """Returns the guest's JSON model and its prediction frame (None without train_scores, or where a host shows none)."""
    from fate.arch.dataframe import DataFrame as Frame

    checks = HeteroGuestPreflight(ctx, settings, train_data, validate_data, warm_start)
    checks.agree()
    terms, relabelling = checks.terms, checks.relabelling
    model = checks.start_model(terms, checks.descent.fit_intercept)
    if warm_start is None:
        start_at_mean(model, relabelling.labels)
    chosen_solver(terms, checks.noise).train_guest(ctx.sub_ctx("train"), checks.rows, model, relabelling)
    privacy, mode = checks.privacy.after(warm_start), relabelling.mode_that_ran
    document = model.to_json(privacy.to_json(mode))
    told: dict[str, Any] = {SCORES_OF_TRAINING: "not asked for"}
    shown: dict[str, Any] = {}
    scored: list[DataFrame] = []

    def show(stage: str, rows: str, frame: DataFrame, dataset_type: str) -> DataFrame | None:
        of_stage = ctx.sub_ctx(stage)
        refused = ask_consent(of_stage, rows)
        told[f"joint scores of {rows}"] = refused or SHOWN
        if refused:
            return None
        scores = ask_scores(of_stage, frame, document, settings.score_step)
        scored.append(prediction_frames.prediction_frame(frame, scores, document, dataset_type))
        return scored[-1]

    if settings.train_scores:
        training = show("predict", TRAINING_ROWS, train_data, TRAIN_SET)
        if training is not None:
            provenance.remember_scores(checks.home, training, document)
            fitted = prediction_frames.fitted_to(terms, mode, warm_start)
            shown.update(prediction_frames.figures(TRAINING_ROWS, training, document, checks.privacy, fitted=fitted))
    if validate_data is not None:
        validation = show("validate_predict", VALIDATION_ROWS, validate_data, VALIDATE_SET)
        if validation is not None:
            shown.update(prediction_frames.figures(VALIDATION_ROWS, validation, document, checks.validation))
    show_summary(ctx, {**guest_summary(model, privacy, mode), **checks.told, **told, **shown})
    return document, Frame.vstack(scored) if len(scored) > 1 else next(iter(scored), None)


def train_host(
    ctx: Context,
    settings: TrainSettings,
    train_data: DataFrame,
    validate_data: DataFrame | None,
    warm_start: Document | None,
) -> Document:
    checks = HeteroHostPreflight(ctx, settings, train_data, validate_data, warm_start)
    terms, release = checks.accept(checks.agree()), checks.release
    model = checks.start_model(terms, fit_intercept=False)
    model.few_valued = checks.few_valued
    chosen_solver(terms, checks.noise).train_host(ctx.sub_ctx("train"), checks.rows, model, release)
    told: dict[str, Any] = {}
    columns, step = model.columns, settings.score_step
    if settings.train_scores:
        told[SCORES_OF_TRAINING] = release.offer(ctx.sub_ctx("predict"), train_data, columns, step)
    if validate_data is not None:
        of_validation = ctx.sub_ctx("validate_predict")
        told[SCORES_OF_VALIDATION] = checks.validation.offer(of_validation, validate_data, columns, step)
    if release.losses is not None and terms.descent.shared:
        told.update(release.losses.told(), **{"losses of this training": SHOWN if model.shows_losses else NOT_SHOWN})
    show_summary(ctx, {**host_summary(model, release), **told})
    return model.to_json()


def train_arbiter(ctx: Context, settings: TrainSettings) -> Document:
    """Returns the arbiter's JSON model: progress only, since it learns nothing else."""
    descent = checked_descent(ctx, settings)
    terms = TrainingTerms.from_wire(Preflight(ctx).agree(), descent)
    epochs_run = chosen_solver(terms).serve_arbiter(ctx.sub_ctx("train"), terms)
    return {"data": {"epochs_run": epochs_run}, "meta": {"epochs": settings.epochs, "he_param": settings.he_param}}


def units_to_train_in(settings: TrainSettings, frame: DataFrame, warm_start: Document | None = None) -> Units:
    """Of a warm start, or of the party's own rows; columns stay as they are where noise protects each record of them."""
    if warm_start is not None:
        return units_of(warm_start)
    return Units.as_they_are(len(frame.schema.columns)) if settings.privacy == RECORD else Units.of(frame)


def fresh_model(
    ctx: Context, settings: TrainSettings, terms: TrainingTerms, frame: DataFrame, fit_intercept: bool, units: Units
) -> PartyModel:
    header = frame.schema.columns.to_list()
    start = partial(initial_weights, settings.init_param, len(header), home_of(ctx).key, fit_intercept)
    model = PartyModel(settings, terms, header, [start(model) for model in range(terms.models)], fit_intercept)
    model.units = units
    return model


def start_at_mean(model: PartyModel, labels: np.ndarray) -> None:
    """At the guest, by default and without noise: the intercept starts at its best value where features say nothing.

    So features whose own mean is not quite 0 have nothing of the labels' mean to unlearn.
    """
    settings, terms = model.settings, model.terms
    asked = settings.optimizer is not None or settings.init_param["method"] != "zeros" or terms.noise is not None
    if model.fit_intercept and not asked:
        starts = terms.curvature * first_targets(labels, terms)[0].mean(axis=0)
        model.columns = [np.append(column[:-1], start) for column, start in zip(model.columns, starts)]


@dataclass
class GuestFolds(Preflight):
    """The guest's checks before the first fold; ``table`` is of the smallest training part."""

    settings: TrainSettings
    descent: Descent
    folds: int
    frame: DataFrame
    privacy: LabelPrivacy = field(init=False)
    classes: tuple[float, ...] = field(init=False)
    table: JointTable = field(init=False)

    def check(self) -> Document:
        settings, home = self.settings, home_of(self.ctx)
        settings.refuse_folds()
        agreement.check_guest(self.frame, self.descent.fit_intercept, None)
        self.privacy, self.classes = privacy_and_classes(home, self.frame, settings)
        agreement.check_labels(self.frame, settings.family, self.classes)
        return {}

    def commit(self, hosts: Facts) -> Document:
        settings, frame, models = self.settings, self.frame, models_of(self.classes)
        check_hosts_classes(self.classes, hosts)
        revised = self.privacy.private and models == 1
        planned = settings.flipback.planned_epochs(settings.epochs) if revised else []
        agreement.check_hosts(
            frame, hosts, self.folds * (len(agreement.score_epochs(self.descent, planned, None)) + models)
        )
        features = agreement.feature_counts(frame, self.descent.fit_intercept, hosts)
        rows = frame.shape[0] - -(-frame.shape[0] // self.folds)
        self.table = JointTable(rows, features, classes=self.classes)
        agreement.training_terms(self.descent, self.table, self.privacy.epsilon)
        provenance.record_use(home_of(self.ctx), self.privacy, job_of(self.ctx), frame.shape[0])
        return {}


@dataclass
class HostFolds(Preflight):
    """A host's checks before the first fold; ``release`` is its consent to joint scores."""

    settings: TrainSettings
    frame: DataFrame
    release: ScoreRelease = field(init=False)
    few_valued: bool = field(init=False)

    def check(self) -> Document:
        self.settings.refuse_folds()
        agreement.check_host(self.frame, self.settings.batch_size, None)
        self.release = ScoreRelease.of(home_of(self.ctx), job_of(self.ctx), self.frame)
        rows = prepare_rows(self.frame, units_to_train_in(self.settings, self.frame))
        facts = agreement.host_facts(self.frame, self.release, rows)
        self.few_valued = facts["few_valued"]
        return {**facts, "classes": self.settings.classes and list(self.settings.classes)}


def validate_guest(ctx: Context, settings: TrainSettings, folds: Document, cv_data: DataFrame) -> Iterator[DataFrame]:
    """Yields the prediction frame of each fold's held-out rows, scored against the (flipped) labels they have."""
    descent = checked_descent(ctx, settings)
    checks = GuestFolds(ctx, settings, descent, folds["n_splits"], cv_data)
    checks.agree()
    privacy = checks.privacy
    for fold_ctx, (training, held_out) in folds_of(ctx, cv_data, folds):
        units = units_to_train_in(settings, training)
        rows = prepare_rows(training, units, fit_intercept=descent.fit_intercept, with_label=True)
        relabelling = Relabelling(settings, labels_of(rows), privacy)
        bits = max([agreement.size_bits(descent, rows, training), *fold_ctx.hosts.get("mean_square_bits")])
        table = replace(checks.table, rows=training.shape[0], mean_square_bits=bits)
        epsilon = equivalent_epsilon(privacy, relabelling.labels)
        terms = agreement.training_terms(descent, table, epsilon, None, relabelling.rounds)
        for party in others(fold_ctx):
            party.put("terms", terms.to_wire())
        model = fresh_model(fold_ctx, settings, terms, training, descent.fit_intercept, units)
        model.of_fold = True
        start_at_mean(model, relabelling.labels)
        chosen_solver(terms).train_guest(fold_ctx.sub_ctx("train"), rows, model, relabelling)
        document = model.to_json(privacy.to_json(relabelling.mode_that_ran))
        scores = ask_scores(fold_ctx.sub_ctx("predict"), held_out, document, settings.score_step)
        scored = prediction_frames.prediction_frame(held_out, scores, document, VALIDATE_SET)
        summary = guest_summary(model, privacy, relabelling.mode_that_ran)
        show_summary(fold_ctx, {**summary, **prediction_frames.figures(FOLD_ROWS, scored, document, privacy)})
        yield scored


def validate_host(ctx: Context, settings: TrainSettings, folds: Document, cv_data: DataFrame) -> None:
    """Train every fold with the guest and show it this host's part of the held-out rows' scores."""
    checks, descent = HostFolds(ctx, settings, cv_data), checked_descent(ctx, settings)
    checks.agree()
    if checks.few_valued:
        raise Refusal(refusal("This host"))
    remember_training(checks.release.home, checks.release.dataset, cv_data)
    for fold_ctx, (training, held_out) in folds_of(ctx, cv_data, folds):
        units = units_to_train_in(settings, training)
        rows, checks.release = prepare_rows(training, units), replace(checks.release, units=units)
        bits = agreement.size_bits(descent, rows, training)
        fold_ctx.guest.put("mean_square_bits", bits)
        terms = agreement.accept_terms(fold_ctx.guest.get("terms"), settings, None, OwnPart.of(ctx, training, bits))
        model = fresh_model(fold_ctx, settings, terms, training, False, units)
        chosen_solver(terms).train_host(fold_ctx.sub_ctx("train"), rows, model, checks.release)
        checks.release.record(model.columns, "cross-validation")
        checks.release.give(fold_ctx.sub_ctx("predict"), held_out, model.columns, settings.score_step)


def validate_arbiter(ctx: Context, settings: TrainSettings, folds: Document) -> None:
    descent = checked_descent(ctx, settings)
    Preflight(ctx).agree()
    for fold_ctx, _ in ctx.on_cross_validations.ctxs_zip(range(folds["n_splits"])):
        terms = TrainingTerms.from_wire(fold_ctx.guest.get("terms"), descent)
        chosen_solver(terms).serve_arbiter(fold_ctx.sub_ctx("train"), terms)
