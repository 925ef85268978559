"""Rows between training and test, and between parties, with an independent random stream for each step."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import NoReturn, TypeVar

import numpy as np
import pandas

from fate_dp.privacy.validation import InvalidArgument, positive, refusal, strictly_within, whole


def seed_sequence(seed: int, *step: object) -> np.random.SeedSequence:
    """The entropy of the step that `step` names; the same arguments give the same stream, so that an option of one step
    leaves the draws of all others. Whoever knows the seed can repeat every draw: no noise for privacy comes from
    here."""
    digest = hashlib.sha256(json.dumps([str(part) for part in step]).encode()).digest()
    return np.random.SeedSequence([whole("seed", seed, 0), *np.frombuffer(digest, dtype="<u4").tolist()])


def generator(seed: int, *step: object) -> np.random.Generator:
    """A fresh generator at the start of the step's stream."""
    return np.random.default_rng(seed_sequence(seed, *step))


class CannotDivide(ValueError):
    """Rows or columns cannot be dealt to the parties as asked; the message is one sentence."""


# What the sums of decimal fractions such as 0.1 + 0.2 + 0.7 and 33.3 + 33.3 + 33.4 may be off by.
TOLERANCES = {1: 1e-9, 100: 1e-7}


@dataclass(frozen=True)
class Shares:
    """One share per party, each greater than 0; fractions add to 1 within 1e-9, percentages to 100 within 1e-7."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if not self.values:
            raise CannotDivide(refusal("shares", (), "one for each party"))
        for value in self.values:
            positive("a share", value, error=CannotDivide)
        self._whole()

    @classmethod
    def parse(cls, text: str) -> "Shares":
        """Shares from a text such as `25,25,50`."""
        try:
            return cls(tuple(float(part) for part in text.split(",")))
        except CannotDivide:
            raise
        except ValueError:
            allowed = "numbers with commas between, such as 25,25,50"
            raise CannotDivide(refusal("shares", text, allowed)) from None

    @property
    def fractions(self) -> np.ndarray:
        """The shares as fractions of 1, shape (parties,)."""
        return np.array(self.values, dtype=float) / self._whole()

    def sizes(self, rows: int) -> np.ndarray:
        """Whole rows per party, shape (parties,), that add to `rows`, each less than one row off its share; the largest
        remainders are rounded up, the earlier party first."""
        exact = self.fractions * rows
        sizes = np.floor(exact).astype(int)
        order = np.argsort(sizes - exact, kind="stable")
        sizes[order[: rows - sizes.sum()]] += 1
        return sizes

    def _whole(self) -> int:
        total = math.fsum(self.values)
        for total_of_all, tolerance in TOLERANCES.items():
            if abs(total - total_of_all) <= tolerance:
                return total_of_all
        raise CannotDivide(f"sum of shares must be 1 or 100, got {total:.10g} from {self}.")

    def __str__(self) -> str:
        return "/".join(f"{value:.10g}" for value in self.values)


# Over-sampling, dividing and whatever else learns from rows takes `TrainingRows`, and `split_train_test` alone makes
# them. SMOTE before the split, which lets a model train on mixtures of its own test rows, cannot be written down.

# Whoever holds this object may build rows of a side; it stays in this file.
_PERMIT = object()
Side = TypeVar("Side", bound="_SplitRows")


@dataclass(frozen=True, eq=False)
class _SplitRows:
    """Rows of one side of a split: `frame` has the columns `id` and `label` and the features, one row per record."""

    frame: pandas.DataFrame
    label: str
    id: str
    permit: InitVar[object] = None

    def __post_init__(self, permit: object) -> None:
        if permit is not _PERMIT:
            raise TypeError(
                f"{type(self).__name__} come from split_train_test only, so that no row is on both sides of a split."
            )

    def take(self: Side, row_numbers: np.ndarray) -> Side:
        """The same side's rows at the positions `row_numbers`, in that order."""
        return type(self)(self.frame.iloc[row_numbers], self.label, self.id, _PERMIT)

    def __len__(self) -> int:
        return len(self.frame)

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be pickled or copied; keep `frame` and split it again.")


class TrainingRows(_SplitRows):
    """Rows that a model may learn from."""


class HeldOutRows(_SplitRows):
    """Rows that a model is judged on; no function here over-samples or divides them."""


def split_train_test(
    frame: pandas.DataFrame, *, label: str, id: str, test_share: float, seed: int
) -> tuple[TrainingRows, HeldOutRows]:
    """Hold a share of each class out, to the nearest row (a half upwards).

    Which records are held out depends on the ids, the labels, `test_share` and `seed`, not on the order of the rows;
    both sides keep the order and the index of `frame`. InvalidArgument for missing or repeated ids or index values,
    missing labels, or a class that would be absent from one side.
    """
    check_table(frame, label, id)
    strictly_within("test_share", test_share, 0, 1, "a number between 0 and 1, both excluded")
    held_out = np.zeros(len(frame), dtype=bool)
    for value, rows in rows_by_value(frame[label], frame[id]).items():
        count = held_out_rows(len(rows), test_share)
        if not 0 < count < len(rows):
            raise InvalidArgument(
                f"label {value} has {len(rows)} rows, too few for both sides of a split with test_share {test_share:g}."
            )
        held_out[generator(seed, "split", value).permutation(rows)[:count]] = True
    return (TrainingRows(frame[~held_out], label, id, _PERMIT), HeldOutRows(frame[held_out], label, id, _PERMIT))


def held_out_rows(rows: int, test_share: float) -> int:
    """How many of a class's rows are held out: the nearest whole number, a half upwards."""
    return int(np.floor(test_share * rows + 0.5))


def rows_by_value(values: pandas.Series, ids: pandas.Series) -> dict[str, np.ndarray]:
    """For each value as text, in the order of the texts, the positions of its rows, in the order of their ids."""
    texts, codes = np.unique(values.astype(str).to_numpy(dtype=str), return_inverse=True)
    by_id = np.argsort(ids.astype(str).to_numpy(dtype=str), kind="stable")
    in_groups = by_id[np.argsort(codes[by_id], kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=len(texts)))
    return dict(zip(texts.tolist(), np.split(in_groups, ends[:-1])))


def check_table(frame: pandas.DataFrame, label: str, id: str) -> None:
    """One row or more, each with an id of its own and a label."""
    if frame.empty:
        raise InvalidArgument("the table has no rows.")
    for column in (id, label):
        if column not in frame.columns:
            raise InvalidArgument(f"the table has no column {column!r}.")
        if frame[column].isna().any():
            raise InvalidArgument(f"{int(frame[column].isna().sum())} rows have no {column}. Every row needs one.")
    repeated = frame[id].astype(str).duplicated()
    if repeated.any():
        raise InvalidArgument(
            f"id {frame[id][repeated.to_numpy()].iloc[0]} occurs more than once. Keep one row for each id."
        )
    if not frame.index.is_unique:
        raise InvalidArgument("the table's index repeats a value; reset it first.")


# From here on proportions are the shares to the last digit, and a little further their parameters overflow.
MAX_CONCENTRATION = 1e300


@dataclass(frozen=True)
class Skew:
    """What differs between parties: nothing ("none"), the classes ("label"), or a named grouping such as "state".

    Under skew the rows of each label value or group fall to the parties by proportions from a Dirichlet distribution
    with parameters concentration * parties * shares: their expectations are the shares, and the smaller the
    concentration the further they lie from them. At concentration 1 and even shares all proportions are equally likely.
    """

    kind: str = "none"
    concentration: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not self.kind:
            raise CannotDivide(refusal("skew", self.kind, "none, label or the name of a grouping"))
        positive("concentration", self.concentration, error=CannotDivide)

    def __str__(self) -> str:
        return "no skew" if self.kind == "none" else f"skew by {self.kind}, concentration {self.concentration:g}"


def divide_horizontally(
    training: TrainingRows, shares: Shares, seed: int, skew: Skew = Skew(), groups: pandas.Series | None = None
) -> list[TrainingRows]:
    """Give every row to exactly one party; each part keeps the order of the rows, which has no say.

    Without skew the parts are random samples, sizes less than one row off the shares, classes not forced. With skew the
    shares are the expected sizes; one that names a grouping needs `groups`, each row's group under the index of
    `training.frame`. CannotDivide where a party would be empty, or groups are absent.
    """
    if type(training) is not TrainingRows:
        raise TypeError(f"only TrainingRows from split_train_test are divided, not {type(training).__name__}.")
    parts: list[list[np.ndarray]] = [[] for _ in shares.values]
    for value, rows in rows_by_value(_group_of_each(training, skew, groups), training.frame[training.id]).items():
        draw = generator(seed, "division", skew.kind, value)
        ends = np.cumsum(_sizes(len(rows), shares, skew, draw))
        for part, chosen in zip(parts, np.split(draw.permutation(rows), ends[:-1])):
            part.append(chosen)
    divided = [training.take(np.sort(np.concatenate(part))) for part in parts]
    for number, dealt in enumerate(divided, start=1):
        if not len(dealt):
            raise CannotDivide(
                f"party {number} of {len(divided)} gets none of the {len(training)} rows (shares {shares}, {skew})."
            )
    return divided


def _group_of_each(training: TrainingRows, skew: Skew, groups: pandas.Series | None) -> pandas.Series:
    frame = training.frame
    if skew.kind == "none":
        return pandas.Series("", index=frame.index)
    if skew.kind == "label":
        return frame[training.label]
    if groups is None:
        raise CannotDivide(f"a skew by {skew.kind} needs the {skew.kind} of every row, and there is none.")
    absent = ~frame.index.isin(groups.index)
    if absent.any():
        raise CannotDivide(
            f"{int(absent.sum())} rows have no {skew.kind}; a skew by {skew.kind} needs it for all rows."
        )
    return groups.loc[frame.index]


def _sizes(rows: int, shares: Shares, skew: Skew, draw: np.random.Generator) -> np.ndarray:
    if skew.kind == "none":
        return shares.sizes(rows)
    fractions = shares.fractions
    # Independent draws per row, not rounded proportions: rounding would give every small group to the largest party.
    concentration = min(skew.concentration, MAX_CONCENTRATION)
    return draw.multinomial(rows, draw.dirichlet(concentration * len(fractions) * fractions))


def check_classes(parties: Sequence[TrainingRows], names: Sequence[str], classes: Mapping) -> None:
    """Refuse a party without a row of one of the classes; `classes` maps each name to its label."""
    for party, name in zip(parties, names):
        present = set(party.frame[party.label].unique().tolist())
        for class_name, value in classes.items():
            if value not in present:
                raise CannotDivide(f"party {name} has no {class_name} rows.")
