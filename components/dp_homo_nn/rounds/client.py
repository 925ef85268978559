"""One client: from the server's public weights to what it sends in a round, with all its privacy already in it.

Samples, batch sizes and a client's own coin never leave it. How long it takes is not hidden: a larger sample takes
longer. For the unit client the update is computed whatever the coin says.
"""
import numpy as np

from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.clipping import clip_records
from fate_dp.privacy.mechanisms.poisson_sampling import poisson_sample
from fate_dp.privacy.noise.stream import open_stream

from . import local, secure_sum, shuffled
from .contribution import Contribution
from .private_clip import joint_clip, with_indicators
from .schedule import client_sizes, rounds_per_epoch, senders
from .terms import CLIENT, SECURE_SUM, SHUFFLE, InvalidTerms

ROUNDING = 1 + 2.0**-40


class NotFinite(ValueError):
    """Weights or gradients hold NaN or an infinity, so that training has diverged."""


class Client:
    """A party with records.

    :param rows: the records, for instance ``ArrayRows``; private.
    :param terms: ``RoundTerms`` with noise; public.
    :param random: a stream; None for the operating system's entropy.
    :param position: of this client among all, from 0; public.
    :raises InvalidTerms: the terms have no noise, or do not fit the rows.
    """

    def __init__(self, rows, terms, random=None, position=0):
        needed = "epsilon0" if terms.trust == SHUFFLE else "noise_multiplier"
        if getattr(terms, needed) is None:
            raise InvalidTerms(f"{needed} is None but must be given before a client sends anything.")
        if not 0 <= position < terms.clients:
            raise InvalidTerms(f"position is {position} but must be below the number of clients, {terms.clients}.")
        if terms.trust == SHUFFLE and len(rows) != client_sizes(terms)[position]:
            raise InvalidTerms(
                f"client_records says {client_sizes(terms)[position]} for client {position}, but it has {len(rows)}."
            )
        self.rows, self.terms, self.position = rows, terms, position
        self._stream = open_stream(random)
        self._scales = terms.scales_array()

    @property
    def private(self):
        """Whether nobody else can repeat this client's noise and samples; if not, rounds cost an infinite epsilon."""
        return self._stream.private and self.rows.private

    def contribution(self, weights, round_number, clip=None):
        """``Contribution`` of a round.

        :param weights: float64 (d,), the server's; public.
        :param clip: the round's clip; None for the schedule's. Where it follows a quantile, the server names it.
        :raises NotFinite: the weights are not finite.
        """
        weights = self._checked(weights)
        clip = self.terms.clip_of(round_number) if clip is None else clip
        if self.terms.trust == SHUFFLE:
            content = self._answers(weights, round_number, clip)
        elif self.terms.trust == SECURE_SUM:
            content = secure_sum.noised_steps(self._clipped(weights, clip), self.terms, self._stream)
        elif self.terms.noised_steps > 1:
            content = self._noised_walk(weights, clip)
        else:
            content = local.noised(self._clipped(weights, clip), self.terms, self._stream).value
        return Contribution(self.position, round_number, clip, content)

    def _answers(self, weights, round_number, clip):
        places = senders(self.terms, self.position, round_number)
        epoch = round_number // rounds_per_epoch(self.terms)
        rows = self.rows.gradient_rows(weights, places, epoch, self._scales)
        return shuffled.answers(rows, self.terms, clip, self._stream)

    def _clipped(self, weights, clip):
        terms = self.terms
        if terms.unit == CLIENT:
            clipped = self._clipped_update(weights, clip)
        else:
            make = self.rows.gradient_sum if terms.clip_quantile is None else self.rows.gradient_sum_with_indicators
            clipped = make(weights, clip, terms.sampling_probability, self._scales)
        return self._within_account(clipped, clip)

    def _clipped_update(self, weights, clip):
        """The weighted update or, by this client's secret coin, nothing at all."""
        terms = self.terms
        update = self.rows.update(weights, terms.local_steps, terms.local_learning_rate, terms.local_batch_size)
        row = update * (terms.weight_of(self.position) * terms.clients)
        if self._scales is not None:
            row = row / self._scales
        taking_part = poisson_sample(1, terms.sampling_probability, self._stream)
        rows = row[None, :][taking_part]
        return clip_records(rows, clip) if terms.clip_quantile is None else with_indicators(rows, clip)

    def _noised_walk(self, weights, clip):
        """Several noised steps of plain descent; this client's weight times the way that they led.

        The noisy sum of a step is divided by this client's public share of the expected batch.
        """
        terms, current = self.terms, weights.copy()
        share = terms.weight_of(self.position)
        for _ in range(terms.local_steps):
            mean = local.noised(self._clipped(current, clip), terms, self._stream).value / (terms.normaliser * share)
            current -= terms.local_learning_rate * (mean if self._scales is None else mean * self._scales)
            self._checked(current)
        return (weights - current) * share

    def _within_account(self, clipped, clip):
        """Refuse rows that report more sensitivity than the account has for them."""
        bound = clip if self.terms.clip_quantile is None else joint_clip(clip)
        allowed = (bound / clipped.grid + self.terms.vector_length**0.5) * ROUNDING
        if clipped.dimension != self.terms.vector_length or clipped.sensitivity_in_steps(ADD_OR_REMOVE) > allowed:
            raise InvalidTerms(
                f"The clipped sum has {clipped.dimension} coordinates and sensitivity "
                f"{clipped.sensitivity(ADD_OR_REMOVE):g} but must have {self.terms.vector_length} and about {bound:g}."
            )
        return clipped

    def _checked(self, weights):
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (self.terms.dimension,):
            raise InvalidTerms(f"weights have shape {weights.shape} but must be ({self.terms.dimension},).")
        if not np.isfinite(weights).all():
            raise NotFinite("The weights hold NaN or an infinity: training has diverged; lower the learning rate.")
        return weights
