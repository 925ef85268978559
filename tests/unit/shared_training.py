"""All data parties of a shared descent in one process, on statistics split as the cross product splits them."""

import secrets
from dataclasses import dataclass

import numpy as np

from fate_dp.crypto.descent_steps import (
    PreparedSteps,
    QuadraticBounds,
    QuadraticShare,
    StepLayout,
    StepProducts,
    draw_masks,
    encrypt_masks,
    multiply_masks,
    open_answer,
    share_bits,
)
from fate_dp.crypto.shared_descent import SharedDescent

VALUE_BITS = 48 + 8 + 10 + 1
ROWS = 1000
DIVISOR = 4


@dataclass
class Parties:
    """Columns of every data party; the first one is the guest."""

    counts: tuple

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def columns(self) -> list[slice]:
        ends = np.cumsum([0, *self.counts])
        return [slice(int(first), int(last)) for first, last in zip(ends, ends[1:])]

    def layout(self, key_length=1024, most_steps=5, **bounds) -> StepLayout:
        known = {"mean_square_bits": 1, "target_mean_square": 0.25, **bounds}
        public = QuadraticBounds(self.total, DIVISOR, **known)
        return StepLayout(public, len(self.counts), key_length, share_bits(VALUE_BITS, ROWS, DIVISOR), most_steps)


def standardised(parties: Parties, seed: int, rows=ROWS):
    """H and b of standard normal features whose mean squares are 1, and labels +-1/2 that follow from them."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, parties.total))
    features /= np.sqrt((features**2).mean(axis=0))
    targets = (features @ generator.standard_normal(parties.total) + generator.standard_normal(rows) > 0) - 0.5
    return features.T @ features / (DIVISOR * rows), features.T @ targets / rows


def split_quadratic(parties: Parties, hessian, linear, mask_bits=VALUE_BITS + 41) -> list[QuadraticShare]:
    """Each party's own block in clear, cross blocks as a mask at one party and the masked sum at the other."""
    sums, linear_sums = integers(hessian * DIVISOR * ROWS), integers(linear * ROWS)
    matrices = [np.zeros_like(sums) for _ in parties.counts]
    vectors = [np.zeros_like(linear_sums) for _ in parties.counts]
    columns = parties.columns
    for p, own in enumerate(columns):
        matrices[p][own, own] = sums[own, own]
        for q, other in enumerate(columns[p + 1 :], p + 1):
            mask = _masks((parties.counts[p], parties.counts[q]), mask_bits)
            matrices[p][own, other], matrices[q][own, other] = -mask, sums[own, other] + mask
            matrices[p][other, own], matrices[q][other, own] = -mask.T, (sums[own, other] + mask).T
    vectors[0][columns[0]] = linear_sums[columns[0]]
    for q, other in enumerate(columns[1:], 1):
        mask = _masks((parties.counts[q],), mask_bits)
        vectors[0][other], vectors[q][other] = -mask, linear_sums[other] + mask
    return [QuadraticShare.scaled(*sums_of_one, ROWS, DIVISOR) for sums_of_one in zip(matrices, vectors)]


def integers(values) -> np.ndarray:
    """Floats -> object array of integers in units of 2^-48."""
    rounded = [round(value * 2**48) for value in np.ravel(values).tolist()]
    return np.array(rounded, dtype=object).reshape(np.shape(values))


def prepared_by_dealer(shares, layout: StepLayout, draw=None) -> list[PreparedSteps]:
    """Prepared steps without encryption: products in clear, split into random shares."""
    masks = [draw() if draw else draw_masks(layout) for _ in shares]
    exchanged = [[] for _ in shares]
    for p, share in enumerate(shares):
        for q in range(len(shares)):
            if p != q:
                product = StepProducts(share.matrix @ masks[q].weights, (masks[q].left * masks[p].right).sum(axis=0))
                hidden = StepProducts(_masks(product.weights.shape, 300), _masks(product.inner.shape, 300))
                exchanged[p].append(StepProducts(-hidden.weights, -hidden.inner))
                exchanged[q].append(product + hidden)
    return [PreparedSteps(*parts, layout) for parts in zip(shares, masks, exchanged)]


def prepared_by_parties(shares, layout: StepLayout, keys) -> list[PreparedSteps]:
    """Prepared steps as parties make them: ``keys`` are (public, private) of each."""
    masks = [draw_masks(layout) for _ in shares]
    messages = [encrypt_masks(own, layout, private.encryption(), 100) for own, (_, private) in zip(masks, keys)]
    exchanged = [[] for _ in shares]
    for p, share in enumerate(shares):
        for q, (public, private) in enumerate(keys):
            if p != q:
                answer, own = multiply_masks(share, masks[p], messages[q], layout, public)
                exchanged[p].append(own)
                exchanged[q].append(open_answer(answer, layout, private))
    return [PreparedSteps(*parts, layout) for parts in zip(shares, masks, exchanged)]


def descents(parties: Parties, initial, layout, rule, penalties, states=None) -> list[SharedDescent]:
    """One `SharedDescent` for each party, from the joint initial weights."""
    return [
        SharedDescent(initial[columns], columns, layout, rule, penalties, at == 0, states and states[at])
        for at, columns in enumerate(parties.columns)
    ]


def run_step(joint: list[SharedDescent], shares, prepared: list[PreparedSteps], epoch: int) -> list:
    """One step at all parties; what every party sends to all others."""
    steps = [one.take() for one in prepared]
    hidden = [descent.hidden_weights(step) for descent, step in zip(joint, steps)]
    heads = [
        descent.receive(share, step, others(hidden, at))
        for at, (descent, share, step) in enumerate(zip(joint, shares, steps))
    ]
    for at, descent in enumerate(joint):
        descent.move(epoch, [] if at or not heads[0] else heads[1:])
    return hidden


def joint_losses(joint: list[SharedDescent]) -> list[float]:
    """Losses of the steps since the last call, as the guest gets them."""
    losses = [descent.take_losses() for descent in joint]
    hidden = [of_party.hidden() for of_party in losses]
    rows = [1] * len(hidden[0])
    shares = [of_party.share(others(hidden, at), rows) for at, of_party in enumerate(losses) if at]
    return [losses[0].open(others(hidden, 0), shares, rows)]


def joint_weights(joint: list[SharedDescent]) -> np.ndarray:
    """The sum of all shares as floats, before any rounding to what is revealed."""
    everything = slice(None)
    return np.array([sum(parts) / 2**40 for parts in zip(*(descent.share_of(everything) for descent in joint))])


def others(messages: list, at: int) -> list:
    return [message for sender, message in enumerate(messages) if sender != at]


def _masks(shape, bits: int) -> np.ndarray:
    count = int(np.prod(shape))
    return np.array([secrets.randbits(bits) for _ in range(count)], dtype=object).reshape(shape)
