"""One client: from the server's public weights to what it sends in a round, with all its privacy already in it.

Samples, batch sizes and a client's own coin never leave it. How long it takes is not hidden: a larger sample takes
longer. For the unit client the update is computed whatever the coin says.
"""

from typing import Protocol

import numpy as np

from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records
from fate_dp.privacy.mechanisms.local_numbers import duchi_l2
from fate_dp.privacy.mechanisms.sampling import poisson_sample, random_permutation
from fate_dp.privacy.noise.stream import Stream, open_stream
from fate_dp.privacy.validation import refusal

from ...protocols.noisy_rounds.account import OBSERVERS, client_sizes, noise_of, rounds_per_epoch, senders
from ...protocols.noisy_rounds.aggregation import KINDS, Local
from ...protocols.noisy_rounds.contribution import Contribution, joint_clip, with_indicators
from ...protocols.noisy_rounds.terms import CLIENT, SHUFFLE, InvalidTerms, RoundTerms

ROUNDING = 1 + 2.0**-40


class NotFinite(ValueError):
    """Weights or gradients hold NaN or an infinity, so that training has diverged."""


Scales = np.ndarray | None
"""None, or d positive numbers that gradients are divided by before they are clipped."""


class ClientRows(Protocol):
    """The records of a client; everything that the methods return is private, see `simulation.ArrayRows`."""

    @property
    def private(self) -> bool:
        """Whether nobody else can repeat the samples."""

    def __len__(self) -> int: ...

    def gradient_sum(
        self, weights: np.ndarray, clip: float, probability: float, scales: Scales = None, indicators: bool = False
    ) -> ClippedSum:
        """With ``indicators`` it has one more coordinate, see `protocols.noisy_rounds.contribution.with_indicators`."""

    def gradient_rows(
        self, weights: np.ndarray, places: np.ndarray, epoch: int, scales: Scales = None
    ) -> np.ndarray: ...

    def update(self, weights: np.ndarray, steps: int, rate: float, batch_size: int | None = None) -> np.ndarray: ...


class SecretOrders:
    """Orders of one client's ``count`` records, for passes of local steps and for epochs; nobody else can repeat them."""

    def __init__(self, count: int, stream: Stream | None = None) -> None:
        self._count, self._stream = count, stream
        self._pass = np.arange(0)
        self._epoch: tuple[int, np.ndarray] | None = None

    def batch(self, step: int, size: int) -> np.ndarray:
        """Places of the records of a local step; all of them, in order, where the batch holds that many."""
        if size == self._count:
            return np.arange(size)
        per_pass = self._count // size
        if step % per_pass == 0:
            self._pass = random_permutation(self._count, self._stream)
        start = step % per_pass * size
        return self._pass[start : start + size]

    def of_epoch(self, epoch: int) -> np.ndarray:
        """The order of an epoch of ``shuffle``, drawn when it is first asked for."""
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, random_permutation(self._count, self._stream)
        return self._epoch[1]


class Client:
    """A party with private records, at a public ``position`` (from 0) among all; ``rng`` None is the system's entropy.

    Terms that have no noise, or do not fit the rows, are refused (InvalidTerms).
    """

    def __init__(self, rows: ClientRows, terms: RoundTerms, rng: Stream | None = None, position: int = 0) -> None:
        noise_of(terms)
        if not 0 <= position < terms.clients:
            raise InvalidTerms(refusal("position", position, f"below the number of clients, {terms.clients}"))
        if terms.aggregation == SHUFFLE and len(rows) != client_sizes(terms)[position]:
            raise InvalidTerms(
                f"client_records says {client_sizes(terms)[position]} for client {position}, but it has {len(rows)}."
            )
        self.rows, self.terms, self.position = rows, terms.at(position), position
        self._weight = terms.message_weight(position)
        self._has_own_clip = terms.own_clips is not None and terms.own_clips[position] is not None
        self._stream = open_stream(rng)
        self._scales = None if terms.scales is None else np.asarray(terms.scales)

    @property
    def private(self) -> bool:
        """Whether nobody else can repeat this client's noise and samples; if not, rounds cost an infinite epsilon."""
        return self._stream.private and self.rows.private

    def contribution(self, weights: np.ndarray, round_number: int, clip: float | None = None) -> Contribution:
        """The content of a round, from the server's weights, float64 (d,); ``clip`` None is the schedule's.

        A clip of its own goes before the server's. What is multiplied by this client's public weight has its noise.
        """
        weights = self._checked(weights)
        clip = self.terms.clip_of(round_number) if clip is None or self._has_own_clip else clip
        if self.terms.aggregation == SHUFFLE:
            content = self._answers(weights, round_number, clip)
        elif self.terms.noised_steps > 1:
            content = self._noised_walk(weights, clip)
        else:
            content = KINDS[self.terms.aggregation].noised(self._clipped(weights, clip), self.terms, self._stream)
        if self._weight != 1:
            content = content * self._weight
        return Contribution(self.position, round_number, clip, content)

    def _answers(self, weights: np.ndarray, round_number: int, clip: float) -> np.ndarray:
        """The answer of each record that sends in this round, float64 (b, d): epsilon0-LDP whatever the gradient."""
        places = senders(self.terms, self.position, round_number)
        epoch = round_number // rounds_per_epoch(self.terms)
        rows = self.rows.gradient_rows(weights, places, epoch, self._scales)
        if not len(rows):
            return np.zeros((0, self.terms.dimension))
        unit, epsilon0 = self.terms.unit, noise_of(self.terms)
        return duchi_l2(rows, clip, epsilon0, observers=OBSERVERS, unit=unit, rng=self._stream).value

    def _clipped(self, weights: np.ndarray, clip: float) -> ClippedSum:
        terms = self.terms
        if terms.unit == CLIENT:
            clipped = self._clipped_update(weights, clip)
        else:
            follows = terms.clip_quantile is not None
            clipped = self.rows.gradient_sum(weights, clip, terms.sampling_probability, self._scales, follows)
        return self._within_account(clipped, clip)

    def _clipped_update(self, weights: np.ndarray, clip: float) -> ClippedSum:
        """The weighted update or, by this client's secret coin, nothing at all."""
        terms = self.terms
        assert terms.local_learning_rate is not None
        update = self.rows.update(weights, terms.local_steps, terms.local_learning_rate, terms.local_batch_size)
        row = update * (terms.weight_of(self.position) * terms.clients) / terms.factors
        taking_part = poisson_sample(1, terms.sampling_probability, self._stream)
        rows = row[None, :][taking_part]
        return clip_records(rows, clip) if terms.clip_quantile is None else with_indicators(rows, clip)

    def _noised_walk(self, weights: np.ndarray, clip: float) -> np.ndarray:
        """Several noised steps of plain descent; this client's weight times the way that they led.

        The noisy sum of a step is divided by this client's public share of the expected batch.
        """
        terms, current = self.terms, weights.copy()
        share = terms.weight_of(self.position)
        assert terms.local_learning_rate is not None
        for _ in range(terms.local_steps):
            mean = Local.noised(self._clipped(current, clip), terms, self._stream) / (terms.batch_size * share)
            current -= terms.local_learning_rate * (mean * terms.factors)
            self._checked(current)
        return (weights - current) * share

    def _within_account(self, clipped: ClippedSum, clip: float) -> ClippedSum:
        """Refuse rows that report more sensitivity than the account has for them."""
        bound = clip if self.terms.clip_quantile is None else joint_clip(clip)
        allowed = (bound / clipped.grid + self.terms.vector_length**0.5) * ROUNDING
        if clipped.dimension != self.terms.vector_length or clipped.sensitivity_in_steps(ADD_OR_REMOVE) > allowed:
            raise InvalidTerms(
                f"The clipped sum must have {self.terms.vector_length} coordinates and a sensitivity of about {bound:g}, "
                f"got {clipped.dimension} and {clipped.sensitivity(ADD_OR_REMOVE):g}."
            )
        return clipped

    def _checked(self, weights: np.ndarray) -> np.ndarray:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (self.terms.dimension,):
            raise InvalidTerms(refusal("shape of weights", weights.shape, f"({self.terms.dimension},)"))
        if not np.isfinite(weights).all():
            raise NotFinite("The weights hold NaN or an infinity: training has diverged; lower the learning rate.")
        return weights
