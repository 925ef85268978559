"""Parameters of dp_binning, and the rules by which columns are cut into bins. No FATE in here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fate_dp.privacy.bins import (
    MAX_BINS,
    ColumnBins,
    category_bins,
    check_range,
    cut_bins,
    equal_width_bins,
    special_values,
)
from fate_dp.privacy.mechanisms.quantiles import grid_points, magnitude_points
from fate_dp.privacy.noise.stream import Floats
from fate_dp.privacy.validation import whole

from ..common.federation import Document
from ..common.parameters import OneOf, label_source, parameter
from ..common.preflight import Refusal
from ..common.vocabulary import LABEL, NONE, RECORD, delta_parameter, he_parameter

LEVELS = (LABEL, RECORD, NONE)
"""What noise protects: the guest's labels from hosts, every party's records from everybody; or nothing, which needs labels
that are flips of label_flip, or public."""
NOISY = (LABEL, RECORD)
GAUSSIAN, LAPLACE = NOISES = ("gaussian", "laplace")
CUTS, CATEGORIES, RANGE, BINS, QUANTILES = "cuts", "categories", "range", "bins", "quantiles"
SPECIAL = "special"
PUBLIC_KINDS = ({CUTS}, {CATEGORIES}, {RANGE, BINS})
KINDS = (*PUBLIC_KINDS, {RANGE, QUANTILES}, {QUANTILES})
FORMS = (
    '{"cuts": [..]}, {"categories": [..]}, {"range": [low, high], "bins": k}%s, each with "special": [-999, ..] where such '
    "codes have bins of their own"
)
PUBLIC_FORMS, FORMS = FORMS % "", FORMS % ', {"quantiles": k}, with or without a range'


@dataclass(frozen=True)
class PublicBins:
    """Bins that are known before any value is looked at; ``column`` has the name of the parameter."""

    column: ColumnBins

    @property
    def most_bins(self) -> int:
        """How many bins the column has."""
        return self.column.count

    def named(self, name: str) -> ColumnBins:
        """The bins of the column ``name``."""
        return replace(self.column, name=name)

    def with_special(self, values: tuple[float, ...]) -> PublicBins:
        """The same rule, with these special values unless it has some."""
        return self if self.column.special else PublicBins(replace(self.column, special=values))


@dataclass(frozen=True)
class QuantileBins:
    """``bins`` bins of nearly equally many records, cut at private quantiles within the public range, or at any magnitude."""

    ends: tuple[float, float] | None
    bins: int
    special: tuple[float, ...] = ()

    def points(self, name: str) -> Floats:
        """Where the column ``name`` may be cut."""
        return magnitude_points() if self.ends is None else grid_points(name, *self.ends)

    @property
    def quantiles(self) -> int:
        """How many cut points are chosen."""
        return self.bins - 1

    @property
    def most_bins(self) -> int:
        """An upper bound: equal quantiles are one cut point; special and missing values have bins."""
        return self.bins + len(self.special) + 1

    def with_special(self, values: tuple[float, ...]) -> QuantileBins:
        """The same rule, with these special values unless it has some."""
        return self if self.special else replace(self, special=values)


Rule = PublicBins | QuantileBins


def rule(name: str, value: object, kinds: Sequence[set[str]] = KINDS, forms: str = FORMS) -> Rule:
    """How one column is cut; ``name`` is what sentences call it. Raises ValueError."""
    if not isinstance(value, Mapping) or set(value) - {SPECIAL} not in kinds:
        raise Refusal.of(f"rule of {name!r}", value, forms)
    found = _without_special(name, value)
    return found.with_special(special_values(name, value[SPECIAL])) if SPECIAL in value else found


def public_rule(name: str, value: object) -> PublicBins:
    """A rule that reads no record."""
    found = rule(name, value, PUBLIC_KINDS, PUBLIC_FORMS)
    assert isinstance(found, PublicBins), "Only these kinds are public."
    return found


def _without_special(name: str, value: Mapping) -> Rule:
    if CUTS in value:
        return PublicBins(cut_bins(name, value[CUTS]))
    if CATEGORIES in value:
        return PublicBins(category_bins(name, value[CATEGORIES]))
    quantiles = value.get(QUANTILES)
    if quantiles is not None:
        quantiles = whole(f"quantiles of {name!r}", quantiles, 2, MAX_BINS - 1)
        if RANGE not in value:
            return QuantileBins(None, quantiles)
    ends = value[RANGE]
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        raise Refusal.of(f"range of {name!r}", ends, "two finite numbers, the smaller one first")
    low, high = check_range(name, *ends)
    if quantiles is None:
        return PublicBins(equal_width_bins(name, low, high, value[BINS]))
    return QuantileBins((low, high), quantiles)


def columns(value: object) -> dict[str, Rule]:
    """A rule for each column by its name; names that a party's table does not have are those of other parties."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise Refusal.of("columns", value, f"a mapping of names of columns to rules such as {FORMS}")
    return {name: rule(name, each) for name, each in value.items()}


def other_columns(value: object) -> Rule:
    """The rule of every column that ``columns`` does not name."""
    return rule("other_columns", value)


@dataclass(frozen=True)
class Settings:
    """How columns are cut, and what noise protects in the counts by bin."""

    columns: dict[str, Rule] | None = parameter(
        "bins of columns by name: cuts, categories, or a public range with bins (equally wide) or quantiles (private), perhaps "
        "with special codes; None means other_columns for all",
        None,
        check=columns,
    )
    other_columns: Rule | None = parameter(
        "bins of all columns that columns does not name; None means that it names all of them",
        None,
        check=other_columns,
    )
    privacy: str = parameter(
        "what noise on the counts protects: label, record, or none, where labels are flips of label_flip or public",
        NONE,
        check=OneOf(LEVELS),
    )
    epsilon: float | None = parameter(
        "privacy loss of one record of a party in nats, replace-one, for its part of all counts; None means no noise",
        None,
        above=0,
    )
    delta: float = delta_parameter("the noise on the counts, with noise gaussian; with laplace it is 0")
    noise: str = parameter(
        "law of this party's noise on the counts: gaussian, or laplace for delta 0, which is less for few columns",
        GAUSSIAN,
        check=OneOf(NOISES),
    )
    woe: bool = parameter(
        "whether WOE and IV are computed; false counts nothing: no sums of labels are exchanged, nothing but quantiles is "
        "charged, and privacy and epsilon are left out",
        True,
    )
    bins_epsilon: float | None = parameter(
        "privacy loss of one record in nats, replace-one, for all quantiles of a party; None means no quantiles",
        None,
        above=0,
    )
    smoothing: float = parameter("records that WOE and IV add to each bin, split as the whole column", 1.0, above=0)
    label_source: str | None = parameter(
        "namespace/name/column of the guest's labels: with privacy label what they are charged to, with none labels that are "
        "declared public, and None means then that the ledger is searched",
        None,
        check=label_source,
    )
    he_param: Document = he_parameter()

    def __post_init__(self) -> None:
        """Raise ValueError unless what protects has an epsilon, and nothing else has one."""
        if not self.woe and (self.privacy != NONE or self.epsilon is not None):
            given = f"privacy is {self.privacy}" if self.privacy != NONE else f"epsilon is {self.epsilon!r}"
            raise Refusal(f"woe is false, which counts nothing that could be protected, but {given}; leave it out.")
        if (self.privacy in NOISY) != (self.epsilon is not None):
            wanted = "a finite number above 0" if self.privacy in NOISY else "left out"
            raise Refusal.of("epsilon", self.epsilon, f"{wanted} with privacy {self.privacy}")
        rules = [*(self.columns or {}).values(), self.other_columns]
        if self.bins_epsilon is None and any(isinstance(each, QuantileBins) for each in rules):
            raise Refusal.of("bins_epsilon", None, "a finite number above 0 with quantiles, which cost it")

    @property
    def released_delta(self) -> float:
        """Delta of the noise: none with the law of Laplace."""
        return 0.0 if self.noise == LAPLACE else self.delta

    def rules_of(self, names: Iterable[str]) -> dict[str, Rule]:
        """The rule of each column of a party's table; raises KeyError, with its name, for one without."""
        rules = {name: (self.columns or {}).get(name, self.other_columns) for name in names}
        for name, found in rules.items():
            if found is None:
                raise KeyError(name)
        return {name: found for name, found in rules.items() if found is not None}
