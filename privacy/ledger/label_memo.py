"""The guest's private memo of released labels, and the budget computed from it; functions on an open ledger.

A record is known by a keyed tag of its match id and a keyed tag of its true label; both are meaningless without the
key. Unit *label*, relation *replace-one*, epsilons in nats.
"""
import hashlib
import json
import math
from dataclasses import dataclass

from fate_dp.privacy.label_releases import (
    LabelRelease,
    Releases,
    releases_of_json,
    releases_to_json,
    total_of,
    united,
)
from fate_dp.privacy.ledger.database import stage_rows, transaction
from fate_dp.privacy.ledger.entry import (
    POST_PROCESSING,
    LABEL_DRAWS,
    RANDOMIZED_RESPONSE,
    add_release,
    bounds_of,
    derived_entry,
    find_or_add_entry,
    read_entry,
)
from fate_dp.privacy.ledger.errors import (
    BudgetExceeded,
    ClassesChanged,
    CorrectedLabel,
    OtherSource,
    TooManyRecords,
    UnknownRelease,
)
from fate_dp.privacy.ledger.totals import spent_by_label_steps

# Sums of epsilons such as 0.1 + 0.2 must not exceed a cap of 0.3 by their rounding errors alone.
ROUNDING = 1e-12

# CROSS JOIN fixes the order of the loops: entry or set, then staged row, then one look-up by primary key.
MATCHING_RELEASES = f"""
    SELECT e.entry_id, e.epsilon, e.classes, e.mechanism, e.class_labels, NULL
    FROM entry e CROSS JOIN temp.staged s
    CROSS JOIN released_label r ON r.entry_id = e.entry_id AND r.id_tag = s.id_tag AND r.label = s.label
    WHERE e.subject = :source AND e.key_id = :key_id AND e.mechanism IN {LABEL_DRAWS}
    GROUP BY e.entry_id HAVING count(*) = :records"""

MATCHING_DERIVED = """
    SELECT p.entry_id, p.epsilon, p.classes, p.mechanism, p.class_labels, f.releases
    FROM entry e JOIN entry p ON p.entry_id = e.parent_id JOIN derived_set d ON d.entry_id = e.entry_id
    LEFT JOIN derived_from f ON f.set_id = d.set_id
    CROSS JOIN temp.staged s
    CROSS JOIN derived_label l ON l.set_id = d.set_id AND l.id_tag = s.id_tag AND l.label = s.label
    WHERE e.subject = :source AND e.key_id = :key_id AND e.mechanism = :mechanism
    GROUP BY d.set_id HAVING count(*) = :records"""


# Records that were released under other sources, and how many of them have another true label now.
UNDER_OTHER_SOURCES = """
    SELECT r.source, count(*), sum(r.true_label <> s.true_label)
    FROM temp.staged s CROSS JOIN label_record r ON r.record = s.record
    WHERE r.source <> ? GROUP BY r.source ORDER BY r.source"""
FLIPPED_ROW = {"id_tag": bytes, "label_tag": bytes, "label": str, "record": bytes, "true_label": bytes}
# Unrelated tables that number their rows alike agree in most labels by chance, and hardly ever in 99 of 100.
LARGEST_DIFFERENCE = 0.01

# Rows of a derived set, those among them with its labels, and those of these that are also the parent's own flips.
OVERLAP_WITH_DERIVED = """
    SELECT count(*), sum(l.label = s.label), sum(l.label = s.label AND r.label IS s.label)
    FROM entry e JOIN derived_set d ON d.entry_id = e.entry_id
    CROSS JOIN temp.staged s
    CROSS JOIN derived_label l ON l.set_id = d.set_id AND l.id_tag = s.id_tag
    LEFT JOIN released_label r ON r.entry_id = e.parent_id AND r.id_tag = s.id_tag
    WHERE e.subject = :source AND e.key_id = :key_id AND e.mechanism = :mechanism
    GROUP BY d.set_id"""


@dataclass(frozen=True)
class FlipRelease:
    """What ``record_flips`` wrote; ``new_records`` is the number of records not released at this epsilon before."""

    release_id: int
    entry_id: int
    new_records: int


@dataclass(frozen=True)
class LabelProvenance:
    """Where a set of labels comes from: the releases that paid for it, that of the flips themselves first."""

    source: str
    releases: Releases
    derived: bool

    @property
    def epsilon(self) -> float:
        """Of all releases together, in nats."""
        return total_of(self.releases)

    @property
    def entry_id(self) -> int:
        """The line of the flips."""
        return self.releases[0].entry_id


def record_flips(connection, entry, rows, cap, most_records, job_id, task_id, fingerprint):
    """Stage and record one release of flipped labels, or refuse and write nothing; see ``Ledger.record_flips``."""
    records = stage_rows(connection, FLIPPED_ROW, rows)
    with transaction(connection):
        spent_before = spent(connection, entry.subject)
        _refuse_other_source(connection, entry.subject)
        _refuse_corrected_labels(connection, entry)
        entry_id = find_or_add_entry(connection, entry)
        _refuse_changed_classes(connection, entry_id, entry)
        new_records = _remember(connection, entry_id, entry)
        _refuse_beyond_cap(connection, entry, new_records, spent_before, cap)
        _refuse_more_records(connection, entry, most_records)
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


def record_derived(connection, parent_entry_id, rows, description, releases, job_id, task_id):
    """Record labels computed from released ones; see ``Ledger.record_derived``."""
    records = stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    with transaction(connection):
        parent_id, parent = _paying_entry(connection, parent_entry_id)
        _refuse_unreleased_records(connection, parent_id)
        entry_id = find_or_add_entry(connection, derived_entry(parent_id, parent, description))
        flips = LabelRelease(parent.subject, parent.epsilon, parent.classes, parent.key_id, parent_id)
        digest = _remember_derived(connection, entry_id, united([flips], releases))
        return add_release(connection, entry_id, job_id=job_id, task_id=task_id, records=records, fingerprint=digest)


def find_labels(connection, source, key_id, rows):
    """Find the released or derived labels that ``rows`` are; see ``Ledger.find_labels``."""
    records = stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    if records == 0:
        return None
    parameters = {"source": source, "key_id": key_id, "records": records}
    with transaction(connection, "DEFERRED"):
        released = connection.execute(MATCHING_RELEASES, parameters).fetchall()
        derived = connection.execute(MATCHING_DERIVED, {**parameters, "mechanism": POST_PROCESSING}).fetchall()
    candidates = [_provenance(source, key_id, False, *row) for row in released]
    candidates += [_provenance(source, key_id, True, *row) for row in derived]
    # Labels that agree with several releases could come from any of them: only the largest epsilon is an upper bound.
    return max(candidates, key=lambda found: (found.epsilon, not found.derived), default=None)


def _provenance(source, key_id, derived, entry_id, epsilon, classes, mechanism, class_labels, releases):
    flips = LabelRelease(source, epsilon, classes, key_id, entry_id, bounds_of(mechanism, class_labels))
    return LabelProvenance(source, (flips,) if releases is None else releases_of_json(json.loads(releases)), derived)


def remember_scores(connection, digest, releases):
    """Remember which releases the model of these scores rests on; see ``Ledger.remember_model_scores``."""
    with transaction(connection):
        connection.execute(
            "INSERT OR REPLACE INTO model_scores VALUES (?, ?)", (digest, json.dumps(releases_to_json(releases)))
        )


def releases_of_scores(connection, digest):
    row = connection.execute("SELECT releases FROM model_scores WHERE digest = ?", (digest,)).fetchone()
    return row and releases_of_json(json.loads(row[0]))


def hold_derived(connection, source, key_id, rows):
    """Whether the rows hold the records of a derived set with its labels; see ``Ledger.hold_derived_labels``."""
    stage_rows(connection, {"id_tag": bytes, "label": str}, rows)
    parameters = {"source": source, "key_id": key_id, "mechanism": POST_PROCESSING}
    with transaction(connection, "DEFERRED"):
        overlaps = connection.execute(OVERLAP_WITH_DERIVED, parameters).fetchall()
    return any(alike == common and flips < alike for common, alike, flips in overlaps)


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
        f"SELECT DISTINCT subject FROM entry WHERE key_id = ? AND mechanism IN {LABEL_DRAWS} ORDER BY subject", (key_id,)
    )
    return [source for (source,) in rows]


def sources_of_other_keys(connection, key_id):
    rows = connection.execute(
        f"SELECT DISTINCT subject FROM entry WHERE key_id <> ? AND mechanism IN {LABEL_DRAWS} ORDER BY subject", (key_id,)
    )
    return [source for (source,) in rows]


def spent(connection, source):
    """Sum over keys of the largest total of one record under that key."""
    rows = connection.execute(
        "SELECT key_id, max(total) FROM ("
        " SELECT e.key_id, sum(e.epsilon) AS total FROM entry e JOIN released_label r USING (entry_id)"
        f" WHERE e.subject = ? AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.key_id, r.id_tag) GROUP BY key_id",
        (source,),
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


def _refuse_other_source(connection, source):
    for other, records, differing in connection.execute(UNDER_OTHER_SOURCES, (source,)).fetchall():
        if differing <= LARGEST_DIFFERENCE * records:
            raise OtherSource(
                f"Of {records} of these records labels were released under the source {other}, and at most "
                f"{LARGEST_DIFFERENCE:.0%} of them differ, so they are the same labels; use label_source {other}, or, if "
                "the records are others, give them match ids of their own."
            )


def _refuse_more_records(connection, entry, most_records):
    if most_records is None:
        return
    (records,) = connection.execute(
        "SELECT count(*) FROM true_label WHERE source = ? AND key_id = ?", (entry.subject, entry.key_id)
    ).fetchone()
    if records > most_records:
        raise TooManyRecords(
            f"The label source {entry.subject} was declared with {most_records} records, and with this job labels of "
            f"{records} would have been released; ids that changed make old records new ones."
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
            f"Labels of the source {entry.subject} were released at epsilon {entry.epsilon:g} {_under_others(entry)}; a second "
            "answer at the same epsilon would reveal labels, so keep to the first."
        )


def _under_others(entry):
    if bounds_of(entry.mechanism, entry.class_labels) is not None:
        return "within other bounds"
    return f"under another list of {entry.classes} classes"


def _remember(connection, entry_id, entry):
    connection.execute(
        "INSERT OR IGNORE INTO true_label SELECT ?, ?, id_tag, label_tag FROM temp.staged",
        (entry.subject, entry.key_id),
    )
    connection.execute(
        "INSERT OR IGNORE INTO label_record SELECT record, ?, true_label FROM temp.staged", (entry.subject,)
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
            f"{entry.epsilon:g} (total {total:g}), and the cap is {cap:g}; the guest's operator changes that with "
            f"`fate-dp cap {entry.subject.rpartition('/')[0]} --labels EPSILON`."
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


def _remember_derived(connection, entry_id, releases):
    digest = hashlib.sha256()
    for id_tag, label in connection.execute("SELECT id_tag, label FROM temp.staged ORDER BY id_tag"):
        digest.update(len(id_tag).to_bytes(8, "big") + id_tag + len(label.encode()).to_bytes(8, "big") + label.encode())
    told = json.dumps(releases_to_json(releases))
    if len(releases) > 1:
        # The same labels, computed from more, are another set.
        digest.update(told.encode())
    added = connection.execute(
        "INSERT OR IGNORE INTO derived_set (entry_id, digest) VALUES (?, ?)", (entry_id, digest.hexdigest())
    )
    if added.rowcount:
        connection.execute("INSERT INTO derived_label SELECT ?, id_tag, label FROM temp.staged", (added.lastrowid,))
        connection.execute("INSERT INTO derived_from VALUES (?, ?)", (added.lastrowid, told))
    return digest.hexdigest()
