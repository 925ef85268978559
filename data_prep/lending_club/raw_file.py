"""A raw loan file of Lending Club, plain or packed with gzip, read once from start to end in pieces of text columns.

First the line that names the columns is found, then the loans are read, as bytes, as text, and as numbers.
"""

import csv
import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy
import pyarrow
import pyarrow.compute as compute
from pyarrow import csv as arrow_csv

from fate_dp.privacy.validation import InvalidArgument

from .columns import CATEGORIES, ID, LABEL, LABEL_VALUES, NUMERIC, RAW_COLUMNS, STATE, STUDY_COLUMNS

LINES_LOOKED_AT = 10
# Half of the columns that the study needs: enough to tell the line that names them from a title or a loan, and few
# enough that a file that lacks some of them is told which.
MIN_KNOWN_NAMES = len(STUDY_COLUMNS) // 2
BYTE_ORDER_MARK = "\ufeff"
# How pandas names a row index that it finds without a name, when the file is written again.
ROW_INDEX = re.compile(r"Unnamed: \d+(\.\d+)*")


@dataclass(frozen=True)
class Header:
    """The columns in the order of the file, empty where a program added a row index without a name; ``lines`` come
    before the first loan."""

    names: tuple[str, ...]
    lines: int

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name)

    def notices(self) -> tuple[str, ...]:
        absent = [name for name in RAW_COLUMNS if name not in self.named]
        unknown = [name for name in self.named if name not in RAW_COLUMNS]
        found = (
            (absent, "The file lacks {} of the public file's columns, none of which becomes a feature: {}."),
            (unknown, "The file has {} columns that the public file does not have; they are not used: {}."),
        )
        return tuple(sentence.format(len(names), ", ".join(names)) for names, sentence in found if names)


def find_header(path: Path, head: bytes) -> Header:
    """The header in ``head``, the unpacked start of the file, perhaps behind a title; InvalidArgument where there is
    none, or it lacks a column that the study needs or repeats one."""
    if not head.strip():
        raise InvalidArgument(f"The loan file {path} is empty.")
    if b"\0" in head:
        raise InvalidArgument(
            f"The loan file {path} is not text; Lending Club's CSV file is expected, plain or packed with gzip."
        )
    text = head.decode("utf-8", errors="replace").removeprefix(BYTE_ORDER_MARK)
    for names, lines in first_records(text):
        if len(set(names) & set(STUDY_COLUMNS)) >= MIN_KNOWN_NAMES:
            break
    else:
        raise InvalidArgument(
            f"The loan file {path} is not Lending Club's: none of its first {LINES_LOOKED_AT} lines names the columns "
            f"{', '.join(STUDY_COLUMNS[:4])} and so on."
        )
    header = Header(names, lines)
    if absent := [name for name in STUDY_COLUMNS if name not in names]:
        columns = "the column" if len(absent) == 1 else "the columns"
        raise InvalidArgument(f"The loan file {path} lacks {columns} {', '.join(absent)}, which the study needs.")
    if repeated := [name for name in header.named if names.count(name) > 1]:
        raise InvalidArgument(
            f"The loan file {path} has the column {repeated[0]!r} more than once; rename or remove one of them."
        )
    return header


def first_records(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The first records as names without surrounding blanks, each with the number of lines up to its end."""
    reader = csv.reader(io.StringIO(text, newline=""))
    # What is no CSV from somewhere on has no header there.
    with suppress(csv.Error):
        for record in reader:
            if reader.line_num > LINES_LOOKED_AT:
                return
            names = (name.strip() for name in record)
            yield tuple("" if ROW_INDEX.fullmatch(name) else name for name in names), reader.line_num


# Texts that stand for a missing value in the public editions and in files that common tools wrote from them.
MISSING = ("", "n/a", "N/A", "#N/A", "NA", "null", "NULL", "nan", "NaN", "NAN")
GZIP_MAGIC = b"\x1f\x8b"
HEAD_BYTES = 1 << 16
# What is held of the raw file at a time is some tens of these, and no record may be longer than one.
BLOCK_BYTES = 1 << 20
NO_LOANS = "has no loans below its header"
# A note is a sentence in a line of its own; a lone number is what a file that was cut off ends with.
NOTE = re.compile(r"\s*|.*[^\W\d_].*", re.DOTALL)


@dataclass(frozen=True)
class Records:
    """Some loans in the order of the file: ``numbers`` (n,) of the records count from 1 after the header; ``columns``
    are the named ones as bytes, or text after `as_text`, null where a value is missing."""

    numbers: numpy.ndarray
    columns: pyarrow.RecordBatch


class RawFile:
    """Lending Club's loan file; InvalidArgument where the path leads to no regular file, or the first lines are of
    another one.

    Records are numbered from 1 after the header. Blank lines are no records; notes such as "Total amount funded in
    policy code 1: 460296150", records of empty fields, and the header of another file that was appended are numbered
    but not handed on.

    ``records`` were read so far, ``loans`` among them, of the ``share_read`` of the file's bytes, from 0 to 1;
    ``sha256`` of the file as it lies on the disk is known once all is read.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        with self._as_sentences():
            status = os.stat(self.path)
            # The header is looked for before all is read.
            if not stat.S_ISREG(status.st_mode):
                raise InvalidArgument(self._sentence("cannot be read: it is a folder or a pipe, not a file"))
            self.size = status.st_size
            with pyarrow.OSFile(str(self.path)) as source:
                self.header = find_header(self.path, read_up_to(unpacked(source), HEAD_BYTES))
        self.records = self.loans = 0
        self.share_read, self.sha256 = 0.0, ""
        # Arrow reads ahead in a thread of its own, which only ever appends.
        self._notes: list[int] = []
        self._notes_passed = 0
        self._broken: tuple[int, int] | None = None

    def read(self) -> Iterator[Records]:
        """Read the whole file; raise InvalidArgument where it is damaged or has no loans."""
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
            raise InvalidArgument(self._sentence(NO_LOANS))
        self.sha256 = digest.hexdigest()

    def _batches(self, stream: pyarrow.NativeFile) -> Iterable[pyarrow.RecordBatch]:
        names = [name or f"\0{position}" for position, name in enumerate(self.header.names)]
        return arrow_csv.open_csv(
            stream,
            # One thread is as fast here as two and numbers the records.
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=self.header.lines
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=self._skip_note),
            # As bytes, because text in another encoding does no harm in the columns that nobody reads.
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pyarrow.binary() for name in names},
                include_columns=list(self.header.named),
                strings_can_be_null=True,
                null_values=list(MISSING),
            ),
        )

    def _skip_note(self, row: arrow_csv.InvalidRow) -> str:
        number = row.number - self.header.lines
        if row.actual_columns == 1 and NOTE.fullmatch(row.text):
            self._notes.append(number)
            return "skip"
        self._broken = (number, row.actual_columns)
        return "error"

    def _loans_of(self, batch: pyarrow.RecordBatch) -> Records:
        notes = self._notes[self._notes_passed :]
        following = numpy.arange(self.records + 1, self.records + batch.num_rows + len(notes) + 1)
        numbers = numpy.setdiff1d(following, notes, assume_unique=True)[: batch.num_rows]
        self.records = int(numbers[-1]) if len(numbers) else self.records
        self._notes_passed += sum(note <= self.records for note in notes)
        loans = holds_loan(batch)
        if loans is not None:
            numbers, batch = numbers[loans], batch.filter(pyarrow.array(loans))
        self.loans += batch.num_rows
        return Records(numbers, batch)

    @contextmanager
    def _as_sentences(self) -> Iterator[None]:
        try:
            yield
        except pyarrow.ArrowInvalid as error:
            raise InvalidArgument(self._why_no_csv(error)) from error
        except OSError as error:
            raise InvalidArgument(self._sentence(why_unreadable(error))) from error

    def _sentence(self, what: str) -> str:
        return f"The loan file {self.path} {what}."

    def _why_no_csv(self, error: pyarrow.ArrowInvalid) -> str:
        if self._broken is not None:
            number, fields = self._broken
            return self._sentence(
                f"has {fields} {'field' if fields == 1 else 'fields'} in record {number}, "
                f"and its header names {len(self.header.names)}"
            )
        if "straddling" in str(error):
            return self._sentence(
                f"has a record of more than {BLOCK_BYTES} bytes after record {self.records}; "
                "probably a quotation mark is not closed"
            )
        if "skip initial" in str(error):
            return self._sentence(NO_LOANS)
        return self._sentence(f"is not CSV after record {self.records}: {error}")


def unpacked(source: pyarrow.NativeFile) -> pyarrow.NativeFile:
    """The stream, or one that unpacks it if it begins like gzip."""
    packed = source.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    source.seek(0)
    return pyarrow.CompressedInputStream(source, "gzip") if packed else source


def read_up_to(stream: pyarrow.NativeFile, size: int) -> bytes:
    """The next `size` bytes, or fewer at the end; an unpacking stream hands out less than it is asked for."""
    content = b""
    while len(content) < size and (piece := stream.read(size - len(content))):
        content += piece
    return content


def why_unreadable(error: OSError) -> str:
    """The reason in words; Arrow's errors of unpacking carry no number of the operating system."""
    if error.errno is not None:
        return f"cannot be read: {os.strerror(error.errno)}"
    if "Truncated" in str(error):
        return "is cut off: its gzip stream ends too early"
    return "is damaged: its gzip stream cannot be unpacked"


def holds_loan(batch: pyarrow.RecordBatch) -> numpy.ndarray | None:
    """Which records (n,) hold a loan, or None if all do: no repeated header, and some column of the study is filled."""
    status = batch.column(LABEL)
    repeated = compute.fill_null(compute.equal(status, LABEL.encode()), False)
    if not status.null_count and not compute.any(repeated).as_py():
        return None
    filled = repeated
    for name in STUDY_COLUMNS:
        filled = compute.or_(filled, compute.is_valid(batch.column(name)))
    return compute.and_not(filled, repeated).to_numpy(zero_copy_only=False)


READ_AS_TEXT = (*STUDY_COLUMNS, ID, STATE)
LONGEST_SHOWN = 40
# Files with loans from 2016 on write -1 for a ratio of debt to income that there is none of.
MISSING_IN = {"dti": (*MISSING, "-1", "-1.0", "-1.00")}


def as_text(path: Path, records: Records) -> Records:
    """The same records with the columns that are read as text without surrounding blanks; blank ones become null."""
    columns = {name: records.columns.column(name) for name in records.columns.schema.names}
    for name in READ_AS_TEXT:
        if name in columns:
            texts = compute.utf8_trim_whitespace(decoded(path, name, columns[name], records.numbers))
            blank = compute.is_in(texts, value_set=pyarrow.array(MISSING_IN.get(name, MISSING)))
            columns[name] = compute.if_else(blank, None, texts) if compute.any(blank).as_py() else texts
    return Records(records.numbers, pyarrow.RecordBatch.from_pydict(columns))


def decoded(path: Path, name: str, column: pyarrow.Array, numbers: numpy.ndarray) -> pyarrow.Array:
    try:
        return compute.cast(column, pyarrow.string())
    except pyarrow.ArrowInvalid:
        for number, value in zip(numbers, column.to_pylist()):
            try:
                (value or b"").decode("utf-8")
            except UnicodeDecodeError as error:
                raise InvalidArgument(
                    f"The loan file {path} has bytes that are not UTF-8 text as {name} in record {number}."
                ) from error
        raise


def shown(text: str) -> str:
    return repr(text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "...")


# The study's columns, as numbers, with the spellings of all public editions
#
# A reader takes texts without surrounding blanks, none missing, and gives numbers (n,) as float64 with NaN where the text
# is not allowed; `allowed` says in words what is.

TERM = re.compile(r"(36|60)(?:\.0+)?(?:\s*months?)?", re.IGNORECASE)
YEARS = re.compile(r"(?:(?P<less><\s*1)|(?P<years>[0-9]|10)(?:\.0+)?|(?P<more>10\s*\+))(?:\s*years?)?", re.IGNORECASE)
# Spellings of editions before 2012; the later ones are the categories' names.
OLDER_SPELLINGS = {
    "verification_status": {"verified - income": "Verified", "verified - income source": "Source Verified"}
}


@dataclass(frozen=True)
class Reader:
    read: Callable[[pyarrow.Array], numpy.ndarray]
    allowed: str


def counted(texts: pyarrow.Array) -> numpy.ndarray:
    """Finite numbers from 0 on, written with a decimal point."""
    numbers = as_floats(texts)
    numbers[~(numpy.isfinite(numbers) & (numbers >= 0))] = numpy.nan
    return numbers


def percentages(texts: pyarrow.Array) -> numpy.ndarray:
    """Numbers in percent, with or without the sign: 13.5 for "13.5%"."""
    signed = compute.ends_with(texts, "%")
    if compute.any(signed).as_py():
        without = compute.utf8_rtrim_whitespace(compute.utf8_slice_codeunits(texts, 0, -1))
        texts = compute.if_else(signed, without, texts)
    return counted(texts)


def spelled(number_of: Callable[[str], int | None]) -> Callable[[pyarrow.Array], numpy.ndarray]:
    """Of few different texts, each looked at once: ``number_of`` gives None where the text is not allowed."""

    def read(texts: pyarrow.Array) -> numpy.ndarray:
        encoded = texts.dictionary_encode()
        # numpy makes NaN of None.
        numbers = numpy.array([number_of(text) for text in encoded.dictionary.to_pylist()], dtype=numpy.float64)
        return numbers[encoded.indices.to_numpy()]

    return read


def as_floats(texts: pyarrow.Array) -> numpy.ndarray:
    """Numbers (n,), NaN where a text is none."""
    try:
        return compute.cast(texts, pyarrow.float64()).to_numpy(zero_copy_only=False).copy()
    except pyarrow.ArrowInvalid:
        return numpy.array([as_float(text) for text in texts])


def as_float(text: pyarrow.Scalar) -> float:
    """One number, NaN if the text is none."""
    try:
        return text.cast(pyarrow.float64()).as_py()
    except pyarrow.ArrowInvalid:
        return float("nan")


def months(text: str) -> int | None:
    """36 for "36 months" or "36"."""
    found = TERM.fullmatch(text)
    return None if found is None else int(found[1])


def years(text: str) -> int | None:
    """Whole years of employment: 0 for "< 1 year", 10 for "10+ years"."""
    found = YEARS.fullmatch(text)
    if found is None:
        return None
    return int(found["years"]) if found["years"] else 10 if found["more"] else 0


def one_of(numbers: dict[str, int]) -> Callable[[str], int | None]:
    """The number of a text; upper and lower case are the same."""
    lower = {name.lower(): number for name, number in numbers.items()}
    return lambda text: lower.get(text.lower())


def category(column: str) -> Reader:
    names = CATEGORIES[column]
    older = {spelling: names.index(name) for spelling, name in OLDER_SPELLINGS.get(column, {}).items()}
    positions = {name: at for at, name in enumerate(names)} | older
    return Reader(spelled(one_of(positions)), f"allowed are {', '.join(names)}")


READERS = {
    **dict.fromkeys(NUMERIC, Reader(counted, "finite numbers from 0 on are allowed")),
    **dict.fromkeys(
        ("int_rate", "revol_util"),
        Reader(percentages, "finite numbers from 0 on, with or without a percent sign, are allowed"),
    ),
    "term": Reader(spelled(months), "36 and 60 months are allowed"),
    "emp_length": Reader(spelled(years), '"< 1 year", "1 year" to "10+ years" and the numbers 0 to 10 are allowed'),
    **{column: category(column) for column in CATEGORIES},
    LABEL: Reader(spelled(one_of(LABEL_VALUES)), f"allowed are {', '.join(LABEL_VALUES)}"),
}
