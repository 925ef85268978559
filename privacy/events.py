"""Events: what a mechanism released, as frozen values that an accountant charges and a ledger stores.

An ``Event`` is a process (a mechanism with its parameters) together with whom it protects from whom: the *unit* (whose
data may change), the neighbouring *relation*, and the *observers* (against whom the statement holds). Epsilons are in
nats. Only events of one unit and relation, seen by one observer, may be added.

**Units of noise.** For an unsampled query, ``noise_multiplier`` is the noise's scale over the *sensitivity under the
event's relation*. For a sampled sum of clipped contributions it is sigma over the *clip* (the largest norm of one
contribution), whatever the relation: the sum moves by one clip under add-or-remove and by up to two under replace-one,
and accountants know that. A mechanism that reports its own sensitivity fills these in, never its user.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, cast, get_args

from .validation import as_share, is_finite, one_of, positive, refusal, whole, within

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from .noise.stream import Stream


class Word(str, Enum):
    """A word of the vocabulary of events: equal to its text, shown and stored as its text."""

    __str__ = str.__str__
    __repr__ = str.__repr__

    def __format__(self, specification: str) -> str:
        return format(self.value, specification)


class NeighboringRelation(Word):
    """Which two tables an observer must not tell apart."""

    ADD_OR_REMOVE = "add_or_remove"
    """One unit's data is there or not."""
    REPLACE_ONE = "replace_one"
    """One unit's data is other data; the number of units is public."""


class Unit(Word):
    """Whose data may change: the label of one record, one record, or all data of one client."""

    LABEL = "label"
    RECORD = "record"
    CLIENT = "client"


class Observer(Word):
    """Against whom a statement holds; ``model`` is whoever gets what was trained or published."""

    GUEST = "guest"
    HOST = "host"
    ARBITER = "arbiter"
    SERVER = "server"
    SHUFFLER = "shuffler"
    CLIENT = "client"
    MODEL = "model"


ADD_OR_REMOVE, REPLACE_ONE = NeighboringRelation.ADD_OR_REMOVE, NeighboringRelation.REPLACE_ONE
RELATIONS, UNITS, OBSERVERS = tuple(NeighboringRelation), tuple(Unit), tuple(Observer)
RANDOMIZERS = ("any", "randomized_response")


class InvalidEvent(ValueError):
    """A parameter of an event is outside its range, or an event does not fit its relation."""


class _Checked:
    """A process: its floats are finite and greater than 0, its whole numbers at least 1 (or the field's ``least``)."""

    def __post_init__(self) -> None:
        for item in fields(cast(Any, self)):
            value = getattr(self, item.name)
            if item.type == "float":
                object.__setattr__(self, item.name, positive(item.name, value, error=InvalidEvent))
            elif item.type == "int":
                least = item.metadata.get("least", 1)
                object.__setattr__(self, item.name, whole(item.name, value, least, error=InvalidEvent))


@dataclass(frozen=True)
class RandomizedResponse(_Checked):
    """k-ary randomised response, drawn once per unit: keep with e^epsilon / (e^epsilon + classes - 1)."""

    epsilon: float
    classes: int = field(default=2, metadata={"least": 2})


@dataclass(frozen=True)
class PureDP(_Checked):
    """Any mechanism that is epsilon-differentially private with delta 0, known by its epsilon alone."""

    epsilon: float


@dataclass(frozen=True)
class ExponentialMechanism(_Checked):
    """The exponential mechanism with weights exp(epsilon score / (2 sensitivity)); epsilon-bounded-range."""

    epsilon: float


@dataclass(frozen=True)
class Laplace(_Checked):
    """Laplace noise; ``noise_multiplier`` is its scale over the l1 sensitivity under the event's relation."""

    noise_multiplier: float


@dataclass(frozen=True)
class Gaussian(_Checked):
    """Gaussian noise on an unsampled query; ``noise_multiplier`` is sigma over its l2 sensitivity in the relation."""

    noise_multiplier: float


@dataclass(frozen=True)
class GroupedGaussian:
    """Gaussian noise of its own scale per coordinate group, unsampled.

    ``sensitivities[g]`` is the l2 sensitivity of group g under the event's relation, ``sigmas[g]`` the noise on each of
    its coordinates, in the same unit. One Gaussian of noise multiplier 1 / mu, mu = sqrt(sum_g (sensitivities[g] /
    sigmas[g])^2).
    """

    sensitivities: tuple[float, ...]
    sigmas: tuple[float, ...]

    def __post_init__(self) -> None:
        for name in ("sensitivities", "sigmas"):
            given = getattr(self, name)
            values = tuple(given) if isinstance(given, Iterable) else ()
            if not values or not all(is_finite(value) and float(value) > 0 for value in values):
                raise InvalidEvent(refusal(name, given, "finite numbers greater than 0"))
            object.__setattr__(self, name, tuple(map(float, values)))
        if len(self.sensitivities) != len(self.sigmas):
            raise InvalidEvent(
                refusal("number of sigmas", len(self.sigmas), f"{len(self.sensitivities)}, one per group")
            )


@dataclass(frozen=True)
class PoissonSampledGaussian(_Checked):
    """Gaussian noise on the clipped sum of a Poisson sample: every unit takes part by an independent coin of its own.

    ``noise_multiplier`` is sigma over the clip. Batch sizes vary and stay secret; a shuffled loader is another event.
    """

    sampling_probability: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        as_share("sampling_probability", self.sampling_probability, "greater than 0 and at most 1", InvalidEvent)
        super().__post_init__()


@dataclass(frozen=True)
class FixedSizeSampledGaussian(_Checked):
    """Gaussian noise on the clipped sum of ``batch_size`` of ``records`` units, drawn anew without replacement.

    ``noise_multiplier`` is sigma over the clip. Stated under replace-one only, where the number of records is public.
    """

    records: int
    batch_size: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size > self.records:
            raise InvalidEvent(refusal("batch_size", self.batch_size, f"at most the number of records, {self.records}"))


@dataclass(frozen=True)
class Shuffled(_Checked):
    """One round in which ``messages`` honest messages of one pure ``epsilon0``-LDP randomiser were shuffled.

    ``randomizer`` is ``randomized_response`` for *binary* randomised response only: with more classes the messages hide
    less, and only ``any`` holds. Replace-one only.
    """

    epsilon0: float
    messages: int
    randomizer: str = "any"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("randomizer", self.randomizer, RANDOMIZERS, InvalidEvent)


@dataclass(frozen=True)
class NotPrivate:
    """A release without any guarantee: epsilon infinity. ``reason`` says why, for instance noise from a test stream."""

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidEvent(refusal("reason", self.reason, "text that says why nothing is guaranteed"))


Process: TypeAlias = (
    RandomizedResponse
    | PureDP
    | ExponentialMechanism
    | Laplace
    | Gaussian
    | GroupedGaussian
    | PoissonSampledGaussian
    | FixedSizeSampledGaussian
    | Shuffled
    | NotPrivate
)
PROCESSES = get_args(Process)
PROCESS_NAMES = {kind.__name__: kind for kind in PROCESSES}
DAMAGED = "The text of an event is damaged or was written by another version."
REPLACE_ONE_ONLY = (RandomizedResponse, FixedSizeSampledGaussian, Shuffled)


@dataclass(frozen=True)
class Event:
    """One private release: what was done, whose data it protects, under which relation, against whom.

    Args:
        relation: a `NeighboringRelation`, or its text; has no default, since the same noise means different things.
        observers: one or several of `Observer`, or their texts, who see the release; kept as a sorted tuple.
        slack: total-variation distance between what was released and ``process`` (finite tables, noise on a grid); an
            accountant adds (1 + e^epsilon) times it to delta.

    Raises:
        InvalidEvent: A field is outside its range, or the process cannot be stated under the relation.
    """

    process: Process
    unit: str
    relation: str
    observers: Sequence[str]
    slack: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.process, PROCESSES):
            raise InvalidEvent(refusal("process", self.process, f"one of {', '.join(PROCESS_NAMES)}"))
        object.__setattr__(self, "unit", Unit(one_of("unit", self.unit, UNITS, InvalidEvent)))
        object.__setattr__(self, "relation", check_relation(self.relation))
        given: object = self.observers
        names = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
        if not names or not all(name in OBSERVERS for name in names):
            raise InvalidEvent(refusal("observers", given, f"one or more of {', '.join(OBSERVERS)}"))
        object.__setattr__(self, "observers", tuple(sorted(map(Observer, set(names)))))
        if isinstance(self.process, REPLACE_ONE_ONLY) and self.relation != REPLACE_ONE:
            raise InvalidEvent(refusal("relation", self.relation, f"{REPLACE_ONE} for {self.mechanism}"))
        within("slack", self.slack, 0, 1, error=InvalidEvent)
        object.__setattr__(self, "slack", abs(float(self.slack)))

    @property
    def mechanism(self) -> str:
        """Name of the process."""
        return type(self.process).__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the process as a dictionary."""
        return asdict(self.process)

    def to_json(self) -> str:
        """Text from which ``event_from_json`` makes an equal event; equal events give equal texts."""
        content = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "process"}
        return json.dumps({"mechanism": self.mechanism, "parameters": self.parameters, **content}, sort_keys=True)


def event_from_json(text: str) -> Event:
    """The event that ``Event.to_json`` wrote; `InvalidEvent` where the text is not such an event."""
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


def check_relation(relation: object) -> NeighboringRelation:
    """Return ``relation`` as a member, or raise ``InvalidEvent``."""
    return NeighboringRelation(one_of("relation", relation, RELATIONS, InvalidEvent))


def clips_moved(relation: str) -> int:
    """By how many clips a sum of clipped contributions can move: 1 under add-or-remove, 2 under replace-one."""
    return {ADD_OR_REMOVE: 1, REPLACE_ONE: 2}[check_relation(relation)]


REPEATABLE = "The randomness came from a reproducible stream: whoever knows the seed can subtract the noise."


class _Seen(TypedDict):
    observers: Sequence[str]


class View(_Seen, total=False):
    """Whom a release protects from whom, where the mechanism has one relation: ``observers``, and ``unit``."""

    unit: str


class Statement(View):
    """Whom a release protects from whom: ``relation`` (under which the sensitivity holds), ``observers``, ``unit``."""

    relation: str


@dataclass(frozen=True, eq=False)
class Release:
    """A value, in the unit of the query, that may be shown to ``event.observers`` once ``event`` has been charged."""

    value: Any
    event: Event

    def scaled(self, by: ArrayLike) -> Release:
        """The same release times ``by``, a public number or array: post-processing, at no further cost.

        So a noisy sum becomes a mean over a public expected batch size; a realised size would read the data again.
        """
        from numpy import multiply  # the command line reads the words above, and starts without arrays

        return replace(self, value=multiply(self.value, by))


def event_of(
    process: Process,
    stream: Stream,
    *,
    relation: str,
    observers: Sequence[str],
    unit: str = Unit.RECORD,
    slack: float = 0.0,
) -> Event:
    """The event of ``process`` when all its randomness came from ``stream``; a ``slack`` above 1 says no more than 1.

    A stream that somebody could repeat gives a ``NotPrivate`` event (epsilon infinity), whatever the noise.
    """
    if not stream.private:
        process, slack = NotPrivate(REPEATABLE), 0.0
    return Event(process, unit, relation, observers, min(1.0, slack))


REASON = "SMOTE interpolated between records before this step, so one record or label moves rows without bound"
UNITS_WITHOUT_GUARANTEE = (Unit.RECORD, Unit.LABEL)


def event_after_over_sampling(event: Event) -> Event:
    """What a step that claims ``event`` must be charged as when SMOTE has over-sampled its table.

    A synthetic row lies between a record and one of its nearest neighbours, and which these are, and how many rows each
    class gets, depends on all records and labels of the table. One replaced record or label can move any number of
    rows, so for these units epsilon is infinite. Flips of labels that were released before keep what they were charged,
    since SMOTE reads flipped labels then. The unit client keeps its guarantee, and its event is returned as it is,
    where each client over-samples its own rows alone, as everything here does.
    """
    if event.unit not in UNITS_WITHOUT_GUARANTEE:
        return event
    return replace(event, process=NotPrivate(REASON), slack=0.0)
