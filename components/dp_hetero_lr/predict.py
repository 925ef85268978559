"""Prediction: the guest gets X_h w_h from each host and holds the joint scores.

Scoring joint is of rows of which every party has its columns, scoring encrypted of rows that the guest alone has.
"""

import hashlib
import logging
import operator
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from fate_dp.crypto.encrypted_scoring import encrypt_queries, open_scores, score_queries
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair
from fate_dp.crypto.slots import MAGNITUDE_BITS
from fate_dp.privacy.ledger.database import WEIGHTS

from ..common import frames
from ..common.charges import JobReference, PartyHome, columns_name, home_of, job_of
from ..common.federation import Context, Document, check_roles, name_of
from ..common.frames import TEST_SET, DataFrame, Table
from ..common.preflight import Preflight, Refusal
from ..common.provenance import LabelPrivacy, refuse_true_labels_of_released_records, remember_scores
from ..protocols.prediction_frames import check_true_labels, prediction_frame, require_table, show_scored
from ..protocols.score_counts import CountedScores
from .agreement import Facts
from .model import check_header, columns_of, has_intercept, header_of, units_of
from .rows import UNIT, Block, Units, prepare_rows, refusal
from .scores import ScoreRelease, ask_scores, contexts_of_models
from .settings import PredictSettings

logger = logging.getLogger(__name__)

PURPOSE = "encrypted scoring"
ROWS_PER_MESSAGE = 72
"""Four full ciphertexts of answers at 2048 bits, where 18 scores fit into each."""


@dataclass
class ScoringGuestPreflight(Preflight):
    """The guest's checks; ``labels`` is what its ledger knows of the labels of the rows."""

    settings: PredictSettings
    document: Document
    frame: DataFrame
    labels: LabelPrivacy | None = field(init=False)

    def check(self) -> Document:
        """Refuses true labels of records whose flips were released, and ``true_labels`` of flips or missing ones."""
        self.check_rows()
        self.labels = refuse_true_labels_of_released_records(home_of(self.ctx), self.frame)
        check_true_labels(self.settings.true_labels, self.frame.schema.label_name is not None, self.labels)
        return {}

    def check_rows(self) -> None:
        require_table(self.frame, "encrypted")
        check_scored_rows(self.frame, header_of(self.document), units_of(self.document))

    def commit(self, hosts: Facts) -> Document:
        frames.check_aligned(self.frame, hosts)
        self.check_models(hosts)
        return {}

    def check_models(self, hosts: Facts) -> None:
        """Hosts' models must be of as many classes, or messages would be waited for that nobody sends."""
        own = len(columns_of(self.document))
        for name, facts in hosts.items():
            if facts["models"] != own:
                raise Refusal(
                    f"input_model of the guest holds {own} models, that of {name} {facts['models']}; take those of one training."
                )


@dataclass
class ScoringHostPreflight(Preflight):
    """A host's checks; ``release`` is its consent.

    Few rows take few values: whether columns do was seen when the model was trained.
    """

    document: Document
    columns: Sequence[np.ndarray]
    frame: DataFrame
    release: ScoreRelease = field(init=False)

    def check(self) -> Document:
        require_table(self.frame, "encrypted")
        frames.refuse_label(self.frame)
        units = units_of(self.document)
        check_scored_rows(self.frame, header_of(self.document), units)
        shown = ScoreRelease.of(home_of(self.ctx), job_of(self.ctx), self.frame)
        self.release = release = replace(shown, units=units)
        if self.document["meta"].get("few_valued") and not release.home.policy.consents_to_few_values(release.dataset):
            raise Refusal(refusal("The host"))
        release.check(self.frame, self.columns)
        return {"digest": frames.alignment_digest(self.frame), "models": len(self.columns)}


def predict_guest(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame) -> DataFrame:
    """Returns the prediction frame in FATE's format."""
    check_roles(ctx, arbiter=False)
    checks = ScoringGuestPreflight(ctx, settings, document, frame)
    checks.agree()
    scores = ask_scores(ctx.sub_ctx("predict"), frame, document, settings.score_step)
    scored = prediction_frame(frame, scores, document, TEST_SET)
    remember_scores(home_of(ctx), scored, document)
    show_scored(ctx, scored, document, checks.labels, settings.true_labels)
    return scored


def predict_host(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame) -> None:
    """Records the release in this host's ledger, then sends this host's part of the scores, rounded."""
    check_roles(ctx, arbiter=False)
    columns = columns_of(document)
    checks = ScoringHostPreflight(ctx, document, columns, frame)
    checks.agree()
    checks.release.record_prediction(frame, columns)
    checks.release.give(ctx.sub_ctx("predict"), frame, columns, settings.score_step)


def predict_arbiter(ctx: Context) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    check_roles(ctx, arbiter=False)
    Preflight(ctx).agree()


def check_scored_rows(frame: DataFrame, header: Sequence[str], units: Units) -> None:
    """Rows to be scored need the model's columns and sound values; a constant column is no harm here."""
    frames.require_rows(frame)
    check_header(header, frame.schema.columns)
    units.check(frame)


# Rows that the hosts do not have: encrypted scoring, E(x) -> E(w.x).
#
# The guest's table holds **all** columns of the model: its own, and those of every host. The guest encrypts a host's
# columns under a key pair made for this task alone, the host answers with the encrypted sums over its weights (see
# `fate_dp.crypto.encrypted_scoring`), the guest decrypts and adds its own part. The hosts' own tables are not read.
#
# - **The guest learns** each host's part of every row's score: one linear equation for that host's weights per row. As
#   many independent rows as the host has features solve for all of them, and about half as many by lattice reduction. So
#   the host's ledger counts the rows, one for each of more than two classes, up to a cap (`AskedRows`).
#   The guest also learns the scales of its columns, powers of two, see `rows.Units`.
# - **A host learns** how many rows were asked; no id, value or score. Messages are cut by row number, so that their
#   sizes do not show how FATE spread the ids.
# - **The guest must know** the names of the hosts' columns: it finds them by an ordinary hash of each host's header,
#   which a guest that does not know them could use to confirm a guess.
#
# All are semi-honest. A guest that is not can ask for more than scores, see `fate_dp.crypto.encrypted_scoring`.


@dataclass(frozen=True)
class AskedRows(CountedScores):
    """A host's consent to score rows that it does not see, counted row by row.

    All models on one column count together: whoever submits jobs can train again and get nearly the same weights, and the
    equations of both models with them. The rows are ciphertexts to the host, so equal ones count like different ones.
    """

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, header: Sequence[str]) -> "AskedRows":
        dataset = f"{WEIGHTS}{columns_name(header)}"
        # Columns of weights have names of their own: showing scores of training rows counts against another cap.
        home.ledger.remember_weights(dataset, [f"weight of {column}" for column in header])
        return cls(home, job, dataset, home.policy.score_cap(dataset, len(header), home.ledger.related(dataset)))

    def record(self, rows: int) -> None:
        """Count ``rows`` before they are scored; LedgerError beyond the cap, where what was counted stays counted."""
        self.check_cap(rows)
        for _ in range(rows):
            self.count(secrets.token_hex(16), PURPOSE, rows=1)


@dataclass
class EncryptedGuest(ScoringGuestPreflight):
    """The guest's checks; ``columns`` are {host: its columns of the table}, ``units`` what it counts them in."""

    columns: dict[str, list[str]] = field(init=False)
    units: dict[str, Units] = field(init=False)

    def check_rows(self) -> None:
        """The guest's table needs rows, sound features, and the guest's own columns; the hosts' are not known yet."""
        if self.frame is None:
            raise Refusal("The guest has no test_data. Give it the rows to score, with all columns of the model.")
        if self.frame.shape[0] == 0:
            raise Refusal("The guest's table has no rows to score.")
        names = set(self.frame.schema.columns)
        missing = next((name for name in header_of(self.document) if name not in names), None)
        if missing is not None:
            raise ValueError(f"The table lacks the column {missing!r} of the guest's own model.")
        frames.check_features(self.frame, scale=frames.ANY_UNIT)
        units_of(self.document).check(self.frame[header_of(self.document)])

    def commit(self, hosts: Facts) -> Document:
        rows, models = self.frame.shape[0], len(columns_of(self.document))
        self.columns = columns_by_host(self.frame.schema.columns.to_list(), header_of(self.document), hosts)
        self.units = {name: Units.scaled(facts["scales"], facts["features"]) for name, facts in hosts.items()}
        for name, units in self.units.items():
            units.check(self.frame[self.columns[name]])
        self.check_models(hosts)
        what = f"{rows} rows" if models == 1 else f"{rows} rows by {models} models, {rows * models} scores,"
        for name, facts in hosts.items():
            if rows * models > facts["rows_left"]:
                raise Refusal(
                    f"This job asks {name} to score {what} with its weights, but it allows only "
                    f"{facts['rows_left']} more; ask for fewer rows, or ask its operator, who changes that with `fate-dp cap`."
                )
        return {"rows": rows}


@dataclass
class EncryptedHost(Preflight):
    """A host's checks; ``asked`` is its consent."""

    header: Sequence[str]
    weights: Sequence[np.ndarray]
    units: Units
    asked: AskedRows = field(init=False)

    def check(self) -> Document:
        if not np.all(np.abs(self.weights) < 2.0**MAGNITUDE_BITS):
            raise ValueError(
                f"A weight reaches a magnitude of 2^{MAGNITUDE_BITS}; standardise the features and train again."
            )
        self.asked = asked = AskedRows.of(home_of(self.ctx), job_of(self.ctx), self.header)
        left = asked.left()
        logger.info(
            "%r in score_caps: %d rows may be scored in all, %d of them are left", asked.dataset, asked.cap, left
        )
        return {
            "features": len(self.header),
            "header_digest": header_digest(self.header),
            "scales": self.units.scale.tolist(),
            "rows_left": left,
            "models": len(self.weights),
        }


def predict_guest_encrypted(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame) -> DataFrame:
    """Returns the prediction frame in FATE's format, and shows figures, as the other kind of prediction does."""
    check_roles(ctx, arbiter=False)
    weights = columns_of(document)
    checks = EncryptedGuest(ctx, settings, document, frame)
    checks.agree()
    key_length = settings.he_param["key_length"]
    tables = {name: _in_messages(frame[columns], checks.units[name]) for name, columns in checks.columns.items()}
    hosts_parts = _ask_hosts(ctx.sub_ctx("predict"), tables, frame.shape[0], len(weights), key_length)
    rows = prepare_rows(frame[header_of(document)], units_of(document), fit_intercept=has_intercept(document))

    def joint_scores(of_model: np.ndarray, hosts_part: np.ndarray) -> Table:
        return rows.mapValues(lambda block: block.scores(of_model) + block.part_of(hosts_part))

    joint = list(map(joint_scores, weights, hosts_parts))
    scored = prediction_frame(frame, joint, document, TEST_SET)
    show_scored(ctx, scored, document, checks.labels, settings.true_labels)
    return scored


def predict_host_encrypted(ctx: Context, settings: PredictSettings, document: Document, frame: DataFrame) -> None:
    """Counts the rows in this host's ledger, then answers; ``frame`` is not read."""
    check_roles(ctx, arbiter=False)
    weights, units = columns_of(document), units_of(document)
    if frame is not None:
        logger.info("scoring is encrypted: this host's test_data is not read")
    checks = EncryptedHost(ctx, header_of(document), weights, units)
    rows = checks.agree()["rows"]
    checks.asked.record(rows * len(weights))
    _answer_guest(ctx.sub_ctx("predict"), weights, rows, units)


def header_digest(names: Sequence[str]) -> str:
    """SHA-256 of column names in order."""
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()


def columns_by_host(names: Sequence[str], own: Sequence[str], hosts: Facts) -> dict[str, list[str]]:
    """{host: its columns in the order of its model}, found in the guest's table without any host naming them.

    Of the columns ``names`` those of the guest's model, ``own``, may stand anywhere; each host's must stand together, or a ValueError
    says where they do not. A host's column x0 may be called 10000.x0, by the host's party id, where the guest has an x0, too.
    """
    others = [name for name in names if name not in set(own)]
    wanted = sum(facts["features"] for facts in hosts.values())
    if len(others) != wanted:
        raise ValueError(
            f"The table has {len(others)} columns beside the guest's own, but the models of the hosts have {wanted}. Where a "
            "host's column is called like one of the guest's, put the host's party id before it, as in 10000.x0."
        )
    found: dict[str, list[str]] = {}
    at = 0
    while len(found) < len(hosts):
        ahead = {host: others[at : at + facts["features"]] for host, facts in hosts.items() if host not in found}
        host = next((host for host in ahead if hosts[host]["header_digest"] in _digests(host, ahead[host])), None)
        if host is None:
            raise ValueError(
                f"From {others[at]!r} on, the table has other columns than {' and '.join(ahead)}. Beside the guest's own, "
                "put each host's columns together, with the names and in the order of its model."
            )
        found[host], at = ahead[host], at + hosts[host]["features"]
    return found


def _digests(host: str, names: Sequence[str]) -> set[str]:
    """Of columns as they are called, and without the host's party id before their names."""
    party = host.split()[-1]
    return {header_digest(names), header_digest([name.removeprefix(f"{party}.") for name in names])}


def _ask_hosts(ctx: Context, tables: dict[str, Table], rows: int, models: int, key_length: int) -> list[np.ndarray]:
    """At the guest: for every model the sum of all hosts' parts of the scores, float64 (rows,) in global row order."""
    _, private_key = generate_keypair(key_length)
    ctx.hosts.put("public_key", private_key.to_wire())
    for host in ctx.hosts:
        features = tables[name_of(host.party)]
        host.put("queries", features.mapValues(partial(encrypt_queries, encryption=private_key.encryption())))
    return [
        sum((_opened(host.get("answers"), rows, private_key) for host in of_model.hosts), np.zeros(rows))
        for of_model in contexts_of_models(ctx, models)
    ]


def _answer_guest(ctx: Context, columns: Sequence[np.ndarray], rows: int, units: Units) -> None:
    """At a host: score what was counted by every model, and nothing more."""
    public_key = PublicKey.from_wire(ctx.guest.get("public_key"))
    queries = ctx.guest.get("queries")
    row_bytes = len(columns[0]) * public_key.ciphertext_bytes
    # The header of a message is shorter than a row. That the rest is whole rows is checked when they are scored.
    asked = queries.mapValues(lambda message: len(message) // row_bytes).reduce(operator.add)
    if asked != rows:
        raise ValueError(f"The guest sent {asked} rows but had announced {rows}; this host scores what it has counted.")
    for of_model, weights in zip(contexts_of_models(ctx, len(columns)), columns):
        constant = -float(weights @ (units.centre / units.scale))
        answer = partial(score_queries, weights=weights, public_key=public_key, intercept=constant)
        of_model.guest.put("answers", queries.mapValues(answer))


def _opened(answers: Table, rows: int, private_key: PrivateKey) -> np.ndarray:
    opened = np.concatenate([open_scores(answer, private_key) for _, answer in sorted(answers.collect())])
    if len(opened) != rows:
        raise ValueError(f"A host's scores must be one per row, {rows}, got {len(opened)}.")
    return opened


def _in_messages(frame: DataFrame, units: Units | None = None) -> Table:
    """Table message number -> float64 (rows, m): rows cut by their global number, whatever blocks they lie in."""
    return prepare_rows(frame, units).mapReducePartitions(_cut, operator.add).mapValues(_put_together)


def _cut(blocks: Iterable[tuple[object, Block]]) -> Iterator[tuple[int, list[tuple[int, np.ndarray]]]]:
    for _, block in blocks:
        last = block.start + len(block.features)
        for message in range(block.start // ROWS_PER_MESSAGE, -(-last // ROWS_PER_MESSAGE)):
            piece = block.within(message * ROWS_PER_MESSAGE, (message + 1) * ROWS_PER_MESSAGE)
            yield message, [(piece.start, piece.features)]


def _put_together(pieces: list[tuple[int, np.ndarray]]) -> np.ndarray:
    ordered = [features for _, features in sorted(pieces, key=operator.itemgetter(0))]
    return np.vstack(ordered) * UNIT
