"""How far the loops of a task are, in its log: counts alone, which its job or the other parties' messages show as well."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
logger = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 5.0


@dataclass
class _Loops:
    """Those that this process is in, the outer ones first, and when they were last told, by a clock that nobody sets."""

    within: list[str] = field(default_factory=list)
    told: float = float("-inf")


_loops = _Loops()


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, and every few seconds a line in the log of how many are done, here and in the loops around this one."""
    depth = len(_loops.within)
    try:
        for done, item in enumerate(items):
            _loops.within[depth:] = [f"{done} of {total} {what}"]
            if time.monotonic() - _loops.told >= SECONDS_BETWEEN_LINES:
                _loops.told = time.monotonic()
                logger.info("progress: %s", ", ".join(_loops.within))
            yield item
    finally:
        del _loops.within[depth:]
