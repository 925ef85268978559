"""Runs the tests that touch floating point under every combination of `processors.combinations`, and says what became of
each.

    python -m tests.arithmetic.matrix [further arguments of pytest]

A combination that this processor cannot run is skipped, with the reason. The exit status is 1 if a test failed.
"""

import os
import re
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

from .processors import combinations

# Of settings that a combination does not name, none may come from outside.
NAMES = sorted({name for combination in combinations() for name in combination.variables})
ALL = ("tests/unit", "tests/statistical", "tests/benchmarks", "tests/processes", "tests/protocol")


def run(combination, arguments) -> tuple:
    """(passed, failed, skipped, seconds, output) of the marked tests."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    environment.update({"OMP_NUM_THREADS": "1", **combination.variables})
    command = [sys.executable, "-m", "pytest", "-q", "-m", "arithmetic", "-n", "2", "--dist", "loadfile", *ALL]
    start = time.monotonic()
    done = subprocess.run(
        [*command, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout[-400:])
    }
    failed = counts.get("failed", 0) + counts.get("error", 0)
    if done.returncode and not failed:
        failed = 1
    return counts.get("passed", 0), failed, counts.get("skipped", 0), time.monotonic() - start, done.stdout


def main() -> int:
    """Print a table and, last, one line."""
    console, chosen = Console(width=150), combinations()
    table = Table(title="Tests that touch floating point")
    for heading in ("combination", "passed", "failed", "skipped", "seconds", "why not"):
        table.add_column(heading, justify="left" if heading in ("combination", "why not") else "right")
    ran, good, why = 0, 0, []
    for combination in chosen:
        if combination.blocker:
            why.append(f"{combination.name} ({combination.blocker})")
            table.add_row(combination.name, "", "", "", "", combination.blocker)
            continue
        passed, failed, skipped, seconds, output = run(combination, sys.argv[1:])
        ran, good = ran + 1, good + (not failed)
        table.add_row(combination.name, str(passed), str(failed), str(skipped), f"{seconds:.0f}", "")
        print(f"{combination.name}: {passed} passed, {failed} failed, {seconds:.0f} s", flush=True)
        if failed:
            console.print(output, markup=False, highlight=False)
    console.print(table)
    skipped = f" {'; '.join(why)}" if why else ""
    print(f"combinations: {ran} run, {good} passed, {ran - good} failed, {len(why)} skipped:{skipped}")
    return int(good != ran)


if __name__ == "__main__":
    sys.exit(main())
