"""Made rows for the benchmark of dp_hetero_lr: correlated standard normal features and labels of a logistic model.

Rows come in parts that depend on their number alone: every process makes the same ones, and only those it needs.
"""

from dataclasses import dataclass

import numpy as np

from bench.epoch_task import ID, LABEL

GUEST_FEATURES, HOST_FEATURES = 10, 20
SEED = 20_605


@dataclass(frozen=True)
class Rows:
    """Features in float64: ``guest`` (n, 10), ``host`` (n, 20), of mean 0 and variance 1; ``labels`` (n,), 0 or 1."""

    guest: np.ndarray
    host: np.ndarray
    labels: np.ndarray


def made_rows(rows: int, part: int = 0) -> Rows:
    """``rows`` rows of part ``part``; every part follows the same law."""
    law, generator = np.random.default_rng(SEED), np.random.default_rng([SEED, part])
    columns = GUEST_FEATURES + HOST_FEATURES
    mixing = np.eye(columns) + 0.3 * law.normal(size=(columns, columns))
    features = generator.normal(size=(rows, columns)) @ (mixing / np.linalg.norm(mixing, axis=0))
    scores = features @ law.normal(size=columns) / np.sqrt(columns)
    labels = (generator.random(rows) < 1 / (1 + np.exp(-scores))).astype(np.float64)
    return Rows(features[:, :GUEST_FEATURES], features[:, GUEST_FEATURES:], labels)


def made_tables(rows: int) -> dict:
    """The same as the tables of an `epoch_task.Task`."""
    import pandas

    made, ids = made_rows(rows), [f"row-{number:07d}" for number in range(rows)]
    tables = {}
    for role, features in (("guest", made.guest), ("host", made.host)):
        names = [f"{role}_{column}" for column in range(features.shape[1])]
        tables[role] = pandas.DataFrame(features, columns=names)
        tables[role].insert(0, ID, ids)
    tables["guest"].insert(1, LABEL, made.labels.astype(int))
    return tables
