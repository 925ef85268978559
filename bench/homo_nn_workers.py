"""Jobs in several processes of one thread each, with a bar of progress per name, and what each name cost."""

import multiprocessing
import os
import queue
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Job:
    """``function(*arguments, tick=tick)`` in a worker; ``tick(number)`` reports progress, ``total`` in all.

    :param name: of the bar, which jobs of one name share.
    """

    name: str
    total: int
    function: Callable
    arguments: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Jobs whose results belong together, and what is made of these results, in their order."""

    jobs: list[Job]
    finish: Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Tick:
    """Reports progress from a worker."""

    ticks: Any
    name: str

    def __call__(self, number=1):
        self.ticks.put((self.name, number))


class Workers:
    """A pool of processes; a context manager. ``seconds``: {name: CPU seconds of its jobs so far}."""

    def __init__(self, processes, console):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        context = multiprocessing.get_context("spawn")
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # Inherited by the processes, whose matrix products would otherwise take threads of their own.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        self.seconds = {}
        self._progress = Progress(*columns, console=console)
        self._manager = context.Manager()
        self._ticks = self._manager.Queue()
        self._pool = ProcessPoolExecutor(processes, context, _one_thread)

    def __enter__(self):
        self._progress.start()
        return self

    def __exit__(self, *_):
        self._progress.stop()
        self._pool.shutdown(cancel_futures=True)
        self._manager.shutdown()

    def run(self, jobs):
        """Results of the jobs, in their order; an error of one ends all."""
        totals = {}
        for job in jobs:
            totals[job.name] = totals.get(job.name, 0) + job.total
        bars = {name: self._progress.add_task(name, total=total) for name, total in totals.items()}
        futures = [self._pool.submit(_timed, job, Tick(self._ticks, job.name)) for job in jobs]
        while not self._show(bars, futures):
            pass
        for job, future in zip(jobs, futures):
            self.seconds[job.name] = self.seconds.get(job.name, 0.0) + future.result()[1]
        return [future.result()[0] for future in futures]

    def run_stages(self, stages):
        """What each stage makes of its own results; the jobs of all are run together, so that no process waits for a stage."""
        found = iter(self.run([job for stage in stages for job in stage.jobs]))
        return [stage.finish([next(found) for _ in stage.jobs]) for stage in stages]

    def _show(self, bars, futures):
        """Show what has arrived; True once all jobs have ended and nothing is left to show, or one has failed."""
        done, running = wait(futures, timeout=0)
        for future in done:
            future.result()
        try:
            while True:
                name, number = self._ticks.get(timeout=0.5)
                self._progress.advance(bars[name], number)
        except queue.Empty:
            return not running


def _timed(job, tick):
    """What a job returns, and the CPU seconds that it took."""
    start = time.process_time()
    return job.function(*job.arguments, tick=tick), time.process_time() - start


def _one_thread():
    import torch

    torch.set_num_threads(1)
