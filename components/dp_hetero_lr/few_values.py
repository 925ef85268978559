"""Whether a host's table has columns with few values, which its joint scores, or losses of small batches, could show.

Column steps are found from scores as often as patterns of rows recur; rounding makes that harder and not impossible.
So a host shows nothing of such a table unless its operator consents (``few_valued_scores`` in the policy).
"""
import hashlib
from functools import partial
from typing import List, NamedTuple

import numpy as np

from fate_dp.components.common.party_home import PartyHome

LEAST_VALUES = 20
ROWS_PER_PATTERN = 4
"""A table needs a quarter as many different rows as it has rows."""


class Seen(NamedTuple):
    """Values of each column, at most `LEAST_VALUES` of them, and hashes of different rows, at most ``limit``."""

    values: List[np.ndarray]
    rows: np.ndarray


def has_few_values(rows, count: int) -> bool:
    """Whether a column takes fewer than 20 values, or less than a quarter of the rows differ.

    Args:
        rows: what `rows.prepare_rows` made of a host's table.
        count: of its rows. Of a table with fewer than 20 rows, each column must take as many values as there are rows.
    """
    limit = -(-count // ROWS_PER_PATTERN)
    seen = rows.mapValues(partial(_look, limit=limit)).reduce(partial(_merged, limit=limit))
    return len(seen.rows) < limit or any(len(values) < min(LEAST_VALUES, count) for values in seen.values)


def shows_few_values(home: PartyHome, dataset: str, rows, count: int) -> bool:
    """`has_few_values` of a table whose scores the operator did not consent to show."""
    consents = home.policy.consents_to_few_values(dataset, home.ledger.related(dataset))
    return not consents and has_few_values(rows, count)


def refusal(name: str) -> str:
    """The sentence for all parties; which column is meant, the host's operator alone can see."""
    return (
        f"{name} has columns of few values (fewer than {LEAST_VALUES} in a column, or fewer different rows than a quarter "
        "of all), which joint scores would show; use no flipback, sigmoid exact, train_scores or prediction, or ask its "
        "operator to name the table in few_valued_scores of the policy."
    )


def _look(block, limit: int) -> Seen:
    features = np.ascontiguousarray(block.features, dtype="<i8")
    hashes = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in features)
    values = [np.unique(column)[:LEAST_VALUES] for column in features.T]
    return Seen(values, np.unique(np.frombuffer(hashes, dtype="<u8"))[:limit])


def _merged(first: Seen, second: Seen, limit: int) -> Seen:
    values = [np.union1d(*pair)[:LEAST_VALUES] for pair in zip(first.values, second.values)]
    return Seen(values, np.union1d(first.rows, second.rows)[:limit])
