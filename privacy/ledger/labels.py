"""The guest's private memo of released labels, and the budget computed from it.

A record is known by a keyed tag of its match id and a keyed tag of its true label; both are meaningless without the
key. Unit *label*, relation *replace-one*, epsilons in nats.
"""

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from ..labels.flips import LabelRelease, Releases, releases_of_json, releases_to_json, total_of, united
from ..validation import check_classes, check_epsilon, positive, refusal
from .database import Chapter
from .entries import (
    LABEL_DRAWS,
    NOT_PRIVATE,
    POST_PROCESSING,
    RANDOMIZED_RESPONSE,
    BudgetExceeded,
    CorrectedLabel,
    Entry,
    LedgerError,
    Use,
    add_use,
    bounds_of,
    derived_entry,
    draw_entry,
    find_or_add_entry,
    read_entry,
)
from .totals import charges, epsilon_of_labels, spent_by_flips

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

REGISTERED = """
    SELECT count(*) FROM temp.staged s CROSS JOIN public_label p
    ON p.source = ? AND p.key_id = ? AND p.id_tag = s.id_tag AND p.label = s.label"""
SOURCES = f"SELECT DISTINCT subject FROM entry WHERE key_id {{}} ? AND mechanism IN {LABEL_DRAWS} ORDER BY subject"
CORRECTED = """
    SELECT 1 FROM temp.staged s CROSS JOIN true_label t ON t.source = ? AND t.key_id = ? AND t.id_tag = s.id_tag
    WHERE t.label_tag <> s.label_tag LIMIT 1"""
OTHERWISE_RELEASED = """
    SELECT 1 FROM temp.staged s CROSS JOIN released_label r ON r.entry_id = ? AND r.id_tag = s.id_tag
    WHERE r.label <> s.label LIMIT 1"""
UNRELEASED = """
    SELECT 1 FROM temp.staged s LEFT JOIN released_label r ON r.entry_id = ? AND r.id_tag = s.id_tag
    WHERE r.id_tag IS NULL LIMIT 1"""
LABEL_ROW = {"id_tag": bytes, "label": str}
FLIPPED_ROW = {"id_tag": bytes, "label_tag": bytes, "label": str}


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


LabelRows = Iterable[tuple[bytes, str]]
"""(id tag, label text) per record, read once."""


class LabelLedger(Chapter):
    """Releases of flipped and of derived labels, and what is declared public."""

    def record_flips(
        self,
        *,
        source: str,
        epsilon: float,
        classes: int,
        key_id: str,
        rows: Iterable[tuple[bytes, bytes, str]],
        cap: float,
        job_id: str,
        task_id: str,
        fingerprint: str,
        class_labels: Iterable[str] = (),
        most_records: int | None = None,
        bounds: tuple[float, float] | None = None,
        delta: float = 0.0,
    ) -> FlipRelease:
        """Record a release of flipped labels before it happens; memoised records cost nothing more.

        What a source has spent is the largest total of distinct (epsilon, classes) of one record, added over keys and over
        the sources of its family (``remember_dataset``, before this). Together with the private steps on labels of the
        family (``record``; at ``delta`` where they have no epsilon at delta 0) it may not exceed ``cap`` (nats) by a release
        of new records. The release stays 'pending', and is charged, until ``mark_released``.

        Args:
            source: Declared ``namespace/name/column``.
            classes: Number of classes, or of grid points for numbers.
            rows: (id tag, label tag, released label) per record, read once.
            class_labels: The declared classes in order; must stay the same for one (epsilon, classes) of a source.
            most_records: How many records the source has, if its operator declared it.
            bounds: (low, high) of numbers that were made noisy in place of flips. They must stay the same as well.
            delta: At which private steps count that have no epsilon at delta 0.

        Raises:
            BudgetExceeded: Beyond the cap; nothing is written, here as below.
            CorrectedLabel: A label was changed after its release.
            LedgerError: The classes, the bounds or the number of records are not those declared.
        """
        positive("cap", cap, "a finite number greater than 0 (in nats)")
        entry = draw_entry(source, check_epsilon(epsilon), check_classes(classes), key_id, class_labels, bounds)
        with self._database.staged(FLIPPED_ROW, rows, "IMMEDIATE") as (connection, records):
            spent_before = epsilon_of_labels(charges(connection, source), delta)
            _refuse_corrected_labels(connection, entry)
            entry_id, release_id = add_use(connection, entry, Use(job_id, task_id, records, fingerprint, "pending"))
            _refuse_changed_classes(connection, entry_id, entry)
            true_labels = "INSERT OR IGNORE INTO true_label SELECT ?, ?, id_tag, label_tag FROM temp.staged"
            connection.execute(true_labels, (entry.subject, entry.key_id))
            released = "INSERT OR IGNORE INTO released_label SELECT ?, id_tag, label FROM temp.staged"
            new_records = connection.execute(released, (entry_id,)).rowcount
            _refuse_beyond_cap(connection, entry, new_records, spent_before, cap, delta)
            _refuse_more_records(connection, entry, most_records)
        return FlipRelease(release_id, entry_id, new_records)

    def record_derived(
        self,
        *,
        parent_entry_id: int,
        rows: LabelRows,
        description: str,
        job_id: str,
        task_id: str,
        releases: Iterable[LabelRelease] = (),
    ) -> int:
        """Record labels computed from released ones, such as flipback's; costs no epsilon. Returns the release id.

        Args:
            parent_entry_id: Entry of the flipped labels, as ``find_labels`` returns it; all ``rows`` are records of it.
                `LedgerError` if it is another, or never released one of them.
            releases: Further label releases that went in, such as those of a model whose scores were used.
        """
        with self._database.staged(LABEL_ROW, rows, "IMMEDIATE") as (connection, records):
            parent_id, parent = _paying_entry(connection, parent_entry_id)
            if connection.execute(UNRELEASED, (parent_id,)).fetchone():
                raise LedgerError("A derived label belongs to a record whose flipped label was never released.")
            entry = derived_entry(parent_id, parent, description)
            # That of an entry of flips is never None.
            flips = LabelRelease(parent.subject, parent.epsilon or 0.0, parent.classes, parent.key_id, parent_id)
            digest = _remember_derived(connection, find_or_add_entry(connection, entry), united([flips], releases))
            return add_use(connection, entry, Use(job_id, task_id, records, digest))[1]

    def record_not_private(self, *, source: str, reason: str, job_id: str, task_id: str, rows: int = 0) -> int:
        """Record a use of true labels: epsilon infinity, outside the cap; one entry per source. Returns its id."""
        with self._database.writing() as connection:
            entry = Entry(source, NOT_PRIVATE, counted=False)
            return add_use(connection, entry, Use(job_id, task_id, rows, note=reason))[0]

    def find_labels(self, rows: LabelRows, *, source: str, key_id: str) -> LabelProvenance | None:
        """Find the released or derived set of labels of which all ``rows`` are members, None where there is none.

        Where several fit, the one with the largest epsilon is returned, since the labels could come from any of them.
        """
        with self._database.staged(LABEL_ROW, rows) as (connection, records):
            if not records:
                return None
            parameters = {"source": source, "key_id": key_id, "records": records, "mechanism": POST_PROCESSING}
            released = connection.execute(MATCHING_RELEASES, parameters).fetchall()
            derived = connection.execute(MATCHING_DERIVED, parameters).fetchall()
        found = []
        for number, (entry_id, epsilon, classes, mechanism, class_labels, releases) in enumerate([*released, *derived]):
            flips = LabelRelease(source, epsilon, classes, key_id, entry_id, bounds_of(mechanism, class_labels))
            paid = (flips,) if releases is None else releases_of_json(json.loads(releases))
            found.append(LabelProvenance(source, paid, derived=number >= len(released)))
        return max(found, key=lambda each: (each.epsilon, not each.derived), default=None)

    def register_public(self, *, source: str, key_id: str, rows: LabelRows) -> None:
        """Remember the labels of a public source, record by record: a name alone would let any table pass for it."""
        with self._database.staged(LABEL_ROW, rows, "IMMEDIATE") as (connection, _):
            statement = "INSERT OR REPLACE INTO public_label SELECT ?, ?, id_tag, label FROM temp.staged"
            connection.execute(statement, (source, key_id))

    def are_public(self, rows: LabelRows, *, source: str, key_id: str) -> bool:
        """Whether all ``rows`` were registered as public labels of the source; False for none."""
        with self._database.staged(LABEL_ROW, rows) as (connection, records):
            (registered,) = connection.execute(REGISTERED, (source, key_id)).fetchone()
        return records > 0 and bool(registered == records)

    def has_released(self, id_tags: Iterable[bytes], *, source: str, key_id: str) -> bool:
        """Whether the flip of any of these records of the source was ever released."""
        query = "SELECT 1 FROM true_label WHERE source = ? AND key_id = ? AND id_tag = ?"
        with self._database.reading() as connection:
            return any(connection.execute(query, (source, key_id, id_tag)).fetchone() for id_tag in id_tags)

    def released_labels(self, entry_id: int, id_tags: Iterable[bytes]) -> list[str | None]:
        """What a line of flips released of each of these records, None of one that it did not."""
        query = "SELECT label FROM released_label WHERE entry_id = ? AND id_tag = ?"
        with self._database.reading() as connection:
            found = (connection.execute(query, (entry_id, id_tag)).fetchone() for id_tag in id_tags)
            return [None if row is None else str(row[0]) for row in found]

    def class_labels(self, entry_id: int) -> list[str]:
        """The declared classes of a line of flips, as texts in order; none where it was written without them."""
        with self._database.reading() as connection:
            entry = read_entry(connection, entry_id)
        if entry is None:
            raise LedgerError(refusal("entry_id", entry_id, "an entry of this ledger"))
        return list(json.loads(entry.class_labels or "[]"))

    def sources(self, key_id: str) -> list[str]:
        """Label sources with a release under this key."""
        return [source for (source,) in self._database.fetch(SOURCES.format("="), (key_id,))]

    def sources_of_other_keys(self, key_id: str) -> list[str]:
        """Label sources with a release under a key that is not this one, such as one that was lost."""
        return [source for (source,) in self._database.fetch(SOURCES.format("<>"), (key_id,))]

    def spent(self, source: str) -> float:
        """What flips of the sources in the family of this one spent, in nats (see ``record_flips``)."""
        with self._database.reading() as connection:
            return spent_by_flips(connection, source)

    def spent_of_labels(self, source: str, delta: float = 0.0) -> float:
        """What counts against the cap of labels, in nats: flips of, and private steps on, all labels of the family.

        It is a total at delta 0, or at ``delta`` where a step has no epsilon at delta 0.
        """
        with self._database.reading() as connection:
            return epsilon_of_labels(charges(connection, source), delta)

    def remember_model_scores(self, digest: str, releases: Iterable[LabelRelease]) -> None:
        """Remember, by digest, the releases that scores, and labels that are computed from them, rest on."""
        content = json.dumps(releases_to_json(releases))
        with self._database.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO model_scores VALUES (?, ?)", (digest, content))

    def releases_of_scores(self, digest: str) -> Releases | None:
        """The releases that ``remember_model_scores`` noted for scores of this digest, None for unknown scores."""
        rows = self._database.fetch("SELECT releases FROM model_scores WHERE digest = ?", (digest,))
        return releases_of_json(json.loads(rows[0][0])) if rows else None


def _refuse_corrected_labels(connection: sqlite3.Connection, entry: Entry) -> None:
    if connection.execute(CORRECTED, (entry.subject, entry.key_id)).fetchone():
        raise CorrectedLabel(
            f"A label of the source {entry.subject} was changed after its release; releasing it anew would reveal "
            "that it changed, so restore the earlier label or leave the record out."
        )


def _refuse_more_records(connection: sqlite3.Connection, entry: Entry, most_records: int | None) -> None:
    if most_records is None:
        return
    query = "SELECT count(*) FROM true_label WHERE source = ? AND key_id = ?"
    (records,) = connection.execute(query, (entry.subject, entry.key_id)).fetchone()
    if records > most_records:
        raise LedgerError(
            f"The label source {entry.subject} was declared with {most_records} records, and with this job labels of "
            f"{records} would have been released; ids that changed make old records new ones."
        )


def _refuse_changed_classes(connection: sqlite3.Connection, entry_id: int, entry: Entry) -> None:
    stored = read_entry(connection, entry_id)
    differs = connection.execute(OTHERWISE_RELEASED, (entry_id,)).fetchone()
    if stored is None or stored.class_labels != entry.class_labels or differs:
        numbers = bounds_of(entry.mechanism, entry.class_labels) is not None
        others = "within other bounds" if numbers else f"under another list of {entry.classes} classes"
        raise LedgerError(
            f"Labels of the source {entry.subject} were released at epsilon {entry.epsilon:g} {others}; a second "
            "answer at the same epsilon would reveal labels, so keep to the first."
        )


def _refuse_beyond_cap(
    connection: sqlite3.Connection, entry: Entry, new_records: int, spent_before: float, cap: float, delta: float
) -> None:
    total = epsilon_of_labels(charges(connection, entry.subject), delta)
    if new_records and total > cap * (1 + ROUNDING):
        raise BudgetExceeded(
            f"The label source {entry.subject} has spent epsilon {spent_before:g}, this job asks for "
            f"{entry.epsilon:g} (total {total:g}), and the cap is {cap:g}; the guest's operator changes that with "
            f"`fate-dp cap {shlex.quote(entry.subject.rpartition('/')[0])} --labels EPSILON`."
        )


def _paying_entry(connection: sqlite3.Connection, entry_id: int) -> tuple[int, Entry]:
    entry = read_entry(connection, entry_id)
    if entry and entry.mechanism == POST_PROCESSING:
        entry_id, entry = entry.parent_id, read_entry(connection, entry.parent_id)
    if not entry or entry.mechanism != RANDOMIZED_RESPONSE:
        raise LedgerError(refusal("parent_entry_id", entry_id, "an entry of flipped labels in this ledger"))
    return entry_id, entry


def _remember_derived(connection: sqlite3.Connection, entry_id: int, releases: Releases) -> str:
    """Remember the staged labels as one set; returns its digest, which tells them from other sets."""
    digest = hashlib.sha256()
    for id_tag, label in connection.execute("SELECT id_tag, label FROM temp.staged ORDER BY id_tag"):
        digest.update(len(id_tag).to_bytes(8, "big") + id_tag + len(label.encode()).to_bytes(8, "big") + label.encode())
    told = json.dumps(releases_to_json(releases))
    if len(releases) > 1:
        # The same labels, computed from more, are another set.
        digest.update(told.encode())
    derived_set = "INSERT OR IGNORE INTO derived_set (entry_id, digest) VALUES (?, ?)"
    added = connection.execute(derived_set, (entry_id, digest.hexdigest()))
    if added.rowcount:
        connection.execute("INSERT INTO derived_label SELECT ?, id_tag, label FROM temp.staged", (added.lastrowid,))
        connection.execute("INSERT INTO derived_from VALUES (?, ?)", (added.lastrowid, told))
    return digest.hexdigest()
