"""A statistic that is asked of all parties: a column, and the public grid on which each record answers. No FATE here.

Every record sends one answer per request: an index of the grid, by randomised response. Values outside the declared
range count as its nearer end, a missing value as its middle, and a value that is not listed as ``other``; nothing in
a party's table decides the grid.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fate_dp.privacy.bins import place_among

from ..common.parameters import choice, number, parameter
from ..common.preflight import Refusal
from ..common.vocabulary import delta_parameter

MEAN, HISTOGRAM, FREQUENCY = "mean", "histogram", "frequency"
KINDS = (MEAN, HISTOGRAM, FREQUENCY)
OTHER = "other"


@dataclass(frozen=True)
class Request:
    """One statistic of one column: a mean, or the shares of equal bins (``histogram``) or of listed values (``frequency``).

    A mean or a histogram has a public range from ``low`` to ``high`` in the unit of the column. A mean rounds a record's
    value at random to one of ``points`` evenly spaced numbers; two serve a small epsilon best, and their messages hide
    most. A frequency counts all but its ``values`` together.
    """

    column: str
    kind: str
    low: float | None = None
    high: float | None = None
    bins: int | None = None
    points: int | None = None
    values: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.kind} of {self.column}"

    def to_json(self) -> dict[str, object]:
        given = {**asdict(self), "values": list(self.values) or None}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def _span(self) -> tuple[float, float, int]:
        """Ends, and number of points or bins, of a mean or a histogram, which have them all."""
        count = self.points if self.kind == MEAN else self.bins
        assert self.low is not None and self.high is not None and count is not None
        return self.low, self.high, count

    @property
    def grid(self) -> np.ndarray:
        """The k numbers (k,) that answers stand for: for shares, the numbers 0 .. k - 1 of the categories."""
        if self.kind == MEAN:
            return np.linspace(*self._span)
        return np.arange(self._span[2] if self.kind == HISTOGRAM else len(self.values) + 1, dtype=np.float64)

    @property
    def randomizer(self) -> str:
        """What ``privacy.events.Shuffled`` knows the answers by: with more than two points, any local randomiser."""
        return "randomized_response" if len(self.grid) == 2 else "any"

    @property
    def edges(self) -> np.ndarray:
        """The bins + 1 edges of a histogram; a value on an edge counts above it, on the last one below."""
        low, high, bins = self._span
        return np.linspace(low, high, bins + 1)

    def on_grid(self, values: object) -> np.ndarray:
        """Where each of the column's values (n,) lies: numbers in the range of the grid, for shares on it."""
        values = np.asarray(values, dtype=np.float64)
        if self.kind == FREQUENCY:
            return place_among(self.values, values).astype(np.float64)
        low, high, count = self._span
        values = np.where(np.isnan(values), low / 2 + high / 2, values).clip(low, high)
        if self.kind == MEAN:
            return values
        return np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, count - 1).astype(np.float64)


MAX_GRID = 1000
MAX_REQUESTS = 100
MAX_VALUE = 1e150
MAX_MESSAGES = 10**9
MAX_EPSILON = 100
NEEDED = {MEAN: ("low", "high"), HISTOGRAM: ("low", "high", "bins"), FREQUENCY: ("values",)}
ALLOWED = {**NEEDED, MEAN: ("low", "high", "points")}
POINTS = 2


def requests(value: object) -> tuple[Request, ...]:
    """Statistics: mappings with column, kind (mean, histogram, frequency), and low and high, bins or values."""
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MAX_REQUESTS:
        raise Refusal.of("requests", value, f"a list of 1 to {MAX_REQUESTS} statistics")
    checked = tuple(map(_request, value))
    names = [request.name for request in checked]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise Refusal(f"requests has the {repeated} more than once; each costs epsilon, so ask once.")
    return checked


def shuffler(value: object) -> str:
    """Party id of the host without data that shuffles."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise Refusal.of("shuffler", value, "the party id of a host that brings no data")
    return str(value)


def _request(value: object) -> Request:
    if not isinstance(value, dict) or not isinstance(value.get("column"), str) or not value["column"]:
        raise Refusal.of("each of requests", value, "a mapping with the name of a column")
    where = f"the request for {value['column']!r}"
    kind = choice(f"kind of {where}", value.get("kind"), KINDS)
    given = {name: item for name, item in value.items() if name not in ("column", "kind") and item is not None}
    _check_keys(where, kind, given)
    if kind == FREQUENCY:
        return Request(value["column"], kind, values=_values(where, given["values"]))
    low, high = (_bound(f"{name} of {where}", given[name]) for name in ("low", "high"))
    if not low < high:
        raise Refusal.of(f"low of {where}", low, f"below high, {high!r}")
    name = "bins" if kind == HISTOGRAM else "points"
    count = number(f"{name} of {where}", given.get(name, POINTS), at_least=2, at_most=MAX_GRID, whole=True)
    request = Request(value["column"], kind, low, high, **{name: count})
    numbers = request.edges if kind == HISTOGRAM else request.grid
    if not (numbers[1:] > numbers[:-1]).all():
        raise Refusal.of(f"low of {where}", low, f"far enough below high, {high!r}, to be divided")
    return request


def _check_keys(where: str, kind: str, given: dict[str, object]) -> None:
    subject, needed, allowed = f"{where[0].upper()}{where[1:]}", NEEDED[kind], ALLOWED[kind]
    for missing in (name for name in needed if name not in given):
        raise Refusal(f"{subject} has no {missing}; a {kind} needs {', '.join(needed)}.")
    for unknown in (name for name in given if name not in allowed):
        raise Refusal(f"{subject} has the key {unknown!r}; a {kind} may have {', '.join(allowed)}.")


def _bound(field: str, value: object) -> float:
    return number(field, value, at_least=-MAX_VALUE, at_most=MAX_VALUE)


def _values(where: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) < MAX_GRID:
        raise Refusal.of(f"values of {where}", value, f"a list of 1 to {MAX_GRID - 1} numbers")
    listed = tuple(_bound(f"values of {where}", item) for item in value)
    if len(set(listed)) != len(listed):
        raise Refusal.of(f"values of {where}", value, "different from each other")
    return listed


@dataclass(frozen=True)
class Settings:
    """Private mean, histogram and frequency of columns over the records of all parties, in the shuffle model.

    The guest and all hosts but one bring tables with the same columns; the host named ``shuffler`` brings none, and the
    arbiter is the server: ``input_data`` comes from a reader without these two. The fewer ``min_messages``, the more epsilon
    costs. Exactly one of ``epsilon`` and ``epsilon0`` is given.

    Each of ``requests`` is ``{"column": .., "kind": "mean", "low": .., "high": ..}``, a ``histogram`` with ``bins`` besides,
    or a ``frequency`` with ``values`` in place of the range. A mean may have ``points``, 2 unless given. Ranges must come
    from public facts: values outside count as the nearer end.
    """

    requests: tuple[Request, ...] = parameter(
        "statistics: column, kind (mean, histogram, frequency), low and high, bins, points or values", check=requests
    )
    shuffler: str = parameter("party id of the host that shuffles and brings no data", check=shuffler)
    min_messages: int = parameter(
        "fewest records of all parties but any one of them; fewer end the job before anything is forwarded",
        at_least=2,
        at_most=MAX_MESSAGES,
        note="Fewest messages of a request, not counting those of any one party, below which nothing is forwarded.",
    )
    epsilon: float | None = parameter(
        "privacy loss of one record over all requests in nats, replace-one; or give epsilon0",
        None,
        above=0,
        at_most=MAX_EPSILON,
        note="Epsilon (nats) of one record over all requests, at delta, replace-one.",
    )
    epsilon0: float | None = parameter(
        "privacy loss of one message before shuffling, in place of epsilon",
        None,
        above=0,
        at_most=MAX_EPSILON,
        note="Epsilon (nats) of one message before shuffling, replace-one.",
    )
    delta: float = delta_parameter("epsilon")

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.epsilon0 is None):
            allowed = "given one without the other: epsilon for all requests together, or epsilon0 for one message"
            raise Refusal.of("epsilon and epsilon0", (self.epsilon, self.epsilon0), allowed)

    def to_json(self) -> dict[str, object]:
        """Builtins, equal at two parties iff they ask for the same."""
        return {**asdict(self), "requests": [request.to_json() for request in self.requests]}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Settings":
        return cls(**{**content, "requests": requests(content["requests"])})
