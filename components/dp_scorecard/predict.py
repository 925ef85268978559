"""The stage predict of dp_scorecard: every host's part of a record's points, which are whole numbers, at the guest.

The guest knows the points of all bins. A host's part is the sum of one number for each of its columns, and says of the
record's bins what that sum says: with the usual scale some six bits. So a host counts how many different scorecards it
shows of training records, over all jobs, and refuses more than its operator's cap; others it notes.

Scoring plain is of rows of which the guest has all columns, binned. It needs nothing of the hosts, since the guest has the
points of all bins; encrypted scoring, which would hide a host's points from the guest, has therefore nothing left to hide.
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fate_dp.privacy.mechanisms.contingency_tables import BinnedRows

from ..common import frames
from ..common.charges import JobReference, PartyHome, home_of, job_of
from ..common.federation import Context, Document, check_roles, data_parties, name_of
from ..common.frames import TEST_SET, DataFrame, Table
from ..common.preflight import Preflight, Refusal, require_same
from ..common.provenance import LabelPrivacy, refuse_true_labels_of_released_records
from ..protocols.prediction_frames import check_true_labels, prediction_frame, require_table, show_scored
from ..protocols.score_counts import CountedScores
from .model import Points, Scorecard
from .settings import JOINT, PLAIN, PredictSettings
from .tables import NOT_NUMERIC, Binned, binned_rows

PURPOSE = "points of training rows"


@dataclass(frozen=True)
class ShownPoints(CountedScores):
    """A host's consent to show its part of the points of one table, by one scorecard."""

    frame: DataFrame
    digest: str

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, frame: DataFrame, card: Scorecard) -> "ShownPoints":
        content = np.ascontiguousarray(card.own.points, dtype="<i8").tobytes()
        digest = hashlib.sha256(content + frames.content_digest(frame, home.key)).hexdigest()
        return cls(home, job, *cls.of_table(home, frame), frame, digest)

    def check(self) -> None:
        """Refuse training rows whose points the cap does not allow, before any work."""
        if self.touches_training(self.frame):
            self.check_cap(int(self.is_new(self.digest)))

    def record(self) -> None:
        rows = self.frame.shape[0]
        if self.touches_training(self.frame):
            self.count(self.digest, PURPOSE, rows)
        else:
            self.note_prediction(self.digest, rows)


@dataclass
class PointsGuestPreflight(Preflight):
    """The guest's checks; ``labels`` is what its ledger knows of the labels of the rows."""

    settings: PredictSettings
    document: Document
    frame: DataFrame
    card: Scorecard = field(init=False)
    rows: Table = field(init=False)
    labels: LabelPrivacy | None = field(init=False)

    def check(self) -> Document:
        self.card = self.scorecard()
        self.rows = binned_table(self.frame, self.card)
        self.labels = refuse_true_labels_of_released_records(home_of(self.ctx), self.frame)
        check_true_labels(self.settings.true_labels, self.frame.schema.label_name is not None, self.labels)
        return {}

    def scorecard(self) -> Scorecard:
        return Scorecard.from_json(self.document)

    def commit(self, hosts: dict[str, Document]) -> Document:
        require_same({"scoring": self.settings.scoring}, hosts)
        frames.check_aligned(self.frame, hosts)
        for name in (name_of(party) for party in data_parties(self.ctx)[1:]):
            known = self.card.hosts.get(name)
            if known is None or hosts[name]["points"] != points_digest(known.points):
                raise Refusal(
                    f"input_model of the guest and of {name} are not of one training; take those of the same task."
                )
        if len(hosts) != len(self.card.hosts):
            allowed = f"{len(self.card.hosts)}, all whose columns the scorecard has"
            raise Refusal.of("number of hosts", len(hosts), allowed)
        return {}


@dataclass
class PlainPreflight(PointsGuestPreflight):
    """The guest's checks where it has all columns: its own, then those of every host in the order of the model."""

    def scorecard(self) -> Scorecard:
        require_table(self.frame, PLAIN)
        card, names = super().scorecard(), self.frame.schema.columns.to_list()
        parts = [card.own, *card.hosts.values()]
        columns = sum(len(part.counts) for part in parts)
        if len(names) != columns or names[: len(card.own.names)] != list(card.own.names):
            raise Refusal(
                f"scoring is plain, and the guest's table must have all {columns} columns of the scorecard: its own by name, "
                f"then those of {', '.join(card.hosts)} in the order of their tables."
            )
        joined = Points(
            tuple(names),
            tuple(count for part in parts for count in part.counts),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.points for part in parts]),
        )
        return replace(card, own=joined, hosts={})

    def commit(self, hosts: dict[str, Document]) -> Document:
        require_same({"scoring": self.settings.scoring}, hosts)
        return {}


@dataclass
class PlainHost(Preflight):
    """A host that nothing is asked of."""

    def check(self) -> Document:
        return {"scoring": PLAIN}


@dataclass
class PointsHostPreflight(Preflight):
    """A host's checks; ``shown`` is its consent."""

    document: Document
    frame: DataFrame
    card: Scorecard = field(init=False)
    rows: Table = field(init=False)
    shown: ShownPoints = field(init=False)

    def check(self) -> Document:
        require_table(self.frame, PLAIN)
        frames.refuse_label(self.frame)
        self.card = Scorecard.from_json(self.document)
        self.rows = binned_table(self.frame, self.card)
        self.shown = ShownPoints.of(home_of(self.ctx), job_of(self.ctx), self.frame, self.card)
        self.shown.check()
        return {
            "scoring": JOINT,
            "digest": frames.alignment_digest(self.frame),
            "points": points_digest(self.card.own.points),
        }


def binned_table(frame: DataFrame, card: Scorecard) -> Table:
    """The rows' bins; raises ValueError unless the table has the scorecard's columns, with bins that it knows."""
    require_table(frame, PLAIN)
    frames.require_rows(frame)
    names = frame.schema.columns.to_list()
    if list(card.own.names) != names:
        raise Refusal("The table's columns must be those of the scorecard in their order.")
    frames.require_numeric(frame, NOT_NUMERIC)
    return binned_rows(frame, BinnedRows(card.own.counts))


def points_digest(points: np.ndarray) -> str:
    """By which both parties see that their documents are of one training."""
    return hashlib.sha256(np.ascontiguousarray(points, dtype="<i8").tobytes()).hexdigest()


def predict_guest(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame | None) -> DataFrame:
    """Returns the prediction frame in FATE's format; the score is P(y = 1)."""
    check_roles(ctx, arbiter=False)
    checks = (PlainPreflight if settings.scoring == PLAIN else PointsGuestPreflight)(ctx, settings, document, frame)
    checks.agree()
    card = checks.card
    if settings.scoring == PLAIN:
        total = checks.rows.mapValues(partial(_points, card=card, base=card.base))
    else:
        total = ask_points(ctx.sub_ctx("predict"), checks.rows, card)
    scored = prediction_frame(frame, [total.mapValues(card.scale.log_odds)], document, TEST_SET)
    show_scored(ctx, scored, document, checks.labels, settings.true_labels)
    return scored


def predict_host(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame | None) -> None:
    """Counts the release in this host's ledger, then sends its part of every record's points; with scoring plain neither."""
    check_roles(ctx, arbiter=False)
    if settings.scoring == PLAIN:
        PlainHost(ctx).agree()
        return
    checks = PointsHostPreflight(ctx, document, frame)
    checks.agree()
    checks.shown.record()
    give_points(ctx.sub_ctx("predict"), checks.rows, checks.card)


def ask_points(ctx: Context, rows: Table, card: Scorecard) -> Table:
    """At the guest: table of arrays (rows,), the points of every record by all parties' bins."""
    total = rows.mapValues(partial(_points, card=card, base=card.base))
    for part in ctx.hosts.get("scores"):
        total = total.join(part, _added)
    return total


def give_points(ctx: Context, rows: Table, card: Scorecard) -> None:
    """At a host: its part of every record's points. The caller has counted them."""
    ctx.guest.put("scores", rows.mapValues(partial(_points, card=card, base=0)))


def _points(block: Binned, card: Scorecard, base: int) -> np.ndarray:
    return card.own.of_rows(block.places) + base


def _added(own: np.ndarray, received: object) -> np.ndarray:
    if not isinstance(received, np.ndarray) or received.dtype.kind != "i" or received.shape != own.shape:
        raise ValueError(f"A host sent something else than whole points of {len(own)} rows.")
    total: np.ndarray = own + received
    return total
