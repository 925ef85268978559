"""Before work starts every party checks its own inputs, and all parties learn the verdict.

FATE-Flow shows a party only its own errors, so a refusal that stayed with the party that raised it would look like an
unexplained failure to the others. Here each party sends its sentence (or none) to the guest, and the guest sends the
first one, with the name of the party, to everybody: all of them raise it.

The first thing that is compared is the version of this plugin: parties with different ones may not mean the same by a
message.

Others read a `Refusal`, and the public half of a `PrivateReason`; any other error may quote data or a path.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple, TypeVar

from fate_dp.privacy.validation import refusal

from .federation import Context, Document, Party, id_of, name_of, others, party_name

Result = TypeVar("Result")
logger = logging.getLogger(__name__)


@cache
def plugin_version() -> str:
    """For example 0.2.0; 'unknown' where the files lie on the path without an installation."""
    try:
        return version("fate-dp")
    except PackageNotFoundError:
        return "unknown"


class Refused(ValueError):
    """A job was refused before any work; the message is one sentence that names the party and the reason."""


class Refusal(ValueError):
    """A refusal that every party reads in full: it speaks of settings, or of what parties have told each other, never of data."""

    def __init__(self, message: str):
        super().__init__(message)
        self.public = message

    @classmethod
    def of(cls, field: str, value: object, allowed: str, cure: str = "") -> Refusal:
        """As `InvalidArgument.of`."""
        return cls(refusal(field, value, allowed, cure))


class PrivateReason(ValueError):
    """A refusal whose full sentence stays with its own party; ``public`` is the one for the others."""

    def __init__(self, message: str, public: str):
        super().__init__(message)
        self.public = public


@contextmanager
def about_settings() -> Iterator[None]:
    """What is refused within follows from settings and public numbers alone, so that every party may read why."""
    try:
        yield
    except ValueError as error:
        if hasattr(error, "public"):
            raise
        raise Refusal(str(error)) from error


@contextmanager
def about_message(name: str, senders: Iterable[Party]) -> Iterator[None]:
    """What is refused within is the message of this name from one of these parties; the sentence quotes no number of it."""
    try:
        yield
    except ValueError as error:
        whose = " or ".join(name_of(id_of(each)) for each in senders)
        raise Refusal(f"The message {name!r} from {whose} is refused: {error}") from error


UNTOLD = "This party's data or files do not allow the task; its operator can see why."
"""What others read of any other error."""


class Attempt(NamedTuple):
    """Outcome of one party's step: facts, or a sentence for all parties and one for the party itself."""

    facts: Document | None = None
    problem: str | None = None
    detail: str | None = None


@dataclass
class Preflight:
    """One party's checks before a task; what they find stays in attributes, for the work afterwards.

    A sub-class for each role of a task says what the role checks. `agree` must have run before attributes are read.
    """

    ctx: Context

    def check(self) -> Document:
        """Look at this party's own inputs; return facts (builtins) for the guest, or raise ValueError, one sentence."""
        return {}

    def commit(self, hosts: dict[str, Document]) -> Document:
        """At the guest alone, from {host: facts}: make the last checks, and record what must be recorded before work starts.

        Returns the terms (builtins) for all parties; raises ValueError where inputs do not fit together, or a ledger refuses.
        """
        return {}

    def agree(self) -> Document:
        """Run `check` at every party and `commit` at the guest; see `agree`."""
        return agree(self.ctx, self.check, self.commit)


def agree(
    ctx: Context, check: Callable[[], Document], commit: Callable[[dict[str, Document]], Document] = lambda hosts: {}
) -> Document:
    """Run ``check`` at every party and ``commit`` at the guest, as `Preflight` has them; returns the guest's terms.

    Raises Refused, at every party, where a check or the commit did not succeed.
    """
    own = _attempt(ctx, check)
    if ctx.is_on_guest:
        own, verdict = _judge(ctx, own, commit)
    else:
        ctx.guest.put("preflight", {"facts": own.facts, "problem": own.problem, "plugin": plugin_version()})
        verdict = ctx.guest.get("verdict")
    if verdict["problem"]:
        raise Refused(own.detail if verdict["problem"] == own.problem else verdict["problem"])
    logger.info("the checks of all %d parties passed", len(others(ctx)) + 1)
    return verdict["terms"]


def require_same(own: Document, hosts: dict[str, Document]) -> None:
    """At the guest: these facts must be the same at every host."""
    for name, facts in hosts.items():
        for called, wanted in own.items():
            if facts[called] != wanted:
                raise Refusal.of(f"{called} at {name}", facts[called], f"{wanted}, as at the guest")


def _attempt(ctx: Context, step: Callable[[], Document]) -> Attempt:
    try:
        return Attempt(facts=step())
    except Exception as error:
        # The others wait for a verdict: they get one, and the cause stays here.
        logger.error("the check before the job failed: %s", error, exc_info=not isinstance(error, ValueError))
        name, detail = party_name(ctx), str(error)
        if not isinstance(error, ValueError):
            detail = f"The check before the job failed ({type(error).__name__}); see this party's log."
        return Attempt(problem=f"{name}: {getattr(error, 'public', UNTOLD)}", detail=f"{name}: {detail}")


def _other_version(ctx: Context, reports: dict) -> str | None:
    for (role, number), report in reports.items():
        found, own = report.get("plugin"), plugin_version()
        if found != own:
            return (
                f"{role} {number} runs FATE-DP {found or 'of an earlier version'} and {party_name(ctx)} runs {own}; install "
                "one version at all parties, or choose a provider that has it."
            )
    return None


def _judge(ctx: Context, own: Attempt, commit: Callable[[dict], dict]) -> tuple[Attempt, dict]:
    reports = {party.party: party.get("preflight") for party in others(ctx)}
    problems = [_other_version(ctx, reports), own.problem, *(report["problem"] for report in reports.values())]
    verdict: dict = {"problem": next(filter(None, problems), None), "terms": {}}
    if verdict["problem"] is None:
        hosts = {f"{role} {number}": report["facts"] for (role, number), report in reports.items() if role == "host"}
        own = _attempt(ctx, lambda: commit(hosts))
        verdict = {"problem": own.problem, "terms": own.facts}
    for party in others(ctx):
        party.put("verdict", verdict)
    return own, verdict


@dataclass(frozen=True)
class Together:
    """Work that every party of a task does, or none.

    ``Together(ctx)(stage, work)`` returns what ``work()`` does here; if it fails at one party, all raise one sentence.
    All parties of the context call it, in the same order of stages.
    """

    ctx: Context

    def __call__(self, stage: str, work: Callable[[], Result]) -> Result:
        results: list[Result] = []

        def check() -> Document:
            results.append(work())
            return {}

        agree(self.ctx.sub_ctx(stage), check)
        return results[0]


MIN_NUMBER_SHOWN = 5e-7
"""The board rounds to six digits after the point: a smaller number would be shown as 0."""


# The board shows ten lines of a table at a time, and its server mixes them: of a long one the mechanism and epsilon may
# stand on any page. A record of this name it shows line by line, above the table.
LINES_OF_A_PAGE, CHIEF_RECORD = 10, "upload"
CHIEF_FACTS = re.compile(
    r"(.*on true labels)|(what outweighs|converged$|last loss$)|(.*\bepsilon|.*have differential privacy)"
    r"|((?:joined )?rows$|(?:rows|records) of (?:this party|all parties)$)|((?:mechanism|privacy|labels|delta|observers)$)"
)
"""In the order in which they are looked for: how good, whether trained to the end, how private, of how many, how."""


def show_summary(ctx: Context, facts: Document) -> None:
    """Show flat facts of a task, {name: text or number}: a table on FATE-Board, and one line of its log.

    What is looked for first stands first; of a table of several pages it stands above it as well.
    """
    found = {name: CHIEF_FACTS.match(name) for name in facts}
    ranks = {name: match.lastindex or 0 if match else LINES_OF_A_PAGE for name, match in found.items()}
    facts = {name: facts[name] for name in sorted(facts, key=lambda name: ranks[name])}
    small = {name for name, value in facts.items() if isinstance(value, float) and 0 < abs(value) < MIN_NUMBER_SHOWN}
    readable = {name: f"{value:g}" if name in small else value for name, value in facts.items()}
    logger.info("summary: %s", "; ".join(f"{name}: {value}" for name, value in readable.items()))
    # As text, since of numbers with a fraction the board leaves the line out; as few digits as in its tables.
    told = {name: f"{value:g}" if isinstance(value, float) else f"{value}" for name, value in readable.items()}
    chief = {name: value for name, value in told.items() if found[name]}
    if chief and len(readable) > LINES_OF_A_PAGE:
        ctx.metrics.log_metrics(chief, CHIEF_RECORD)
    ctx.metrics.log_metrics(readable, "summary")
