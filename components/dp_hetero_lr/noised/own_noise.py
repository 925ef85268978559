"""One party's part in a training with noise: what it promises its own records, what it draws, and what it charges."""
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

import numpy as np

from fate_dp.components.common.charges import Charges
from fate_dp.components.common.parties import data_parties, others
from fate_dp.privacy.adaptive_scales import AdaptiveBudget, adaptive_scales, release_contributions
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.mechanisms.bounded_rows import RowBounds, typical_radius, unit_scales
from fate_dp.privacy.mechanisms.second_moments import MomentNoise, noise_multiplier_for

from ..settings import TrainSettings
from .joint_noise import BOUNDS, FIRST_FIT, TARGET, TRAINING, fit_of, fits_of, moments_of
from .rows import contributions
from .rules import ADAPTIVE, is_noised

PURPOSE = "dp_hetero_lr"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."
CONTRIBUTIONS = "contributions"


@dataclass
class OwnNoise:
    """Of a party that may add noise or none; without a noise_epsilon its rows are clipped, and nothing is promised.

    Attributes:
        kind: uniform or adaptive.
        epsilon, delta: the party's own; epsilon None for no noise.
        bounds: of the party's rows, public.
        position: among the data parties, the guest first.
        observers: roles of all who learn what is computed from the noisy moments.
        records: number of records, public.
        charges: the party's ledger.
        drawn: for every fit the noise, secret; filled by `charge`.
    """

    kind: str
    epsilon: Optional[float]
    delta: float
    bounds: RowBounds
    position: int
    observers: Tuple[str, ...]
    records: int
    charges: Charges
    drawn: Dict[str, MomentNoise] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, ctx, settings: TrainSettings, frame, *, intercept=False, has_target=False) -> Optional["OwnNoise"]:
        """None with noise none.

        Raises:
            ValueError: the party's cap does not allow its noise; nothing is written.
        """
        if not is_noised(settings):
            return None
        features = len(frame.schema.columns)
        radius = settings.noise_radius or typical_radius(features)
        own = cls(
            settings.noise, settings.noise_epsilon, settings.noise_delta,
            RowBounds(features, radius, intercept, TARGET if has_target else 0.0),
            data_parties(ctx).index(tuple(ctx.federation.local_party)),
            tuple(sorted({party.role for party in others(ctx)} | {"model"})), frame.shape[0],
            Charges(ctx, frame, REFUSAL),
        )  # fmt: skip
        if own.epsilon is not None:
            own.charges.check([(event, 1) for _, event in own.planned_events()])
        return own

    @property
    def facts(self) -> dict:
        """What all parties must know, in builtins."""
        bounds = {name: getattr(self.bounds, name) for name in BOUNDS}
        return {"kind": self.kind, **bounds, "multipliers": self._multipliers()}

    def planned_events(self) -> List[Tuple[str, Event]]:
        """(purpose, event) of everything that will be charged; the slack of the Gaussian ones is known later."""
        gaussian = [
            (f"{PURPOSE}: {fit}", Event(Gaussian(multiplier), "record", REPLACE_ONE, self.observers))
            for fit, multiplier in self._multipliers().items()
        ]
        return gaussian + self._contribution_events()

    def charge(self, noise: dict) -> None:
        """Draw the noise of every fit and charge all of it before any is used.

        Args:
            noise: the terms that all parties agreed on.
        """
        for fit in fits_of(noise):
            self.drawn[fit] = moments_of(fit_of(noise, fit)).draw(self.position, self.observers)
        if self.epsilon is not None:
            drawn = [(f"{PURPOSE}: {fit}", noise_of_fit.event) for fit, noise_of_fit in self.drawn.items()]
            for purpose, event in drawn + self._contribution_events():
                self.charges.record([(event, 1)], purpose)

    def scales(self, rows, first_weights: np.ndarray) -> np.ndarray:
        """Scales of the party's features from its weights of the first fit; ones where nothing is promised."""
        if self.epsilon is None:
            return unit_scales(self.bounds)
        sums = contributions(rows, first_weights, self.bounds.features)
        return adaptive_scales(self._released(sums).value)

    def promise(self) -> dict:
        """For the model's metadata: what noise it was trained with and what that promises this party's records."""
        return {
            "kind": self.kind,
            "epsilon": "infinity" if self.epsilon is None else self.epsilon,
            "delta": 0.0 if self.epsilon is None else self.delta,
            "radius": self.bounds.radius,
            "unit": "record",
            "relation": REPLACE_ONE,
            "observers": list(self.observers),
        }

    def _multipliers(self) -> Dict[str, float]:
        fits = (FIRST_FIT, TRAINING) if self.kind == ADAPTIVE else (TRAINING,)
        if self.epsilon is None:
            return dict.fromkeys(fits, 0.0)
        if self.kind == ADAPTIVE:
            return {FIRST_FIT: self._budget.first_fit_multiplier, TRAINING: self._budget.training_multiplier}
        return {TRAINING: noise_multiplier_for(self.epsilon, self.delta)}

    @property
    def _budget(self) -> AdaptiveBudget:
        return AdaptiveBudget(self.epsilon, self.delta)

    def _released(self, sums):
        epsilon = self._budget.contribution_epsilon
        return release_contributions(sums, self.records, epsilon, observers=self.observers)

    def _contribution_events(self) -> List[Tuple[str, Event]]:
        """The event does not depend on the sums, so that of zeros is charged before there are any."""
        if self.kind != ADAPTIVE:
            return []
        return [(f"{PURPOSE}: {CONTRIBUTIONS}", self._released(np.zeros(self.bounds.features, dtype=np.int64)).event)]
