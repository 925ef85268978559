"""How fast noise is drawn: our samplers on the integers, numpy's normal and OpenDP's Gaussian, in one run.

    python -m bench.noise

Samples a second of wall time, one thread, the median of several draws after one that is not counted. Every sampler is
run at the scales 1, 10, 1000, 2^30 and 2^40 in steps of the grid; a figure is that of its *slowest* scale. numpy's
normal (float64, PCG64) is what unsafe libraries use: neither cryptographic nor free of leaks in the low bits. OpenDP is
called through its Python binding with a vector of 64-bit integers, so that its figure includes the conversions.

The last line printed is one JSON object with the figures.
"""

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.noise.discrete import discrete_gaussian, discrete_laplace

SCALES = (1.0, 10.0, 1000.0, 2.0**30, 2.0**40)
DRAWS = 7


@dataclass(frozen=True)
class Sampler:
    """``prepare(scale, samples)`` gives the function that is timed; it draws ``samples`` numbers."""

    figure: str
    samples: int
    prepare: Callable


def prepare_numpy_normal(scale, samples):
    generator = np.random.default_rng()
    return lambda: generator.normal(0.0, scale, samples)


def prepare_opendp_gaussian(scale, samples):
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    measurement = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=scale)
    values = [0] * samples
    return lambda: measurement(values)


SAMPLERS = (
    Sampler("discrete_gaussian_per_second", 1_000_000, lambda *law: lambda: discrete_gaussian(*law)),
    Sampler("discrete_laplace_per_second", 1_000_000, lambda *law: lambda: discrete_laplace(*law)),
    Sampler("numpy_normal_per_second", 1_000_000, prepare_numpy_normal),
    Sampler("opendp_gaussian_per_second", 10_000, prepare_opendp_gaussian),
)


def main():
    from rich.console import Console

    console, rates = Console(), {}
    for sampler in SAMPLERS:
        with console.status(sampler.figure):
            rates[sampler.figure] = [samples_per_second(sampler, scale) for scale in SCALES]
    console.print(rate_table(rates))
    print(json.dumps({"bench": "noise", "figures": {name: round(min(row)) for name, row in rates.items()}}))


def samples_per_second(sampler, scale):
    """Samples a second of wall time: the median of ``DRAWS`` draws after a first one, which builds tables."""
    draw = sampler.prepare(scale, sampler.samples)
    draw()
    seconds = []
    for _ in range(DRAWS):
        start = time.perf_counter()
        draw()
        seconds.append(time.perf_counter() - start)
    return sampler.samples / statistics.median(seconds)


def rate_table(rates):
    from rich.table import Table

    table = Table(title="Million samples a second of wall time, one thread, by scale in steps of the grid")
    for heading in ("sampler", *(f"{scale:.4g}" for scale in SCALES)):
        table.add_column(heading, justify="right")
    for figure, row in rates.items():
        table.add_row(figure.removesuffix("_per_second"), *(f"{rate / 1e6:.3g}" for rate in row))
    return table


if __name__ == "__main__":
    main()
