"""`make chaos`: an embedded FATE-Flow whose processes are killed and stopped, with a full disk and a clock that is set.

    --minutes N    of rounds, once the server runs (default 40)
    --seed N       of all that is left to chance (drawn and printed unless given)
    --only A,B     only rounds of these kinds (parties, commands, clock, servers, stop, client, up, disk)

What a machine lacks, a compiler or the right to mount a disk, is left out with a sentence. The last line is one JSON object;
the status is 1 where something did not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.own_home import guard

from .rounds import ORDER, ROUNDS, Round, Tally
from .world import Fault, World, disk_at

ROOT = Path(__file__).parents[2]
FOREIGN = ROOT / "tests" / "contract" / "test_foreign_messages.py"
FIGURES = (
    *("jobs_stuck", "ledger_faults", "orphans", "cores_lost", "wrong_party_named", "killed_by_clock", "rig_broken"),
)
"""Of what must never be; one of them is not zero in a run that fails."""


def clock_library(folder: Path) -> Path | None:
    """The compiled clock; None where there is no compiler."""
    compiler, library = shutil.which("gcc") or shutil.which("cc"), folder / "offset.so"
    source = Path(__file__).with_name("offset.c")
    if compiler is None:
        print("No C compiler is here, so that no clock is set.", flush=True)
        return None
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def kinds(world: World, only: str) -> list[str]:
    """The rounds in their order, without those for which this machine lacks something."""
    chosen = [kind for kind in ORDER if not only or kind in only.split(",")]
    lacking = {"clock": world.preload is None, "disk": not world.is_root}
    return [kind for kind in chosen if not lacking.get(kind)]


def played(world: World, ends: float, seed: int, only: str) -> Tally:
    """Rounds until the time is over."""
    tally, number, order = Tally(), 0, kinds(world, only)
    draw = random.Random(seed)
    while time.monotonic() < ends:
        kind, begun, faults = order[number % len(order)], time.monotonic(), len(tally.faults)
        before = len(tally.victims)
        try:
            current = Round(world, tally, draw)
            current.play(lambda: ROUNDS[kind](current))
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            tally.faults.append(Fault("rig_broken", traceback.format_exc()[-3000:] if error else ""))
        hit = ", ".join(f"{count} {what}" for what, count in Counter(tally.victims[before:]).items())
        told = f"round {number} ({kind}): {time.monotonic() - begun:.0f} s, load {os.getloadavg()[0]:.1f}"
        print(f"{told}{', killed ' if hit else ''}{hit}", flush=True)
        for fault in tally.faults[faults:]:
            print(f"FAULT in round {number} ({kind}) of seed {seed}: {fault}", flush=True)
        number += 1
    return tally


def foreign_messages(folder: Path) -> tuple[int | None, int | None]:
    """How many messages of another job were accepted, of how many that were tried; None where there is no such test."""
    if not FOREIGN.is_file():
        return None, None
    report = folder / "foreign.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", f"--junitxml={report}", FOREIGN]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    found = re.findall(r'name="foreign_messages" value="\((\d+), (\d+)\)"', report.read_text(encoding="utf-8"))
    return sum(int(accepted) for accepted, _ in found), sum(int(tried) for _, tried in found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"Seed {options.seed}.", flush=True)
    with tempfile.TemporaryDirectory(prefix="fate-dp-chaos-") as name, disk_at(Path(name) / "disk") as is_root:
        if not is_root:
            print("Only root may mount a disk that can be filled; no disk is.", flush=True)
        accepted, tried = foreign_messages(Path(name))
        world = World(Path(name), clock_library(Path(name)), is_root)
        try:
            world.prepare()
            begun = time.monotonic()
            tally = played(world, begun + 60 * options.minutes, options.seed, options.only)
        finally:
            world.end()
    counted = Counter(fault.figure for fault in tally.faults)
    named = tally.disk_full_named / tally.disks_filled if tally.disks_filled else None
    figures = {
        "kills": tally.kills,
        **{name: counted[name] for name in FIGURES},
        "clock_steps": tally.clock_steps,
        "stops": tally.stops,
        "disks_filled": tally.disks_filled,
        "disk_full_named": named,
        "foreign_messages_accepted": accepted,
        "foreign_messages_tried": tried,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "seed": options.seed,
    }
    print(json.dumps({"bench": "chaos", "figures": figures}))
    return 0 if named in (None, 1.0) and not tally.faults and not accepted and tried != 0 else 1


if __name__ == "__main__":
    guard().fail_at_exit()
    sys.exit(main())
