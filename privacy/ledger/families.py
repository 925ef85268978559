"""The tables of families of datasets, and what joins two of them; see ``related_datasets``.

Apart from it because a ledger's file is made, and upgraded, with them.
"""
# The number of a dataset follows this, where several have the same columns and no record in common.
NUMBERED = "#"
# Weights are no records: models on one column name count together.
WEIGHTS = "weights of "

RELATED_TABLES = (
    """CREATE TABLE dataset_family (
        dataset TEXT PRIMARY KEY,
        family INTEGER NOT NULL,
        key_id TEXT NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE family (
        number INTEGER PRIMARY KEY,
        joined INTEGER NOT NULL)""",
    """CREATE TABLE family_record (
        record BLOB PRIMARY KEY,
        number INTEGER NOT NULL REFERENCES family) WITHOUT ROWID""",
)


def base_name(dataset):
    """The dataset's name as its columns give it, which policies use."""
    return dataset.partition(NUMBERED)[0]


def joined(connection, families):
    """One family of all these; a new one for none."""
    if not families:
        number = connection.execute("INSERT INTO family (joined) VALUES (0)").lastrowid
        connection.execute("UPDATE family SET joined = number WHERE number = ?", (number,))
        return number
    first, *others = sorted(families)
    for other in others:
        connection.execute("UPDATE family SET joined = ? WHERE joined = ?", (first, other))
        connection.execute("UPDATE dataset_family SET family = ? WHERE family = ?", (first, other))
    return first


def join_by_columns(connection):
    """Families of the datasets of a ledger before version 3: those that share a column, transitively."""
    families = {}
    for dataset, column in connection.execute("SELECT dataset, column_name FROM dataset_column ORDER BY 1").fetchall():
        if not dataset.startswith(WEIGHTS):
            families.setdefault(column, set()).add(dataset)
    while families:
        _, family = families.popitem()
        while near := [column for column, datasets in families.items() if datasets & family]:
            family = family.union(*(families.pop(column) for column in near))
        number = joined(connection, set())
        rows = [(dataset, number, "") for dataset in sorted(family)]
        connection.executemany("INSERT INTO dataset_family VALUES (?, ?, ?)", rows)
