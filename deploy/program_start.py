"""Waiting for a program that was started, and the end of its log where it did not come up."""
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

LOG_LINES_SHOWN = 15


def wait_until(answers: Callable[[], bool], lives: Callable[[], bool], patience: float) -> bool:
    """Whether something answers before it ends or `patience` seconds are over."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and lives():
        if answers():
            return True
        time.sleep(0.2)
    return False


def log_end(log: Path) -> str:
    """The last lines of a program's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])
