"""The stage train: who plays what, and what each party does in every round and writes at the end.

In a round the server sends the splits of the next batch of trees, drawn from a public seed and from what was released
before, with the values of the leaves of the batch before. Data parties add those to the scores of their rows, and sum what
`trees` says by leaf; sums go the way of `protocols.noisy_rounds.aggregation`, and the server makes values of them. Rows, bins
and scores stay in a table of the party's engine.
"""

import logging
import operator
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for
from fate_dp.privacy.noise.stream import open_stream

from ..common.federation import Context, Document, own_party, party_of
from ..common.frames import TRAIN_SET, DataFrame, feature_blocks, label_blocks
from ..common.preflight import show_summary
from ..protocols.noisy_rounds import training
from ..protocols.noisy_rounds.account import round_event
from ..protocols.noisy_rounds.contribution import Contribution
from ..protocols.noisy_rounds.training import RoundsRun
from .agreement import TreesAgreement, TreesDataAgreement, agree_on_terms
from .boosting import GrownBatch, Server, contribution
from .model import prediction_frame, summary_of, to_json
from .trees import Batch, curvature_weight, leaf_steps

logger = logging.getLogger(__name__)

Block = tuple[np.ndarray, np.ndarray, np.ndarray]
"""(bins, labels, scores) of some rows."""


@dataclass
class TreesCourse(RoundsRun):
    """How a training went, as everybody is told."""

    importance: list[float] = field(default_factory=list)
    problem: str | None = None


def serve(ctx: Context, agreement: TreesAgreement) -> TreesCourse:
    """All rounds at the arbiter, which holds no record and sees no single sum but with its noise."""
    settings, terms, federation, course = agreement.settings, agreement.terms, agreement.federation, TreesCourse()
    server = Server(settings, terms, agreement.bins)
    aggregation = training.keyed_aggregation(ctx, terms, federation)
    grown: GrownBatch | None = None
    for number, round_ctx in ctx.on_iterations.ctxs_range(terms.rounds):
        splits = server.draw()
        state = {"grown": _wire(grown), "splits": asdict(splits), "clip": terms.clip_of(number)}
        training.tell(round_ctx, federation, training.ROUND, state)
        mean, parties = training.mean_of_round(round_ctx, aggregation, number, terms.clip_of(number), course)
        grown = None if mean is None else server.grow(splits, mean, parties, number)
    course.importance = server.importance
    training.end_rounds(ctx, federation, course, {"grown": _wire(grown)})
    return course


def _wire(grown: GrownBatch | None) -> np.ndarray | None:
    """The values of a batch's leaves, whose splits all parties have had before."""
    return None if grown is None else grown.values


def take_part(ctx: Context, agreement: TreesDataAgreement, frame: DataFrame) -> tuple[list[GrownBatch], TreesCourse]:
    """All rounds at a party with records; returns the batches, the same at every data party. See guarantee.yaml."""
    federation, terms = agreement.federation, agreement.terms
    me, server = own_party(ctx), federation.server
    aggregation = training.keyed_aggregation(ctx, terms, federation)
    member = TreesMember(agreement, frame, federation.data.index(me))
    for number, round_ctx in ctx.on_iterations.ctxs_range(terms.rounds):
        message = party_of(round_ctx, server).get(training.ROUND)
        logger.info("round %d of %d begins", number + 1, terms.rounds)
        member.add(message["grown"])
        share = member.contribution(message["splits"], number)
        training.send_charged(round_ctx, aggregation, share, agreement.charges, partial(member.charge_round, number))
    outcome = training.outcome_of(ctx, server)
    member.add(outcome.pop("grown"))
    return member.batches, TreesCourse(**outcome)


class TreesMember:
    """What this party computes and charges; nothing in here sends anything."""

    def __init__(self, agreement: TreesDataAgreement, frame: DataFrame, position: int) -> None:
        self._agreement, self._terms, self._position = agreement, agreement.terms, position
        self._rows = feature_blocks(frame).join(label_blocks(frame), partial(_prepared, bins=agreement.bins))
        self._stream = open_stream(None)
        self._splits: Batch | None = None
        self.batches: list[GrownBatch] = []

    def add(self, values: np.ndarray | None) -> None:
        """Take the values of the last splits, if they were given any, into the scores."""
        if values is not None:
            assert self._splits is not None, "The server gives values to splits that it sent before."
            self.batches.append(GrownBatch(self._splits, values))
            self._rows = self._rows.mapValues(partial(_stepped, grown=self.batches[-1]))

    def contribution(self, splits: Document, number: int) -> Contribution | None:
        """Of a round, or None where it failed."""
        self._splits = Batch(**splits)
        given = self._terms, self._position, number, self._stream
        return training.unless_it_fails(lambda: contribution(self.sums(number), *given), f"round {number}")

    def sums(self, number: int) -> ClippedSum:
        """Sums by leaf of all rows, without noise: private."""
        assert self._splits is not None, "Sums are asked for after splits."
        clip = self._terms.clip_of(number)
        splits, weight = self._splits, curvature_weight(number)

        def of_block(block: Block) -> np.ndarray:
            codes, labels, scores = block
            return leaf_steps(splits, codes, labels, scores, clip, weight)

        return ClippedSum(self._rows.mapValues(of_block).reduce(operator.add), grid_for(clip), clip)

    def charge_round(self, number: int) -> bool:
        events = [(round_event(self._terms, self._agreement.settings.relation), 1)]
        return training.charge(self._agreement.charges, events, f"dp_homo_gbdt, aggregation {self._terms.aggregation}")


def _prepared(features: np.ndarray, labels: np.ndarray, bins: TableBins) -> Block:
    return bins.codes(features), labels, np.zeros(len(labels))


def _stepped(block: Block, grown: GrownBatch) -> Block:
    codes, labels, scores = block
    return codes, labels, scores + grown.splits.step_of(codes, grown.values)


def train_party(ctx: Context, given: Document, frame: DataFrame | None) -> tuple[Document, object]:
    """This party's part of a training: the model document, and the prediction frame of its own rows or None."""
    agreement = agree_on_terms(ctx, given, frame)
    if isinstance(agreement, TreesDataAgreement):
        assert frame is not None, "Its check has passed."
        batches, course = take_part(ctx, agreement, frame)
        privacy = {**agreement.promise, **course.to_json()}
        document = to_json(agreement, batches, course.importance, privacy)
        show_summary(ctx, summary_of(agreement, course.to_json()))
        return document, prediction_frame(frame, document, TRAIN_SET)
    course = serve(ctx, agreement)
    show_summary(ctx, summary_of(agreement, course.to_json()))
    return training.without_model("arbiter", {**agreement.promise, **course.to_json()}), None
