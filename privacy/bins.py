"""Bins of columns: which bin each value falls into, by rules that are public.

A column is either cut at points or listed by its categories. Its bins are numbered from 0:

- of cut points c_1 < ... < c_k, k + 1 bins, closed on the right as FATE's and pandas' are: bin j holds the values with
  c_j < value <= c_(j+1), where c_0 is minus infinity and c_(k+1) infinity;
- of m categories, one bin each in their order, and bin m for all that is not among them: rare and unseen ones;
- then one for each value that stands apart from all others: the special ones, such as -999 for 'no credit file', and last
  missing values (NaN), if the column has such a bin.

Bins have no guarantee of their own. Cut points and categories are shown, so that they must be public, or released by a
mechanism such as ``mechanisms/quantiles.py``. The bin of a record is as private as its value.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .validation import InvalidArgument, is_finite, whole

MAX_BINS = 1024
RARE, SPECIAL, MISSING = "rare", "special", "missing"
WIRE = {"name", "cuts", "categories", "missing", "special"}


def place_among(listed: Sequence[float], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of each number among distinct ones, at least one, that are listed; their count for others and for NaN."""
    known = np.array(listed, dtype=np.float64)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known, numbers, sorter=order), len(known) - 1)]
    return np.where(known[places] == numbers, places, len(known))


@dataclass(frozen=True)
class ColumnBins:
    """The bins of one column; the bin of a value is its number from 0 to ``count`` - 1.

    Attributes:
        name: of the column.
        cuts: finite, each greater than the one before; without any, all values share one bin. Empty with categories.
        categories: distinct finite numbers, or None for a column with cut points.
        missing: whether there is a bin for missing values, the last one. Without it, they are refused.
        special: distinct finite numbers that are codes and no measurements; each has a bin outside the order.
    """

    name: str
    cuts: tuple[float, ...] = ()
    categories: tuple[float, ...] | None = None
    missing: bool = True
    special: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgument.of("name of a column", self.name, "a text that is not empty")
        if not isinstance(self.missing, bool):
            raise InvalidArgument.of(f"missing of {self.name!r}", self.missing, "true or false")
        object.__setattr__(self, "cuts", _increasing(f"cuts of {self.name!r}", self.cuts))
        object.__setattr__(self, "special", _distinct(f"special of {self.name!r}", self.special, least=0))
        if self.categories is not None:
            object.__setattr__(self, "categories", _distinct(f"categories of {self.name!r}", self.categories))
            if self.cuts:
                raise InvalidArgument.of(f"bins of {self.name!r}", "both", "cut points or categories")
            twice = sorted(set(self.special) & set(self.categories))
            if twice:
                raise InvalidArgument.of(f"{twice[0]:g} of {self.name!r}", "both", "special or a category")
        if self.count > MAX_BINS:
            raise InvalidArgument.of(f"number of bins of {self.name!r}", self.count, f"at most {MAX_BINS}")

    @property
    def count(self) -> int:
        """The number of bins, with those of rare categories and of values that stand apart."""
        return self.apart_from + len(self.special) + self.missing

    @property
    def apart_from(self) -> int:
        """The first bin of a value that stands apart: one for each special value, then that of missing values."""
        return len(self.cuts if self.categories is None else self.categories) + 1

    @property
    def ordered(self) -> int:
        """The number of bins that stand in an order, the first ones: those of rare categories and of values apart do not."""
        return len(self.cuts) + 1 if self.categories is None else len(self.categories)

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """The bin of each value, in the shape of ``values``; infinities lie beyond all cut points.

        InvalidArgument where values are no numbers, or one is missing and there is no bin for it. The sentence names no
        value, but that one is missing may be private: components pass it on as a private reason.
        """
        given = np.asarray(values)
        if given.dtype.kind not in "fiu":
            raise InvalidArgument.of(f"type of the values of {self.name!r}", str(given.dtype), "a type of numbers")
        numbers = given.astype(np.float64)
        absent = np.isnan(numbers)
        if not self.missing and absent.any():
            raise InvalidArgument(f"Column {self.name!r} has missing values but no bin for them.")
        if self.categories is None:
            codes = np.searchsorted(np.array(self.cuts, dtype=np.float64), numbers, side="left")
        else:
            codes = place_among(self.categories, numbers)
        for number, value in enumerate(self.special):
            codes = np.where(numbers == value, self.apart_from + number, codes)
        return np.where(absent, self.count - 1, codes).astype(np.int64)

    def labels(self) -> list[str]:
        """What each bin holds, in words, in the order of their numbers."""
        if self.categories is None:
            ends = [-math.inf, *self.cuts, math.inf]
            # Six digits, unless two cut points would read the same.
            written = [f"{end:g}" for end in ends]
            written = written if len(set(written)) == len(ends) else [repr(end) for end in ends]
            words = [f"({low}, {high}]" for low, high in pairwise(written[:-1])] + [f"({written[-2]}, inf)"]
        else:
            words = [*map(_in_words, self.categories), RARE]
        return [*words, *(f"{SPECIAL} {_in_words(value)}" for value in self.special), *[MISSING] * self.missing]

    def to_wire(self) -> dict[str, Any]:
        """The bins as texts, numbers and lists, for JSON and for messages."""
        categories = None if self.categories is None else list(self.categories)
        wire = {"name": self.name, "cuts": list(self.cuts), "categories": categories, "missing": self.missing}
        return {**wire, "special": list(self.special)}

    @classmethod
    def from_wire(cls, document: object) -> "ColumnBins":
        """The inverse of ``to_wire``; raises ``InvalidArgument`` for anything that it cannot have made.

        A model of before there were special values has none.
        """
        if not isinstance(document, dict) or set(document) | {"special"} != WIRE:
            raise InvalidArgument("Bins of a column must be a mapping of name, cuts, categories, missing and special.")
        return cls(**{"special": [], **document})


@dataclass(frozen=True)
class TableBins:
    """The bins of a table's columns, in their order."""

    columns: tuple[ColumnBins, ...]

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns if isinstance(column, ColumnBins)]
        if not isinstance(self.columns, tuple) or len(names) < len(self.columns):
            raise InvalidArgument.of("columns", self.columns, "a tuple of ColumnBins")
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise InvalidArgument(f"Column {twice[0]!r} has bins twice.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The number of bins of each column."""
        return tuple(column.count for column in self.columns)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each column's bins begin if all bins stand in one row, and last the number of all bins."""
        return tuple(accumulate(self.counts, initial=0))

    @property
    def total(self) -> int:
        """The number of bins of all columns."""
        return self.offsets[-1]

    def codes(self, values: ArrayLike) -> NDArray[np.int64]:
        """The bins of a table of shape (rows, columns), each from 0 to its column's ``count`` - 1; InvalidArgument as
        of ``ColumnBins.codes``, and for another number of columns."""
        table = np.asarray(values)
        if table.ndim != 2 or table.shape[1] != len(self.columns):
            raise InvalidArgument.of("shape of the table", table.shape, f"rows of {len(self.columns)} columns")
        codes = np.empty(table.shape, dtype=np.int64)
        for place, column in enumerate(self.columns):
            codes[:, place] = column.codes(table[:, place])
        return codes

    def places(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same bins numbered through all columns, from 0 to ``total`` - 1: ``codes`` plus each column's offset."""
        return codes + np.array(self.offsets[:-1], dtype=np.int64)

    def to_wire(self) -> list[dict[str, Any]]:
        """The bins of all columns, for JSON and for messages."""
        return [column.to_wire() for column in self.columns]

    @classmethod
    def from_wire(cls, document: object) -> "TableBins":
        """The inverse of ``to_wire``; raises ``InvalidArgument`` for anything that it cannot have made."""
        if not isinstance(document, list):
            raise InvalidArgument("Bins of a table must be a list with the bins of each column.")
        return cls(tuple(ColumnBins.from_wire(column) for column in document))


def cut_bins(name: str, cuts: Sequence[float], *, missing: bool = True) -> ColumnBins:
    """Bins of declared cut points, of which there must be at least one, each greater than the one before."""
    checked = _increasing(f"cuts of {name!r}", cuts)
    if not checked:
        raise InvalidArgument.of(f"cuts of {name!r}", [], "at least one cut point")
    return ColumnBins(name, checked, missing=missing)


def category_bins(name: str, categories: Sequence[float], *, missing: bool = True) -> ColumnBins:
    """Bins of declared categories; what is not among them is rare."""
    return ColumnBins(name, (), _distinct(f"categories of {name!r}", categories), missing)


def equal_width_bins(name: str, low: float, high: float, bins: int, *, missing: bool = True) -> ColumnBins:
    """``bins`` bins that divide the declared range evenly; values beyond it are in the outer ones."""
    low, high = check_range(name, low, high)
    parts = whole(f"bins of {name!r}", bins, 2, MAX_BINS)
    # Weighted ends cannot overflow, as their difference could.
    cuts = [low * (1 - part / parts) + high * (part / parts) for part in range(1, parts)]
    if any(not low < before < after for before, after in pairwise([*cuts, high])):
        raise InvalidArgument.of(f"range of {name!r}", [low, high], f"wide enough for {parts} different bins")
    return ColumnBins(name, tuple(cuts), missing=missing)


def quantile_bins(
    name: str, quantiles: Iterable[float], *, missing: bool = True, special: tuple[float, ...] = ()
) -> ColumnBins:
    """Bins cut at released quantiles, in any order; equal ones are one cut point."""
    return ColumnBins(name, tuple(sorted(set(quantiles))), missing=missing, special=special)


def special_values(name: str, values: object) -> tuple[float, ...]:
    """The special values of column ``name`` as floats; raise ``InvalidArgument`` unless they are distinct finite numbers."""
    return _distinct(f"special of {name!r}", values)


def check_range(name: str, low: object, high: object) -> tuple[float, float]:
    """The ends of the declared range of column ``name`` as floats; raise ``InvalidArgument`` unless low < high."""
    if not (is_finite(low) and is_finite(high) and float(low) < float(high)):
        raise InvalidArgument.of(f"range of {name!r}", [low, high], "two finite numbers, the smaller one first")
    return float(low), float(high)


def _finite(name: str, numbers: object) -> tuple[float, ...]:
    if not isinstance(numbers, list | tuple) or not all(is_finite(number) for number in numbers):
        raise InvalidArgument.of(name, numbers, "a list of finite numbers")
    if len(numbers) > MAX_BINS - 2:
        raise InvalidArgument.of(f"number of {name}", len(numbers), f"at most {MAX_BINS - 2}")
    return tuple(float(number) for number in numbers)


def _increasing(name: str, numbers: object) -> tuple[float, ...]:
    cuts = _finite(name, numbers)
    if any(before >= after for before, after in pairwise(cuts)):
        raise InvalidArgument.of(name, list(cuts), "sorted, each greater than the one before")
    return cuts


def _distinct(name: str, numbers: object, least: int = 1) -> tuple[float, ...]:
    listed = _finite(name, numbers)
    if len(listed) < least or len(set(listed)) < len(listed):
        raise InvalidArgument.of(name, list(listed), "a list of at least one number, none of them twice")
    return listed


def _in_words(number: float) -> str:
    return f"{number!r}" if number % 1 else f"{int(number)}"
