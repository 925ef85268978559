-- The tables of a ledger, but what the upgrades beside this file add.
--
-- Entries with an epsilon of their own have it there; that of a private step is computed from its event whenever it is
-- asked for. SQLite takes empty epsilons for different ones, so that private steps need an index of their own. What one
-- job used is asked for in every report of it, and a ledger may hold a million releases.
--
-- Labels: released and derived ones by record, true ones by a tag of their value. What a set of derived labels rests on
-- stands in derived_from (no row: its parent entry alone).

CREATE TABLE entry (
    entry_id INTEGER PRIMARY KEY, subject TEXT NOT NULL, mechanism TEXT NOT NULL, unit TEXT NOT NULL,
    relation TEXT NOT NULL, observer TEXT NOT NULL, epsilon REAL, delta REAL, classes INTEGER NOT NULL,
    class_labels TEXT NOT NULL, key_id TEXT NOT NULL, parent_id INTEGER NOT NULL, purpose TEXT NOT NULL,
    counted INTEGER NOT NULL, event TEXT NOT NULL,
    UNIQUE (subject, mechanism, epsilon, classes, key_id, parent_id, purpose));
CREATE TABLE release (
    release_id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entry, job_id TEXT NOT NULL,
    task_id TEXT NOT NULL, time REAL NOT NULL, records INTEGER NOT NULL, fingerprint TEXT NOT NULL,
    state TEXT NOT NULL, note TEXT NOT NULL);
CREATE INDEX release_of_entry ON release (entry_id, fingerprint);
CREATE INDEX release_of_job ON release (job_id);
CREATE TABLE true_label (
    source TEXT NOT NULL, key_id TEXT NOT NULL, id_tag BLOB NOT NULL, label_tag BLOB NOT NULL,
    PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID;
CREATE TABLE released_label (
    entry_id INTEGER NOT NULL REFERENCES entry, id_tag BLOB NOT NULL, label TEXT NOT NULL,
    PRIMARY KEY (entry_id, id_tag)) WITHOUT ROWID;
CREATE TABLE derived_set (
    set_id INTEGER PRIMARY KEY, entry_id INTEGER NOT NULL REFERENCES entry, digest TEXT NOT NULL,
    UNIQUE (entry_id, digest));
CREATE TABLE derived_label (
    set_id INTEGER NOT NULL REFERENCES derived_set, id_tag BLOB NOT NULL, label TEXT NOT NULL,
    PRIMARY KEY (set_id, id_tag)) WITHOUT ROWID;
CREATE TABLE public_label (
    source TEXT NOT NULL, key_id TEXT NOT NULL, id_tag BLOB NOT NULL, label TEXT NOT NULL,
    PRIMARY KEY (source, key_id, id_tag)) WITHOUT ROWID;
CREATE TABLE dataset_column (
    dataset TEXT NOT NULL, column_name TEXT NOT NULL, PRIMARY KEY (dataset, column_name)) WITHOUT ROWID;
CREATE TABLE training_record (
    dataset TEXT NOT NULL, id_tag BLOB NOT NULL, PRIMARY KEY (dataset, id_tag)) WITHOUT ROWID;
CREATE TABLE ledger_version (version INTEGER NOT NULL);
CREATE UNIQUE INDEX entry_of_event ON entry (subject, event, purpose) WHERE epsilon IS NULL;
CREATE TABLE private_step (
    release_id INTEGER PRIMARY KEY REFERENCES release, release_key TEXT NOT NULL UNIQUE,
    rounds INTEGER NOT NULL);
CREATE TABLE derived_from ( set_id INTEGER PRIMARY KEY REFERENCES derived_set, releases TEXT NOT NULL);
CREATE TABLE model_scores ( digest TEXT PRIMARY KEY, releases TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE dataset_family (
    dataset TEXT PRIMARY KEY, family INTEGER NOT NULL, key_id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE family ( number INTEGER PRIMARY KEY, joined INTEGER NOT NULL);
CREATE TABLE family_record ( record BLOB PRIMARY KEY, number INTEGER NOT NULL REFERENCES family) WITHOUT ROWID;
CREATE TABLE dataset_table (
    dataset TEXT NOT NULL, table_name TEXT NOT NULL, PRIMARY KEY (dataset, table_name)) WITHOUT ROWID;
