"""The shuffler, a host without data: it sees who sends how many ciphertexts, and hands them on in a random order."""
from fate_dp.components.shuffler.members import party_of

from .agreement import Agreement
from .delivery import Relay
from .steps import OUTCOME, PRESENT, ROUND


def relay_rounds(ctx, agreement: Agreement) -> Relay:
    """All rounds of a training; raises ValueError with what all parties are told where it failed."""
    federation, relay = agreement.federation, Relay(agreement.federation, agreement.terms, agreement.settings.split)
    for number, round_ctx in ctx.on_iterations.ctxs_range(agreement.terms.rounds):
        if party_of(round_ctx, federation.server).get(ROUND)["problem"]:
            break
        present = party_of(round_ctx, federation.server).get(PRESENT)
        if present:
            relay.relay(round_ctx, present, number)
    outcome = party_of(ctx.sub_ctx(OUTCOME), federation.server).get(OUTCOME)
    if outcome["problem"]:
        raise ValueError(outcome["problem"])
    return relay
