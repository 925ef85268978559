"""The SQLite file of a ledger: its tables and durable transactions."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ..private_files import publish_if_absent
from .entries import COUNTED_USES, LedgerError, LedgerUnavailable, insert

# Eight jobs that charge at once wait for each other, on a disk that takes a second for each of a charge's syncs.
BUSY_SECONDS = 300
STAGED_KIB = 1 << 17
"""Of rows that are staged, in memory; a table of 300,000 records stays below it."""
SCHEMA_VERSION = 7
# Weights are no records: models on one column name count together. So begins the name of their dataset.
WEIGHTS = "weights of "

# Entries with an epsilon of their own have it there; that of a private step is computed from its event whenever it is
# asked for. SQLite takes empty epsilons for different ones, so that private steps need an index of their own.
# Labels: released and derived ones by record, true ones by a tag of their value. What a set of derived labels rests on stands in derived_from
# (no row: its parent entry alone). What one job used is asked for in every report of it, and a ledger may hold a million
# releases.
ROWS = (
    """CREATE TABLE entry (
        entry_id INTEGER PRIMARY KEY, subject TEXT NOT NULL, mechanism TEXT NOT NULL, unit TEXT NOT NULL,
        relation TEXT NOT NULL, observer TEXT NOT NULL, epsilon REAL, delta REAL, classes INTEGER NOT NULL,
        class_labels TEXT NOT NULL, key_id TEXT NOT NULL, parent_id INTEGER NOT NULL, purpose TEXT NOT NULL,
        counted INTEGER NOT NULL, event TEXT NOT NULL,
        UNIQUE (subject, mechanism, epsilon, classes, key_id, parent_id, purpose))""",
    """CREATE TABLE release (
        release_id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entry, job_id TEXT NOT NULL,
        task_id TEXT NOT NULL, time REAL NOT NULL, records INTEGER NOT NULL, fingerprint TEXT NOT NULL,
        state TEXT NOT NULL, note TEXT NOT NULL)""",
    "CREATE INDEX release_of_entry ON release (entry_id, fingerprint)",
    "CREATE INDEX release_of_job ON release (job_id)",
    """CREATE TABLE true_label (
        source TEXT NOT NULL, key_id TEXT NOT NULL, id_tag BLOB NOT NULL, label_tag BLOB NOT NULL,
        PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE released_label (
        entry_id INTEGER NOT NULL REFERENCES entry, id_tag BLOB NOT NULL, label TEXT NOT NULL,
        PRIMARY KEY (entry_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE derived_set (
        set_id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entry, digest TEXT NOT NULL,
        UNIQUE (entry_id, digest))""",
    """CREATE TABLE derived_label (
        set_id INTEGER NOT NULL REFERENCES derived_set, id_tag BLOB NOT NULL, label TEXT NOT NULL,
        PRIMARY KEY (set_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE public_label (
        source TEXT NOT NULL, key_id TEXT NOT NULL, id_tag BLOB NOT NULL, label TEXT NOT NULL,
        PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE dataset_column (
        dataset TEXT NOT NULL, column_name TEXT NOT NULL, PRIMARY KEY (dataset, column_name)) WITHOUT ROWID""",
    """CREATE TABLE training_record (
        dataset TEXT NOT NULL, id_tag BLOB NOT NULL, PRIMARY KEY (dataset, id_tag)) WITHOUT ROWID""",
    "CREATE TABLE ledger_version (version INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX entry_of_event ON entry (subject, event, purpose) WHERE epsilon IS NULL",
    """CREATE TABLE private_step (
        release_id INTEGER PRIMARY KEY REFERENCES release, release_key TEXT NOT NULL UNIQUE,
        rounds INTEGER NOT NULL)""",
    "CREATE TABLE derived_from ( set_id INTEGER PRIMARY KEY REFERENCES derived_set, releases TEXT NOT NULL)",
    "CREATE TABLE model_scores ( digest TEXT PRIMARY KEY, releases TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE dataset_family (
        dataset TEXT PRIMARY KEY, family INTEGER NOT NULL, key_id TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE TABLE family ( number INTEGER PRIMARY KEY, joined INTEGER NOT NULL)",
    "CREATE TABLE family_record ( record BLOB PRIMARY KEY, number INTEGER NOT NULL REFERENCES family) WITHOUT ROWID",
    """CREATE TABLE dataset_table (
        dataset TEXT NOT NULL, table_name TEXT NOT NULL, PRIMARY KEY (dataset, table_name)) WITHOUT ROWID""",
)

# What a line's uses come to, for questions that must not read all of them, and for one job (``chosen``). The plus keeps
# SQLite from walking an index where it reads every use, which takes three times as long.
RECOUNT = """
    SELECT r.entry_id, count(*) AS uses, sum(r.state = 'pending') AS pending, coalesce(sum(s.rounds), 0) AS rounds,
        count(DISTINCT r.fingerprint) AS fingerprints, max(r.records) AS most_records, min(r.release_id) AS first_id,
        max(r.release_id) AS last_id
    FROM release r LEFT JOIN private_step s USING (release_id) WHERE {chosen} GROUP BY +r.entry_id"""
NOTES = "SELECT r.entry_id, r.note FROM release r WHERE r.note <> '' AND {chosen} ORDER BY r.release_id"
NEW = "r.release_id = NEW.release_id"

UPGRADES = {
    # What commit 64436b6 wrote. It knew no families of label sources. Records behind them have no names now, so a source of
    # then is in the family of everything, as what was remembered under another key is.
    5: (
        "INSERT INTO family (joined) SELECT 0 FROM entry WHERE unit = 'label' AND event <> '' GROUP BY subject",
        "UPDATE family SET joined = number WHERE joined = 0",
        """INSERT OR IGNORE INTO dataset_family
            SELECT subject, (SELECT max(number) FROM family) - row_number() OVER () + 1, 'version 5'
            FROM entry WHERE unit = 'label' AND event <> '' GROUP BY subject""",
        "DROP TABLE label_record",
        # Ids were not trimmed then: tags of trimmed ones whose records this ledger knows with blanks at their ends alone.
        "CREATE TABLE id_blanks ( id_tag BLOB PRIMARY KEY, before TEXT NOT NULL, behind TEXT NOT NULL) WITHOUT ROWID",
    ),
    # It kept no sums. SQLite keeps these in the transaction that writes the rows, whichever statement does. All are whole
    # numbers or sets, so that they are what a recount says. Rows are only ever added, and marked.
    6: (
        """CREATE TABLE entry_sum (
            entry_id INTEGER PRIMARY KEY REFERENCES entry, uses INTEGER NOT NULL, pending INTEGER NOT NULL,
            rounds INTEGER NOT NULL, fingerprints INTEGER NOT NULL, most_records INTEGER NOT NULL,
            first_id INTEGER NOT NULL, last_id INTEGER NOT NULL)""",
        "CREATE TABLE entry_note (entry_id INTEGER NOT NULL REFERENCES entry, note TEXT NOT NULL, UNIQUE (entry_id, note))",
        """CREATE TABLE counted_use (
            mechanism TEXT NOT NULL, subject TEXT NOT NULL, fingerprint TEXT NOT NULL,
            PRIMARY KEY (mechanism, subject, fingerprint)) WITHOUT ROWID""",
        f"""CREATE TRIGGER release_is_counted AFTER INSERT ON release BEGIN
            INSERT INTO entry_sum
                VALUES (NEW.entry_id, 1, NEW.state = 'pending', 0, 1, NEW.records, NEW.release_id, NEW.release_id)
                ON CONFLICT (entry_id) DO UPDATE SET uses = uses + 1, pending = pending + excluded.pending,
                fingerprints = fingerprints + NOT EXISTS (
                    SELECT 1 FROM release r WHERE r.entry_id = NEW.entry_id AND r.fingerprint = NEW.fingerprint AND NOT {NEW}),
                most_records = max(most_records, excluded.most_records), first_id = min(first_id, excluded.first_id),
                last_id = max(last_id, excluded.last_id);
            INSERT OR IGNORE INTO entry_note {NOTES.format(chosen=NEW)};
            INSERT OR IGNORE INTO counted_use {COUNTED_USES.format(chosen=NEW)};
            END""",
        """CREATE TRIGGER release_is_marked AFTER UPDATE OF state ON release BEGIN
            UPDATE entry_sum SET pending = pending + (NEW.state = 'pending') - (OLD.state = 'pending')
                WHERE entry_id = NEW.entry_id;
            END""",
        """CREATE TRIGGER step_is_counted AFTER INSERT ON private_step BEGIN
            UPDATE entry_sum SET rounds = rounds + NEW.rounds
                WHERE entry_id = (SELECT entry_id FROM release WHERE release_id = NEW.release_id);
            END""",
        f"INSERT INTO entry_sum {RECOUNT.format(chosen=1)}",
        f"INSERT OR IGNORE INTO entry_note {NOTES.format(chosen=1)}",
        f"INSERT OR IGNORE INTO counted_use {COUNTED_USES.format(chosen=1)}",
    ),
}
"""From each earlier version that is read to the next one."""


class Database:
    """The file ``path`` of a ledger (mode 0600, made on first use).

    A connection lives for one operation, so that threads and forked processes share none. A commit is on disk when it
    returns, and a crash before it leaves no trace. There is no write-ahead log: its files would have to be made before a
    ledger could be read, which a full or read-only disk refuses.

    A ledger of an earlier version is upgraded by the first operation that writes, after a copy of it. Those that read
    upgrade a copy that ends with them.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @contextmanager
    def open(self, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """Connect for one operation. Raises `LedgerUnavailable` as every method of `Ledger` does."""
        try:
            # Never opened by hand once it exists: closing a descriptor of it would drop SQLite's locks in this process.
            if not os.path.exists(self.path):
                publish_if_absent(self.path, b"")
        except OSError as error:
            raise LedgerUnavailable(f"The ledger {self.path} cannot be made: {error.strerror}.") from error
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = DELETE")
                # EXTRA is FULL plus a sync of the folder after the journal is gone, without which a power cut could
                # still undo a commit that was already reported.
                connection.execute("PRAGMA synchronous = EXTRA")
                # Staged rows of a large table go to a file without a name, which no other process can open.
                connection.execute("PRAGMA temp_store = FILE")
                connection.execute(f"PRAGMA temp.cache_size = -{STAGED_KIB}")
                if (version := version_of(connection)) in UPGRADES and not writes:
                    with closing(copied(connection, "")) as upgraded:
                        make_tables(upgraded)
                        yield upgraded
                    return
                if version in (0, *UPGRADES):
                    # Asked again under the write lock: another process may have been faster.
                    with transaction(connection):
                        if (version := version_of(connection)) in UPGRADES:
                            self._keep(version)
                        make_tables(connection)
                if (version := version_of(connection)) != SCHEMA_VERSION:
                    raise LedgerUnavailable(
                        f"The ledger {self.path} has version {version} but this program reads version {SCHEMA_VERSION}."
                    )
                yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Where SQLite's own sentence quotes what is no text, Python 3.11 cannot decode it and 3.10 leaves it out.
            reason = isinstance(error, sqlite3.Error) and str(error) or "it is damaged"
            raise LedgerUnavailable(f"The ledger {self.path} cannot be used: {reason}.") from error

    def _keep(self, version: int) -> None:
        kept = self.path.with_name(f"{self.path.name}.version-{version}")
        publish_if_absent(kept, b"")
        # SQLite copies for a connection that writes nothing itself.
        with closing(sqlite3.connect(self.path)) as reader:
            copied(reader, kept).close()
        print(
            f"The ledger {self.path} is upgraded to version {SCHEMA_VERSION}; as it was, it stays in {kept}.",
            flush=True,
        )

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Connect for one consistent snapshot."""
        with self.open() as connection, transaction(connection, "DEFERRED"):
            yield connection

    def fetch(self, query: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of one query."""
        with self.reading() as connection:
            return connection.execute(query, parameters).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Connect for one transaction that holds the write lock."""
        with self.open(writes=True) as connection, transaction(connection):
            yield connection

    @contextmanager
    def staged(
        self,
        columns: Mapping[str, type],
        rows: Iterable[tuple[Any, ...]],
        mode: str = "DEFERRED",
        repeated: bool = False,
    ) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Connect for one transaction beside rows that are staged first, without any lock; gives their number, too."""
        with self.open(writes=mode != "DEFERRED") as connection:
            records = stage_rows(connection, columns, rows, repeated)
            with transaction(connection, mode):
                yield connection, records


class Chapter:
    """One subject of a party's ledger: each method is one operation on the database that all chapters share."""

    def __init__(self, database: Database) -> None:
        self._database = database


def copied(connection: sqlite3.Connection, target: str | os.PathLike[str]) -> sqlite3.Connection:
    """A connection to a copy of a whole database, in this file or, without a name, in one that ends with it."""
    copy = sqlite3.connect(target, isolation_level=None)
    connection.backup(copy)
    return copy


@contextmanager
def transaction(connection: sqlite3.Connection, mode: str = "IMMEDIATE") -> Iterator[None]:
    """Run a block as one transaction: committed at its end, undone by any exception.

    ``IMMEDIATE`` takes the write lock first, so that what the block reads cannot change before it writes;
    ``DEFERRED`` is one consistent snapshot for reading.
    """
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def stage_rows(
    connection: sqlite3.Connection, columns: Mapping[str, type], rows: Iterable[tuple[Any, ...]], repeated: bool = False
) -> int:
    """Stream ``rows`` into the temporary table ``staged`` and return their number.

    ``columns`` maps names to Python types; the first is the record's tag, which counts once. Raises `LedgerError` if it
    repeats, unless that is allowed by ``repeated``, and `TypeError` if a row has other contents.
    """
    key, *others = columns
    connection.execute(f"CREATE TEMP TABLE staged ({', '.join([f'{key} PRIMARY KEY', *others])}) WITHOUT ROWID")
    marks, insert = ", ".join("?" * len(columns)), "INSERT OR IGNORE" if repeated else "INSERT"
    try:
        with transaction(connection, "DEFERRED"):
            connection.executemany(f"{insert} INTO temp.staged VALUES ({marks})", _typed(rows, columns))
    except sqlite3.IntegrityError as error:
        raise LedgerError("A record occurs twice in the table. Keep one row for each match id.") from error
    return int(connection.execute("SELECT count(*) FROM temp.staged").fetchone()[0])


def _typed(rows: Iterable[tuple[Any, ...]], columns: Mapping[str, type]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        if len(row) != len(columns) or not all(map(isinstance, row, columns.values())):
            expected = ", ".join(f"{name}: {kind.__name__}" for name, kind in columns.items())
            raise TypeError(f"A row for the ledger has other contents than ({expected}).")
        yield row


def version_of(connection: sqlite3.Connection) -> int:
    """Version of the ledger's tables; 0 for an empty file. Raises `LedgerUnavailable` for no possible version."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger_version'").fetchone():
        return 0
    (version,) = connection.execute("SELECT version FROM ledger_version").fetchone() or (None,)
    if not isinstance(version, int) or version < 1:
        raise LedgerUnavailable(
            f"The ledger is damaged: its version is {version!r}, which is no whole number from 1 on."
        )
    return version


def make_tables(connection: sqlite3.Connection) -> None:
    """Bring an empty file, and one of an earlier version, to this version; leave any other as it is."""
    if not (version := version_of(connection)):
        version = max(UPGRADES)
        for statement in (*ROWS, f"INSERT INTO ledger_version VALUES ({version})"):
            connection.execute(statement)
    for earlier in range(version, SCHEMA_VERSION) if version in UPGRADES else ():
        for statement in (*UPGRADES[earlier], f"UPDATE ledger_version SET version = {earlier + 1}"):
            connection.execute(statement)


def joined(connection: sqlite3.Connection, families: set[int]) -> int:
    """One family of all these; a new one for none."""
    if not families:
        number = insert(connection, "family", {"joined": 0})
        connection.execute("UPDATE family SET joined = number WHERE number = ?", (number,))
        return number
    first, *others = sorted(families)
    for other in others:
        connection.execute("UPDATE family SET joined = ? WHERE joined = ?", (first, other))
        connection.execute("UPDATE dataset_family SET family = ? WHERE family = ?", (first, other))
    return first
