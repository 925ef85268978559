"""Prediction for shared rows: the guest gets the score of each and, of family binomial, the label, in random order.

The host knows neither which of its records are among the rows nor, perhaps, the weights. So its ledger counts every model
on every alignment as one release, held-out records or not, over all jobs: with as many different models on one alignment
as there are features, the guest can solve for the features of every row.
"""

import hashlib
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fate_dp.crypto.joined_records import FRACTION_BITS

from ..common.charges import JobReference, PartyHome, home_of, job_of
from ..common.federation import Context, Document
from ..common.frames import TEST_SET, DataFrame, Table
from ..common.preflight import Preflight, Refusal, Together
from ..common.provenance import LabelPrivacy
from ..protocols.joined_tables import LABEL, Alignment, share_blocks
from ..protocols.prediction_frames import check_true_labels, column_of, prediction_frame, show_scored
from ..protocols.score_counts import CountedScores
from ..protocols.shared_descent import JointColumns, exchange_keys
from .agreement import SharedRows, check_two_parties, dataset_of
from .model import JoinedModel
from .scoring import leading_bits, opened_scores, score_modulus, score_shares
from .settings import Prediction
from .training import Side

PURPOSE = "scores of joined rows"


@dataclass(frozen=True)
class JoinedScoreRelease(CountedScores):
    """One model's scores of the rows of one alignment.

    Where both parties know the weights, scores that are opened again are the same to the last bit. Otherwise they are
    rounded anew, each time at other places, so that every opening tells more, and counts.
    """

    rows: int
    digest: str

    @classmethod
    def of(
        cls, home: PartyHome, job: JobReference, alignment: Alignment, reveal: str, origin: str
    ) -> "JoinedScoreRelease":
        """For the model of this ``origin``, a name that the host itself chose: no other party can give one twice."""
        columns, named = list(alignment.own), [origin, alignment.session]
        if reveal != "both":
            named.append(job.task_id)
        dataset = dataset_of(home, alignment)
        cap = home.policy.score_cap(dataset, len(columns), home.ledger.related(dataset))
        return cls(home, job, dataset, cap, alignment.rows, hashlib.sha256(" ".join(named).encode()).hexdigest())

    def check(self) -> None:
        """Refuse, before any work, what the cap does not allow."""
        self.check_cap(int(self.is_new(self.digest)))

    def record(self) -> None:
        self.count(self.digest, PURPOSE, self.rows)


@dataclass
class JoinedScoringPreflight(Preflight):
    """What both parties check alike, and keep: the model, and this party's shares of the rows."""

    settings: Prediction
    document: Document
    frame: DataFrame
    alignment: Document
    model: JoinedModel = field(init=False)
    rows: SharedRows = field(init=False)

    def check(self) -> Document:
        self.model, self.rows = JoinedModel.from_json(self.document), SharedRows.of(self.frame, self.alignment)
        alignment = self.rows.alignment
        if list(self.model.header) != self.rows.features or self.model.own_columns != alignment.own:
            raise Refusal("The columns that align joined must be those of the model in their order.")
        self.rows.refuse_hidden_size("Rows are to be scored")
        self.key_length = self.settings.he_param["key_length"]
        return {}


@dataclass
class JoinedScoringGuestPreflight(JoinedScoringPreflight):
    """The guest's checks; ``labels`` is what its ledger knew of the labels when align joined them."""

    labels: LabelPrivacy | None = field(init=False)

    def check(self) -> Document:
        super().check()
        self.labels = self.rows.label_privacy()
        check_true_labels(self.settings.true_labels, self.rows.alignment.labelled, self.labels)
        return {}

    def commit(self, hosts: dict[str, Document]) -> Document:
        (facts,) = hosts.values()
        if facts["run"] != self.model.run:
            raise Refusal("The input_model of guest and host do not come from the same training.")
        self.rows.check_same(hosts)
        found = facts["key_length"]
        if found != self.key_length:
            raise Refusal(
                f"he_param.key_length is {found} at the host and {self.key_length} at the guest; set one at both."
            )
        return {}


@dataclass
class JoinedScoringHostPreflight(JoinedScoringPreflight):
    """The host's checks; ``release`` is its consent."""

    release: JoinedScoreRelease = field(init=False)

    def check(self) -> Document:
        super().check()
        model, home, job = self.model, home_of(self.ctx), job_of(self.ctx)
        self.release = JoinedScoreRelease.of(home, job, self.rows.alignment, model.reveal, model.origin)
        self.release.check()
        return {"run": model.run, "rows": self.rows.facts(), "key_length": self.key_length}


def predict_guest(
    ctx: Context, settings: Prediction, document: Document, frame: DataFrame, alignment: Document
) -> DataFrame:
    check_two_parties(ctx)
    checks = JoinedScoringGuestPreflight(ctx, settings, document, frame, alignment)
    checks.agree()
    scored = take_scores(ctx, checks.rows, checks.model, document, TEST_SET, checks.key_length)
    show_scored(ctx, scored, document, checks.labels, settings.true_labels)
    return scored


def predict_host(ctx: Context, settings: Prediction, document: Document, frame: DataFrame, alignment: Document) -> None:
    """Records the release in this host's ledger, then opens this host's share of scores and labels to the guest."""
    check_two_parties(ctx)
    checks = JoinedScoringHostPreflight(ctx, settings, document, frame, alignment)
    checks.agree()
    give_scores(ctx, checks.release, checks.rows, checks.model, checks.key_length)


def take_scores(
    ctx: Context, rows: SharedRows, model: JoinedModel, document: Document, dataset_type: str, key_length: int
) -> DataFrame:
    """At the guest: the prediction frame in FATE's format, once the host has counted."""
    Together(ctx)("release", lambda: None)
    ctx, modulus = ctx.sub_ctx("predict"), score_modulus(len(model.factors))
    own, received = _score_shares(ctx, rows, model, key_length), ctx.hosts[0].get("score_shares")
    scores = own.join(received, partial(opened_scores, modulus=modulus))
    scored = rows.frame.create_frame()
    if opens_labels(rows, model):
        opened = share_blocks(rows.frame, [LABEL]).join(
            ctx.hosts[0].get("label_shares"),
            lambda own, other: (own + other)[:, 0].astype(np.float64) * 2.0**-FRACTION_BITS,
        )
        only = scored.create_frame()
        only[LABEL] = column_of(opened)
        scored.label = only
    return prediction_frame(scored, [scores], document, dataset_type)


def give_scores(
    ctx: Context, release: JoinedScoreRelease, rows: SharedRows, model: JoinedModel, key_length: int
) -> None:
    """At the host: count, then send the leading bits of its share of every score, and its share of every label.

    If another job took what was left of the cap, the guest learns of it, too.
    """
    Together(ctx)("release", release.record)
    ctx, modulus = ctx.sub_ctx("predict"), score_modulus(len(model.factors))
    shares = _score_shares(ctx, rows, model, key_length)
    ctx.guest.put("score_shares", shares.mapValues(partial(leading_bits, modulus=modulus)))
    if opens_labels(rows, model):
        ctx.guest.put("label_shares", share_blocks(rows.frame, [LABEL]))


def opens_labels(rows: SharedRows, model: JoinedModel) -> bool:
    """Labels that are classes, but not numbers: those would tell the guest which of its records matched."""
    return rows.alignment.labelled and model.family == "binomial"


def _score_shares(ctx: Context, rows: SharedRows, model: JoinedModel, key_length: int) -> Table:
    weights = len(model.factors)
    columns = JointColumns.of(ctx, (weights, 0))
    keys = Together(ctx)("keys sent", partial(exchange_keys, ctx.sub_ctx("keys"), columns, key_length))
    side = Side.of(ctx, keys, columns)
    return score_shares(side, share_blocks(rows.frame, model.factors), weights, model.weights, model.reveal)
