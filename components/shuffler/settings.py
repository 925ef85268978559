"""Parameters of shuffler, checked. No FATE in here."""
from dataclasses import asdict, dataclass, fields
from typing import Optional, Tuple

from fate_dp.components.common import checks

from .requests import FREQUENCY, HISTOGRAM, KINDS, MEAN, Request

LARGEST_GRID = 1000
LARGEST_REQUESTS = 100
LARGEST_VALUE = 1e150
LARGEST_MESSAGES = 10**9
LARGEST_EPSILON = 100
NEEDED = {MEAN: ("low", "high"), HISTOGRAM: ("low", "high", "bins"), FREQUENCY: ("values",)}
ALLOWED = {**NEEDED, MEAN: ("low", "high", "points")}
POINTS = 2


@dataclass(frozen=True)
class Settings:
    """What all parties must agree on; all of it is public.

    Attributes:
        requests: the statistics; every record sends one message for each.
        shuffler: party id of the host without data.
        least_messages: honest messages of a request that a record hides among: so many must the parties together send
            beside any single one of them, who knows its own.
        epsilon: nats, of one record over all requests at ``delta``, replace-one; or
        epsilon0: nats, of one message, replace-one. Exactly one of the two is given.
    """

    requests: Tuple[Request, ...]
    shuffler: str
    least_messages: int
    epsilon: Optional[float] = None
    epsilon0: Optional[float] = None
    delta: float = 1e-6

    def __post_init__(self):
        if (self.epsilon is None) == (self.epsilon0 is None):
            raise ValueError(
                f"epsilon is {self.epsilon!r} and epsilon0 is {self.epsilon0!r}; exactly one of them must be given: "
                "epsilon for all requests together, or epsilon0 for one message."
            )

    def to_json(self) -> dict:
        """Builtins, equal at two parties iff they ask for the same."""
        return {**asdict(self), "requests": [request_json(request) for request in self.requests]}

    @classmethod
    def from_json(cls, content: dict) -> "Settings":
        return cls(**{**content, "requests": requests(content["requests"])})


def request_json(request: Request) -> dict:
    """What was given of a request, in builtins."""
    given = {item.name: getattr(request, item.name) for item in fields(request)}
    given["values"] = list(request.values) or None
    return {name: value for name, value in given.items() if value is not None}


def requests(value) -> tuple:
    """Statistics: mappings with column, kind (mean, histogram, frequency), and low and high, bins or values."""
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= LARGEST_REQUESTS:
        raise ValueError(f"requests is {value!r}; it must be a list of 1 to {LARGEST_REQUESTS} statistics.")
    checked = tuple(map(_request, value))
    names = [request.name for request in checked]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"requests has the {repeated} more than once; each costs epsilon, so ask once.")
    return checked


def shuffler(value) -> str:
    """Party id of the host without data that shuffles."""
    if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
        raise ValueError(f"shuffler is {value!r}; it must be the party id of a host that brings no data.")
    return str(value)


def least_messages(value) -> int:
    """Fewest messages of a request, not counting those of any one party, below which nothing is forwarded."""
    return checks.number("least_messages", value, at_least=2, at_most=LARGEST_MESSAGES, whole=True)


def epsilon(value) -> float:
    """Epsilon (nats) of one record over all requests, at delta, replace-one."""
    return checks.number("epsilon", value, above=0, at_most=LARGEST_EPSILON)


def epsilon0(value) -> float:
    """Epsilon (nats) of one message before shuffling, replace-one."""
    return checks.number("epsilon0", value, above=0, at_most=LARGEST_EPSILON)


def delta(value) -> float:
    """Delta of epsilon; greater than 0 and below 1."""
    checked = checks.number("delta", value, above=0)
    if checked >= 1:
        raise ValueError(f"delta is {value!r}; it must be a finite number above 0 and below 1.")
    return checked


def _request(value) -> Request:
    if not isinstance(value, dict) or not isinstance(value.get("column"), str) or not value["column"]:
        raise ValueError(f"requests has {value!r}; each must be a mapping with the name of a column.")
    where = f"the request for {value['column']!r}"
    kind = checks.choice(f"kind of {where}", value.get("kind"), KINDS)
    given = {name: item for name, item in value.items() if name not in ("column", "kind") and item is not None}
    _check_keys(where, kind, given)
    if kind == FREQUENCY:
        return Request(value["column"], kind, values=_values(where, given["values"]))
    low, high = (_bound(f"{name} of {where}", given[name]) for name in ("low", "high"))
    if not low < high:
        raise ValueError(f"low of {where} is {low!r}; it must be below high, {high!r}.")
    name = "bins" if kind == HISTOGRAM else "points"
    count = checks.number(f"{name} of {where}", given.get(name, POINTS), at_least=2, at_most=LARGEST_GRID, whole=True)
    return _increasing(where, Request(value["column"], kind, low, high, **{name: count}))


def _check_keys(where, kind, given):
    missing = next((name for name in NEEDED[kind] if name not in given), None)
    if missing is not None:
        raise ValueError(f"{where[0].upper()}{where[1:]} has no {missing}; a {kind} needs {', '.join(NEEDED[kind])}.")
    unknown = next((name for name in given if name not in ALLOWED[kind]), None)
    if unknown is not None:
        raise ValueError(
            f"{where[0].upper()}{where[1:]} has the key {unknown!r}; a {kind} may have {', '.join(ALLOWED[kind])}."
        )


def _bound(field, value):
    return checks.number(field, value, at_least=-LARGEST_VALUE, at_most=LARGEST_VALUE)


def _values(where, value):
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) < LARGEST_GRID:
        raise ValueError(f"values of {where} is {value!r}; it must list 1 to {LARGEST_GRID - 1} numbers.")
    listed = tuple(_bound(f"values of {where}", item) for item in value)
    if len(set(listed)) != len(listed):
        raise ValueError(f"values of {where} is {value!r}; each value may be listed once.")
    return listed


def _increasing(where, request):
    numbers = request.edges if request.kind == HISTOGRAM else request.grid
    if not (numbers[1:] > numbers[:-1]).all():
        raise ValueError(f"low of {where} is {request.low!r}; it is too near to high, {request.high!r}, to be divided.")
    return request
