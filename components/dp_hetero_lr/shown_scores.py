"""Joint scores of a trained model: shown to the guest where every host consents, else left out, and the job goes on.

What scores cost is known only now: the same weights on the same rows again are no new release, so a job that is repeated
shows its scores again whatever is left of a host's cap. No host sends its part before all have consented.
"""
import logging
from typing import Callable, List

from fate_dp.components.common.parties import others

logger = logging.getLogger(__name__)

SHOWN, NOT_ASKED = "shown", "not asked for"


def ask_consent(ctx, rows: str) -> List[str]:
    """At the guest: names of the hosts that show no scores of ``rows``, none where all do. Every host learns the verdict."""
    hosts = [party for party in others(ctx) if party.role == "host"]
    refusing = [f"host {party.party[1]}" for party in hosts if party.get("consent") is not True]
    for party in hosts:
        party.put("all_consent", not refusing)
    if refusing:
        logger.warning("scores of %s are %s", rows, left_out(refusing))
    return refusing


def left_out(refusing: List[str]) -> str:
    """For the log and the summary."""
    return (
        f"left out: no release is left of the table of {', '.join(refusing)}, whose operator sees and changes that with "
        "`fate-dp cap`; the model is the same"
    )


def give_where_all_consent(ctx, consents: bool, give: Callable[[], None]) -> bool:
    """At a host: consent or not, and ``give`` where all hosts do; returns whether the scores were shown."""
    ctx.guest.put("consent", consents)
    shown = ctx.guest.get("all_consent") is True and consents
    if shown:
        give()
    return shown
