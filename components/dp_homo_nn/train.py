"""The stage train: who plays what, and what each party does in a round of `protocols.noisy_rounds.training` and at the end."""

import logging
from dataclasses import replace
from functools import partial

import numpy as np

from ..common.federation import Context, Document, own_party, party_of
from ..common.frames import TRAIN_SET, DataFrame
from ..common.preflight import show_summary
from ..protocols.noisy_rounds import training
from ..protocols.noisy_rounds.aggregation import Aggregation, FateChannel, Local, Shuffle
from ..protocols.noisy_rounds.contribution import Contribution, RoundLost
from ..protocols.noisy_rounds.terms import RoundTerms
from .adaptive import ContributionStep
from .agreement import HomoNNAgreement, HomoNNDataAgreement, agree_on_terms
from .frame_rows import FrameRows
from .model import HomoNNCourse, prediction_frame, summary_of, to_json
from .models.spec import flat_weights
from .relevance import coordinate_scales
from .round_terms import ChargedRounds
from .rounds.client import Client, NotFinite
from .rounds.server import Server

logger = logging.getLogger(__name__)

# Names of the messages, and of the contexts that they are sent in.
START, START_WEIGHTS = "start", "start_weights"
CONTRIBUTIONS, SCALES = "contributions", "scales"


def aggregation_of(ctx: Context, agreement: HomoNNAgreement) -> Aggregation:
    """This party's part of the trust model, with the keys that it needs of others."""
    return training.keyed_aggregation(ctx, agreement.terms, agreement.federation, agreement.settings.message_splitting)


def relay_rounds(ctx: Context, agreement: HomoNNAgreement) -> int:
    """At the shuffler, a host without data: all rounds of a training; returns how many messages were passed on."""
    server, aggregation, passed_on = agreement.federation.server, aggregation_of(ctx, agreement), 0
    assert isinstance(aggregation, Shuffle)
    for number, round_ctx in ctx.on_iterations.ctxs_range(agreement.terms.rounds):
        if party_of(round_ctx, server).get(training.ROUND)["problem"]:
            break
        present = party_of(round_ctx, server).get(training.PRESENT)
        if present:
            passed_on += aggregation.relay(FateChannel(round_ctx), present, number)
    training.outcome_of(ctx, server)
    return passed_on


class Serving:
    """Public weights, which move along the noisy means that are opened here; nothing in here sees a record."""

    def __init__(self, ctx: Context, agreement: HomoNNAgreement) -> None:
        settings, self._federation, self._course = agreement.settings, agreement.federation, HomoNNCourse()
        self._terms, self._step = agreement.terms, agreement.step
        start = party_of(ctx.sub_ctx(START), self._federation.guest).get(START_WEIGHTS)
        assert settings.optimizer is not None
        scheduler, factor = settings.learning_rate_scheduler, settings.step_factor
        self._server = Server(self._terms, start, settings.optimizer, scheduler, factor, settings.averaging)
        self._aggregation = aggregation_of(ctx, agreement)

    def all_rounds(self, ctx: Context) -> HomoNNCourse:
        """All rounds of a training; the weights go to the data parties at the end, or why there are none to everybody."""
        course, server, step = self._course, self._server, self._step
        for number, round_ctx in ctx.on_iterations.ctxs_range(self._terms.rounds):
            if step is not None and number == step.before_round:
                server.terms = self._scaled_terms(round_ctx.sub_ctx(CONTRIBUTIONS), step)
                self._aggregation.terms = server.terms
            state = {"weights": server.weights, "clip": server.clip(number)}
            training.tell(round_ctx, self._federation, training.ROUND, {"problem": course.problem}, state)
            if course.problem:
                break
            self._one_round(round_ctx, number)
        training.end_rounds(ctx, self._federation, course, {"weights": server.final_weights})
        return course

    def _one_round(self, ctx: Context, number: int) -> None:
        mean, _ = training.mean_of_round(ctx, self._aggregation, number, self._server.clip(number), self._course)
        if mean is None:
            return
        try:
            weights = self._server.step(mean)
            with np.errstate(over="ignore"):
                if not np.isfinite(weights.astype(np.float32)).all():
                    # Modules compute in float32, in which larger numbers are infinite.
                    problem = "The weights left the range of float32: training has diverged; lower the learning rate."
                    raise NotFinite(problem)
        except NotFinite as error:
            self._course.problem = str(error)

    def _scaled_terms(self, ctx: Context, step: ContributionStep) -> RoundTerms:
        """Those of the rounds to come, with scales from contributions that are released here; without, where it fails."""
        training.tell(ctx, self._federation, training.ROUND, {"weights": self._server.weights})
        present = training.call_parties(ctx, self._aggregation, step.before_round)
        mean = None
        if present:
            self._course.contributions = "released"
            try:
                assert isinstance(self._aggregation, Local), "Shuffling is refused with adaptive noise."
                mean = step.mean(self._aggregation.messages(FateChannel(ctx), present))
            except RoundLost as error:
                logger.warning(f"contributions were released and are lost: {error}")
        training.tell(ctx, self._federation, CONTRIBUTIONS, mean)
        if mean is None:
            return self._terms
        return replace(self._terms, scales=tuple(party_of(ctx, self._federation.guest).get(SCALES)))


def take_part(ctx: Context, agreement: HomoNNDataAgreement, frame: DataFrame) -> tuple[np.ndarray, HomoNNCourse]:
    """All rounds at a party with records; returns the final weights, float64 (d,), the same at every data party.

    ``round_terms.guarantee_of`` says what the rounds promise one unit, guarantee.yaml against whom.
    """
    federation, terms, step = agreement.federation, agreement.terms, agreement.step
    me, server = own_party(ctx), federation.server
    if me == federation.guest:
        party_of(ctx.sub_ctx(START), server).put(START_WEIGHTS, flat_weights(agreement.source.module()))
    aggregation = aggregation_of(ctx, agreement)
    member = HomoNNMember(agreement, frame, federation.data.index(me))
    for number, round_ctx in ctx.on_iterations.ctxs_range(terms.rounds):
        if step is not None and number == step.before_round:
            _release_contributions(round_ctx.sub_ctx(CONTRIBUTIONS), step, member, aggregation)
        message = party_of(round_ctx, server).get(training.ROUND)
        if message["problem"]:
            break
        logger.info("round %d of %d begins", number + 1, terms.rounds)
        contribution = member.contribution(message["weights"], number, message["clip"])
        training.send_charged(
            round_ctx, aggregation, contribution, agreement.charges, partial(member.charge_round, number)
        )
    outcome = training.outcome_of(ctx, server)
    return outcome.pop("weights"), HomoNNCourse(**outcome)


def _release_contributions(
    ctx: Context, step: ContributionStep, member: "HomoNNMember", aggregation: Aggregation
) -> None:
    """This party's part of the step before adaptive noise; afterwards the member's rounds have scales, or it failed."""
    me, server = own_party(ctx), party_of(ctx, aggregation.federation.server)
    share = member.contribution_share(step, server.get(training.ROUND)["weights"])
    purpose = "dp_homo_nn, contributions for adaptive noise"
    training.send_charged(
        ctx, aggregation, share, member.charges, partial(training.charge, member.charges, [(step.event, 1)], purpose)
    )
    mean = server.get(CONTRIBUTIONS)
    if mean is not None:
        scales = member.scale(mean)
        if me == aggregation.federation.guest:
            server.put(SCALES, list(scales))


class HomoNNMember:
    """What this party computes and charges; nothing in here sends anything."""

    def __init__(self, agreement: HomoNNDataAgreement, frame: DataFrame, position: int) -> None:
        self._agreement, self._position, self._terms = agreement, position, agreement.terms
        self.charges = agreement.charges
        self._rows = FrameRows(frame, agreement.source, agreement.units)
        self._client = Client(self._rows, self._terms, position=position)
        self._charged = ChargedRounds(agreement.settings, agreement.terms.at(position))

    def contribution(self, weights: np.ndarray, number: int, clip: float) -> Contribution | None:
        """Of a round, or None where it failed."""
        return training.unless_it_fails(lambda: self._client.contribution(weights, number, clip), f"round {number}")

    def contribution_share(self, step: ContributionStep, weights: np.ndarray) -> Contribution | None:
        """This party's part of the release of contributions, or None where it failed."""

        def share() -> Contribution:
            # One more round for the masks, after all that are planned.
            number, shared = self._terms.rounds, step.share(self._rows.contribution_sums(weights))
            return Contribution(self._position, number, 1.0, shared)

        return training.unless_it_fails(share, "the release of contributions")

    def scale(self, contributions: np.ndarray) -> tuple[float, ...]:
        """All rounds from here on have noise in proportions of the released contributions, and cost what they did."""
        module, power = self._agreement.source.module(), self._agreement.settings.adaptive["power"]
        scales = tuple(coordinate_scales(module, contributions, power).tolist())
        self._client = Client(self._rows, replace(self._terms, scales=scales), position=self._position)
        return scales

    def charge_round(self, number: int) -> bool:
        purpose = f"dp_homo_nn, aggregation {self._terms.aggregation}"
        charged = training.charge(self.charges, self._charged.added_by(number), purpose)
        if charged:
            self._charged.add(number)
        return charged


def train_party(ctx: Context, given: Document, frame: DataFrame | None) -> tuple[Document, DataFrame | None]:
    """This party's part of a training: the model document, and the prediction frame of its own rows or None."""
    agreement = agree_on_terms(ctx, given, frame)
    if isinstance(agreement, HomoNNDataAgreement):
        assert frame is not None, "Its check has passed."
        weights, course = take_part(ctx, agreement, frame)
        privacy = {**agreement.promise, **course.to_json()}
        columns = frame.schema.columns.to_list()
        document = to_json(agreement.source.spec(), weights, columns, agreement.settings, privacy)
        show_summary(ctx, summary_of(agreement, course))
        return document, prediction_frame(ctx, frame, document, TRAIN_SET)
    if own_party(ctx) == agreement.federation.server:
        course = Serving(ctx, agreement).all_rounds(ctx)
        show_summary(ctx, summary_of(agreement, course))
        return training.without_model("arbiter", {**agreement.promise, **course.to_json()}), None
    passed_on = relay_rounds(ctx, agreement)
    show_summary(ctx, {"role": "shuffler, without data", "messages passed on": passed_on})
    return training.without_model("shuffler", agreement.promise), None
