"""Texts of the raw file as numbers: each column of the study with the spellings of all public editions.

A reader takes texts without surrounding blanks, none missing, and gives numbers (n,) as float64 with NaN where the text
is not allowed; `allowed` says in words what is.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy
import pyarrow
import pyarrow.compute as compute

from .columns import CATEGORIES, LABEL, LABEL_VALUES, NUMERIC

TERM = re.compile(r"(36|60)(?:\.0+)?(?:\s*months?)?", re.IGNORECASE)
YEARS = re.compile(r"(?:(?P<less><\s*1)|(?P<years>[0-9]|10)(?:\.0+)?|(?P<more>10\s*\+))(?:\s*years?)?", re.IGNORECASE)
OUTCOMES = {name.lower(): value for name, value in LABEL_VALUES.items()}
# Spellings of editions before 2012; the later ones are the categories' names.
OLDER_SPELLINGS = {
    "verification_status": {
        "verified - income": "Verified",
        "verified - income source": "Source Verified",
    }
}


class Numbers:
    """Finite numbers from 0 on, written with a decimal point."""

    allowed = "finite numbers from 0 on are allowed"

    def read(self, texts: pyarrow.Array) -> numpy.ndarray:
        """Numbers (n,) of texts (n,)."""
        numbers = as_floats(texts)
        numbers[~(numpy.isfinite(numbers) & (numbers >= 0))] = numpy.nan
        return numbers


class Percentages(Numbers):
    """Numbers in percent, with or without the sign."""

    allowed = "finite numbers from 0 on, with or without a percent sign, are allowed"

    def read(self, texts: pyarrow.Array) -> numpy.ndarray:
        """Numbers (n,) of texts (n,); 13.5 for "13.5%"."""
        signed = compute.ends_with(texts, "%")
        if compute.any(signed).as_py():
            without = compute.utf8_rtrim_whitespace(compute.utf8_slice_codeunits(texts, 0, -1))
            texts = compute.if_else(signed, without, texts)
        return super().read(texts)


@dataclass(frozen=True)
class Spellings:
    """Few different texts, each looked at once: `number_of(text)` is None where the text is not allowed."""

    number_of: Callable[[str], float | None]
    allowed: str

    def read(self, texts: pyarrow.Array) -> numpy.ndarray:
        """Numbers (n,) of texts (n,)."""
        encoded = texts.dictionary_encode()
        numbers = [self.number_of(text) for text in encoded.dictionary.to_pylist()]
        numbers = numpy.array([numpy.nan if number is None else number for number in numbers], dtype=numpy.float64)
        return numbers[encoded.indices.to_numpy()]


@dataclass(frozen=True)
class Category:
    """The position of a category among those of its column; upper and lower case are the same."""

    column: str
    positions: dict = field(init=False, compare=False)

    def __post_init__(self):
        names = CATEGORIES[self.column]
        positions = {name.lower(): position for position, name in enumerate(names)}
        for spelling, name in OLDER_SPELLINGS.get(self.column, {}).items():
            positions[spelling] = names.index(name)
        object.__setattr__(self, "positions", positions)

    def __call__(self, text: str):
        return self.positions.get(text.lower())


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


def months(text: str):
    """36 for "36 months" or "36"."""
    found = TERM.fullmatch(text)
    return None if found is None else int(found[1])


def years(text: str):
    """Whole years of employment: 0 for "< 1 year", 10 for "10+ years"."""
    found = YEARS.fullmatch(text)
    if found is None:
        return None
    return {"less": 0, "more": 10}.get(found.lastgroup, found["years"] and int(found["years"]))


def outcome(text: str):
    """1 for Fully Paid and 0 for Charged Off."""
    return OUTCOMES.get(text.lower())


READERS = {
    **{column: Numbers() for column in NUMERIC},
    **{column: Percentages() for column in ("int_rate", "revol_util")},
    "term": Spellings(months, "36 and 60 months are allowed"),
    "emp_length": Spellings(years, '"< 1 year", "1 year" to "10+ years" and the numbers 0 to 10 are allowed'),
    **{column: Spellings(Category(column), f"allowed are {', '.join(names)}") for column, names in CATEGORIES.items()},
    LABEL: Spellings(outcome, f"allowed are {', '.join(LABEL_VALUES)}"),
}
