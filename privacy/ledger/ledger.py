"""The privacy ledger of one party: what was released, to whom, at what epsilon, and what may still be released."""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..events import OBSERVERS, UNITS, InvalidEvent, check_relation
from ..labels.flips import PartyKey, canonical_label, record_tags
from ..mechanisms.randomized_response import keep_probability
from ..private_files import KEY_FILE, LEDGER_FILE, POLICY_FILE, key_id, load_or_create_key
from ..validation import DEFAULT_DELTA, check_delta_or_zero, one_of, refusal
from .database import NOTES, RECOUNT, Database
from .datasets import DatasetLedger
from .entries import (
    COUNTED_EVENTS,
    JOINT_SCORES,
    LABEL_DRAWS,
    LOSSES,
    NOT_PRIVATE,
    OVER_SAMPLING,
    PIECEWISE,
    POST_PROCESSING,
    RANDOMIZED_RESPONSE,
    RECORDED_CALLS,
    RECORDED_VIEW,
    LedgerError,
    Use,
    add_use,
    recorder_entry,
    stored_event,
)
from .history import HistoryLedger
from .labels import LabelLedger
from .policy import declare_source
from .scores import ScoreLedger
from .steps import StepLedger
from .totals import (
    EVERYBODY,
    TotalsView,
    all_charges,
    by_observer,
    charges_of_job,
    charges_with_counted,
    epsilon_for_json,
    known_total,
    known_total_of,
)

MEANINGS = {
    PIECEWISE: "one memoised draw per record of unbiased noise on a bounded number; protects the label alone, the features have "
    "no guarantee",
    RANDOMIZED_RESPONSE: "one memoised draw per record; protects the label alone, the features have no guarantee",
    POST_PROCESSING: "computed from released labels only, so no epsilon is added to that of entry {parent_id}",
    NOT_PRIVATE: "no guarantee at all; public data, outside the cap",
    JOINT_SCORES: "no guarantee for the features; the number of different models is limited instead",
    LOSSES: "no guarantee for the features; the number of trainings that show them is limited instead",
    OVER_SAMPLING: "released nothing itself; what is computed from the over-sampled rows has no guarantee for a record",
    RECORDED_VIEW: "the recorder was on: what this party received in these tasks is kept in its folder of views; nothing was "
    "released by that",
    RECORDED_CALLS: "the recorder was on: what these tasks asked of this party's private records is kept in its folder of calls; "
    "nothing was released by that",
}
UNCOUNTED_SCORES = "scores of records outside training; no guarantee for their features, not counted"
STEP = "all rounds of this step alone; the dataset's totals compose it with the other steps"
STEP_WITHOUT_GUARANTEE = "no guarantee at all: {reason}"
SAMPLING = {"PoissonSampledGaussian": "poisson", "FixedSizeSampledGaussian": "fixed size without replacement"}

# The records of flipped labels are those of the memo: jobs on subsets and on added rows overlap. One job has no such overlap.
ENTRIES = f"""
    SELECT e.*, u.*, f.time AS first_time, l.time AS last_time, l.fingerprint, l.job_id AS last_job,
        CASE WHEN e.mechanism IN {LABEL_DRAWS} AND :job IS NULL
            THEN (SELECT count(*) FROM released_label r WHERE r.entry_id = e.entry_id)
            ELSE u.most_records END AS records
    FROM {{sums}} u JOIN entry e USING (entry_id) JOIN release f ON f.release_id = u.first_id
    JOIN release l ON l.release_id = u.last_id ORDER BY e.entry_id"""


class Ledger(LabelLedger, StepLedger, ScoreLedger, DatasetLedger, HistoryLedger):
    """A ledger in the SQLite file ``path`` (mode 0600, made on first use).

    Its chapters hold what it does with labels, private steps, what is counted and the names of datasets, and what was spent
    when; here is what concerns all of them. Epsilons are in nats, the unit of labels is *label* and the relation
    *replace-one*. Every operation is one transaction: on disk when the call returns, or without any trace when it is
    refused or the process dies. An object may be used by several threads and across forks. No error names a record.

    All methods raise ``LedgerUnavailable`` when the file cannot be read or written (no space, no permission), is
    damaged, locked for five minutes, or of a newer version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(Database(path))
        self.path = Path(path)

    def mark_released(self, *release_ids: int) -> None:
        """Note that the output of pending releases, of flips or of private steps, was written."""
        with self._database.writing() as connection:
            for release_id in release_ids:
                marked = "UPDATE release SET state = 'released' WHERE release_id = ?"
                if connection.execute(marked, (release_id,)).rowcount != 1:
                    raise LedgerError(refusal("release_id", release_id, "a release of this ledger"))

    def note_recorder(self, *, component: str, role: str, job_id: str, task_id: str) -> None:
        """Note, before a task begins, that this party keeps what it receives in it."""
        with self._database.writing() as connection:
            add_use(connection, recorder_entry(component, role), Use(job_id, task_id))

    def entries(
        self, delta: float = DEFAULT_DELTA, job_id: str | None = None, with_jobs: bool = True
    ) -> list[dict[str, Any]]:
        """All entries as JSON-able dictionaries, oldest first; an infinite epsilon is the text 'infinity'.

        The epsilon of a private step is computed from its event, at ``delta``. With ``job_id`` they are those that the job
        used, and uses, rounds, records and times are of this job alone. Only the names of all ``jobs`` take time that grows
        with the uses.
        """
        delta, asked = check_delta_or_zero(delta), {"job": job_id}
        chosen, sums, notes = "1", "entry_sum", "SELECT entry_id, note FROM entry_note ORDER BY rowid"
        if job_id is not None:
            chosen = "r.job_id = :job"
            sums, notes = f"({RECOUNT.format(chosen=chosen)})", NOTES.format(chosen=chosen)
        jobs, noted = defaultdict[int, dict[str, None]](dict), defaultdict[int, dict[str, None]](dict)
        with self._database.reading() as connection:
            cursor = connection.execute(ENTRIES.format(sums=sums), asked)
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row)) for row in cursor.fetchall()]
            for entry_id, note in connection.execute(notes, asked):
                noted[entry_id][note] = None
            if with_jobs:
                every = f"SELECT r.entry_id, r.job_id FROM release r WHERE {chosen} ORDER BY r.release_id"
                for entry_id, job in connection.execute(every, asked):
                    jobs[entry_id][job] = None
        lines = [_displayed(row, noted[row["entry_id"]], delta) for row in rows]
        return [{**line, "jobs": list(jobs[line["entry_id"]])} for line in lines] if with_jobs else lines

    def totals(self, delta: float = DEFAULT_DELTA, job_id: str | None = None) -> list[dict[str, Any]]:
        """What each observer learned in all, or in one job: JSON-able dictionaries by dataset, unit, relation and observer.

        An upper bound at ``delta``, composed from the events of private steps and of the flips of the worst record, of each
        observer and of everybody together; 'infinity' after joint scores or losses. ``note`` says what is left open, and why it is infinite. Public data is left out.
        """
        delta = check_delta_or_zero(delta)
        with self._database.reading() as connection:
            charged = all_charges(connection) if job_id is None else charges_of_job(connection, job_id)
        return by_observer(charged, delta)

    def total(self, dataset: str, unit: str, relation: str, observer: str, delta: float = DEFAULT_DELTA) -> float:
        """One of the ``totals`` as a number, 0.0 where nothing was charged, ``math.inf`` without a guarantee."""
        delta = check_delta_or_zero(delta)
        check_relation(relation)
        one_of("unit", unit, UNITS, InvalidEvent)
        one_of("observer", observer, (*OBSERVERS, EVERYBODY), InvalidEvent)
        with self._database.reading() as connection:
            charged = charges_with_counted(connection, dataset)
        return known_total_of(charged, TotalsView(unit, relation, observer), delta)


def party_key(home: Path) -> PartyKey:
    """The key of the party whose home this is, made on first use, with what its ledger knows of ids with blanks."""
    key = PartyKey(load_or_create_key(home / KEY_FILE))
    if (home / LEDGER_FILE).exists():
        key.blanks = Ledger(home / LEDGER_FILE).blanks() or {}
    return key


def declare_public_labels(
    home: str | os.PathLike[str], source: str, match_ids: Iterable[object], labels: Iterable[object]
) -> None:
    """Declare that the labels of a source need no protection, at the party whose home is ``home``.

    The name stands in the policy then, and the labels in the ledger, so that no other table can pass for this one.
    `InvalidPolicy`, `InvalidArgument` and `LedgerError` mean that nothing was declared.
    """
    home = Path(home)
    key = party_key(home)
    rows = zip(record_tags(map(str, match_ids), key, source), map(canonical_label, labels), strict=True)
    Ledger(home / LEDGER_FILE).register_public(source=source, key_id=key_id(key), rows=rows)
    declare_source(home / POLICY_FILE, source, public=True)


Row = dict[str, Any]
"""All that is stored about one entry, by column; its values are of many types."""


def _displayed(row: Row, notes: Iterable[str], delta: float) -> dict[str, Any]:
    """One line; ``notes`` are what its uses noted, the first one first."""
    is_step = _is_step(row)
    epsilon = known_total(((stored_event(row["event"]), row["rounds"]),), delta) if is_step else row["epsilon"]
    counted = row["fingerprints"] if row["mechanism"] in COUNTED_EVENTS else 1
    return {
        "entry_id": row["entry_id"],
        "source": row["subject"],
        "mechanism": row["mechanism"],
        "unit": row["unit"],
        "relation": row["relation"],
        "observer": row["observer"],
        "epsilon": epsilon_for_json(epsilon),
        "delta": delta if is_step else row["delta"],
        "sampling": SAMPLING.get(row["mechanism"], "none"),
        "rounds": row["rounds"] if is_step else counted,
        "parameters": _parameters(row),
        "event": json.loads(row["event"]) if row["event"] else None,
        "counted": bool(row["counted"]),
        "records": row["records"],
        "uses": row["uses"],
        "pending": row["pending"],
        "last_job": row["last_job"],
        "fingerprint": row["fingerprint"],
        "first_time": _time_text(row["first_time"]),
        "last_time": _time_text(row["last_time"]),
        "note": "; ".join([_general_note(row), *notes]),
    }


def _is_step(row: Row) -> bool:
    return row["epsilon"] is None


def _parameters(row: Row) -> dict[str, Any]:
    purpose = {"purpose": row["purpose"]} if row["purpose"] else {}
    if row["mechanism"] == RANDOMIZED_RESPONSE:
        keep = keep_probability(row["epsilon"], row["classes"])
        parameters = {"classes": row["classes"], "keep_probability": keep, "key_id": row["key_id"]}
        return {**parameters, **({"class_labels": json.loads(row["class_labels"])} if row["class_labels"] else {})}
    if row["mechanism"] == PIECEWISE:
        return {"bins": row["classes"], "bounds": json.loads(row["class_labels"]), "key_id": row["key_id"]}
    if row["mechanism"] == POST_PROCESSING:
        return {"parent_entry_id": row["parent_id"], "description": row["purpose"]}
    return {**stored_event(row["event"]).parameters, **purpose} if _is_step(row) else purpose


def _general_note(row: Row) -> str:
    if _is_step(row):
        reason = stored_event(row["event"]).parameters.get("reason")
        return STEP_WITHOUT_GUARANTEE.format(reason=reason) if reason else STEP
    uncounted_scores = row["mechanism"] == JOINT_SCORES and not row["counted"]
    return UNCOUNTED_SCORES if uncounted_scores else MEANINGS[row["mechanism"]].format(**row)


def _time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
