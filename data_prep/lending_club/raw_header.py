"""The line of a raw loan file that names its columns, and the check that they are those of Lending Club."""
from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from .columns import RAW_COLUMNS, STUDY_COLUMNS

LINES_LOOKED_AT = 10
# Half of the columns that the study needs: enough to tell the line that names them from a title or a loan, and few
# enough that a file that lacks some of them is told which.
LEAST_KNOWN_NAMES = len(STUDY_COLUMNS) // 2
BYTE_ORDER_MARK = "\ufeff"
# How pandas names a row index that it finds without a name, when the file is written again.
ROW_INDEX = re.compile(r"Unnamed: \d+(\.\d+)*")


class NotLendingClub(ValueError):
    """The file cannot be used as Lending Club's loan file; the message is one sentence for the user."""


@dataclass(frozen=True)
class Header:
    """The columns in the order of the file, and how many lines come before the first loan."""

    names: tuple[str, ...]
    """Empty for a column without a name, which is a row index that some program added."""
    lines: int

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that have a name."""
        return tuple(name for name in self.names if name)

    def notices(self) -> tuple[str, ...]:
        """What is unusual about the columns and harmless."""
        absent = [name for name in RAW_COLUMNS if name not in self.named]
        unknown = [name for name in self.named if name not in RAW_COLUMNS]
        found = (
            (absent, "The file lacks {} of the public file's columns, none of which becomes a feature: {}."),
            (unknown, "The file has {} columns that the public file has not, and they are not used: {}."),
        )
        return tuple(sentence.format(len(names), ", ".join(names)) for names, sentence in found if names)


def find_header(path: Path, head: bytes) -> Header:
    """The header among the first lines in `head`, the unpacked start of the file; a title may stand before it.

    Raises NotLendingClub if there is none, or if it lacks a column that the study needs or repeats one.
    """
    if not head.strip():
        raise NotLendingClub(f"The loan file {path} is empty.")
    if b"\0" in head:
        raise NotLendingClub(
            f"The loan file {path} is not text; Lending Club's CSV file is expected, as it is or packed with gzip.")
    text = head.decode("utf-8", errors="replace").removeprefix(BYTE_ORDER_MARK)
    for names, lines in first_records(text):
        if len(set(names) & set(STUDY_COLUMNS)) >= LEAST_KNOWN_NAMES:
            header = Header(names, lines)
            check_header(path, header)
            return header
    raise NotLendingClub(
        f"The loan file {path} is not Lending Club's: none of its first {LINES_LOOKED_AT} lines names the columns "
        f"{', '.join(STUDY_COLUMNS[:4])} and so on."
    )


def first_records(text: str):
    """The first records as names without surrounding blanks, each with the number of lines up to its end."""
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            if reader.line_num > LINES_LOOKED_AT:
                return
            names = (name.strip() for name in record)
            yield tuple("" if ROW_INDEX.fullmatch(name) else name for name in names), reader.line_num
    except csv.Error:
        # No CSV from here on, and so no header.
        return


def check_header(path: Path, header: Header) -> None:
    """Every column of the study, and none twice."""
    absent = [name for name in STUDY_COLUMNS if name not in header.named]
    if absent:
        columns = "the column" if len(absent) == 1 else "the columns"
        raise NotLendingClub(f"The loan file {path} lacks {columns} {', '.join(absent)}, which the study needs.")
    repeated = [name for name in header.named if header.named.count(name) > 1]
    if repeated:
        raise NotLendingClub(
            f"The loan file {path} has the column {repeated[0]!r} more than once; rename or remove one of them.")
