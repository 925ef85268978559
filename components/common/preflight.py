"""Before work starts every party checks its own inputs, and all parties learn the verdict.

FATE-Flow shows a party only its own errors, so a refusal that stayed with the party that raised it would look like an
unexplained failure to the others. Here each party sends its sentence (or none) to the guest, and the guest sends the
first one, with the name of the party, to everybody: all of them raise it.
"""
from typing import Callable, Optional

from .parties import others, party_name


class Refused(ValueError):
    """A job was refused before any work; the message is one sentence that names the party and the reason."""


def agree(ctx, check: Callable[[], dict], commit: Optional[Callable[[dict], dict]] = None) -> dict:
    """Run ``check`` at this party; return the terms that the guest sets, or raise at every party alike.

    Args:
        check: looks at the party's own inputs and returns facts (builtins) for the guest, or raises ValueError.
        commit: at the guest only: takes {host: facts}, makes the last checks and whatever must be recorded
            before work starts (a budget), and returns the terms (builtins) for all parties, or raises ValueError.

    Raises:
        Refused: some party's check, or the guest's commit, raised ValueError.
    """
    facts, problem = _attempt(ctx, check)
    if ctx.is_on_guest:
        verdict = _judge(ctx, facts, problem, commit)
    else:
        ctx.guest.put("preflight", {"facts": facts, "problem": problem})
        verdict = ctx.guest.get("verdict")
    if verdict["problem"]:
        raise Refused(verdict["problem"])
    return verdict["terms"]


def _attempt(ctx, step: Callable[[], dict]):
    try:
        return step(), None
    except ValueError as error:
        return None, f"{party_name(ctx)}: {error}"


def _judge(ctx, facts, problem, commit) -> dict:
    reports = {party.party: party.get("preflight") for party in others(ctx)}
    problems = [problem, *(report["problem"] for report in reports.values())]
    problem, terms = next((sentence for sentence in problems if sentence), None), {}
    if problem is None and commit is not None:
        hosts = {f"{role} {number}": report["facts"] for (role, number), report in reports.items() if role == "host"}
        terms, problem = _attempt(ctx, lambda: commit(hosts))
    verdict = {"problem": problem, "terms": terms}
    for party in others(ctx):
        party.put("verdict", verdict)
    return verdict
