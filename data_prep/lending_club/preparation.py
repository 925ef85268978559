"""Cleaned loans divided between parties: test rows apart first, then parties, then each party over-samples alone."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import pandas

from ..division import (
    CannotDivide,
    Shares,
    Skew,
    TrainingRows,
    check_classes,
    divide_horizontally,
    held_out_rows,
    split_train_test,
)
from ..over_sampling import OverSampling, over_sample
from .cleaning import CleanLoans
from .columns import GROUPS, ID, LABEL, LABEL_VALUES, NUMERIC, PUBLIC_LIMITS, PUBLIC_UNITS
from .options import GUEST, PrepOptions, party_features


def to_public_units(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A copy with each numeric feature clamped to its public limits, less its centre, over its spread: frozen public
    figures that every party can apply on its own. ValueError for a value that is missing or not finite."""
    changed = {}
    for column in NUMERIC:
        values = frame[column].to_numpy(dtype=numpy.float64)
        if not numpy.isfinite(values).all():
            wrong = values[~numpy.isfinite(values)][0]
            raise ValueError(f"The column {column} has {wrong}; finite numbers are allowed.")
        centre, spread = PUBLIC_UNITS[column]
        changed[column] = (values.clip(*PUBLIC_LIMITS[column]) - centre) / spread
    return frame.assign(**changed)


@dataclass(frozen=True, eq=False)
class PartyRows:
    """What one party trains on.

    ``original`` are its rows of the split in raw units, ``training`` its columns in the units of the options, original rows
    first and synthetic ones after them. ``rows_before`` and ``rows_after`` over-sampling count rows per class name.
    ``largest_influence``, the most synthetic rows that any one original row went into, is a diagnostic and bounds nothing.
    """

    role: str
    party_id: str
    original: TrainingRows
    training: pandas.DataFrame
    rows_before: dict[str, int]
    rows_after: dict[str, int]
    largest_influence: int


@dataclass(frozen=True, eq=False)
class Division:
    """Parties in the order of the options, the test rows in the same units, the pooled training rows (raw units)."""

    parties: tuple[PartyRows, ...]
    test: pandas.DataFrame
    training: TrainingRows


def divide(clean: CleanLoans, options: PrepOptions) -> Division:
    """Split, divide and over-sample in memory; refused where a party would lack a class or rows to interpolate."""
    for name, rows in class_counts(clean.frame[LABEL]).items():
        if not 0 < held_out_rows(rows, options.test_share) < rows:
            raise CannotDivide(
                f"Only {rows} {name} loans are left after cleaning, too few to hold out a share of {options.test_share:g} for "
                "testing and train on the rest."
            )
    training, held_out = split_train_test(
        clean.frame, label=LABEL, id=ID, test_share=options.test_share, seed=options.seed
    )
    parties = _DIVIDERS[options.split](training, clean.states, options)
    return Division(parties, _CONVERTERS[options.units](held_out.frame).reset_index(drop=True), training)


def _divide_rows(training: TrainingRows, states: pandas.Series, options: PrepOptions) -> tuple[PartyRows, ...]:
    skew = Skew(options.skew, options.concentration)
    try:
        parts = divide_horizontally(training, Shares(options.shares or ()), options.seed, skew, states)
    except CannotDivide as error:
        raise CannotDivide(f"{str(error).rstrip('.')}; the parties are {', '.join(options.parties)}.") from error
    check_classes(parts, options.parties, LABEL_VALUES)
    if options.over_sampling != "none":
        _check_neighbours(parts, options)
    return tuple(_over_sampled(part, party_id, options) for part, party_id in zip(parts, options.parties))


def _check_neighbours(parts: list[TrainingRows], options: PrepOptions) -> None:
    for part, party_id in zip(parts, options.parties):
        counts = class_counts(part.frame[LABEL])
        name, rows = min(counts.items(), key=lambda item: item[1])
        if rows <= options.neighbours:
            raise CannotDivide(
                f"neighbours is {options.neighbours}, but party {party_id} has {rows} {name} rows and needs at least "
                f"{options.neighbours + 1} to interpolate; give fewer neighbours, a larger share or over_sampling none."
            )


def _over_sampled(part: TrainingRows, party_id: str, options: PrepOptions) -> PartyRows:
    before = class_counts(part.frame[LABEL])
    if options.over_sampling == "none":
        frame, largest_influence = part.frame, 0
    else:
        method = OverSampling(options.over_sampling, options.neighbours)
        frame, largest_influence = over_sample(part, method, groups=GROUPS, seed=options.seed, tag=party_id)
    # Distances are standardised by the method itself, so it may work on raw values; clamping afterwards also holds for
    # what it made.
    frame = _CONVERTERS[options.units](frame).reset_index(drop=True)
    after = class_counts(frame[LABEL])
    return PartyRows(options.role(party_id), party_id, part, frame, before, after, largest_influence)


def _divide_columns(training: TrainingRows, states: pandas.Series, options: PrepOptions) -> tuple[PartyRows, ...]:
    check_classes([training], [options.parties[0]], LABEL_VALUES)
    frame = _CONVERTERS[options.units](training.frame).reset_index(drop=True)
    counts = class_counts(frame[LABEL])
    return tuple(
        PartyRows(options.role(party_id), party_id, training, frame[held], counts, counts, 0)
        for party_id, held in columns_of_parties(options).items()
    )


def columns_of_parties(options: PrepOptions) -> dict[str, list[str]]:
    """In a vertical split, the columns that each party holds of all rows: the id first, the guest's label last."""
    return {
        party_id: [ID, *party_features(columns), *([LABEL] if options.role(party_id) == GUEST else [])]
        for party_id, columns in zip(options.parties, options.columns or ())
    }


def class_counts(labels: pandas.Series) -> dict[str, int]:
    """Rows of each class by its name, classes that do not occur included."""
    counts = labels.value_counts()
    return {name: int(counts.get(number, 0)) for name, number in LABEL_VALUES.items()}


_CONVERTERS: dict[str, Callable[[pandas.DataFrame], pandas.DataFrame]] = {
    "raw": lambda frame: frame,
    "public": to_public_units,
}
_DIVIDERS = {"horizontal": _divide_rows, "vertical": _divide_columns}
