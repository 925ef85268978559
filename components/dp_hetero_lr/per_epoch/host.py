"""A host's part of solver per_epoch: features, its own weights, no labels.

What it sees: the guest's and the other hosts' quarter scores under encryption by the arbiter's key, and its own exact
gradient X_h^T (sum of scores - label part) of every batch. So labels are protected from it by the label flip alone:
the guarantee is label differential privacy; features of others are hidden computationally.
"""
from fate_dp.crypto.paillier import PublicKey

from ..convergence import CONVERGED, GOES_ON
from ..model import PartyModel
from ..score_release import ScoreRelease
from .gradient import HostLoss, decrypted_at_arbiter, exchange_columns, mean_gradient


def train(ctx, rows, model: PartyModel, terms: dict, release: ScoreRelease) -> None:
    """Run the epochs that the guest directs; ``model`` holds the weights and is updated in place."""
    public_key = PublicKey.from_wire(ctx.arbiter.get("public_key"))
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(model.settings.epochs):
        model.start_epoch(epoch)
        if epoch in terms["flipback_epochs"]:
            release.record(model.weights, "flipback")
            epoch_ctx.guest.put("scores", release.rounded(rows, model.weights, model.settings.score_step))
        for batch_ctx, bounds in epoch_ctx.on_batches.ctxs_zip(terms["batches"]):
            _train_batch(batch_ctx, rows, model, bounds, public_key)
        if model.settings.early_stop == "weight_diff":
            epoch_ctx.guest.put("weight_change", model.epoch_change())
        state = epoch_ctx.guest.get("training_state")
        model.converged = state == CONVERGED
        if state != GOES_ON:
            break
        model.end_epoch()


def _train_batch(ctx, rows, model: PartyModel, bounds, public_key) -> None:
    size = bounds[1] - bounds[0]
    sums = exchange_columns(ctx, rows, model.weights, bounds, public_key)
    own_loss = sums.own_loss + size * model.penalty_loss()
    ctx.guest.put("loss_part", HostLoss(sums.encrypted[-1], own_loss).encrypted(public_key))
    others = decrypted_at_arbiter(ctx, sums.encrypted[:-1], public_key)
    model.update(mean_gradient(others, sums.own_gradient, size))
