"""Progress of jobs on a terminal: a spinner with what runs now, and one line for each task that has ended."""
from __future__ import annotations

import time


class TaskLines:
    """Use as a context manager; `task` and `sentence` are the progress callbacks of jobs and of the server."""

    def __init__(self, console):
        self._console = console
        self._status = console.status("starting")
        self._since: dict = {}

    def __enter__(self):
        self._status.start()
        return self

    def __exit__(self, *failure):
        self._status.stop()

    def sentence(self, text: str) -> None:
        self._console.print(text, markup=False)

    def task(self, job: str, task: str, status: str, seconds: float) -> None:
        """A task of a job changed its status, ``seconds`` after the job began."""
        if status == "running":
            self._since[job, task] = time.monotonic()
            self._status.update(f"{job}: {task} runs")
        elif status not in ("waiting", "ready"):
            spent = time.monotonic() - self._since.get((job, task), time.monotonic())
            self._console.print(f"{job:<28} {task:<18} {status:<8} {spent:6.1f} s", markup=False, highlight=False)
