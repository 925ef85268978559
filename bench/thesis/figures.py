"""Figures of [He2021] that the other benches of horizontal training lack, each with the thesis' printed value beside ours.

    python -m bench.thesis.figures [--data FOLDER] [--only contributions | overheads | messages ...] [--runs N]

*contributions* (figures 5.2 to 5.4): test accuracy on MNIST with the thesis' convolution network, by epsilon, of its rule
with its three pairs of f and p, of uniform noise under a guarantee that holds, and without noise. Clients, rounds, batches,
clip and rate are those of `bench.homo_nn_adaptive`, the same for every column: 10 clients, 40 rounds of 300 expected records,
`secure_sum`, delta 1e-5, add-or-remove, PLD accountant. The rule guarantees nothing, whatever its epsilon is called: NOT
PRIVATE. The thesis trains 200 epochs with learning rates of its own, so that its figures stand beside ours for their order,
not as goals. Means over runs; the rule's runs share clients and batches.

*overheads* (section 5.6): what adaptive noise adds to a training, in wall time of one thread: the warm-up of a client, its
contributions, the noise on them, and the noise of one gradient. Medians of 7, for clients of 10 records as in the thesis and
of 600. The thesis' machine was another one (Core i3-7100, GeForce GTX 1050).

*messages* (section 5.6, in words there): bytes that a client of ten records sends in a round and in a training, by aggregation,
from the messages as they are encoded: 8 bytes a number under a mask or with all its noise, a tenth of the numbers with their
places (``upload_fraction`` 0.1, the thesis' theta_u), and one sealed box of 4 bytes a number for every record once an epoch
of ten rounds under the shuffler. The server's weights come back as 8 bytes a number each time.

Streams are seeded: nothing here is private. The last line printed is one JSON object.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from bench.data_files import with_files
from bench.homo_nn_adaptive import TASKS
from bench.homo_nn_adaptive_tasks import DATA
from bench.homo_nn_adaptive_training import Run, plans_of
from bench.thesis.source_training import source_rule, without_noise
from fate_dp.components.common.federation import name_of
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import flat_weights
from fate_dp.components.dp_homo_nn.relevance import group_sums
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.protocols.sealed_shuffle import MessageFormat, Splitting
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import ArrayRows, Transport

EPSILONS = (0.1, 0.5, 2.0, 8.0)
PAIRS = ((0.15, 0.85), (0.10, 0.90), (0.05, 0.95))
UNIFORM, WITHOUT = "uniform", "without"
# Section 5.4: the rule by (epsilon, f), DP-SGD at epsilon 0.1, fixed noise from epsilon 7 on.
PRINTED = {
    (8.0, 0.15): 0.9734,
    (8.0, 0.10): 0.9657,
    (8.0, 0.05): 0.9625,
    (0.1, 0.15): 0.8846,
    (0.1, 0.05): 0.8679,
    (0.1, UNIFORM): 0.7963,
    (8.0, UNIFORM): 0.90,
}
# Section 5.6, in seconds: 20 epochs of pre-training at the server, contributions, noise on weights.
PRINTED_SECONDS = {"warm_up": 68.22, "contributions": 4.35e-3, "noise": 2.67e-3}
CLIENT_RECORDS, TIMES = (10, 600), 7
ROUNDS_PER_EPOCH = 10


def main():
    from rich.console import Console

    # Clients' batches are so small that further threads would mostly wait for each other.
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help=f"folder of mnist.npz ({DATA})")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts (all)")
    parser.add_argument("--runs", type=int, default=1, help="of every training (1)")
    options = parser.parse_args()
    task = replace(TASKS["mnist"](options.data, lambda settings: settings), epsilons=EPSILONS, runs=options.runs)
    console, figures = Console(width=120), {}
    for name in options.only:
        figures |= PARTS[name](task, console)
    print(json.dumps({"bench": "thesis", "figures": figures}))


def contributions(task, console):
    """Accuracy by epsilon and kind: prints the table, returns the figures."""
    found = accuracies(task)
    console.print(accuracy_table(found))
    return {
        f"mnist_{kind if isinstance(kind, str) else f'rule_f_{kind:g}'}_eps_{epsilon:g}": round(value, 4)
        for (epsilon, kind), value in found.items()
    }


def accuracies(task):
    """{(epsilon, f of the rule, or uniform, or without): mean test accuracy over runs}."""
    (split,) = task.splits
    found = {}
    for number in range(task.runs):
        for epsilon in task.epsilons:
            run = Run(task, split, plans_of(task, epsilon), f"{task.name} thesis {number}")
            found.setdefault((epsilon, UNIFORM), []).append(run.uniform())
            for threshold, probability in PAIRS:
                value = source_rule(run, epsilon, threshold, probability)
                found.setdefault((epsilon, threshold), []).append(value)
        found.setdefault((float("inf"), WITHOUT), []).append(without_noise(run))
    return {key: float(np.mean(values)) for key, values in found.items()}


def accuracy_table(found):
    """One row per epsilon: ours / printed."""
    from rich.table import Table

    without = found[float("inf"), WITHOUT]
    table = Table(
        title=f"MNIST, test accuracy here / in the thesis; without noise {without:.4f} here, about 0.97 there",
        caption="* NOT PRIVATE: the rule has no finite epsilon.",
    )
    headings = [f"rule* f {threshold:g}, p {probability:g}" for threshold, probability in PAIRS]
    for heading in ("epsilon", "uniform", *headings):
        table.add_column(heading, justify="right")
    for epsilon in EPSILONS:
        cells = [
            f"{found[epsilon, kind]:.4f} / {PRINTED.get((epsilon, kind), '-')}"
            for kind in (UNIFORM, *(threshold for threshold, _ in PAIRS))
        ]
        table.add_row(f"{epsilon:g}", *cells)
    return table


def overheads(task, console):
    """Seconds of what adaptive noise adds: prints the table, returns the figures."""
    from rich.table import Table

    table = Table(title="Overheads of adaptive noise, medians in milliseconds of wall time, one thread")
    for heading in ("what", *(f"client of {records} records" for records in CLIENT_RECORDS), "the thesis"):
        table.add_column(heading, justify="right")
    timed = {records: seconds_of(task, records) for records in CLIENT_RECORDS}
    figures = {}
    for name in timed[CLIENT_RECORDS[0]]:
        printed = PRINTED_SECONDS.get(name)
        cells = [f"{1000 * timed[records][name]:.2f}" for records in CLIENT_RECORDS]
        table.add_row(name.replace("_", " "), *cells, "-" if printed is None else f"{1000 * printed:g}")
        figures |= {f"{name}_ms_{records}": round(1000 * timed[records][name], 3) for records in CLIENT_RECORDS}
    console.print(table)
    return figures


def seconds_of(task, records):
    """{what: median seconds} for one client of this many records."""
    plan = plans_of(task, EPSILONS[-1])["adaptive"]
    features, labels = (column[:records] for column in task.splits[0][:2])
    module = build_model(task.spec)
    weights, gradients = flat_weights(module), RecordGradients(module)
    stream = ReproducibleStream(b"overheads")
    rows = ArrayRows(features, labels, gradients, stream)
    client = Client(rows, plan.phase(task.settings.warm_up), stream, 0)
    sums = group_sums(module, features)
    return {
        "warm_up": timed(lambda: client.contribution(weights, 0)) * task.settings.warm_up,
        "contributions": timed(lambda: group_sums(module, features)),
        "noise": timed(lambda: plan.contributions.share(sums, ADD_OR_REMOVE, rng=stream)),
    }


def timed(action):
    """Median of `TIMES` wall times, after one that is not counted."""
    seconds = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return median(seconds[1:])


def messages(task, console):
    """Bytes that a client sends: prints the table, returns the figures."""
    from rich.table import Table

    terms = plans_of(task, EPSILONS[-1])["uniform"].terms
    sizes = {"secure_sum": sent_bytes(task, terms)}
    local = replace(terms, aggregation="local")
    sizes |= {"local": sent_bytes(task, local), "local, a tenth": sent_bytes(task, replace(local, upload_fraction=0.1))}
    box = MessageFormat(Splitting(terms.dimension, "none").payload_bytes).ciphertext_bytes
    sizes["shuffle"] = box * CLIENT_RECORDS[0] / ROUNDS_PER_EPOCH
    table = Table(title=f"Bytes of a client of {CLIENT_RECORDS[0]} records, {terms.dimension:,} parameters")
    for heading in ("aggregation", "in a round", f"in {terms.rounds} rounds"):
        table.add_column(heading, justify="right")
    for name, size in sizes.items():
        table.add_row(name, f"{size:,.0f}", f"{size * terms.rounds:,.0f}")
    console.print(table)
    return {f"bytes_{name.replace(', a ', '_')}": round(size) for name, size in sizes.items()}


def sent_bytes(task, terms):
    """Bytes of one client's message, encoded."""
    features, labels = (column[: CLIENT_RECORDS[0]] for column in task.splits[0][:2])
    module, stream = build_model(task.spec), ReproducibleStream(b"messages")
    rows = ArrayRows(features, labels, RecordGradients(module), stream)
    transport = Transport(terms, encrypted=True)
    aggregation, _ = transport.parties[transport.federation.data[0]]
    contribution = Client(rows, terms, stream, 0).contribution(flat_weights(module), 0)
    return len(aggregation.encode(contribution, frozenset(map(name_of, transport.federation.data))))


PARTS = {"contributions": contributions, "overheads": overheads, "messages": messages}


if __name__ == "__main__":
    with_files(main)
