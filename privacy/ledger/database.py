"""The SQLite file behind a ledger: connections and durable transactions.

A connection lives for one operation, so that processes forked in between share none. A commit is on disk when it
returns, and a crash before it leaves no trace.
"""
import os
import sqlite3
from contextlib import closing, contextmanager

from fate_dp.privacy.ledger.errors import DuplicateRecord, LedgerUnavailable
from fate_dp.privacy.ledger.schema import SCHEMA_VERSION, make_current, version_of
from fate_dp.privacy.private_file import publish_if_absent

BUSY_SECONDS = 30


@contextmanager
def open_ledger(path):
    """Connect to the ledger at ``path`` for one operation; make the file (mode 0600) on first use, upgrade an old one.

    :raises LedgerUnavailable: when it cannot be read or written (no space, no permission), is damaged, stays locked for
        30 seconds, or is of a newer version.
    """
    _ensure_file(path)
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
            # EXTRA is FULL plus a sync of the folder after the journal is gone, without which a power cut could
            # still undo a commit that was already reported.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA temp_store = MEMORY")
            _ensure_schema(connection, path)
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        # Where SQLite's own sentence quotes what is no text, Python 3.11 cannot decode it and 3.10 leaves it out.
        sentence = str(error) if isinstance(error, sqlite3.Error) else ""
        reason = sentence or "it is damaged"
        raise LedgerUnavailable(f"The ledger {path} cannot be used: {reason}.") from error


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


def stage_rows(connection, columns, rows, repeated=False):
    """Stream ``rows`` into the temporary table ``staged`` and return their number.

    ``columns`` maps names to Python types; the first is the record's tag, which must not repeat unless ``repeated``, and
    counts once.
    """
    key, *others = columns
    connection.execute(f"CREATE TEMP TABLE staged ({', '.join([f'{key} PRIMARY KEY', *others])}) WITHOUT ROWID")
    marks, insert = ", ".join("?" * len(columns)), "INSERT OR IGNORE" if repeated else "INSERT"
    try:
        with transaction(connection, "DEFERRED"):
            connection.executemany(f"{insert} INTO temp.staged VALUES ({marks})", _typed(rows, columns))
    except sqlite3.IntegrityError as error:
        raise DuplicateRecord("A record occurs twice in the table but every match id must occur once.") from error
    return connection.execute("SELECT count(*) FROM temp.staged").fetchone()[0]


def _typed(rows, columns):
    for row in rows:
        if len(row) != len(columns) or not all(map(isinstance, row, columns.values())):
            expected = ", ".join(f"{name}: {kind.__name__}" for name, kind in columns.items())
            raise TypeError(f"A row for the ledger has other contents than ({expected}).")
        yield row


def _ensure_file(path):
    # Never opened by hand once it exists: closing any descriptor of it would drop SQLite's locks in this process.
    if os.path.exists(path):
        return
    try:
        publish_if_absent(path, b"")
    except OSError as error:
        raise LedgerUnavailable(f"The ledger {path} cannot be made: {error.strerror}.") from error


def _ensure_schema(connection, path):
    if version_of(connection) < SCHEMA_VERSION:
        # Asked again under the write lock: another process may have been faster.
        with transaction(connection):
            make_current(connection)
    version = version_of(connection)
    if version > SCHEMA_VERSION:
        raise LedgerUnavailable(
            f"The ledger {path} has version {version} but this program reads versions up to {SCHEMA_VERSION}."
        )
