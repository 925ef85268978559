"""A party with records, guest or host: from the server's weights to its message of every round.

Guarantee: see ``round_terms.guarantee_of`` for what the rounds promise one unit, and guarantee.yaml for against whom. A
round is charged in this party's ledger before its message leaves, and only if this party sends one.
"""
import logging
from dataclasses import replace
from typing import Tuple

import numpy as np

from fate_dp.components.shuffler.members import party_of
from fate_dp.privacy import BudgetExceeded

from .adaptive import scales_of
from .agreement import Agreement, start_weights
from .arbiter import Course
from .charged_rounds import ChargedRounds
from .delivery import client_side
from .frame_rows import FrameRows
from .preflight_checks import name_of
from .rounds.client import Client
from .settings import SOURCE_RULE
from .source_rule_rounds import SourceRuleClient, SourceRuleRows
from .steps import CONTRIBUTIONS, KEYS, OUTCOME, PRESENT, READY, ROUND, SCALES, START, START_WEIGHTS

logger = logging.getLogger(__name__)


def take_part(ctx, agreement: Agreement, frame) -> Tuple[np.ndarray, Course]:
    """All rounds of a training; returns the final weights, float64 (d,), the same at every data party.

    :raises ValueError: training failed; the sentence is the same at all parties.
    """
    federation, terms = agreement.federation, agreement.terms
    me, server = tuple(ctx.federation.local_party), federation.server
    if me == federation.data[0]:
        party_of(ctx.sub_ctx(START), server).put(START_WEIGHTS, start_weights(agreement.source))
    side = client_side(ctx.sub_ctx(KEYS), federation, terms, agreement.settings.split)
    member = Member(agreement, frame, federation.data.index(me))
    for number, round_ctx in ctx.on_iterations.ctxs_range(terms.rounds):
        if agreement.step is not None and number == agreement.step.before_round:
            _release_contributions(round_ctx.sub_ctx(CONTRIBUTIONS), agreement, member, side)
        message = party_of(round_ctx, server).get(ROUND)
        if message["problem"]:
            break
        logger.info("round %d of %d begins", number + 1, terms.rounds)
        contribution = member.contribution(message["weights"], number, message["clip"])
        party_of(round_ctx, server).put(READY, contribution is not None)
        present = party_of(round_ctx, server).get(PRESENT)
        if name_of(me) in present:
            charged = member.charge_round(number)
            side.send(round_ctx, contribution if charged else None, present)
            member.mark_released(charged)
    outcome = party_of(ctx.sub_ctx(OUTCOME), server).get(OUTCOME)
    if outcome["problem"]:
        raise ValueError(outcome["problem"])
    return outcome.pop("weights"), Course(**outcome)


def _release_contributions(ctx, agreement, member, side) -> None:
    """This party's part of the step before adaptive noise; afterwards the member's rounds have scales, or it failed."""
    federation, me = agreement.federation, tuple(ctx.federation.local_party)
    server = party_of(ctx, federation.server)
    share = member.contribution_share(server.get(ROUND)["weights"])
    server.put(READY, share is not None)
    present = server.get(PRESENT)
    if name_of(me) in present:
        charged = member.charge([(agreement.step.event, 1)], "dp_homo_nn, contributions for adaptive noise")
        side.send_contributions(ctx, share if charged else None, present)
        member.mark_released(charged)
    mean = server.get(CONTRIBUTIONS)
    if mean is not None:
        scales = scales_of(agreement.source, mean, agreement.settings.adaptive["power"])
        member.scale(scales)
        if me == federation.data[0]:
            server.put(SCALES, list(scales))


class Member:
    """What this party computes and charges; nothing in here sends anything."""

    def __init__(self, agreement: Agreement, frame, position: int):
        self._agreement, self._position, self._terms = agreement, position, agreement.terms
        if agreement.settings.noise == SOURCE_RULE:
            self._rows = SourceRuleRows(frame, agreement.source)
            self._client = SourceRuleClient(self._rows, agreement.settings, self._terms, position)
        else:
            self._rows = FrameRows(frame, agreement.source)
            self._client = Client(self._rows, self._terms, position=position)
        self._charged = ChargedRounds(agreement.settings, agreement.terms)

    def contribution(self, weights, number, clip):
        """The ``Contribution`` of a round, or None where it failed: the others go on, this party's log says why."""
        try:
            return self._client.contribution(weights, number, clip)
        except Exception:
            logger.exception(f"round {number} failed at this party, which is left out of it")
            return None

    def contribution_share(self, weights):
        """This party's part of the release of contributions, or None where it failed."""
        try:
            return self._agreement.step.share(self._rows.contribution_sums(weights))
        except Exception:
            logger.exception("contributions failed at this party, which is left out of their release")
            return None

    def scale(self, scales) -> None:
        """All rounds from here on have noise in these proportions; what they cost stays the same."""
        self._client = Client(self._rows, replace(self._terms, scales=scales), position=self._position)

    def charge_round(self, number):
        """As ``charge``, for a round that this party sends in."""
        charged = self.charge(self._charged.added_by(number), purpose_of(self._agreement.settings))
        if charged:
            self._charged.add(number)
        return charged

    def charge(self, events, purpose) -> bool:
        """Whether the ledger holds these events now; not where the cap does not allow them any more."""
        try:
            self._agreement.charges.record(events, purpose)
            return True
        except BudgetExceeded:
            logger.exception("this party sends nothing: another job took what was left of the cap")
            return False

    def mark_released(self, charged) -> None:
        """Note that what was charged has left, if it was."""
        if charged:
            self._agreement.charges.mark_released()


def purpose_of(settings) -> str:
    """What the ledger calls the rounds of a training."""
    rule = f"noise {SOURCE_RULE}, " if settings.noise == SOURCE_RULE else ""
    return f"dp_homo_nn, {rule}trust {settings.trust}"
