"""The engine of dp_hetero_lr without FATE and without a network: guest and host of one training, played in turns.

    python -m bench.hetero_lr_engine ROWS EPOCHS

Made rows in parts, a kernel for each part as on a FATE table, spread over both cores. CPU seconds are those of all
processes together: keys, tables of powers, encryption, products, own Gram matrices, shares, epochs. Making the rows and
checking the result are not in it. Prints one JSON object a line: how many parts are done, then an `EngineCost`.
"""

import json
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import NamedTuple

import numpy as np

from bench.epoch_task import KEY_LENGTH, PENALTY, RATE, START_WEIGHT
from bench.hetero_lr_rows import GUEST_FEATURES, HOST_FEATURES, made_rows
from fate_dp.crypto.cross_product import (
    DROPPED_BITS,
    encrypt_rows,
    exact_product,
    merge_sums,
    multiply_rows,
    open_sums,
    product_layout,
    seal_sums,
)
from fate_dp.crypto.descent_steps import (
    PreparedSteps,
    QuadraticBounds,
    QuadraticShare,
    StepLayout,
    StepProducts,
    UpdateRule,
    draw_masks,
    encrypt_masks,
    multiply_masks,
    open_answer,
    share_bits,
)
from fate_dp.crypto.paillier import PrivateKey, generate_keypair
from fate_dp.crypto.shared_descent import SharedDescent
from fate_dp.crypto.slots import encode_features
from tests.support.local_parties import cpu_seconds

PART_ROWS = 62_500
WORKERS = 2
DIVISOR = 4
# Of features whose variance is 1 but for chance.
MEAN_SQUARE_BITS = 1
GUEST, HOST = slice(0, GUEST_FEATURES + 1), slice(GUEST_FEATURES + 1, GUEST_FEATURES + 1 + HOST_FEATURES)
DIMENSION = HOST.stop
PENALTIES = np.where(np.arange(DIMENSION) == GUEST_FEATURES, 0.0, PENALTY)


@dataclass(frozen=True)
class EngineCost:
    """Seconds of one training, of its cross products and own Gram matrices alone, and how far the weights are from
    gradient descent in the clear."""

    cpu: float
    product_cpu: float
    wall: float
    distance: float


class Sums(NamedTuple):
    """Sums over rows.

    ``products`` are encrypted, at the host; ``guest`` and ``host`` are what each party multiplies in clear; ``plain``
    is for the check, all columns with all in float64. ``other_cpu`` seconds went into making rows and into the check.
    """

    products: tuple
    guest: np.ndarray
    host: np.ndarray
    plain: np.ndarray
    other_cpu: float


@dataclass(frozen=True)
class Player:
    """One party: its secret key, its share of the quadratic and of the weights."""

    private: PrivateKey
    share: QuadraticShare
    descent: SharedDescent


def train(rows, epochs) -> EngineCost:
    """Train on ``rows`` made rows: the guest encrypts its columns, intercept and target, the host multiplies."""
    before, start = cpu_seconds(), time.monotonic()
    privates = [generate_keypair(KEY_LENGTH)[1] for _ in range(2)]
    key = privates[0].public_key
    layout = product_layout(rows, key, MEAN_SQUARE_BITS, DROPPED_BITS)
    sums = _of_all_parts(rows, partial(part_sums, rows=rows, encryption=privates[0].encryption(), layout=layout))
    sealed, host_share = seal_sums(sums.products, len(sums.guest), layout, key)
    guest_share = open_sums(sealed, len(sums.guest), layout, privates[0])
    product_cpu = cpu_seconds() - before - sums.other_cpu
    shares = [_share(GUEST, sums.guest, guest_share, rows), _share(HOST, sums.host, host_share, rows)]
    weights = descend(privates, shares, step_layout(layout, rows, epochs), epochs)
    cpu, wall = cpu_seconds() - before - sums.other_cpu, time.monotonic() - start
    return EngineCost(cpu, product_cpu, wall, float(np.abs(weights - plain_weights(sums.plain / rows, epochs)).max()))


def part_sums(part, rows, encryption, layout) -> Sums:
    """The kernel: what both parties compute from the rows of one part."""
    start = time.process_time()
    made = made_rows(min(PART_ROWS, rows - part * PART_ROWS), part)
    guest = np.column_stack([made.guest, np.ones(len(made.labels)), made.labels - 0.5])
    columns = np.column_stack([guest[:, GUEST], made.host, guest[:, -1]])
    plain, half = columns.T @ columns, 1 << DROPPED_BITS >> 1
    guest, host = (encode_features(side) + half >> DROPPED_BITS for side in (guest, made.host))
    other_cpu = time.process_time() - start
    encrypted = encrypt_rows(guest, encryption, layout, rows // WORKERS)
    products = multiply_rows(host, encrypted, guest.shape[1], layout, encryption.public_key)
    return Sums(products, exact_product(guest, guest), exact_product(host, host), plain, other_cpu)


def step_layout(layout, rows, epochs) -> StepLayout:
    """Public sizes of the descent, given those of the cross products."""
    bounds = QuadraticBounds(DIMENSION, DIVISOR, MEAN_SQUARE_BITS, target_mean_square=0.25, penalty=PENALTY)
    return StepLayout(bounds, 2, KEY_LENGTH, share_bits(layout.value_bits + 2 * DROPPED_BITS, rows, DIVISOR), epochs)


def descend(privates, shares, layout, epochs) -> np.ndarray:
    """All epochs, a step each, and the joint weights that both parties' own ones make up."""
    rule = UpdateRule(learning_rates=(RATE,) * epochs)
    start = np.full(DIMENSION, START_WEIGHT)
    players = [
        Player(private, share, SharedDescent(start[own], own, layout, rule, PENALTIES.tolist(), first=own == GUEST))
        for private, share, own in zip(privates, shares, (GUEST, HOST))
    ]
    for first in range(0, epochs, layout.steps):
        prepared = prepare(players, layout.at_most(epochs - first))
        for epoch in range(first, min(first + layout.steps, epochs)):
            _step(players, prepared, epoch)
    guest, host = (player.descent for player in players)
    return np.concatenate([guest.own_weights([host.share_of(GUEST)]), host.own_weights([guest.share_of(HOST)])])


def prepare(players, layout) -> list[PreparedSteps]:
    """Each player's part of the next steps."""
    masks = [draw_masks(layout) for _ in players]
    messages = [encrypt_masks(own, layout, player.private.encryption()) for player, own in zip(players, masks)]
    exchanged: tuple[list[StepProducts], list[StepProducts]] = [], []
    for own, other in ((0, 1), (1, 0)):
        owner = players[other].private
        answer, products = multiply_masks(players[own].share, masks[own], messages[other], layout, owner.public_key)
        exchanged[own].append(products)
        exchanged[other].append(open_answer(answer, layout, owner))
    return [PreparedSteps(player.share, *found, layout) for player, found in zip(players, zip(masks, exchanged))]


def plain_weights(means, epochs) -> np.ndarray:
    """Gradient descent in the clear, from the mean products (m + 1, m + 1) of all columns, the target the last."""
    weights = np.full(DIMENSION, START_WEIGHT)
    for _ in range(epochs):
        gradient = means[:-1, :-1] @ weights / DIVISOR - means[:-1, -1] + PENALTIES * weights
        weights = weights - RATE * gradient
    return weights


def _of_all_parts(rows, kernel) -> Sums:
    parts, done = -(-rows // PART_ROWS), []
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("fork")) as pool:
        for part in pool.map(kernel, range(parts)):
            done.append(part)
            print(json.dumps({"done": len(done), "parts": parts}), flush=True)
    return reduce(partial(_merged, key=kernel.keywords["encryption"].public_key), done)


def _merged(first, second, key) -> Sums:
    return Sums(merge_sums(first.products, second.products, key), *(a + b for a, b in zip(first[1:], second[1:])))


def _share(own, products, cross, rows) -> QuadraticShare:
    """One party's share, from what it multiplied alone and its share of the host's columns times guest's and target."""
    count = own.stop - own.start
    matrix, linear = np.zeros((DIMENSION, DIMENSION), dtype=object), np.zeros(DIMENSION, dtype=object)
    matrix[own, own] = products[:count, :count]
    matrix[HOST, GUEST], matrix[GUEST, HOST] = cross[:, :-1], cross[:, :-1].T
    linear[HOST] = cross[:, -1]
    if own == GUEST:
        linear[GUEST] = products[:count, -1]
    return QuadraticShare.scaled(matrix << 2 * DROPPED_BITS, linear << 2 * DROPPED_BITS, rows, DIVISOR)


def _step(players, prepared, epoch) -> None:
    """One step with its loss, which the first player learns."""
    (guest, host), steps = (player.descent for player in players), [one.take() for one in prepared]
    hidden = [guest.hidden_weights(steps[0]), host.hidden_weights(steps[1])]
    for at, player in enumerate(players):
        player.descent.receive(player.share, steps[at], [hidden[1 - at]])
        player.descent.move(epoch)
    of_guest, of_host = guest.take_losses(), host.take_losses()
    of_guest.open([of_host.hidden()], [of_host.share([of_guest.hidden()], [1])], [1])


def main():
    print(json.dumps(asdict(train(int(sys.argv[1]), int(sys.argv[2])))), flush=True)


if __name__ == "__main__":
    main()
