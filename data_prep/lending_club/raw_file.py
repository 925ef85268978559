"""A raw loan file, plain or packed with gzip, read once from start to end in pieces of text columns.

Records are numbered from 1 after the header. Blank lines are no records; lines that hold no loan are numbered but not
handed on: notes such as "Total amount funded in policy code 1: 460296150", records of empty fields, and the header of
another file that was appended.
"""
from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute as compute
from pyarrow import csv

from .columns import LABEL, STUDY_COLUMNS
from .raw_header import NotLendingClub, find_header

# Texts that stand for a missing value in the public editions and in files that common tools wrote from them.
MISSING = ("", "n/a", "N/A", "#N/A", "NA", "null", "NULL")
GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 1 << 16
# What is held of the raw file at a time is some tens of these, and no record may be longer than one.
BLOCK_BYTES = 1 << 20
NO_LOANS = "has no loans below its header"
# A note is a sentence in a line of its own; a lone number is what a file that was cut off ends with.
NOTE = re.compile(r"\s*|.*[^\W\d_].*", re.DOTALL)


@dataclass(frozen=True)
class Records:
    """Some loans in the order of the file: their record numbers (n,) and the named columns as bytes."""

    numbers: numpy.ndarray
    columns: pyarrow.RecordBatch
    """Null where a value is missing."""


class RawFile:
    """Lending Club's loan file at `path`; raises NotLendingClub if its first lines say that it is another file."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.size = size_of(self.path)
        with self._as_sentences(), pyarrow.OSFile(str(self.path)) as source:
            self.header = find_header(self.path, read_up_to(unpacked(source), HEAD_BYTES))
        self.records = 0
        """Records read so far, whether or not they hold a loan."""
        self.loans = 0
        self.share_read = 0.0
        self.sha256 = ""
        """Of the file as it lies on the disk; known once all is read."""
        # Arrow reads ahead in a thread of its own, which only ever appends.
        self._notes, self._notes_passed = [], 0
        self._broken = None

    def read(self):
        """Yield the loans as Records."""
        digest = hashlib.sha256()
        with self._as_sentences(), open(self.path, "rb") as content, pyarrow.OSFile(str(self.path)) as source:
            for batch in self._batches(unpacked(source)):
                position = source.tell()
                digest.update(content.read(position - content.tell()))
                self.share_read = position / self.size
                yield self._loans_of(batch)
            digest.update(content.read())
        self.records += len(self._notes) - self._notes_passed
        if not self.loans:
            raise NotLendingClub(self._sentence(NO_LOANS))
        self.sha256 = digest.hexdigest()

    def _batches(self, stream):
        names = [name or f"\0{position}" for position, name in enumerate(self.header.names)]
        return csv.open_csv(
            stream,
            # One thread is as fast here as two and numbers the records.
            read_options=csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=self.header.lines),
            parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=self._skip_note),
            # As bytes, because text in another encoding does no harm in the columns that nobody reads.
            convert_options=csv.ConvertOptions(
                column_types={name: pyarrow.binary() for name in names}, include_columns=list(self.header.named),
                strings_can_be_null=True, null_values=list(MISSING)),
        )

    def _skip_note(self, row) -> str:
        number = row.number - self.header.lines
        if row.actual_columns == 1 and NOTE.fullmatch(row.text):
            self._notes.append(number)
            return "skip"
        self._broken = (number, row.actual_columns)
        return "error"

    def _loans_of(self, batch) -> Records:
        notes = self._notes[self._notes_passed:]
        following = numpy.arange(self.records + 1, self.records + batch.num_rows + len(notes) + 1)
        numbers = numpy.setdiff1d(following, notes, assume_unique=True)[:batch.num_rows]
        self.records = int(numbers[-1]) if len(numbers) else self.records
        self._notes_passed += sum(note <= self.records for note in notes)
        loans = holds_loan(batch)
        if loans is not None:
            numbers, batch = numbers[loans], batch.filter(pyarrow.array(loans))
        self.loans += batch.num_rows
        return Records(numbers, batch)

    @contextmanager
    def _as_sentences(self):
        try:
            yield
        except pyarrow.ArrowInvalid as error:
            raise NotLendingClub(self._why_no_csv(error)) from error
        except OSError as error:
            raise NotLendingClub(self._sentence(why_unreadable(error))) from error

    def _sentence(self, what) -> str:
        return f"The loan file {self.path} {what}."

    def _why_no_csv(self, error) -> str:
        if self._broken is not None:
            number, fields = self._broken
            return self._sentence(f"has {fields} {'field' if fields == 1 else 'fields'} in record {number}, "
                                  f"and its header names {len(self.header.names)}")
        if "straddling" in str(error):
            return self._sentence(f"has a record of more than {BLOCK_BYTES} bytes after record {self.records}; "
                                  "probably a quotation mark is not closed")
        if "skip initial" in str(error):
            return self._sentence(NO_LOANS)
        return self._sentence(f"is no CSV after record {self.records}: {error}")


def size_of(path: Path) -> int:
    """Bytes of a regular file; anything else is refused, since the header is looked for before all is read."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise NotLendingClub(f"The loan file {path} {why_unreadable(error)}.") from error
    if not stat.S_ISREG(status.st_mode):
        raise NotLendingClub(f"The loan file {path} cannot be read: it is a folder or a pipe, no file.")
    return status.st_size


def unpacked(source):
    """The stream, or one that unpacks it if it begins like gzip."""
    packed = source.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    source.seek(0)
    return pyarrow.CompressedInputStream(source, "gzip") if packed else source


def read_up_to(stream, size: int) -> bytes:
    """The next `size` bytes, or fewer at the end; an unpacking stream hands out less than it is asked for."""
    content = b""
    while len(content) < size:
        piece = stream.read(size - len(content))
        if not piece:
            break
        content += piece
    return content


def why_unreadable(error: OSError) -> str:
    """The reason in words; Arrow's errors of unpacking carry no number of the operating system."""
    if error.errno is not None:
        return f"cannot be read: {os.strerror(error.errno)}"
    if "Truncated" in str(error):
        return "is cut off: its gzip stream ends too early"
    return "is damaged: its gzip stream cannot be unpacked"


def holds_loan(batch):
    """Which records (n,) hold a loan, or None if all do: no repeated header, and some column of the study is filled."""
    status = batch.column(LABEL)
    repeated = compute.fill_null(compute.equal(status, LABEL.encode()), False)
    if not status.null_count and not compute.any(repeated).as_py():
        return None
    filled = repeated
    for name in STUDY_COLUMNS:
        filled = compute.or_(filled, compute.is_valid(batch.column(name)))
    return compute.and_not(filled, repeated).to_numpy(zero_copy_only=False)
