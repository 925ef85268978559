"""Datasets of one party that hold records in common: what was released of one tells of the other.

A dataset is a table's set of columns here, since rows come and go, and records are known by keyed tags of their match
ids. Whatever columns a job leaves in a table, it stays related to every table that ever shared a record with it, and to
those that share one with these, and so on: a *family*. What is charged or counted by dataset is added up over the family.
Columns alone relate nothing: unrelated tables often have some of the same names, or all, and are datasets of their own
then, told apart by a number behind the name.

Tags of another key say nothing. So datasets that were remembered under another key join every family that is touched
under this one; and what an earlier version remembered, by columns only, joins where a column has the same name.
"""
from itertools import count

from fate_dp.privacy.ledger.database import stage_rows, transaction
from fate_dp.privacy.ledger.families import NUMBERED, WEIGHTS, joined
from fate_dp.privacy.ledger.table_names import remember_tables

# The dataset :dataset itself and every other one of its family.
RELATED = f"""
    SELECT :dataset AS dataset
    UNION SELECT other.dataset FROM dataset_family own JOIN dataset_family other ON other.family = own.family
    WHERE own.dataset = :dataset
    UNION SELECT other.dataset FROM dataset_column own
    JOIN dataset_column other ON other.column_name = own.column_name AND other.dataset LIKE '{WEIGHTS}%'
    WHERE own.dataset = :dataset AND :dataset LIKE '{WEIGHTS}%'"""

FAMILIES_OF_RECORDS = """
    SELECT DISTINCT f.joined FROM temp.staged s CROSS JOIN family_record r ON r.record = s.record
    JOIN family f ON f.number = r.number"""
FAMILIES_OF_OTHER_KEYS = "SELECT DISTINCT family FROM dataset_family WHERE key_id NOT IN ('', ?)"
FAMILIES_OF_COLUMN = """
    SELECT d.family FROM dataset_family d JOIN dataset_column c USING (dataset)
    WHERE d.key_id = '' AND c.column_name = ?"""


def remember_dataset(connection, dataset, columns, records, key_id, tables=()):
    """Remember a table's columns and records; see ``Ledger.remember_dataset``."""
    staged = stage_rows(connection, {"record": bytes}, ((record,) for record in records), repeated=True)
    with transaction(connection):
        touched = _touched(connection, columns, key_id)
        if not staged:
            touched |= _families_of_name(connection, dataset)
        name = _name(connection, dataset, touched, key_id)
        family = joined(connection, touched)
        # What an earlier version remembered stays marked by an empty key: it holds records that nobody can name.
        connection.execute("INSERT OR IGNORE INTO dataset_family VALUES (?, ?, ?)", (name, family, key_id))
        remember_columns(connection, name, columns)
        remember_tables(connection, name, tables)
        connection.execute("INSERT OR IGNORE INTO family_record SELECT record, ? FROM temp.staged", (family,))
    return name


def remember_columns(connection, dataset, columns):
    rows = [(dataset, column) for column in columns]
    connection.executemany("INSERT OR IGNORE INTO dataset_column VALUES (?, ?)", rows)


def feature_count(connection, dataset):
    """Number of a dataset's columns; 0 for an unknown one."""
    (number,) = connection.execute("SELECT count(*) FROM dataset_column WHERE dataset = ?", (dataset,)).fetchone()
    return number


def related_datasets(connection, dataset):
    """Names of all datasets of the family, the dataset's own among them, in order."""
    return [name for (name,) in connection.execute(f"SELECT * FROM ({RELATED}) ORDER BY 1", {"dataset": dataset})]


def datasets_of_other_keys(connection, dataset, key_id):
    """Those of the family whose records were remembered under a key that is not this one."""
    rows = connection.execute(
        f"SELECT dataset FROM dataset_family WHERE dataset IN ({RELATED}) AND key_id NOT IN ('', :key_id)",
        {"dataset": dataset, "key_id": key_id},
    )
    return [name for (name,) in rows]


def _touched(connection, columns, key_id):
    found = connection.execute(FAMILIES_OF_RECORDS).fetchall()
    found += connection.execute(FAMILIES_OF_OTHER_KEYS, (key_id,)).fetchall()
    for column in columns:
        found += connection.execute(FAMILIES_OF_COLUMN, (column,)).fetchall()
    return {number for (number,) in found}


def _families_of_name(connection, dataset):
    """Of all tables of these columns, where it is not known which of them is meant."""
    rows = connection.execute(
        f"SELECT family FROM dataset_family WHERE dataset = :name OR dataset LIKE :name || '{NUMBERED}%'", {"name": dataset}
    )
    return {number for (number,) in rows}


def _name(connection, dataset, touched, key_id):
    """That of the dataset of these columns in a touched family, else the first one that is free."""
    for number in count(1):
        name = dataset if number == 1 else f"{dataset}{NUMBERED}{number}"
        known = connection.execute("SELECT family, key_id FROM dataset_family WHERE dataset = ?", (name,)).fetchone()
        if known is None or known[0] in touched and known[1] in ("", key_id):
            return name
