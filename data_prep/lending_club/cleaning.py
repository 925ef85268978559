"""From the raw loan file to the study's table: 37 features and the outcome, with a record of every step.

The steps are the source's, and two more: columns that are missing too often, hold a single value, are not known when
the application is decided (the source lacks this) or are not among the study's 18 are dropped; then the loans that
still miss one of the 18; then those that are neither Fully Paid nor Charged Off; then repetitions of a loan (the source
lacks this, too); and what stays is encoded.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy
import pandas
import pyarrow
import pyarrow.compute as compute

from fate_dp.privacy.validation import InvalidArgument

from .. import SYNTHETIC_PREFIX, Progress, silent
from .columns import (
    APPLICATION_TIME,
    CATEGORIES,
    FEATURES,
    GROUPS,
    ID,
    LABEL,
    LABEL_VALUES,
    NUMERIC,
    OTHER_STATUSES,
    RAW_COLUMNS,
    STATE,
    STUDY_COLUMNS,
)
from .raw_file import READ_AS_TEXT, READERS, RawFile, Records, as_text, shown

UNKNOWN = "not a column of the public file"
MISSING_TOO_OFTEN = "missing in too many loans"
SINGLE_VALUED = "a single value"
NOT_AT_APPLICATION = "not known when the application is decided"
NOT_IN_STUDY = "not among the study's 18"


class ColumnCounts:
    """For each column of `names`, how often it is missing and whether it holds more than one value."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.rows = 0
        self.missing = dict.fromkeys(names, 0)
        self._only_value: dict[str, pyarrow.Scalar] = {}
        self.single_valued = set(names)

    def add(self, columns: pyarrow.RecordBatch) -> None:
        self.rows += columns.num_rows
        for name in self.missing:
            column = columns.column(name)
            self.missing[name] += column.null_count
            if name in self.single_valued and len(present := column.drop_null()):
                only = self._only_value.setdefault(name, present[0])
                if compute.any(compute.not_equal(present, only)).as_py():
                    self.single_valued.discard(name)

    def shares(self) -> dict[str, float]:
        """The share of rows in which each column is missing."""
        return {name: missing / self.rows for name, missing in self.missing.items()}


def dropped_columns(counts: ColumnCounts, most_missing: float) -> dict[str, str]:
    """Each column that is dropped with the first reason that applies. The study's stay, even with a single value, since
    all parties must agree on the same 37 features."""
    shares = counts.shares()
    reasons = {
        UNKNOWN: lambda name: name not in RAW_COLUMNS,
        MISSING_TOO_OFTEN: lambda name: shares[name] > most_missing,
        SINGLE_VALUED: lambda name: name in counts.single_valued,
        NOT_AT_APPLICATION: lambda name: name not in APPLICATION_TIME,
        NOT_IN_STUDY: lambda name: True,
    }
    dropped: dict[str, str] = {}
    for reason, applies in reasons.items():
        others = (name for name in counts.missing if name not in STUDY_COLUMNS and name not in dropped)
        dropped.update({name: reason for name in list(others) if applies(name)})
    return dropped


def check_study_columns(path: str | os.PathLike, counts: ColumnCounts, most_missing: float) -> None:
    for name in STUDY_COLUMNS:
        share = counts.missing[name] / counts.rows
        if share > most_missing:
            raise InvalidArgument(
                f"The loan file {path} misses {name} in {counts.missing[name]} of {counts.rows} loans ({share:.1%}); "
                f"at most {most_missing:.1%} are allowed in a column that the study needs."
            )


def is_repetition(frame: pandas.DataFrame, ids: pyarrow.ChunkedArray, states: pyarrow.ChunkedArray) -> numpy.ndarray:
    """For each loan (n,) whether an earlier one is the same, as in a file that was put together from overlapping ones.

    Such a loan might be trained on and tested on, and the test would flatter every model. Two loans are the same if they
    have the same id, or both none, and agree in every column that is read: amounts, rates and a credit file that agree to
    the cent are hardly those of two people.
    """
    names = ids.to_pandas()
    suspects = names.duplicated(keep=False).to_numpy()
    repetition = numpy.zeros(len(frame), dtype=bool)
    if suspects.any():
        columns = {ID: names[suspects].to_numpy(), STATE: states.to_pandas()[suspects].to_numpy()}
        repetition[suspects] = frame[suspects].assign(**columns).duplicated().to_numpy()
    return repetition


PLAIN_ID = r"^[A-Za-z0-9_.-]+$"


def why_unusable(ids: pyarrow.ChunkedArray) -> str | None:
    """Why the ids cannot name the loans, None if they can."""
    if ids.null_count:
        return f"{ids.null_count} of {len(ids)} loans have no id"
    plain = compute.match_substring_regex(ids, PLAIN_ID)
    if not compute.all(plain).as_py():
        odd = ids.filter(compute.invert(plain))[0].as_py()
        return f"The id {shown(odd)} has other characters than letters, digits, '_', '.' and '-'"
    marked = compute.starts_with(ids, SYNTHETIC_PREFIX)
    if compute.any(marked).as_py():
        return f"The id {shown(ids.filter(marked)[0].as_py())} begins like those of over-sampled rows"
    counts = compute.value_counts(ids)
    repeated = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(repeated):
        text, times = repeated[0].as_py().values()
        return f"The id {shown(text)} occurs {times} times with different values"
    return None


KNOWN_STATUSES = frozenset(status.lower() for status in OTHER_STATUSES)


class KeptLoans:
    """Loans that miss none of the study's columns and are Fully Paid or Charged Off; only these are read as numbers.

    A value that is not allowed is refused in a loan that stays. Nobody looks at one in a loan that is dropped anyway.
    So far ``complete`` loans, whatever their status, missed none of the study's columns, and ``settled`` ones of them,
    repeated ones included, are Fully Paid or Charged Off.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.complete = self.settled = 0
        self._unknown_statuses: Counter[str] = Counter()
        self._numbers: list[numpy.ndarray] = []
        self._values: dict[str, list] = {column: [] for column in READ_AS_TEXT}

    def add(self, records: Records) -> None:
        """Take those of `records` that stay, after `as_text`."""
        columns = records.columns.select([name for name in READ_AS_TEXT if name in records.columns.schema.names])
        complete = pyarrow.array(numpy.ones(columns.num_rows, dtype=bool))
        for column in STUDY_COLUMNS:
            complete = compute.and_(complete, compute.is_valid(columns.column(column)))
        self.complete += compute.sum(complete).as_py() or 0
        columns = columns.filter(complete)
        numbers = records.numbers[complete.to_numpy(zero_copy_only=False)]
        outcomes = READERS[LABEL].read(columns.column(LABEL))
        settled = numpy.isfinite(outcomes)
        others = columns.column(LABEL).filter(pyarrow.array(~settled)).value_counts().to_pylist()
        for other in others:
            if " ".join(other["values"].lower().split()) not in KNOWN_STATUSES:
                self._unknown_statuses[other["values"]] += other["counts"]
        numbers, columns = numbers[settled], columns.filter(pyarrow.array(settled))
        self.settled += len(numbers)
        self._numbers.append(numbers)
        self._values[LABEL].append(outcomes[settled].astype(numpy.int8))
        for column in (*NUMERIC, *CATEGORIES):
            values = self._read(column, columns.column(column), numbers)
            self._values[column].append(values.astype(numpy.int8) if column in CATEGORIES else values)
        for column in {ID, STATE} & set(columns.schema.names):
            self._values[column].append(columns.column(column))

    def _read(self, column: str, texts: pyarrow.Array, numbers: numpy.ndarray) -> numpy.ndarray:
        values = READERS[column].read(texts)
        refused = numpy.flatnonzero(numpy.isnan(values))
        if len(refused):
            text, number = texts[int(refused[0])].as_py(), numbers[refused[0]]
            raise InvalidArgument(
                f"The loan file {self._path} has {shown(text)} as {column} in record {number}; "
                f"{READERS[column].allowed}."
            )
        return values

    def status_notices(self) -> tuple[str, ...]:
        """A sentence where loans were left out because of a loan_status that the public file does not have."""
        unknown = self._unknown_statuses
        why = "Loans left out because of a loan_status that the public file does not have, such as"
        return (f"{why} {shown(min(unknown))}: {unknown.total():,}.",) if unknown else ()

    def check_outcomes(self) -> None:
        found = {int(value) for values in self._values[LABEL] for value in numpy.unique(values)}
        for name, value in LABEL_VALUES.items():
            if value not in found:
                raise InvalidArgument(
                    f"The loan file {self._path} has no {name} loan that misses none of the study's columns; "
                    f"{' and '.join(LABEL_VALUES)} loans are needed."
                )

    def table(self) -> tuple[pandas.DataFrame, pandas.Series, str | None]:
        """The loans, each once, their states, and a notice about the ids or None; the pieces are used up, so that loans
        are held once."""
        frame, numbers = self._frame(), numpy.concatenate(self._numbers)
        ids, states = self._texts(ID), self._texts(STATE)
        once = ~is_repetition(frame, ids, states)
        if not once.all():
            frame, numbers = frame[once].reset_index(drop=True), numbers[once]
            ids, states = (texts.filter(pyarrow.array(once)) for texts in (ids, states))
        why = why_unusable(ids)
        frame.insert(0, ID, ids.to_numpy() if why is None else [f"row-{number}" for number in numbers])
        present = compute.fill_null(states, "").to_numpy()
        notice = None if why is None else f"{why}; the loans are named by their record numbers."
        return frame, pandas.Series(present, name=STATE, dtype=object), notice

    def _frame(self) -> pandas.DataFrame:
        features = numpy.zeros((len(FEATURES), self.settled))
        for row, column in enumerate(NUMERIC):
            numpy.concatenate(self._values.pop(column), out=features[row])
        for column, group in zip(CATEGORIES, GROUPS):
            positions = numpy.concatenate(self._values.pop(column))
            first = FEATURES.index(group[0])
            for position in range(len(group)):
                features[first + position] = positions == position
        frame = pandas.DataFrame(features.T, columns=list(FEATURES), copy=False)
        frame.insert(len(frame.columns), LABEL, numpy.concatenate(self._values.pop(LABEL)))
        return frame

    def _texts(self, column: str) -> pyarrow.ChunkedArray:
        """A column of texts, null where a value or the whole column is missing."""
        given = self._values.pop(column)
        return pyarrow.chunked_array(given) if given else pyarrow.chunked_array([pyarrow.nulls(self.settled, "string")])


@dataclass(frozen=True)
class Step:
    """How many rows and columns are left after a step."""

    name: str
    rows: int
    columns: int
    note: str = ""


@dataclass(frozen=True)
class CleanLoans:
    """The cleaned loans and how they came about.

    ``frame`` has id (text, distinct), the 37 features (float64) and loan_status (int8, 1 is Fully Paid); ``states`` are the
    loans' addr_state, '' where the file has none, and no feature. ``missing`` is the share of the raw file's loans in which
    each column is missing; ``dropped_columns`` have their reasons, ``notices`` say what is unusual and harmless.
    """

    frame: pandas.DataFrame
    states: pandas.Series
    steps: tuple[Step, ...]
    missing: dict[str, float]
    dropped_columns: dict[str, str]
    notices: tuple[str, ...]
    sha256: str
    source: str


def clean(path: str | os.PathLike, most_missing: float = 1 / 3, progress: Progress = silent) -> CleanLoans:
    """Read the raw file once and clean it; ``progress`` is told the share of the file that is read.

    A column is kept if at most the share ``most_missing`` of the loans misses it. The source's text drops a column that
    misses more than two thirds, but its code keeps only columns with two thirds present; a third is what it did, and so
    the default. InvalidArgument for a file that is not Lending Club's, is damaged, holds a value that is not allowed in
    a loan that stays, misses a column of the study too often, or has no loan of one of the two outcomes.
    """
    raw = RawFile(path)
    counts, kept = ColumnCounts(raw.header.named), KeptLoans(raw.path)
    for records in raw.read():
        progress("reading the raw file", raw.share_read)
        records = as_text(raw.path, records)
        counts.add(records.columns)
        kept.add(records)
    check_study_columns(path, counts, most_missing)
    kept.check_outcomes()
    dropped = dropped_columns(counts, most_missing)
    frame, states, id_notice = kept.table()
    single_valued = (
        f"The column {name} has the same value in every loan; it is kept, since the features are fixed."
        for name in STUDY_COLUMNS
        if name in counts.single_valued
    )
    about_ids = () if id_notice is None else (id_notice,)
    return CleanLoans(
        frame=frame,
        states=states,
        steps=steps_of(raw, kept, dropped, len(frame)),
        missing=counts.shares(),
        dropped_columns=dropped,
        notices=(
            *raw.header.notices(),
            *single_valued,
            *kept.status_notices(),
            *about_ids,
            *percent_notices(path, frame),
        ),
        sha256=raw.sha256,
        source=raw.path.name,
    )


def percent_notices(path: str | os.PathLike, frame: pandas.DataFrame) -> tuple[str, ...]:
    """Rates are read as percentages: refuse interest rates, and tell of shares of a limit, that are fractions."""
    low = [name for name in ("int_rate", "revol_util") if frame[name].max() <= 1]
    if "int_rate" in low:
        raise InvalidArgument(f"The loan file {path} has no int_rate above 1; write percent, such as 13.56 for 0.1356.")
    return tuple(f"The column {name} is at most 1 in every loan; percent are read: 45.2, not 0.452." for name in low)


def steps_of(raw: RawFile, kept: KeptLoans, dropped: dict[str, str], encoded: int) -> tuple[Step, ...]:
    columns = len(raw.header.named)
    steps = [Step("raw file read", raw.records, columns)]
    if raw.loans < raw.records:
        steps.append(Step("notes, empty records and repeated headers removed", raw.loans, columns))
    for reason in dict.fromkeys(dropped.values()):
        names = [name for name in dropped if dropped[name] == reason]
        columns -= len(names)
        steps.append(Step(f"columns dropped: {reason}", raw.loans, columns, ", ".join(names)))
    steps += [
        Step("loans dropped that miss a value", kept.complete, columns),
        Step("Fully Paid and Charged Off kept", kept.settled, columns),
    ]
    if encoded < kept.settled:
        steps.append(Step("repeated loans removed", encoded, columns))
    return (*steps, Step("encoded", encoded, len(FEATURES) + 1, "37 features and loan_status"))
