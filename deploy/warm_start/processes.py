"""What Linux tells of processes: who lives, who descends from whom, what this one has open, what memory is left."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

# Where a container or a service has a limit of its own: (limit, in use), of the second and of the first kind of cgroup.
GROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
KIBIBYTE = 1024


@dataclass(frozen=True)
class Identity:
    """A process, told from a later one with the same id by when it started."""

    pid: int
    started: str

    @property
    def lives(self) -> bool:
        """Whether it runs; one that nobody has waited for yet does not."""
        fields = stat_fields(self.pid)
        return fields is not None and fields[0] not in "ZX" and fields[19] == self.started


def identity_of(pid: int) -> Identity | None:
    """The process that has this id now; None where none has."""
    fields = stat_fields(pid)
    return None if fields is None else Identity(pid, fields[19])


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; None where there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field, the name, may hold anything, brackets included.
    return text.rpartition(")")[2].split()


def end_with_descendants(pid: int) -> None:
    """Kill a process and all that it has started, and they."""
    known: set[int] = set()
    while True:
        # What is stopped starts nothing more, so that the search comes to an end.
        for each in known | {pid}:
            send(each, signal.SIGSTOP)
        found = descendants(pid)
        if found <= known:
            break
        known |= found
    for each in known | {pid}:
        send(each, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def descendants(pid: int) -> set[int]:
    """All processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        fields = stat_fields(int(entry)) if entry.isdigit() else None
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry))
    found: set[int] = set()
    left = [pid]
    while left:
        more = children.get(left.pop(), [])
        found.update(more)
        left += more
    return found


def thread_count() -> int:
    """Threads of this process, those of native libraries included."""
    return len(os.listdir("/proc/self/task"))


def foreign_descriptors(own: Set[int]) -> list[str]:
    """What this process has open besides its own files."""
    found = []
    for number in set(map(int, os.listdir("/proc/self/fd"))) - own:
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the descriptor by which the folder itself was read
    return found


def available_memory() -> int:
    """Bytes that a new process may use before others lose theirs, under the limits of machine and container."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    told = {name: int(value.split()[0]) * KIBIBYTE for name, _, value in (line.partition(":") for line in lines)}
    left = told["MemAvailable"]
    for limit, used in GROUP_FILES:
        try:
            free = int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii"))
            left = min(left, free + reclaimable(Path(limit).parent))
        except (OSError, ValueError):
            continue  # no such cgroup, or "max": no limit
    return left


def reclaimable(group: Path) -> int:
    """Bytes of a cgroup that only keep files at hand."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        name, value = line.split()
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0
