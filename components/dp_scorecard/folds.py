"""The stage cross_validation of dp_scorecard: a scorecard for each fold, whose held-out rows it scores.

Every fold is a training with noise of its own, so that a party is charged for as many draws as there are folds, all of them
before the first message. An honest guest trains on each record in all folds but one; a host need not believe that. Every
fold shows the guest the points of another scorecard on the host's rows, so that each counts against the host's cap of scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fate_dp.privacy.mechanisms.contingency_tables import BinnedRows

from ..common.charges import home_of, job_of
from ..common.federation import Context, Document, check_roles
from ..common.frames import VALIDATE_SET, DataFrame
from ..common.preflight import Refusal, require_same, show_summary
from ..common.vocabulary import NONE
from ..protocols.folds import folds_of
from ..protocols.prediction_frames import FOLD_ROWS, figures, prediction_frame
from ..protocols.score_counts import CountedScores
from .agreement import ScorecardGuestPreflight, ScorecardHostPreflight, ScorecardPreflight
from .predict import ShownPoints, ask_points, give_points
from .settings import TrainSettings
from .tables import binned_rows
from .train import fit_guest, fit_host, keys_of, summary_of

FOLDS = "n_splits"


def check_folds(checks: ScorecardPreflight) -> Document:
    """Refuse a table with fewer rows than folds; the fact that all parties must have in common."""
    if checks.reads > checks.frame.shape[0]:
        raise Refusal.of("cv_param.n_splits", checks.reads, f"at most the rows of the table, {checks.frame.shape[0]}")
    return {f"cv_param.{FOLDS}": checks.reads}


@dataclass
class GuestFolds(ScorecardGuestPreflight):
    """The guest's checks before the first fold; ``reads`` is the number of folds."""

    def check(self) -> Document:
        return {**super().check(), **check_folds(self)}

    def commit(self, hosts: dict[str, Document]) -> Document:
        require_same({f"cv_param.{FOLDS}": self.reads}, hosts)
        return super().commit(hosts)


@dataclass
class HostFolds(ScorecardHostPreflight):
    """A host's checks before the first fold; its cap must allow the points of as many scorecards as there are folds."""

    counted: CountedScores = field(init=False)

    def check(self) -> Document:
        facts = {**super().check(), **check_folds(self)}
        home = home_of(self.ctx)
        self.counted = CountedScores(home, job_of(self.ctx), *CountedScores.of_table(home, self.frame))
        self.counted.check_cap(self.reads)
        return facts


def validate_guest(
    ctx: Context,
    settings: TrainSettings,
    folds: dict[str, Any],
    frame: DataFrame,
    binning_model: Document | None = None,
) -> Iterator[DataFrame]:
    """Yields the prediction frame of each fold's held-out rows."""
    check_roles(ctx, arbiter=False)
    checks = GuestFolds(ctx, settings, frame, binning_model, folds[FOLDS])
    checks.agree()
    keys = keys_of(ctx, checks.terms)
    known = checks.labels if settings.privacy == NONE else None
    for number, (fold_ctx, (training, held_out)) in enumerate(folds_of(ctx, frame, folds)):
        terms = replace(checks.terms, rows=training.shape[0])
        if number:
            checks.draw(terms)
        card = fit_guest(fold_ctx.sub_ctx("train"), checks, terms, binned_rows(training, checks.sizes), keys)
        document = card.to_json(checks.meta(terms))
        total = ask_points(fold_ctx.sub_ctx("predict"), binned_rows(held_out, BinnedRows(card.own.counts)), card)
        scored = prediction_frame(held_out, [total.mapValues(card.scale.log_odds)], document, VALIDATE_SET)
        found = figures(FOLD_ROWS, scored, document, known, true_labels=known is None)
        show_summary(fold_ctx, {**summary_of(checks, terms, "guest"), **found})
        yield scored
    checks.mark_released()


def validate_host(
    ctx: Context,
    settings: TrainSettings,
    folds: dict[str, Any],
    frame: DataFrame,
    binning_model: Document | None = None,
) -> None:
    """Train every fold with the guest, and show it this host's part of the held-out rows' points."""
    check_roles(ctx, arbiter=False)
    checks = HostFolds(ctx, settings, frame, binning_model, folds[FOLDS])
    agreed = checks.accept(checks.agree())
    keys = keys_of(ctx, agreed)
    home, job = home_of(ctx), job_of(ctx)
    for number, (fold_ctx, (training, held_out)) in enumerate(folds_of(ctx, frame, folds)):
        terms = replace(agreed, rows=training.shape[0])
        if number:
            checks.draw(terms)
        card = fit_host(fold_ctx.sub_ctx("train"), checks, terms, binned_rows(training, checks.sizes), keys)
        ShownPoints.of(home, job, held_out, card).record()
        give_points(fold_ctx.sub_ctx("predict"), binned_rows(held_out, BinnedRows(card.own.counts)), card)
    checks.mark_released()
    show_summary(ctx, summary_of(checks, agreed, "host"))
