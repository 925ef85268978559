"""Training on shares of the statistics of rows, over FATE's network: what every data party does alike."""
from typing import List, Optional

import numpy as np

from fate_dp.components.common.party_home import home_of
from fate_dp.crypto.shared_quadratic import QuadraticShare
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ..model import PartyModel
from ..noised.noisy_sums import with_noise
from .joint_columns import JointColumns
from .keys import exchange_keys
from .public_sizes import CURVATURE, steps_between_checks, update_rule
from .shared_steps import SharedSteps
from .statistics import Statistics


class SharedTraining(SharedSteps):
    """One data party's shares of one training, of one model or of several on the same statistics.

    Every data party calls the same methods in the same order.

    The first use of the network computes the statistics of all batches; the epochs afterwards read no row. Noise is
    added to them here, so that nothing else ever sees them without it.
    """

    def __init__(
        self, ctx, rows, model: PartyModel, terms: dict, columns: JointColumns, noise: Optional[MomentNoise] = None
    ):
        if bool(terms["noise"]) != (noise is not None):
            raise ValueError("A training is agreed on with noise and started without, or the other way round.")
        settings = model.settings
        self._batches = [tuple(bounds) for bounds in terms["batches"]]
        self._divisor, self._noise = CURVATURE[settings.family], noise
        keys = exchange_keys(ctx.sub_ctx("keys"), columns, settings.he_param["key_length"])
        model.keys_fingerprint = keys.fingerprint
        self._statistics = Statistics(rows, columns, keys, settings, terms)
        self._sums = self._statistics.gather(ctx.sub_ctx("statistics"))
        if noise is not None:
            self._sums = [with_noise(sums, noise, columns) for sums in self._sums]
        rule = update_rule(terms, model.learning_rates())
        self._steps_at_once = steps_between_checks(settings, terms, rule)
        self._identity = {"run": terms["run"], "parties": [list(name) for name in columns.names]}
        super().__init__(columns, keys, self._scaled(), settings, terms, rule, model.columns, home_of(ctx).key,
                         model.shared_states)  # fmt: skip

    def groups(self) -> List[List[int]]:
        """The batches of an epoch in groups: so many steps may run before the guest looks at their losses."""
        numbers, size = list(range(len(self._batches))), self._steps_at_once
        return [numbers[first : first + size] for first in range(0, len(numbers), size)]

    def own_weights(self, ctx) -> List[np.ndarray]:
        """float64: this party's own weights of every model, opened to it alone."""
        peers = self._columns.peers(ctx)
        for position, party in peers.items():
            theirs = self._columns.slice_of(position)
            party.put("weight_shares", [share for descent in self._descents for share in descent.share_of(theirs)])
        received = self._of_each_model([party.get("weight_shares") for party in peers.values()])
        return [descent.own_weights(shares) for descent, shares in zip(self._descents, received)]

    def take_targets(self, ctx, rows=None) -> None:
        """Go on with other targets; ``rows`` are the guest's with them, None at hosts."""
        self._sums = self._statistics.next_target(ctx, self._sums, rows)
        self._shares = self._scaled()

    def finish(self, ctx, model: PartyModel) -> None:
        """Open every party's own weights to it; the model also keeps what a warm start needs."""
        model.columns = self.own_weights(ctx)
        model.shared_states = [{**self._identity, **descent.state()} for descent in self._descents]

    def _rows(self, at: int) -> int:
        return self._batches[at][1] - self._batches[at][0]

    def _scaled(self) -> List[QuadraticShare]:
        """Of every batch, there of every model: these differ in b alone."""
        divisor, curvature = 1, self._divisor
        if self._noise is not None:
            # The target is c (y - 1/2): b is divided by c, too.
            divisor, curvature = self._divisor, 1
        of_batches = [
            QuadraticShare.scaled(sums.matrix, sums.linear, self._rows(at) * divisor, curvature)
            for at, sums in enumerate(self._sums)
        ]
        return [QuadraticShare(share.matrix, linear) for share in of_batches for linear in share.linear.T]
