"""Before work starts every party checks its own inputs, and all parties learn the verdict.

FATE-Flow shows a party only its own errors, so a refusal that stayed with the party that raised it would look like an
unexplained failure to the others. Here each party sends its sentence (or none) to the guest, and the guest sends the
first one, with the name of the party, to everybody: all of them raise it.

The first thing that is compared is the version of this plugin: parties with different ones may not mean the same by a
message.

Where the full sentence would tell others what only its own party may know, the exception has an attribute ``public``
with the sentence for the others.
"""
import logging
from typing import Callable, NamedTuple, Optional

from .parties import others, party_name
from .plugin_version import plugin_version

logger = logging.getLogger(__name__)


class Refused(ValueError):
    """A job was refused before any work; the message is one sentence that names the party and the reason."""


class PrivateReason(ValueError):
    """A refusal whose full sentence stays with its own party; ``public`` is the one for the others."""

    def __init__(self, message: str, public: str):
        super().__init__(message)
        self.public = public


class Attempt(NamedTuple):
    """Outcome of one party's step: facts, or a sentence for all parties and one for the party itself."""

    facts: Optional[dict] = None
    problem: Optional[str] = None
    detail: Optional[str] = None


def agree(ctx, check: Callable[[], dict], commit: Optional[Callable[[dict], dict]] = None) -> dict:
    """Run ``check`` at this party; return the terms that the guest sets, or raise at every party.

    Args:
        check: looks at the party's own inputs and returns facts (builtins) for the guest, or raises ValueError.
        commit: at the guest only: takes {host: facts}, makes the last checks and whatever must be recorded
            before work starts (a budget), and returns the terms (builtins) for all parties, or raises ValueError.

    Raises:
        Refused: some party's check, or the guest's commit, did not succeed.
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


def _attempt(ctx, step: Callable[[], dict]) -> Attempt:
    try:
        return Attempt(facts=step())
    except ValueError as error:
        name = party_name(ctx)
        return Attempt(problem=f"{name}: {getattr(error, 'public', error)}", detail=f"{name}: {error}")
    except Exception as error:
        # The others wait for a verdict: they get one, and the cause stays in this party's log.
        logger.exception("the check before the job failed")
        problem = f"{party_name(ctx)}: The check before the job failed ({type(error).__name__}); see that party's log."
        return Attempt(problem=problem, detail=problem)


def _other_version(ctx, reports: dict) -> Optional[str]:
    for (role, number), report in reports.items():
        found, own = report.get("plugin"), plugin_version()
        if found != own:
            return (
                f"{role} {number} runs FATE-DP {found or 'of an earlier version'} and {party_name(ctx)} runs {own}; install "
                "one version at all parties, or choose a provider that has it."
            )
    return None


def _judge(ctx, own: Attempt, commit):
    reports = {party.party: party.get("preflight") for party in others(ctx)}
    problems = [_other_version(ctx, reports), own.problem, *(report["problem"] for report in reports.values())]
    problem, terms = next((sentence for sentence in problems if sentence), None), {}
    if problem is None and commit is not None:
        hosts = {f"{role} {number}": report["facts"] for (role, number), report in reports.items() if role == "host"}
        own = _attempt(ctx, lambda: commit(hosts))
        terms, problem = own.facts, own.problem
    verdict = {"problem": problem, "terms": terms}
    for party in others(ctx):
        party.put("verdict", verdict)
    return own, verdict
