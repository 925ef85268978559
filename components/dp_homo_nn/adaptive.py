"""``noise_spread: adaptive``: after some rounds the contributions of the first layer's inputs are released, and scale the noise.

The model that is explained is the server's after those rounds, hence private already; a model that starts at zero has
nothing to explain before. The release has a part of epsilon of its own, the rounds what it leaves of the total. Where too
few parties are ready for that step, training goes on with uniform noise, and nothing of the step is charged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.adaptive_scales import contributions_event, release_contributions
from fate_dp.privacy.events import Event, PureDP, clips_moved

from ..common.preflight import Refusal
from ..common.vocabulary import ADAPTIVE
from ..protocols.noisy_rounds.account import OBSERVERS, round_event
from ..protocols.noisy_rounds.contribution import InvalidMessage
from ..protocols.noisy_rounds.terms import RECORD, SECURE_SUM, SHUFFLE, RoundTerms
from .relevance import ContributionSum, noise_beside
from .settings import TrainSettings


@dataclass(frozen=True)
class ContributionStep:
    """Public configuration of the one release of contributions, (epsilon, delta) on its own, before a round (from 0)."""

    terms: RoundTerms
    relation: str
    epsilon: float
    delta: float
    groups: int
    before_round: int

    @cached_property
    def event(self) -> Event:
        """What it costs each record, once, under the relation that the job states."""
        return self.event_under(self.relation)

    def event_under(self, relation: str) -> Event:
        """The same noise, charged under either relation."""
        if self.terms.aggregation == SECURE_SUM:
            return self._sum.event(relation, OBSERVERS)
        stated = contributions_event(self.groups, self.epsilon, observers=OBSERVERS, relation=self.relation)
        epsilon = self.epsilon * clips_moved(relation) / clips_moved(self.relation)
        return replace(stated, process=PureDP(epsilon), relation=relation)

    def share(self, sums: np.ndarray) -> np.ndarray:
        """What a party sends: (G,), in ``secure_sum`` int64 steps for masks only, in ``local`` its noisy float64 part."""
        if self.terms.aggregation == SECURE_SUM:
            return np.asarray(self._sum.share(sums, self.relation, OBSERVERS).value)
        # Every party pays on its own records; dividing by those of all parties is post-processing.
        records, relation = self.terms.records, self.relation
        return np.asarray(
            release_contributions(sums, records, self.epsilon, observers=OBSERVERS, relation=relation).value
        )

    def mean(self, messages: list[bytes]) -> np.ndarray:
        """The released mean contributions, float64 (G,), from all parties' messages."""
        kind = np.dtype("<u8" if self.terms.aggregation == SECURE_SUM else "<f8")
        if any(len(message) != self.groups * kind.itemsize for message in messages):
            raise InvalidMessage(f"A message about contributions must have {self.groups * kind.itemsize} bytes.")
        vectors = [np.frombuffer(message, dtype=kind) for message in messages]
        total = np.sum(vectors, axis=0, dtype=kind.newbyteorder("="))
        return self._sum.mean(total.view(np.int64)) if self.terms.aggregation == SECURE_SUM else total

    @property
    def _sum(self) -> ContributionSum:
        terms, multiplier = self.terms, gaussian_sigma(self.epsilon, self.delta, clips_moved(self.relation))
        return ContributionSum(self.groups, terms.records, terms.clients, terms.max_dropouts, multiplier)


def contribution_step(settings: TrainSettings, terms: RoundTerms, groups: int | None) -> ContributionStep | None:
    """The step of an adaptive training, None with uniform noise; refuses settings that have no account with it."""
    if settings.noise_spread != ADAPTIVE:
        return None
    for blocker in _blockers(settings):
        raise Refusal(f"noise_spread is adaptive, but {blocker}.")
    assert settings.epsilon is not None and groups is not None
    epsilon = settings.adaptive["contribution_share"] * settings.epsilon
    return ContributionStep(
        terms, settings.stated_relation, epsilon, settings.delta, groups, settings.rounds_before_contributions
    )


def calibrated_beside(settings: TrainSettings, terms: RoundTerms, step: ContributionStep) -> RoundTerms:
    """The terms with the least noise for which rounds and contributions together keep epsilon."""

    def event_of(noise: float) -> Event:
        return round_event(terms.with_noise(noise_multiplier=noise), settings.stated_relation)

    assert settings.epsilon is not None
    count = terms.rounds * terms.noised_steps
    return terms.with_noise(noise_beside([(step.event, 1)], event_of, count, settings.epsilon, settings.delta))


def _blockers(settings: TrainSettings) -> Iterator[str]:
    if settings.epsilon is None:
        yield "epsilon is not set, which is divided between contributions and rounds; set it in place of the noise"
    if settings.aggregation == SHUFFLE:
        yield "aggregation is shuffle, where contributions have no account here; use secure_sum or local"
    if settings.privacy != RECORD:
        yield f"privacy is {settings.privacy}, and contributions are released for records; use privacy record"
    if settings.upload_fraction < 1:
        yield "upload_fraction is below 1, which would choose coordinates by their scales; use 1"
