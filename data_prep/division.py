"""Divide training rows between parties: by rows with shares, evenly mixed or skewed, or by columns."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas

from fate_dp.privacy.number_kinds import is_finite

from .seeds import generator
from .shares import Shares
from .splitting import NotFromSplit, TrainingRows, rows_by_value

NONE, BY_LABEL = "none", "label"
# From here on proportions are the shares to the last digit, and a little further their parameters overflow.
LARGEST_CONCENTRATION = 1e300


class BadDivision(ValueError):
    """A division that cannot be made, or that leaves a party without what it needs."""


@dataclass(frozen=True)
class Skew:
    """What differs between parties: nothing ("none"), the classes ("label"), or a named grouping such as "state".

    Under skew the rows of each label value or group fall to the parties by proportions from a Dirichlet distribution
    with parameters concentration * parties * shares: their expectations are the shares, and the smaller the
    concentration the further they lie from them. At concentration 1 and even shares all proportions are equally likely.
    """

    kind: str = NONE
    concentration: float = 1.0

    def __post_init__(self):
        if not isinstance(self.kind, str) or not self.kind:
            raise BadDivision(f"skew is {self.kind!r}; it must be none, label or the name of a grouping.")
        if not is_finite(self.concentration) or not self.concentration > 0:
            raise BadDivision(f"concentration is {self.concentration!r}; it must be a number greater than 0.")

    @classmethod
    def none(cls) -> Skew:
        """Every party gets a random sample of all rows."""
        return cls()

    def __str__(self) -> str:
        return "no skew" if self.kind == NONE else f"skew by {self.kind}, concentration {self.concentration:g}"


def divide_horizontally(
    training: TrainingRows, shares: Shares, seed: int, skew: Skew = Skew.none(), groups: pandas.Series | None = None
) -> list[TrainingRows]:
    """Give every row to exactly one party; each part keeps the order of the rows.

    Without skew the parts are random samples, sizes less than one row off the shares, classes not forced. With skew the
    shares are the expected sizes. `groups` holds each row's group under the index of `training.frame` (more rows may be
    there); it is used only where `skew` names a grouping. The order of the rows has no say. Raises BadDivision for an
    empty party or groups that are absent.
    """
    if type(training) is not TrainingRows:
        raise NotFromSplit(f"only TrainingRows from split_train_test are divided, not {type(training).__name__}.")
    parts = [[] for _ in shares.values]
    for value, rows in rows_by_value(_group_of_each(training, skew, groups), training.frame[training.id]).items():
        draw = generator(seed, "division", skew.kind, value)
        ends = np.cumsum(_sizes(len(rows), shares, skew, draw))
        for part, chosen in zip(parts, np.split(draw.permutation(rows), ends[:-1])):
            part.append(chosen)
    divided = [training.take(np.sort(np.concatenate(part))) for part in parts]
    for number, part in enumerate(divided, start=1):
        if not len(part):
            raise BadDivision(
                f"party {number} of {len(divided)} gets none of the {len(training)} rows (shares {shares}, {skew})."
            )
    return divided


def _group_of_each(training: TrainingRows, skew: Skew, groups: pandas.Series | None) -> pandas.Series:
    frame = training.frame
    if skew.kind == NONE:
        return pandas.Series("", index=frame.index)
    if skew.kind == BY_LABEL:
        return frame[training.label]
    if groups is None:
        raise BadDivision(f"a skew by {skew.kind} needs the {skew.kind} of every row, and none was given.")
    absent = ~frame.index.isin(groups.index)
    if absent.any():
        raise BadDivision(f"{int(absent.sum())} rows have no {skew.kind}; a skew by {skew.kind} needs it for all rows.")
    return groups.loc[frame.index]


def _sizes(rows: int, shares: Shares, skew: Skew, draw: np.random.Generator) -> np.ndarray:
    if skew.kind == NONE:
        return shares.sizes(rows)
    fractions = shares.fractions
    # Independent draws per row, not rounded proportions: rounding would give every small group to the largest party.
    concentration = min(skew.concentration, LARGEST_CONCENTRATION)
    return draw.multinomial(rows, draw.dirichlet(concentration * len(fractions) * fractions))


def check_classes(parties: Sequence[TrainingRows], names: Sequence[str], class_names: Mapping) -> None:
    """Refuse a party without a row of one of the classes; `class_names` maps each label value to its name."""
    for party, name in zip(parties, names):
        present = set(party.frame[party.label].unique().tolist())
        for value, class_name in class_names.items():
            if value not in present:
                raise BadDivision(f"party {name} has no {class_name} rows.")


def divide_vertically(
    frame: pandas.DataFrame, columns_per_party: Sequence[Sequence[str]], *, label: str, id: str
) -> list[pandas.DataFrame]:
    """Each party's columns of all rows, the id first; the first party has the label as its last column.

    `columns_per_party` names features, none of them twice; features that nobody gets are left out. Raises BadDivision.
    """
    if not columns_per_party:
        raise BadDivision("no party gets any columns.")
    seen = {id, label}
    for number, columns in enumerate(columns_per_party, start=1):
        if not columns:
            raise BadDivision(f"party {number} of {len(columns_per_party)} gets no columns.")
        for column in columns:
            if column not in frame.columns:
                raise BadDivision(f"party {number} is to get column {column!r}, which the table does not have.")
            if column in seen:
                raise BadDivision(f"column {column!r} is the id, the label or already given; each goes to one party.")
            seen.add(column)
    guest, *hosts = columns_per_party
    return [frame[[id, *guest, label]], *(frame[[id, *columns]] for columns in hosts)]
