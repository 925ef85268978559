"""Where queries report their calls while somebody records them; off unless switched on, and it changes no result.

A query is the part of a mechanism before its noise: a function of private records that knows how far one of them can move
it. While ``recording`` is active, every call is kept in memory with its private input, for `privacy.auditing.replay`, and
in this thread and task alone. Nothing is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

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


@dataclass(eq=False)
class Recorder:
    """The first ``most`` calls, in order, and how many there were."""

    most: int
    calls: list[Call] = field(default_factory=list)
    seen: int = 0

    def add(self, call: Call) -> None:
        """Keep a call, or count it only where enough are kept."""
        self.seen += 1
        if len(self.calls) < self.most:
            self.calls.append(call)


_recorder: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


@contextmanager
def recording(most: int = MAX_CALLS) -> Iterator[Recorder]:
    """Record the calls of queries within; what is recorded lives as long as the recorder."""
    recorder = Recorder(whole("most", most, 1))
    token = _recorder.set(recorder)
    try:
        yield recorder
    finally:
        _recorder.reset(token)


def recorded(*private: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Let a query report its calls; ``private`` are the places of the arguments that hold a row per record."""

    def reporting(query: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @wraps(query)
        def reported(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            recorder, result = _recorder.get(), query(*arguments, **keywords)
            if recorder is not None and len(arguments) > max(private):
                recorder.add(Call(query, private, arguments, dict(keywords), result))
            return result

        return reported

    return reporting
