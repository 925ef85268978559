"""What this machine leaves to FATE: open files, memory and disk. A job that lacks them fails without saying so."""

import os
import resource
from pathlib import Path

from ..warm_start.fork_server import MIN_MEMORY, available_memory
from .findings import PARTIES, Finding, check, ok, problem, warning

# Room for the ledger's journal and for a training's charges, which are small; a disk with less fills up at any moment.
MIN_FREE_BYTES = 64 * 2**20
MIN_OPEN_FILES = 256


@check(PARTIES, "open files")
def open_files(path: Path) -> Finding:
    """What each process may open; a server and its tasks have it from whoever starts them."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY or allowed >= MIN_OPEN_FILES:
        return ok("A process may open as many files as a task needs.")
    return problem(
        f"A process may open {allowed} files, fewer than the {MIN_OPEN_FILES} that FATE's tasks need.",
        "Run `ulimit -n 1024` in the shell that starts FATE-Flow, or set LimitNOFILE=1024 in its service.",
    )


@check(PARTIES, "memory")
def memory(path: Path) -> Finding:
    left = f"{available_memory() // 1_000_000:,} MB of memory are available"
    if available_memory() >= MIN_MEMORY:
        return ok(f"{left}.")
    return warning(
        f"{left}, less than {MIN_MEMORY // 1_000_000:,} MB; tasks start cold, or are killed.",
        "End other programs (`ps aux --sort=-rss | head`), or give the machine or container more.",
    )


@check(PARTIES, "disk")
def disk(path: Path) -> Finding:
    """The disk on which the parties' folders are, or will be."""
    existing = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if read_only(existing):
        return problem(
            f"{existing} is on a disk that is mounted read-only, so no ledger can be charged.",
            f"Mount it writable (`findmnt -T {existing}` names it), or set FATE_DP_HOME to another disk.",
        )
    state = os.statvfs(existing)
    free = state.f_bavail * state.f_frsize
    left = f"{free / 2**20:.0f} MiB left"
    if free < MIN_FREE_BYTES:
        return problem(
            f"The disk of {existing} has {left}, less than {MIN_FREE_BYTES / 2**20:.0f} MiB.",
            f"Make room on it (`df -h {existing}`); a ledger that cannot be written refuses every release.",
        )
    if state.f_files and not state.f_favail:
        return problem(
            f"The disk of {existing} has no inode left, so no file can be made there.",
            f"Delete small files on it (`df -i {existing}`).",
        )
    if free < 10 * MIN_FREE_BYTES:
        return warning(f"The disk of {existing} has {left}.", f"Make room on it (`df -h {existing}`).")
    return ok(f"The disk of {existing} is writable and has {free / 2**30:.0f} GiB left.")


def read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


LIMITS = (open_files, memory, disk)
"""What is looked at before a FATE-Flow starts."""
