"""Prediction of rows that the hosts do not have: encrypted scoring, E(x) -> E(w.x); one function per role.

The guest's table holds **all** columns of the model: its own, and those of every host. The guest encrypts a host's
columns under a key pair made for this task alone, the host answers with the encrypted sums over its weights (see
`fate_dp.crypto.encrypted_scoring`), the guest decrypts and adds its own part. The hosts' own tables are not read.

- **The guest learns** each host's part of every row's score: one linear equation for that host's weights per row. As
  many independent rows as the host has features solve for all of them, and about half as many by lattice reduction. So
  the host's ledger counts the rows, one for each of more than two classes, and the host answers up to a cap
  (`AskedRows`).
- **A host learns** how many rows were asked; no id, value or score. Messages are cut by row number, so that their
  sizes do not show how FATE spread the ids.
- **The guest must know** the names of the hosts' columns: it finds them by an ordinary hash of each host's header,
  which a guest that does not know them could use to confirm a guess.

All are semi-honest. A guest that is not can ask for more than scores, see `fate_dp.crypto.encrypted_scoring`.
"""

from __future__ import annotations

import hashlib
import logging
import operator
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fate_dp.crypto.encrypted_scoring import encrypt_queries, open_scores, score_queries
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair
from fate_dp.crypto.slots import MAGNITUDE_BITS
from fate_dp.privacy.ledger.database import WEIGHTS

from ..common.charges import JobReference, PartyHome, columns_name, home_of, job_of
from ..common.frames import check_features
from ..common.provenance import LabelPrivacy
from ..protocols.federation import check_roles
from ..protocols.prediction_frames import prediction_frame, show_scored
from ..protocols.preflight import Preflight, PrivateReason
from .model import columns_of, has_intercept, header_of
from .predict import check_same_models, check_scored_labels, required_table
from .rows import UNIT, Block, Table, prepare_rows, scores
from .scores import contexts_of_models
from .terms import Facts

if TYPE_CHECKING:
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame

logger = logging.getLogger(__name__)

PURPOSE = "encrypted scoring"
ROWS_PER_MESSAGE = 72
"""Four full ciphertexts of answers at 2048 bits, where 18 scores fit into each."""


@dataclass(frozen=True)
class AskedRows:
    """A host's consent to score rows that it does not see, counted row by row in its ledger over all jobs.

    Each score is one linear equation for the weights, so that as many rows as the host has features solve for them. All
    models on one column count together: whoever submits jobs can train again and get nearly the same weights, and the
    equations of both models with them. The rows are ciphertexts to the host, so equal ones count like different ones.
    """

    home: PartyHome
    job: JobReference
    dataset: str
    cap: int

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, header: Sequence[str]) -> AskedRows:
        dataset = f"{WEIGHTS}{columns_name(header)}"
        # Columns of weights have names of their own: showing scores of training rows counts against another cap.
        home.ledger.remember_weights(dataset, [f"weight of {column}" for column in header])
        return cls(home, job, dataset, home.policy.score_cap(dataset, len(header), home.ledger.related(dataset)))

    def left(self) -> int:
        """How many more rows the host would score."""
        return max(0, self.cap - self.home.ledger.scores_released(self.dataset))

    def record(self, rows: int) -> None:
        """Count ``rows`` before they are scored.

        Raises:
            LedgerError: beyond the cap, where another job took what was left; what was counted stays counted.
        """
        self.home.ledger.check_scores(dataset=self.dataset, planned=rows, cap=self.cap)
        for _ in range(rows):
            self.home.ledger.record_scores(
                dataset=self.dataset,
                weights_digest=secrets.token_hex(16),
                purpose=PURPOSE,
                rows=1,
                cap=self.cap,
                job_id=self.job.job_id,
                task_id=self.job.task_id,
            )


@dataclass
class GuestPreflight(Preflight):
    """The guest's checks.

    Attributes:
        labels: what its ledger knows of the labels of the rows.
        columns: {host: its columns of the table}.
    """

    document: dict
    frame: DataFrame | None
    true_labels: bool
    labels: LabelPrivacy | None = field(init=False)
    columns: dict[str, list[str]] = field(init=False)

    def check(self) -> dict:
        frame = check_asked_rows(self.frame, header_of(self.document))
        self.labels = check_scored_labels(home_of(self.ctx), frame, self.true_labels)
        return {}

    def commit(self, hosts: Facts) -> dict:
        frame, own = required_table(self.frame), header_of(self.document)
        self.columns = columns_by_host(frame.schema.columns.to_list(), own, hosts)
        check_same_models(self.document, hosts)
        check_caps(frame.shape[0], len(columns_of(self.document)), hosts)
        return {"rows": frame.shape[0]}


@dataclass
class HostPreflight(Preflight):
    """A host's checks; ``asked`` is its consent."""

    header: Sequence[str]
    weights: Sequence[np.ndarray]
    asked: AskedRows = field(init=False)

    def check(self) -> dict:
        if not np.all(np.abs(self.weights) < 2.0**MAGNITUDE_BITS):
            raise PrivateReason(
                f"A weight reaches a magnitude of 2^{MAGNITUDE_BITS}; standardise the features and train again.",
                public="The host's model cannot be used with scoring encrypted; its operator can see why.",
            )
        self.asked = asked = AskedRows.of(home_of(self.ctx), job_of(self.ctx), self.header)
        left = asked.left()
        logger.info(
            "%r in score_caps: %d rows may be scored in all, %d of them are left", asked.dataset, asked.cap, left
        )
        return {
            "features": len(self.header),
            "header_digest": header_digest(self.header),
            "rows_left": left,
            "models": len(self.weights),
        }


def predict_guest(
    ctx: Context, document: dict, frame: DataFrame | None, key_length: int, true_labels: bool
) -> DataFrame:
    """Returns the prediction frame in FATE's format, and shows figures, as the other kind of prediction does."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_roles(ctx, arbiter=False)
    weights = columns_of(document)
    checks = GuestPreflight(ctx, document, frame, true_labels)
    checks.agree()
    hosts_parts = _ask_hosts(ctx.sub_ctx("predict"), frame, checks.columns, len(weights), key_length)
    own = frame[header_of(document)]  # type: ignore[index]  # the preflight refused None
    rows = prepare_rows(own, fit_intercept=has_intercept(document), with_label=False)
    joint = [
        scores(rows, of_model).join(rows.mapValues(partial(_within, column=hosts_part)), operator.add)
        for of_model, hosts_part in zip(weights, hosts_parts)
    ]
    scored = prediction_frame(frame, joint, document, TEST_SET)
    show_scored(ctx, scored, document, checks.labels, true_labels)
    return scored


def predict_host(ctx: Context, document: dict, frame: DataFrame | None) -> None:
    """Counts the rows in this host's ledger, then answers; ``frame`` is not read."""
    check_roles(ctx, arbiter=False)
    weights = columns_of(document)
    if frame is not None:
        logger.info("scoring is encrypted: this host's test_data is not read")
    checks = HostPreflight(ctx, header_of(document), weights)
    rows = checks.agree()["rows"]
    checks.asked.record(rows * len(weights))
    _answer_guest(ctx.sub_ctx("predict"), weights, rows)


def predict_arbiter(ctx: Context) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    check_roles(ctx, arbiter=False)
    Preflight(ctx).agree()


def header_digest(names: Sequence[str]) -> str:
    """SHA-256 of column names in order."""
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()


def check_asked_rows(frame: DataFrame | None, own: Sequence[str]) -> DataFrame:
    """The guest's table needs rows, sound features, and the guest's own columns; the hosts' are not known yet."""
    if frame is None:
        raise ValueError("The guest has no test_data; it must bring the rows to score, with all columns of the model.")
    if frame.shape[0] == 0:
        raise ValueError("The guest's table has no rows to score.")
    names = set(frame.schema.columns)
    missing = [name for name in own if name not in names]
    if missing:
        raise _wrong_columns(f"The table lacks the column {missing[0]!r} of the guest's own model.")
    check_features(frame)
    return frame


def columns_by_host(names: Sequence[str], own: Sequence[str], hosts: Facts) -> dict[str, list[str]]:
    """{host: its columns in the order of its model}, found in the guest's table without any host naming them.

    Args:
        names: columns of the table in order.
        own: those of the guest's model, wherever they stand.
        hosts: {host: facts}; each host's columns must stand together, in whichever order of hosts.

    Raises:
        PrivateReason: the other columns are not those of the hosts.
    """
    others = [name for name in names if name not in set(own)]
    wanted = sum(facts["features"] for facts in hosts.values())
    if len(others) != wanted:
        raise _wrong_columns(
            f"The table has {len(others)} columns beside the guest's own, but the models of the hosts have {wanted}."
        )
    found: dict[str, list[str]] = {}
    at = 0
    while len(found) < len(hosts):
        ahead = {host: others[at : at + facts["features"]] for host, facts in hosts.items() if host not in found}
        host = next((host for host in ahead if header_digest(ahead[host]) == hosts[host]["header_digest"]), None)
        if host is None:
            raise _wrong_columns(
                f"From {others[at]!r} on, the table has other columns than {' and '.join(ahead)}; beside the guest's "
                "own, a host's columns must stand together, with the names and in the order of its model."
            )
        found[host], at = ahead[host], at + hosts[host]["features"]
    return found


def check_caps(rows: int, models: int, hosts: Facts) -> None:
    """Every host must still consent to scoring so many rows, each by so many models."""
    what = f"{rows} rows" if models == 1 else f"{rows} rows by {models} models, {rows * models} scores,"
    for name, facts in hosts.items():
        if rows * models > facts["rows_left"]:
            raise ValueError(
                f"This job asks {name} to score {what} with its weights, but it allows only "
                f"{facts['rows_left']} more; ask for fewer rows, or ask its operator, who changes that with `fate-dp cap`."
            )


def _wrong_columns(sentence: str) -> PrivateReason:
    return PrivateReason(sentence, public="The guest's table does not have the columns of the model.")


def _ask_hosts(
    ctx: Context, frame: DataFrame, columns: dict[str, list[str]], models: int, key_length: int
) -> list[np.ndarray]:
    """At the guest: for every model the sum of all hosts' parts of the scores, float64 (rows,) in global row order."""
    rows, (_, private_key) = frame.shape[0], generate_keypair(key_length)
    ctx.hosts.put("public_key", private_key.to_wire())
    for host in ctx.hosts:
        features = _in_messages(frame[columns[_name(host)]])
        host.put("queries", features.mapValues(partial(encrypt_queries, encryption=private_key.encryption())))
    return [
        sum((_opened(host.get("answers"), rows, private_key) for host in of_model.hosts), np.zeros(rows))
        for of_model in contexts_of_models(ctx, models)
    ]


def _answer_guest(ctx: Context, columns: Sequence[np.ndarray], rows: int) -> None:
    """At a host: score what was counted by every model, and nothing more."""
    public_key = PublicKey.from_wire(ctx.guest.get("public_key"))
    queries = ctx.guest.get("queries")
    row_bytes = len(columns[0]) * public_key.ciphertext_bytes
    asked = queries.mapValues(partial(_rows_of, row_bytes=row_bytes)).reduce(operator.add)
    if asked != rows:
        raise ValueError(f"The guest sent {asked} rows but had announced {rows}; this host scores what it has counted.")
    for of_model, weights in zip(contexts_of_models(ctx, len(columns)), columns):
        answers = queries.mapValues(partial(score_queries, weights=weights, public_key=public_key))
        of_model.guest.put("answers", answers)


def _opened(answers: Table, rows: int, private_key: PrivateKey) -> np.ndarray:
    opened = np.concatenate([open_scores(answer, private_key) for _, answer in sorted(answers.collect())])
    if len(opened) != rows:
        raise ValueError(f"A host answered with {len(opened)} scores for {rows} rows; they must be as many.")
    return opened


def _in_messages(frame: DataFrame) -> Table:
    """Table message number -> float64 (rows, m): rows cut by their global number, whatever blocks they lie in."""
    pieces = prepare_rows(frame, fit_intercept=False, with_label=False).mapReducePartitions(_cut, operator.add)
    return pieces.mapValues(_put_together)


def _cut(blocks: Iterable[tuple[Any, Block]]) -> Iterator[tuple[int, list[tuple[int, np.ndarray]]]]:
    for _, block in blocks:
        last = block.start + len(block.features)
        for message in range(block.start // ROWS_PER_MESSAGE, -(-last // ROWS_PER_MESSAGE)):
            piece = block.within(message * ROWS_PER_MESSAGE, (message + 1) * ROWS_PER_MESSAGE)
            yield message, [(piece.start, piece.features)]


def _put_together(pieces: list[tuple[int, np.ndarray]]) -> np.ndarray:
    ordered = [features for _, features in sorted(pieces, key=operator.itemgetter(0))]
    return np.vstack(ordered) * UNIT


def _rows_of(message: bytes, row_bytes: int) -> int:
    # The header of a message is shorter than a row. That the rest is whole rows is checked when they are scored.
    return len(message) // row_bytes


def _within(block: Block, column: np.ndarray) -> np.ndarray:
    return column[block.start : block.start + len(block.features)]


def _name(party: Any) -> str:
    return f"{party.role} {party.party[1]}"
