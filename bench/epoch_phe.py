"""A side of the benchmarks: encrypting in every epoch with python-paillier, one number at a time, in three processes.

Guest and host exchange encrypted quarter scores u, multiply them with their features, add random masks, and the arbiter
decrypts masked sums only; the guest gets the loss in the same way. Numbers travel as (ciphertext, exponent).
"""

import math
import secrets

import numpy as np

from bench import epoch_task
from bench.epoch_clock import EpochClock

# Wider by 40 bits than any sum here in phe's encoding, whose exponents go down to about 16^-40.
MASK_BITS = 256


def train(ctx, task, epochs):
    """One party's `PartyCost`."""
    role = ctx.federation.local_party[0]
    if role == "arbiter":
        clock = EpochClock()
        _serve(ctx, epochs)
        return clock.cost()
    party = DataParty(task, role)
    blinded = encryptions_differ()
    clock = EpochClock()
    party.train(ctx, epochs)
    return clock.cost(party.weights, blinded)


def encryptions_differ():
    """Whether two encryptions of one value differ."""
    from phe import generate_paillier_keypair

    public_key, _ = generate_paillier_keypair(n_length=512)
    return public_key.encrypt(0.5).ciphertext() != public_key.encrypt(0.5).ciphertext()


class DataParty:
    """Guest or host: features, weights, and at the guest labels and the intercept."""

    def __init__(self, task, role):
        from fate_dp.components.protocols.optimizers import PartyOptimizer

        self._features, self._labels = task.features_and_labels(role)
        if role == "guest":
            self._features = np.column_stack([self._features, np.ones(len(self._features))])
        start = np.full(self._features.shape[1], epoch_task.START_WEIGHT)
        self._updates = PartyOptimizer(start, epoch_task.OPTIMIZER, epoch_task.SCHEDULER, role == "guest")
        self.losses = []

    @property
    def weights(self):
        return self._updates.weights.numpy().ravel().copy()

    def train(self, ctx, epochs):
        from phe import PaillierPublicKey

        self._public_key = PaillierPublicKey(ctx.arbiter.get("public_key"))
        for _, epoch_ctx in ctx.on_iterations.ctxs_range(epochs):
            self._epoch(epoch_ctx)
            self._updates.next_epoch()

    def _epoch(self, ctx):
        scores = self._features @ self.weights / 4
        own = scores if self._labels is None else scores - (self._labels - 0.5)
        peer = ctx.guest if self._labels is None else ctx.hosts[0]
        peer.put("scores", [_to_wire(self._public_key.encrypt(float(value))) for value in own])
        received = [self._from_wire(item) for item in peer.get("scores")]
        sums = [self._product(received, column) for column in self._features.T]
        if self._labels is None:
            ctx.guest.put("loss_part", _to_wire(self._public_key.encrypt(2 * float(own @ own) + self._penalty())))
        else:
            sums.append(self._product(received, 2 * own) + self._from_wire(ctx.hosts[0].get("loss_part")))
        sums = self._decrypted_at_arbiter(ctx, sums)
        if self._labels is not None:
            logits = 4 * scores
            alone = len(own) * math.log(2) + logits @ logits / 8 - (self._labels - 0.5) @ logits + self._penalty()
            self.losses.append((sums.pop() + alone) / len(own))
        gradient = (np.array(sums) + self._features.T @ own) / len(own)
        self._updates.step(self._updates.regularise(gradient.reshape(-1, 1)))

    def _product(self, encrypted, column):
        products = (number * float(value) for number, value in zip(encrypted, column))
        return sum(products, next(products))

    def _penalty(self):
        return len(self._features) * self._updates.penalty_loss()

    def _decrypted_at_arbiter(self, ctx, numbers):
        from phe import EncodedNumber

        masks = [secrets.randbits(MASK_BITS) for _ in numbers]
        masked = [
            number + EncodedNumber(self._public_key, mask, number.exponent) for number, mask in zip(numbers, masks)
        ]
        ctx.arbiter.put("masked", [_to_wire(number) for number in masked])
        encodings = [(value - mask) % self._public_key.n for value, mask in zip(ctx.arbiter.get("decrypted"), masks)]
        return [
            EncodedNumber(self._public_key, value, number.exponent).decode()
            for value, number in zip(encodings, numbers)
        ]

    def _from_wire(self, item):
        from phe import EncryptedNumber

        return EncryptedNumber(self._public_key, *item)


def _to_wire(number):
    # ``ciphertext`` blinds a number that has come out of arithmetic before it hands it out.
    return number.ciphertext(be_secure=True), number.exponent


def _serve(ctx, epochs):
    from phe import EncryptedNumber, generate_paillier_keypair

    public_key, private_key = generate_paillier_keypair(n_length=epoch_task.KEY_LENGTH)
    for party in (ctx.guest, ctx.hosts[0]):
        party.put("public_key", public_key.n)
    for _, epoch_ctx in ctx.on_iterations.ctxs_range(epochs):
        for party in (epoch_ctx.guest, epoch_ctx.hosts[0]):
            masked = [EncryptedNumber(public_key, *item) for item in party.get("masked")]
            party.put("decrypted", [private_key.decrypt_encoded(number).encoding for number in masked])
