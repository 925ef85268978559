"""Where queries report their calls while somebody records them; off unless switched on, and it changes no result.

A query is the part of a mechanism before its noise: a function of private records that knows how far one of them can move
it. While ``recording`` is active, every call is kept in memory with its private input, for `privacy.auditing.replay`, and
in this thread and task alone. Nothing is written here; what a party's operator has written of a task is kept by
`deploy.recorder`, which listens by ``heard_by``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np

from .validation import whole

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
MAX_CALLS = 1000


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a query; what stands at the places ``private`` of its arguments has a row per record."""

    query: Callable[..., Any]
    private: tuple[int, ...]
    arguments: tuple[Any, ...] = field(repr=False)
    keywords: dict[str, Any] = field(repr=False)
    result: Any = field(repr=False)

    @property
    def records(self) -> tuple[Any, ...]:
        """The private arguments."""
        return tuple(self.arguments[place] for place in self.private)

    def repeated(self, records: Sequence[Any]) -> Any:
        """The result on other records; all else is as it was."""
        arguments = list(self.arguments)
        for place, given in zip(self.private, records, strict=True):
            arguments[place] = given
        return self.query(*arguments, **self.keywords)


class Listener(Protocol):
    """What hears of calls while they are recorded."""

    def add(self, call: Call) -> None:
        """Take in a call; never raises."""

    def tell(self, sentence: str) -> None:
        """Take in what went wrong; never raises."""


@dataclass(eq=False)
class Recorder:
    """The first ``most`` calls, in order, how many there were, and what went wrong, in sentences."""

    most: int
    calls: list[Call] = field(default_factory=list)
    seen: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, call: Call) -> None:
        """Keep a call, or count it only where enough are kept."""
        self.seen += 1
        if len(self.calls) < self.most:
            self.calls.append(call)

    def tell(self, sentence: str) -> None:
        """Keep what went wrong."""
        self.problems.append(sentence)


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def recording(most: int = MAX_CALLS) -> Iterator[Recorder]:
    """Record the calls of queries within; what is recorded lives as long as the recorder."""
    recorder = Recorder(whole("most", most, 1))
    with heard_by(recorder):
        yield recorder


@contextmanager
def heard_by(listener: Listener | None) -> Iterator[None]:
    """Let a listener, and no other, hear of the calls within; with None nobody hears."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def repeat_for_listener(computation: Callable[[], Any], expected: Any) -> None:
    """Compute here again what other processes computed, where somebody records: a listener hears nothing of those.

    The listener is told where the results differ, or where there is none; the caller never is.
    """
    listener = _listener.get()
    if listener is None:
        return
    try:
        same = np.array_equal(computation(), expected)
    except Exception as error:
        listener.tell(f"A query of other processes could not be repeated ({type(error).__name__}).")
        return
    if not same:
        listener.tell("What other processes computed differs from what the same query gives here.")


def recorded(*private: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a query report its calls; ``private`` are the places of the arguments that hold a row per record."""

    def reporting(query: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(query)
        def reported(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            listener, result = _listener.get(), query(*arguments, **keywords)
            if listener is not None and len(arguments) > max(private):
                listener.add(Call(query, private, arguments, dict(keywords), result))
            return result

        return reported

    return reporting
