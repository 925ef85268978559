"""A host's part where the cross product trains: features, shares, and at the end its own weights.

What it sees: the guest's and other hosts' rows under their owners' keys, masked numbers, the number of epochs that ran,
and its own final weights, which are computed from flipped labels. It sees no gradient.
"""
from ..convergence import CONVERGED, GOES_ON, refuse_divergence
from ..model import PartyModel
from ..rows import scores
from ..score_release import ScoreRelease
from .joint_columns import JointColumns
from .training import SharedTraining


def train(ctx, rows, model: PartyModel, terms: dict, release: ScoreRelease) -> None:
    """Run the epochs that the guest directs; ``model`` gets this host's own weights and nobody else's."""
    training = SharedTraining(ctx, rows, model, terms, JointColumns.of(ctx, terms))
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(model.settings.epochs):
        model.start_epoch(epoch)
        if epoch in terms["score_epochs"]:
            model.weights = training.own_weights(epoch_ctx.sub_ctx("weights"))
            flipback = epoch in terms["flipback_epochs"]
            release.record(model.weights, "flipback" if flipback else "correction of the sigmoid")
            epoch_ctx.guest.put("scores", scores(rows, model.weights))
            training.take_target(epoch_ctx.sub_ctx("target"))
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
        group_ctx.guest.put("loss_shares", training.loss_shares(hidden))
        refuse_divergence(group_ctx.guest.get("training_state"))
    return ctx.guest.get("training_state")
