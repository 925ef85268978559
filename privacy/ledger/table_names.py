"""What the operator calls a dataset: the tables, ``namespace/name`` as uploaded, that jobs read it from.

The ledger's own name of a dataset comes from its columns, since no job parameter may choose a budget. The names here are
for people: lines, refusals and ``fate-dp cap`` show them.
"""
from fate_dp.privacy.ledger.families import WEIGHTS

TABLE_NAMES = """CREATE TABLE dataset_table (
        dataset TEXT NOT NULL,
        table_name TEXT NOT NULL,
        PRIMARY KEY (dataset, table_name)) WITHOUT ROWID"""


def remember_tables(connection, dataset, tables):
    """Note that a dataset was read from these tables; inside the caller's transaction."""
    rows = [(dataset, table) for table in tables]
    connection.executemany("INSERT OR IGNORE INTO dataset_table VALUES (?, ?)", rows)


def tables_by_dataset(connection):
    """{dataset: its tables in order} of every dataset whose tables are known."""
    found = {}
    for dataset, table in connection.execute("SELECT dataset, table_name FROM dataset_table ORDER BY 1, 2"):
        found.setdefault(dataset, []).append(table)
    return found


def called(connection, dataset):
    """A dataset for a sentence: its tables where they are known, else the ledger's own name."""
    tables = _tables(connection, dataset)
    return f"table {' and '.join(tables)}" if tables else f"dataset {dataset}"


def cap_command(connection, dataset, option):
    """The command that changes a cap of the dataset."""
    tables = _tables(connection, dataset)
    return f"fate-dp cap {tables[0] if tables else dataset.removeprefix(WEIGHTS)} {option}"


def _tables(connection, dataset):
    rows = connection.execute("SELECT table_name FROM dataset_table WHERE dataset = ? ORDER BY 1", (dataset,)).fetchall()
    if not rows and dataset.startswith(WEIGHTS):
        return _tables(connection, dataset.removeprefix(WEIGHTS))
    return [table for (table,) in rows]
