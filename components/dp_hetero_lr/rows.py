"""A party's rows as the trainer holds them: fixed-point features block by block, and what is computed from them.

Everything is exact or done in one fixed order, so that training twice on the same rows gives bit-identical weights, with
full batches however the rows are spread over blocks (batches are consecutive rows, whose order FATE derives from the
spread). The host's ledger counts *different* scores, so this matters.
"""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from fate_dp.crypto.slots import FEATURE_FRACTION_BITS, encode_features

from ..common.charges import PartyHome
from ..common.frames import DataFrame, Table, block_starts, collect_column, feature_blocks, label_blocks
from ..common.units import Units

UNIT = 2.0**-FEATURE_FRACTION_BITS
"""Of the integers that stand for features."""
MIN_VALUES = 20
ROWS_PER_PATTERN = 4
"""A table needs a quarter as many different rows as it has rows."""


class Block(NamedTuple):
    """Rows of one block: global index of the first one, int64 features (rows, m), labels (rows,) at the guest."""

    start: int
    features: np.ndarray
    labels: np.ndarray | None = None

    def within(self, first: int, last: int) -> "Block":
        """The rows whose global index lies in [first, last)."""
        low = min(max(first - self.start, 0), len(self.features))
        high = min(max(last - self.start, 0), len(self.features))
        labels = None if self.labels is None else self.labels[low:high]
        return Block(self.start + low, self.features[low:high], labels)

    def quarter_scores(self, weights: np.ndarray) -> np.ndarray:
        """X w / 4 in float64, summed column by column so that a row's value does not depend on its neighbours."""
        total = np.zeros(len(self.features))
        for column, weight in enumerate(weights):
            total += self.features[:, column] * (0.25 * UNIT * weight)
        return total

    def scores(self, weights: np.ndarray) -> np.ndarray:
        """X w in float64: this party's part of every record's score."""
        return 4.0 * self.quarter_scores(weights)

    def part_of(self, column: np.ndarray) -> np.ndarray:
        """The rows of this block in an array over all rows, in global row order."""
        return column[self.start : self.start + len(self.features)]


def prepare_rows(
    frame: DataFrame, units: Units | None = None, *, fit_intercept: bool = False, with_label: bool = False
) -> Table:
    """Table block key -> `Block` in these units, None for columns as they are; a column of ones is appended last."""
    starts, counted = block_starts(frame), units or Units.as_they_are(len(frame.schema.columns))

    def encoded(blocks: Iterable[tuple[int, np.ndarray]]) -> Iterator[tuple[int, Block]]:
        for key, features in blocks:
            ones = np.ones((len(features), int(fit_intercept)))
            yield key, Block(starts[key], encode_features(np.hstack([counted.applied(features), ones])))

    rows = feature_blocks(frame).mapPartitions(encoded, preserves_partitioning=True)
    return rows.join(label_blocks(frame), lambda block, labels: block._replace(labels=labels)) if with_label else rows


def relabel(rows: Table, labels: np.ndarray) -> Table:
    """The rows with new labels, given as one column in global row order."""
    return rows.mapValues(lambda block: block._replace(labels=block.part_of(labels)))


def labels_of(rows: Table) -> np.ndarray:
    """The label column on the guest's driver, in global row order."""
    return collect_column(rows.mapValues(attrgetter("labels")))


# Whether a host's table has columns with few values, which its joint scores, or losses of small batches, could show.
#
# Column steps are found from scores as often as patterns of rows recur; rounding makes that harder and not impossible.
# So a host shows nothing of such a table unless its operator consents (``few_valued_scores`` in the policy).


class Seen(NamedTuple):
    """Values of each column, at most `MIN_VALUES` of them, and hashes of different rows, at most ``limit``."""

    values: list[np.ndarray]
    rows: np.ndarray


def has_few_values(rows: Table, count: int) -> bool:
    """Whether a column takes fewer than 20 values (or as many as there are rows), or less than a quarter of the rows differ."""
    limit = -(-count // ROWS_PER_PATTERN)
    looks = rows.mapPartitions(partial(_look, limit=limit), preserves_partitioning=True)
    seen = looks.reduce(partial(_merged, limit=limit))
    return are_few(map(len, seen.values), len(seen.rows), count)


def are_few(of_columns: Iterable[int], different_rows: int, count: int) -> bool:
    """The rule of `has_few_values`, from how many values each column takes and how many of ``count`` rows differ."""
    return different_rows < -(-count // ROWS_PER_PATTERN) or any(each < min(MIN_VALUES, count) for each in of_columns)


def shows_few_values(home: PartyHome, dataset: str, rows: Table, count: int) -> bool:
    """`has_few_values` of a table whose scores the operator did not consent to show."""
    consents = home.policy.consents_to_few_values(dataset, home.ledger.related(dataset))
    return not consents and has_few_values(rows, count)


def refusal(name: str) -> str:
    """The sentence for all parties; which column is meant, the host's operator alone can see."""
    return (
        f"{name} has columns of few values (fewer than {MIN_VALUES} in a column, or fewer different rows than a quarter "
        "of all), which joint scores would show; use no flipback, sigmoid exact, train_scores or prediction, or ask its "
        "operator to name the table in few_valued_scores of the policy."
    )


def _look(blocks: Iterable[tuple[object, Block]], limit: int) -> Iterator[tuple[object, Seen]]:
    """`Seen` of a whole partition: what blocks of a hundred rows saw, merged one by one, would be sorted anew each time."""
    key, hashes, values = None, [], []
    for key, block in blocks:
        features = np.ascontiguousarray(block.features, dtype="<i8")
        hashes.append(b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in features))
        values.append([np.unique(column)[:MIN_VALUES] for column in features.T])
    if values:
        of_columns = [np.unique(np.concatenate(column))[:MIN_VALUES] for column in zip(*values)]
        yield key, Seen(of_columns, np.unique(np.frombuffer(b"".join(hashes), dtype="<u8"))[:limit])


def _merged(first: Seen, second: Seen, limit: int) -> Seen:
    values = [np.union1d(*pair)[:MIN_VALUES] for pair in zip(first.values, second.values)]
    return Seen(values, np.union1d(first.rows, second.rows)[:limit])
