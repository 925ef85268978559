"""Many rows: label_flip and dp_hetero_lr on up to 10^7 rows by 30 columns, dp_scorecard and align on 10^6, with flat memory.

    python -m bench.scale [--rows ROWS ...] [--scorecard ROWS] [--align ROWS] [--folder out/scale] [--again]

Guest and host are processes over FATE's standalone engine, each with two workers; tables are made and read block by block
(`scale_tables`; one partition for each 2^18 rows, FATE's blocks of 128 rows). label_flip flips at epsilon 2 and writes the
ledger, dp_hetero_lr trains 30 full-batch epochs on the flips under 2048-bit keys, and the weights are compared with
gradient descent in the clear. CPU seconds are those of all processes of both parties, making the rows left out. Memory is the summed PSS of
all of them, looked at twice a second: mapped pages of the engine's files are in it. align runs its kernels over a pipe, as in
`make bench-align`; 0 rows leave a part out.

A run is written to the folder when it ends, and kept: what was cut off goes on with the next size, and ``--again`` measures
anew. 10^7 rows take about half an hour on two idle cores and 40 GB of disk.

The last line printed is one JSON object: `rows`, the most that dp_hetero_lr was trained on; `peak_gib`, the largest memory of any
run; `growth_exponent`, of the CPU of dp_hetero_lr in rows by least squares in logarithms. `cluster_seconds` is **computed**, not
measured: what the CPU seconds of dp_hetero_lr at the most rows would take on 100 cores without any loss.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.peak_memory import FamilyWatch, pss_bytes
from bench.scale_training import GUEST, HOST, chain, scorecard, weights_off
from fate_dp.crypto.kernel import kernel
from tests.support.local_parties import run_parties

ROWS, MILLION = (100_000, 1_000_000, 10_000_000), 1_000_000
EPOCHS, CLUSTER_CORES, FEATURES = 30, 100, 10
LOOK_SECONDS, TIMEOUT = 0.5, 4 * 3600
WORKERS = 2
FARTHEST = 1e-4
"""What weights may be off: numbers are rounded to 2^-20."""


class MemoryWatch(FamilyWatch):
    """Keeps every look at this process and all that it started, with its time by the clock that all processes share."""

    def __init__(self):
        self.looks = []
        super().__init__(os.getpid(), pss_bytes, LOOK_SECONDS)

    def seen(self, total):
        super().seen(total)
        self.looks.append((time.monotonic(), total))

    def between(self, began, ended) -> int:
        """The largest sum from one moment to another."""
        return max((total for at, total in self.looks if began <= at <= ended), default=0)


def parties_cost(function, rows, **arguments) -> tuple[dict, dict]:
    """Run a function at guest and host; what it cost, stage by stage, and its results by party.

    Raises:
        RuntimeError: a party failed.
    """
    with tempfile.TemporaryDirectory() as home:
        environment, watch = {"FATE_DP_HOME": home, "OMP_NUM_THREADS": "1"}, MemoryWatch()
        try:
            results = run_parties(
                function, (GUEST, HOST), environment, TIMEOUT, record=False, workers=WORKERS, rows=rows, **arguments
            )
        finally:
            peak = watch.stop()
    for party, result in results.items():
        if result.error:
            raise RuntimeError(f"The {party[0]} failed at {rows:,} rows: {result.error}")
    runs, stages = {party: result.value for party, result in results.items()}, {}
    for name in runs[GUEST].stages:
        of_parties = [run.stages[name] for run in runs.values()]
        began, ended = min(one.began for one in of_parties), max(one.ended for one in of_parties)
        cpu = sum(one.cpu for one in of_parties)
        stages[name] = {"cpu": cpu, "wall": ended - began, "peak_bytes": watch.between(began, ended)}
    return {"rows": rows, "stages": stages, "peak_bytes": peak, "kernel": kernel().sentence}, runs


def hetero_lr(rows) -> dict:
    """label_flip and dp_hetero_lr; raises RuntimeError if the weights are not those of gradient descent."""
    with tempfile.TemporaryDirectory() as folder:
        labels = Path(folder, "labels.npy")
        cost, runs = parties_cost(chain, rows, epochs=EPOCHS, labels_file=labels)
        off = weights_off(rows, EPOCHS, np.concatenate([runs[party].weights for party in (GUEST, HOST)]), labels)
    if not off <= FARTHEST:
        raise RuntimeError(f"At {rows:,} rows a weight is off by {off:.0e}; the figures would be of something else.")
    return {**cost, "epochs": EPOCHS, "off": off}


def of_scorecard(rows) -> dict:
    return parties_cost(scorecard, rows)[0]


def of_align(rows) -> dict:
    """The kernels of align, all ids common; its memory is that of both parties and of the check of their shares."""
    from bench.align import seconds_of

    watch, began = MemoryWatch(), time.monotonic()
    try:
        seconds = seconds_of(rows, rows, FEATURES)
    finally:
        peak = watch.stop()
    stage = {"cpu": seconds.cpu, "wall": seconds.wall, "peak_bytes": watch.between(began, time.monotonic())}
    return {"rows": rows, "stages": {"align": stage}, "peak_bytes": peak, "kernel": kernel().sentence}


def kept(folder: Path, name: str, work, rows: int, again: bool, console) -> dict:
    """A run from its file, or measured and written there."""
    path = folder / f"{name}-{rows}.json"
    if path.exists() and not again:
        console.print(f"{name}, {rows:,} rows: measured at {time.ctime(path.stat().st_mtime)}, kept in {path}")
        return json.loads(path.read_text())
    with console.status(f"{name}: {rows:,} rows"):
        found = work(rows)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return found


def run_table(runs: list):
    """One line for each stage of each run."""
    from rich.table import Table

    table = Table("stage", "rows", "CPU s", "us / row", "wall s", "peak GiB", title="30 columns, both parties together")
    for run in runs:
        for name, stage in run["stages"].items():
            peak, a_row = stage["peak_bytes"] / 2**30, 1e6 * stage["cpu"] / run["rows"]
            numbers = (f"{stage['cpu']:.1f}", f"{a_row:.0f}", f"{stage['wall']:.0f}", f"{peak:.2f}")
            table.add_row(name, f"{run['rows']:,}", *numbers)
    return table


def figures_of(trained: list, others: list) -> dict:
    """Of runs of dp_hetero_lr by rising rows, and of the other parts."""
    cpu = [run["stages"]["dp_hetero_lr"]["cpu"] for run in trained]
    rows = [run["rows"] for run in trained]
    exponent = float(np.polyfit(np.log(rows), np.log(cpu), 1)[0]) if len(rows) > 1 else None
    return {
        "rows": rows[-1],
        "peak_gib": round(max(run["peak_bytes"] for run in [*trained, *others]) / 2**30, 2),
        "peak_gib_hetero_lr": round(max(run["peak_bytes"] for run in trained) / 2**30, 2),
        "growth_exponent": exponent and round(exponent, 3),
        "cpu_seconds": round(cpu[-1], 1),
        "wall_seconds": round(trained[-1]["stages"]["dp_hetero_lr"]["wall"], 1),
        "cluster_seconds": round(cpu[-1] / CLUSTER_CORES, 1),
        "ifma": int(kernel().library is not None),
    }


def main() -> None:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="of label_flip and dp_hetero_lr")
    parser.add_argument("--scorecard", type=int, default=MILLION, metavar="ROWS", help="of dp_scorecard; 0 for none")
    parser.add_argument("--align", type=int, default=MILLION, metavar="ROWS", help="of align; 0 for none")
    parser.add_argument("--folder", type=Path, default=Path("out/scale"), help="of results that are kept")
    parser.add_argument("--again", action="store_true", help="measure what is kept anew")
    given, console = parser.parse_args(), Console()
    console.print(kernel().sentence)
    parts = [("hetero-lr", hetero_lr, rows) for rows in sorted(set(given.rows))]
    parts += [
        (name, work, rows)
        for name, work, rows in (("scorecard", of_scorecard, given.scorecard), ("align", of_align, given.align))
        if rows
    ]
    runs = [kept(given.folder, name, work, rows, given.again, console) for name, work, rows in parts]
    console.print(run_table(runs))
    trained = len(set(given.rows))
    print(json.dumps({"bench": "scale", "figures": figures_of(runs[:trained], runs[trained:])}))


if __name__ == "__main__":
    main()
