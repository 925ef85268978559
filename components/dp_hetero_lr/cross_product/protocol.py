"""Solver cross_product: the statistics of all rows are shared once, and the epochs afterwards read no row.

What each party sees stands in guarantee.yaml. Losses and own weights are functions of the cross block with the hosts: for
a host with one feature they determine it. A host gets its own weights at the end and at every round with joint scores:
where one step lies between two of them, it knows its gradient of that step, and labels are protected by the flip alone.
See docs/cryptography.md.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

import numpy as np

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.crypto.descent_steps import QuadraticShare
from fate_dp.privacy.mechanisms.second_moments import MomentNoise, clip_target

from ...common.federation import Context, others
from ...common.frames import Table, collect_column
from ...common.preflight import about_message
from ...protocols import optimizers
from ...protocols.prediction_frames import probabilities
from ...protocols.score_counts import CountedLosses
from ...protocols.shared_descent import (
    CheckedSteps,
    Decision,
    JointColumns,
    LossConsent,
    SharedSteps,
    Start,
    exchange_keys,
)
from ...protocols.training_terms import NOISE_CURVATURE, TrainingTerms
from ..labels import Relabelling, one_vs_rest
from ..model import PartyModel, note_loss
from ..rows import UNIT, Block, relabel
from ..scores import ScoreRelease, joint_score_blocks
from .statistics import Statistics

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CrossProduct:
    """The `Solver` whose weights stay shared; ``noise`` is added once to this party's shares of the statistics."""

    noise: MomentNoise | None = field(default=None, repr=False)

    def train_guest(self, ctx: Context, rows: Table, model: PartyModel, relabelling: Relabelling) -> None:
        """Direct the epochs; ``model`` gets the guest's own weights and nobody else's."""
        terms = model.terms
        targets = Targets(terms, relabelling)
        if not fits(targets.columns, terms.batches):
            raise ValueError(
                f"The labels have a mean square above {2**MEAN_SQUARE_BITS} in a batch; solver cross_product needs less: "
                "standardise them."
            )
        rows = rows.mapValues(partial(_with_first_targets, terms=terms))
        training = SharedTraining(ctx, rows, model, self.noise)
        judge = StoppingRule(model, targets, training)
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            if epoch in terms.score_epochs:
                rows = _with_next_targets(epoch_ctx, rows, model, targets, training, epoch)
            if _ends(model, training.run_epoch(epoch_ctx, epoch, judge)):
                break
        training.finish(ctx.sub_ctx("finish"), model)

    def train_host(self, ctx: Context, rows: Table, model: PartyModel, release: ScoreRelease) -> None:
        """Run the epochs that the guest directs; ``model`` gets this host's own weights and nobody else's."""
        terms, training = model.terms, SharedTraining(ctx, rows, model, self.noise, release.losses)
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            if epoch in terms.score_epochs:
                # A warm start's weights were shown as they are; opened and rounded they would be others, and count anew.
                if epoch:
                    model.columns = training.own_weights(epoch_ctx.sub_ctx("weights"))
                purpose = "flipback" if epoch in terms.flipback_epochs else "correction of the sigmoid"
                release.give_round(epoch_ctx, rows, model.weights, model.settings.score_step, purpose)
                target_ctx = epoch_ctx.sub_ctx("target")
                optimizers.refuse_divergence(target_ctx.guest.get("training_state"))
                training.take_targets(target_ctx)
            if _ends(model, training.run_epoch(epoch_ctx, epoch)):
                break
        training.finish(ctx.sub_ctx("finish"), model)

    def serve_arbiter(self, ctx: Context, terms: TrainingTerms) -> int:
        """Follow the guest's decision after every epoch; returns the epochs that ran."""
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            state = epoch_ctx.guest.get("training_state")
            optimizers.refuse_divergence(state)
            logger.info("epoch %d of at most %d: %s", epoch + 1, terms.descent.epochs, state)
            if state != optimizers.GOES_ON:
                break
        return epoch + 1


def _with_next_targets(
    ctx: Context, rows: Table, model: PartyModel, targets: Targets, training: SharedTraining, epoch: int
) -> Table:
    """Open the own weights, get the joint scores, and let all parties hold shares of the new targets' products."""
    if epoch:
        model.columns = training.own_weights(ctx.sub_ctx("weights"))
    scores = collect_column(joint_score_blocks(ctx, rows, model.weights, model.settings.score_step))
    rows, target_ctx = relabel(rows, targets.after(epoch, scores)), ctx.sub_ctx("target")
    if not fits(targets.columns, model.terms.batches):
        _end_diverged(target_ctx, ctx)
    target_ctx.hosts.put("training_state", optimizers.GOES_ON)
    training.take_targets(target_ctx, rows)
    return rows


def _ends(model: PartyModel, decisions: list[Decision]) -> bool:
    """Take the guest's decisions in; whether training ends with the last of them."""
    ends = False
    for decision in decisions:
        model.start_epoch(decision.epoch)
        ends = model.ends(decision.state)
    return ends


class StoppingRule:
    """The guest's decision on steps: it adds up the losses of an epoch, tells the arbiter, and says how training goes on.

    An epoch's loss is the mean per record, each batch's taken before its step and none opened alone; of several models
    it is the mean of theirs.
    """

    def __init__(self, model: PartyModel, targets: Targets, training: SharedTraining) -> None:
        self._model, self._terms, self._targets, self._training = model, model.terms, targets, training
        self._convergence = optimizers.Convergence(self._terms.descent.early_stop, self._terms.descent.tol)
        self._loss = 0.0

    def __call__(self, steps: CheckedSteps, varying: list[float]) -> str:
        """A `Judge`."""
        # The batches of a group are consecutive rows.
        first, last = self._terms.batches[steps.batches[0]][0], self._terms.batches[steps.batches[-1]][1]
        means = [mean + self._targets.constant((first, last)) for mean in varying]
        self._loss += fmean(means) * (last - first) / self._terms.rows
        if not all(map(self._training.passes, means)):
            _tell_arbiter(steps.ctx, optimizers.DIVERGED)
            return optimizers.DIVERGED
        if not steps.last:
            return optimizers.GOES_ON
        loss, self._loss = (self._loss if self._training.shows_losses else None), 0.0
        if loss is not None:
            note_loss(steps.ctx, self._model, steps.epoch, loss)
        state = self._convergence.state(steps.epoch, self._terms.descent.epochs, loss, None)
        if state == optimizers.CONVERGED and any(later > steps.epoch for later in self._terms.correction_epochs):
            # The quadratic of this phase is at its minimum; the next correction brings another one.
            state = optimizers.GOES_ON
        _tell_arbiter(steps.ctx, state)
        return state


def _tell_arbiter(ctx: Context, state: str) -> None:
    for party in others(ctx):
        if party.role == "arbiter":
            party.put("training_state", state)


def _end_diverged(ctx: Context, epoch_ctx: Context) -> None:
    """Let every party know where it waits for a word, and stop."""
    ctx.hosts.put("training_state", optimizers.DIVERGED)
    _tell_arbiter(epoch_ctx, optimizers.DIVERGED)
    optimizers.refuse_divergence(optimizers.DIVERGED)


class SharedTraining(SharedSteps):
    """One data party's shares of one training, of one model or of several on the same statistics.

    Every data party calls the same methods in the same order. The first use of the network computes the statistics of
    all batches. Noise is added to them here, so that nothing else ever sees them without it.
    """

    def __init__(
        self,
        ctx: Context,
        rows: Table,
        model: PartyModel,
        noise: MomentNoise | None = None,
        losses: CountedLosses | None = None,
    ) -> None:
        terms = model.terms
        if bool(terms.noise) != (noise is not None):
            raise ValueError("A training is agreed on with noise and started without, or the other way round.")
        columns = JointColumns.of(ctx, terms.features)
        # With noise the target is c (y - 1/2): b is divided by c, too.
        self._divisor, self._curvature = (terms.curvature, 1) if noise else (1, terms.curvature)
        rates = model.learning_rates()
        consent = LossConsent(ctx.sub_ctx("losses"), columns, terms.losses_opened(rates), losses)
        keys = exchange_keys(ctx.sub_ctx("keys"), columns, terms.descent.key_length)
        consent.answer()
        model.keys_fingerprint = keys.fingerprint
        self._statistics = Statistics(rows, columns, keys, terms)
        self._sums = self._statistics.gather(ctx.sub_ctx("statistics"))
        if noise is not None:
            self._sums = [sums.with_noise(noise, columns) for sums in self._sums]
        start = Start(model.columns, rates, model.shared_states)
        self._identity = {"run": terms.run, "parties": [list(name) for name in columns.names]}
        super().__init__(columns, keys, self._scaled(terms.batches), terms, start, consent.agreed())
        model.shows_losses = self.shows_losses

    def own_weights(self, ctx: Context) -> list[np.ndarray]:
        """float64: this party's own weights of every model, opened to it alone."""
        peers = self._columns.peers(ctx)
        for position, party in peers.items():
            theirs = self._columns.slice_of(position)
            party.put("weight_shares", [share for descent in self._descents for share in descent.share_of(theirs)])
        received = [party.get("weight_shares") for party in peers.values()]
        with about_message("weight_shares", peers.values()):
            of_models = zip(self._descents, self._of_each_model(received))
            return [descent.own_weights(shares) for descent, shares in of_models]

    def take_targets(self, ctx: Context, rows: Table | None = None) -> None:
        """Go on with other targets; ``rows`` are the guest's with them, None at hosts."""
        self._sums = self._statistics.next_target(ctx, self._sums, rows)
        self._shares = self._scaled(self._terms.batches)

    def finish(self, ctx: Context, model: PartyModel) -> None:
        """Open every party's own weights to it; the model also keeps what a warm start needs."""
        model.columns = self.own_weights(ctx)
        model.shared_states = [{**self._identity, **descent.state()} for descent in self._descents]

    def _scaled(self, batches: Iterable[tuple[int, int]]) -> list[QuadraticShare]:
        """Of every batch, there of every model: these differ in b alone."""
        of_batches = [
            QuadraticShare.scaled(sums.matrix, sums.linear, (last - first) * self._divisor, self._curvature)
            for sums, (first, last) in zip(self._sums, batches, strict=True)
        ]
        return [QuadraticShare(share.matrix, linear) for share in of_batches for linear in share.linear.T]


class Targets:
    """The guest's targets t (n, models) and the constants (n,) of the loss mean(z^2 / (2 c) - t z) + constant.

    All in global row order on the guest's driver.

    - binomial, Taylor: c = 4, t = y - 1/2, constant log 2: the Taylor polynomial of the logistic loss.
    - binomial, exact: c = 4, t = z_k / 4 + y - sigmoid(z_k) at the scores z_k of the last correction: the loss is the
      majoriser of Boehning and Lindsay (1988), which touches the logistic loss at z_k and lies above it elsewhere.
    - more than two classes, Taylor: for each of them as above, with y = 1 where the label is the class and 0 elsewhere.
    - gaussian: c = 1, t = y, constant mean(y^2) / 2: half the mean squared error.
    - binomial, Taylor, with noise: c = 4 and the loss z^2 / (2 c) - t z / c with t = 4 (y - 1/2), which is the same
      loss; the products of this larger target are the less disturbed by noise. Its constant log 2 reads no row.
    """

    def __init__(self, terms: TrainingTerms, relabelling: Relabelling) -> None:
        self._terms, self._relabelling, self._corrected = terms, relabelling, False
        self.columns, self._constants = first_targets(relabelling.labels, terms)

    def after(self, epoch: int, scores: np.ndarray) -> np.ndarray:
        """The targets of the epochs from ``epoch`` on, given the joint scores z (n,) of the one model as it is."""
        if epoch in self._terms.flipback_epochs:
            self._relabelling.next_labels(probabilities(scores))
        labels = self._relabelling.labels
        if self._corrected or epoch in self._terms.correction_epochs:
            self._corrected = True
            self.columns = optimizers.corrected_target(labels, scores)[:, None]
            self._constants = optimizers.majoriser_constants(scores)
        else:
            self.columns, self._constants = first_targets(labels, self._terms)
        return self.columns

    def constant(self, bounds: tuple[int, int]) -> float:
        """The constant of every model's loss of one batch."""
        return float(np.mean(self._constants[bounds[0] : bounds[1]]))


def first_targets(labels: np.ndarray, terms: TrainingTerms) -> tuple[np.ndarray, np.ndarray]:
    """Targets (n, models) and constants (n,) that read no score: each row's are functions of its own label."""
    if terms.descent.family == "gaussian":
        return labels[:, None], 0.5 * labels**2
    constants = np.full(len(labels), math.log(2.0))
    if terms.noise is not None:
        # On the grid of the noise, of which `own_targets` makes the exact integers.
        bounds, bits = terms.noise.parties[0].bounds, terms.noise.fraction_bits
        return (clip_target(NOISE_CURVATURE * (labels - 0.5), bounds, bits) * UNIT)[:, None], constants
    return one_vs_rest(labels, terms.classes) - 0.5, constants


def _with_first_targets(block: Block, terms: TrainingTerms) -> Block:
    """Made where the block is: the column of all rows would travel to every partition."""
    return block._replace(labels=first_targets(np.asarray(block.labels), terms)[0])


def fits(columns: np.ndarray, batches: Iterable[tuple[int, int]]) -> bool:
    """Whether the mean square of every target over every batch is one that the masks are made for."""
    limit = 2.0**MEAN_SQUARE_BITS * (1 - 1e-6)
    return all(float(np.mean(columns[first:last] ** 2, axis=0).max()) <= limit for first, last in batches)
