"""`make kernel-check`: evidence for the native code that runs by itself.

The three kernels are run in processes of their own. *installed*: as users have them, over all products of small moduli, the edges of
the limbs, drawn numbers and the vectors of X25519, against gmpy2, libsodium and torch. *sanitized*: fewer numbers, and the kernels'
unit tests, with GCC's address and undefined-behaviour sanitizers. *emulated*: the code for AVX-512 IFMA in plain C, on any processor,
where every sum, difference and factor is held to the bound that the code rests on.

Without AVX-512 IFMA the first two run private steps alone, and the third takes over the rest of the first, unless it is quick with the
address sanitizer besides; what ran is said. A deliberate fault goes first to each build: one that does not see it fails the check. The last line
printed is one JSON object.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gmpy2 import mpz

from fate_dp.crypto.kernel import Ring, checked

from . import builds, points, rings
from .tally import Tally

MARK = "TALLY "
UNIT_TESTS = ("tests/unit/test_crypto_kernel.py", "tests/unit/test_record_kernel.py")
REPORTS = re.compile(r"runtime error:|ERROR: AddressSanitizer|bound broken:")


@dataclass(frozen=True)
class Amount:
    """How much of each part a task takes; see the functions of `rings`, `points` and `records`."""

    exhaustive: tuple[int, int]
    limbs: tuple[int, ...]
    reach: int
    rings: int
    most_bits: int
    points: int
    layers: int


AMOUNTS = {
    ("all", False): Amount((64, 24), rings.LIMBS_AT_EDGES, 4, 1000, 8000, 5000, 200),
    ("all", True): Amount((64, 24), (4, 13, 14, 40), 1, 50, 8000, 200, 20),
    ("some", False): Amount((32, 12), (4, 5, 13, 14, 40), 2, 200, 4000, 500, 100),
    ("some", True): Amount((16, 6), (4, 5, 13), 0, 20, 1000, 20, 10),
}


@dataclass
class Outcome:
    """What a process of one build said."""

    variant: str
    reports: list[str]
    said: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)


def main() -> int:
    """Build, run, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the part of `make test`: half a minute on two idle cores")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "VARIANT", "TASK"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        folder, variant, task = asked.child
        return _child(Path(folder), variant, task, asked.seed, asked.quick)
    start = time.monotonic()
    os.environ.pop("FATE_DP_KERNEL", None)
    try:
        with tempfile.TemporaryDirectory(prefix="fate-dp-kernels-") as name:
            outcomes = Runs(Path(name), asked.seed, asked.quick, builds.sanitizer_library()).all()
    except builds.Missing as reason:
        print(f"The kernels were not checked: {reason}", file=sys.stderr)
        return 2
    for outcome in outcomes:
        print(f"{outcome.variant}: {'; '.join(outcome.said)}")
        print("   " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(outcome.counts.items())))
        for line in (*outcome.reports, *outcome.disagreements):
            print(f"   {line}")
    reports = [report for outcome in outcomes for report in outcome.reports]
    figures = {
        "sanitizer_reports": sum("bound broken" not in report for report in reports),
        "bounds_broken": sum("bound broken" in report for report in reports),
        **{kind: max(outcome.counts[kind] for outcome in outcomes) for kind in ("vectors", "products")},
        "comparisons": sum(sum(outcome.counts.values()) for outcome in outcomes),
        "disagreements": sum(len(outcome.disagreements) for outcome in outcomes),
        "seed": asked.seed,
        "seconds": round(time.monotonic() - start, 1),
    }
    print(json.dumps({"bench": "kernel-check", "figures": figures}))
    return int(bool(reports or figures["disagreements"]))


@dataclass(frozen=True)
class Runs:
    """Every build with its tasks, several at a time."""

    home: Path
    seed: int
    is_quick: bool
    sanitizer_library: str

    def all(self) -> list[Outcome]:
        tasks = {
            "installed": ["all"],
            "emulated": ["some"],
            "sanitized": ["some"] + ["unit-tests"] * (not self.is_quick),
        }
        if builds.supported_library() is None:
            tasks |= {"emulated": ["all"]} | ({} if self.is_quick else {"emulated-sanitized": ["some"]})
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            # The slowest build first.
            return [
                outcome
                for found in pool.map(self._of_build, reversed(tasks), reversed(tasks.values()))
                for outcome in found
            ]

    def _of_build(self, variant: str, tasks: Sequence[str]) -> list[Outcome]:
        if variant != "installed":
            builds.build(variant, self.home / variant)
            fault = self._run(variant, "fault")
            if not fault.reports:
                raise builds.Missing(f"the {variant} build saw nothing of a deliberate fault: {'; '.join(fault.said)}")
        return [self._run(variant, task) for task in tasks]

    def _run(self, variant: str, task: str) -> Outcome:
        logs = self.home / f"{variant}-{task}-logs"
        logs.mkdir()
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        if "sanitized" in variant:
            environment |= {
                "LD_PRELOAD": self.sanitizer_library,
                "ASAN_OPTIONS": f"detect_leaks=0:log_path={logs / 'asan'}",
                "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={logs / 'ubsan'}",
            }
        command = [sys.executable, "-m", __spec__.name, "--child", str(self.home / variant), variant, task]
        command += ["--seed", str(self.seed)] + ["--quick"] * self.is_quick
        done = subprocess.run(command, cwd=builds.ROOT, env=environment, capture_output=True, text=True)
        texts = [done.stderr, *(path.read_text(encoding="utf-8", errors="replace") for path in sorted(logs.iterdir()))]
        reports = [line for text in texts for line in text.splitlines() if REPORTS.search(line)]
        told = [json.loads(line[len(MARK) :]) for line in done.stdout.splitlines() if line.startswith(MARK)]
        if not told:
            said = f"{task} ended with {done.returncode}: {done.stderr[-600:]}{done.stdout[-600:]}"
            return Outcome(variant, reports, [said], disagreements=[f"{task} did not end well"])
        return Outcome(variant, reports, told[0]["said"], Counter(told[0]["counts"]), told[0]["disagreements"])


def _child(folder: Path, variant: str, task: str, seed: int, is_quick: bool) -> int:
    if variant != "installed":
        builds.use(folder)
    is_emulated = variant.startswith("emulated")
    library, tally = builds.supported_library(), Tally()
    kind = (
        "AVX-512 IFMA"
        if library is not None
        else "no AVX-512 IFMA here, so products and points were left to the emulated build"
    )
    said = [task, f"seed {seed}", f"{kind} in plain C" if is_emulated else kind]
    if task == "fault":
        _fault(folder, library, variant)
    elif task == "unit-tests":
        said.append(_unit_tests(tally))
    else:
        amount = AMOUNTS[task, is_quick]
        points.vectors(tally, library, are_iterated=task == "all")
        if library is not None:
            tally.holds("checks at a start", checked(library).sentence, checked(library).library is library)
            rings.exhaustive(tally, library, *amount.exhaustive)
            rings.edges(tally, library, seed, amount.limbs, amount.reach)
            rings.drawn(tally, library, seed, amount.rings, amount.most_bits)
            points.edges(tally, library, seed, amount.points)
        if not is_emulated:
            said.append(_records(tally, seed, amount.layers))
    print(MARK + json.dumps({"said": said, "counts": tally.counts, "disagreements": tally.disagreements}))
    return 0


def _records(tally: Tally, seed: int, drawn: int) -> str:
    from . import records

    found = records.record_kernel()
    if found is None:
        return "this processor has no AVX2 for the kernel of private steps, which was not run"
    records.all_of(tally, seed, drawn)
    return f"records on registers of {' and '.join(str(each.lanes) for each in records.kernels(found))} numbers"


def _unit_tests(tally: Tally) -> str:
    import pytest

    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", *UNIT_TESTS])
    tally.holds("unit tests", "see the output", code == 0)
    return f"unit tests ended with {int(code)}"


def _fault(folder: Path, library: ctypes.CDLL | None, variant: str) -> None:
    """A limb above 52 bits; nine numbers, or 33, where there is memory for eight, or 32."""
    if variant.startswith("emulated"):
        ring = Ring((1 << 200) - 1, library)
        rows = ring.enter([mpz(3), mpz(4)])
        rows[:, 1] = 1 << 52
        ring.products(rows, rows)
    if "sanitized" in variant:
        numbers = np.zeros(32, dtype=np.uint64)
        pointer = ctypes.c_void_p(numbers.ctypes.data)
        if library is not None:
            library.kernel_elligator(pointer, pointer, ctypes.c_int64(9))
        records = ctypes.CDLL(str(builds.libraries(folder)[1]))
        records.records_tanh(ctypes.c_int64(8), pointer, pointer, pointer, ctypes.c_int64(33))


if __name__ == "__main__":
    sys.exit(main())
