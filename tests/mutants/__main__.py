"""`python -m tests.mutants [WORD ...]`: plants every mutant whose name or symbol has one of the words, and runs its tests.

Each runs in a fork of this process, which has imported what FATE-DP stands on and nothing of FATE-DP itself. First the tests
must pass without a fault. A mutant is caught where one of its tests fails by a comparison; a fault by which the code breaks
(`BROKEN`), or which no test imports, counts as an error. The last line is one JSON object; the status is 1 unless all that are
not argued equivalent were caught.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from .planting import MARK, PACKAGE, ROOT, Mutant, all_mutants, plant

# What FATE-DP and its tests import of others; imported once here, which takes longer than most tests.
FOUNDATIONS = (
    "fate.components.core",
    "fate.arch.dataframe",
    "fate.arch.context",
    "fate.ml.utils.predict_tools",
    "torch",
    "pandas",
    "scipy.stats",
    "scipy.optimize",
    "sklearn.isotonic",
    "dp_accounting.pld.privacy_loss_distribution",
    "hypothesis",
    "nacl.bindings",
    "gmpy2",
    "yaml",
)
BROKEN = (
    "SyntaxError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "UnboundLocalError",
    "AttributeError",
    "TypeError",
)
PATIENCE_SECONDS = 300.0
CAUGHT, SURVIVED, ERROR = "caught", "SURVIVED", "ERROR"


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant, or of tests without one; ``told`` says why where it is an error."""

    name: str
    end: str
    seconds: float
    told: str = ""


@dataclass(eq=False)
class Hearer:
    """A plugin of pytest that keeps what failed, and of which exception."""

    failed: list[tuple[str, str]] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        report = yield
        if report.failed:
            self.failed.append((report.nodeid, f"{call.excinfo.type.__name__}: {call.excinfo.value}"))
        elif report.when == "call" and report.passed:
            self.passed.append(report.nodeid)
        return report

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append((report.nodeid, f"ImportError: {report.longrepr}"))


def play(mutant: Mutant, tests: Sequence[str]) -> tuple[str, str]:
    """How the tests end with the fault in this process, which is a fork, and why."""
    mark = os.environ[MARK] = os.path.join(os.environ["TMPDIR"], "planted")
    plant(mutant)
    hearer = Hearer()
    pytest.main([*tests, "-q", "-x", "-p", "no:cacheprovider"], plugins=[hearer])
    if not os.path.exists(mark):
        return ERROR, f"no test imports {mutant.module}"
    if not hearer.failed:
        return (SURVIVED, "") if hearer.passed else (ERROR, "no test was run")
    ((test, reason),) = hearer.failed[:1]
    if re.search(rf"\b({'|'.join(BROKEN)})\b", reason):
        return ERROR, f"the code breaks: {reason:.600}"
    return CAUGHT, f"{test}: {reason:.300}"


def without_a_fault(tests: Sequence[str]) -> tuple[str, str]:
    """Which of the tests pass in this process, which is a fork; the others are told."""
    hearer = Hearer()
    pytest.main([*tests, "-q", "-p", "no:cacheprovider"], plugins=[hearer])
    failed = {name for name, _ in hearer.failed}
    wrong = [
        test
        for test in tests
        if any(_is_of(name, test) for name in failed) or not any(_is_of(name, test) for name in hearer.passed)
    ]
    return (ERROR, json.dumps(wrong)) if wrong else (SURVIVED, "")


def _is_of(name: str, test: str) -> bool:
    """Whether the test, which may have parameters, is one that was asked for."""
    return name == test or name.startswith(f"{test}[")


class Forks:
    """Plays in forks of this process, so many at once; each has a folder of its own for files."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._running: dict[int, tuple[str, float, Path]] = {}
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="mutants-", dir=memory if os.access(memory, os.W_OK) else None))

    def outcomes(self, plays: Iterable[tuple[str, Callable[[], tuple[str, str]]]]) -> Iterator[Outcome]:
        """One for each (name, play), as they end."""
        for name, each in plays:
            if len(self._running) >= self._workers:
                yield self._ended(self._running)
            own = self.folder / str(time.monotonic_ns())
            own.mkdir()
            self._running[self._fork(each, own)] = name, time.monotonic(), own
        while self._running:
            yield self._ended(self._running)

    def close(self) -> None:
        """End what still runs, and remove its files."""
        for pid in self._running:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fork(self, each: Callable[[], tuple[str, str]], folder: Path) -> int:
        sys.stdout.flush()
        if pid := os.fork():
            return pid
        # The child: whatever it starts ends with it.
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1), os.dup2(log, 2)
            (folder / "end.draft").write_text(json.dumps(each()))
            (folder / "end.draft").rename(folder / "end")
        finally:
            os._exit(0)

    def _ended(self, running: dict[int, tuple[str, float, Path]]) -> Outcome:
        while True:
            for pid, (name, began, folder) in list(running.items()):
                late = time.monotonic() - began > PATIENCE_SECONDS
                if not late and os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
                if late:
                    os.killpg(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                del running[pid]
                end = folder / "end"
                told = json.loads(end.read_text()) if end.exists() else [ERROR, _last_lines(folder / "log", late)]
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                shutil.rmtree(folder, ignore_errors=True)
                return Outcome(name, told[0], time.monotonic() - began, told[1])
            time.sleep(0.02)


def _last_lines(log: Path, late: bool) -> str:
    text = log.read_text(errors="replace")[-800:] if log.exists() else ""
    return ("it took too long" if late else "the process ended") + f": {text}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Plant mutants one by one.")
    parser.add_argument("words", nargs="*", help="of names or symbols; none for all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests without a fault first")
    parser.add_argument("--verbose", action="store_true", help="say by what each was caught")
    asked = parser.parse_args()
    began = time.monotonic()
    chosen = [
        each
        for each in all_mutants()
        if not asked.words or any(word in f"{each.name} {each.symbol}" for word in asked.words)
    ]
    for mutant in chosen:
        mutant.source()
    os.chdir(ROOT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in FOUNDATIONS:
        import_module(name)
    assert not any(name.startswith(f"{PACKAGE}.") for name in sys.modules), "A fork must import FATE-DP by itself."
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    forks = Forks(asked.workers)
    try:
        status = _all(forks, chosen, asked, began)
    finally:
        forks.close()
    return status


def _all(forks: Forks, chosen: Sequence[Mutant], asked: argparse.Namespace, began: float) -> int:
    real = [each for each in chosen if not each.equivalent]
    failing = set() if asked.unchecked else _failing(forks, sorted({test for each in real for test in each.tests}))
    ends, sound = [], []
    for each in real:
        if tests := [test for test in each.tests if test not in failing]:
            sound.append((each.name, partial(play, each, tests)))
        else:
            ends.append(Outcome(each.name, ERROR, 0.0, "none of its tests passes without a fault"))
    for found in forks.outcomes(sound):
        ends.append(found)
        told = found.told if found.end == ERROR or asked.verbose else ""
        print(f"{len(ends):4} of {len(real)}: {found.end:8} {found.seconds:5.1f} s  {found.name}  {told}", flush=True)
    left = [each for each in ends if each.end != CAUGHT]
    for each in left:
        print(f"{each.end}: {each.name} {each.told}")
    caught = len(ends) - len(left)
    figures = {
        "mutants": len(chosen),
        "caught": caught,
        "caught_share": round(caught / max(1, len(real)), 4),
        "equivalent": len(chosen) - len(real),
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps({"bench": "mutants", "figures": figures}))
    return 0 if not left else 1


def _failing(forks: Forks, tests: Sequence[str]) -> set[str]:
    """Those that fail, or are not run, without a fault; tests of a file, or of a case of the contract, run together."""
    groups = groupby(
        tests, lambda test: test.rpartition("-")[0] if "test_contract[" in test else test.partition("::")[0]
    )
    plays = [(name, partial(without_a_fault, list(group))) for name, group in groups]
    failing: set[str] = set()
    for found in forks.outcomes(plays):
        print(
            f"without a fault: {found.end == ERROR and found.told or 'pass'} {found.seconds:5.1f} s  {found.name}",
            flush=True,
        )
        failing |= set(json.loads(found.told)) if found.told.startswith("[") else set()
        if found.end == ERROR and not found.told.startswith("["):
            failing |= {test for test in tests if test.startswith(found.name)}
    return failing


if __name__ == "__main__":
    sys.exit(main())
