"""The epochs: the guest sees each loss and says how training goes on, the host follows.

Losses are shown to the guest alone. That of family binomial is the Taylor loss. That of family gaussian lacks its
constant, half the mean square of the labels, which would tell the guest about the labels of the records that matched:
it starts at 0 and falls.
"""
import logging
import math
from dataclasses import dataclass, field
from typing import List

from fate_dp.components.dp_hetero_lr.convergence import CONVERGED, DIVERGED, GOES_ON, Convergence, refuse_divergence
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS

from .training import ONLY_BATCH, JoinedTraining

logger = logging.getLogger(__name__)

_SHOWN = {"binomial": math.log(2.0), "gaussian": 0.0}
_LARGEST = {"binomial": math.log(2.0), "gaussian": 2.0 ** (MEAN_SQUARE_BITS - 1)}
"""A loss may be within bounds or not only with the largest constant that it can have."""


@dataclass
class Progress:
    """How far training came; ``losses`` at the guest only."""

    epochs_run: int = 0
    converged: bool = False
    losses: List[float] = field(default_factory=list)


def direct(ctx, training: JoinedTraining, settings: TrainSettings) -> Progress:
    """At the guest."""
    progress, convergence = Progress(), Convergence(settings.early_stop, settings.tol)
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(settings.epochs):
        hidden = training.step(epoch_ctx, epoch)
        (varying,) = training.losses(hidden, epoch_ctx.hosts.get("loss_shares"), [ONLY_BATCH])
        sound = training.passes(varying + _LARGEST[settings.family])
        loss = varying + _SHOWN[settings.family]
        state = convergence.state(epoch, settings.epochs, loss, None) if sound else DIVERGED
        epoch_ctx.hosts.put("training_state", state)
        refuse_divergence(state)
        epoch_ctx.metrics.log_loss("loss", loss)
        logger.info("epoch %d of at most %d: loss %.6f", epoch + 1, settings.epochs, loss)
        progress.losses.append(loss)
        progress.epochs_run, progress.converged = epoch + 1, state == CONVERGED
        if state != GOES_ON:
            break
    return progress


def follow(ctx, training: JoinedTraining, settings: TrainSettings) -> Progress:
    """At the host."""
    progress = Progress()
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(settings.epochs):
        hidden = training.step(epoch_ctx, epoch)
        epoch_ctx.guest.put("loss_shares", training.loss_shares(hidden, [ONLY_BATCH], epoch))
        state = epoch_ctx.guest.get("training_state")
        refuse_divergence(state)
        progress.epochs_run, progress.converged = epoch + 1, state == CONVERGED
        if state != GOES_ON:
            break
    return progress
