"""What an operator says of an uploaded table, beside its caps: whom its ids name, and public facts of its columns."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .bins import check_range, special_values
from .validation import InvalidArgument, is_whole


@dataclass(frozen=True)
class TableFacts:
    """Public facts that hold for every job on the table; nothing is read off the records.

    Attributes:
        population: whom the ids name; equal ids of one population are one record. None where nobody said so.
        ranges: lowest and highest value that a column is expected to have; ``units`` of columns are for people.
        categories: texts of columns; a table as FATE has it holds their places in this order, from 0.
        special: codes of columns that are no measurements, such as -999 for 'no credit file'.
        missing: codes that stand for a missing value in any column.
        features: the names of all columns but the id and the label.
    """

    population: str | None = None
    units: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    special: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.population is not None:
            _text("population", self.population)
        for about, check in BY_COLUMN.items():
            value = getattr(self, about)
            if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
                raise InvalidArgument.of(about, value, "a mapping from names of columns")
            object.__setattr__(self, about, {name: check(name, each) for name, each in value.items()})
        for about in ("missing", "features"):
            object.__setattr__(self, about, _texts(about, getattr(self, about), least=0))
        both = sorted(set(self.special) & set(self.categories))
        if both:
            raise InvalidArgument.of(f"codes of {both[0]!r}", "both", "special or categories")

    def of_columns(self, names: Collection[str]) -> "TableFacts":
        """What is said of these columns, and of the whole table."""
        own: dict[str, Any] = {
            about: {name: each for name, each in getattr(self, about).items() if name in names} for about in BY_COLUMN
        }
        return replace(self, **own)

    def to_json(self) -> dict[str, Any]:
        """Builtins, without what nobody said."""
        return {name: value for name, value in asdict(self).items() if value}


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidArgument.of(name, value, "a text of one line that is not empty")
    return value


def _texts(name: str, value: object, least: int = 1) -> tuple[str, ...]:
    texts = value if isinstance(value, list | tuple) else (None,)
    if not all(isinstance(each, str) and each.strip() for each in texts) or not least <= len(texts) == len(set(texts)):
        raise InvalidArgument.of(name, value, "a list of different texts that are not empty")
    return tuple(map(str, texts))


def _range(name: str, ends: object) -> tuple[float, float]:
    first, last = ends if isinstance(ends, list | tuple) and len(ends) == 2 else (ends, None)
    low, high = check_range(name, first, last)
    # Whole numbers say that the column holds such ones.
    return (int(low), int(high)) if is_whole(first) and is_whole(last) else (low, high)


BY_COLUMN: dict[str, Callable[[str, Any], object]] = {
    "units": lambda name, unit: _text(f"unit of {name!r}", unit),
    "ranges": _range,
    "categories": lambda name, texts: _texts(f"categories of {name!r}", texts),
    "special": special_values,
}
