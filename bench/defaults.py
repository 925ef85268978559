"""Defaults on columns of any unit: held-out figures of dp_hetero_lr and of dp_homo_nn's linear model beside tuned twins.

    python -m bench.defaults [--seed N]

Made-up tables in units from 1e-3 to 1e6: skewed, sparse, correlated, off centre, of 2 to 5 classes, one of them rare, 9 to 120
columns, 800 to 20,000 rows. Held out are 4,000 rows; figures are AUC on their true labels, accuracy from three classes.

- dp_hetero_lr behind flips at epsilon 4: the plaintext descent of `tests.support.plaintext`, which tests hold to the encrypted
  one within 1e-6, in the units, with the optimiser and from the start that the component takes by default. Its twin is
  scikit-learn's logistic regression on the same flips and standardised columns.
- dp_homo_nn with record noise at epsilon 4, delta 1e-6, over two parties: clients, server and rounds of a job, in declared
  units, which are those of 300 other rows to one digit. Its twin is gradient descent with the same noise over the clip
  on columns that were standardised with all rows, which costs it nothing here; both are means over three repeats.

A twin takes the setting of its grid that does best on the held-out rows. Random numbers of tables, flips and the twin's noise are
numpy's: a simulation, which protects nothing. The last line printed is one JSON object.
"""

import argparse
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from fate_dp.components.common.units import Units
from fate_dp.components.dp_hetero_lr.labels import one_vs_rest
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.round_terms import calibrated, noise_of_mean, round_terms, settled
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.dp_homo_nn.settings import TrainSettings as HomoSettings
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from tests.support.plaintext import TrainingSettings, joint_logits, train_plaintext, with_intercept
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

EPSILON = 4.0
HELD_OUT, PUBLIC = 4000, 300
PENALTIES = tuple(10.0**power for power in range(-4, 3))
RATES, CLIPS = (0.03, 0.1, 0.3, 1.0, 3.0), (0.1, 0.3, 1.0)
REPEATS = 3


@dataclass(frozen=True)
class Table:
    """How a table is made: ``kinds`` of its columns in turn, how far they are ``correlated`` and, in deviations, ``off`` centre."""

    name: str
    rows: int
    columns: int
    classes: int = 2
    kinds: tuple[str, ...] = ("normal",)
    correlated: float = 0.0
    off: float = 0.0
    signal: float = 1.5
    shift: float = 0.0


TABLES = (
    Table("small units", 2000, 9),
    Table("wide and short", 1400, 120, correlated=0.3),
    Table("lognormal", 5000, 30, kinds=("lognormal",), correlated=0.3),
    Table("rare class", 8000, 40, kinds=("normal", "lognormal"), shift=-3.7),
    Table("correlated", 6000, 60, correlated=0.8),
    Table("off centre", 3000, 20, kinds=("normal", "square"), off=6.0),
    Table("sparse", 10_000, 80, kinds=("sparse",)),
    Table("three classes", 4000, 24, 3, kinds=("normal", "lognormal"), correlated=0.3),
    Table("four classes", 846, 18, 4, correlated=0.9, signal=4.0),
    Table("five classes", 20_000, 100, 5, kinds=("normal", "sparse", "square")),
)


@dataclass(frozen=True)
class Rows:
    """Features (n, m) and labels (n,) to train on, held out, and of other records that are public."""

    features: np.ndarray
    labels: np.ndarray
    tested: np.ndarray
    true: np.ndarray
    public: np.ndarray
    classes: int


def made(table: Table, generator: np.random.Generator) -> Rows:
    """A table; the score of a class is linear in the columns, each brought to deviation 1 but for its own unit."""
    count, columns = table.rows + HELD_OUT + PUBLIC, table.columns
    factors = max(2, columns // 6)
    common = generator.normal(size=(count, factors)) @ generator.normal(size=(factors, columns)) / math.sqrt(factors)
    own = generator.normal(size=(count, columns))
    found = math.sqrt(table.correlated) * common + math.sqrt(1 - table.correlated) * own
    for column in range(columns):
        found[:, column] = SHAPES[table.kinds[column % len(table.kinds)]](found[:, column], generator)
    standard = (found - found.mean(axis=0)) / found.std(axis=0)
    models = 1 if table.classes == 2 else table.classes
    weights = generator.normal(size=(columns, models)) * (generator.random((columns, 1)) < 0.5)
    scores = standard @ weights
    scores = table.signal * scores / scores.std(axis=0)
    if table.classes == 2:
        labels = generator.random(count) < expit(scores[:, 0] + table.shift)
    else:
        labels = np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)
    features = (standard + table.off) * 10.0 ** generator.uniform(-3, 6, columns)
    labels, last = labels.astype(np.float64), table.rows + HELD_OUT
    kept, held = slice(0, table.rows), slice(table.rows, last)
    return Rows(features[kept], labels[kept], features[held], labels[held], features[last:], table.classes)


SHAPES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "normal": lambda column, generator: column,
    "lognormal": lambda column, generator: np.exp(column),
    "square": lambda column, generator: column**2 + column,
    "sparse": lambda column, generator: np.where(generator.random(len(column)) < 0.1, np.abs(column), 0.0),
}


def flipped(rows: Rows, generator: np.random.Generator) -> np.ndarray:
    """Simulated randomised response among the classes."""
    changes = generator.random(len(rows.labels)) >= keep_probability(EPSILON, rows.classes)
    return (rows.labels + changes * generator.integers(1, rows.classes, len(rows.labels))) % rows.classes


def figure(rows: Rows, scores: np.ndarray) -> float:
    """AUC of scores (n, 1), accuracy of those of several classes."""
    from sklearn.metrics import roc_auc_score

    if rows.classes == 2:
        return float(roc_auc_score(rows.true, scores[:, 0]))
    return float(np.mean(np.argmax(scores, axis=1) == rows.true))


def hetero(rows: Rows, labels: np.ndarray) -> float:
    """Held-out figure of dp_hetero_lr's defaults, the columns divided between guest and host."""
    asked, units = TrainSettings(), Units.fitting(rows.features.mean(axis=0), rows.features.std(axis=0))
    train, test = (np.array_split(units.applied(features), 2, axis=1) for features in (rows.features, rows.tested))
    optimizer = default_optimizer(
        len(labels), rows.features.shape[1] + 1, EPSILON, epochs=asked.epochs, classes=rows.classes
    )
    settings, scores = TrainingSettings(optimizer, epochs=asked.epochs), []
    for target in one_vs_rest(labels, range(rows.classes)).T:
        start = [np.zeros(part.shape[1]) for part in train]
        start[0] = np.append(start[0], 4 * np.mean(target - 0.5))
        scores.append(joint_logits(with_intercept(test), train_plaintext(train, target, settings, start).weights))
    return figure(rows, np.column_stack(scores))


def hetero_twin(rows: Rows, labels: np.ndarray) -> float:
    """The best of scikit-learn's logistic regressions over `PENALTIES`."""
    from sklearn.linear_model import LogisticRegression

    train, test = standardised(rows)
    found = []
    for penalty in PENALTIES:
        model = LogisticRegression(C=penalty, max_iter=200).fit(train, labels)
        found.append(figure(rows, model.decision_function(test).reshape(len(test), -1)))
    return max(found)


def standardised(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    mean, deviation = rows.features.mean(axis=0), rows.features.std(axis=0)
    return (rows.features - mean) / deviation, (rows.tested - mean) / deviation


def homo(rows: Rows) -> float:
    """Held-out figure of dp_homo_nn's defaults in declared units."""
    settings, terms, gradients, start = noised(rows)
    units = Units.declared(settings.units, names_of(rows))
    train, test = (units.applied(features).astype(np.float32) for features in (rows.features, rows.tested))
    clients = [
        Client(ArrayRows(train[places], rows.labels[places], gradients), terms, position=position)
        for position, places in enumerate(np.array_split(np.arange(len(train)), 2))
    ]
    server = Server(terms, start, settings.optimizer or {}, settings.learning_rate_scheduler, settings.step_factor)
    weights = simulate(terms, clients, server, Transport(terms))
    scores = gradients.scores(weights, test)
    return figure(rows, scores[:, 1:] if rows.classes == 2 else scores)


def noised(rows: Rows):
    """Settings and terms of a job that names records, classes, epsilon and units, its gradients and start weights."""
    digits = [(f"{median:.0e}", f"{spread:.0e}") for median, spread in zip(*public_figures(rows))]
    units = {name: [float(each) for each in pair] for name, pair in zip(names_of(rows), digits)}
    module = build_model(ModelSpec("logistic_regression", rows.features.shape[1], classes=rows.classes))
    start, records = flat_weights(module), len(rows.labels)
    settings = HomoSettings(records=records, classes=rows.classes, epsilon=EPSILON, units=units)
    settings, terms = settled(settings, calibrated(settings, round_terms(settings, ("9999", "10000"), len(start))))
    return settings, terms, RecordGradients(module), start


def public_figures(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    return rows.public.mean(axis=0), np.maximum(rows.public.std(axis=0), 1e-9)


def names_of(rows: Rows) -> list[str]:
    return [f"x{number}" for number in range(rows.features.shape[1])]


def homo_twin(rows: Rows, generator: np.random.Generator) -> float:
    """The best of gradient descents with the same noise over `RATES` and `CLIPS`, means over `REPEATS`."""
    _, terms, _, _ = noised(rows)
    train, test = (np.column_stack([part, np.ones(len(part))]) for part in standardised(rows))
    target = np.column_stack([rows.labels]) if rows.classes == 2 else np.eye(rows.classes)[rows.labels.astype(int)]
    found = []
    for rate, clip in itertools.product(RATES, CLIPS):
        descend = partial(descent, train, target, rate, clip * math.sqrt(train.shape[1]))
        runs = [descend(noise_of_mean(terms), terms.rounds, generator) for _ in range(REPEATS)]
        found.append(np.mean([figure(rows, test @ weights) for weights in runs]))
    return float(max(found))


def descent(train, target, rate, clip, noise, rounds, generator):
    """Weights (m, models) after rounds of clipped gradients with noise, with momentum 0.9."""
    weights = np.zeros((train.shape[1], target.shape[1]))
    velocity, lengths = np.zeros_like(weights), np.linalg.norm(train, axis=1)
    for _ in range(rounds):
        scores = train @ weights
        errors = (expit(scores) if target.shape[1] == 1 else softmax(scores, axis=1)) - target
        errors *= np.minimum(1, clip / np.maximum(np.linalg.norm(errors, axis=1) * lengths, 1e-12))[:, None]
        gradient = train.T @ errors / len(train) + generator.normal(scale=noise * clip, size=weights.shape)
        velocity = 0.9 * velocity + gradient
        weights = weights - rate * velocity
    return weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="of tables, flips and the twin's noise")
    seed = parser.parse_args().seed
    print(f"twins: C of {PENALTIES}; rates {RATES} and clips {CLIPS} times the root of the columns")
    figures = {}
    for number, table in enumerate(TABLES):
        generator = np.random.default_rng([seed, number])
        rows = made(table, generator)
        labels = flipped(rows, generator)
        pairs = {
            "hetero": (hetero(rows, labels), hetero_twin(rows, labels)),
            "homo": (float(np.mean([homo(rows) for _ in range(REPEATS)])), homo_twin(rows, generator)),
        }
        for side, (ours, best) in pairs.items():
            figures[f"{side}, {table.name}"] = round(ours / best, 4)
            print(
                f"{side:7}{table.name:18}{table.rows:7} x {table.columns:<4} ours {ours:.4f} twin {best:.4f} {ours / best:.4f}"
            )
    worst = {
        f"worst_share_{side}": min(value for name, value in figures.items() if name.startswith(side))
        for side in ("hetero", "homo")
    }
    figures |= {**worst, "worst_share": min(worst.values())}
    print(json.dumps({"bench": "defaults", "figures": figures}))


if __name__ == "__main__":
    main()
