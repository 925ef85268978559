"""The server, FATE's arbiter: it opens the shuffled answers, sees no sender, and computes the statistics."""
from fate_dp.components.common.preflight import agree
from fate_dp.crypto.sealed_box import BoxKey

from .analyzer import Analyzer
from .answers import ANSWER_BYTES, answers_of
from .members import party_of
from .relay import pieces_of
from .results import document
from .settings import Settings
from .statistics import statistic
from .steps import COUNTS, OPENING, SENDING, SERVER_KEY, STATISTICS, messages_about, session_of


def analyse(ctx, terms: dict, members) -> dict:
    """Give out a fresh public key, open what the shuffler passes on, send the statistics to the clients."""
    settings, found = Settings.from_json(terms["settings"]), []
    analyzer = Analyzer(BoxKey(), ANSWER_BYTES, settings.least_messages, session_of(ctx))
    counting, opening = ctx.sub_ctx(COUNTS), ctx.sub_ctx(OPENING)

    def open_all():
        received = [
            party_of(opening, members.shuffler).get(messages_about(at)) for at in range(len(settings.requests))
        ]
        for number, (request, content) in enumerate(zip(settings.requests, received)):
            answers = answers_of(analyzer.open(pieces_of(content), number), request)
            found.append(statistic(request, answers, terms["epsilon0"]))
        return {}

    agree(counting, dict)
    for member in members.clients:
        party_of(counting, member).put(SERVER_KEY, analyzer.public_key)
    agree(ctx.sub_ctx(SENDING), dict)
    agree(opening, open_all)
    for member in members.clients:
        party_of(opening, member).put(STATISTICS, found)
    return document(terms, found)
