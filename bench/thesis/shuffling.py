"""Figures 5.5 to 5.7 of [He2021] on MNIST, Fashion-MNIST and CIFAR-10: what clients, rounds and sampling do, and other methods.

    python -m bench.thesis.shuffling [--data ../shared/data] [--features FOLDER] [--only clients | rounds | methods ...]

*clients* (figure 5.5): test accuracy by the number of clients, each of which brings a five-hundredth of the training records, for
``shuffle``, ``secure_sum`` and no noise, at the epsilons of the thesis' text: 1, 5 and 10.

*rounds* (figure 5.6): by rounds and by the share of the records in a round. In ``shuffle`` a record answers once an epoch, so that
with one epoch the share is one over the rounds; ``secure_sum`` has both apart. The thesis samples clients; here each record has its own
coin, which is the sampling that `dp_homo_nn` offers for unit record.

*methods* (figure 5.7): at the thesis' epsilons and numbers of clients, 4 and 100, 4 and 200, 10 and 500, every method that this
project has in one table: ``secure_sum``, ``shuffle``, ``local``, local noise of which a tenth is sent (Shokri and Shmatikov's upload,
with noise that has a guarantee), one pure answer of each record without any shuffler (what Bhowmick et al. 2018 do, at an epsilon that
protects), and updates of whole clients (Geyer et al. 2017: unit client). The values that the thesis prints for itself and for others
stand beside; alpha-CLDP of Truex et al. 2020 is a bound on distances that no epsilon here compares with, and DLPP is a bound per
number that is sent, which does not add up to one for a record: their printed values alone.

One account for all but the thesis' own: unit record (or client), delta 1e-5, replace-one, PLD accountant, against server, clients
and model. *No noise* is noise of a millionth of the clip. Everything is softmax regression on few numbers of a picture, since the error
of ``shuffle`` grows with the root of the parameters: the first 40 coordinates of what `homo_nn_features` makes of it. What ``secure_sum``
reaches with all of them stands in `make bench-homo-nn`.

Learning rates follow the rule of `homo_nn_sweeps`; those of whole clients' updates were chosen on the last 10,000 training records of
MNIST. Means over --runs divisions of the records; noise and samples are the operating system's. Pictures: out/thesis/NAME.html. The last
line printed is one JSON object.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from bench.data_files import with_files
from bench.homo_nn_features import FewCoordinates, FewMatches, keep_features
from bench.homo_nn_pictures import CLASSES, FOLDER
from bench.homo_nn_sweeps import learning_rate
from bench.homo_nn_training import shape_of, train
from bench.homo_nn_workers import Job, Workers
from bench.thesis.shuffling_report import THESIS, Point, figure_name, table_of, write_page
from fate_dp.components.dp_homo_nn.models.patches import Patches
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms
from fate_dp.components.protocols.noisy_rounds.terms import CLIENT, LOCAL, RECORD, SECURE_SUM, SHUFFLE, RoundTerms

REPORTS = Path("out/thesis")
DELTA, RELATION, CLIP, MAX_DROPOUTS = 1e-5, "replace_one", 1.0, 1
NO_NOISE, QUIET = "no noise", 1e-6
PURE, SPARSE, UPDATES = "local, pure", "local, a tenth sent", "whole clients"
COORDINATES = {
    "mnist": FewCoordinates(40),
    "fashion": FewMatches(Patches((1, 28, 28), filters=100), 40),
    "cifar10": FewMatches(Patches((3, 32, 32), filters=100), 40),
}
AGGREGATION_OF = {NO_NOISE: SECURE_SUM, PURE: SHUFFLE, SPARSE: LOCAL, UPDATES: SECURE_SUM}
# Of whole clients' updates: steps of a client, records in each, their rate, the clip of what they lead to, and the server's rate.
STEPS, STEP_RECORDS, STEP_RATE, UPDATE_CLIP, UPDATE_RATE = 5, 100, 0.5, 0.5, 0.3
CLIENT_NUMBERS = (10, 100, 200, 500)
ROUND_NUMBERS = (5, 10, 20, 40)
SHARES = (0.05, 0.25, 1.0)


def main():
    from rich.console import Console

    options = _options()
    console, figures = Console(width=140), {}
    with tempfile.TemporaryDirectory() as temporary, Workers(options.processes, console) as workers:
        folder = options.features or Path(temporary)
        for data, coordinates in COORDINATES.items():
            keep_features(workers, data, options.data, coordinates, folder / f"{data}_few")
        for name in options.only:
            points = POINTS[name]()
            found = train_all(workers, folder, points, options.runs)
            console.print(table_of(name, found))
            write_page(REPORTS / f"{name}.html", name, found)
            figures |= {figure_name(name, point): round(value, 4) for point, value in found.items()}
    console.print(f"Pictures: {', '.join(str(REPORTS / f'{name}.html') for name in options.only)}")
    print(json.dumps({"bench": "thesis-shuffling", "figures": figures}))


def _options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder of mnist.npz and the others")
    parser.add_argument("--features", type=Path, help="keep features in this folder, and use those that are there")
    parser.add_argument("--only", nargs="+", choices=POINTS, default=list(POINTS), help="parts (all)")
    parser.add_argument("--runs", type=int, default=1, help="divisions of the records over the clients (1)")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


def train_all(workers, folder, points, runs):
    """{point: mean test accuracy}."""
    jobs = []
    for point in points:
        terms = terms_of(point, *shape_of(folder / f"{point.data}_few"))
        rate = UPDATE_RATE if point.method == UPDATES else learning_rate(terms)
        jobs += [
            Job(f"{point.data}, {point.method}", point.rounds, train, (folder / f"{point.data}_few", terms, rate, seed))
            for seed in range(runs)
        ]
    accuracies = iter(workers.run(jobs))
    return {point: fmean(next(accuracies) for _ in range(runs)) for point in points}


def terms_of(point, records, features):
    """Calibrated ``RoundTerms`` of a point on this many records and features."""
    records, aggregation = round(point.part * records), AGGREGATION_OF.get(point.method, point.method)
    terms = RoundTerms(
        aggregation=aggregation,
        unit=RECORD,
        clients=point.clients,
        max_dropouts=MAX_DROPOUTS,
        rounds=point.rounds,
        batch_size=records / point.rounds if aggregation == SHUFFLE else point.share * records,
        records=records,
        clips=(CLIP,),
        dimension=CLASSES * (features + 1),
        delta=DELTA,
    )
    if point.method == UPDATES:
        terms = replace(
            terms,
            unit=CLIENT,
            records=point.clients,
            batch_size=point.share * point.clients,
            clips=(UPDATE_CLIP,),
            local_steps=STEPS,
            local_learning_rate=STEP_RATE,
            local_batch_size=STEP_RECORDS,
        )
    if point.method == SPARSE:
        terms = replace(terms, upload_fraction=0.1)
    if point.method == NO_NOISE:
        return terms.with_noise(noise_multiplier=QUIET)
    if point.method == PURE:
        return terms.with_noise(epsilon0=point.epsilon)
    return calibrate_terms(terms, point.epsilon, DELTA, RELATION)


def points_by_clients():
    """Figure 5.5: every client brings as many records."""
    return [
        Point(data, method, printed.by_clients[0], clients, 20, part=clients / max(CLIENT_NUMBERS))
        for data, printed in THESIS.items()
        for method in (SHUFFLE, SECURE_SUM, NO_NOISE)
        for clients in CLIENT_NUMBERS
    ]


def points_by_rounds():
    """Figure 5.6: rounds, and the share of the records in each."""
    points = []
    for data, printed in THESIS.items():
        for rounds in ROUND_NUMBERS:
            points.append(Point(data, SHUFFLE, *printed.compared, rounds))
            points += [Point(data, SECURE_SUM, *printed.compared, rounds, share) for share in SHARES]
            points.append(Point(data, NO_NOISE, *printed.compared, rounds))
    return points


def points_by_method():
    """Figure 5.7: all methods at the thesis' epsilon and clients."""
    shapes = {SHUFFLE: (20,), PURE: (20,), UPDATES: (20, 1.0)}
    return [
        Point(data, method, *printed.compared, *shapes.get(method, ()))
        for data, printed in THESIS.items()
        for method in (NO_NOISE, SECURE_SUM, SHUFFLE, LOCAL, SPARSE, PURE, UPDATES)
    ]


POINTS = {"clients": points_by_clients, "rounds": points_by_rounds, "methods": points_by_method}


if __name__ == "__main__":
    with_files(main)
