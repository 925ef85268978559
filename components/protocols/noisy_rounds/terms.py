"""The public terms of a training in rounds, the same at every party: everything that the account depends on."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from fate_dp.privacy.mechanisms.clipping import MAX_CLIP, MIN_CLIP
from fate_dp.privacy.validation import is_finite, is_whole, one_of, refusal, whole

LOCAL, SHUFFLE, SECURE_SUM = "local", "shuffle", "secure_sum"
AGGREGATIONS = (LOCAL, SHUFFLE, SECURE_SUM)
RECORD, CLIENT = "record", "client"
UNITS = (RECORD, CLIENT)
# A clip holds at most this many steps of its grid, and at least half as many.
STEPS_OF_CLIP = 2.0**35
# Noise of this multiplier is drawn at a scale of at most 2^50 steps, the sampler's largest.
MAX_MULTIPLIER = 2.0**14
# Wider than any Gaussian noise that is ever drawn: exp(-40^2 / 2) < 2^-1150.
DEVIATIONS = 40
MAX_SUM = 2.0**63


class InvalidTerms(ValueError):
    """Terms are outside their range, or ask for what has no guarantee: one sentence."""


@dataclass(frozen=True, kw_only=True)
class RoundTerms:
    """Public configuration of all rounds.

    Attributes:
        aggregation: ``secure_sum`` (the server sees the sum of all clients), ``local`` (each client's noisy vector) or
            ``shuffle`` (one pure local-DP message per record, without its sender).
        unit: whose whole contribution to a round is clipped: ``record``, or ``client`` with all its data.
        clients: n, the parties that hold data.
        max_dropouts: t, clients that drop out and clients that collude with an observer, together; from 1 to n - 1.
        colluding: how many of the tolerated may collude; an observing client counts itself, so at least 1.
        batch_size: expected number of units that take part in a round, over all clients. What is divided by it is never
            divided by the realised number, which stays secret.
        records: public number of all units: records, or clients with privacy client.
        client_records: number of records of each client, needed for ``shuffle``, which is stated under replace-one,
            where they are public; None means equal numbers.
        client_weights: public weights of the clients' updates (unit client, or several local steps), adding up to 1;
            None means equal ones. Never n_k / n of private numbers of records.
        clips: largest l2 norms of one unit's contribution, one for all rounds or one per round, fixed in advance. With
            ``clip_quantile`` the first only.
        clip_quantile: None, or the quantile of the norms that the clip follows privately (`contribution`).
        noise_multiplier: sigma over the clip: of the whole sum in ``secure_sum``, of each client's own message in
            ``local``. None until calibrated, and in ``shuffle``.
        epsilon0: of one message in ``shuffle``, nats; None until calibrated, and elsewhere.
        dimension: d.
        scales: None, or d positive public numbers: a contribution is divided by them before it is clipped.
        delta: delta of the guarantee, strictly between 0 and 1.
        local_steps: steps at a client between two messages. In ``local`` each is noised and charged; with the unit
            client they are free of noise and one update is clipped.
        local_learning_rate: of these steps, plain gradient descent.
        local_batch_size: records in each of these steps for the unit client; None means all that a client has.
        upload_fraction: part of the coordinates that a client sends, the largest ones *after* noise; ``local`` only.
        own_noise: noise multiplier of each client's own message, ``local`` only; None means ``noise_multiplier`` for all.
        own_clips: clip of each client, ``local`` only, where it has one of its own, else None.
        own_sampling: probability with which a unit of each client joins a round, ``secure_sum`` only.
    """

    aggregation: str
    unit: str
    clients: int
    max_dropouts: int
    rounds: int
    batch_size: float
    records: int
    clips: tuple[float, ...]
    dimension: int
    delta: float
    noise_multiplier: float | None = None
    epsilon0: float | None = None
    colluding: int = 1
    client_records: tuple[int, ...] | None = None
    client_weights: tuple[float, ...] | None = None
    scales: tuple[float, ...] | None = None
    local_steps: int = 1
    local_learning_rate: float | None = None
    local_batch_size: int | None = None
    upload_fraction: float = 1.0
    clip_quantile: float | None = None
    own_noise: tuple[float, ...] | None = None
    own_clips: tuple[float | None, ...] | None = None
    own_sampling: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("clips", "client_records", "client_weights", "scales", "own_noise", "own_clips", "own_sampling"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, tuple(np.atleast_1d(np.asarray(value)).tolist()))
        _check_ranges(self)
        problem = next(chain.from_iterable(check(self) for check in (_clips, _clients, _together)), None)
        if problem:
            raise InvalidTerms(problem)

    @property
    def sampling_probability(self) -> float:
        """q, with which every unit joins a round by a coin of its own; not used in ``shuffle``."""
        return self.batch_size / self.records

    @property
    def vector_length(self) -> int:
        """Coordinates of a message: the weights, and one more where the clip is set privately."""
        return self.dimension + (self.clip_quantile is not None)

    @property
    def least_arrivals(self) -> int:
        """n - t + the colluding ones: clients without which a round is ended before anything is opened."""
        return self.clients - self.max_dropouts + self.colluding

    @property
    def noised_steps(self) -> int:
        return self.local_steps if self.aggregation == LOCAL and self.unit == RECORD else 1

    @cached_property
    def factors(self) -> np.ndarray | float:
        """What a mean of scaled contributions is multiplied by: the scales as float64 (d,), 1 without."""
        return 1.0 if self.scales is None else np.asarray(self.scales)

    @property
    def personal(self) -> bool:
        """Whether clients have terms of their own, so that an account is one client's (`at`)."""
        return any(own is not None for own in (self.own_noise, self.own_clips, self.own_sampling))

    @property
    def expected_units(self) -> float:
        """What a noisy sum is divided by: ``batch_size``, or where clients sample on their own what that gives for equal ones."""
        if self.own_sampling is None:
            return self.batch_size
        return self.records * math.fsum(self.own_sampling) / self.clients

    def at(self, position: int) -> "RoundTerms":
        """The terms of the client at ``position``, as its units are sampled, clipped and noised, and as they are accounted."""
        if not self.personal:
            return self
        noise = self.noise_multiplier if self.own_noise is None else self.own_noise[position]
        clip = None if self.own_clips is None else self.own_clips[position]
        batch = self.batch_size if self.own_sampling is None else self.own_sampling[position] * self.records
        return replace(
            self,
            noise_multiplier=noise,
            clips=self.clips if clip is None else (clip,),
            batch_size=batch,
            own_noise=None,
            own_clips=None,
            own_sampling=None,
        )

    def message_weight(self, position: int) -> float:
        """What the client at ``position`` multiplies its noisy message by, so that loud messages count less; 1 on average.

        In proportion to one over the variance of its noise, which is public: of all weights those that leave the mean of
        clients with like records the least noise.
        """
        if self.own_noise is None and self.own_clips is None:
            return 1.0
        # Of each client's message in the first round.
        noise = [(own.noise_multiplier or 1.0) * own.clips[0] for own in map(self.at, range(self.clients))]
        quietest = min(noise)
        shares = [(quietest / each) ** 2 for each in noise]
        return self.clients * shares[position] / math.fsum(shares)

    def clip_of(self, round_number: int) -> float:
        """The clip of a round (from 0) in a schedule that was fixed in advance."""
        return self.clips[round_number if len(self.clips) > 1 else 0]

    def weight_of(self, position: int) -> float:
        """The public weight of the client at ``position``; all weights add up to 1."""
        return self.client_weights[position] if self.client_weights else 1 / self.clients

    def with_noise(self, noise_multiplier: float | None = None, epsilon0: float | None = None) -> "RoundTerms":
        return replace(self, noise_multiplier=noise_multiplier, epsilon0=epsilon0)

    def delta_warning(self) -> str | None:
        """A sentence where delta is at least 1 / records, so that releasing one record at random would meet it."""
        if self.delta < 1 / self.records:
            return None
        return (
            f"delta is {self.delta:g}, which is not below 1 / {self.records}, one over the number of {self.unit}s: "
            f"publishing one {self.unit} at random would meet it, too. Take a smaller delta."
        )


BELOW_1 = math.nextafter(1, 0)
NUMBERS = {"batch_size": math.inf, "delta": BELOW_1, "upload_fraction": 1, "noise_multiplier": MAX_MULTIPLIER}
NUMBERS |= {"epsilon0": math.inf, "local_learning_rate": math.inf, "clip_quantile": BELOW_1}
"""The largest value of each; all are above 0, and None where they may be."""
MAY_BE_NONE = ("noise_multiplier", "epsilon0", "local_learning_rate", "clip_quantile", "local_batch_size")
COUNTS = ("clients", "rounds", "records", "dimension", "local_steps", "max_dropouts", "colluding", "local_batch_size")


def _check_ranges(terms: RoundTerms) -> None:
    one_of("aggregation", terms.aggregation, AGGREGATIONS, InvalidTerms)
    one_of("unit", terms.unit, UNITS, InvalidTerms)
    given = {name: value for name, value in vars(terms).items() if value is not None or name not in MAY_BE_NONE}
    for name in (name for name in COUNTS if name in given):
        whole(name, given[name], 1, error=InvalidTerms)
    for name in (name for name in NUMBERS if name in given):
        if not is_finite(given[name]) or not 0 < given[name] <= NUMBERS[name]:
            allowed = f"a number greater than 0 and at most {NUMBERS[name]:g}"
            raise InvalidTerms(refusal(name, given[name], allowed))


# What is wrong with ranges of several fields together: one sentence each, the first of which is raised.


def _clips(terms: RoundTerms) -> Iterator[str]:
    # Half the range, so that a clip that follows a quantile has room.
    least, most = MIN_CLIP**0.5, MAX_CLIP**0.5
    for clip in terms.clips:
        if not is_finite(clip) or not least <= clip <= most:
            yield refusal("clips", clip, f"numbers from {least:g} to {most:g}")
    if len(terms.clips) not in {1, terms.rounds}:
        yield refusal("number of clips", len(terms.clips), f"1, or {terms.rounds}, one per round")
    if terms.clip_quantile is not None and len(terms.clips) != 1:
        yield refusal("clips", terms.clips, "one number with clip_quantile, the first round's")


def _clients(terms: RoundTerms) -> Iterator[str]:
    clients, weights, numbers = terms.clients, terms.client_weights, terms.client_records
    if clients < 2:
        yield refusal("clients", clients, "at least 2, since one client has nobody to train with")
    if terms.max_dropouts >= clients:
        yield refusal("max_dropouts", terms.max_dropouts, f"less than the number of clients, {clients}")
    if terms.colluding > terms.max_dropouts:
        yield refusal("colluding", terms.colluding, f"at most max_dropouts, {terms.max_dropouts}")
    if terms.batch_size > terms.records:
        yield refusal("batch_size", terms.batch_size, f"at most the number of {terms.unit}s, {terms.records}")
    if terms.unit == CLIENT and terms.records != clients:
        yield refusal("records", terms.records, f"the number of clients, {clients}, with privacy client")
    if weights is not None:
        if len(weights) != clients or not all(is_finite(weight) and weight > 0 for weight in weights):
            yield f"client_weights must be positive numbers, one for each of {clients} clients."
        if abs(math.fsum(weights) - 1) > 1e-9:
            yield f"sum of client_weights must be 1, got {math.fsum(weights):g}."
    if numbers is not None:
        if len(numbers) != clients or not all(is_whole(number) and number >= 0 for number in numbers):
            yield f"client_records must be whole numbers, one for each of {clients} clients."
        if terms.unit == RECORD and sum(numbers) != terms.records:
            yield refusal("sum of client_records", sum(numbers), f"records, {terms.records}")
    if terms.scales is not None:
        scales = np.asarray(terms.scales, dtype=np.float64)
        if scales.shape != (terms.dimension,) or not np.isfinite(scales).all() or not (scales > 0).all():
            yield f"scales must be positive numbers, one for each of {terms.dimension} weights."


def _together(terms: RoundTerms) -> Iterator[str]:
    if terms.aggregation == SHUFFLE:
        for name, (needed, cure) in SHUFFLE_NEEDS.items():
            if getattr(terms, name) != needed:
                yield refusal(name, getattr(terms, name), f"{needed} in aggregation shuffle", cure)
    else:
        yield from _summed(terms)
    if (terms.unit == CLIENT or terms.local_steps > 1) and terms.local_learning_rate is None:
        yield refusal("local_learning_rate", None, "given where a client makes steps of its own")
    if terms.aggregation == SECURE_SUM:
        if terms.unit == RECORD and terms.local_steps > 1:
            yield (
                f"local_steps is {terms.local_steps}, but in aggregation secure_sum with privacy record a client's own steps "
                "would carry no noise and nothing bounds what a record does to them; use privacy client, aggregation local, or "
                "one step."
            )
        if terms.upload_fraction < 1:
            yield (
                f"upload_fraction is {terms.upload_fraction:g}, but in aggregation secure_sum a client's own noise is too "
                "small for its choice of coordinates to be private; use aggregation local, or upload_fraction 1."
            )
    if terms.client_weights is not None and terms.unit == RECORD and terms.noised_steps == 1:
        yield (
            "client_weights are for updates of clients, but with privacy record and one step a round all records count "
            "the same; leave them out, or use privacy client or several local steps in aggregation local."
        )
    yield from _personal(terms)
    if terms.clip_quantile is not None and terms.noised_steps > 1:
        yield "clip_quantile cannot follow several noised local steps; use local_steps 1 or a fixed clip."


SHUFFLE_NEEDS = {
    "unit": (RECORD, "Use aggregation secure_sum for privacy client."),
    "local_steps": (1, "Use aggregation local for more, since a shuffled message is one pure local-DP gradient."),
    "upload_fraction": (1, "Messages that differ in their coordinates do not hide each other."),
    "clip_quantile": (None, "Use a clip that is fixed in advance, or aggregation secure_sum."),
    "noise_multiplier": (None, "Set epsilon0: shuffling amplifies pure local DP only, never Gaussian noise."),
}
"""The one value that a field may have in ``shuffle``, and the cure."""
OWN_RANGES = {
    "own_noise": (1e-12, MAX_MULTIPLIER),
    "own_clips": (MIN_CLIP**0.5, MAX_CLIP**0.5),
    "own_sampling": (1e-9, 1.0),
}


def _personal(terms: RoundTerms) -> Iterator[str]:
    """What clients may have of their own in a trust model; why, stands in docs/proofs-dp_homo_nn.md."""
    allowed = {LOCAL: ("own_noise", "own_clips"), SECURE_SUM: ("own_sampling",), SHUFFLE: ()}[terms.aggregation]
    for name in ("own_noise", "own_clips", "own_sampling"):
        values = getattr(terms, name)
        if values is None:
            continue
        if name not in allowed:
            yield (
                f"{name} is set, but in aggregation {terms.aggregation} clients may have "
                f"{' and '.join(allowed) or 'nothing'} of their own."
            )
        if terms.clip_quantile is not None or terms.scales is not None:
            yield f"{name} is set, which goes with neither clip_quantile nor scales; they are made for one clip and one noise."
        least, most = OWN_RANGES[name]
        given = [value for value in values if value is not None or name != "own_clips"]
        if len(values) != terms.clients or not all(is_finite(value) and least <= value <= most for value in given):
            yield f"{name} must be numbers from {least:g} to {most:g}, one for each of {terms.clients} clients."


def _summed(terms: RoundTerms) -> Iterator[str]:
    if terms.epsilon0 is not None:
        yield (
            f"epsilon0 is {terms.epsilon0:g}, but aggregation {terms.aggregation} adds Gaussian noise; set noise_multiplier."
        )
    # The largest true sum, in steps, must fit the signed integers modulo 2^64 in which sums are made.
    multiplier = max([terms.noise_multiplier or 0.0, *(terms.own_noise or ())])
    noise = DEVIATIONS * multiplier * math.sqrt(terms.clients / (terms.clients - terms.max_dropouts))
    if (terms.records + noise + 1) * (STEPS_OF_CLIP + 1) >= MAX_SUM:
        yield (
            f"records must be below 2^28 with noise_multiplier {multiplier:g}, got {terms.records}. Sums of so many, in "
            "steps of 2^-34 of the clip, may exceed 2^63."
        )
