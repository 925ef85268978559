"""What the fork server asks about processes: who runs, what this one has open, what memory is left; and how to end some."""

from __future__ import annotations

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import psutil

# Where a container or a service has a limit of its own: (limit, in use), of the second and of the first kind of cgroup.
GROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended yet; one that nobody has waited for yet has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_with_descendants(pid: int) -> None:
    """Kill a process and all that it has started, and they."""
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        family: set[psutil.Process] = set()
        found = {leader}
        while not found <= family:
            family |= found
            # What is stopped starts nothing more, so that the search comes to an end.
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.suspend()
            found = set(leader.children(recursive=True))
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


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
    left = psutil.virtual_memory().available
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
