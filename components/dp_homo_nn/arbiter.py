"""The server, FATE's arbiter: public weights, which it moves along the noisy means that it opens. It sees no record.

Every round: weights to all data parties, which say whether they are ready; the parties of the round to everybody, or
none where too few are ready; their messages; a step. Whoever failed in a round may take part in the next one.
"""
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import List, Optional

import numpy as np

from fate_dp.components.shuffler.members import party_of
from fate_dp.components.shuffler.messages import TooFewMessages
from fate_dp.privacy.accounting.secure_sum import TooFewArrived

from .agreement import Agreement
from .delivery import server_side
from .preflight_checks import name_of
from .rounds.client import NotFinite
from .rounds.contribution import RoundLost
from .rounds.server import Server
from .rounds.transport import make_transport
from .steps import CONTRIBUTIONS, KEYS, OUTCOME, PRESENT, READY, ROUND, SCALES, START, START_WEIGHTS

logger = logging.getLogger(__name__)
NOT_ONE_ROUND = "No round ran to its end: too few parties were ready, or messages got lost; see their logs."


@dataclass
class Course:
    """How a training went, as everybody is told."""

    run: List[int] = field(default_factory=list)
    aborted: List[int] = field(default_factory=list)
    lost: List[int] = field(default_factory=list)
    contributions: str = "not released"
    problem: Optional[str] = None

    def to_json(self) -> dict:
        return {"rounds run": len(self.run), "rounds aborted": len(self.aborted), "rounds lost": len(self.lost),
                "contributions for adaptive noise": self.contributions}  # fmt: skip


def serve(ctx, agreement: Agreement) -> Course:
    """All rounds of a training; the weights go to the data parties at the end.

    :raises NotFinite: training has diverged, which all parties are told.
    :raises ValueError: not one round ran to its end.
    """
    settings, federation, course = agreement.settings, agreement.federation, Course()
    start = party_of(ctx.sub_ctx(START), federation.data[0]).get(START_WEIGHTS)
    server = Server(
        agreement.terms, start, settings.optimizer, settings.learning_rate_scheduler, settings.step_factor
    )
    side = server_side(ctx.sub_ctx(KEYS), federation, agreement.terms, settings.split)
    for number, round_ctx in ctx.on_iterations.ctxs_range(agreement.terms.rounds):
        if agreement.step is not None and number == agreement.step.before_round:
            side.terms = server.terms = _scaled_terms(round_ctx.sub_ctx(CONTRIBUTIONS), agreement, server, side, course)
        _tell(round_ctx, federation, ROUND, {"problem": course.problem}, {
            "weights": server.weights, "clip": server.clip(number)})  # fmt: skip
        if course.problem:
            break
        _one_round(round_ctx, agreement, server, side, number, course)
    if not course.problem and len(course.run) == len(course.lost):
        course.problem = NOT_ONE_ROUND
    _tell(ctx.sub_ctx(OUTCOME), federation, OUTCOME, asdict(course), {"weights": server.weights})
    if course.problem:
        raise ValueError(course.problem)
    return course


def _one_round(ctx, agreement, server, side, number, course) -> None:
    present, clip = _present(ctx, agreement, number), server.clip(number)
    _tell(ctx, agreement.federation, PRESENT, present, None)
    if not present:
        course.aborted.append(number)
        return
    course.run.append(number)
    try:
        server.step(side.receive(ctx, present, number, clip))
        _check_range(server.weights)
    except (RoundLost, TooFewMessages) as error:
        logger.warning(f"round {number} is spent and gives no step: {error}")
        course.lost.append(number)
    except NotFinite as error:
        course.problem = str(error)


def _scaled_terms(ctx, agreement, server, side, course):
    """The terms of the rounds to come, with scales from contributions that are released here; without, where it fails."""
    federation = agreement.federation
    _tell(ctx, federation, ROUND, {"weights": server.weights}, None)
    present = _present(ctx, agreement, agreement.step.before_round)
    _tell(ctx, federation, PRESENT, present, None)
    mean = None
    if present:
        course.contributions = "released"
        try:
            mean = agreement.step.mean(side.messages(ctx, present))
        except RoundLost as error:
            logger.warning(f"contributions were released and are lost: {error}")
    _tell(ctx, federation, CONTRIBUTIONS, mean, None)
    if mean is None:
        return agreement.terms
    return replace(agreement.terms, scales=tuple(party_of(ctx, federation.data[0]).get(SCALES)))


def _present(ctx, agreement, number) -> list:
    """Names of the ready data parties, none where they are too few."""
    federation = agreement.federation
    positions = [at for at, party in enumerate(federation.data) if party_of(ctx, party).get(READY)]
    try:
        make_transport(agreement.terms).check_ready(positions, number)
    except (TooFewArrived, TooFewMessages) as error:
        logger.warning(f"round {number} is aborted before anything is sent: {error}")
        return []
    return [name_of(federation.data[at]) for at in positions]


def _tell(ctx, federation, name, everybody, data_parties) -> None:
    """One message to all others; what is for data parties only goes into theirs."""
    for party in federation.data:
        party_of(ctx, party).put(name, everybody if data_parties is None else {**everybody, **data_parties})
    if federation.shuffler is not None:
        party_of(ctx, federation.shuffler).put(name, everybody)


def _check_range(weights) -> None:
    """Modules compute in float32, in which larger numbers are infinite."""
    with np.errstate(over="ignore"):
        if not np.isfinite(weights.astype(np.float32)).all():
            raise NotFinite("The weights left the range of float32: training has diverged; lower the learning rate.")
