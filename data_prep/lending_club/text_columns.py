"""The columns of the raw file that are read, from bytes to text without surrounding blanks."""
from __future__ import annotations

import pyarrow
import pyarrow.compute as compute

from .columns import ID, STATE, STUDY_COLUMNS
from .raw_file import MISSING, Records
from .raw_header import NotLendingClub

READ_AS_TEXT = (*STUDY_COLUMNS, ID, STATE)
LONGEST_SHOWN = 40
# Files with loans from 2016 on write -1 for a ratio of debt to income that there is none of.
MISSING_IN = {"dti": (*MISSING, "-1", "-1.0", "-1.00")}


def as_text(path, records: Records) -> Records:
    """The same records with the columns that are read as text without surrounding blanks; blank ones become null."""
    columns = {name: records.columns.column(name) for name in records.columns.schema.names}
    for name in READ_AS_TEXT:
        if name in columns:
            texts = decoded(path, name, columns[name], records.numbers)
            columns[name] = stripped(texts, MISSING_IN.get(name, MISSING))
    return Records(records.numbers, pyarrow.RecordBatch.from_pydict(columns))


def decoded(path, name, column, numbers):
    """A column of bytes as text, which must be UTF-8."""
    try:
        return compute.cast(column, pyarrow.string())
    except pyarrow.ArrowInvalid as error:
        number = next(number for number, value in zip(numbers, column.to_pylist()) if not is_utf8(value))
        raise NotLendingClub(
            f"The loan file {path} has bytes that are not UTF-8 text as {name} in record {number}.") from error


def is_utf8(value: bytes | None) -> bool:
    """Whether a value is missing or can be decoded."""
    try:
        return value is None or value.decode("utf-8") is not None
    except UnicodeDecodeError:
        return False


def stripped(texts, missing: tuple[str, ...]):
    """Texts without surrounding blanks, null where that leaves one of `missing`."""
    trimmed = compute.utf8_trim_whitespace(texts)
    blank = compute.is_in(trimmed, value_set=pyarrow.array(missing))
    return compute.if_else(blank, None, trimmed) if compute.any(blank).as_py() else trimmed


def shown(text: str) -> str:
    """A value as a message shows it."""
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")
