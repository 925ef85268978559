"""The guest's part of solver per_epoch: (flipped) labels, features, the loss, flipback, and the end of training.

What it sees: the hosts' quarter scores under encryption, its own exact gradient and the loss of every batch, with
early_stop ``weight_diff`` the length of each host's step in every epoch, and the joint scores whenever flipback runs or
rows are predicted. A gradient is m_g sums of host scores; a guest feature that marks one row reads that row's score, so
batches hold at least ten rows per feature. Each release of joint scores of X_h w_h is one linear equation per host
feature for every row: after as many different w as a host has features, X_h is known up to one square matrix. The
hosts' ledgers count them and refuse beyond their cap (a quarter of the feature count unless the operator says else).
"""

import numpy as np

from fate_dp.components.common.frames import collect_column
from fate_dp.components.common.parties import others
from fate_dp.crypto.fixed_point import decode_product
from fate_dp.crypto.paillier import PublicKey

from ..convergence import CONVERGED, GOES_ON, Convergence
from ..epoch_loss import note_loss
from ..model import PartyModel
from ..relabelling import Relabelling
from ..rows import relabel
from ..scoring import joint_score_blocks, probabilities
from .gradient import decrypted_at_arbiter, encrypted_loss, exchange_columns, mean_gradient


def train(ctx, rows, model: PartyModel, terms: dict, relabelling: Relabelling) -> None:
    """Direct the epochs; ``model`` holds the guest's weights and is updated in place."""
    settings = model.settings
    public_key = PublicKey.from_wire(ctx.arbiter.get("public_key"))
    convergence = Convergence(settings.early_stop, settings.tol)
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(settings.epochs):
        model.start_epoch(epoch)
        if epoch in terms["flipback_epochs"]:
            scores = collect_column(joint_score_blocks(epoch_ctx, rows, model.weights, settings.score_step))
            rows = relabel(rows, relabelling.next_labels(probabilities(scores)))
        loss = 0.0
        for batch_ctx, bounds in epoch_ctx.on_batches.ctxs_zip(terms["batches"]):
            batch_loss = _train_batch(batch_ctx, rows, model, bounds, public_key)
            loss += batch_loss * (bounds[1] - bounds[0]) / terms["rows"]
        note_loss(epoch_ctx, model, epoch, loss)
        if settings.early_stop == "weight_diff":
            change = model.epoch_change() + sum(epoch_ctx.hosts.get("weight_change"))
        else:
            change = None
        state = convergence.state(epoch, settings.epochs, loss, change)
        for party in others(epoch_ctx):
            party.put("training_state", state)
        model.converged = state == CONVERGED
        if state != GOES_ON:
            break
        model.end_epoch()


def _train_batch(ctx, rows, model: PartyModel, bounds, public_key) -> float:
    size = bounds[1] - bounds[0]
    sums = exchange_columns(ctx, rows, model.weights, bounds, public_key)
    own_loss = np.log(2.0) + sums.own_loss / size + model.penalty_loss()
    cross = encrypted_loss(sums.encrypted[-1], ctx.hosts.get("loss_part"), public_key)
    *products, loss = decrypted_at_arbiter(ctx, [*sums.encrypted[:-1], cross], public_key)
    model.update(mean_gradient(products, sums.own_gradient, size))
    return own_loss + decode_product(loss) / size
