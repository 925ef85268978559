"""What the preparation of a Lending Club file costs, beside a bare `pandas.read_csv` of the same file in the same run.

    python -m bench.prep [--rows N]

An invented raw file of the public file's size (887,379 rows) is written first and is not measured. Then both sides run
in turn, each in a fresh process and three times over: pandas reading the file and nothing else, and `fate-dp prep
lending-club` as a user runs it, with all its defaults: cleaning, split, division, over-sampling, every CSV written and
hashed. Wall time is that of the whole process, memory its largest resident set; a ratio is of the medians.

The last line printed is one JSON object with the figures.
"""

import argparse
import json
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.peak_memory import measure

ROWS = 887_379
REPEATS = 3
GIB = 2**30
MAX_WALL_RATIO, MAX_MEMORY_RATIO = 2.0, 1.3
READ = (sys.executable, "-c", "import sys, pandas; pandas.read_csv(sys.argv[1])")
INVENT = (sys.executable, "-m", "examples.synthetic_loans")
PREP = (Path(sys.executable).with_name("fate-dp"), "prep")


@dataclass(frozen=True)
class Side:
    """One way to use the file, and its command."""

    name: str
    command: tuple

    def run(self):
        return measure([str(word) for word in self.command])


def main():
    from rich.console import Console

    parser = argparse.ArgumentParser(description="Cost of `fate-dp prep lending-club` beside pandas.read_csv.")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"rows of the raw file ({ROWS})")
    rows, console = parser.parse_args().rows, Console()
    with tempfile.TemporaryDirectory() as folder:
        raw, out = Path(folder) / "loan.csv", Path(folder) / "prepared"
        with console.status(f"inventing {rows:,} loans"):
            Side("file", (*INVENT, "--rows", rows, "--out", raw)).run()
        console.print(f"Raw file: {rows:,} rows, {raw.stat().st_size / 1e6:.0f} MB")
        sides = (
            Side("pandas.read_csv", (*READ, raw)),
            Side("fate-dp prep", (*PREP, "lending-club", "--csv", raw, "--out", out)),
        )
        costs = run_in_turn(sides, console)
    console.print(cost_table(costs))
    print(json.dumps({"bench": "prep", "figures": figures(*costs.values())}))


def run_in_turn(sides, console):
    """{name: [Cost, ...]}, one of each side before the next of any, so that a busy machine slows all of them."""
    costs = {side.name: [] for side in sides}
    for repeat in range(REPEATS):
        for side in sides:
            with console.status(f"{side.name}, {repeat + 1} of {REPEATS}"):
                costs[side.name].append(side.run())
    return costs


def figures(bare, ours):
    """The figures of the last line: medians, and ours over pandas'."""
    seconds = [statistics.median(cost.seconds for cost in costs) for costs in (bare, ours)]
    peaks = [statistics.median(cost.peak_bytes for cost in costs) / GIB for costs in (bare, ours)]
    return {
        "wall_ratio": round(seconds[1] / seconds[0], 3),
        "peak_memory_ratio": round(peaks[1] / peaks[0], 3),
        "read_csv_seconds": round(seconds[0], 2),
        "prep_seconds": round(seconds[1], 2),
        "read_csv_gib": round(peaks[0], 3),
        "prep_gib": round(peaks[1], 3),
    }


def cost_table(costs):
    """One column per side, and ours over pandas' with what is aimed at."""
    from rich.table import Table

    table = Table(title=f"Medians of {REPEATS} runs, each in a process of its own")
    for heading in ("", *costs, "ratio", "at most"):
        table.add_column(heading, justify="right")
    found = figures(*costs.values())
    lines = (
        ("wall s", "seconds", "wall_ratio", MAX_WALL_RATIO),
        ("peak GiB", "gib", "peak_memory_ratio", MAX_MEMORY_RATIO),
    )
    for title, unit, ratio, largest in lines:
        sides = (f"{found[f'{side}_{unit}']:.2f}" for side in ("read_csv", "prep"))
        table.add_row(title, *sides, f"{found[ratio]:.2f}", f"{largest:.1f}")
    table.add_row("each run, wall s", *(", ".join(f"{run.seconds:.1f}" for run in runs) for runs in costs.values()))
    return table


if __name__ == "__main__":
    main()
