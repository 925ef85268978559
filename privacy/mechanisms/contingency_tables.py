"""Pairwise contingency tables of binned records, with each party's own noise.

A party holds the bins of some columns: of every record one bin of each column. Written as a row of zeros and ones, one
position for each bin of each column, a record has exactly as many ones as there are columns, and X^T X over all records
holds the counts of every bin and of every pair of bins. The guest's rows have one entry more, the target: +2 for the label
1 and -2 for 0, so that X^T t holds twice what positives and negatives of a bin differ by. Why the target has the weight
2: docs/second_moments.md.

Every party adds noise once to its own tables and to its share of those with each other party. Since the length of a row
is known exactly, the sensitivity is smaller than that of clipped rows of the same length: docs/contingency_tables.md has
the theorem and its proof.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..events import REPLACE_ONE, Event, Gaussian, InvalidEvent, check_relation, event_of
from ..noise.discrete import MAX_SCALE, discrete_gaussian, gaussian_slack
from ..noise.stream import Integers, Rng, open_stream
from ..validation import InvalidArgument, is_finite, refusal, whole
from .second_moments import MIN_MULTIPLIER, ROUND_UP, definite_ridge, off_diagonal

FRACTION_BITS = 36
"""Noise lies on the grid 2^-36 of a count, fine enough for it to be charged as continuous."""
TARGET = 2
MIN_BINS, MAX_COLUMNS, MAX_TOTAL = 2, 512, 8192
# Standard deviations: noise lies beyond them with a probability below 10^-340.
NEVER_REACHED = 40


@dataclass(frozen=True)
class BinnedRows:
    """Public sizes of one party's rows: how many bins each column has, and whether the target follows; InvalidArgument
    for no column or too many, one with fewer than two bins, or more than 8192 bins in all."""

    counts: tuple[int, ...]
    labelled: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        if not 1 <= len(self.counts) <= MAX_COLUMNS:
            raise InvalidArgument.of("number of binned columns", len(self.counts), f"from 1 to {MAX_COLUMNS}")
        for number in self.counts:
            whole("number of bins of a column", number, MIN_BINS, MAX_TOTAL)
        if self.bins > MAX_TOTAL:
            raise InvalidArgument.of("number of bins of all columns", self.bins, f"at most {MAX_TOTAL}")
        if not isinstance(self.labelled, bool):
            raise InvalidArgument.of("labelled", self.labelled, "True or False")

    @property
    def columns(self) -> int:
        """How many ones every row has."""
        return len(self.counts)

    @property
    def bins(self) -> int:
        """Number of bins of all columns, which is the number of weights."""
        return sum(self.counts)

    @property
    def width(self) -> int:
        """Length of a row: the bins, and the target where there is one."""
        return self.bins + self.labelled

    @property
    def target_square(self) -> int:
        """The target's part of a row's squared norm."""
        return TARGET**2 if self.labelled else 0

    @property
    def square(self) -> int:
        """Squared norm of every row."""
        return self.columns + self.target_square

    def column_of_bins(self) -> Integers:
        """int64 (width,): which column each entry of a row belongs to; the target is a column of its own."""
        return np.repeat(np.arange(self.columns + self.labelled), [*self.counts, *([1] if self.labelled else [])])


@dataclass(frozen=True, eq=False)
class TableNoise:
    """What one party adds to its tables, int64 in units of 2^-36 of a count; secret.

    ``own`` is symmetric (width, width); 0 for two bins of one column, whose joint count is 0 for every table, and where
    the target meets itself, which is 4 for every record. ``cross`` is, for every other party by position, (width, width
    of the other), for the party's share. Charge ``event`` for everything computed from the noisy tables; None without
    noise.
    """

    own: Integers = field(repr=False)
    cross: dict[int, Integers] = field(repr=False)
    event: Event | None


@dataclass(frozen=True)
class ContingencyTables:
    """The public terms under which all data parties, at least two, release their contingency tables; the guest comes
    first.

    Unit *record*: one party's part of one record, at the guest with the label; *replace-one*, with the ids and their
    number public; against the other parties and whoever gets the model. ``noise_multipliers`` are noise scale over
    sensitivity for each party, 0 for one that adds no noise and is promised nothing.
    """

    parties: tuple[BinnedRows, ...]
    noise_multipliers: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", tuple(self.parties))
        if len(self.parties) < 2 or not all(isinstance(rows, BinnedRows) for rows in self.parties):
            raise InvalidArgument.of("parties", self.parties, "the BinnedRows of at least two parties")
        multipliers = tuple(self.noise_multipliers)
        if len(multipliers) != len(self.parties) or not all(
            is_finite(value) and (value == 0 or value >= MIN_MULTIPLIER) for value in multipliers
        ):
            allowed = f"a finite number for each of {len(self.parties)} parties, 0 or at least {MIN_MULTIPLIER}"
            raise InvalidArgument.of("noise_multipliers", multipliers, allowed)
        object.__setattr__(self, "noise_multipliers", tuple(map(float, multipliers)))
        if any(self._steps(party) > MAX_SCALE for party in range(len(self.parties))):
            allowed = f"small enough for noise of at most {MAX_SCALE / 2**FRACTION_BITS:g} counts"
            raise InvalidArgument.of("noise_multipliers", multipliers, allowed, "Raise epsilon.")

    def sensitivity(self, party: int, relation: str = REPLACE_ONE) -> float:
        """Delta_p in counts, rounded up; replace-one only, since the number of records is public.

        The largest root, over how many of the d columns change (m) and whether the target does (s = 1 or -1), of
        2 r^4 - 2 (d - m + s T^2)^2 + Q (2 m + 2 T^2 (1 - s)), with T^2 = 0 where there is no target, r^2 = d + T^2 and Q the
        sum of the others' squared norms. Some two records reach it.
        """
        if check_relation(relation) != REPLACE_ONE:
            raise InvalidEvent(refusal("relation", relation, f"{REPLACE_ONE} for tables of a public count"))
        own = self._party(party)
        others = sum(rows.square for position, rows in enumerate(self.parties) if position != party)
        squares = [
            2 * own.square**2
            - 2 * (own.columns - changed + sign * own.target_square) ** 2
            + others * (2 * changed + 2 * own.target_square * (1 - sign))
            for changed, sign in product(range(own.columns + 1), (1, -1))
        ]
        return math.sqrt(max(squares)) * ROUND_UP

    def sigma(self, party: int) -> float:
        """Scale of the party's noise in counts, on counts of its bins and of pairs with the others' bins."""
        return self.noise_multipliers[party] * self.sensitivity(party) * ROUND_UP

    def variances(self) -> NDArray[np.float64]:
        """float64 (all entries, all entries): of the noise on each entry of the joint tables, in squared counts."""
        squares = np.repeat([self.sigma(party) ** 2 for party in range(len(self.parties))], self._widths)
        party = np.repeat(np.arange(len(self.parties)), self._widths)
        column = np.concatenate([512 * at + rows.column_of_bins() for at, rows in enumerate(self.parties)])
        own = np.equal.outer(party, party)
        found = np.where(own, squares / 2 * np.not_equal.outer(column, column), np.add.outer(squares, squares))
        is_bin = np.concatenate([np.arange(rows.width) < rows.bins for rows in self.parties])
        np.fill_diagonal(found, squares * is_bin)
        return found

    def largest(self, rows: int) -> NDArray[np.float64]:
        """float64 (all entries, all entries): what no entry of ``rows`` records with its noise exceeds in magnitude."""
        entries = np.concatenate([np.where(np.arange(each.width) < each.bins, 1.0, TARGET) for each in self.parties])
        found: NDArray[np.float64] = rows * np.multiply.outer(entries, entries) + NEVER_REACHED * np.sqrt(
            self.variances()
        )
        return found

    def draw(self, party: int, observers: Sequence[str], rng: Rng = None) -> TableNoise:
        """All noise of one party, to be added once, and the event to be charged; zeros and None without noise."""
        stream, own, steps = open_stream(rng), self._party(party), self._steps(party)
        crossed = {position: rows.width for position, rows in enumerate(self.parties) if position != party}
        if not steps:
            zeros = {position: np.zeros((own.width, width), dtype=np.int64) for position, width in crossed.items()}
            return TableNoise(np.zeros((own.width, own.width), dtype=np.int64), zeros, None)
        noise, counts = np.zeros((own.width, own.width), dtype=np.int64), np.arange(own.bins)
        noise[counts, counts] = discrete_gaussian(steps, own.bins, stream)
        rows, columns = self._pairs(own)
        noise[rows, columns] = discrete_gaussian(off_diagonal(steps), rows.size, stream)
        noise[columns, rows] = noise[rows, columns]
        cross = {position: discrete_gaussian(steps, (own.width, width), stream) for position, width in crossed.items()}
        process = Gaussian(self.noise_multipliers[party])
        event = event_of(process, stream, relation=REPLACE_ONE, observers=observers, slack=self.slack(party))
        return TableNoise(noise, cross, event)

    def slack(self, party: int) -> float:
        """Total-variation distance of the party's noise from continuous noise that is rounded."""
        own, steps = self._party(party), self._steps(party)
        others = sum(rows.width for position, rows in enumerate(self.parties) if position != party)
        pairs = self._pairs(own)[0].size
        return gaussian_slack(steps, own.bins + own.width * others) + gaussian_slack(off_diagonal(steps), pairs)

    def required_ridge(self) -> float:
        """Ridge on every weight, in counts, under which the noisy X^T X is positive definite with probability 0.999.

        2 sqrt(v) (sqrt(m) + sqrt(ln 1000)), m all bins together and v the largest variance of a noisy entry, where a pair of
        two parties carries both parties' noise: proof in docs/second_moments.md, whose bounds on the variances hold here.
        """
        return definite_ridge(map(self.sigma, range(len(self.parties))), sum(rows.bins for rows in self.parties))

    @property
    def _widths(self) -> list[int]:
        return [rows.width for rows in self.parties]

    def _party(self, party: int) -> BinnedRows:
        last = len(self.parties) - 1
        return self.parties[whole("party", party, 0, last, f"a position from 0 to {last}")]

    def _steps(self, party: int) -> float:
        """Scale of the noise in steps of its grid."""
        return math.ldexp(self.sigma(party), FRACTION_BITS)

    @staticmethod
    def _pairs(own: BinnedRows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns above the diagonal whose entries differ between tables: those of two different columns."""
        rows, columns = np.triu_indices(own.width, 1)
        of = own.column_of_bins()
        apart = of[rows] != of[columns]
        return rows[apart], columns[apart]
