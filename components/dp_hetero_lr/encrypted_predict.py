"""Prediction of rows that the hosts do not have: encrypted scoring, E(x) -> E(w.x); one function per role.

The guest's table holds **all** columns of the model: its own, and those of every host. The guest encrypts a host's
columns under a key pair made for this task alone, the host answers with the encrypted sums over its weights (see
`fate_dp.crypto.encrypted_scoring`), the guest decrypts and adds its own part. The hosts' own tables are not read.

- **The guest learns** each host's part of every row's score: one linear equation for that host's weights per row. As
  many independent rows as the host has features solve for all of them, and about half as many by lattice reduction. So
  the host's ledger counts the rows, one for each of more than two classes, and the host answers up to a cap (`AskedRows`).
- **A host learns** how many rows were asked; no id, value or score. Messages are cut by row number, so that their
  sizes do not show how FATE spread the ids.
- **The guest must know** the names of the hosts' columns: it finds them by an ordinary hash of each host's header,
  which a guest that does not know them could use to confirm a guess.

All are semi-honest. A guest that is not can ask for more than scores, see `fate_dp.crypto.encrypted_scoring`.
"""
import hashlib
import logging
import operator
from functools import partial

import numpy as np

from fate_dp.components.common.frame_checks import check_features
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import PrivateReason, agree
from fate_dp.crypto.encrypted_scoring import encrypt_queries, open_scores, score_queries
from fate_dp.crypto.fixed_point import FEATURE_FRACTION_BITS, MAGNITUDE_BITS
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair

from .asked_rows import AskedRows
from .model import columns_of, has_intercept, header_of
from .predict import check_same_models, check_scored_labels, prediction_frame, show_scored
from .rows import prepare_rows, scores
from .scoring import contexts_of_models

logger = logging.getLogger(__name__)

ROWS_PER_MESSAGE = 72
"""Four full ciphertexts of answers at 2048 bits, where 18 scores fit into each."""


def predict_guest(ctx, document: dict, frame, key_length: int, true_labels: bool):
    """Returns the prediction frame in FATE's format, and shows figures, as the other kind of prediction does."""
    from fate.ml.utils.predict_tools import TEST_SET

    check_roles(ctx, arbiter=False)
    own, weights, columns, known = header_of(document), columns_of(document), {}, {}

    def check():
        check_asked_rows(frame, own)
        known["labels"] = check_scored_labels(home_of(ctx), frame, true_labels)
        return {}

    def commit(hosts):
        columns.update(columns_by_host(frame.schema.columns.to_list(), own, hosts))
        check_same_models(document, hosts)
        check_caps(frame.shape[0], len(weights), hosts)
        return {"rows": frame.shape[0]}

    agree(ctx, check, commit)
    hosts_parts = _ask_hosts(ctx.sub_ctx("predict"), frame, columns, len(weights), key_length)
    rows = prepare_rows(frame[own], fit_intercept=has_intercept(document), with_label=False)
    joint = [
        scores(rows, of_model).join(rows.mapValues(partial(_within, column=hosts_part)), operator.add)
        for of_model, hosts_part in zip(weights, hosts_parts)
    ]
    scored = prediction_frame(frame, joint, document, TEST_SET)
    show_scored(ctx, scored, document, known["labels"], true_labels)
    return scored


def predict_host(ctx, document: dict, frame) -> None:
    """Counts the rows in this host's ledger, then answers; ``frame`` is not read."""
    check_roles(ctx, arbiter=False)
    header, weights, known = header_of(document), columns_of(document), {}
    if frame is not None:
        logger.info("scoring is encrypted: this host's test_data is not read")

    def check():
        if not np.all(np.abs(weights) < 2.0**MAGNITUDE_BITS):
            raise PrivateReason(
                f"A weight reaches a magnitude of 2^{MAGNITUDE_BITS}; standardise the features and train again.",
                public="The host's model cannot be used with scoring encrypted; its operator can see why.",
            )
        asked = known["asked"] = AskedRows.of(home_of(ctx), job_of(ctx), header)
        logger.info("%r in score_caps: %d rows may be scored in all, %d of them are left", asked.dataset, asked.cap,
                    asked.left())  # fmt: skip
        return {
            "features": len(header), "header_digest": header_digest(header), "rows_left": asked.left(), "models": len(weights),
        }  # fmt: skip

    terms = agree(ctx, check)
    known["asked"].record(terms["rows"] * len(weights))
    _answer_guest(ctx.sub_ctx("predict"), weights, terms["rows"])


def predict_arbiter(ctx) -> None:
    """The arbiter has no part in a prediction, but FATE starts it, so it learns the verdict too."""
    check_roles(ctx, arbiter=False)
    agree(ctx, dict)


def header_digest(names: list) -> str:
    """SHA-256 of column names in order."""
    return hashlib.sha256("\x00".join(names).encode()).hexdigest()


def check_asked_rows(frame, own: list) -> None:
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


def columns_by_host(names: list, own: list, hosts: dict) -> dict:
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
    found, at = {}, 0
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


def check_caps(rows: int, models: int, hosts: dict) -> None:
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


def _ask_hosts(ctx, frame, columns: dict, models: int, key_length: int) -> list:
    """At the guest: for every model the sum of all hosts' parts of the scores, float64 (rows,) in global row order."""
    _, private_key = generate_keypair(key_length)
    ctx.hosts.put("public_key", private_key.to_wire())
    for host in ctx.hosts:
        features = _in_messages(frame[columns[_name(host)]])
        host.put("queries", features.mapValues(partial(encrypt_queries, encryption=private_key.encryption())))
    return [
        sum(_opened(host.get("answers"), frame.shape[0], private_key) for host in of_model.hosts)
        for of_model in contexts_of_models(ctx, models)
    ]


def _answer_guest(ctx, columns: list, rows: int) -> None:
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


def _opened(answers, rows: int, private_key: PrivateKey) -> np.ndarray:
    opened = np.concatenate([open_scores(answer, private_key) for _, answer in sorted(answers.collect())])
    if len(opened) != rows:
        raise ValueError(f"A host answered with {len(opened)} scores for {rows} rows; they must be as many.")
    return opened


def _in_messages(frame):
    """Table message number -> float64 (rows, m): rows cut by their global number, whatever blocks they lie in."""
    pieces = prepare_rows(frame, fit_intercept=False, with_label=False).mapReducePartitions(_cut, operator.add)
    return pieces.mapValues(_put_together)


def _cut(blocks):
    for _, block in blocks:
        last = block.start + len(block.features)
        for message in range(block.start // ROWS_PER_MESSAGE, -(-last // ROWS_PER_MESSAGE)):
            piece = block.within(message * ROWS_PER_MESSAGE, (message + 1) * ROWS_PER_MESSAGE)
            yield message, [(piece.start, piece.features)]


def _put_together(pieces):
    ordered = [features for _, features in sorted(pieces, key=operator.itemgetter(0))]
    return np.vstack(ordered) * 2.0**-FEATURE_FRACTION_BITS


def _rows_of(message, row_bytes):
    # The header of a message is shorter than a row. That the rest is whole rows is checked when they are scored.
    return len(message) // row_bytes


def _within(block, column):
    return column[block.start : block.start + len(block.features)]


def _name(party) -> str:
    return f"{party.role} {party.party[1]}"
