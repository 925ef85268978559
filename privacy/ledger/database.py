"""The SQLite file behind a ledger: schema, connections, durable transactions.

A connection lives for one operation, so that processes forked in between share none. A commit is on disk when it
returns, and a crash before it leaves no trace.
"""
import os
import sqlite3
from contextlib import closing, contextmanager

from fate_dp.privacy.ledger.errors import DuplicateRecord, LedgerUnavailable
from fate_dp.privacy.private_file import publish_if_absent

SCHEMA_VERSION = 1
BUSY_SECONDS = 30
SCHEMA = (
    """CREATE TABLE entry (
        entry_id INTEGER PRIMARY KEY,
        subject TEXT NOT NULL,
        mechanism TEXT NOT NULL,
        unit TEXT NOT NULL,
        relation TEXT NOT NULL,
        observer TEXT NOT NULL,
        epsilon REAL NOT NULL,
        delta REAL NOT NULL,
        classes INTEGER NOT NULL,
        class_labels TEXT NOT NULL,
        key_id TEXT NOT NULL,
        parent_id INTEGER NOT NULL,
        purpose TEXT NOT NULL,
        counted INTEGER NOT NULL,
        UNIQUE (subject, mechanism, epsilon, classes, key_id, parent_id, purpose))""",
    """CREATE TABLE release (
        release_id INTEGER PRIMARY KEY,
        entry_id INTEGER NOT NULL REFERENCES entry,
        job_id TEXT NOT NULL,
        task_id TEXT NOT NULL,
        time REAL NOT NULL,
        records INTEGER NOT NULL,
        fingerprint TEXT NOT NULL,
        state TEXT NOT NULL,
        note TEXT NOT NULL)""",
    "CREATE INDEX release_of_entry ON release (entry_id, fingerprint)",
    """CREATE TABLE true_label (
        source TEXT NOT NULL,
        key_id TEXT NOT NULL,
        id_tag BLOB NOT NULL,
        label_tag BLOB NOT NULL,
        PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE released_label (
        entry_id INTEGER NOT NULL REFERENCES entry,
        id_tag BLOB NOT NULL,
        label TEXT NOT NULL,
        PRIMARY KEY (entry_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE derived_set (
        set_id INTEGER PRIMARY KEY,
        entry_id INTEGER NOT NULL REFERENCES entry,
        digest TEXT NOT NULL,
        UNIQUE (entry_id, digest))""",
    """CREATE TABLE derived_label (
        set_id INTEGER NOT NULL REFERENCES derived_set,
        id_tag BLOB NOT NULL,
        label TEXT NOT NULL,
        PRIMARY KEY (set_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE public_label (
        source TEXT NOT NULL,
        key_id TEXT NOT NULL,
        id_tag BLOB NOT NULL,
        label TEXT NOT NULL,
        PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID""",
    """CREATE TABLE dataset_column (
        dataset TEXT NOT NULL,
        column_name TEXT NOT NULL,
        PRIMARY KEY (dataset, column_name)) WITHOUT ROWID""",
    """CREATE TABLE training_record (
        dataset TEXT NOT NULL,
        id_tag BLOB NOT NULL,
        PRIMARY KEY (dataset, id_tag)) WITHOUT ROWID""",
    "CREATE TABLE ledger_version (version INTEGER NOT NULL)",
)


@contextmanager
def open_ledger(path):
    """Connect to the ledger at ``path`` for one operation; make the file (mode 0600) on first use.

    :raises LedgerUnavailable: when it is damaged, stays locked for 30 seconds, or is of a newer version.
    """
    try:
        # Never opened by hand once it exists: closing any descriptor of it would drop SQLite's locks in this process.
        if not os.path.exists(path):
            publish_if_absent(path, b"")
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            # EXTRA is FULL plus a sync of the folder after the journal is gone, without which a power cut could
            # still undo a commit that was already reported.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA temp_store = MEMORY")
            _ensure_schema(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise LedgerUnavailable(f"The ledger {path} cannot be used: {error}.") from error


@contextmanager
def transaction(connection, mode="IMMEDIATE"):
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


def stage_rows(connection, columns, rows):
    """Stream ``rows`` into the temporary table ``staged`` and return their number.

    ``columns`` maps names to Python types; the first is the record's tag, which must not repeat.
    """
    key, *others = columns
    connection.execute(f"CREATE TEMP TABLE staged ({key} PRIMARY KEY, {', '.join(others)}) WITHOUT ROWID")
    marks = ", ".join("?" * len(columns))
    try:
        with transaction(connection, "DEFERRED"):
            connection.executemany(f"INSERT INTO temp.staged VALUES ({marks})", _typed(rows, columns))
    except sqlite3.IntegrityError as error:
        raise DuplicateRecord("A record occurs twice in the table but every match id must occur once.") from error
    return connection.execute("SELECT count(*) FROM temp.staged").fetchone()[0]


def _typed(rows, columns):
    for row in rows:
        if len(row) != len(columns) or not all(map(isinstance, row, columns.values())):
            expected = ", ".join(f"{name}: {kind.__name__}" for name, kind in columns.items())
            raise TypeError(f"A row for the ledger has other contents than ({expected}).")
        yield row


def _ensure_schema(connection, path):
    if not _has_schema(connection):
        with transaction(connection):
            if not _has_schema(connection):
                for statement in SCHEMA:
                    connection.execute(statement)
                connection.execute("INSERT INTO ledger_version VALUES (?)", (SCHEMA_VERSION,))
    version = connection.execute("SELECT version FROM ledger_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"The ledger {path} has version {version} but this program reads versions up to {SCHEMA_VERSION}."
        )


def _has_schema(connection):
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger_version'").fetchone() is not None
