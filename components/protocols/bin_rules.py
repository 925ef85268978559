"""Rules by which columns are cut into bins: cut points, categories, a public range, or private quantiles. No FATE in here."""

from collections.abc import Mapping, Sequence
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

from ..common.preflight import Refusal

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
        return self.column.count

    def named(self, name: str) -> ColumnBins:
        return replace(self.column, name=name)

    def with_special(self, values: tuple[float, ...]) -> "PublicBins":
        """The same rule, with these special values unless it has some."""
        return self if self.column.special else PublicBins(replace(self.column, special=values))


@dataclass(frozen=True)
class QuantileBins:
    """``bins`` bins of nearly equally many records, cut at private quantiles within the public range, or at any magnitude."""

    ends: tuple[float, float] | None
    bins: int
    special: tuple[float, ...] = ()

    def points(self, name: str) -> Floats:
        return magnitude_points() if self.ends is None else grid_points(name, *self.ends)

    @property
    def quantiles(self) -> int:
        return self.bins - 1

    @property
    def most_bins(self) -> int:
        """An upper bound: equal quantiles are one cut point; special and missing values have bins."""
        return self.bins + len(self.special) + 1

    def with_special(self, values: tuple[float, ...]) -> "QuantileBins":
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
