"""What a FATE job costs whose tasks start warm, and one whose tasks start cold, in turn on one FATE-Flow.

    make bench-job

The job is the demo's training: reader, psi, label_flip, dp_hetero_lr, evaluation, on breast-cancer data. After one job
of each kind that is not counted, jobs start cold (as with `--cold`) and warm in turn, so that whatever else the machine
does meets both alike. CPU seconds are those of FATE-Flow, of the fork server and of all tasks' processes, those that
have ended included. Memory is the largest sum over these processes of their proportional set sizes, in which each page
counts once however many share it; it is looked at in a pair of jobs of its own, since looking takes time. In the end
the whole demo runs on the same server, cold and warm.

The last line printed is one JSON object with the figures, each of them cold over warm but `memory_ratio`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from fate_dp.deploy.flow import server as flow_server
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.warm_start import control
from fate_dp.deploy.warm_start.fork_server import runs
from fate_dp.pipelines.demo.run import EPSILON, PRIVATE, TRAINING, Run, Site, run_demo, upload_data
from fate_dp.pipelines.jobs.job import run_job
from fate_dp.pipelines.jobs.party_ledgers import declare
from fate_dp.pipelines.jobs.ready import Parties, TrainingPlan, training_pipeline

PAIRS, DEMO_PAIRS = 3, 1
LOOK_SECONDS = 0.3
# FATE-Flow cleans up after a task when the job has already ended.
SETTLE_SECONDS = 30.0
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Cost:
    """Of one job or demo."""

    wall: float
    cpu: float


class Flow:
    """One FATE-Flow in a folder of its own, and what work costs there."""

    def __init__(self, folder: Path):
        self.home = folder / "home"
        self.folder = folder
        self.address: FlowAddress = flow_server.up(self.home)
        self.warm = open_home(self.home).warm
        wait_for(lambda: any(each.state == "serving" for each in control.look(self.warm).serving), READY_SECONDS)

    @property
    def parties_folder(self) -> Path:
        """Where the parties' ledgers and policies are."""
        return open_home(self.home).parties

    def processes(self) -> list[psutil.Process]:
        """FATE-Flow, the fork server, and what descends from them, those included that nobody has waited for yet."""
        server = psutil.Process(flow_server.status(self.home).pid)
        tops = [server, *(psutil.Process(each.pid) for each in control.look(self.warm).serving)]
        return [each for top in tops for each in (top, *top.children(recursive=True))]

    def cost(self, work, cold: bool) -> Cost:
        """What some work costs whose tasks start cold or warm."""
        control.switch(self.warm, cold)
        before, begin = cpu_seconds(self.processes()), time.monotonic()
        work()
        wall = time.monotonic() - begin
        self.settle()
        return Cost(wall, cpu_seconds(self.processes()) - before)

    def settle(self) -> None:
        """Wait until no task has a process any more."""
        wait_for(lambda: sum(map(runs, self.processes())) <= 2, SETTLE_SECONDS)


class Bench(Flow):
    """A FATE-Flow with the demo's tables on it."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        upload_data(self.new_run("tables"))
        declare(self.parties_folder, Parties().guest, PRIVATE.label_source())

    def new_run(self, name: str) -> Run:
        """A run of the demo that writes into a folder of its own."""
        site = Site(self.address, self.parties_folder, self.home)
        return Run(site, site, self.folder / name, lambda *news: None)

    def job(self) -> None:
        """Train once."""
        run_job(training_pipeline(TrainingPlan(Parties(), PRIVATE, EPSILON, TRAINING)), self.address, home=self.home)

    def demo(self) -> None:
        """Run the demo once."""
        run_demo(self.new_run(f"demo-{time.time_ns()}"))

    def peak_memory(self, cold: bool) -> int:
        """The largest memory of all processes at one time, in bytes, while a job runs."""
        control.switch(self.warm, cold)
        with watched(lambda: sum(map(proportional_memory, self.processes()))) as peak:
            self.job()
        self.settle()
        return peak[0]


def wait_for(done, seconds: float) -> None:
    """Wait until something is so; raises RuntimeError when it does not come to be."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(psutil.NoSuchProcess):
            if done():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"What the bench waited for did not happen within {seconds:.0f} seconds.")
        time.sleep(0.1)


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """CPU seconds of these processes, and of those of their children that they have waited for."""
    total = 0.0
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def proportional_memory(process: psutil.Process) -> int:
    """The memory of a process in bytes, its part of what it shares with others."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


@contextlib.contextmanager
def watched(measure) -> Iterator[list[int]]:
    """The largest value so far of something, which is looked at from time to time, as the only item of a list."""
    peak, stopped = [0], threading.Event()

    def look() -> None:
        while not stopped.wait(LOOK_SECONDS):
            with contextlib.suppress(psutil.NoSuchProcess):
                peak[0] = max(peak[0], measure())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        stopped.set()
        thread.join()


def in_turn(bench: Bench, work, pairs: int, name: str) -> dict[str, list[Cost]]:
    """The costs of work that starts cold and warm in turn."""
    costs: dict[str, list[Cost]] = {"cold": [], "warm": []}
    for _ in range(pairs):
        for kind, found in costs.items():
            found.append(bench.cost(work, cold=kind == "cold"))
            print(f"{name}, {kind}: {found[-1].wall:.1f} s, {found[-1].cpu:.1f} CPU s", flush=True)
    return costs


def ratio(costs: dict[str, list[Cost]], measure: str) -> float:
    """The sum over all cold runs over that of the warm ones."""
    cold, warm = (statistics.fmean(getattr(each, measure) for each in costs[kind]) for kind in ("cold", "warm"))
    return round(cold / warm, 3)


def figures(jobs: dict[str, list[Cost]], demos: dict[str, list[Cost]], memory: dict[str, int]) -> dict[str, float]:
    """The figures of the last line."""
    return {
        "wall_ratio": ratio(jobs, "wall"),
        "cpu_ratio": ratio(jobs, "cpu"),
        **({"demo_wall_ratio": ratio(demos, "wall")} if demos["cold"] else {}),
        "memory_ratio": round(memory["warm"] / memory["cold"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"jobs of each kind ({PAIRS})")
    parser.add_argument("--demo-pairs", type=int, default=DEMO_PAIRS, help=f"demos of each kind ({DEMO_PAIRS})")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            bench = Bench(Path(folder))
            for cold in (True, False):
                bench.cost(bench.job, cold)
            jobs = in_turn(bench, bench.job, options.pairs, "job")
            memory = {kind: bench.peak_memory(cold=kind == "cold") for kind in ("cold", "warm")}
            print("memory: " + ", ".join(f"{kind} {size // 1_000_000} MB" for kind, size in memory.items()), flush=True)
            demos = in_turn(bench, bench.demo, options.demo_pairs, "demo")
            print(control.look(bench.warm).sentence())
        finally:
            flow_server.down(Path(folder) / "home")
    print(json.dumps({"bench": "job", "figures": figures(jobs, demos, memory)}))


if __name__ == "__main__":
    main()
