"""The guest's part where the cross product trains: the targets, the losses, and the end of training.

What it receives: a host's rows under the host's key, or none; masked numbers; the mean loss of every epoch and model,
rounded; and at the end its own weights. Losses and own weights are functions of the cross block with the hosts: for a
host with one feature they determine it. Joint scores it sees in rounds of flipback and corrections of the sigmoid, and when rows are predicted: each is
one linear equation per host feature for every row, and counted in the host's ledger. See docs/cryptography.md.
"""
from statistics import fmean
from typing import Optional

from fate_dp.components.common.frames import collect_column
from fate_dp.components.common.parties import others
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ..convergence import CONVERGED, DIVERGED, GOES_ON, Convergence, refuse_divergence
from ..epoch_loss import note_loss
from ..model import PartyModel
from ..relabelling import Relabelling
from ..rows import relabel
from ..scoring import joint_score_blocks
from .joint_columns import JointColumns
from .targets import Targets, check_targets, fits
from .training import SharedTraining


def train(
    ctx, rows, model: PartyModel, terms: dict, relabelling: Relabelling, noise: Optional[MomentNoise] = None
) -> None:
    """Direct the epochs; ``model`` gets the guest's own weights and nobody else's."""
    targets = Targets(model.settings, relabelling, terms)
    check_targets(targets.columns, terms["batches"])
    rows = relabel(rows, targets.columns)
    training = SharedTraining(ctx, rows, model, terms, JointColumns.of(ctx, terms), noise)
    convergence = Convergence(model.settings.early_stop, model.settings.tol)
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(model.settings.epochs):
        model.start_epoch(epoch)
        if epoch in terms["score_epochs"]:
            rows = _with_next_targets(epoch_ctx, rows, model, targets, training, epoch, terms)
        loss = _run_epoch(epoch_ctx, training, targets, epoch, terms)
        note_loss(epoch_ctx, model, epoch, loss)
        state = convergence.state(epoch, model.settings.epochs, loss, None)
        if state == CONVERGED and any(later > epoch for later in terms["correction_epochs"]):
            # The quadratic of this phase is at its minimum; the next correction brings another one.
            state = GOES_ON
        _tell(others(epoch_ctx), state)
        model.converged = state == CONVERGED
        if state != GOES_ON:
            break
        model.end_epoch()
    training.finish(ctx.sub_ctx("finish"), model)


def _with_next_targets(ctx, rows, model, targets, training, epoch, terms):
    """Open the own weights, get the joint scores, and let all parties hold shares of the new targets' products."""
    if epoch:
        model.columns = training.own_weights(ctx.sub_ctx("weights"))
    scores = collect_column(joint_score_blocks(ctx, rows, model.weights, model.settings.score_step))
    rows, target_ctx = relabel(rows, targets.after(epoch, terms, scores)), ctx.sub_ctx("target")
    if not fits(targets.columns, terms["batches"]):
        _end_diverged(target_ctx.hosts, ctx)
    _tell(target_ctx.hosts, GOES_ON)
    training.take_targets(target_ctx, rows)
    return rows


def _run_epoch(ctx, training, targets, epoch, terms) -> float:
    """One pass over the batches; the mean loss per record, each batch's taken before its step and none opened alone.

    Of several models it is the mean of theirs.
    """
    loss = 0.0
    training.prepare(ctx.sub_ctx("prepare"), epoch)
    for group_ctx, batches in ctx.on_batches.ctxs_zip(training.groups()):
        hidden = training.run_steps(group_ctx, batches, epoch)
        # The batches of a group are consecutive rows.
        bounds = terms["batches"][batches[0]][0], terms["batches"][batches[-1]][1]
        varying = training.losses(hidden, group_ctx.hosts.get("loss_shares"), batches)
        means = [mean + targets.constant(bounds) for mean in varying]
        loss += fmean(means) * (bounds[1] - bounds[0]) / terms["rows"]
        if not all(map(training.passes, means)):
            _end_diverged(group_ctx.hosts, ctx)
        _tell(group_ctx.hosts, GOES_ON)
    return loss


def _end_diverged(hosts, epoch_ctx) -> None:
    """Let every party know where it waits for a word, and stop."""
    _tell(hosts, DIVERGED)
    _tell([party for party in others(epoch_ctx) if party.role == "arbiter"], DIVERGED)
    refuse_divergence(DIVERGED)


def _tell(parties, state: str) -> None:
    for party in parties:
        party.put("training_state", state)
