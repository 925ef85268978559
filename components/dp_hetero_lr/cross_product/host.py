"""A host's part where the cross product trains: features, shares, and at the end its own weights.

What it receives: the guest's and other hosts' rows under their owners' keys, masked numbers, whether losses stay within
bounds, the number of epochs that ran, and its own weights at the end and at every round with joint scores. Where one step
lies between two weights that it knows, it knows its gradient of that step: labels are protected by the flip alone.
"""
from typing import Optional

from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ..convergence import CONVERGED, GOES_ON, refuse_divergence
from ..model import PartyModel
from ..score_release import ScoreRelease
from .joint_columns import JointColumns
from .training import SharedTraining


def train(
    ctx, rows, model: PartyModel, terms: dict, release: ScoreRelease, noise: Optional[MomentNoise] = None
) -> None:
    """Run the epochs that the guest directs; ``model`` gets this host's own weights and nobody else's."""
    training = SharedTraining(ctx, rows, model, terms, JointColumns.of(ctx, terms), noise)
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(model.settings.epochs):
        model.start_epoch(epoch)
        if epoch in terms["score_epochs"]:
            # A warm start's weights were shown as they are; opened and rounded they would be other ones, and count anew.
            if epoch:
                model.columns = training.own_weights(epoch_ctx.sub_ctx("weights"))
            flipback = epoch in terms["flipback_epochs"]
            release.record(model.weights, "flipback" if flipback else "correction of the sigmoid")
            epoch_ctx.guest.put("scores", release.rounded(rows, model.weights, model.settings.score_step))
            target_ctx = epoch_ctx.sub_ctx("target")
            refuse_divergence(target_ctx.guest.get("training_state"))
            training.take_targets(target_ctx)
        state = _run_epoch(epoch_ctx, training, epoch)
        model.converged = state == CONVERGED
        if state != GOES_ON:
            break
        model.end_epoch()
    training.finish(ctx.sub_ctx("finish"), model)


def _run_epoch(ctx, training, epoch) -> str:
    """One pass over the batches; the guest's word after it."""
    training.prepare(ctx.sub_ctx("prepare"), epoch)
    for group_ctx, batches in ctx.on_batches.ctxs_zip(training.groups()):
        hidden = training.run_steps(group_ctx, batches, epoch)
        group_ctx.guest.put("loss_shares", training.loss_shares(hidden, batches, epoch))
        refuse_divergence(group_ctx.guest.get("training_state"))
    return ctx.guest.get("training_state")
