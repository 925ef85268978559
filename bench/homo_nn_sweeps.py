"""The three trust models side by side: accuracy by epsilon, by number of clients, by sampling rate and by rounds.

    python -m bench.homo_nn_sweeps [--data ../shared/data] [--features FOLDER] [--processes 2]

MNIST, 60,000 training records divided over the clients at random. The model is small, since the error of ``shuffle``
grows with the root of the number of parameters: softmax regression on the 40 first whitened coordinates of scattering
coefficients along the principal directions of made-up pictures (`homo_nn_features`), 410 parameters.

One account for all: unit record, delta 1e-5, *replace-one*, which is the only relation that all three have one for, PLD
accountant; against server, clients and model. In ``shuffle`` a record sends once, in one of 20 rounds (one epoch). What
holds against the shuffler together with the server is the message's own epsilon0, printed beside it.

Learning rates follow one rule in public numbers, ``learning_rate``; its two constants were chosen on the last 10,000
training records, with 13 trainings on the others. Every point is one training.

Where shuffling starts to pay is not measured but computed (`homo_nn_comparison`): the number of clients from which on
its error in a round's mean is below that of ``local`` at equal epsilon, for one to 600 records per client.

Writes out/homo_nn/report.html.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from bench.data_files import with_files
from bench.homo_nn import parse_options
from bench.homo_nn_comparison import errors_at, mean_error, shuffling_pays_from
from bench.homo_nn_features import FewCoordinates, keep_features
from bench.homo_nn_pictures import CLASSES
from bench.homo_nn_report import write_report
from bench.homo_nn_training import shape_of, train
from bench.homo_nn_workers import Job, Workers
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms
from fate_dp.components.protocols.noisy_rounds.terms import AGGREGATIONS, LOCAL, SECURE_SUM, SHUFFLE, RoundTerms

REPORT = Path("out/homo_nn/report.html")
FEATURES = 40
SEED = 0
DELTA, RELATION = 1e-5, "replace_one"
CLIP, MAX_DROPOUTS = 1.0, 1
MAX_RATE, RATE_TIMES_ERROR = 4.0, 0.12
RECORDS_PER_CLIENT = (1, 10, 100, 600)
CLIENT_NUMBERS = (10, 100, 1_000, 10_000, 100_000)
COMPARED_EPSILON = 1.0


@dataclass(frozen=True)
class Point:
    """One training of a sweep; public settings. ``sampling`` is the share of all records in a round."""

    aggregation: str
    epsilon: float = 4.0
    clients: int = 100
    rounds: int = 40
    sampling: float = 0.05


def points_of(trust, **changed):
    """The standard point of a trust model, with changes: in ``shuffle`` one epoch of 20 rounds."""
    point = Point(trust, rounds=20) if trust == SHUFFLE else Point(trust)
    return replace(point, **changed)


SWEEPS = {
    "epsilon": [points_of(trust, epsilon=epsilon) for trust in AGGREGATIONS for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)],
    "clients": [points_of(trust, clients=clients) for trust in AGGREGATIONS for clients in (10, 30, 100, 300, 600)],
    "sampling": [
        Point(SECURE_SUM, epsilon=epsilon, sampling=sampling)
        for epsilon in (0.5, 4.0)
        for sampling in (0.003, 0.01, 0.03, 0.1, 0.3)
    ],
    "rounds": [
        Point(SECURE_SUM, epsilon=epsilon, rounds=rounds) for epsilon in (0.5, 4.0) for rounds in (5, 10, 20, 40, 80)
    ],
}


def main():
    from rich.console import Console

    options = parse_options(__doc__)
    console = Console()
    with tempfile.TemporaryDirectory() as temporary, Workers(options.processes, console) as workers:
        folder = (options.features or Path(temporary)) / "mnist_principal"
        keep_features(workers, "mnist", options.data, FewCoordinates(FEATURES), folder)
        outcomes = run_sweeps(workers, folder)
        crossings = workers.run(
            [Job("where shuffling pays", 1, compare, (records, shape_of(folder)[1])) for records in RECORDS_PER_CLIENT]
        )
    console.print(crossing_table(crossings))
    write_report(REPORT, SWEEPS, outcomes, crossings)
    console.print(f"Pictures: {REPORT}")


def run_sweeps(workers, folder):
    """{point: (terms, accuracy)} of all points of all sweeps; equal points are trained once."""
    points = list(dict.fromkeys(point for sweep in SWEEPS.values() for point in sweep))
    terms = {point: terms_of(point, *shape_of(folder)) for point in points}
    jobs = [
        Job(
            f"{point.aggregation} trainings",
            point.rounds,
            train,
            (folder, terms[point], learning_rate(terms[point]), SEED),
        )
        for point in points
    ]
    return {point: (terms[point], accuracy) for point, accuracy in zip(points, workers.run(jobs))}


def terms_of(point, records, features):
    """Calibrated ``RoundTerms`` of a point."""
    terms = RoundTerms(
        aggregation=point.aggregation,
        unit="record",
        clients=point.clients,
        max_dropouts=MAX_DROPOUTS,
        rounds=point.rounds,
        batch_size=point.sampling * records,
        records=records,
        clips=(CLIP,),
        dimension=CLASSES * (features + 1),
        delta=DELTA,
    )
    return calibrate_terms(terms, point.epsilon, DELTA, RELATION)


def learning_rate(terms):
    """Falls with the error that noise adds to a round's mean, in units of the clip: public numbers only."""
    return min(MAX_RATE, RATE_TIMES_ERROR / mean_error(terms))


def compare(records_per_client, features, tick):
    """Computed comparison for a number of records per client.

    Returns (records per client, {clients: {trust: error}}, number of clients from which shuffling pays or None).
    """
    standard, clients = Point(LOCAL, epsilon=COMPARED_EPSILON), CLIENT_NUMBERS[0]
    terms = terms_of(replace(standard, clients=clients), records_per_client * clients, features)
    errors = {number: errors_at(terms, COMPARED_EPSILON, DELTA, number) for number in CLIENT_NUMBERS}
    crossing = shuffling_pays_from(terms, COMPARED_EPSILON, DELTA, most_clients=CLIENT_NUMBERS[-1])
    tick()
    return records_per_client, errors, crossing


def crossing_table(crossings):
    from rich.table import Table

    table = Table(
        title=f"Clients from which shuffling has the smaller error than local noise; epsilon {COMPARED_EPSILON:g}, "
        f"delta {DELTA:g}, replace-one, {CLASSES * (FEATURES + 1)} parameters"
    )
    for heading in ("records per client", "clients"):
        table.add_column(heading, justify="right")
    for records, _, crossing in crossings:
        table.add_row(str(records), f"none up to {CLIENT_NUMBERS[-1]:,}" if crossing is None else f"{crossing:,}")
    return table


if __name__ == "__main__":
    with_files(main)
