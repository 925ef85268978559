"""The loans that stay, collected piece by piece while the raw file is read, and made one table at the end."""
from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute as compute

from .columns import CATEGORIES, FEATURES, GROUPS, ID, LABEL, LABEL_VALUES, NUMERIC, STATE, STUDY_COLUMNS
from .raw_file import Records
from .raw_header import NotLendingClub
from .text_columns import READ_AS_TEXT, shown
from .values import READERS

PLAIN_ID = r"^[A-Za-z0-9_.-]+$"


class KeptLoans:
    """Loans that miss none of the study's columns and are Fully Paid or Charged Off; only these are read as numbers.

    A value that is not allowed is refused in a loan that stays. Nobody looks at one in a loan that is dropped anyway.
    """

    def __init__(self, path):
        self._path = path
        self.complete = 0
        """Loans so far that miss none of the study's columns, whatever their status."""
        self._numbers = []
        self._values = {column: [] for column in READ_AS_TEXT}

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
        self._keep(numbers[settled], columns.filter(pyarrow.array(settled)), outcomes[settled])

    def _keep(self, numbers, columns, outcomes) -> None:
        self._numbers.append(numbers)
        self._values[LABEL].append(outcomes.astype(numpy.int8))
        for column in NUMERIC:
            self._values[column].append(self._read(column, columns.column(column), numbers))
        for column in CATEGORIES:
            positions = self._read(column, columns.column(column), numbers)
            self._values[column].append(positions.astype(numpy.int8))
        for column in {ID, STATE} & set(columns.schema.names):
            self._values[column].append(columns.column(column))

    def _read(self, column, texts, numbers):
        values = READERS[column].read(texts)
        refused = numpy.flatnonzero(numpy.isnan(values))
        if len(refused):
            text, number = texts[int(refused[0])].as_py(), numbers[refused[0]]
            raise NotLendingClub(
                f"The loan file {self._path} has {shown(text)} as {column} in record {number}; "
                f"{READERS[column].allowed}."
            )
        return values

    def check_outcomes(self) -> None:
        """Refuse a file that has loans of one outcome only, or none."""
        found = {int(value) for values in self._values[LABEL] for value in numpy.unique(values)}
        for name, value in LABEL_VALUES.items():
            if value not in found:
                raise NotLendingClub(
                    f"The loan file {self._path} has no {name} loan that misses none of the study's columns; "
                    f"{' and '.join(LABEL_VALUES)} loans are needed."
                )

    def frame(self):
        """The loans as a pandas table of id, the 37 features (float64) and loan_status (int8); and a notice or None.

        The pieces are used up, so that the loans are held once.
        """
        import pandas

        features = numpy.zeros((len(FEATURES), sum(map(len, self._numbers))))
        for row, column in enumerate(NUMERIC):
            numpy.concatenate(self._values.pop(column), out=features[row])
        for column, group in zip(CATEGORIES, GROUPS):
            positions = numpy.concatenate(self._values.pop(column))
            first = FEATURES.index(group[0])
            for position in range(len(group)):
                features[first + position] = positions == position
        frame = pandas.DataFrame(features.T, columns=list(FEATURES), copy=False)
        ids, notice = self._ids()
        frame.insert(0, ID, ids)
        frame.insert(len(frame.columns), LABEL, numpy.concatenate(self._values.pop(LABEL)))
        return frame, notice

    def _ids(self):
        given = self._values.pop(ID)
        why = why_unusable(given)
        if why is None:
            return pyarrow.chunked_array(given).to_numpy(), None
        ids = [f"row-{number}" for piece in self._numbers for number in piece]
        return numpy.array(ids, dtype=object), f"{why}; the loans are named by their record numbers."

    def states(self):
        """The states of the loans as text, '' where the file has none."""
        import pandas

        given = self._values[STATE]
        if not given:
            return pandas.Series([""] * sum(map(len, self._numbers)), name=STATE, dtype=object)
        return pandas.Series(compute.fill_null(pyarrow.chunked_array(given), "").to_numpy(), name=STATE, dtype=object)


def why_unusable(ids: list) -> str | None:
    """Why the given pieces of ids cannot name the loans, None if they can."""
    if not ids:
        return "The file has no column id"
    ids = pyarrow.chunked_array(ids)
    if ids.null_count:
        return f"{ids.null_count} of {len(ids)} loans have no id"
    plain = compute.match_substring_regex(ids, PLAIN_ID)
    if not compute.all(plain).as_py():
        odd = ids.filter(compute.invert(plain))[0].as_py()
        return f"The id {shown(odd)} has other characters than letters, digits, '_', '.' and '-'"
    counts = compute.value_counts(ids)
    repeated = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(repeated):
        return f"The id {shown(repeated[0]['values'].as_py())} occurs {repeated[0]['counts']} times"
    return None
