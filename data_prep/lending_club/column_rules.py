"""Which columns of the raw file are dropped and why, from what was counted while it was read."""
from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as compute

from fate_dp.privacy.number_kinds import is_finite

from .columns import APPLICATION_TIME, RAW_COLUMNS, STUDY_COLUMNS
from .raw_header import NotLendingClub

UNKNOWN = "not a column of the public file"
MISSING_TOO_OFTEN = "missing in too many loans"
SINGLE_VALUED = "a single value"
NOT_AT_APPLICATION = "not known when the application is decided"
NOT_IN_STUDY = "not among the study's 18"


@dataclass(frozen=True)
class CleaningRules:
    """`most_missing`: the largest share of the loans in which a column may be missing and yet be kept, from 0 to 1.

    The source's text drops a column that misses more than two thirds, but its code keeps only columns with at least two
    thirds present; a third is what it did, and so the default.
    """

    most_missing: float = 1 / 3

    def __post_init__(self):
        if not is_finite(self.most_missing) or not 0 <= self.most_missing <= 1:
            raise ValueError(f"most_missing is {self.most_missing!r}; a share from 0 to 1 is allowed.")


class ColumnCounts:
    """For each column of `names`, how often it is missing and whether it holds more than one value."""

    def __init__(self, names: tuple[str, ...]):
        self.rows = 0
        self.missing = dict.fromkeys(names, 0)
        self._only_value = {}
        self._undecided = set(names)

    def add(self, columns) -> None:
        """Count the rows of a record batch."""
        self.rows += columns.num_rows
        for name in self.missing:
            column = columns.column(name)
            self.missing[name] += column.null_count
            if name in self._undecided:
                self._look_for_second_value(name, column.drop_null())

    def _look_for_second_value(self, name, present) -> None:
        if len(present):
            only = self._only_value.setdefault(name, present[0])
            if compute.any(compute.not_equal(present, only)).as_py():
                self._undecided.discard(name)

    @property
    def single_valued(self) -> frozenset[str]:
        """The columns with at most one value."""
        return frozenset(self._undecided)

    def shares(self) -> dict[str, float]:
        """The share of rows in which each column is missing."""
        return {name: missing / self.rows for name, missing in self.missing.items()}


def dropped_columns(counts: ColumnCounts, rules: CleaningRules) -> dict[str, str]:
    """Each column that is dropped with the first reason that applies, in the order of the reasons.

    The study's columns stay, even with a single value, since all parties must agree on the same 37 features.
    """
    shares = counts.shares()
    reasons = {
        UNKNOWN: lambda name: name not in RAW_COLUMNS,
        MISSING_TOO_OFTEN: lambda name: shares[name] > rules.most_missing,
        SINGLE_VALUED: lambda name: name in counts.single_valued,
        NOT_AT_APPLICATION: lambda name: name not in APPLICATION_TIME,
        NOT_IN_STUDY: lambda name: True,
    }
    dropped = {}
    for reason, applies in reasons.items():
        others = (name for name in counts.missing if name not in STUDY_COLUMNS and name not in dropped)
        dropped.update({name: reason for name in list(others) if applies(name)})
    return dropped


def check_study_columns(path, counts: ColumnCounts, rules: CleaningRules) -> None:
    """Refuse a file in which a column of the study is missing too often."""
    for name in STUDY_COLUMNS:
        share = counts.missing[name] / counts.rows
        if share > rules.most_missing:
            raise NotLendingClub(
                f"The loan file {path} misses {name} in {counts.missing[name]} of {counts.rows} loans ({share:.1%}); "
                f"at most {rules.most_missing:.1%} are allowed in a column that the study needs."
            )
