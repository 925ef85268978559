"""Solver per_epoch: every epoch encrypts every party's scores, and the arbiter decrypts masked sums of every batch.

With u_p = X_p w_p / 4 at a host and u_g = X_g w_g / 4 - (y - 1/2) at the guest, the Taylor gradient of party p is
X_p^T sum_q u_q / n. A party knows its own u_p, so only the sum of the others' columns is encrypted. The last column of
a product is the party's own u_p: it gives the encrypted cross terms of the loss.

What each party sees stands in guarantee.yaml. A gradient is m_g sums of host scores; a guest feature that marks one row
reads that row's score, so batches hold at least ten rows per feature. Each release of joint scores of X_h w_h is one
linear equation per host feature for every row: after as many different w as a host has features, X_h is known up to one
square matrix, so that the hosts' ledgers count them.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from gmpy2 import mpz

from fate_dp.crypto import paillier, slots
from fate_dp.crypto.paillier import Ciphertext, EncryptedSum, PublicKey
from fate_dp.crypto.powers import powers_product

from ...common.federation import Context, data_peers, others
from ...common.frames import Table, collect_column
from ...protocols.optimizers import GOES_ON, Convergence
from ...protocols.prediction_frames import probabilities
from ...protocols.training_terms import TrainingTerms
from ..labels import Relabelling
from ..model import PartyModel, note_loss
from ..rows import Block, relabel
from ..scores import ScoreRelease, joint_score_blocks


class PerEpoch:
    """The `Solver` in which every party holds its own weights."""

    def train_guest(self, ctx: Context, rows: Table, model: PartyModel, relabelling: Relabelling) -> None:
        """Direct the epochs; ``model`` holds the guest's weights and is updated in place."""
        terms = model.terms
        public_key = PublicKey.from_wire(ctx.arbiter.get("public_key"))
        convergence = Convergence(terms.descent.early_stop, terms.descent.tol)
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            model.start_epoch(epoch)
            if epoch in terms.flipback_epochs:
                scores = collect_column(joint_score_blocks(epoch_ctx, rows, model.weights, model.settings.score_step))
                rows = relabel(rows, relabelling.next_labels(probabilities(scores)))
            loss = 0.0
            for batch_ctx, bounds in epoch_ctx.on_batches.ctxs_zip(terms.batches):
                batch_loss = _step_of_guest(batch_ctx, rows, model, bounds, public_key)
                loss += batch_loss * (bounds[1] - bounds[0]) / terms.rows
            note_loss(epoch_ctx, model, epoch, loss)
            change = None
            if terms.descent.early_stop == "weight_diff":
                change = model.epoch_change() + sum(epoch_ctx.hosts.get("weight_change"))
            state = convergence.state(epoch, terms.descent.epochs, loss, change)
            for party in others(epoch_ctx):
                party.put("training_state", state)
            if model.ends(state):
                break

    def train_host(self, ctx: Context, rows: Table, model: PartyModel, release: ScoreRelease) -> None:
        """Run the epochs that the guest directs; ``model`` holds the weights and is updated in place."""
        terms = model.terms
        public_key = PublicKey.from_wire(ctx.arbiter.get("public_key"))
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            model.start_epoch(epoch)
            if epoch in terms.flipback_epochs:
                release.give_round(epoch_ctx, rows, model.weights, model.settings.score_step, "flipback")
            for batch_ctx, bounds in epoch_ctx.on_batches.ctxs_zip(terms.batches):
                _step_of_host(batch_ctx, rows, model, bounds, public_key)
            if terms.descent.early_stop == "weight_diff":
                epoch_ctx.guest.put("weight_change", model.epoch_change())
            if model.ends(epoch_ctx.guest.get("training_state")):
                break

    def serve_arbiter(self, ctx: Context, terms: TrainingTerms) -> int:
        """Decrypt for all data parties until the guest says that training has ended; returns the epochs that ran."""
        public_key, private_key = paillier.generate_keypair(terms.descent.key_length)
        for party in data_peers(ctx):
            party.put("public_key", private_key.to_wire())
        for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(terms.descent.epochs):
            for batch_ctx, _ in epoch_ctx.on_batches.ctxs_zip(terms.batches):
                for party, features in zip(data_peers(batch_ctx), terms.features):
                    masked = party.get("masked")
                    # The guest's sums are its gradient and the loss.
                    refuse_more_than(features + (party.role == "guest"), masked, public_key, party.name)
                    party.put("decrypted", slots.decrypt_masked(masked, private_key))
            if epoch_ctx.guest.get("training_state") != GOES_ON:
                break
        return epoch + 1


def refuse_more_than(sums: int, masked: list, public_key: PublicKey, sender: str) -> None:
    """A party gets as many ciphertexts decrypted as its gradient needs: others' scores must not come along."""
    needed = -(-sums // slots.slots_per_ciphertext(public_key))
    if len(masked) != needed:
        raise ValueError(
            f"{sender} sent {len(masked)} ciphertexts to decrypt; its {sums} sums of a batch need {needed}."
        )


def _step_of_guest(
    ctx: Context, rows: Table, model: PartyModel, bounds: tuple[int, int], public_key: PublicKey
) -> float:
    """One step along the gradient of a batch; returns the batch's loss."""
    size = bounds[1] - bounds[0]
    sums = exchange_columns(ctx, rows, model.weights, bounds, public_key)
    own_loss = np.log(2.0) + sums.own_loss / size + model.penalty_loss()
    own_cross = EncryptedSum(sums.encrypted[-1], public_key)
    parts = (Ciphertext.from_bytes(part, public_key) for part in ctx.hosts.get("loss_part"))
    # 2 u_g^T u_hosts plus what the hosts sent.
    cross = sum(parts, own_cross + own_cross).value
    *products, loss = decrypted_at_arbiter(ctx, [*sums.encrypted[:-1], cross], public_key)
    model.update(mean_gradient(products, sums.own_gradient, size))
    return own_loss + slots.decode_product(loss) / size


def _step_of_host(ctx: Context, rows: Table, model: PartyModel, bounds: tuple[int, int], public_key: PublicKey) -> None:
    """One step along the gradient of a batch.

    The host adds to the batch's loss 2 u_h^T u_others under encryption, and a part that it can compute alone; the guest
    gets both in one fully blinded ciphertext, which it cannot read.
    """
    size = bounds[1] - bounds[0]
    sums = exchange_columns(ctx, rows, model.weights, bounds, public_key)
    own_loss, cross = sums.own_loss + size * model.penalty_loss(), EncryptedSum(sums.encrypted[-1], public_key)
    ctx.guest.put("loss_part", (cross + cross).plus(slots.encode_loss(own_loss)).fully_blinded().to_bytes())
    decrypted = decrypted_at_arbiter(ctx, list(sums.encrypted[:-1]), public_key)
    model.update(mean_gradient(decrypted, sums.own_gradient, size))


class Slice(NamedTuple):
    """Of one block in a batch: int64 features (rows, m), float64 quarter scores u (rows,), other parties' encrypted columns."""

    features: np.ndarray
    quarter_scores: np.ndarray
    own_loss: float
    received: tuple[bytes, ...] = ()


class Sums(NamedTuple):
    """Sums over the rows of a batch: encrypted products with the other parties' column, and the party's own part.

    ``encrypted`` are ciphertexts (integers) of X^T u_others, then of u_own^T u_others; ``own_gradient`` are exact
    integers X^T u_own in units of 2^-64; ``own_loss`` is the part of the loss that the party can compute alone.
    """

    encrypted: tuple
    own_gradient: tuple
    own_loss: float


def exchange_columns(
    ctx: Context, rows: Table, weights: np.ndarray, bounds: tuple[int, int], public_key: PublicKey
) -> Sums:
    """Send this party's encrypted quarter scores of a batch to guest and hosts, multiply with theirs."""
    first, last = bounds
    batch = rows.mapValues(partial(_slice, weights=weights, first=first, last=last))
    column = batch.mapValues(lambda part: paillier.encrypt_column(slots.encode_scores(part.quarter_scores), public_key))
    peers = data_peers(ctx)
    for party in peers:
        party.put("encrypted_scores", column)
    *earlier, latest = [party.get("encrypted_scores") for party in peers]
    for columns in earlier:
        batch = batch.join(columns, lambda part, column: part._replace(received=(*part.received, column)))
    parts = batch.join(latest, partial(_multiply, public_key=public_key))
    return parts.reduce(partial(_merge, modulus=public_key.modulus_squared))


def decrypted_at_arbiter(ctx: Context, encrypted: list[mpz], public_key: PublicKey) -> list[int]:
    """Signed integers in units of 2^-64 behind ``encrypted``; the arbiter sees them under additive masks only."""
    packed, masks = slots.mask_and_pack([EncryptedSum(value, public_key) for value in encrypted], public_key)
    ctx.arbiter.put("masked", packed)
    return slots.unpack_and_unmask(ctx.arbiter.get("decrypted"), masks, public_key)


def mean_gradient(others: list[int], own: tuple, rows: int) -> np.ndarray:
    """Exact sums of both parts -> float64 gradient of shape (m, 1), per row."""
    return np.array([[slots.decode_product(first + second) / rows] for first, second in zip(others, own)])


def _slice(block: Block, weights: np.ndarray, first: int, last: int) -> Slice:
    rows = block.within(first, last)
    quarter = rows.quarter_scores(weights)
    if rows.labels is None:
        return Slice(rows.features, quarter, 2.0 * float(quarter @ quarter))
    score, target = 4.0 * quarter, rows.labels - 0.5
    own_loss = float(score @ score) / 8 - float(target @ score)
    return Slice(rows.features, quarter - target, own_loss)


def _multiply(batch: Slice, column: bytes, public_key: PublicKey) -> Sums:
    ciphertexts = paillier.sum_of_columns([*batch.received, column], public_key)
    if len(ciphertexts) != len(batch.features):
        raise ValueError(f"Encrypted scores must be one per row, {len(batch.features)}, got {len(ciphertexts)}.")
    exponents = np.column_stack([batch.features, slots.encode_features(batch.quarter_scores)])
    products = powers_product(ciphertexts, exponents, public_key.modulus_squared)
    # Python integers: the exact sums need up to 118 bits, more than int64 holds.
    own = batch.features.astype(object).T @ slots.encode_scores(batch.quarter_scores).astype(object)
    return Sums(tuple(map(int, products)), tuple(map(int, own)), batch.own_loss)


def _merge(first: Sums, second: Sums, modulus: mpz) -> Sums:
    return Sums(
        tuple(int(a * mpz(b) % modulus) for a, b in zip(first.encrypted, second.encrypted)),
        tuple(a + b for a, b in zip(first.own_gradient, second.own_gradient)),
        first.own_loss + second.own_loss,
    )
