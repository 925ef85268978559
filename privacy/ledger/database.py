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

# What a line's uses come to, for questions that must not read all of them, and for one job (``chosen``). The plus keeps
# SQLite from walking an index where it reads every use, which takes three times as long.
RECOUNT = """
    SELECT r.entry_id, count(*) AS uses, sum(r.state = 'pending') AS pending, coalesce(sum(s.rounds), 0) AS rounds,
        count(DISTINCT r.fingerprint) AS fingerprints, max(r.records) AS most_records, min(r.release_id) AS first_id,
        max(r.release_id) AS last_id
    FROM release r LEFT JOIN private_step s USING (release_id) WHERE {chosen} GROUP BY +r.entry_id"""
NOTES = "SELECT r.entry_id, r.note FROM release r WHERE r.note <> '' AND {chosen} ORDER BY r.release_id"


def _statements(name: str, **queries: str) -> tuple[str, ...]:
    """Those of a file beside this one, with ``queries`` in their places."""
    found = [""]
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").format(**queries).splitlines(keepends=True):
        found[-1] += line
        if sqlite3.complete_statement(found[-1]):
            found.append("")
    return tuple(found[:-1])


_SUMS = {"recount": RECOUNT, "notes": NOTES, "counted": COUNTED_USES}
_NEW = "r.release_id = NEW.release_id"
_OF_NEW = {f"{name}_of_new": query.format(chosen=_NEW) for name, query in _SUMS.items()}
ROWS = _statements("tables.sql")
UPGRADES = {
    5: _statements("upgrade_5.sql"),
    6: _statements(
        "upgrade_6.sql", new=_NEW, **_OF_NEW, **{name: query.format(chosen=1) for name, query in _SUMS.items()}
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
