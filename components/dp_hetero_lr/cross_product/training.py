"""Training on shares over FATE's network: what every data party does alike, around `fate_dp.crypto.shared_descent`."""
from typing import List, Optional, Sequence

import numpy as np

from fate_dp.crypto.descent_bounds import passes
from fate_dp.crypto.shared_descent import SharedDescent
from fate_dp.crypto.shared_quadratic import QuadraticShare
from fate_dp.crypto.step_preparation import PreparedSteps, draw_masks, encrypt_masks, multiply_masks, open_answer
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ..model import PartyModel
from ..noised.noisy_sums import with_noise
from .joint_columns import JointColumns
from .keys import exchange_keys
from .public_sizes import CURVATURE, penalties, quadratic_bounds, step_layout, steps_between_checks, update_rule
from .statistics import Statistics, SumShares


class SharedTraining:
    """One data party's shares of one training; every data party calls the same methods in the same order.

    The first use of the network computes the statistics of all batches; the epochs afterwards read no row. Noise is
    added to them here, so that nothing else ever sees them without it.
    """

    def __init__(
        self, ctx, rows, model: PartyModel, terms: dict, columns: JointColumns, noise: Optional[MomentNoise] = None
    ):
        if bool(terms["noise"]) != (noise is not None):
            raise ValueError("A training is agreed on with noise and started without, or the other way round.")
        settings = model.settings
        self._columns, self._batches = columns, [tuple(bounds) for bounds in terms["batches"]]
        self._epochs, self._divisor, self._noise = settings.epochs, CURVATURE[settings.family], noise
        self._keys = exchange_keys(ctx.sub_ctx("keys"), columns, settings.he_param["key_length"])
        self._statistics = Statistics(rows, columns, self._keys, terms)
        self._sums = self._statistics.gather(ctx.sub_ctx("statistics"))
        if noise is not None:
            self._sums = [with_noise(sums, noise, columns) for sums in self._sums]
        self._shares = [self._scaled(at, sums) for at, sums in enumerate(self._sums)]
        rule = update_rule(terms, model.learning_rates())
        self._layout = step_layout(settings, terms, self._keys.public)
        self._bounds = quadratic_bounds(settings, terms)
        self._steps_at_once = steps_between_checks(settings, terms, rule)
        self._descent = SharedDescent(
            model.weights, columns.own_slice, self._layout, rule, penalties(settings, terms), columns.own == 0,
            model.shared_state,
        )  # fmt: skip
        self._identity = {"run": terms["run"], "parties": [list(name) for name in columns.names]}
        self._prepared: List[PreparedSteps] = [None] * len(self._batches)

    def groups(self) -> List[List[int]]:
        """The batches of an epoch in groups: so many steps may run before the guest looks at their losses."""
        numbers, size = list(range(len(self._batches))), self._steps_at_once
        return [numbers[first : first + size] for first in range(0, len(numbers), size)]

    def prepare(self, ctx, epoch: int) -> None:
        """Make masks and their products for as many epochs as fit into the messages, if none are left."""
        if self._prepared[0] is not None and self._prepared[0].left:
            return
        layout, peers = self._layout.at_most(self._epochs - epoch), self._columns.peers(ctx)
        masks = [draw_masks(layout) for _ in self._batches]
        encryption, expected = self._keys.private.encryption(), 2 * self._columns.total * len(self._batches)
        for party in peers.values():
            party.put("masks", [encrypt_masks(of_batch, layout, encryption, expected) for of_batch in masks])
        exchanged = [[] for _ in self._batches]
        for position, party in peers.items():
            answers = []
            for at, received in enumerate(party.get("masks")):
                answer, own = multiply_masks(self._shares[at], masks[at], received, layout, self._keys.peers[position])
                answers.append(answer)
                exchanged[at].append(own)
            party.put("products", answers)
        for party in peers.values():
            for at, answer in enumerate(party.get("products")):
                exchanged[at].append(open_answer(answer, layout, self._keys.private))
        self._prepared = [
            PreparedSteps(share, of_batch, of_all, layout) for share, of_batch, of_all in zip(self._shares, masks, exchanged)
        ]

    def run_steps(self, ctx, batches: Sequence[int], epoch: int) -> List[List[List[int]]]:
        """One step for each of the batches; returns what the others said about their losses."""
        for step_ctx, batch in ctx.sub_ctx("steps").ctxs_zip(batches):
            self._step(step_ctx, batch, epoch)
        return self._swapped(ctx, "hidden_losses", self._descent.hidden_losses())

    def loss_shares(self, hidden_of_others) -> List[int]:
        """At a host: its shares of the losses of the last `run_steps`, for the guest."""
        return self._descent.loss_shares(hidden_of_others)

    def losses(self, hidden_of_others, shares_of_others) -> List[float]:
        """At the guest: the losses of the last `run_steps` without their constants, penalty included."""
        return self._descent.losses(hidden_of_others, shares_of_others)

    def passes(self, loss: float) -> bool:
        """Whether a loss of `losses`, its constant added, is one that a training within its bounds can have."""
        return passes(loss, self._bounds)

    def own_weights(self, ctx) -> np.ndarray:
        """float64: this party's own weights, opened to it alone."""
        peers = self._columns.peers(ctx)
        for position, party in peers.items():
            party.put("weight_shares", self._descent.share_of(self._columns.slice_of(position)))
        return self._descent.own_weights([party.get("weight_shares") for party in peers.values()])

    def take_target(self, ctx, rows=None) -> None:
        """Go on with another target; ``rows`` are the guest's with it, None at hosts."""
        self._sums = self._statistics.next_target(ctx, self._sums, rows)
        self._shares = [self._scaled(at, sums) for at, sums in enumerate(self._sums)]

    def finish(self, ctx, model: PartyModel) -> None:
        """Open every party's own weights to it; the model also keeps what a warm start needs."""
        model.weights = self.own_weights(ctx)
        model.shared_state = {**self._identity, **self._descent.state()}

    def _step(self, ctx, batch: int, epoch: int) -> None:
        step = self._prepared[batch].take()
        hidden = self._swapped(ctx, "hidden_weights", self._descent.hidden_weights(step))
        heads = self._descent.receive(self._shares[batch], step, hidden)
        heads_of_others = ()
        if heads and self._columns.own == 0:
            heads_of_others = [party.get("leading_bits") for party in self._columns.peers(ctx).values()]
        elif heads:
            self._columns.peers(ctx)[0].put("leading_bits", heads)
        self._descent.move(epoch, heads_of_others)

    def _swapped(self, ctx, name: str, message: list) -> list:
        peers = self._columns.peers(ctx).values()
        for party in peers:
            party.put(name, message)
        return [party.get(name) for party in peers]

    def _rows(self, at: int) -> int:
        return self._batches[at][1] - self._batches[at][0]

    def _scaled(self, at: int, sums: SumShares) -> QuadraticShare:
        if self._noise is not None:
            # The target is c (y - 1/2): b is divided by c, too.
            return QuadraticShare.scaled(sums.matrix, sums.linear, self._rows(at) * self._divisor, 1)
        return QuadraticShare.scaled(sums.matrix, sums.linear, self._rows(at), self._divisor)
