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
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from queue import Empty
from typing import Any

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


def fuzz(
    seconds: float, *, workers: int = 2, first: int = 0, stop: bool = False, mutant: Any = None, without: str = ""
) -> Figures:
    """Play the sequences of the seeds from ``first`` on, for so many seconds.

    Args:
        stop: whether to end at the first finding.
        mutant: a fault that is planted in every worker, before it imports FATE-DP.
        without: names of operations that do not occur, with commas.
    """
    context = multiprocessing.get_context("fork")
    for name in FOUNDATIONS:
        import_module(name)
    assert not any(name.startswith("fate_dp.") for name in sys.modules), "A fork must import FATE-DP by itself."
    found: Any = context.Queue()
    ends, figures = time.monotonic() + seconds, Figures()
    with tempfile.TemporaryDirectory(prefix="job-fuzz-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        given = [(Path(folder, str(at)), range(first + at, 10**9, workers), ends) for at in range(workers)]
        ours = [context.Process(target=_work, args=(*each, without, mutant, found), daemon=True) for each in given]
        for each in ours:
            each.start()
        _collect(found, figures, len(ours), ends, stop)
        for each in ours:
            each.terminate()
            each.join()
    return figures


def _collect(found: Any, figures: Figures, running: int, ends: float, stop: bool) -> None:
    while running and time.monotonic() < ends + PATIENCE_SECONDS:
        try:
            told = found.get(timeout=1.0)
        except Empty:
            continue
        if told is None:
            running -= 1
            continue
        figures.sequences += 1
        figures.jobs += told["jobs"]
        figures.accepted += told["accepted"]
        figures.understated += bool(told["finding"])
        figures.broken += bool(told["broken"])
        if told["finding"] or told["broken"]:
            figures.told.append(f"seed {told['seed']}: {told['finding'] or told['broken']}")
            if stop:
                break


def _work(home: Path, seeds: Iterable[int], ends: float, without: str, mutant: Any, found: Any) -> None:
    try:
        play = player(home, mutant, without)
        for seed in seeds:
            if time.monotonic() > ends:
                break
            found.put(play(seed))
    except BaseException:
        found.put(_told(-1, broken=traceback.format_exc()))
        raise
    finally:
        found.put(None)


def _told(seed: int, **facts: Any) -> dict[str, Any]:
    return {"seed": seed, "jobs": 0, "accepted": 0, "finding": None, "broken": None, **facts}


def player(home: Path, mutant: Any = None, without: str = "") -> Any:
    """A function that plays the sequence of a seed; the fault, if any, is planted in this process for good."""
    logging.disable(logging.CRITICAL)
    if mutant is not None:
        from tests.mutants.planting import plant

        plant(mutant)
    from .generator import sequence
    from .runner import Broken, Playing
    from .world import prepare

    prepare(home)

    def play(seed: int) -> dict[str, Any]:
        steps = sequence(seed, frozenset(without.split(",")))
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
