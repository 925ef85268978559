"""The ledger as a reader sees it: one plain dictionary per entry, ready for JSON."""
import json
import math
from datetime import datetime, timezone

from fate_dp.privacy.ledger.entry import JOINT_SCORES, NOT_PRIVATE, POST_PROCESSING, RANDOMIZED_RESPONSE
from fate_dp.privacy.mechanisms.randomized_response import keep_probability

NOTES = {
    RANDOMIZED_RESPONSE: "one memoised draw per record; protects the label alone, the features have no guarantee",
    POST_PROCESSING: "computed from released labels only, so no epsilon is added to that of entry {parent_id}",
    NOT_PRIVATE: "no guarantee at all; public data, outside the cap",
    JOINT_SCORES: "no guarantee for the features; the number of different models is limited instead",
}
UNCOUNTED_SCORES = "scores of records outside training; no guarantee for their features, not counted"

# The records of flipped labels are those of the memo: jobs on subsets and on added rows overlap.
ENTRIES = """
    SELECT e.*, count(r.release_id) AS uses, min(r.time) AS first_time, max(r.time) AS last_time,
        sum(r.state = 'pending') AS pending, count(DISTINCT r.fingerprint) AS fingerprints,
        CASE WHEN e.mechanism = 'randomized_response'
            THEN (SELECT count(*) FROM released_label l WHERE l.entry_id = e.entry_id)
            ELSE max(r.records) END AS records
    FROM entry e JOIN release r USING (entry_id) GROUP BY e.entry_id ORDER BY e.entry_id"""


def entries(connection):
    """List all entries; see ``Ledger.entries``."""
    cursor = connection.execute(ENTRIES)
    names = [column[0] for column in cursor.description]
    return [_displayed(connection, dict(zip(names, row))) for row in cursor.fetchall()]


def _displayed(connection, row):
    releases = connection.execute(
        "SELECT job_id, fingerprint, note FROM release WHERE entry_id = ? ORDER BY release_id", (row["entry_id"],)
    ).fetchall()
    return {
        "entry_id": row["entry_id"],
        "source": row["subject"],
        "mechanism": row["mechanism"],
        "unit": row["unit"],
        "relation": row["relation"],
        "observer": row["observer"],
        "epsilon": "infinity" if math.isinf(row["epsilon"]) else row["epsilon"],
        "delta": row["delta"],
        "sampling": "none",
        "rounds": row["fingerprints"] if row["mechanism"] == JOINT_SCORES else 1,
        "parameters": _parameters(row),
        "counted": bool(row["counted"]),
        "records": row["records"],
        "uses": row["uses"],
        "pending": row["pending"],
        "jobs": list(dict.fromkeys(job_id for job_id, _, _ in releases)),
        "fingerprint": releases[-1][1],
        "first_time": _time_text(row["first_time"]),
        "last_time": _time_text(row["last_time"]),
        "note": _note(row, [note for _, _, note in releases]),
    }


def _parameters(row):
    if row["mechanism"] == RANDOMIZED_RESPONSE:
        parameters = {
            "classes": row["classes"],
            "keep_probability": keep_probability(row["epsilon"], row["classes"]),
            "key_id": row["key_id"],
        }
        if row["class_labels"]:
            parameters["class_labels"] = json.loads(row["class_labels"])
        return parameters
    if row["mechanism"] == POST_PROCESSING:
        return {"parent_entry_id": row["parent_id"], "description": row["purpose"]}
    return {"purpose": row["purpose"]} if row["purpose"] else {}


def _note(row, release_notes):
    uncounted_scores = row["mechanism"] == JOINT_SCORES and not row["counted"]
    general = UNCOUNTED_SCORES if uncounted_scores else NOTES[row["mechanism"]].format(**row)
    return "; ".join([general, *dict.fromkeys(note for note in release_notes if note)])


def _time_text(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
