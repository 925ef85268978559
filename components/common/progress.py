"""How far the loops of a task are, in its log: counts alone, which its job or the other parties' messages show as well."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
logger = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 5.0
# The loops that this process is in, the outer ones first, and when they were last told, by a clock that nobody sets.
_within: list[str] = []
_told = [float("-inf")]


def counted(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The items, and every few seconds a line in the log of how many are done, here and in the loops around this one."""
    depth = len(_within)
    try:
        for done, item in enumerate(items):
            _within[depth:] = [f"{done} of {total} {what}"]
            if time.monotonic() - _told[0] >= SECONDS_BETWEEN_LINES:
                _told[0] = time.monotonic()
                logger.info("progress: %s", ", ".join(_within))
            yield item
    finally:
        del _within[depth:]
