"""The public terms of a training in rounds, the same at every party: everything that the account depends on."""
import math
from dataclasses import dataclass, replace
from typing import Optional, Tuple

import numpy as np

from fate_dp.privacy.mechanisms.clipping import LARGEST_CLIP, LEAST_CLIP
from fate_dp.privacy.number_kinds import is_finite, is_whole

LOCAL, SHUFFLE, SECURE_SUM = "local", "shuffle", "secure_sum"
TRUSTS = (LOCAL, SHUFFLE, SECURE_SUM)
RECORD, CLIENT = "record", "client"
UNITS = (RECORD, CLIENT)
# A clip holds at most this many steps of its grid, and at least half as many.
STEPS_OF_CLIP = 2.0**35
# Noise of this multiplier is drawn at a scale of at most 2^50 steps, the sampler's largest.
LARGEST_MULTIPLIER = 2.0**14
# Wider than any Gaussian noise that is ever drawn: exp(-40^2 / 2) < 2^-1150.
DEVIATIONS = 40
LARGEST_SUM = 2.0**63


class InvalidTerms(ValueError):
    """Terms are outside their range, or ask for what has no guarantee: one sentence."""


@dataclass(frozen=True, kw_only=True)
class RoundTerms:
    """Public configuration of all rounds.

    :param trust: ``secure_sum`` (the server sees the sum of all clients), ``local`` (each client's noisy vector) or
        ``shuffle`` (one pure local-DP message per record, without its sender).
    :param unit: whose whole contribution to a round is clipped: ``record``, or ``client`` with all its data.
    :param clients: n, the parties that hold data.
    :param tolerated: t, clients that drop out and clients that collude with an observer, together; from 1 to n - 1.
    :param colluding: how many of the tolerated may collude; an observing client counts itself, so at least 1.
    :param rounds: number of rounds planned.
    :param batch_size: expected number of units that take part in a round, over all clients. What is divided by it is
        never divided by the realised number, which stays secret.
    :param records: public number of all units: records, or clients for the unit client.
    :param client_records: number of records of each client, needed for ``shuffle``, which is stated under replace-one,
        where they are public; None means equal numbers.
    :param client_weights: public weights of the clients' updates (unit client, or several local steps), adding up to 1;
        None means equal ones. Never n_k / n of private numbers of records.
    :param clips: largest l2 norms of one unit's contribution, one for all rounds or one per round, fixed in advance.
        With ``clip_quantile`` the first only.
    :param clip_quantile: None, or the quantile of the norms that the clip follows privately (``private_clip``).
    :param noise_multiplier: sigma over the clip: of the whole sum in ``secure_sum``, of each client's own message in
        ``local``. None until calibrated, and in ``shuffle``.
    :param epsilon0: of one message in ``shuffle``, nats; None until calibrated, and elsewhere.
    :param dimension: d, number of weights.
    :param scales: None, or d positive public numbers: a contribution is divided by them before it is clipped.
    :param delta: delta of the guarantee, strictly between 0 and 1.
    :param local_steps: steps at a client between two messages. In ``local`` each is noised and charged; with the unit
        client they are free of noise and one update is clipped.
    :param local_learning_rate: of these steps, plain gradient descent.
    :param local_batch_size: records in each of these steps for the unit client; None means all that a client has.
    :param upload_fraction: part of the coordinates that a client sends, the largest ones *after* noise; ``local`` only.
    :raises InvalidTerms: one sentence on what is wrong.
    """

    trust: str
    unit: str
    clients: int
    tolerated: int
    rounds: int
    batch_size: float
    records: int
    clips: Tuple[float, ...]
    dimension: int
    delta: float
    noise_multiplier: Optional[float] = None
    epsilon0: Optional[float] = None
    colluding: int = 1
    client_records: Optional[Tuple[int, ...]] = None
    client_weights: Optional[Tuple[float, ...]] = None
    scales: Optional[Tuple[float, ...]] = None
    local_steps: int = 1
    local_learning_rate: Optional[float] = None
    local_batch_size: Optional[int] = None
    upload_fraction: float = 1.0
    clip_quantile: Optional[float] = None

    def __post_init__(self):
        for name in ("clips", "client_records", "client_weights", "scales"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _as_tuple(value))
        _check_ranges(self)
        _check_clips(self)
        _check_clients(self)
        _check_scales(self)
        _check_together(self)
        _check_sums(self)

    @property
    def sampling_probability(self):
        """q, with which every unit joins a round by a coin of its own; not used in ``shuffle``."""
        return self.batch_size / self.records

    @property
    def normaliser(self):
        """What the sum of contributions is divided by: the expected number of units, public."""
        return self.batch_size

    @property
    def vector_length(self):
        """Coordinates of a message: the weights, and one more where the clip is set privately."""
        return self.dimension + (self.clip_quantile is not None)

    @property
    def least_arrivals(self):
        """n - t + the colluding ones: clients without which a round is ended before anything is opened."""
        return self.clients - self.tolerated + self.colluding

    @property
    def noised_steps(self):
        """Noisy releases per round and client."""
        return self.local_steps if self.trust == LOCAL and self.unit == RECORD else 1

    def clip_of(self, round_number):
        """The clip of a round (from 0) in a schedule that was fixed in advance."""
        return self.clips[round_number if len(self.clips) > 1 else 0]

    def weight_of(self, position):
        """The public weight of the client at ``position``; all weights add up to 1."""
        return self.client_weights[position] if self.client_weights else 1 / self.clients

    def with_noise(self, noise_multiplier=None, epsilon0=None):
        """The same terms with other noise."""
        return replace(self, noise_multiplier=noise_multiplier, epsilon0=epsilon0)

    def scales_array(self):
        """The scales as float64 (d,); None without."""
        return None if self.scales is None else np.asarray(self.scales)

    def delta_warning(self):
        """A sentence where delta is at least 1 / records, so that releasing one record at random would meet it."""
        if self.delta < 1 / self.records:
            return None
        return (
            f"delta is {self.delta:g}, which is not below 1 / {self.records}, one over the number of {self.unit}s: "
            f"publishing one {self.unit} at random would meet it, too. Take a smaller delta."
        )


def _as_tuple(value):
    return tuple(value.tolist() if isinstance(value, np.ndarray) else np.atleast_1d(np.asarray(value)).tolist())


def _check_ranges(terms):
    _check_choice("trust", terms.trust, TRUSTS)
    _check_choice("unit", terms.unit, UNITS)
    for name, least in (("clients", 1), ("rounds", 1), ("records", 1), ("dimension", 1), ("local_steps", 1)):
        _check_whole(name, getattr(terms, name), least)
    _check_whole("tolerated", terms.tolerated, 1)
    _check_whole("colluding", terms.colluding, 1)
    _check_number("batch_size", terms.batch_size, math.inf)
    _check_number("delta", terms.delta, math.nextafter(1, 0))
    _check_number("upload_fraction", terms.upload_fraction, 1)
    for name, most in (
        ("noise_multiplier", LARGEST_MULTIPLIER),
        ("epsilon0", math.inf),
        ("local_learning_rate", math.inf),
    ):
        if getattr(terms, name) is not None:
            _check_number(name, getattr(terms, name), most)
    if terms.local_batch_size is not None:
        _check_whole("local_batch_size", terms.local_batch_size, 1)
    if terms.clip_quantile is not None:
        _check_number("clip_quantile", terms.clip_quantile, math.nextafter(1, 0))


def _check_clips(terms):
    for clip in terms.clips:
        # Half the range, so that a clip that follows a quantile has room.
        if not is_finite(clip) or not LEAST_CLIP**0.5 <= clip <= LARGEST_CLIP**0.5:
            raise InvalidTerms(
                f"clips holds {clip!r} but must hold numbers from {LEAST_CLIP**0.5:g} to {LARGEST_CLIP**0.5:g}."
            )
    if len(terms.clips) not in {1, terms.rounds}:
        raise InvalidTerms(f"clips has {len(terms.clips)} numbers but must have one, or one per round, {terms.rounds}.")
    if terms.clip_quantile is not None and len(terms.clips) != 1:
        raise InvalidTerms("clips has a number per round, but with clip_quantile it must be one, the first round's.")


def _check_clients(terms):
    if terms.clients < 2:
        raise InvalidTerms("clients is 1 but must be at least 2: with one client there is nobody to train with.")
    if terms.tolerated >= terms.clients:
        raise InvalidTerms(
            f"tolerated is {terms.tolerated} but must be less than the number of clients, {terms.clients}."
        )
    if terms.colluding > terms.tolerated:
        raise InvalidTerms(f"colluding is {terms.colluding} but must be at most tolerated, {terms.tolerated}.")
    if terms.batch_size > terms.records:
        raise InvalidTerms(
            f"batch_size is {terms.batch_size:g} but must be at most the number of {terms.unit}s, {terms.records}."
        )
    if terms.unit == CLIENT and terms.records != terms.clients:
        raise InvalidTerms(
            f"records is {terms.records} but must be the number of clients, {terms.clients}, for the unit client."
        )
    if terms.client_weights is not None:
        weights = terms.client_weights
        if len(weights) != terms.clients or not all(is_finite(weight) and weight > 0 for weight in weights):
            raise InvalidTerms(f"client_weights must be positive numbers, one for each of {terms.clients} clients.")
        if abs(math.fsum(weights) - 1) > 1e-9:
            raise InvalidTerms(f"client_weights add up to {math.fsum(weights):g} but must add up to 1.")
    if terms.client_records is not None:
        numbers = terms.client_records
        if len(numbers) != terms.clients or not all(is_whole(number) and number >= 0 for number in numbers):
            raise InvalidTerms(f"client_records must be whole numbers, one for each of {terms.clients} clients.")
        if terms.unit == RECORD and sum(numbers) != terms.records:
            raise InvalidTerms(f"client_records add up to {sum(numbers)} but must add up to records, {terms.records}.")


def _check_scales(terms):
    if terms.scales is None:
        return
    scales = np.asarray(terms.scales, dtype=np.float64)
    if scales.shape != (terms.dimension,) or not np.isfinite(scales).all() or not (scales > 0).all():
        raise InvalidTerms(f"scales must be positive numbers, one for each of {terms.dimension} weights.")


def _check_together(terms):
    if terms.trust == SHUFFLE:
        _refuse_in_shuffle(terms)
    elif terms.epsilon0 is not None:
        raise InvalidTerms(
            f"epsilon0 is {terms.epsilon0:g}, but trust {terms.trust} adds Gaussian noise; set noise_multiplier."
        )
    if terms.unit == CLIENT or terms.local_steps > 1:
        if terms.local_learning_rate is None:
            raise InvalidTerms("local_learning_rate is None but must be given where a client makes steps of its own.")
    if terms.trust == SECURE_SUM:
        if terms.unit == RECORD and terms.local_steps > 1:
            raise InvalidTerms(
                f"local_steps is {terms.local_steps}, but in trust secure_sum with unit record a client's own steps "
                "would carry no noise and nothing bounds what a record does to them; use unit client, trust local, or "
                "one step."
            )
        if terms.upload_fraction < 1:
            raise InvalidTerms(
                f"upload_fraction is {terms.upload_fraction:g}, but in trust secure_sum a client's own noise is too "
                "small for its choice of coordinates to be private; use trust local, or upload_fraction 1."
            )
    if terms.client_weights is not None and terms.unit == RECORD and terms.noised_steps == 1:
        raise InvalidTerms(
            "client_weights are for updates of clients, but with unit record and one step a round all records count "
            "the same; leave them out, or use unit client or several local steps in trust local."
        )
    if terms.clip_quantile is not None and terms.noised_steps > 1:
        raise InvalidTerms("clip_quantile cannot follow several noised local steps; use local_steps 1 or a fixed clip.")


def _refuse_in_shuffle(terms):
    reasons = {
        "unit": (terms.unit != RECORD, "record: every record sends one message; use trust secure_sum for unit client"),
        "local_steps": (terms.local_steps > 1, "1, since each message is one pure local-DP gradient; use trust local"),
        "upload_fraction": (
            terms.upload_fraction < 1,
            "1: messages that differ in their coordinates do not hide each other",
        ),
        "clip_quantile": (
            terms.clip_quantile is not None,
            "None; use a clip that is fixed in advance, or trust secure_sum",
        ),
        "noise_multiplier": (
            terms.noise_multiplier is not None,
            "None: amplification by shuffling holds for pure local DP only, never for Gaussian noise; set epsilon0",
        ),
    }
    for name, (refused, needed) in reasons.items():
        if refused:
            raise InvalidTerms(f"{name} is {getattr(terms, name)!r}, but in trust shuffle it must be {needed}.")


def _check_sums(terms):
    """The largest true sum, in steps, must fit the signed integers modulo 2^64 in which sums are made."""
    if terms.trust == SHUFFLE:
        return
    multiplier = terms.noise_multiplier or 0.0
    noise = DEVIATIONS * multiplier * math.sqrt(terms.clients / (terms.clients - terms.tolerated))
    if (terms.records + noise + 1) * (STEPS_OF_CLIP + 1) >= LARGEST_SUM:
        raise InvalidTerms(
            f"records is {terms.records} and noise_multiplier {multiplier:g}, but sums of so many, in steps of 2^-34 "
            "of the clip, may exceed 2^63; records must stay below 2^28."
        )


def _check_choice(name, value, allowed):
    if value not in allowed:
        raise InvalidTerms(f"{name} is {value!r} but must be one of {', '.join(allowed)}.")


def _check_whole(name, value, least):
    if not is_whole(value) or value < least:
        raise InvalidTerms(f"{name} is {value!r} but must be a whole number of at least {least}.")


def _check_number(name, value, most):
    if not is_finite(value) or not 0 < value <= most:
        raise InvalidTerms(f"{name} is {value!r} but must be a number greater than 0 and at most {most:g}.")
