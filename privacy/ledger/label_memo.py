"""The guest's private memo of released labels, and the budget computed from it; functions on an open ledger.

A record is known by a keyed tag of its match id and a keyed tag of its true label; both are meaningless without the
key. Unit *label*, relation *replace-one*, epsilons in nats.
"""
import hashlib
import math
from dataclasses import dataclass

from fate_dp.privacy.ledger.database import stage_rows, transaction
from fate_dp.privacy.ledger.entry import (
    POST_PROCESSING,
    RANDOMIZED_RESPONSE,
    add_release,
    derived_entry,
    find_or_add_entry,
    read_entry,
)
from fate_dp.privacy.ledger.errors import BudgetExceeded, ClassesChanged, CorrectedLabel, UnknownRelease
from fate_dp.privacy.ledger.totals import spent_by_label_steps

# Sums of epsilons such as 0.1 + 0.2 must not exceed a cap of 0.3 by their rounding errors alone.
ROUNDING = 1e-12

# CROSS JOIN fixes the order of the loops: entry or set, then staged row, then one look-up by primary key.
MATCHING_RELEASES = """
    SELECT e.epsilon, 0, e.entry_id, e.classes
    FROM entry e CROSS JOIN temp.staged s
    CROSS JOIN released_label r ON r.entry_id = e.entry_id AND r.id_tag = s.id_tag AND r.label = s.label
    WHERE e.subject = :source AND e.key_id = :key_id AND e.mechanism = :mechanism
    GROUP BY e.entry_id HAVING count(*) = :records"""

MATCHING_DERIVED = """
    SELECT p.epsilon, 1, p.entry_id, p.classes
    FROM entry e JOIN entry p ON p.entry_id = e.parent_id JOIN derived_set d ON d.entry_id = e.entry_id
    CROSS JOIN temp.staged s
    CROSS JOIN derived_label l ON l.set_id = d.set_id AND l.id_tag = s.id_tag AND l.label = s.label
    WHERE e.subject = :source AND e.key_id = :key_id AND e.mechanism = :mechanism
    GROUP BY d.set_id HAVING count(*) = :records"""


@dataclass(frozen=True)
class FlipRelease:
    """What ``record_flips`` wrote; ``new_records`` is the number of records not released at this epsilon before."""

    release_id: int
    entry_id: int
    new_records: int


@dataclass(frozen=True)
class LabelProvenance:
    """Where a set of labels comes from; ``entry_id`` is the randomised response that paid for it."""

    source: str
    epsilon: float
    classes: int
    entry_id: int
    derived: bool


def record_flips(connection, entry, rows, cap, job_id, task_id, fingerprint):
    """Stage and record one release of flipped labels, or refuse and write nothing; see ``Ledger.record_flips``."""
    records = stage_rows(connection, {"id_tag": bytes, "label_tag": bytes, "label": str}, rows)
    with transaction(connection):
        spent_before = spent(connection, entry.subject)
        _refuse_corrected_labels(connection, entry)
        entry_id = find_or_add_entry(connection, entry)
        _refuse_changed_classes(connection, entry_id, entry)
        new_records = _remember(connection, entry_id, entry)
        _refuse_beyond_cap(connection, entry, new_records, spent_before, cap)
        release_id = add_release(
            connection,
            entry_id,
            job_id=job_id,
            task_id=task_id,
            records=records,
            fingerprint=fingerprint,
            state="pending",
        )
    return FlipRelease(release_id, entry_id, new_records)


def record_derived(connection, parent_entry_id, rows, description, job_id, task_id):
    """Record labels computed from released ones; see ``Ledger.record_derived``."""
    records = stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    with transaction(connection):
        parent_id, parent = _paying_entry(connection, parent_entry_id)
        _refuse_unreleased_records(connection, parent_id)
        entry_id = find_or_add_entry(connection, derived_entry(parent_id, parent, description))
        digest = _remember_derived(connection, entry_id)
        return add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=records, fingerprint=digest)


def find_labels(connection, source, key_id, rows):
    """Find the released or derived labels that ``rows`` are; see ``Ledger.find_labels``."""
    records = stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    if records == 0:
        return None
    parameters = {"source": source, "key_id": key_id, "records": records}
    with transaction(connection, "DEFERRED"):
        candidates = connection.execute(MATCHING_RELEASES, {**parameters, "mechanism": RANDOMIZED_RESPONSE}).fetchall()
        candidates += connection.execute(MATCHING_DERIVED, {**parameters, "mechanism": POST_PROCESSING}).fetchall()
    if not candidates:
        return None
    # Labels that agree with several releases could come from any of them: only the largest epsilon is an upper bound.
    epsilon, derived, entry_id, classes = max(candidates, key=lambda found: (found[0], -found[1]))
    return LabelProvenance(source, epsilon, classes, entry_id, bool(derived))


def register_public(connection, source, key_id, rows):
    """Remember labels that an operator declared to need no protection; see ``Ledger.register_public``."""
    stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO public_label SELECT ?, ?, id_tag, label FROM temp.staged", (source, key_id)
        )


def are_public(connection, source, key_id, rows):
    """Whether every row is a registered public label; see ``Ledger.are_public``."""
    records = stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    registered = connection.execute(
        "SELECT count(*) FROM temp.staged s CROSS JOIN public_label p"
        " ON p.source = ? AND p.key_id = ? AND p.id_tag = s.id_tag AND p.label = s.label",
        (source, key_id),
    ).fetchone()[0]
    return records > 0 and registered == records


def has_released(connection, source, key_id, id_tags):
    """Whether the flip of any of the records was released; see ``Ledger.has_released``."""
    query = "SELECT 1 FROM true_label WHERE source = ? AND key_id = ? AND id_tag = ?"
    with transaction(connection, "DEFERRED"):
        return any(connection.execute(query, (source, key_id, id_tag)).fetchone() for id_tag in id_tags)


def sources(connection, key_id):
    rows = connection.execute(
        "SELECT DISTINCT subject FROM entry WHERE key_id = ? AND mechanism = ? ORDER BY subject",
        (key_id, RANDOMIZED_RESPONSE),
    )
    return [source for (source,) in rows]


def spent(connection, source):
    """Sum over keys of the largest total of one record under that key."""
    rows = connection.execute(
        "SELECT key_id, max(total) FROM ("
        " SELECT e.key_id, sum(e.epsilon) AS total FROM entry e JOIN released_label r USING (entry_id)"
        " WHERE e.subject = ? AND e.mechanism = ? GROUP BY e.key_id, r.id_tag) GROUP BY key_id",
        (source, RANDOMIZED_RESPONSE),
    )
    return math.fsum(total for _, total in rows)


def _refuse_corrected_labels(connection, entry):
    corrected = connection.execute(
        "SELECT 1 FROM temp.staged s CROSS JOIN true_label t"
        " ON t.source = ? AND t.key_id = ? AND t.id_tag = s.id_tag WHERE t.label_tag <> s.label_tag LIMIT 1",
        (entry.subject, entry.key_id),
    ).fetchone()
    if corrected:
        raise CorrectedLabel(
            f"A label of the source {entry.subject} was changed after its release; releasing it anew would reveal "
            "that it changed, so restore the earlier label or leave the record out."
        )


def _refuse_changed_classes(connection, entry_id, entry):
    declared = read_entry(connection, entry_id).class_labels != entry.class_labels
    differs = connection.execute(
        "SELECT 1 FROM temp.staged s CROSS JOIN released_label r ON r.entry_id = ? AND r.id_tag = s.id_tag"
        " WHERE r.label <> s.label LIMIT 1",
        (entry_id,),
    ).fetchone()
    if declared or differs:
        raise ClassesChanged(
            f"Labels of the source {entry.subject} were released at epsilon {entry.epsilon:g} under another list of "
            f"{entry.classes} classes; a second answer at the same epsilon would reveal labels, so keep that list."
        )


def _remember(connection, entry_id, entry):
    connection.execute(
        "INSERT OR IGNORE INTO true_label SELECT ?, ?, id_tag, label_tag FROM temp.staged",
        (entry.subject, entry.key_id),
    )
    return connection.execute(
        "INSERT OR IGNORE INTO released_label SELECT ?, id_tag, label FROM temp.staged", (entry_id,)
    ).rowcount


def _refuse_beyond_cap(connection, entry, new_records, spent_before, cap):
    by_steps = spent_by_label_steps(connection, entry.subject)
    total = spent(connection, entry.subject) + by_steps
    if new_records and total > cap * (1 + ROUNDING):
        raise BudgetExceeded(
            f"The label source {entry.subject} has spent epsilon {spent_before + by_steps:g}, this job asks for "
            f"{entry.epsilon:g} (total {total:g}), and the cap is {cap:g}."
        )


def _paying_entry(connection, entry_id):
    entry = read_entry(connection, entry_id)
    if entry and entry.mechanism == POST_PROCESSING:
        entry_id, entry = entry.parent_id, read_entry(connection, entry.parent_id)
    if not entry or entry.mechanism != RANDOMIZED_RESPONSE:
        raise UnknownRelease(f"parent_entry_id is {entry_id!r} but must be an entry of flipped labels in this ledger.")
    return entry_id, entry


def _refuse_unreleased_records(connection, parent_id):
    unreleased = connection.execute(
        "SELECT 1 FROM temp.staged s LEFT JOIN released_label r ON r.entry_id = ? AND r.id_tag = s.id_tag"
        " WHERE r.id_tag IS NULL LIMIT 1",
        (parent_id,),
    ).fetchone()
    if unreleased:
        raise UnknownRelease("A derived label belongs to a record whose flipped label was never released.")


def _remember_derived(connection, entry_id):
    digest = hashlib.sha256()
    for id_tag, label in connection.execute("SELECT id_tag, label FROM temp.staged ORDER BY id_tag"):
        digest.update(len(id_tag).to_bytes(8, "big") + id_tag + len(label.encode()).to_bytes(8, "big") + label.encode())
    added = connection.execute(
        "INSERT OR IGNORE INTO derived_set (entry_id, digest) VALUES (?, ?)", (entry_id, digest.hexdigest())
    )
    if added.rowcount:
        connection.execute("INSERT INTO derived_label SELECT ?, id_tag, label FROM temp.staged", (added.lastrowid,))
    return digest.hexdigest()
