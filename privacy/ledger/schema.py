"""The tables of a ledger, and how a file of an older version becomes one of this version.

Creating and upgrading happen inside the caller's transaction: afterwards the file is wholly of the new version, and
after a crash wholly of the old one.
"""
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.ledger.entry import JOINT_SCORES, LABEL_OBSERVERS, RANDOMIZED_RESPONSE, SCORE_EVENT, flip_event
from fate_dp.privacy.ledger.errors import LedgerUnavailable
from fate_dp.privacy.ledger.families import RELATED_TABLES, join_by_columns
from fate_dp.privacy.ledger.table_names import TABLE_NAMES

SCHEMA_VERSION = 4

# Entries with an epsilon of their own have it here; that of a private step is computed from its event whenever it is
# asked for. SQLite takes empty epsilons for different ones, so that private steps need an index of their own.
ENTRY_TABLE = """CREATE TABLE entry (
        entry_id INTEGER PRIMARY KEY,
        subject TEXT NOT NULL,
        mechanism TEXT NOT NULL,
        unit TEXT NOT NULL,
        relation TEXT NOT NULL,
        observer TEXT NOT NULL,
        epsilon REAL,
        delta REAL,
        classes INTEGER NOT NULL,
        class_labels TEXT NOT NULL,
        key_id TEXT NOT NULL,
        parent_id INTEGER NOT NULL,
        purpose TEXT NOT NULL,
        counted INTEGER NOT NULL,
        event TEXT NOT NULL,
        UNIQUE (subject, mechanism, epsilon, classes, key_id, parent_id, purpose))"""
EVENT_TABLES = (
    "CREATE UNIQUE INDEX entry_of_event ON entry (subject, event, purpose) WHERE epsilon IS NULL",
    """CREATE TABLE private_step (
        release_id INTEGER PRIMARY KEY REFERENCES release,
        release_key TEXT NOT NULL UNIQUE,
        rounds INTEGER NOT NULL)""",
)
# Released records and their true labels by tags that name no source, so that another name for the labels is noticed.
SOURCE_FREE_TABLE = """CREATE TABLE label_record (
        record BLOB NOT NULL,
        source TEXT NOT NULL,
        true_label BLOB NOT NULL,
        PRIMARY KEY (record, source)) WITHOUT ROWID"""
# What a set of derived labels rests on (no row: its parent entry alone, as before version 3), and given scores.
RELEASE_TABLES = (
    """CREATE TABLE derived_from (
        set_id INTEGER PRIMARY KEY REFERENCES derived_set,
        releases TEXT NOT NULL)""",
    """CREATE TABLE model_scores (
        digest TEXT PRIMARY KEY,
        releases TEXT NOT NULL) WITHOUT ROWID""",
)
SCHEMA = (
    ENTRY_TABLE,
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
    *EVENT_TABLES,
    *RELEASE_TABLES,
    SOURCE_FREE_TABLE,
    *RELATED_TABLES,
    TABLE_NAMES,
)
VERSION_1_ENTRY = (
    "entry_id, subject, mechanism, unit, relation, observer, epsilon, delta, classes, class_labels, key_id, parent_id,"
    " purpose, counted"
)


def version_of(connection):
    """Version of the ledger's tables; 0 for an empty file.

    :raises LedgerUnavailable: when the file says no version that there could be.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger_version'").fetchone():
        return 0
    (version,) = connection.execute("SELECT version FROM ledger_version").fetchone() or (None,)
    if not isinstance(version, int) or version < 1:
        raise LedgerUnavailable(
            f"The ledger is damaged: its version is {version!r}, which is no whole number from 1 on."
        )
    return version


def make_current(connection):
    """Bring an empty file, or one of an older version, to this version; leave any other as it is."""
    steps = {0: _create, 1: _upgrade_from_1, 2: _upgrade_from_2, 3: _upgrade_from_3}
    while version_of(connection) in steps:
        steps[version_of(connection)](connection)


def _create(connection):
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO ledger_version VALUES (?)", (SCHEMA_VERSION,))


def _upgrade_from_1(connection):
    """Entries get their events and the relations' names of today; private steps get a table."""
    connection.execute("CREATE TEMP TABLE entry_1 AS SELECT * FROM main.entry")
    connection.execute("DROP TABLE main.entry")
    connection.execute(ENTRY_TABLE)
    connection.execute(
        f"INSERT INTO main.entry ({VERSION_1_ENTRY}, event) SELECT {VERSION_1_ENTRY}, '' FROM temp.entry_1"
    )
    connection.execute("DROP TABLE temp.entry_1")
    connection.execute("UPDATE entry SET relation = ?", (REPLACE_ONE,))
    connection.execute("UPDATE entry SET observer = ? WHERE unit = 'label'", (", ".join(LABEL_OBSERVERS),))
    connection.execute("UPDATE entry SET event = ? WHERE mechanism = ?", (SCORE_EVENT.to_json(), JOINT_SCORES))
    flips = connection.execute(
        "SELECT entry_id, epsilon, classes FROM entry WHERE mechanism = ?", (RANDOMIZED_RESPONSE,)
    ).fetchall()
    for entry_id, epsilon, classes in flips:
        event = flip_event(epsilon, classes).to_json()
        connection.execute("UPDATE entry SET event = ? WHERE entry_id = ?", (event, entry_id))
    for statement in EVENT_TABLES:
        connection.execute(statement)
    connection.execute("UPDATE ledger_version SET version = ?", (2,))


def _upgrade_from_2(connection):
    """Derived labels and scores say which releases they rest on; records get tags without a source when they come again.

    Datasets that share a column are one family; datasets that come later are related by their records.
    """
    for statement in (*RELEASE_TABLES, SOURCE_FREE_TABLE, *RELATED_TABLES):
        connection.execute(statement)
    join_by_columns(connection)
    connection.execute("UPDATE ledger_version SET version = ?", (3,))


def _upgrade_from_3(connection):
    """Datasets get the names of the tables that jobs read them from, as those jobs come."""
    connection.execute(TABLE_NAMES)
    connection.execute("UPDATE ledger_version SET version = ?", (4,))
