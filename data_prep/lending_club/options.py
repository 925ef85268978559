"""The settings of a preparation: everything besides the raw file that decides what is written."""

from collections.abc import Sequence
from dataclasses import dataclass

from fate_dp.privacy.validation import PARTY_ID, InvalidArgument, one_of, positive, strictly_within, whole, within

from ..division import Shares
from ..over_sampling import METHODS
from .columns import CATEGORIES, LABEL, STUDY_COLUMNS

GUEST, HOST = "guest", "host"
SPLITS = ("horizontal", "vertical")
OVER_SAMPLINGS = (*METHODS, "none")
SKEWS = ("none", "label", "state")
UNITS = ("raw", "public")
HORIZONTAL_PARTIES, VERTICAL_PARTIES = ("9999", "10000", "9998"), ("9999", "10000")
HORIZONTAL_SHARES = (25.0, 25.0, 50.0)
DIVIDED_COLUMNS = tuple(column for column in STUDY_COLUMNS if column != LABEL)
# The lender knows the application and the terms that it offers; a credit bureau knows the rest.
CREDIT_FILE = ("dti", "delinq_2yrs", "inq_last_6mths", "open_acc", "pub_rec", "revol_bal", "revol_util", "total_acc")
APPLICATION = tuple(column for column in DIVIDED_COLUMNS if column not in CREDIT_FILE)


@dataclass(frozen=True)
class PrepOptions:
    """What is done to the cleaned loans; the same settings and the same file give the same bytes.

    The fields are the flags of ``fate-dp prep lending-club``, whose help says what they mean. ``parties``, ``shares``,
    ``columns`` and ``over_sampling`` may be left at None and then hold what the split implies; a vertical split has no
    shares, since all parties hold the same rows. Every step draws from a stream of its own, derived from ``seed``.
    """

    seed: int = 2024
    test_share: float = 0.3
    parties: tuple[str, ...] = None  # type: ignore[assignment]  # settled below
    shares: tuple[float, ...] | None = None
    skew: str = "none"
    concentration: float = 1.0
    over_sampling: str = None  # type: ignore[assignment]  # settled below
    neighbours: int = 5
    most_missing: float = 1 / 3
    units: str = "raw"
    split: str = "horizontal"
    columns: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        vertical = self.split == "vertical"
        if self.over_sampling is None:
            self._settle("over_sampling", "none" if vertical else "smotenc")
        choices = {"split": SPLITS, "over_sampling": OVER_SAMPLINGS, "skew": SKEWS, "units": UNITS}
        for name, listed in choices.items():
            one_of(name, getattr(self, name), listed)
        # 25 and 25.0, or numpy's and Python's numbers, are the same setting and must give the same manifest.
        for name, least in (("seed", 0), ("neighbours", 1)):
            self._settle(name, whole(name, getattr(self, name), least, allowed=f"a whole number, at least {least}"))
        allowed = "a number between 0 and 1, both excluded"
        self._settle("test_share", strictly_within("test_share", self.test_share, 0, 1, allowed))
        self._settle("most_missing", within("most_missing", self.most_missing, 0, 1))
        self._settle("concentration", positive("concentration", self.concentration, "a positive number"))
        parties = self.parties or (VERTICAL_PARTIES if vertical else HORIZONTAL_PARTIES)
        self._settle("parties", _checked_parties(parties))
        (self._check_vertical if vertical else self._check_horizontal)()

    def _settle(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_horizontal(self) -> None:
        if self.columns is not None:
            raise InvalidArgument.of("columns", self.columns, "left out, since they belong to the split vertical")
        count = len(self.parties)
        even = HORIZONTAL_SHARES if count == len(HORIZONTAL_SHARES) else (1 / count,) * count
        shares = even if self.shares is None else tuple(self.shares)
        if len(shares) != count:
            raise InvalidArgument.of("shares", shares, f"one number for each of the {count} parties")
        self._settle("shares", tuple(map(float, Shares(shares).values)))

    def _check_vertical(self) -> None:
        everywhere = "for the split vertical, where every party holds all rows"
        counterpart = "none for the split vertical, where a synthetic row of one party has no counterpart at the others"
        if self.shares is not None:
            raise InvalidArgument.of("shares", self.shares, f"left out {everywhere}")
        if self.skew != "none":
            raise InvalidArgument.of("skew", self.skew, f"none {everywhere}")
        if self.over_sampling != "none":
            raise InvalidArgument.of("over_sampling", self.over_sampling, counterpart)
        default = (APPLICATION, CREDIT_FILE) if len(self.parties) == len(VERTICAL_PARTIES) else ()
        columns = default if self.columns is None else self.columns
        self._settle("columns", _checked_columns(columns, len(self.parties)))

    def role(self, party_id: str) -> str:
        return GUEST if party_id == self.parties[0] else HOST


def _checked_parties(parties: Sequence[str]) -> tuple[str, ...]:
    if isinstance(parties, str) or len(parties) < 2:
        raise InvalidArgument.of("parties", parties, "at least two party ids")
    for party in parties:
        if not isinstance(party, str) or not PARTY_ID.fullmatch(party):
            raise InvalidArgument.of("a party id", party, "a text of 1 to 64 letters, digits and underscores")
    if len(set(parties)) < len(parties):
        raise InvalidArgument.of("parties", tuple(parties), "ids that differ from each other")
    return tuple(parties)


def _checked_columns(columns: Sequence[Sequence[str]], count: int) -> tuple[tuple[str, ...], ...]:
    lists = tuple(tuple(held) for held in columns)
    if len(lists) != count or not all(lists):
        raise InvalidArgument.of("columns", lists, f"one list of columns for each of the {count} parties")
    listed = [column for held in lists for column in held]
    for column in listed:
        if column not in DIVIDED_COLUMNS:
            raise InvalidArgument.of("a column of a party", column, f"one of {', '.join(DIVIDED_COLUMNS)}")
    repeated = [column for column in listed if listed.count(column) > 1]
    if repeated:
        raise InvalidArgument.of("columns", repeated, "at one party each")
    absent = [column for column in DIVIDED_COLUMNS if column not in listed]
    if absent:
        raise InvalidArgument.of("columns", lists, "complete", f"Give a party {', '.join(absent)}.")
    return lists


def party_features(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The feature names of study columns, in the study's order: a category stands for its one-hot columns."""
    ordered = (column for column in DIVIDED_COLUMNS if column in columns)
    numbers = tuple(column for column in ordered if column not in CATEGORIES)
    one_hot = (f"{name}_{value}" for name, values in CATEGORIES.items() if name in columns for value in values)
    return numbers + tuple(one_hot)
