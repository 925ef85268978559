"""The settings of a preparation: everything besides the raw file that decides what is written."""
from __future__ import annotations

import re
from dataclasses import dataclass

from fate_dp.data_prep.shares import Shares
from fate_dp.data_prep.smote_methods import METHODS
from fate_dp.privacy.number_kinds import is_finite, is_whole

from .columns import CATEGORIES, LABEL, STUDY_COLUMNS

GUEST, HOST = "guest", "host"
SPLITS = ("horizontal", "vertical")
OVER_SAMPLINGS = (*METHODS, "none")
SKEWS = ("none", "label", "state")
UNITS = ("raw", "public")
HORIZONTAL_PARTIES, VERTICAL_PARTIES = ("9999", "10000", "9998"), ("9999", "10000")
HORIZONTAL_SHARES = (25.0, 25.0, 50.0)
PARTY_ID = re.compile(r"[0-9A-Za-z_]{1,64}")
DIVIDED_COLUMNS = tuple(column for column in STUDY_COLUMNS if column != LABEL)
# The lender knows the application and the terms that it offers; a credit bureau knows the rest.
CREDIT_FILE = (
    "dti", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec", "revol_bal", "revol_util", "total_acc",
)  # fmt: skip
APPLICATION = tuple(column for column in DIVIDED_COLUMNS if column not in CREDIT_FILE)


class InvalidPrepOption(ValueError):
    """A setting that cannot be carried out: one sentence naming it, its value and what is allowed."""

    def __init__(self, name: str, value, allowed: str):
        super().__init__(f"{name} is {value!r} but must be {allowed}.")


@dataclass(frozen=True)
class PrepOptions:
    """What is done to the cleaned loans; the same settings and the same file give the same bytes.

    ``parties``, ``shares``, ``columns`` and ``over_sampling`` may be left at None and then hold what the split implies.

    :param seed: non-negative; every step draws from a stream of its own, derived from it.
    :param test_share: part of the rows held out for testing, strictly between 0 and 1.
    :param parties: ids, the guest first, the rest are hosts; 9999, 10000 and 9998, without 9998 if vertical.
    :param shares: of the training rows, one per party: positive fractions that add to 1 or percentages that add to 100;
        25, 25 and 50 for three parties, else even. None for a vertical split, where all hold the same rows.
    :param skew: what the parties' rows differ in, drawn from a Dirichlet distribution: none, label or state.
    :param concentration: of that distribution, positive; small is very skewed.
    :param over_sampling: smotenc, smotenc_parents, smote (treats one-hot columns as numbers, as the source did) or
        none; smotenc unless given, but none if vertical.
    :param neighbours: k of SMOTE, at least 1.
    :param most_missing: a raw column that lacks more than this share of its values is dropped, 0 to 1.
    :param units: raw, or public: clamped to public limits, centred and scaled by public constants.
    :param split: horizontal (by rows) or vertical (by columns).
    :param columns: study columns of each party in a vertical split; the application and its terms at the guest, the
        credit file at the host.
    """

    seed: int = 2024
    test_share: float = 0.3
    parties: tuple[str, ...] | None = None
    shares: tuple[float, ...] | None = None
    skew: str = "none"
    concentration: float = 1.0
    over_sampling: str | None = None
    neighbours: int = 5
    most_missing: float = 1 / 3
    units: str = "raw"
    split: str = "horizontal"
    columns: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self):
        if self.over_sampling is None:
            _settle(self, "over_sampling", "none" if self.split == "vertical" else "smotenc")
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        _check_whole("seed", self.seed, 0)
        _check_whole("neighbours", self.neighbours, 1)
        _check("test_share", self.test_share, "a number between 0 and 1, both excluded", lambda value: 0 < value < 1)
        _check("most_missing", self.most_missing, "a number from 0 to 1", lambda value: 0 <= value <= 1)
        _check("concentration", self.concentration, "a positive number", lambda value: value > 0)
        # 25 and 25.0, or numpy's and Python's numbers, are the same setting and must give the same manifest.
        for name, kind in _KINDS.items():
            _settle(self, name, kind(getattr(self, name)))
        _SPLIT_CHECKS[self.split](self)

    def role(self, party_id: str) -> str:
        """guest for the first party, host for the rest."""
        return GUEST if party_id == self.parties[0] else HOST


def _check_horizontal(options: PrepOptions) -> None:
    _settle(options, "parties", _checked_parties(options.parties or HORIZONTAL_PARTIES))
    if options.columns is not None:
        raise InvalidPrepOption("columns", options.columns, "left out: they belong to the split vertical")
    count = len(options.parties)
    even = HORIZONTAL_SHARES if count == len(HORIZONTAL_SHARES) else (1 / count,) * count
    _settle(options, "shares", _checked_shares(even if options.shares is None else options.shares, count))


def _check_vertical(options: PrepOptions) -> None:
    _settle(options, "parties", _checked_parties(options.parties or VERTICAL_PARTIES))
    if options.shares is not None:
        raise InvalidPrepOption(
            "shares", options.shares, "left out for the split vertical, where every party holds all rows"
        )
    if options.skew != "none":
        raise InvalidPrepOption("skew", options.skew, "none for the split vertical, where every party holds all rows")
    if options.over_sampling != "none":
        raise InvalidPrepOption(
            "over_sampling", options.over_sampling,
            "none for the split vertical: a synthetic row of one party has no counterpart at the others",
        )  # fmt: skip
    default = (APPLICATION, CREDIT_FILE) if len(options.parties) == len(VERTICAL_PARTIES) else ()
    columns = default if options.columns is None else options.columns
    _settle(options, "columns", _checked_columns(columns, len(options.parties)))


def _checked_parties(parties) -> tuple[str, ...]:
    if isinstance(parties, str) or len(parties) < 2:
        raise InvalidPrepOption("parties", parties, "at least two party ids")
    for party in parties:
        if not isinstance(party, str) or not PARTY_ID.fullmatch(party):
            raise InvalidPrepOption("a party id", party, "a text of 1 to 64 letters, digits and underscores")
    if len(set(parties)) < len(parties):
        raise InvalidPrepOption("parties", tuple(parties), "ids that differ from each other")
    return tuple(parties)


def _checked_shares(shares, count: int) -> tuple[float, ...]:
    shares = tuple(shares)
    if len(shares) != count:
        raise InvalidPrepOption("shares", shares, f"one number for each of the {count} parties")
    return tuple(map(float, Shares(shares).values))


def _checked_columns(columns, count: int) -> tuple[tuple[str, ...], ...]:
    columns = tuple(tuple(held) for held in columns)
    if len(columns) != count or not all(columns):
        raise InvalidPrepOption("columns", columns, f"one list of columns for each of the {count} parties")
    listed = [column for held in columns for column in held]
    for column in listed:
        if column not in DIVIDED_COLUMNS:
            raise InvalidPrepOption("a column of a party", column, f"one of {', '.join(DIVIDED_COLUMNS)}")
    repeated = [column for column in listed if listed.count(column) > 1]
    if repeated:
        raise InvalidPrepOption("columns", repeated[0], "at one party only, and it is listed more than once")
    absent = [column for column in DIVIDED_COLUMNS if column not in listed]
    if absent:
        raise InvalidPrepOption("columns", columns, f"complete, and no party has {', '.join(absent)}")
    return columns


def party_features(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The feature names of study columns, in the study's order: a category stands for its one-hot columns."""
    ordered = (column for column in DIVIDED_COLUMNS if column in columns)
    numbers = tuple(column for column in ordered if column not in CATEGORIES)
    one_hot = (f"{name}_{value}" for name, values in CATEGORIES.items() if name in columns for value in values)
    return numbers + tuple(one_hot)


def _settle(options: PrepOptions, name: str, value) -> None:
    object.__setattr__(options, name, value)


def _check_choice(name: str, value, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidPrepOption(name, value, f"one of {', '.join(choices)}")


def _check_whole(name: str, value, least: int) -> None:
    if not is_whole(value) or value < least:
        raise InvalidPrepOption(name, value, f"a whole number, at least {least}")


def _check(name: str, value, allowed: str, holds) -> None:
    if not is_finite(value) or not holds(value):
        raise InvalidPrepOption(name, value, allowed)


_CHOICES = {"split": SPLITS, "over_sampling": OVER_SAMPLINGS, "skew": SKEWS, "units": UNITS}
_KINDS = {"seed": int, "neighbours": int, "test_share": float, "most_missing": float, "concentration": float}
_SPLIT_CHECKS = {"horizontal": _check_horizontal, "vertical": _check_vertical}
