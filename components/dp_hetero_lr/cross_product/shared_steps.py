"""Steps on shares over FATE's network: what every data party does alike, around `fate_dp.crypto.shared_descent`."""
import hmac
import json
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np

from fate_dp.crypto.descent_bounds import passes
from fate_dp.crypto.shared_descent import SharedDescent
from fate_dp.crypto.shared_losses import LOSS_STEP
from fate_dp.crypto.shared_quadratic import QuadraticShare
from fate_dp.crypto.step_preparation import PreparedSteps, draw_masks, encrypt_masks, multiply_masks, open_answer
from fate_dp.crypto.update_rule import UpdateRule

from ..settings import TrainSettings
from .joint_columns import JointColumns
from .keys import Keys
from .public_sizes import penalties, quadratic_bounds, step_layout


class SharedSteps:
    """One data party's shares of one descent; every data party calls the same methods in the same order."""

    def __init__(
        self, columns: JointColumns, keys: Keys, shares: List[QuadraticShare], settings: TrainSettings, terms: dict,
        rule: UpdateRule, weights: np.ndarray, key: bytes, state: Optional[dict] = None,
    ):  # fmt: skip
        """
        Args:
            shares: this party's, of every batch.
            rule: of the updates.
            weights: of this party's columns, where they start.
            key: this party's secret, with which it rounds losses.
            state: see `SharedDescent`.
        """
        self._columns, self._keys, self._shares, self._epochs = columns, keys, shares, settings.epochs
        self._layout, self._bounds = step_layout(settings, terms, keys.public), quadratic_bounds(settings, terms)
        self._descent = SharedDescent(
            weights, columns.own_slice, self._layout, rule, penalties(settings, terms), columns.own == 0, state
        )
        self._batch_rows = [last - first for first, last in terms["batches"]]
        public = json.dumps({name: value for name, value in terms.items() if name != "run"}, sort_keys=True)
        self._rounding_key = hmac.digest(key, f"rounding of losses {public}".encode(), "sha256")
        self._prepared: List[PreparedSteps] = [None] * len(shares)

    def prepare(self, ctx, epoch: int) -> None:
        """Make masks and their products for as many epochs as fit into the messages, if none are left."""
        if self._prepared[0] is not None and self._prepared[0].left:
            return
        layout, peers = self._layout.at_most(self._epochs - epoch), self._columns.peers(ctx)
        masks = [draw_masks(layout) for _ in self._shares]
        encryption, expected = self._keys.private.encryption(), 2 * self._columns.total * len(self._shares)
        for party in peers.values():
            party.put("masks", [encrypt_masks(of_batch, layout, encryption, expected) for of_batch in masks])
        multiplied = self._settled(ctx, "masks", lambda: self._multiplied(peers, masks, layout))
        for position, party in peers.items():
            party.put("products", [answer for answer, _ in multiplied[position]])
        opened = self._settled(ctx, "products", lambda: self._opened(peers, layout))
        exchanged = zip(*([own for _, own in answers] for answers in multiplied.values()), *opened)
        self._prepared = [
            PreparedSteps(share, of_batch, list(of_all), layout)
            for share, of_batch, of_all in zip(self._shares, masks, exchanged)
        ]

    def run_steps(self, ctx, batches: Sequence[int], epoch: int) -> List[List[List[int]]]:
        """One step for each of the batches; returns what the others said about their losses."""
        for step_ctx, batch in ctx.sub_ctx("steps").ctxs_zip(batches):
            self._step(step_ctx, batch, epoch)
        return self._swapped(ctx, "hidden_losses", self._descent.hidden_losses())

    def loss_share(self, hidden_of_others, batches: Sequence[int], epoch: int) -> int:
        """At a host: its share of the losses of the last `run_steps`, added up and rounded, for the guest.

        Rounding is a keyed function of the training's public terms: whoever repeats it gets the same number, and a
        training that is repeated ends at the same epoch.
        """
        drawn = hmac.digest(self._rounding_key, f"loss of epoch {epoch} from batch {batches[0]}".encode(), "sha256")
        rounding = int.from_bytes(drawn[:6], "big") / 2.0**48
        return self._descent.loss_share(hidden_of_others, self._rows_of(batches), rounding)

    def loss(self, hidden_of_others, shares_of_others: Sequence[int], batches: Sequence[int]) -> float:
        """At the guest: the mean loss over the rows of the last `run_steps` without its constant, penalty included."""
        mean = self._descent.loss(hidden_of_others, shares_of_others, self._rows_of(batches))
        return mean - len(shares_of_others) * LOSS_STEP / 2

    def _rows_of(self, batches: Sequence[int]) -> List[int]:
        return [self._batch_rows[batch] for batch in batches]

    def passes(self, loss: float) -> bool:
        """Whether a loss of `losses`, its constant added, is one that a training within its bounds can have."""
        return passes(loss, self._bounds)

    def _settled(self, ctx, stage: str, work: Callable):
        """What ``work()`` does with messages of the others. A sub-class may have all parties wait for its success."""
        return work()

    def _multiplied(self, peers, masks, layout) -> Dict[int, list]:
        """{position: [(answer for that party, this party's share of the product) of every batch]}."""
        return {
            position: [
                multiply_masks(self._shares[at], masks[at], received, layout, self._keys.peers[position])
                for at, received in enumerate(party.get("masks"))
            ]
            for position, party in peers.items()
        }

    def _opened(self, peers, layout) -> List[list]:
        """For every other party, this party's share of the product of every batch."""
        return [
            [open_answer(answer, layout, self._keys.private) for answer in party.get("products")]
            for party in peers.values()
        ]

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
