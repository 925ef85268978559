"""The tasks of a job on this machine: whose processes have gone or stand still, and how far each says that it is.

FATE-Flow ends a job whose process it misses, but no job whose process is stopped, and none while it is itself in trouble.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LOOK_SECONDS, GONE_SECONDS, STOPPED_SECONDS = 10.0, 40.0, 120.0
STOPPED = "T"
"""The kernel's letter for a process that a signal stopped."""
TAIL_BYTES = 1 << 16
COUNTS = re.compile(r"progress: (\d+ of \d+ [a-z_]+(?:, \d+ of \d+ [a-z_]+)*)")


@dataclass(frozen=True)
class TaskRecord:
    """One task at one party; `seconds` is None where it never ended, `provider` whose Python it ran in."""

    task: str
    role: str
    party_id: str
    status: str
    seconds: float | None
    error: str = ""
    provider: str = ""

    def __str__(self) -> str:
        return f"task {self.task} of {self.role} {self.party_id}"

    @property
    def folder(self) -> Path:
        """Where it works and writes its log, below those folders of its job."""
        return Path(self.role, self.party_id, self.task)


@dataclass
class LocalTasks:
    """What a few looks in a row show of a job's tasks, by a clock that nobody sets; `home` is the embedded server's.

    A task is judged only after its processes were seen here: never one of another machine.
    """

    home: Path
    job_id: str
    _last: float = float("-inf")
    _since: dict[tuple[Path, str], float] = field(default_factory=dict)
    """When a task was first found as it was in every look since."""
    _begun: dict[Path, float] = field(default_factory=dict)
    """When each task's processes were first seen."""
    _loops: dict[tuple[Path, str], tuple[float, float]] = field(default_factory=dict)
    """When each outer loop was first seen, and which share of it was done then."""

    def is_due(self, now: float) -> bool:
        """Whether it is time for the next look; one after a long pause is a first one."""
        if now - self._last < LOOK_SECONDS:
            return False
        if now - self._last > 3 * LOOK_SECONDS:
            self._since.clear()
        self._last = now
        return True

    def fault(self, tasks: Iterable[TaskRecord], now: float) -> tuple[TaskRecord, str] | None:
        """A running task that cannot go on, and why."""
        states = self._states()
        for record in (each for each in tasks if each.status == "running"):
            found = states.get(record.folder, set())
            if found:
                self._begun.setdefault(record.folder, now)
            for why, holds, patience in (
                ("its processes have been gone", not found and record.folder in self._begun, GONE_SECONDS),
                ("one of its processes has been stopped, as by kill -STOP,", STOPPED in found, STOPPED_SECONDS),
            ):
                since = self._since.setdefault((record.folder, why), now)
                if not holds:
                    del self._since[record.folder, why]
                elif now - since >= patience:
                    return record, f"{why} for {now - since:.0f} seconds"
        return None

    def _states(self) -> dict[Path, set[str]]:
        """The kernel's letters for the processes that work in the folder of a task; one that has ended works nowhere."""
        found: dict[Path, set[str]] = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, ValueError):
                folder = Path(os.readlink(f"/proc/{pid}/cwd")).relative_to(self.home / "jobs" / self.job_id)
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                found.setdefault(Path(*folder.parts[:3]), set()).add(state)
        return found

    def told(self, tasks: Iterable[TaskRecord], now: float) -> dict[str, str]:
        """How far each running task is, by whichever of its parties says so here, else since when it runs."""
        running = [each for each in tasks if each.status == "running" and each.folder in self._begun]
        since = {each.task: f"for {now - self._begun[each.folder]:.0f} s" for each in running}
        return since | {each.task: counts for each in running if (counts := self._counts(each, now))}

    def _counts(self, record: TaskRecord, now: float) -> str:
        """The last such line of a task's log, and in how many seconds it may end; empty where it says nothing."""
        log = self.home / "logs" / self.job_id / record.folder / "root" / "INFO"
        with suppress(OSError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            if lines := COUNTS.findall(file.read().decode(errors="replace")):
                outer, share = lines[-1].partition(",")[0].partition(" of ")[2], done(lines[-1])
                since, before = self._loops.setdefault((record.folder, outer), (now, share))
                left = (now - since) * (1 - share) / (share - before) if share > before else 0
                return lines[-1] + (f", some {left:.0f} s left" if left else "")
        return ""


def done(counts: str) -> float:
    """The share that is done of loops, the outer ones first."""
    share = 0.0
    for number, of in reversed(re.findall(r"(\d+) of (\d+)", counts)):
        share = (int(number) + share) / max(int(of), 1)
    return share
