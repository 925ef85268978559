"""Runs a command as a process of its own and measures its wall time and its peak memory."""

import os
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Between two looks at a process that has children; rarer would miss short peaks, more often would take its time.
LOOK_SECONDS = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")
LAST_CHARACTERS = 2000


@dataclass(frozen=True)
class Cost:
    """Wall time of the whole process, interpreter start included, and the largest resident memory."""

    seconds: float
    peak_bytes: int


def measure(command) -> Cost:
    """Run ``command`` (a list of words) to its end; raises RuntimeError with the end of what it wrote if it fails.

    The peak is the kernel's own for a single process. Where it starts others, their sum is looked at every 20 ms, and
    the larger one counts. Linux lets a process inherit the peak of the one that starts it, so a caller that was ever as
    large as the process is refused with a RuntimeError.
    """
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        watch = FamilyWatch(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        # Popen must not wait for a process that is gone.
        process.returncode = os.waitstatus_to_exitcode(status)
        family_peak = watch.stop()
        if process.returncode:
            output.seek(0)
            text = output.read().decode(errors="replace")[-LAST_CHARACTERS:]
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}:\n{text}")
    if usage.ru_maxrss <= own_peak_kib():
        raise RuntimeError("The peak memory of a process can be told only by one that was always smaller.")
    return Cost(seconds, max(1024 * usage.ru_maxrss, family_peak))


def own_peak_kib() -> int:
    """The peak of this process since it was started; getrusage would count its parent's, too."""
    lines = read_text(Path("/proc/self/status")).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


class FamilyWatch:
    """Follows the summed memory of a process and its descendants while it has any: a look every ``pause`` seconds.

    ``size`` gives the bytes of one process; of `pss_bytes`, pages that several of them share count once.
    """

    def __init__(self, pid, size=None, pause=LOOK_SECONDS):
        self.pid, self.peak, self.stopped = pid, 0, threading.Event()
        self._size, self._pause = size or resident_bytes, pause
        self.thread = threading.Thread(target=self._look)
        self.thread.start()

    def stop(self) -> int:
        """The largest sum seen, in bytes; 0 if there never was a second process."""
        self.stopped.set()
        self.thread.join()
        return self.peak

    def _look(self):
        while not self.stopped.wait(self._pause):
            family = descendants(self.pid)
            if len(family) > 1:
                self.seen(sum(map(self._size, family)))

    def seen(self, total):
        """Take note of one look."""
        self.peak = max(self.peak, total)


def descendants(pid) -> list:
    """``pid`` and all that it or they started and that still run."""
    family = [pid]
    for member in family:
        for task in tasks_of(member):
            family += map(int, read_text(Path(f"/proc/{member}/task/{task}/children")).split())
    return family


def tasks_of(pid) -> list:
    """The ids of a process's threads, none if it has just ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def resident_bytes(pid) -> int:
    fields = read_text(Path(f"/proc/{pid}/statm")).split()
    return int(fields[1]) * PAGE if fields else 0


def pss_bytes(pid) -> int:
    """Resident memory in which a page that n processes share counts 1/n."""
    lines = read_text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def read_text(path) -> str:
    """The text of a file in /proc, empty if its process has just ended."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""
