"""The rounds of a training as both sides of it see them, without any message: terms, a party's share, the server's steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.mechanisms.clipping import ClippedSum
from fate_dp.privacy.noise.stream import Stream

from ..protocols.noisy_rounds.account import noise_of
from ..protocols.noisy_rounds.aggregation import KINDS
from ..protocols.noisy_rounds.contribution import Contribution, NoisyMean
from ..protocols.noisy_rounds.terms import RECORD, SECURE_SUM, RoundTerms
from .growth import Growth, Released
from .settings import TrainSettings
from .trees import Batch, Floats, Integers, clips_of, curvature_weight


def round_terms(settings: TrainSettings, clients: int) -> RoundTerms:
    """Terms of the rounds, with the noise of the settings or without any; all records take part in every round."""
    return RoundTerms(
        aggregation=settings.aggregation,
        unit=RECORD,
        clients=clients,
        max_dropouts=settings.max_dropouts,
        rounds=settings.rounds,
        batch_size=settings.records,
        records=settings.records,
        clips=clips_of(settings.rounds, settings.trees_of_round),
        dimension=2 * settings.trees_of_round * 2**settings.depth,
        delta=settings.delta,
        noise_multiplier=settings.noise_multiplier,
    )


def contribution(sums: ClippedSum, terms: RoundTerms, position: int, round_number: int, stream: Stream) -> Contribution:
    """What the party at ``position`` has for a round, with its noise, or its share of the noise, in it."""
    content = KINDS[terms.aggregation].noised(sums, terms, stream)
    return Contribution(position, round_number, sums.clip, content)


@dataclass(frozen=True, eq=False)
class GrownBatch:
    """A batch with the values of its leaves (trees, leaves); public."""

    splits: Batch
    values: Floats = field(repr=False)


def scores_of(batches: Sequence[GrownBatch], codes: Integers) -> Floats:
    """The scores (log odds) of rows of bins (rows, columns), in the order in which a training adds them up."""
    total = np.zeros(len(codes))
    for batch in batches:
        total += batch.splits.step_of(codes, batch.values)
    return total


def noise_of_sums(terms: RoundTerms, arrived: int, clip: float) -> float:
    """Standard deviation of the noise in each released sum, of so many parties, in a round of this clip."""
    shared_by = terms.clients - terms.max_dropouts if terms.aggregation == SECURE_SUM else 1
    return noise_of(terms) * clip * math.sqrt(arrived / shared_by)


class Server:
    """Draws splits and makes values of released sums; it holds no record."""

    def __init__(self, settings: TrainSettings, terms: RoundTerms, bins: TableBins) -> None:
        self._settings, self._terms = settings, terms
        self._growth = Growth(bins, np.random.default_rng(settings.random_state))
        self.batches: list[GrownBatch] = []

    def draw(self) -> Batch:
        return self._growth.draw(self._settings.trees_of_round, self._settings.depth)

    def grow(self, splits: Batch, mean: NoisyMean, arrived: int, round_number: int) -> GrownBatch:
        """The batch of a round of which the sums of so many parties were released."""
        gradients, curvatures = np.reshape(mean.gradient * self._terms.batch_size, (2, splits.trees, splits.leaves))
        noise = noise_of_sums(self._terms, arrived, self._terms.clip_of(round_number))
        weight = curvature_weight(round_number)
        released = Released(gradients, curvatures / weight, noise, noise / weight)
        grown = GrownBatch(splits, self._growth.values(splits, released, self._settings.learning_rate))
        self.batches.append(grown)
        return grown

    @property
    def importance(self) -> list[float]:
        """Mean gain of each column, from released sums; at least 0, not to scale."""
        return [float(gain) for gain in self._growth.mean_gains]
