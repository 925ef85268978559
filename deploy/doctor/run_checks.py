"""Run a list of checks on one subject."""
from __future__ import annotations

from dataclasses import replace
from typing import Callable

from .finding import Finding, problem


def run_checks(checks, *subject, suffix: str = "") -> list[Finding]:
    """The finding of each of the (name, check), under its name and the suffix."""
    return [replace(_finding(check, subject), check=name + suffix) for name, check in checks]


def _finding(check: Callable[..., Finding], subject: tuple) -> Finding:
    """What a check found; one that the operating system stops has found that it is stopped."""
    try:
        return check(*subject)
    except OSError as error:
        return problem(f"{error.filename or 'Something'} cannot be looked at: {error.strerror or error}.",
                       "Run the doctor as the user who runs FATE-Flow.")  # fmt: skip
