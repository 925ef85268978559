"""Datasets of one party that hold records in common: what was released of one tells of the other.

A dataset is a table's set of columns here, since rows come and go, and records are known by keyed tags of their match
ids. Whatever columns a job leaves in a table, it stays related to every table that ever shared a record with it, and to
those that share one with these, and so on: a *family*, over which is added up what is charged or counted. Label sources
of these tables, and the labels of a table that has no declared source, are in the family under names of their own. Columns
alone relate nothing: unrelated tables of the same columns are datasets of their own, told apart by a number behind the name.

Tags of another key say nothing. So datasets that were remembered under another key join every family that is touched
under this one; and what an earlier version remembered, by columns only, joins where a column has the same name.
"""

import shlex
import sqlite3
from collections.abc import Iterable
from itertools import count

from .database import WEIGHTS, Chapter, joined

# The number of a dataset follows this, where several have the same columns and no record in common.
NUMBERED = "#"

# So begins the name of the labels of a dataset whose source nobody declared.
LABELS = "labels of "

# The dataset :dataset itself and every other one of its family.
RELATED = f"""
    SELECT :dataset AS dataset
    UNION SELECT other.dataset FROM dataset_family own JOIN dataset_family other ON other.family = own.family
    WHERE own.dataset = :dataset
    UNION SELECT other.dataset FROM dataset_column own
    JOIN dataset_column other ON other.column_name = own.column_name AND other.dataset LIKE '{WEIGHTS}%'
    WHERE own.dataset = :dataset AND :dataset LIKE '{WEIGHTS}%'"""

FAMILY_OF = "SELECT family FROM dataset_family WHERE dataset = ?"
FAMILIES_OF_RECORDS = """
    SELECT DISTINCT f.joined FROM temp.staged s CROSS JOIN family_record r ON r.record = s.record
    JOIN family f ON f.number = r.number"""
FAMILIES_OF_OTHER_KEYS = "SELECT DISTINCT family FROM dataset_family WHERE key_id NOT IN ('', ?)"
FAMILIES_OF_COLUMN = """
    SELECT d.family FROM dataset_family d JOIN dataset_column c USING (dataset)
    WHERE d.key_id = '' AND c.column_name = ?"""


def is_source(value: object) -> bool:
    """Whether ``value`` is text that reads ``namespace/name/column`` with three non-empty parts."""
    parts = value.split("/") if isinstance(value, str) else []
    return len(parts) == 3 and all(part.strip() for part in parts)


def base_name(dataset: str) -> str:
    """The dataset's name as its columns give it, which policies use."""
    return dataset.partition(NUMBERED)[0]


def is_label_account(name: str) -> bool:
    """Whether the name is one of labels: a source, ``namespace/name/column``, or the labels of a dataset."""
    return is_source(name) or name.startswith(LABELS)


def label_account(labels: str, dataset: str) -> str:
    """The account of a dataset's labels: their source, or for `LABELS` one that is named after the dataset."""
    return f"{LABELS}{dataset}" if labels == LABELS else labels


class DatasetLedger(Chapter):
    """Which datasets count together, and what people call them.

    The ledger's own name of a dataset comes from its columns, since no job parameter may choose a budget. The tables,
    ``namespace/name`` as uploaded, that jobs read it from are for people: lines, refusals and ``fate-dp cap`` show them.
    """

    def remember_dataset(
        self,
        dataset: str,
        columns: Iterable[str],
        *,
        records: Iterable[bytes],
        key_id: str,
        tables: Iterable[str] = (),
        labels: str | None = None,
    ) -> str:
        """Remember the columns and records of a dataset, and return its name; what shares a record is counted together.

        Args:
            dataset: Name that the columns give. A table of these columns that shares no record with an earlier one of
                them is another dataset, and gets a number behind its name.
            records: 16-byte tags of the match ids under the key ``key_id``, read once.
            tables: ``namespace/name`` of the tables that the rows come from, where that is known; for people.
            labels: What the records' labels are charged to, which joins the family: their source, or `LABELS` where
                nobody declared one; None where no label is read.
        """
        columns = list(columns)
        rows = ((record,) for record in records)
        with self._database.staged({"record": bytes}, rows, "IMMEDIATE", repeated=True) as (connection, staged):
            touched = _touched(connection, columns, key_id)
            if not staged:
                touched |= _families_of_name(connection, dataset)
            name = _name(connection, dataset, touched, key_id)
            names = [name] if labels is None else [name, label_account(labels, name)]
            touched |= {number for each in names for (number,) in connection.execute(FAMILY_OF, (each,))}
            family = joined(connection, touched)
            # What an earlier version remembered stays marked by an empty key: it holds records that nobody can name.
            remembered = [(each, family, key_id) for each in names]
            connection.executemany("INSERT OR IGNORE INTO dataset_family VALUES (?, ?, ?)", remembered)
            _remember(connection, "dataset_column", name, columns)
            _remember(connection, "dataset_table", name, tables)
            connection.execute("INSERT OR IGNORE INTO family_record SELECT record, ? FROM temp.staged", (family,))
        return name

    def keep_blanks(self, ids: Iterable[tuple[bytes, bytes, str, str]], source: str) -> None:
        """Remember which records this ledger knows under ids with blanks at their ends alone.

        ``ids`` are (tag with blanks, tag without them, blanks before the id, blanks behind it), tags of ``source``: a label
        source, a population's name, or that of training records.
        """
        staged = {"written": bytes, "id_tag": bytes, "before": str, "behind": str}
        with self._database.staged(staged, ids, "IMMEDIATE", repeated=True) as (connection, _):
            known, trimmed = (KNOWN_RECORD.format(tag=tag) for tag in ("written", "id_tag"))
            statement = (
                f"INSERT OR IGNORE INTO id_blanks SELECT id_tag, before, behind FROM temp.staged WHERE ({known})"
            )
            connection.execute(f"{statement} AND NOT ({trimmed})", {"source": source})

    def blanks(self) -> dict[bytes, tuple[str, str]] | None:
        """What `keep_blanks` remembered, as `PartyKey` takes it; None for a ledger that never knew ids with blanks."""
        if not self._database.fetch("SELECT 1 FROM sqlite_master WHERE name = 'id_blanks'"):
            return None
        rows = self._database.fetch("SELECT id_tag, before, behind FROM id_blanks")
        return {tag: (before, behind) for tag, before, behind in rows}

    def remember_weights(self, dataset: str, columns: Iterable[str]) -> None:
        """Remember which columns a model's weights, whose ``dataset`` begins with ``WEIGHTS``, belong to."""
        with self._database.writing() as connection:
            _remember(connection, "dataset_column", dataset, columns)

    def related(self, dataset: str) -> list[str]:
        """Names of all datasets, or label accounts, that count together with this one, itself among them, in order."""
        rows = self._database.fetch(f"SELECT * FROM ({RELATED}) ORDER BY 1", {"dataset": dataset})
        return [name for (name,) in rows if is_label_account(name) == is_label_account(dataset)]

    def feature_count(self, dataset: str) -> int:
        """How many columns the dataset has, 0 for one that no job has read."""
        ((columns,),) = self._database.fetch("SELECT count(*) FROM dataset_column WHERE dataset = ?", (dataset,))
        return int(columns)

    def tables(self) -> dict[str, list[str]]:
        """{dataset: names of the tables that jobs read it from, in order} of every dataset whose tables are known."""
        found: dict[str, list[str]] = {}
        for dataset, table in self._database.fetch("SELECT dataset, table_name FROM dataset_table ORDER BY 1, 2"):
            found.setdefault(dataset, []).append(table)
        return found

    def called(self, dataset: str) -> str:
        """`called` of this ledger."""
        with self._database.reading() as connection:
            return called(connection, dataset)

    def cap_command(self, dataset: str, option: str) -> str:
        """`cap_command` of this ledger."""
        with self._database.reading() as connection:
            return cap_command(connection, dataset, option)


KNOWN_RECORD = """
    EXISTS (SELECT 1 FROM family_record WHERE record = staged.{tag})
    OR EXISTS (SELECT 1 FROM (SELECT DISTINCT key_id FROM entry WHERE subject = :source) e
        CROSS JOIN true_label t ON t.source = :source AND t.key_id = e.key_id AND t.id_tag = staged.{tag})
    OR EXISTS (SELECT 1 FROM (SELECT DISTINCT dataset FROM dataset_column) d
        CROSS JOIN training_record r ON r.dataset = d.dataset AND r.id_tag = staged.{tag})"""


def called(connection: sqlite3.Connection, dataset: str) -> str:
    """The dataset, or the account of labels, for a sentence: its tables where they are known, else its own name."""
    if is_source(dataset):
        return f"label source {dataset}"
    if dataset.startswith(LABELS):
        return f"label account of {called(connection, dataset.removeprefix(LABELS))}"
    tables = _tables(connection, dataset)
    return f"table {' and '.join(tables)}" if tables else f"dataset {dataset}"


def cap_command(connection: sqlite3.Connection, dataset: str, option: str) -> str:
    """The command with which an operator changes a cap of the dataset; ``option`` names the cap."""
    if is_source(dataset):
        return f"fate-dp cap {shlex.quote(dataset.rpartition('/')[0])} {option}"
    dataset = dataset.removeprefix(LABELS)
    tables = _tables(connection, dataset)
    return f"fate-dp cap {shlex.quote(tables[0] if tables else dataset.removeprefix(WEIGHTS))} {option}"


def datasets_of_other_keys(connection: sqlite3.Connection, dataset: str, key_id: str) -> list[str]:
    """Those of the family whose records were remembered under a key that is not this one."""
    query = f"SELECT dataset FROM dataset_family WHERE dataset IN ({RELATED}) AND key_id NOT IN ('', :key_id)"
    return [name for (name,) in connection.execute(query, {"dataset": dataset, "key_id": key_id})]


def _tables(connection: sqlite3.Connection, dataset: str) -> list[str]:
    query = "SELECT table_name FROM dataset_table WHERE dataset = ? ORDER BY 1"
    rows = connection.execute(query, (dataset,)).fetchall()
    if not rows and dataset.startswith(WEIGHTS):
        return _tables(connection, dataset.removeprefix(WEIGHTS))
    return [table for (table,) in rows]


def _remember(connection: sqlite3.Connection, table: str, dataset: str, names: Iterable[str]) -> None:
    connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", [(dataset, name) for name in names])


def _touched(connection: sqlite3.Connection, columns: list[str], key_id: str) -> set[int]:
    asked = [(FAMILIES_OF_RECORDS, ()), (FAMILIES_OF_OTHER_KEYS, (key_id,))]
    asked += [(FAMILIES_OF_COLUMN, (column,)) for column in columns]
    return {number for query in asked for (number,) in connection.execute(*query)}


def _families_of_name(connection: sqlite3.Connection, dataset: str) -> set[int]:
    """Of all tables of these columns, where it is not known which of them is meant."""
    query = f"SELECT family FROM dataset_family WHERE dataset = :name OR dataset LIKE :name || '{NUMBERED}%'"
    return {number for (number,) in connection.execute(query, {"name": dataset})}


def _name(connection: sqlite3.Connection, dataset: str, touched: set[int], key_id: str) -> str:
    """That of the dataset of these columns in a touched family, else the first one that is free."""

    def fits(name: str) -> bool:
        known = connection.execute("SELECT family, key_id FROM dataset_family WHERE dataset = ?", (name,)).fetchone()
        return known is None or known[0] in touched and known[1] in ("", key_id)

    names = (dataset if number == 1 else f"{dataset}{NUMBERED}{number}" for number in count(1))
    return next(name for name in names if fits(name))
