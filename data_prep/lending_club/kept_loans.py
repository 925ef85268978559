"""The loans that stay, collected piece by piece while the raw file is read, and made one table at the end."""
from __future__ import annotations

from collections import Counter

import numpy
import pyarrow
import pyarrow.compute as compute

from .columns import (
    CATEGORIES, FEATURES, GROUPS, ID, LABEL, LABEL_VALUES, NUMERIC, OTHER_STATUSES, STATE, STUDY_COLUMNS,
)  # fmt: skip
from .loan_names import names_of
from .raw_file import Records
from .raw_header import NotLendingClub
from .repeated_loans import is_repetition
from .text_columns import READ_AS_TEXT, shown
from .values import READERS

KNOWN_STATUSES = frozenset(status.lower() for status in OTHER_STATUSES)


class KeptLoans:
    """Loans that miss none of the study's columns and are Fully Paid or Charged Off; only these are read as numbers.

    A value that is not allowed is refused in a loan that stays. Nobody looks at one in a loan that is dropped anyway.
    """

    def __init__(self, path):
        self._path = path
        self.complete = 0
        """Loans so far that miss none of the study's columns, whatever their status."""
        self.settled = 0
        """Those of them that are Fully Paid or Charged Off, repeated ones included."""
        self._unknown_statuses = Counter()
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
        others = columns.column(LABEL).filter(pyarrow.array(~settled)).value_counts().to_pylist()
        self._unknown_statuses.update({
            other["values"]: other["counts"] for other in others
            if " ".join(other["values"].lower().split()) not in KNOWN_STATUSES})
        self._keep(numbers[settled], columns.filter(pyarrow.array(settled)), outcomes[settled])

    def _keep(self, numbers, columns, outcomes) -> None:
        self.settled += len(numbers)
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

    def status_notices(self) -> tuple[str, ...]:
        """A sentence where loans were left out because of a loan_status that the public file does not have."""
        if not self._unknown_statuses:
            return ()
        return (
            "Loans left out because of a loan_status that the public file does not have, such as "
            f"{shown(min(self._unknown_statuses))}: {self._unknown_statuses.total():,}.",
        )

    def check_outcomes(self) -> None:
        """Refuse a file that has loans of one outcome only, or none."""
        found = {int(value) for values in self._values[LABEL] for value in numpy.unique(values)}
        for name, value in LABEL_VALUES.items():
            if value not in found:
                raise NotLendingClub(
                    f"The loan file {self._path} has no {name} loan that misses none of the study's columns; "
                    f"{' and '.join(LABEL_VALUES)} loans are needed."
                )

    def table(self):
        """The loans, each once, as a pandas table of id, the 37 features (float64) and loan_status (int8); their
        states as text, '' where the file has none; and a notice about the ids or None.

        The pieces are used up, so that the loans are held once.
        """
        frame, numbers = self._frame(), numpy.concatenate(self._numbers)
        ids, states = self._texts(ID), self._texts(STATE)
        once = ~is_repetition(frame, ids, states)
        if not once.all():
            frame, numbers = frame[once].reset_index(drop=True), numbers[once]
            ids, states = (texts.filter(pyarrow.array(once)) for texts in (ids, states))
        names, notice = names_of(ids, numbers)
        frame.insert(0, ID, names)
        return frame, as_series(states, STATE), notice

    def _frame(self):
        import pandas

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

    def _texts(self, column):
        """A column of texts, null where a value or the whole column is missing."""
        given = self._values.pop(column)
        return pyarrow.chunked_array(given) if given else pyarrow.chunked_array([pyarrow.nulls(self.settled, "string")])


def as_series(texts, name):
    """Texts as a pandas Series, '' where one is missing."""
    import pandas

    return pandas.Series(compute.fill_null(texts, "").to_numpy(), name=name, dtype=object)
