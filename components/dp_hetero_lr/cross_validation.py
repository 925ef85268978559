"""The cross_validation stage: k folds, each trained like a training of its own and scored on its held-out rows.

Every fold shows the guest the scores of another model, so each host's ledger counts one release a fold, one for each of
more than two classes, beside those of flipback; all of them are agreed on before the first fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..common.charges import home_of, job_of
from ..common.provenance import LabelPrivacy, find_label_privacy, record_use
from ..protocols.federation import check_roles, others
from ..protocols.label_figures import FOLD_ROWS, figures
from ..protocols.prediction_frames import prediction_frame
from ..protocols.preflight import Preflight, show_summary
from ..protocols.training_terms import Descent, TrainingTerms, models_of
from .combinations import PER_EPOCH, refuse_folds, solver_of
from .labels import Relabelling, check_hosts_classes, declared_classes, equivalent_epsilon, parameter_of
from .model import guest_summary
from .predict import ask_scores, give_scores
from .rows import labels_of, prepare_rows, refusal
from .scores import ScoreRelease
from .settings import TrainSettings
from .terms import (
    Facts,
    JointTable,
    OwnPart,
    accept_terms,
    check_guest,
    check_host,
    check_hosts,
    check_labels,
    feature_counts,
    host_facts,
    score_epochs,
    size_bits,
    training_terms,
)
from .train import chosen_solver, start_model

if TYPE_CHECKING:
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame

# Which rows a fold trains on and which it holds out: a table of sample ids with their places in the guest's part.
FOLD_PARTS = ("training_rows", "held_out_rows")


@dataclass
class GuestFolds(Preflight):
    """The guest's checks before the first fold.

    Attributes:
        privacy: of the labels.
        table: of the smallest training part.
    """

    settings: TrainSettings
    descent: Descent
    folds: int
    frame: DataFrame
    privacy: LabelPrivacy = field(init=False)
    classes: tuple[float, ...] = field(init=False)
    table: JointTable = field(init=False)

    def check(self) -> dict:
        settings, home = self.settings, home_of(self.ctx)
        refuse_folds(settings)
        check_guest(self.frame, self.descent.fit_intercept, None)
        self.privacy = find_label_privacy(home, self.frame, settings.label_source)
        self.privacy.refuse_numbers(settings.family)
        self.classes = declared_classes(home, settings, self.privacy)
        check_labels(self.frame, settings.family, self.classes)
        return {}

    def commit(self, hosts: Facts) -> dict:
        settings, frame, models = self.settings, self.frame, models_of(self.classes)
        check_hosts_classes(self.classes, hosts)
        revised = self.privacy.private and models == 1
        planned = settings.flipback.planned_epochs(settings.epochs) if revised else []
        check_hosts(frame, hosts, self.folds * (len(score_epochs(self.descent, planned, None)) + models))
        features = feature_counts(frame, self.descent.fit_intercept, hosts)
        rows = frame.shape[0] - -(-frame.shape[0] // self.folds)
        self.table = JointTable(rows, features, classes=self.classes)
        training_terms(self.descent, self.table, self.privacy.epsilon)
        record_use(home_of(self.ctx), self.privacy, job_of(self.ctx), frame.shape[0])
        return {}


@dataclass
class HostFolds(Preflight):
    """A host's checks before the first fold; ``release`` is its consent to joint scores."""

    settings: TrainSettings
    frame: DataFrame
    release: ScoreRelease = field(init=False)
    few_valued: bool = field(init=False)

    def check(self) -> dict:
        refuse_folds(self.settings)
        check_host(self.frame, self.settings.batch_size, None)
        self.release = ScoreRelease.of(home_of(self.ctx), job_of(self.ctx), self.frame)
        rows = prepare_rows(self.frame, fit_intercept=False, with_label=False)
        facts = host_facts(self.frame, self.release, rows)
        self.few_valued = facts["few_valued"]
        return {**facts, "classes": parameter_of(self.settings)}


def validate_guest(ctx: Context, settings: TrainSettings, folds: dict, cv_data: DataFrame) -> Iterator[DataFrame]:
    """Yields the prediction frame of each fold's held-out rows, scored against the (flipped) labels they have."""
    from fate.ml.utils.predict_tools import VALIDATE_SET

    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    descent = Descent.of(settings, shared=solver != PER_EPOCH)
    fit_intercept = descent.fit_intercept
    checks = GuestFolds(ctx, settings, descent, folds["n_splits"], cv_data)
    checks.agree()
    privacy = checks.privacy
    for fold_ctx, (training, held_out) in _folds(ctx, "guest", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=fit_intercept, with_label=True)
        relabelling = Relabelling(settings, labels_of(rows), privacy)
        bits = max([size_bits(descent, rows, training), *fold_ctx.hosts.get("mean_square_bits")])
        table = replace(checks.table, rows=training.shape[0], mean_square_bits=bits)
        epsilon, rounds = equivalent_epsilon(privacy, relabelling.labels), relabelling.rounds
        terms = training_terms(descent, table, epsilon, None, rounds)
        for party in others(fold_ctx):
            party.put("terms", terms.to_wire())
        model = start_model(fold_ctx, settings, terms, training, None, fit_intercept)
        model.of_fold = True
        chosen_solver(solver, terms).train_guest(fold_ctx.sub_ctx("train"), rows, model, relabelling)
        document = model.to_json(privacy.to_json(relabelling.mode_that_ran))
        scores = ask_scores(fold_ctx.sub_ctx("predict"), held_out, document, settings.score_step)
        scored = prediction_frame(held_out, scores, document, VALIDATE_SET)
        summary = guest_summary(model, privacy, relabelling.mode_that_ran)
        show_summary(fold_ctx, {**summary, **figures(FOLD_ROWS, scored, document, privacy)})
        yield scored


def validate_host(ctx: Context, settings: TrainSettings, folds: dict, cv_data: DataFrame) -> None:
    """Train every fold with the guest and show it this host's part of the held-out rows' scores."""
    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    checks, descent = HostFolds(ctx, settings, cv_data), Descent.of(settings, shared=solver != PER_EPOCH)
    checks.agree()
    if checks.few_valued:
        raise ValueError(refusal("This host"))
    checks.release.remember_training(cv_data)
    for fold_ctx, (training, held_out) in _folds(ctx, "host", cv_data, folds):
        rows = prepare_rows(training, fit_intercept=False, with_label=False)
        bits = size_bits(descent, rows, training)
        fold_ctx.guest.put("mean_square_bits", bits)
        own = OwnPart.of(ctx, cv_data, bits)
        terms = accept_terms(fold_ctx.guest.get("terms"), settings, training.shape[0], None, own)
        model = start_model(fold_ctx, settings, terms, training, None, fit_intercept=False)
        chosen_solver(solver, terms).train_host(fold_ctx.sub_ctx("train"), rows, model, checks.release)
        checks.release.record_all(model.columns, "cross-validation")
        give_scores(fold_ctx.sub_ctx("predict"), held_out, model.to_json(), settings.score_step)


def validate_arbiter(ctx: Context, settings: TrainSettings, folds: dict) -> None:
    """Serve every fold's training."""
    solver = solver_of(settings)
    check_roles(ctx, arbiter=solver == PER_EPOCH)
    Preflight(ctx).agree()
    for fold_ctx, _ in ctx.on_cross_validations.ctxs_zip(range(folds["n_splits"])):
        terms = TrainingTerms.from_wire(fold_ctx.guest.get("terms"), Descent.of(settings))
        chosen_solver(solver, terms).serve_arbiter(fold_ctx.sub_ctx("train"), terms)


def _folds(
    ctx: Context, role: str, frame: DataFrame, folds: dict
) -> Iterator[tuple[Context, tuple[DataFrame, DataFrame]]]:
    return ctx.on_cross_validations.ctxs_zip(_parts(ctx.sub_ctx("KFold"), role, frame, folds))


def _parts(ctx: Context, role: str, frame: DataFrame, folds: dict) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The folds of FATE's KFold, whose own message, a pair of tables, is no plain value: here each table is a message."""
    from fate.arch.dataframe import KFold

    splits = KFold(ctx, mode="homo", **folds).split(frame) if role == "guest" else None
    for _, fold_ctx in ctx.ctxs_range(folds["n_splits"]):
        if splits is not None:
            parts = next(splits)
            for name, part in zip(FOLD_PARTS, parts):
                fold_ctx.hosts.put(name, part.get_indexer(target="sample_id"))
            yield parts
        else:
            training, held_out = (frame.loc(fold_ctx.guest.get(name), preserve_order=True) for name in FOLD_PARTS)
            yield training, held_out
