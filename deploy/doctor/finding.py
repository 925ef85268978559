"""What a check found, in one sentence, and what to do about it in another."""
from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, UNSEEN, PROBLEM = "ok", "warning", "not seen", "problem"


@dataclass(frozen=True)
class Finding:
    """`state` is ok, warning, not seen or problem; `cure` is empty where nothing is to be done."""

    state: str
    said: str
    cure: str = ""
    check: str = ""


def ok(said: str) -> Finding:
    return Finding(OK, said)


def warning(said: str, cure: str) -> Finding:
    """It works, but an operator should know and decide."""
    return Finding(WARNING, said, cure)


def unseen(said: str, cure: str) -> Finding:
    """Nothing can be said from here; the cure is how to find out."""
    return Finding(UNSEEN, said, cure)


def problem(said: str, cure: str) -> Finding:
    """Jobs fail, or a secret is open to others."""
    return Finding(PROBLEM, said, cure)
