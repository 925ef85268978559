"""Training on shares of the rows: what both parties do alike, around dp_hetero_lr's steps on shares."""
from functools import partial
from typing import Callable, List, Tuple

import numpy as np

from fate_dp.components.common.party_home import home_of
from fate_dp.components.common.together import Together
from fate_dp.components.dp_hetero_lr.cross_product.joint_columns import JointColumns
from fate_dp.components.dp_hetero_lr.cross_product.keys import exchange_keys
from fate_dp.components.dp_hetero_lr.cross_product.public_sizes import CURVATURE, update_rule
from fate_dp.components.dp_hetero_lr.cross_product.shared_steps import SharedSteps
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.dp_hetero_lr.updates import PartyOptimizer
from fate_dp.crypto.shared_quadratic import QuadraticShare

from .gram import gram_share
from .side import Side

ONLY_BATCH = 0


class JoinedTraining(SharedSteps):
    """One party's shares of one training; both parties call the same methods in the same order.

    All rows are one batch. To `SharedSteps`, all joint columns are the guest's and none is the host's: this gives
    nobody more than the other, since weights start from zero and are opened by `reveal` alone.
    """

    def __init__(self, ctx, blocks, settings: TrainSettings, terms: dict):
        """
        Args:
            blocks: table of this party's shares of [features, membership, label], see `gram`.
            terms: of dp_hetero_lr, with ``features`` [joint weights, 0].
        """
        columns = JointColumns.of(ctx, terms)
        exchange = partial(exchange_keys, ctx.sub_ctx("keys"), columns, settings.he_param["key_length"])
        keys = Together(ctx)("keys sent", exchange)
        side = Side.of(ctx.sub_ctx("statistics"), keys, columns)
        share, rule = quadratic_share(side, blocks, settings, terms), update_rule(terms, learning_rates(settings, terms))
        super().__init__(columns, keys, [share], settings, terms, rule, [np.zeros(columns.counts[columns.own])],
                         home_of(ctx).key)  # fmt: skip

    def step(self, ctx, epoch: int) -> List[List[List[int]]]:
        """One epoch; returns what the other party said about its loss."""
        self.prepare(ctx.sub_ctx("prepare"), epoch)
        return self.run_steps(ctx, [ONLY_BATCH], epoch)

    def weight_share(self) -> List[int]:
        """This party's share of all joint weights, unit 2^-40."""
        (descent,) = self._descents
        return descent.share_of(slice(0, self._columns.total))

    def _settled(self, ctx, stage: str, work: Callable):
        return Together(ctx)(stage, work)


def quadratic_share(side: Side, blocks, settings: TrainSettings, terms: dict) -> QuadraticShare:
    """This party's share of the loss; refuses, at both parties, labels that the family does not have."""
    (weights, _), rows = terms["features"], terms["rows"]
    features = weights - int(settings.init_param["fit_intercept"])
    sums = gram_share(side, blocks, rows, features + 2)
    if settings.family == "binomial":
        _check_labels(side, sums)
    matrix, linear = quadratic_sums(sums, weights, settings.family)
    return QuadraticShare.scaled(matrix, linear, rows, CURVATURE[settings.family])


def quadratic_sums(sums: np.ndarray, weights: int, family: str) -> Tuple[np.ndarray, np.ndarray]:
    """X^T X and X^T t from M^T M, M = [features, membership, label], or this party's share of them; all are linear.

    The membership stands in the place of an intercept's ones, so that rows that stand for no record vanish. With family
    binomial the target is label - membership / 2, which is +-1/2 for a record.

    Args:
        sums: object (c + 2, c + 2), even integers.
        weights: c, or c + 1 with an intercept.
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

    def check():
        if not side.guest and excess + int(side.party.get("label_excess")) != 0:
            raise ValueError("A label is neither 0 nor 1; share_lr with family binomial trains on labels 0 and 1.")

    side.together("labels", check)


def learning_rates(settings: TrainSettings, terms: dict) -> List[float]:
    """The step size of every epoch."""
    return PartyOptimizer([0.0], terms["optimizer"], settings.learning_rate_scheduler).learning_rates(settings.epochs)
