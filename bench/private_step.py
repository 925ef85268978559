"""Private training steps a second: ours against Opacus in each of its modes, in one run; and the shuffler's messages.

    python -m bench.private_step [--threads 1] [--repeats 7]

A step takes a batch of 512 made-up images that lies in memory and changes the weights of the source's CNN (105,506
parameters, 1 x 32 x 32): gradients per record, clipping to l2 norm 1, Gaussian noise of multiplier 1, SGD. Ours has the
exact sum and discrete noise from the operating system's entropy, as in training; Opacus has ``secure_mode`` off, which
is its fastest. Opacus' modes are run as they are and with the module in ``channels_last`` memory, which is what ours
does by itself. All sides use the same number of torch threads and take turns; a side's rate is the median of its turns.

Figures: ``opacus_ratio``, records a second of ours over those of Opacus' fastest mode, and
``shuffler_messages_per_second``, see `shuffler_throughput`. The last line printed is one JSON object with them.
"""

import argparse
import json
import statistics
import time
import warnings

import numpy as np
import torch

from bench.private_step_opacus import LAYOUTS, MODES, opacus_step
from bench.shuffler_throughput import messages_per_second
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism

SPEC = ModelSpec("cnn", 1024, 10)
BATCH, CLIP, NOISE_MULTIPLIER, LEARNING_RATE = 512, 1.0, 1.0, 0.1
# Of a Poisson sample; the noise and its event need it, the time does not depend on it.
SAMPLING_PROBABILITY = 0.01
OURS = "ours"


def our_step(features, labels):
    """A function that does one private step."""
    module = build_model(SPEC)
    gradients = RecordGradients(module)
    weights = torch.from_numpy(flat_weights(module)).requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=LEARNING_RATE)

    def step():
        clipped = gradients.clipped_sum(weights.detach().numpy(), features, labels, CLIP)
        release = gaussian_mechanism(
            clipped,
            NOISE_MULTIPLIER,
            relation=ADD_OR_REMOVE,
            observers=("server",),
            sampling_probability=SAMPLING_PROBABILITY,
        )
        weights.grad = torch.from_numpy(release.scaled(1 / BATCH).value)
        optimizer.step()

    return step


def sides(features, labels):
    """Dict from a side's name to the function that does one of its steps."""
    images = torch.from_numpy(features).view(-1, 1, 32, 32)
    steps = {OURS: our_step(features, labels)}
    for mode in MODES:
        for layout, memory_format in LAYOUTS.items():
            module = build_model(SPEC)[1:]
            step = opacus_step(
                module.to(memory_format=memory_format),
                images,
                torch.from_numpy(labels),
                mode,
                clip=CLIP,
                noise_multiplier=NOISE_MULTIPLIER,
                learning_rate=LEARNING_RATE,
            )
            steps[f"opacus {mode}, {layout}"] = step
    return steps


def rates_of(steps, repeats, progress):
    """Dict from a side to its records a second, in every repeat; the sides take turns, after one step uncounted."""
    for step in steps.values():
        step()
    rates = {side: [] for side in steps}
    for repeat in range(repeats):
        for side, step in steps.items():
            progress(f"repeat {repeat + 1} of {repeats}: {side}")
            start = time.perf_counter()
            step()
            rates[side].append(BATCH / (time.perf_counter() - start))
    return rates


def ratio_to_fastest(medians):
    """Ours over the fastest of the others."""
    return medians[OURS] / max(rate for side, rate in medians.items() if side != OURS)


def rate_table(rates, threads):
    from rich.table import Table

    table = Table(title=f"Private steps of batch {BATCH}, records a second, torch threads: {threads}")
    for heading in ("side", "median", "slowest", "fastest"):
        table.add_column(heading, justify="left" if heading == "side" else "right")
    for side, row in rates.items():
        table.add_row(side, *(f"{value:,.0f}" for value in (statistics.median(row), min(row), max(row))))
    return table


def main():
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="torch threads of all sides")
    parser.add_argument("--repeats", type=int, default=7, help="steps of each side that are counted")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")  # Opacus warns of what it was asked for: no secure mode, hooks on a module.
    torch.set_num_threads(given.threads)
    generator, console = np.random.default_rng(0), Console()
    features = generator.random((BATCH, SPEC.features), dtype=np.float32)
    labels = generator.integers(0, SPEC.classes, BATCH)
    with console.status("building the sides") as status:
        rates = rates_of(sides(features, labels), given.repeats, status.update)
        status.update("messages through the shuffler")
        messages = messages_per_second()
    console.print(rate_table(rates, given.threads))
    ratio = ratio_to_fastest({side: statistics.median(row) for side, row in rates.items()})
    figures = {"opacus_ratio": round(ratio, 3), "shuffler_messages_per_second": round(messages)}
    print(json.dumps({"bench": "private-step", "figures": figures}))


if __name__ == "__main__":
    main()
