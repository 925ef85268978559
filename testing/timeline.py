"""What passes the doors of a component, in one order over all parties."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from fate_dp.components.common.federation import PartyId


@dataclass(frozen=True)
class Event:
    """Something that passed a door: its place in the order of all parties' events, and whose door it was."""

    at: int
    party: PartyId


@dataclass(frozen=True)
class Draw(Event):
    """A call of a sampler, the outermost where one calls another: the ``law`` by the sampler's name, its public
    ``terms`` and ``private`` arguments, the ``size`` of what was drawn, and the ``label`` of the keyed stream, None
    for the operating system's entropy."""

    law: str
    terms: Mapping[str, Any]
    private: tuple
    size: int
    label: str | None
    result: Any = field(repr=False)


@dataclass(frozen=True)
class StreamOpened(Event):
    """A keyed stream of random bits was opened: whoever opens it with this key and label gets the same bits."""

    key: str
    label: bytes


@dataclass(frozen=True)
class Charge(Event):
    """A line that the ledger holds by now: the method that wrote it, and what it was given."""

    kind: str
    terms: Mapping[str, Any]


@dataclass(frozen=True)
class Message(Event):
    """A message to one other party; a table is a list of (key, value). ``size`` counts the bytes of its slices."""

    receiver: PartyId
    namespace: str
    name: str
    value: Any = field(repr=False)
    size: int


@dataclass(frozen=True)
class Sentence(Event):
    """What all other parties are told as this one stops."""

    text: str


@dataclass(frozen=True)
class FileWritten(Event):
    """A file that was opened to be written, as a database too, or moved to this place."""

    path: str


@dataclass(frozen=True)
class Output(Event):
    """A table or model that the component wrote."""

    name: str
    value: Any = field(repr=False)


@dataclass(frozen=True)
class LogLine(Event):
    level: str
    text: str


Kind = TypeVar("Kind", bound=Event)


@dataclass
class Timeline:
    """The events of one play, in order."""

    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[Kind], party: PartyId | None = None) -> list[Kind]:
        """Those of a kind, of all parties or of one."""
        return [each for each in self.events if isinstance(each, kind) and party in (None, each.party)]

    def seen_by(self, party: PartyId) -> list[Message | Sentence]:
        """What other parties sent this one, or said."""
        return [
            each
            for each in self.events
            if (isinstance(each, Message) and each.receiver == party)
            or (isinstance(each, Sentence) and each.party != party)
        ]


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, leaf) of nested containers, arrays and dataclasses; an array of numbers is one leaf."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            yield from leaves(value[key], (*path, key))
    elif isinstance(value, (list, tuple)) and not all(map(_is_number, value)):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif isinstance(value, (list, tuple)):
        is_large = any(isinstance(each, int) and abs(each) >= 2**63 for each in value)
        yield path, np.array(value, dtype=object if is_large else None)
    elif isinstance(value, np.ndarray) and value.dtype == object:
        yield from leaves(value.tolist(), path)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from leaves({each.name: getattr(value, each.name) for each in fields(value)}, path)
    else:
        yield path, value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
