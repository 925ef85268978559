"""What a check found, in one sentence, and what to do about it in another; and the list of all checks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

OK, WARNING, UNSEEN, PROBLEM = "ok", "warning", "not seen", "problem"
# What a check looks at: an installation, the folder of all parties and each party's in it, the site's FATE-Flow, its
# providers, its fork servers, and each peer.
ENVIRONMENT, PARTIES, PARTY, SITE = "environment", "parties", "party", "site"
PROVIDERS, WARM, PEER = "providers", "warm", "peer"


@dataclass(frozen=True)
class Finding:
    """`state` is ok, warning, not seen or problem; `cure` is empty where nothing is to be done."""

    state: str
    said: str
    cure: str = ""
    check: str = ""


ok = partial(Finding, OK)
# It works, but an operator should know and decide.
warning = partial(Finding, WARNING)
# Nothing can be said from here; the cure is how to find out.
unseen = partial(Finding, UNSEEN)
# Jobs fail, or a secret is open to others.
problem = partial(Finding, PROBLEM)

Check = Callable[..., Finding]
CHECKS: dict[str, dict[str, Check]] = {}
"""The checks of each subject by the names under which they are shown, in the order of their definition."""


def check(subject: str, name: str) -> Callable[[Check], Check]:
    """Let a function be one of the checks of a subject, after those that were defined before it."""

    def register(function: Check) -> Check:
        CHECKS.setdefault(subject, {})[name] = function
        return function

    return register


def run_checks(subject: str, *looked_at: object, suffix: str = "") -> list[Finding]:
    """The finding of each check of a subject, under its name and the suffix; one that is stopped has found just that."""
    found = []
    for name, function in CHECKS[subject].items():
        try:
            finding = function(*looked_at)
        except OSError as error:
            finding = problem(
                f"{error.filename or 'Something'} cannot be examined: {error.strerror or error}.",
                "Run the doctor as the user who runs FATE-Flow.",
            )
        found.append(replace(finding, check=name + suffix))
    return found
