"""Plays sequences in several processes until the time is over, and shrinks what fails."""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tests.mutants.planting import Mutant, plant

from .mutants import reached

# What FATE-DP stands on, which forks find imported, and which takes longer than many sequences.
FOUNDATIONS = (
    "fate.arch.dataframe",
    "fate.arch.context",
    "fate.components.core",
    "fate.ml.utils.predict_tools",
    "torch._dynamo",
    "pandas",
    "scipy.stats",
    "dp_accounting.pld.privacy_loss_distribution",
    "nacl.bindings",
    "gmpy2",
    "yaml",
)
MEMORY = Path("/dev/shm")
PATIENCE_SECONDS = 60.0
"""For the last sequences, once the time is over."""
LEAST_SECONDS = 3.0
"""For a fault in one round."""


@dataclass
class Figures:
    """What came of all sequences."""

    sequences: int = 0
    jobs: int = 0
    accepted: int = 0
    understated: int = 0
    broken: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def accepted_share(self) -> float:
        return self.accepted / max(self.jobs, 1)

    def add(self, told: dict[str, Any]) -> None:
        """Note what came of one sequence; one that was not played counts for nothing."""
        self.sequences += told["played"]
        self.jobs += told["jobs"]
        self.accepted += told["accepted"]
        self.understated += bool(told["finding"])
        self.broken += bool(told["broken"])
        if told["finding"] or told["broken"]:
            self.told.append(f"seed {told['seed']}: {told['finding'] or told['broken']}")

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


@dataclass
class Search:
    """A planted fault, or none, and the sequences that are played to find it, of the seeds from ``first`` on."""

    mutant: Mutant | None
    first: int
    step: int = 1
    figures: Figures = field(default_factory=Figures)

    @property
    def is_found(self) -> bool:
        return self.mutant is not None and self.figures.understated > 0

    def hears(self, told: Any) -> bool:
        """Note what the process tells next; False where it ended, or need not go on."""
        try:
            found = told.recv()
        except EOFError:
            return False
        self.first = found["seed"] + self.step
        self.figures.add(found)
        return not self.is_found


def fuzz(seconds: float, *, workers: int = 2, first: int = 0, without: str = "") -> Figures:
    """Play the sequences of the seeds from ``first`` on, for so many seconds; ``without`` the operations of these names."""
    ours = [Search(None, first + at, workers) for at in range(workers)]
    _play(ours, seconds, workers, without)
    return sum((each.figures for each in ours), Figures())


def find(
    mutants: Iterable[Mutant], seconds: float, *, workers: int = 2, first: int = 0, without: str = ""
) -> list[Search]:
    """Look for each planted fault in the sequences of the seeds from ``first`` on, up to the first that shows it.

    In rounds: in each the faults that are left share half of the time that is left.
    """
    ours, ends = [Search(mutant, first) for mutant in mutants], time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0 and (missed := [each for each in ours if not each.is_found]):
        _play(missed, max(LEAST_SECONDS, left * workers / len(missed) / 2), workers, without)
    return ours


def _play(searches: Iterable[Search], seconds: float, workers: int, without: str) -> None:
    """Play each search in a process of its own for so many seconds, so many at once."""
    waiting, running = [*searches], {}
    with tempfile.TemporaryDirectory(prefix="job-fuzz-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        while waiting or running:
            while waiting and len(running) < workers:
                search = waiting.pop(0)
                told, process = _started(search, Path(folder, f"{len(waiting)}"), seconds, without)
                running[told] = search, process, time.monotonic() + seconds + PATIENCE_SECONDS
            ready = wait([*running], timeout=1.0)
            for told in [*running]:
                search, process, latest = running[told]
                if told not in ready and time.monotonic() < latest or told in ready and search.hears(told):
                    continue
                process.terminate()
                process.join()
                del running[told]


def _started(search: Search, home: Path, seconds: float, without: str) -> tuple[Any, Any]:
    """What a new process tells of the search, and the process, which must import FATE-DP by itself."""
    for name in FOUNDATIONS:
        import_module(name)
    assert not any(name.startswith("fate_dp.") for name in sys.modules), "A fork must import FATE-DP by itself."
    context = multiprocessing.get_context("fork")
    told, tells = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(search, home, seconds, without, tells), daemon=True)
    process.start()
    tells.close()
    return told, process


def _work(search: Search, home: Path, seconds: float, without: str, tells: Any) -> None:
    try:
        play = player(home, search.mutant, without)
        # Importing FATE-DP does not count: on a busy machine it would take all the time of a fault.
        ends = time.monotonic() + seconds
        for seed in range(search.first, 10**9, search.step):
            if time.monotonic() > ends:
                break
            tells.send(play(seed))
    except BaseException:
        tells.send(_told(-1, broken=traceback.format_exc()))
        raise


def _told(seed: int, **facts: Any) -> dict[str, Any]:
    return {"seed": seed, "played": True, "jobs": 0, "accepted": 0, "finding": None, "broken": None, **facts}


def player(home: Path, mutant: Mutant | None = None, without: str = "") -> Any:
    """A function that plays the sequence of a seed; the fault, if any, is planted in this process for good."""
    logging.disable(logging.CRITICAL)
    if mutant is not None:
        plant(mutant)
    from .generator import sequence
    from .runner import Broken, Playing
    from .world import prepare

    prepare(home)

    def play(seed: int) -> dict[str, Any]:
        steps = sequence(seed, frozenset(without.split(",")))
        if mutant is not None and not reached(mutant, steps):
            return _told(seed, played=False)
        try:
            report = Playing(home / "homes", steps).run()
        except Broken as error:
            return _told(seed, broken=f"{error}\n{''.join(traceback.format_exception(error.__cause__))}")
        finding = str(report.findings[0]) if report.findings else None
        return _told(seed, jobs=report.jobs, accepted=report.accepted, finding=finding)

    return play


def shrink(steps: list[dict[str, Any]], home: Path) -> tuple[list[dict[str, Any]], str]:
    """The smallest sequence that fails in the same way, and how; the process must be prepared."""
    from .runner import Broken, Playing
    from .shrink import shrunk

    def finding(candidate: list[dict[str, Any]]) -> Any:
        try:
            found = Playing(home / "homes", candidate).run().findings
        except Broken:
            return None
        return found[0] if found else None

    whole = finding(steps)
    smallest = shrunk(steps, lambda candidate: (small := finding(candidate)) is not None and small.alike(whole))
    return smallest, str(finding(smallest))


def replay(steps: list[dict[str, Any]], home: Path) -> Iterable[str]:
    """What a sequence comes to, in words."""
    from .runner import Playing

    report = Playing(home / "homes", steps).run()
    return [*report.told, *map(str, report.findings)]


def written(steps: Sequence[dict[str, Any]]) -> str:
    """The sequence as a file that `--replay` reads."""
    return json.dumps(list(steps))
