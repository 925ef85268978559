"""What training costs for growing n on the engine alone, each n in a process of its own: see `hetero_lr_engine`."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from bench import hetero_lr_engine
from bench.epoch_task import KEY_LENGTH
from bench.hetero_lr_engine import WORKERS, EngineCost
from bench.peak_memory import FamilyWatch

GIB = 2**30


@dataclass(frozen=True)
class Growth:
    """What one n cost; ``peak_bytes`` is the largest resident memory of all its processes together."""

    rows: int
    cost: EngineCost
    peak_bytes: int


def measure(rows, epochs, console) -> Growth:
    """Run one n, with its progress on ``console``; raises RuntimeError if it fails."""
    from rich.progress import Progress

    command = [sys.executable, "-m", hetero_lr_engine.__name__, str(rows), str(epochs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        watch, message = FamilyWatch(process.pid), {}
        try:
            with Progress(console=console, transient=True) as progress:
                bar = progress.add_task(f"engine alone: {rows:,} rows", total=None)
                for message in map(json.loads, process.stdout):
                    if "parts" in message:
                        progress.update(bar, completed=message["done"], total=message["parts"])
        finally:
            peak = watch.stop()
    if process.returncode:
        raise RuntimeError(f"The engine alone ended with status {process.returncode} at {rows:,} rows.")
    return Growth(rows, EngineCost(**message), peak)


def growth_table(runs, epochs):
    """One line per n."""
    from rich.table import Table

    table = Table(title=f"The engine alone, {epochs} epochs, {WORKERS} processes, {KEY_LENGTH}-bit keys")
    for heading in ("rows", "CPU s", "products", "us / row", "wall s", "peak GiB", "off by"):
        table.add_column(heading, justify="right", no_wrap=True)
    for run in runs:
        cost = run.cost
        table.add_row(
            f"{run.rows:,}",
            f"{cost.cpu:.2f}",
            f"{cost.product_cpu:.2f}",
            f"{1e6 * cost.cpu / run.rows:.0f}",
            f"{cost.wall:.1f}",
            f"{run.peak_bytes / GIB:.2f}",
            f"{cost.distance:.0e}",
        )
    table.caption = "products: their part of CPU s; off by: largest error of a weight"
    return table
