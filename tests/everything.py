"""`make test-all`: all tests, clusters, containers and benchmarks in turn, each target of the Makefile to its end.

What a machine lacks is skipped with a sentence of the target's own. The last line is one JSON object with what passed, failed
and was skipped in all of them; a target that fails without a count counts as one failure.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable

TARGETS = (
    "test",
    "long",
    "job-fuzz",
    "chaos MINUTES=5",
    "core-test",
    "walk",
    "bench-smoke",
    "cluster-test-standalone",
    "cluster-test-spark",
    "cluster-test-faults",
    "docker-test",
    "board-test",
)
KINDS = ("passed", "failed", "skipped")
SUMMARY = re.compile(r"^[=\s]*(?:\d+ [a-z]+, )*\d+ [a-z]+(?:, \d+ [a-z]+)* in [\d.]+s")
"""The last line of pytest."""
CALLED = {"errors": "failed", "error": "failed", "ran": "passed", "left_out": "skipped"}


def counted(lines: Iterable[str]) -> Counter[str]:
    """What lines of pytest, and the last one of `bench.smoke`, count."""
    found: Counter[str] = Counter()
    for line in lines:
        counts: list[tuple[str, str | int]] = []
        if SUMMARY.match(line):
            counts = [(kind, number) for number, kind in re.findall(r"(\d+) ([a-z]+)", line)]
        elif line.startswith('{"bench": "smoke"'):
            counts = list(json.loads(line)["figures"].items())
        for kind, number in counts:
            if (name := CALLED.get(kind, kind)) in KINDS:
                found[name] += int(number)
    return found


def ended(target: str) -> Counter[str]:
    """What a target counts, its output shown as it comes."""
    lines = []
    with subprocess.Popen(
        ["make", *target.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    found = counted(lines)
    if process.returncode and not found["failed"]:
        found["failed"] = 1
    return found


def main() -> int:
    """Play all targets, or those that are named."""
    total: Counter[str] = Counter()
    for target in sys.argv[1:] or TARGETS:
        begun = time.perf_counter()
        found = ended(target)
        total += found
        told = ", ".join(f"{found[kind]} {kind}" for kind in KINDS)
        print(f"make {target}: {told}, {time.perf_counter() - begun:.0f} s", flush=True)
    print(json.dumps({"bench": "test-all", "figures": {kind: total[kind] for kind in KINDS}}))
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
