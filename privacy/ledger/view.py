"""The ledger as a reader sees it: one plain dictionary per entry, ready for JSON."""
import json
from datetime import datetime, timezone

from fate_dp.privacy.ledger.entry import (
    JOINT_SCORES,
    NOT_PRIVATE,
    LABEL_DRAWS,
    OVER_SAMPLING,
    PIECEWISE,
    POST_PROCESSING,
    RANDOMIZED_RESPONSE,
    stored_event,
)
from fate_dp.privacy.ledger.totals import epsilon_for_json, known_total
from fate_dp.privacy.mechanisms.randomized_response import keep_probability

NOTES = {
    PIECEWISE: "one memoised draw per record of unbiased noise on a bounded number; protects the label alone, the features have "
    "no guarantee",
    RANDOMIZED_RESPONSE: "one memoised draw per record; protects the label alone, the features have no guarantee",
    POST_PROCESSING: "computed from released labels only, so no epsilon is added to that of entry {parent_id}",
    NOT_PRIVATE: "no guarantee at all; public data, outside the cap",
    JOINT_SCORES: "no guarantee for the features; the number of different models is limited instead",
    OVER_SAMPLING: "released nothing itself; what is computed from the over-sampled rows has no guarantee for a record",
}
UNCOUNTED_SCORES = "scores of records outside training; no guarantee for their features, not counted"
STEP = "all rounds of this step alone; the dataset's totals compose it with the other steps"
STEP_WITHOUT_GUARANTEE = "no guarantee at all: {reason}"
SAMPLING = {"PoissonSampledGaussian": "poisson", "FixedSizeSampledGaussian": "fixed size without replacement"}

# The records of flipped labels are those of the memo: jobs on subsets and on added rows overlap.
ENTRIES = f"""
    SELECT e.*, count(r.release_id) AS uses, min(r.time) AS first_time, max(r.time) AS last_time,
        sum(r.state = 'pending') AS pending, count(DISTINCT r.fingerprint) AS fingerprints, sum(s.rounds) AS rounds,
        CASE WHEN e.mechanism IN {LABEL_DRAWS}
            THEN (SELECT count(*) FROM released_label l WHERE l.entry_id = e.entry_id)
            ELSE max(r.records) END AS records
    FROM entry e JOIN release r USING (entry_id) LEFT JOIN private_step s USING (release_id)
    GROUP BY e.entry_id ORDER BY e.entry_id"""

RELEASES = "SELECT job_id, fingerprint, note FROM release WHERE entry_id = ? ORDER BY release_id"


def read_rows(connection):
    """All that is stored about each entry, oldest first, as [(row, releases), ...] for ``entries``."""
    cursor = connection.execute(ENTRIES)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row)) for row in cursor.fetchall()]
    return [(row, connection.execute(RELEASES, (row["entry_id"],)).fetchall()) for row in rows]


def entries(rows, delta):
    """List all entries; see ``Ledger.entries``."""
    return [_displayed(row, releases, delta) for row, releases in rows]


def _displayed(row, releases, delta):
    return {
        "entry_id": row["entry_id"],
        "source": row["subject"],
        "mechanism": row["mechanism"],
        "unit": row["unit"],
        "relation": row["relation"],
        "observer": row["observer"],
        "epsilon": epsilon_for_json(_epsilon(row, delta)),
        "delta": delta if _is_step(row) else row["delta"],
        "sampling": SAMPLING.get(row["mechanism"], "none"),
        "rounds": _rounds(row),
        "parameters": _parameters(row),
        "event": json.loads(row["event"]) if row["event"] else None,
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


def _is_step(row):
    return row["epsilon"] is None


def _epsilon(row, delta):
    if not _is_step(row):
        return row["epsilon"]
    return known_total({((stored_event(row["event"]), row["rounds"]),)}, delta)


def _rounds(row):
    if _is_step(row):
        return row["rounds"]
    return row["fingerprints"] if row["mechanism"] == JOINT_SCORES else 1


def _parameters(row):
    special = {RANDOMIZED_RESPONSE: _flip_parameters, PIECEWISE: _number_parameters, POST_PROCESSING: _derived_parameters}
    return special.get(row["mechanism"], _step_parameters if _is_step(row) else _purpose)(row)


def _flip_parameters(row):
    parameters = {
        "classes": row["classes"],
        "keep_probability": keep_probability(row["epsilon"], row["classes"]),
        "key_id": row["key_id"],
    }
    if row["class_labels"]:
        parameters["class_labels"] = json.loads(row["class_labels"])
    return parameters


def _number_parameters(row):
    return {"bins": row["classes"], "bounds": json.loads(row["class_labels"]), "key_id": row["key_id"]}


def _derived_parameters(row):
    return {"parent_entry_id": row["parent_id"], "description": row["purpose"]}


def _step_parameters(row):
    return {**stored_event(row["event"]).parameters, **_purpose(row)}


def _purpose(row):
    return {"purpose": row["purpose"]} if row["purpose"] else {}


def _note(row, release_notes):
    return "; ".join([_general_note(row), *dict.fromkeys(note for note in release_notes if note)])


def _general_note(row):
    if _is_step(row):
        reason = stored_event(row["event"]).parameters.get("reason")
        return STEP_WITHOUT_GUARANTEE.format(reason=reason) if reason else STEP
    uncounted_scores = row["mechanism"] == JOINT_SCORES and not row["counted"]
    return UNCOUNTED_SCORES if uncounted_scores else NOTES[row["mechanism"]].format(**row)


def _time_text(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
