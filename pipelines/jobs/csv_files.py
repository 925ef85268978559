"""A CSV file as people have it, read once: the table that FATE shall see, what was changed, and all faults at once.

FATE-Flow splits lines at every delimiter, whatever quotes say, opens the file in the locale of its server, and takes plain
numbers and ``NaN`` alone. So what it gets is a file of our own (`CsvTable.write`), and whoever asks what an id, a label or a
column of a user's file is asks here.
"""

import codecs
import csv
import gc
import io
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy
import pandas

from fate_dp.privacy.table_facts import BY_COLUMN, TableFacts
from fate_dp.privacy.validation import InvalidArgument

WHOLE, NUMBER = "int32", "float64"
WHOLE_TYPES = (WHOLE, "int64", "long", "int")
MISSING_VALUES = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none", "?", ".", "-", "--"))
MISSING = "NaN"
WITH_BINS = "dp_binning, dp_scorecard and dp_homo_gbdt"
BOOLEANS = {"true": "1", "false": "0"}
RESERVED = ("sample_id", "extend_sid")
DELIMITERS = (",", ";", "\t", "|")
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
ENCODINGS = ("utf-8", "gb18030")
PERCENT = r"[+-]?[\d.,]+ ?%"
THOUSANDS = r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"
DOTTED_THOUSANDS = r"[+-]?[1-9]\d{0,2}(\.\d{3})+"
DECIMAL_COMMA = r"[+-]?\d+,\d+"
DATE = r"\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}.*"
# An id, or a column, with a mark between joined files, a blank of no width or an end of line in it is another one to FATE.
INVISIBLE = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
SHEET_ID = r"^=|^\d(?:\.\d+)?[eE]\+\d+$"
MOST_FAULTS, LINES_BETWEEN_NEWS = 20, 50_000
LARGEST_LABEL = 2**31 - 1
TEXT = "string[pyarrow]"
CELLS_AT_ONCE = 1_000_000
"""Only so many cells, or one column, are Python's own strings at a time, which take three times the memory of `TEXT`."""


@dataclass(frozen=True)
class TableMeta:
    """What a file's columns are; every one but the id and the label is a feature. What is None is found out.

    The ``label_type`` is ``int32`` for classes, ``float64`` for numbers, ``dtype`` that of all features. ``least_classes``
    different labels must occur: 1 for a table that is only predicted. Texts with categories become their numbers, from 0.
    """

    id_name: str = "id"
    label_name: str | None = None
    label_type: str | None = None
    dtype: str = NUMBER
    delimiter: str | None = None
    least_classes: int = 2
    encoding: str | None = None
    facts: TableFacts = TableFacts()

    def for_fate(self) -> dict[str, Any]:
        """The metadata keys of FATE-Flow's upload; the sample id is made by FATE, row by row."""
        meta = {"match_id_name": self.id_name, "dtype": self.dtype, "delimiter": self.delimiter}
        if self.label_name is not None:
            meta.update(label_name=self.label_name, label_type=self.label_type)
        return meta


@dataclass(frozen=True)
class CsvTable:
    """The file's rows as texts: trimmed ids, labels and plain numbers, ``NaN`` where a feature is missing; ids as written, too."""

    path: Path
    frame: pandas.DataFrame
    meta: TableMeta
    notes: tuple[str, ...]
    written_ids: pandas.Series

    @property
    def ids(self) -> pandas.Series:
        """The match ids, in the order of the file."""
        return self.frame[self.meta.id_name]

    @property
    def features(self) -> list[str]:
        """Names of all columns but the id and the label."""
        return [name for name in self.frame if name not in (self.meta.id_name, self.meta.label_name)]

    def write(self, path: Path) -> TableMeta:
        """Write it for FATE: UTF-8, one line a row, no quotes, a delimiter that no value contains."""
        columns = list(self.frame.columns)
        ids = pandas.concat([self.ids, pandas.Series(columns, dtype=TEXT)])
        delimiter = next((each for each in DELIMITERS if not ids.str.contains(each, regex=False).any()), None)
        if delimiter is None:
            raise InvalidArgument(
                f"The ids and columns of {self.path} contain all of {' '.join(map(repr, DELIMITERS))}; rename some."
            )
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{delimiter.join(columns)}\n")
            at_once = 1 + CELLS_AT_ONCE // len(columns)
            for first in range(0, len(self.frame), at_once):
                rows = self.frame.iloc[first : first + at_once].to_numpy(object)
                file.writelines(f"{delimiter.join(row)}\n" for row in rows)
        return replace(self.meta, delimiter=delimiter)


def read_csv_file(
    path: str | os.PathLike, meta: TableMeta, tell: Callable[[str], None] = lambda told: None
) -> CsvTable:
    """Read a file in any usual form; raises InvalidArgument with every fault, each with its line and cure.

    ``tell`` hears how far it is.
    """
    return _Reading(Path(path), meta, tell).table()


class _Reading:
    """One reading: faults and notes come up column by column."""

    def __init__(self, path: Path, meta: TableMeta, tell: Callable[[str], None] = lambda told: None) -> None:
        self.path, self.meta, self.tell = path, meta, tell
        self.missing = MISSING_VALUES | {code.lower() for code in meta.facts.missing}
        self.units = dict(meta.facts.units)
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.decimal_comma = False
        self.piped: bytes | None = None

    def table(self) -> CsvTable:
        if self.meta.delimiter is not None and (len(self.meta.delimiter) != 1 or self.meta.delimiter in '"\r\n'):
            raise InvalidArgument.of("delimiter", self.meta.delimiter, "one character, no quote and no line break")
        if self.meta.label_name == self.meta.id_name:
            raise InvalidArgument.of("label", self.meta.label_name, "another column than the id")
        frame = self._named_columns(*self._cells())
        self._stop_if_faulty()
        numbers = dict(self._columns(frame))
        if self.decimal_comma:
            self._refuse_dotted_thousands(frame)
        self._stop_if_faulty()
        label_type = self.meta.label_type or WHOLE
        if self.meta.label_name is not None:
            labels, label_type = self._labels(numbers[self.meta.label_name].astype(object))
            numbers[self.meta.label_name] = labels.astype(TEXT)
        self._stop_if_faulty()
        found = replace(self.meta, label_type=label_type, facts=replace(self.meta.facts, units=self.units))
        table = pandas.DataFrame(numbers).reset_index(drop=True)
        return CsvTable(self.path, table, found, tuple(self.notes), frame[self.meta.id_name])

    def _stop_if_faulty(self) -> None:
        if self.faults:
            shown = self.faults[:MOST_FAULTS]
            more = [f"and {len(self.faults) - len(shown)} more."] if len(self.faults) > len(shown) else []
            raise InvalidArgument("\n  ".join([f"The table {self.path} cannot be taken:", *shown, *more]))

    def _open(self) -> None:
        """Find out the encoding and the delimiter."""
        try:
            if not self.path.is_file():
                self.piped = self.path.read_bytes()
            with self._binary() as file:
                start = file.read(4)
        except OSError as error:
            raise InvalidArgument(f"The table {self.path} cannot be read: {error.strerror}.") from error
        marked = next((name for mark, name in MARKS.items() if start.startswith(mark)), None)
        given = self.meta.encoding or marked
        # One Han character within a word: rather a letter of Latin-1 and the one behind it; nobody's own: rather Big5.
        odd = re.compile("\0|[\ue000-\uf8ff]|[A-Za-z][\u4e00-\u9fff][A-Za-z]")
        for self.encoding in [given] if given else ENCODINGS:
            guessed = self.encoding == "gb18030" and given is None
            try:
                if any(odd.search(line) if guessed else "\0" in line for line in self._lines()):
                    continue
            except (ValueError, LookupError):
                continue
            if self.encoding not in ("utf-8", "utf-8-sig"):
                self.notes.append(f"Read as {'GBK' if self.encoding == 'gb18030' else self.encoding}.")
            self.delimiter = self.meta.delimiter or self._likeliest_delimiter()
            return
        tried = given or "UTF-8 nor GBK"
        raise InvalidArgument(f"The table {self.path} is not text in {tried}; name its encoding with --encoding.")

    def _binary(self) -> BinaryIO:
        """The file, from its beginning; what comes from a pipe cannot be read twice and is kept."""
        return self.path.open("rb") if self.piped is None else io.BytesIO(self.piped)

    def _lines(self) -> Iterator[str]:
        """The lines of the file, whatever ends them, one at a time."""
        with io.TextIOWrapper(self._binary(), self.encoding) as file:
            yield file.readline().removeprefix("\ufeff")
            yield from file

    def _likeliest_delimiter(self) -> str:
        header = re.sub(r'"[^"]*"', "", next((line for line in self._lines() if line != "\n"), ""))
        found = max(DELIMITERS, key=header.count)
        if found != DELIMITERS[0] and header.count(found):
            self.notes.append(f"Read as separated by {found!r}.")
            return found
        return DELIMITERS[0]

    def _cells(self) -> tuple[list[str], pandas.DataFrame]:
        """The header, and all cells below it as texts; the index counts lines from 1."""
        rows = self.rows()
        _, header = next(rows)
        at_once = 1 + CELLS_AT_ONCE // len(header)
        blocks = [pandas.DataFrame(columns=range(len(header)), dtype=TEXT)]
        while block := dict(islice(rows, at_once)):
            wrong = next(((line, len(row)) for line, row in block.items() if len(row) != len(header)), None)
            if wrong is not None:
                cure = f"quote a value that contains {self.delimiter!r}, and leave one that is missing empty"
                raise InvalidArgument(
                    f"The table {self.path} cannot be taken: line {wrong[0]} has {wrong[1]} values, the header {len(header)}; "
                    f"{cure}."
                )
            blocks.append(pandas.DataFrame(list(block.values()), index=list(block), dtype=TEXT))
        return header, pandas.concat(blocks[1:] or blocks)

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, its cells) of every row that is not blank; the first one is the header."""
        self._open()
        line, is_empty = 1, True
        reader = csv.reader(self._lines(), delimiter=self.delimiter, skipinitialspace=True)
        try:
            for row in reader:
                if any(map(str.strip, row)):
                    is_empty = False
                    yield line, row
                line = reader.line_num + 1
                if reader.line_num % LINES_BETWEEN_NEWS == 0:
                    self.tell(f"{reader.line_num} lines")
        except csv.Error as error:
            raise InvalidArgument(f"The table {self.path} cannot be taken: line {line} is not CSV: {error}.") from error
        if is_empty:
            raise InvalidArgument(f"The table {self.path} is empty.")

    def _named_columns(self, header: list[str], cells: pandas.DataFrame) -> pandas.DataFrame:
        names = [name.strip() for name in header]
        frame = cells.set_axis(names, axis=1)
        kept = []
        for place, name in enumerate(names):
            nameless = name in ("", "Unnamed: 0") and name != self.meta.id_name
            if nameless and self._is_left_out(place, frame.iloc[:, place]):
                continue
            kept.append(place)
            if not name:
                self.faults.append(f"column {place + 1} has no name; name it, or take it out of the file.")
        frame = frame.iloc[:, kept]
        self._check_names(list(frame.columns))
        if frame.empty:
            self.faults.append("it has no rows.")
        return frame

    def _check_names(self, columns: list[str]) -> None:
        for name, count in Counter(columns).items():
            if re.search(INVISIBLE, name):
                self.faults.append(f"the column {name!r} has an invisible character in its name; take it out.")
            if count > 1 and name:
                self.faults.append(f"the column {name!r} occurs {count} times; rename one of them.")
            if name in RESERVED:
                self.faults.append(f"the column {name!r} has a name that FATE keeps for itself; rename it.")
        listed = ", ".join(columns[:8]) + (f" and {len(columns) - 8} more" if len(columns) > 8 else "")
        if self.meta.id_name not in columns:
            self.faults.append(
                f"it has no id column {self.meta.id_name!r}; name it with --id: its columns are {listed}."
            )
        if self.meta.label_name not in (None, *columns):
            self.faults.append(f"it has no label column {self.meta.label_name!r}; its columns are {listed}.")
        for about, name in [(each, name) for each in BY_COLUMN for name in getattr(self.meta.facts, each)]:
            if name not in columns:
                self.faults.append(f"it has no column {name!r}, for which {about} are given; its columns are {listed}.")
            elif name in (self.meta.id_name, self.meta.label_name) and about != "units":
                self.faults.append(f"the column {name!r} is not a feature, but {about} are given; leave them out.")

    def _is_left_out(self, place: int, values: pandas.Series) -> bool:
        """Whether a column without a name is no column: blanks behind a last separator, or a saved index."""
        if (values.str.strip() == "").all():
            return True
        numbers = [str(number) for number in range(len(values) + 1)]
        if values.tolist() not in (numbers[:-1], numbers[1:]):
            return False
        self.notes.append(f"Left out column {place + 1}, which has no name and numbers the rows.")
        return True

    def _columns(self, frame: pandas.DataFrame) -> Iterator[tuple[str, pandas.Series]]:
        for at, name in enumerate(frame.columns):
            self.tell(f"{at} of {len(frame.columns)} columns of {len(frame)} rows")
            if (at + 1) % max(1, CELLS_AT_ONCE // len(frame)) == 0:
                gc.collect()  # pandas keeps a column and its accessor `str` in a circle.
            written = frame[name].astype(object)
            values = written.str.strip()
            if name == self.meta.id_name:
                found = self._ids(values, written)
            elif name in self.meta.facts.categories:
                found = self._categories(values)
            else:
                found = self._compared_with_facts(self._numbers(values))
            yield name, frame[name] if found.equals(written) else found.astype(TEXT)

    def _compared_with_facts(self, numbers: pandas.Series) -> pandas.Series:
        """Say how many values are special, and where most lie outside the column's range, which a wrong unit would do."""
        name, facts = str(numbers.name), self.meta.facts
        if name not in facts.special.keys() | facts.ranges.keys():
            return numbers
        found = pandas.to_numeric(numbers, errors="coerce").astype(float)
        special = found.isin(facts.special.get(name, ()))
        if special.any():
            self.notes.append(f"{name}: {special.sum()} special values, for which {WITH_BINS} have bins of their own.")
        low, high = facts.ranges.get(name, (-math.inf, math.inf))
        measured = found[~special].dropna()
        outside = (~measured.between(low, high)).sum()
        if 2 * outside > len(measured):
            self.notes.append(
                f"{name}: {outside} of {len(measured)} values lie outside {low:g} to {high:g}; is it in another unit?"
            )
        return numbers

    def _refuse_dotted_thousands(self, frame: pandas.DataFrame) -> None:
        for name in frame.columns.drop(self.meta.id_name):
            written = frame[name].astype(object).str.strip()
            dotted = written.str.fullmatch(DOTTED_THOUSANDS)
            if dotted.any() and name not in self.meta.facts.categories:
                line = dotted.idxmax()
                self.faults.append(
                    f"line {line} has {written[line]!r} as {name!r}; other columns have decimal commas, so write thousands "
                    "without points."
                )

    def _ids(self, ids: pandas.Series, as_written: pandas.Series) -> pandas.Series:
        missing = ids.str.lower().isin(self.missing)
        for wrong, said in (
            (missing, "has no {name!r}, got {value!r}; every row needs one."),
            (ids.duplicated() & ~missing, "has the {name!r} {value!r} again; keep one row for each id."),
            (ids.str.contains(INVISIBLE), "has an invisible character in the {name!r} {value!r}; take it out."),
            (ids.str.contains(SHEET_ID), "has the {name!r} {value!r} as a spreadsheet keeps it; export ids as text."),
        ):
            if wrong.any():
                line = wrong.idxmax()
                more = f" So have {wrong.sum() - 1} more lines." if wrong.sum() > 1 else ""
                self.faults.append(f"line {line} {said.format(name=ids.name, value=ids[line])}{more}")
        if (ids != as_written).any():
            self.notes.append(f"Took blanks off the ends of {(ids != as_written).sum()} ids.")
        return ids

    def _categories(self, values: pandas.Series) -> pandas.Series:
        numbers = {category: str(number) for number, category in enumerate(self.meta.facts.categories[values.name])}
        codes = values.map(numbers).where(~values.str.lower().isin(self.missing) | values.isin(numbers), MISSING)
        wrong = codes.isna()
        if wrong.any():
            line = wrong.idxmax()
            self.faults.append(
                f"line {line} has {values[line]!r} as {values.name!r}, which is none of its categories; add it to them."
            )
        return codes

    def _numbers(self, values: pandas.Series) -> pandas.Series:
        """The column as plain numbers, or a fault for what is none."""
        missing = values.str.lower().isin(self.missing)
        if numpy.isfinite(pandas.to_numeric(values, errors="coerce")).all() and not missing.any():
            return values
        plain = self._plain(values.where(~missing, MISSING))
        wrong = ~missing & ~numpy.isfinite(pandas.to_numeric(plain, errors="coerce"))
        if wrong.any():
            self._refuse_texts(values, wrong, missing)
        if missing.any() and values.name != self.meta.label_name:
            self.notes.append(
                f"{values.name}: {missing.sum()} missing values, for which {WITH_BINS} have a bin; other trainings refuse "
                "them."
            )
        return plain

    def _plain(self, values: pandas.Series) -> pandas.Series:
        """Percent signs, thousands and decimal commas taken out, where the whole column is written so."""
        odd = _not_numbers(values)
        if odd.empty:
            return values
        written = values[values != MISSING]
        if written.str.lower().isin(BOOLEANS).all():
            self.notes.append(f"{values.name}: true is 1 and false is 0.")
            return values.where(values == MISSING, values.str.lower().map(BOOLEANS))
        if written.str.fullmatch(PERCENT).all():
            self.notes.append(f"{values.name}: in percent, signs left out; 5 % is 5.")
            self.units.setdefault(str(values.name), "percent")
            values = values.str.rstrip("% ")
            odd = _not_numbers(values)
        if self.delimiter != "," and odd.str.fullmatch(DECIMAL_COMMA).all() and not odd.str.fullmatch(THOUSANDS).all():
            # Of 999,5 and 1.234 the latter is 1234 or a slip.
            if values.str.contains(".", regex=False).any():
                return values
            self.notes.append(f"{values.name}: the comma is read as the decimal point.")
            self.decimal_comma = True
            return values.str.replace(",", ".")
        with_comma = odd[odd.str.contains(",")]
        if self.delimiter == "," and with_comma.str.fullmatch(THOUSANDS).all():
            if len(with_comma):
                self.notes.append(f"{values.name}: commas between thousands are left out.")
            return values.str.replace(",", "")
        return values

    def _refuse_texts(self, values: pandas.Series, wrong: pandas.Series, missing: pandas.Series) -> None:
        name, line, count = values.name, wrong.idxmax(), int(wrong.sum())
        value = values[line]
        if name == self.meta.label_name:
            cure = "write classes as 0, 1, ..., other labels as numbers"
        elif re.fullmatch(DATE, value):
            cure = "write dates as a number, for example of days, or take the column out"
        elif "," in value and re.fullmatch(DECIMAL_COMMA, value):
            cure = "write numbers without commas: 1,234 may be 1234 or 1.234"
        elif count == int((~missing).sum()) and not value.lower().lstrip("+-").startswith("inf"):
            kinds = sorted(set(values[wrong]))
            listed = ",".join(kinds[:4]) + (",..." if len(kinds) > 4 else "")
            cure = f"name its categories, the same at every party that has them, with --categories {name}={listed}"
        else:
            cure = "finite numbers are allowed, and blanks, NA or ? where one is missing"
        more = f", and {count - 1} more like it" if count > 1 else ""
        self.faults.append(f"line {line} has {value!r} as {name!r}{more}; {cure}.")

    def _labels(self, labels: pandas.Series) -> tuple[pandas.Series, str]:
        """Labels that FATE reads as what they are, and their type: it would cut 0.5 down to 0, and stumble over 1.0."""
        missing = labels == MISSING
        if missing.any():
            self.faults.append(f"line {missing.idxmax()} has no label {labels.name!r}; leave out rows without one.")
            return labels, WHOLE
        numbers = labels.astype(float)
        broken = numbers % 1 != 0
        label_type = self.meta.label_type or (NUMBER if broken.any() else WHOLE)
        if label_type not in WHOLE_TYPES:
            self.notes.append(
                f"The labels {labels.name} are uploaded as numbers ({label_type}); label_flip needs bounds for them, and "
                "dp_hetero_lr family gaussian."
            )
            return labels, label_type
        if broken.any():
            self.faults.append(
                f"line {broken.idxmax()} has the label {labels[broken.idxmax()]!r}; labels of type {label_type} must be whole "
                f"numbers. Use type {NUMBER} for other numbers."
            )
            return labels, label_type
        beyond = numbers.abs() > LARGEST_LABEL
        if beyond.any():
            line = beyond.idxmax()
            self.faults.append(
                f"line {line} has the label {labels[line]!r}; labels of type {label_type} must be at most {LARGEST_LABEL:,}. "
                "Number the classes 0, 1, ..."
            )
            return labels, label_type
        return numbers.astype("int64").astype(str), label_type


def _not_numbers(values: pandas.Series) -> pandas.Series:
    """The values of a column that are neither a plain number nor missing."""
    return values[pandas.to_numeric(values, errors="coerce").isna() & (values != MISSING)]


def columns_of(path: str | os.PathLike, meta: TableMeta) -> list[str]:
    """The names of a file's columns, whatever its cells hold."""
    _, header = next(_Reading(Path(path), meta).rows())
    return [name.strip() for name in header]
