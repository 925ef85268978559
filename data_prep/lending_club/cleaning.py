"""From the raw loan file to the study's table: 37 features and the outcome, with a record of every step.

The steps are the source's, and two more: columns that are missing too often, hold a single value, are not known when
the application is decided (the source lacks this) or are not among the study's 18 are dropped; then the loans that
still miss one of the 18; then those that are neither Fully Paid nor Charged Off; then repetitions of a loan (the source
lacks this, too); and what stays is encoded.
"""
from __future__ import annotations

import os
from dataclasses import dataclass

from fate_dp.data_prep.progress import silent

from .column_rules import CleaningRules, ColumnCounts, check_study_columns, dropped_columns
from .columns import FEATURES, STUDY_COLUMNS
from .kept_loans import KeptLoans
from .raw_file import RawFile
from .text_columns import as_text


@dataclass(frozen=True)
class Step:
    """How many rows and columns are left after a step."""

    name: str
    rows: int
    columns: int
    note: str = ""


@dataclass(frozen=True)
class CleanLoans:
    """The cleaned loans and how they came about."""

    frame: object
    """pandas DataFrame: id (text, distinct), the 37 features (float64) and loan_status (int8, 1 is Fully Paid)."""
    states: object
    """pandas Series of the loans' addr_state, '' where the file has none; it is no feature."""
    steps: tuple[Step, ...]
    missing: dict[str, float]
    """The share of the raw file's loans in which each of its columns is missing."""
    dropped_columns: dict[str, str]
    """Every column that was dropped, and the reason."""
    notices: tuple[str, ...]
    sha256: str
    """Of the raw file as it lies on the disk."""
    source: str
    """The raw file's name."""


def clean(path: str | os.PathLike, rules: CleaningRules = CleaningRules(), progress=silent) -> CleanLoans:
    """Read the raw file at `path` once and clean it.

    `progress(text, share)` is told the share of the file that is read. Raises NotLendingClub, with one sentence, if the
    file is not Lending Club's, is damaged, holds a value that is not allowed in a loan that stays, misses a column of
    the study too often, or has no loan of one of the two outcomes.
    """
    raw = RawFile(path)
    counts, kept = ColumnCounts(raw.header.named), KeptLoans(raw.path)
    for records in raw.read():
        progress("reading the raw file", raw.share_read)
        records = as_text(raw.path, records)
        counts.add(records.columns)
        kept.add(records)
    check_study_columns(path, counts, rules)
    kept.check_outcomes()
    dropped = dropped_columns(counts, rules)
    frame, states, id_notice = kept.table()
    return CleanLoans(
        frame=frame,
        states=states,
        steps=steps_of(raw, kept, dropped, len(frame)),
        missing=counts.shares(),
        dropped_columns=dropped,
        notices=notices_of(raw, counts, kept, id_notice),
        sha256=raw.sha256,
        source=raw.path.name,
    )


def steps_of(raw: RawFile, kept: KeptLoans, dropped: dict[str, str], encoded: int) -> tuple[Step, ...]:
    """Every step that changed something, with what was left after it."""
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


def notices_of(raw: RawFile, counts: ColumnCounts, kept: KeptLoans, id_notice: str | None) -> tuple[str, ...]:
    """What is unusual about the file and harmless."""
    about_ids = () if id_notice is None else (id_notice,)
    return (*raw.header.notices(), *single_value_notices(counts), *kept.status_notices(), *about_ids)


def single_value_notices(counts: ColumnCounts) -> tuple[str, ...]:
    """A sentence for each column of the study that tells the loans not apart."""
    return tuple(
        f"The column {name} has the same value in every loan; it is kept, since the features are fixed."
        for name in STUDY_COLUMNS if name in counts.single_valued
    )
