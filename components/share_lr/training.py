"""Training on shares of the rows: M^T M of shared rows, the steps on it, and the epochs.

Shares of M^T M where both parties hold shares of M: own products in clear, products of the two shares encrypted.

(A + B)^T (A + B) = A^T A + B^T B + A^T B + (A^T B)^T. A party computes its first two factors alone. For the product of
its share and the other's, the host encrypts the first half of every block's rows and the guest multiplies them, and
the other way round with the second half: both work at once, and each sees ciphertexts, or numbers within 2^-40 of
uniform. What comes out is narrow: shares of a sum are 42 bits wider than the sum can be.

How large a column is nobody knows. Values are below 2^4 in magnitude, as align encoded them, so that a mean square is
at most 2^8; all widths rest on this public bound.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np

from fate_dp.crypto import cross_product
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS, open_sums
from fate_dp.crypto.descent_steps import SUM_FRACTION_BITS, QuadraticShare
from fate_dp.crypto.joined_records import FRACTION_BITS, VALUE_BITS
from fate_dp.crypto.paillier import OwnerEncryption, PrivateKey, PublicKey
from fate_dp.crypto.slots import SlotLayout

from ..common.federation import Context
from ..common.frames import Table
from ..common.preflight import Refusal, Together
from ..protocols import shared_descent
from ..protocols.optimizers import CONVERGED, DIVERGED, Convergence
from ..protocols.score_counts import CountedLosses
from ..protocols.shared_descent import CheckedSteps, Decision, JointColumns, Keys, SharedSteps
from ..protocols.training_terms import Descent, TrainingTerms

logger = logging.getLogger(__name__)

_HALF_BITS = 33
_ROWS_AT_ONCE = 1 << 15
"""Rows that are multiplied together share buckets; more would gain little and fill the memory."""
_SHOWN = {"binomial": math.log(2.0), "gaussian": 0.0}
"""The loss of family binomial is the Taylor loss. That of family gaussian lacks its constant, half the mean square of
the labels, which would tell the guest about the labels of the records that matched: it starts at 0 and falls."""
_LARGEST = {"binomial": math.log(2.0), "gaussian": 2.0 ** (MEAN_SQUARE_BITS - 1)}
"""A loss may be within bounds or not only with the largest constant that it can have."""


@dataclass(frozen=True)
class Side:
    """One party's end of a computation with the other, FATE's object of which is ``party``: own and other public key.

    ``together(stage, work)`` returns what ``work()`` does here, once the other party has done its own.
    """

    party: Any
    private: PrivateKey
    public: PublicKey
    guest: bool
    together: Callable[[str, Callable], Any]

    @classmethod
    def of(cls, ctx: Context, keys: Keys, columns: JointColumns) -> "Side":
        ((peer, party),) = columns.peers(ctx).items()
        return cls(party, keys.private, keys.peers[peer], columns.is_guest, Together(ctx))


def gram_share(side: Side, blocks: Table, rows: int, columns: int) -> np.ndarray:
    """This party's share of M^T M: object (columns, columns), integers in units of 2^-48.

    ``blocks`` is the table of this party's shares of M, object arrays (rows, columns) in units of 2^-20.
    """
    total = own_products(blocks, columns)
    for product in _cross_products(side, blocks, rows, columns):
        total = total + product + product.T
    narrow = cross_product.narrow_shares(total, 2 * VALUE_BITS + int(rows).bit_length(), side.guest)
    return narrow << SUM_FRACTION_BITS - 2 * FRACTION_BITS


def own_products(blocks: Table, columns: int) -> np.ndarray:
    """A^T A of one party's share, exact."""
    parts = blocks.mapPartitions(_exact_squares, preserves_partitioning=True)
    return reduce(np.add, (part for _, part in parts.collect()), np.zeros((columns, columns), dtype=object))


def exact_square(matrix: np.ndarray) -> np.ndarray:
    """``matrix^T matrix`` of an object array (rows, c) of integers below 2^72 in magnitude."""
    high = matrix >> _HALF_BITS
    halves = np.hstack([high, matrix - (high << _HALF_BITS)]).astype(np.int64)
    products = cross_product.exact_product(halves, halves)
    (high_high, high_low), (low_high, low_low) = (np.hsplit(half, 2) for half in np.vsplit(products, 2))
    return (high_high << 2 * _HALF_BITS) + ((high_low + low_high) << _HALF_BITS) + low_low


def half_of(block: np.ndarray, front: bool) -> np.ndarray:
    """The first half of a block's rows, which the host encrypts, or the other rows, which the guest does."""
    middle = len(block) // 2
    return block[:middle] if front else block[middle:]


def _cross_products(side: Side, blocks: Table, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the products over both halves of the rows; each may be of the transposed product."""
    own_layout, layout = (cross_product.wide_layout(rows, key) for key in (side.private.public_key, side.public))
    encrypt = partial(
        _encrypted, front=not side.guest, encryption=side.private.encryption(), layout=own_layout, expected=rows // 2
    )
    side.party.put("encrypted_rows", blocks.mapValues(encrypt))
    multiply = partial(_multiplied, front=side.guest, columns=columns, layout=layout, key=side.public)

    def encrypted_sums() -> tuple[int, ...]:
        pairs = blocks.join(side.party.get("encrypted_rows"), lambda block, encrypted: (block, encrypted))
        parts = pairs.mapPartitions(multiply, preserves_partitioning=True).collect()
        nothing: tuple[int, ...] = (1,) * (columns * layout.plaintexts(columns))
        return reduce(partial(cross_product.merge_sums, public_key=side.public), (part for _, part in parts), nothing)

    sealed, multiplied = cross_product.seal_sums(
        side.together("encrypted rows", encrypted_sums), columns, layout, side.public
    )
    side.party.put("masked_products", sealed)
    received = side.party.get("masked_products")
    opened = side.together("products", partial(open_sums, received, columns, own_layout, side.private))
    return multiplied, opened


def _exact_squares(blocks: Iterable[tuple[object, np.ndarray]]) -> Iterator[tuple[object, np.ndarray]]:
    """One sum for a partition: only what has the size of the columns reaches the driver."""
    total: Any = 0
    last = None
    for last, block in blocks:
        total = total + exact_square(block)
    if last is not None:
        yield last, total


def _encrypted(block: np.ndarray, front: bool, encryption: OwnerEncryption, layout: SlotLayout, expected: int) -> bytes:
    return cross_product.encrypt_shares(half_of(block, front), encryption, layout, expected)


def _multiplied(
    pairs: Iterable, front: bool, columns: int, layout: SlotLayout, key: PublicKey
) -> Iterator[tuple[object, tuple[int, ...]]]:
    """One tuple of sums for a partition; the more of its rows are multiplied at once, the better."""
    total, last = None, None
    for last, matrix, encrypted in _row_groups(pairs, front):
        sums = cross_product.multiply_shares(matrix, encrypted, columns, layout, key)
        total = sums if total is None else cross_product.merge_sums(total, sums, key)
    if total is not None:
        yield last, total


def _row_groups(pairs: Iterable, front: bool) -> Iterator[tuple[object, np.ndarray, bytes]]:
    """(a key, half rows of some blocks, the other party's encryptions of the same rows), some `_ROWS_AT_ONCE` each."""
    halves: list[np.ndarray] = []
    encrypted: list[bytes] = []
    rows = 0
    for key, (block, data) in pairs:
        halves.append(half_of(block, front))
        encrypted.append(data)
        rows += len(halves[-1])
        if rows >= _ROWS_AT_ONCE:
            yield key, np.concatenate(halves), b"".join(encrypted)
            halves, encrypted, rows = [], [], 0
    if rows:
        yield key, np.concatenate(halves), b"".join(encrypted)


class JoinedTraining(SharedSteps):
    """One party's shares of one training; both parties call the same methods in the same order.

    All rows are one batch. To `SharedSteps`, all joint columns are the guest's and none is the host's: this gives
    nobody more than the other, since weights start from zero and are opened by `reveal` alone.
    """

    def __init__(self, ctx: Context, blocks: Table, terms: TrainingTerms, losses: CountedLosses | None = None) -> None:
        """``blocks`` are this party's shares of [features, membership, label]; ``terms.features`` is (joint weights, 0)."""
        columns = JointColumns.of(ctx, terms.features)
        rates = terms.learning_rates()
        consent = shared_descent.LossConsent(ctx.sub_ctx("losses"), columns, terms.losses_opened(rates), losses)
        exchange = partial(shared_descent.exchange_keys, ctx.sub_ctx("keys"), columns, terms.descent.key_length)
        keys = Together(ctx)("keys sent", exchange)
        consent.answer()
        side = Side.of(ctx.sub_ctx("statistics"), keys, columns)
        share = quadratic_share(side, blocks, terms)
        start = shared_descent.Start([np.zeros(columns.counts[columns.own])], rates)
        super().__init__(columns, keys, [share], terms, start, consent.agreed())

    @property
    def descent(self) -> Descent:
        return self._terms.descent

    def weight_share(self) -> list[int]:
        (descent,) = self._descents
        return descent.share_of(slice(0, self._columns.total))

    def _settled(self, ctx: Context, stage: str, work: Callable) -> Any:
        return Together(ctx)(stage, work)


def quadratic_share(side: Side, blocks: Table, terms: TrainingTerms) -> QuadraticShare:
    """This party's share of the loss; refuses, at both parties, labels that the family does not have."""
    weights, family = terms.features[0], terms.descent.family
    features = weights - int(terms.descent.fit_intercept)
    sums = gram_share(side, blocks, terms.rows, features + 2)
    if family == "binomial":
        _check_labels(side, sums)
    matrix, linear = quadratic_sums(sums, weights, family)
    return QuadraticShare.scaled(matrix, linear, terms.rows, terms.curvature)


def quadratic_sums(sums: np.ndarray, weights: int, family: str) -> tuple[np.ndarray, np.ndarray]:
    """X^T X and X^T t from M^T M, M = [features, membership, label], or this party's share of them; all are linear.

    The membership stands in the place of an intercept's ones, so that rows that stand for no record vanish. With family
    binomial the target is label - membership / 2, which is +-1/2 for a record.

    ``sums`` are object (c + 2, c + 2), even integers; ``weights`` are c, or c + 1 with an intercept.
    """
    label, membership = sums[:weights, -1], sums[:weights, -2]
    linear = label - membership // 2 if family == "binomial" else label
    return sums[:weights, :weights], linear


def _check_labels(side: Side, sums: np.ndarray) -> None:
    """Refuse, at both parties, labels that are not 0 and 1: then the sum of y^2 - y is above 0 for whole numbers y.

    The host opens that sum, not the guest, who could read it as the weight of labels that it made up. Of labels 0 and 1,
    and of rows that stand for no record, it is 0 and says nothing. Labels that are no whole numbers can make it 0, too.
    """
    excess = int(sums[-1, -1] - sums[-1, -2])
    if side.guest:
        side.party.put("label_excess", excess)

    def check() -> None:
        if not side.guest and excess + int(side.party.get("label_excess")) != 0:
            raise Refusal("A label is neither 0 nor 1; share_lr with family binomial trains on labels 0 and 1.")

    side.together("labels", check)


@dataclass
class Progress:
    """How far training came; ``losses`` at the guest only, where they are shown."""

    epochs_run: int = 0
    converged: bool = False
    losses: list[float] = field(default_factory=list)

    def ends(self, decisions: list[Decision]) -> bool:
        """Take the guest's decisions in; returns whether training ends with the last of them."""
        for decision in decisions:
            self.epochs_run, self.converged = decision.epoch + 1, decision.state == CONVERGED
        return any(decision.ends for decision in decisions)


class StoppingRule:
    """The guest's decision on an epoch, of which it alone sees the loss."""

    def __init__(self, training: JoinedTraining, progress: Progress) -> None:
        self._training, self._descent, self._progress = training, training.descent, progress
        self._convergence = Convergence(self._descent.early_stop, self._descent.tol)

    def __call__(self, steps: CheckedSteps, varying: list[float]) -> str:
        (mean,), family, epochs = varying, self._descent.family, self._descent.epochs
        if not self._training.passes(mean + _LARGEST[family]):
            return DIVERGED
        if not self._training.shows_losses:
            return self._convergence.state(steps.epoch, epochs, None, None)
        loss = mean + _SHOWN[family]
        steps.ctx.metrics.log_loss("loss", loss)
        logger.info("epoch %d of at most %d: loss %.6f", steps.epoch + 1, epochs, loss)
        self._progress.losses.append(loss)
        return self._convergence.state(steps.epoch, epochs, loss, None)


def run_epochs(ctx: Context, training: JoinedTraining) -> Progress:
    progress = Progress()
    judge = StoppingRule(training, progress) if ctx.local.role == "guest" else None
    for epoch, epoch_ctx in ctx.on_iterations.ctxs_range(training.descent.epochs):
        if progress.ends(training.run_epoch(epoch_ctx, epoch, judge)):
            break
    return progress
