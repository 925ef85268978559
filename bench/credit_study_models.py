"""The models of the private credit study in one process: what each protects, and how it scores the held-out loans.

Arithmetic, clipping and noise are those of the components; messages and encryption, which change no number, are left out.
Streams are seeded, so that nothing here is private.
"""

from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from bench.hetero_noise_tasks import Task
from bench.hetero_noise_twin import bounds_of, fit_uniform
from bench.label_noise import Split, clipped_rows, descend, noise_terms, noisy_weights
from bench.scorecard_twin import fit_labels, fit_records, rows_of
from bench.trees_twin import BoostedTrees, TreeSettings
from examples.credit_risk.private_jobs import (
    DELTA,
    HORIZONTAL,
    INDICATOR_CUTS,
    MAX_WEIGHT,
    NUMBER_CUTS,
    PUBLIC_PRIOR,
    SHUFFLE,
    TREES,
)
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.data_prep.class_weights import weights_of_classes
from fate_dp.privacy.bins import ColumnBins, TableBins
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

EPOCHS = 100


@dataclass(frozen=True, eq=False)
class Loans(Task):
    """The vertical split: application at the guest, credit file at the host; numbers come before indicators.

    :param numbers: of each party, how many of its first columns are numbers in public units.
    """

    numbers: tuple[int, ...]


@cache
def terms_of(aggregation, client_records, features, epsilon, settings):
    """Calibrated terms: add-or-remove, but replace-one for ``shuffle``, which knows no other."""
    records = sum(client_records)
    terms = RoundTerms(
        aggregation=aggregation,
        unit="record",
        clients=len(client_records),
        max_dropouts=1,
        rounds=settings.rounds,
        batch_size=settings.batch_size(records),
        records=records,
        clips=(settings.clip,),
        dimension=features + 1,
        delta=DELTA,
        client_records=client_records,
    )
    return calibrate_terms(terms, epsilon, DELTA, "replace_one" if aggregation == SHUFFLE else "add_or_remove")


def horizontal(parties, held_out, aggregation, epsilon, seed, weighted=False, settings=None):
    """Joint scores (n,) of ``dp_homo_nn``'s logistic regression on ``held_out``; see `horizontal_weights`."""
    weights = horizontal_weights(parties, held_out.shape[1], aggregation, epsilon, seed, weighted, settings)
    return held_out @ weights[:-1] + weights[-1]


def horizontal_weights(parties, features, aggregation, epsilon, seed, weighted=False, settings=None):
    """Weights of ``dp_homo_nn``'s logistic regression, the intercept last.

    :param parties: (features, labels) of each institution.
    :param weighted: whether classes are weighted by the public prior, before the clip.
    :param settings: None for those of the aggregation.
    """
    settings = settings or HORIZONTAL[aggregation]
    terms = terms_of(aggregation, tuple(len(labels) for _, labels in parties), features, epsilon, settings)
    module = build_model(ModelSpec("logistic_regression", features, 2))
    factors = weights_of_classes(PUBLIC_PRIOR, MAX_WEIGHT) if weighted else None
    gradients = RecordGradients(module, class_factors=factors)
    clients = []
    for position, (rows, labels) in enumerate(parties):
        samples, noise = (ReproducibleStream(f"{seed} {kind} {position}".encode()) for kind in ("samples", "noise"))
        own = ArrayRows(rows.astype(np.float32), labels.astype(np.int64), gradients, samples)
        clients.append(Client(own, terms, noise, position))
    parameters = {"lr": settings.learning_rate, "momentum": settings.momentum}
    server = Server(terms, flat_weights(module), {"method": "sgd", "optimizer_params": parameters})
    return simulate(terms, clients, server, Transport(terms))


def flipped(labels, epsilon, seed):
    """What ``label_flip`` hands on; as it is for epsilon None."""
    if epsilon is None:
        return labels
    flips = np.random.default_rng(seed).random(len(labels)) < flip_probability(epsilon)
    return np.abs(labels - flips)


def regression_on_flips(task, epsilon, seed):
    """``dp_hetero_lr`` (Taylor) on flipped labels."""
    joint, held_out = (np.hstack([part[0], np.ones((len(part[0]), 1)), part[1]]) for part in parts_of(task))
    rows, labels = len(joint), flipped(task.train_labels, epsilon, seed)
    size = round(1 + sum(task.typical_squares))
    optimizer = default_optimizer(rows, size, np.inf if epsilon is None else epsilon, epochs=EPOCHS)
    hessian = joint.T @ joint / (4 * rows)
    return held_out @ descend(hessian, joint.T @ (labels - 0.5) / rows, optimizer, bare=task.features[0])


def regression_with_label_noise(task, epsilon, seed):
    """``dp_hetero_lr`` with noise on X^T t."""
    radii = tuple(square**0.5 for square in task.typical_squares)
    split = Split(task.train_parts, task.train_labels, task.test_parts, task.test_labels, radii)
    terms = noise_terms(task.features, radii, epsilon)
    clipped, targets = clipped_rows(split.train, split.train_labels, terms)
    noise = terms.on_labels.draw(clipped.shape[1], "host", stream(seed, epsilon)).values
    weights = noisy_weights((clipped.T @ clipped, clipped.T @ targets), terms, len(clipped), noise)
    ones = np.ones((len(task.test_labels), 1))
    return np.hstack([task.test_parts[0], ones, task.test_parts[1]]) @ weights


def regression_with_record_noise(task, epsilon, seed):
    """``dp_hetero_lr`` with each party's own noise on second moments."""
    return fit_uniform(task, bounds_of(task), epsilon, DELTA, stream(seed, epsilon)).scores(task.test_parts)


def trees_on_flips(task, epsilon, seed):
    """SecureBoost on flipped labels."""
    joint, held_out = (np.hstack(part) for part in parts_of(task))
    return BoostedTrees.train(joint, flipped(task.train_labels, epsilon, seed), TreeSettings(**TREES)).probabilities(
        held_out
    )


def scorecard_with_label_noise(task, epsilon, seed):
    """``dp_scorecard`` with noise on X^T t, and the bureau's on its tables at the same epsilon, as the study's job has them."""
    return scorecard(task, partial(fit_labels, host_epsilon=epsilon), epsilon, seed)


def scorecard_with_record_noise(task, epsilon, seed):
    """``dp_scorecard`` with each party's own noise on all tables."""
    return scorecard(task, fit_records, epsilon, seed)


def scorecard(task, fit, epsilon, seed):
    bins = [public_bins(columns, numbers) for columns, numbers in zip(task.features, task.numbers)]
    weights = fit(bins, task.train_parts, task.train_labels, epsilon, DELTA, stream(seed, epsilon))
    return rows_of(bins, task.test_parts) @ weights


def public_bins(columns, numbers):
    """Cut points that read no record: normal quantiles for numbers, which are in public units, and 1/2 for indicators."""
    cuts = [NUMBER_CUTS] * numbers + [INDICATOR_CUTS] * (columns - numbers)
    return TableBins(tuple(ColumnBins(f"x{at}", each, missing=False) for at, each in enumerate(cuts)))


def parts_of(task):
    return task.train_parts, task.test_parts


def stream(seed, epsilon):
    return ReproducibleStream(f"{seed} {epsilon}".encode())
