"""Events: what a mechanism released, as frozen values that an accountant charges and a ledger stores.

An ``Event`` is a process (a mechanism with its parameters) together with whom it protects from whom: the *unit* (whose
data may change), the neighbouring *relation*, and the *observers* (against whom the statement holds). Epsilons are in
nats. Only events of one unit and relation, seen by one observer, may be added.

**Units of noise.** For an unsampled query, ``noise_multiplier`` is the noise's scale over the *sensitivity under the
event's relation*. For a sampled sum of clipped contributions it is sigma over the *clip* (the largest norm of one
contribution), whatever the relation: the sum moves by one clip under add-or-remove and by up to two under replace-one,
and accountants know that. A mechanism that reports its own sensitivity fills these in, never its user.
"""
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Tuple

from fate_dp.privacy.number_kinds import is_finite, is_whole

ADD_OR_REMOVE = "add_or_remove"
REPLACE_ONE = "replace_one"
RELATIONS = (ADD_OR_REMOVE, REPLACE_ONE)
UNITS = ("label", "record", "client")
OBSERVERS = ("guest", "host", "arbiter", "server", "shuffler", "client", "model")
RANDOMIZERS = ("any", "randomized_response")


class InvalidEvent(ValueError):
    """A parameter of an event is outside its range, or an event does not fit its relation."""


@dataclass(frozen=True)
class RandomizedResponse:
    """k-ary randomised response, drawn once per unit: keep with e^epsilon / (e^epsilon + classes - 1)."""

    epsilon: float
    classes: int = 2

    def __post_init__(self):
        _positive(self, "epsilon")
        _whole(self, "classes", 2)


@dataclass(frozen=True)
class PureDP:
    """Any mechanism that is epsilon-differentially private with delta 0, known by its epsilon alone."""

    epsilon: float

    def __post_init__(self):
        _positive(self, "epsilon")


@dataclass(frozen=True)
class ExponentialMechanism:
    """The exponential mechanism with weights exp(epsilon score / (2 sensitivity)); epsilon-bounded-range."""

    epsilon: float

    def __post_init__(self):
        _positive(self, "epsilon")


@dataclass(frozen=True)
class Laplace:
    """Laplace noise; ``noise_multiplier`` is its scale over the l1 sensitivity under the event's relation."""

    noise_multiplier: float

    def __post_init__(self):
        _positive(self, "noise_multiplier")


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise on an unsampled query; ``noise_multiplier`` is sigma over its l2 sensitivity in the relation."""

    noise_multiplier: float

    def __post_init__(self):
        _positive(self, "noise_multiplier")


@dataclass(frozen=True)
class GroupedGaussian:
    """Gaussian noise of its own scale per coordinate group, unsampled.

    ``sensitivities[g]`` is the l2 sensitivity of group g under the event's relation, ``sigmas[g]`` the noise on each of
    its coordinates, in the same unit. Equivalent to one Gaussian of noise multiplier 1 / mu with
    mu = sqrt(sum_g (sensitivities[g] / sigmas[g])^2).
    """

    sensitivities: Tuple[float, ...]
    sigmas: Tuple[float, ...]

    def __post_init__(self):
        for name in ("sensitivities", "sigmas"):
            given = getattr(self, name)
            values = tuple(given) if isinstance(given, Iterable) else ()
            if not values or not all(map(_is_positive, values)):
                raise InvalidEvent(f"{name} is {given!r} but must hold finite numbers greater than 0.")
            object.__setattr__(self, name, tuple(map(float, values)))
        if len(self.sensitivities) != len(self.sigmas):
            raise InvalidEvent(
                f"sigmas has {len(self.sigmas)} values but must have one per group, {len(self.sensitivities)}."
            )


@dataclass(frozen=True)
class PoissonSampledGaussian:
    """Gaussian noise on the clipped sum of a Poisson sample: every unit takes part by an independent coin of its own.

    ``noise_multiplier`` is sigma over the clip. Batch sizes vary and stay secret; a shuffled loader is another event.
    """

    sampling_probability: float
    noise_multiplier: float

    def __post_init__(self):
        if not (_is_positive(self.sampling_probability) and self.sampling_probability <= 1):
            raise InvalidEvent(
                f"sampling_probability is {self.sampling_probability!r} but must be greater than 0 and at most 1."
            )
        _positive(self, "sampling_probability")
        _positive(self, "noise_multiplier")


@dataclass(frozen=True)
class FixedSizeSampledGaussian:
    """Gaussian noise on the clipped sum of ``batch_size`` of ``records`` units, drawn anew without replacement.

    ``noise_multiplier`` is sigma over the clip. Stated under replace-one only, where the number of records is public.
    """

    records: int
    batch_size: int
    noise_multiplier: float

    def __post_init__(self):
        _whole(self, "records", 1)
        _whole(self, "batch_size", 1)
        if self.batch_size > self.records:
            raise InvalidEvent(
                f"batch_size is {self.batch_size} but must be at most the number of records, {self.records}."
            )
        _positive(self, "noise_multiplier")


@dataclass(frozen=True)
class Shuffled:
    """One round in which ``messages`` honest messages of one pure ``epsilon0``-LDP randomiser were shuffled.

    ``randomizer`` is ``randomized_response`` for *binary* randomised response only: with more classes the messages hide
    less, and only ``any`` holds. Replace-one only.
    """

    epsilon0: float
    messages: int
    randomizer: str = "any"

    def __post_init__(self):
        _positive(self, "epsilon0")
        _whole(self, "messages", 1)
        if self.randomizer not in RANDOMIZERS:
            raise InvalidEvent(f"randomizer is {self.randomizer!r} but must be one of {', '.join(RANDOMIZERS)}.")


@dataclass(frozen=True)
class NotPrivate:
    """A release without any guarantee: epsilon infinity. ``reason`` says why, for instance noise from a test stream."""

    reason: str

    def __post_init__(self):
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidEvent(f"reason is {self.reason!r} but must say in words why nothing is guaranteed.")


PROCESSES = (
    RandomizedResponse,
    PureDP,
    ExponentialMechanism,
    Laplace,
    Gaussian,
    GroupedGaussian,
    PoissonSampledGaussian,
    FixedSizeSampledGaussian,
    Shuffled,
    NotPrivate,
)
PROCESS_NAMES = {kind.__name__: kind for kind in PROCESSES}
DAMAGED = "The text of an event is damaged or was written by another version."
REPLACE_ONE_ONLY = (RandomizedResponse, FixedSizeSampledGaussian, Shuffled)


@dataclass(frozen=True)
class Event:
    """One private release: what was done, whose data it protects, under which relation, against whom.

    :param process: one of the processes of this module.
    :param unit: ``label``, ``record`` or ``client``.
    :param relation: ``add_or_remove`` or ``replace_one``; has no default, since the same noise means different things.
    :param observers: one or several of ``OBSERVERS`` who see the release; kept as a sorted tuple.
    :param slack: total-variation distance between what was released and ``process`` (finite tables, noise on a grid);
        an accountant adds (1 + e^epsilon) times it to delta.
    """

    process: object
    unit: str
    relation: str
    observers: Tuple[str, ...]
    slack: float = 0.0

    def __post_init__(self):
        if not isinstance(self.process, PROCESSES):
            raise InvalidEvent(f"process is {self.process!r} but must be one of {', '.join(PROCESS_NAMES)}.")
        for name, allowed in (("unit", UNITS), ("relation", RELATIONS)):
            if getattr(self, name) not in allowed:
                raise InvalidEvent(f"{name} is {getattr(self, name)!r} but must be one of {', '.join(allowed)}.")
        object.__setattr__(self, "observers", _checked_observers(self.observers))
        if isinstance(self.process, REPLACE_ONE_ONLY) and self.relation != REPLACE_ONE:
            raise InvalidEvent(f"relation is {self.relation!r} but must be {REPLACE_ONE} for {self.mechanism}.")
        if not is_finite(self.slack) or not 0 <= self.slack <= 1:
            raise InvalidEvent(f"slack is {self.slack!r} but must be a number from 0 to 1.")
        object.__setattr__(self, "slack", abs(float(self.slack)))

    @property
    def mechanism(self):
        """Name of the process."""
        return type(self.process).__name__

    @property
    def parameters(self):
        """Parameters of the process as a dictionary."""
        return asdict(self.process)

    def to_json(self):
        """Text from which ``event_from_json`` makes an equal event; equal events give equal texts."""
        content = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "process"}
        return json.dumps({"mechanism": self.mechanism, "parameters": self.parameters, **content}, sort_keys=True)


def event_from_json(text):
    """The event that ``Event.to_json`` wrote.

    :raises InvalidEvent: when the text is not such an event.
    """
    try:
        content = json.loads(text)
        kind = PROCESS_NAMES[content.pop("mechanism")]
        event = Event(process=kind(**content.pop("parameters")), **content)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InvalidEvent(DAMAGED) from error
    # A text that lost a field would otherwise be charged by that field's default.
    if event.to_json() != text:
        raise InvalidEvent(DAMAGED)
    return event


def check_relation(relation):
    """Return ``relation`` if it is one of ``RELATIONS``, else raise ``InvalidEvent``."""
    if relation not in RELATIONS:
        raise InvalidEvent(f"relation is {relation!r} but must be one of {', '.join(RELATIONS)}.")
    return relation


def clips_moved(relation):
    """By how many clips a sum of clipped contributions can move: 1 under add-or-remove, 2 under replace-one."""
    return {ADD_OR_REMOVE: 1, REPLACE_ONE: 2}[check_relation(relation)]


def _checked_observers(observers):
    names = (observers,) if isinstance(observers, str) or not isinstance(observers, Iterable) else tuple(observers)
    if not names or not all(name in OBSERVERS for name in names):
        raise InvalidEvent(f"observers is {observers!r} but must hold one or more of {', '.join(OBSERVERS)}.")
    return tuple(sorted(set(names)))


def _is_positive(value):
    # As a float, which is what is kept: a smaller number of another type may be 0 there.
    return is_finite(value) and float(value) > 0


def _positive(process, name):
    if not _is_positive(getattr(process, name)):
        raise InvalidEvent(f"{name} is {getattr(process, name)!r} but must be a finite number greater than 0.")
    object.__setattr__(process, name, float(getattr(process, name)))


def _whole(process, name, least):
    value = getattr(process, name)
    if not is_whole(value) or value < least:
        raise InvalidEvent(f"{name} is {value!r} but must be a whole number of at least {least}.")
    object.__setattr__(process, name, int(value))
