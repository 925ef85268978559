"""Upload a CSV file as a table that FATE's reader finds by namespace and name."""

from __future__ import annotations

import csv
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy
import pandas

from fate_dp.data_prep.lending_club.written import verify
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.validation import InvalidArgument

from .flow import connect
from .job import JobFailed, JobResult, Progress, Watch, follow_job, reason_of
from .populations import Owner

NUMBER_TYPE = "float64"
PARTITIONS, UPLOAD_SECONDS = 4, 600.0
WHOLE_NUMBER_TYPES = ("int32", "int64", "long", "int")


@dataclass(frozen=True)
class TableMeta:
    """How FATE shall read the columns; every column but the id and the label is a feature of type `dtype`."""

    id_name: str = "id"
    label_name: str | None = None
    label_type: str = "int32"
    dtype: str = "float64"
    delimiter: str = ","
    least_classes: int = 2
    """Different labels that must occur; 1 for a table that is only predicted."""

    def for_fate(self) -> dict[str, Any]:
        """The metadata keys of FATE-Flow's upload; the sample id is made by FATE, row by row."""
        meta = {"match_id_name": self.id_name, "dtype": self.dtype, "delimiter": self.delimiter}
        if self.label_name is not None:
            meta.update(label_name=self.label_name, label_type=self.label_type)
        return meta


def upload_table(
    address: FlowAddress,
    csv_file: str | os.PathLike,
    namespace: str,
    name: str,
    meta: TableMeta = TableMeta(),
    progress: Progress = lambda task, status, seconds: None,
    home: str | os.PathLike | None = None,
    stop: Event | None = None,
    owner: Owner = Owner(),
) -> JobResult:
    """Check a CSV file, declare whom its ids name and its labels, and upload it; a table of that name is replaced.

    From `progress` to `stop` it is as in `Watch`; the embedded server's `home` has those of the parties.
    """
    ids = check_table(csv_file, meta)
    client = connect(address)
    owner.declare(client, home, f"{namespace}/{name}", meta.label_name, ids)
    response = client.data.upload_file(
        file=str(csv_file),
        head=True,
        partitions=PARTITIONS,
        meta=meta.for_fate(),
        namespace=namespace,
        name=name,
        extend_sid=True,
    )
    if response.get("code") != 0:
        raise JobFailed(f"FATE-Flow at {address} refused the upload of {csv_file}: {reason_of(response)}.")
    return follow_job(client, response["job_id"], "local", "0", Watch(progress, UPLOAD_SECONDS, home, stop or Event()))


def check_table(csv_file: str | os.PathLike, meta: TableMeta) -> pandas.Series:
    """Refuse what FATE would read wrongly, drop silently or stumble over in the middle of a job; returns the ids."""
    path = Path(csv_file)
    frame = read_as_text(path, meta)
    check_ids(path, frame[meta.id_name])
    if meta.label_name is not None:
        check_label(path, frame[meta.label_name], meta)
    for column in frame.columns.drop([meta.id_name, meta.label_name], errors="ignore"):
        check_numbers(path, frame[column], "feature")
    # Asked here, at the guest alone, since in a job the other parties would see the answer.
    if meta.label_name is not None and (found := frame[meta.label_name].nunique()) < meta.least_classes:
        raise InvalidArgument(
            f"The table {path} has {found} different label in {meta.label_name!r}; training needs at least "
            f"{meta.least_classes}."
        )
    return frame[meta.id_name]


def found_label_type(csv_file: str | os.PathLike, meta: TableMeta) -> str:
    """The type that fits the labels of a file: of whole numbers that of `meta`, else float64."""
    broken = pandas.to_numeric(read_as_text(Path(csv_file), meta)[meta.label_name], errors="coerce") % 1
    return NUMBER_TYPE if (broken > 0).any() else meta.label_type


def read_header(path: Path, meta: TableMeta) -> list[str]:
    """The column names of the file."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            columns = next(csv.reader(lines, delimiter=meta.delimiter, quoting=csv.QUOTE_NONE), [])
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InvalidArgument(f"The table {path} cannot be read: {reason}.") from error
    for wanted, role in ((meta.id_name, "id"), (meta.label_name, "label")):
        if wanted is not None and wanted not in columns:
            rest = f" and {len(columns) - 8} more" if len(columns) > 8 else ""
            raise InvalidArgument(
                f"The table {path} has no {role} column {wanted!r}; name it with --{role}: its columns are "
                f"{', '.join(columns[:8])}{rest}."
            )
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise InvalidArgument(f"The table {path} has the column {repeated[0]!r} more than once; rename one of them.")
    return columns


def read_as_text(path: Path, meta: TableMeta) -> pandas.DataFrame:
    """All values as they stand in the file; quotes are kept, because FATE splits lines without regard to them."""
    columns = read_header(path, meta)
    text = {"dtype": str, "keep_default_na": False, "quoting": csv.QUOTE_NONE, "skip_blank_lines": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(path, sep=meta.delimiter, index_col=False, **text)
    except (pandas.errors.ParserError, pandas.errors.ParserWarning) as error:
        raise InvalidArgument(
            f"The table {path} has a row with more values than its {len(columns)} columns."
        ) from error
    if frame.empty:
        raise InvalidArgument(f"The table {path} has no rows.")
    return frame.fillna("")


def check_ids(path: Path, ids: pandas.Series) -> None:
    """Every row needs an id of its own."""
    blank = ids.str.strip() == ""
    if blank.any():
        raise InvalidArgument(f"The table {path} has no {ids.name!r} in line {first_line(blank)}; every row needs one.")
    repeated = ids.duplicated()
    if repeated.any():
        raise InvalidArgument(
            f"The table {path} has the {ids.name!r} {ids[repeated].iloc[0]!r} again in line {first_line(repeated)}. "
            "Keep one row for each id."
        )


def check_label(path: Path, labels: pandas.Series, meta: TableMeta) -> None:
    """Labels must be numbers of the declared type; FATE would cut 0.5 down to 0 without a word."""
    broken = check_numbers(path, labels, "label") % 1 != 0
    if meta.label_type in WHOLE_NUMBER_TYPES and broken.any():
        raise InvalidArgument(
            f"Labels of type {meta.label_type} must be whole numbers, got {labels[broken].iloc[0]!r} in line "
            f"{first_line(broken)} of the table {path}. Use type {NUMBER_TYPE} for other numbers."
        )


def check_numbers(path: Path, values: pandas.Series, role: str) -> pandas.Series:
    """The column as numbers; missing, infinite and other values that are none are refused."""
    numbers = pandas.to_numeric(values, errors="coerce")
    wrong = ~numpy.isfinite(numbers)
    if wrong.any():
        value = values[wrong].iloc[0]
        raise InvalidArgument(
            f"The table {path} has {repr(value) if value else 'nothing'} as {role} {values.name!r} "
            f"in line {first_line(wrong)}; finite numbers are allowed."
        )
    return numbers


def first_line(mask: pandas.Series) -> int:
    """The line of the file, its header being line 1, where a row mask is first true."""
    return int(mask.to_numpy().argmax()) + 2


# Upload the tables of a prepared folder, once every file of it is as its manifest says.

NAMESPACE = "lending_club"


def upload_prepared(
    address: FlowAddress,
    folder: str | os.PathLike,
    namespace: str = NAMESPACE,
    progress: Callable[[str, str, str, float], None] = lambda table, task, status, seconds: None,
    home: str | os.PathLike | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> dict[str, str]:
    """Upload each party's training rows as ``<role>_<party>_train`` and the test rows as ``test``.

    In a vertical split each party's part of the test rows is ``<role>_<party>_test``. ``progress`` is called with a
    table's name and what `upload_table` says, ``tell`` as `Owner` does. Returns the table's name for each file. Raises InvalidArgument for a folder
    that is no preparation or was changed.
    """
    folder = Path(folder)
    files = verify(folder)["files"]
    tables = {path: entry for path, entry in files.items() if "table" in entry}
    # All of them before the first upload: a job needs every table.
    metas = {path: read_meta(folder / entry["meta"]) for path, entry in tables.items()}
    for path, entry in tables.items():
        name, owner = entry["table"], Owner(entry.get("party_id"), tell=tell)
        told = partial(progress, name)
        upload_table(address, folder / path, namespace, name, metas[path], home=home, progress=told, owner=owner)
    return {path: entry["table"] for path, entry in tables.items()}


def read_meta(path: Path) -> TableMeta:
    """The metadata that was written beside a table."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        label = meta.get("label_name"), meta.get("label_type", TableMeta.label_type)
        return TableMeta(meta["match_id_name"], *label, meta["dtype"], meta["delimiter"])
    except (ValueError, KeyError) as error:
        raise InvalidArgument(f"{path} is no upload metadata; prepare the loans again.") from error
