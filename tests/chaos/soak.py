"""`make soak`: one small job after the other on one server, and whether it gets slower or larger.

    --jobs N    in all (default 200)

The last line is one JSON object: seconds of a job and memory of FATE-Flow and the fork server, of the first and the last twenty.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.own_home import guard

from .client import played
from .world import FORK_SERVER, PROGRAM, World

AT_EITHER_END = 20
EPSILON = 0.1
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Measured:
    """One job, and the resident memory of servers after it, in MB."""

    seconds: float
    server: float
    fork_server: float


def memory(world: World, program: str) -> float:
    return sum(each.memory_info().rss for each in world.servers(program)) / MEGABYTE


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak")
    parser.add_argument("--jobs", type=int, default=200)
    options = parser.parse_args()
    measured, failed, flips = [], 0, set()
    with tempfile.TemporaryDirectory(prefix="fate-dp-soak-") as name:
        world = World(Path(name), None)
        world.home.parent.mkdir()
        try:
            world.prepare()
            for number in range(options.jobs):
                begun = time.monotonic()
                ended = played(world.home, EPSILON, 60.0)
                seconds = time.monotonic() - begun
                measured.append(Measured(seconds, memory(world, PROGRAM), memory(world, FORK_SERVER)))
                failed, flips = failed + (not ended.succeeded), flips | {ended.flips}
                print(f"job {number + 1}: {measured[-1]} {ended.sentence}", flush=True)
            faults = list(world.faults())
        finally:
            world.end()
    for fault in faults:
        print(fault)
    ends = {"first": measured[:AT_EITHER_END], "last": measured[-AT_EITHER_END:]}
    figures = {
        f"{kind}_{end}": round(median(getattr(each, kind) for each in some), 1)
        for end, some in ends.items()
        for kind in ("seconds", "server", "fork_server")
    }
    sound = not failed and not faults and len(flips) == 1
    print(
        json.dumps(
            {"bench": "soak", "figures": {"jobs": options.jobs, "failed": failed, "faults": len(faults), **figures}}
        )
    )
    return 0 if sound else 1


if __name__ == "__main__":
    guard().fail_at_exit()
    sys.exit(main())
