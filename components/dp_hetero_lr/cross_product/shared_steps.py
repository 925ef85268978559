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
    """One data party's shares of one descent, or of one for each of several models that step together.

    Every data party calls the same methods in the same order. Where a message speaks of several models, what it says of
    them stands one behind the other. Every model of every batch has masks and prepared steps of its own.
    """

    def __init__(
        self, columns: JointColumns, keys: Keys, shares: List[QuadraticShare], settings: TrainSettings, terms: dict,
        rule: UpdateRule, weights: Sequence[np.ndarray], key: bytes, states: Optional[Sequence[Optional[dict]]] = None,
    ):  # fmt: skip
        """
        Args:
            shares: this party's, of every batch, there of every model.
            rule: of the updates.
            weights: of this party's columns, where every model starts.
            key: this party's secret, with which it rounds losses.
            states: of every model, see `SharedDescent`.
        """
        self._columns, self._keys, self._shares, self._epochs = columns, keys, shares, settings.epochs
        self._layout, self._bounds = step_layout(settings, terms, keys.public), quadratic_bounds(settings, terms)
        self._descents = [
            SharedDescent(start, columns.own_slice, self._layout, rule, penalties(settings, terms), columns.own == 0, state)
            for start, state in zip(weights, states or [None] * len(weights), strict=True)
        ]
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
        hidden = [factors for descent in self._descents for factors in descent.hidden_losses()]
        return self._swapped(ctx, "hidden_losses", hidden)

    def loss_shares(self, hidden_of_others, batches: Sequence[int], epoch: int) -> List[int]:
        """At a host: its share of the losses of the last `run_steps`, for every model added up and rounded, for the guest.

        Rounding is a keyed function of the training's public terms: whoever repeats it gets the same number, and a
        training that is repeated ends at the same epoch.
        """
        rows = self._rows_of(batches)
        return [
            descent.loss_share(hidden, rows, self._rounding(epoch, batches[0], model))
            for model, (descent, hidden) in enumerate(zip(self._descents, self._of_each_model(hidden_of_others)))
        ]

    def losses(self, hidden_of_others, shares_of_others: Sequence[Sequence[int]], batches: Sequence[int]) -> List[float]:
        """At the guest: every model's mean loss over the rows of the last `run_steps` without its constant, penalty included.

        Args:
            shares_of_others: what every host made with `loss_shares`.
        """
        rows, hidden = self._rows_of(batches), self._of_each_model(hidden_of_others)
        means = [
            descent.loss(of_model, [share for (share,) in of_hosts], rows)
            for descent, of_model, of_hosts in zip(self._descents, hidden, self._of_each_model(shares_of_others))
        ]
        return [mean - len(shares_of_others) * LOSS_STEP / 2 for mean in means]

    def _rounding(self, epoch: int, batch: int, model: int) -> float:
        what = f"loss of epoch {epoch} from batch {batch} of model {model}"
        return int.from_bytes(hmac.digest(self._rounding_key, what.encode(), "sha256")[:6], "big") / 2.0**48

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
        models = len(self._descents)
        of_batch = slice(batch * models, (batch + 1) * models)
        steps = [prepared.take() for prepared in self._prepared[of_batch]]
        own = [number for descent, step in zip(self._descents, steps) for number in descent.hidden_weights(step)]
        hidden, heads = self._of_each_model(self._swapped(ctx, "hidden_weights", own)), []
        for descent, share, step, of_model in zip(self._descents, self._shares[of_batch], steps, hidden):
            heads.extend(descent.receive(share, step, of_model))
        heads_of_others = []
        if heads and self._columns.own == 0:
            heads_of_others = [party.get("leading_bits") for party in self._columns.peers(ctx).values()]
        elif heads:
            self._columns.peers(ctx)[0].put("leading_bits", heads)
        for descent, of_model in zip(self._descents, self._of_each_model(heads_of_others)):
            descent.move(epoch, of_model)

    def _of_each_model(self, messages: Sequence[Sequence]) -> List[List[Sequence]]:
        """For every model, the part of every message that speaks of it."""
        models = len(self._descents)
        if any(len(message) % models for message in messages):
            raise ValueError(f"A message does not say the same of each of {models} models, as all parties' must.")
        sizes = [len(message) // models for message in messages]
        return [[message[at * size : (at + 1) * size] for message, size in zip(messages, sizes)] for at in range(models)]

    def _swapped(self, ctx, name: str, message: list) -> list:
        peers = self._columns.peers(ctx).values()
        for party in peers:
            party.put(name, message)
        return [party.get(name) for party in peers]
