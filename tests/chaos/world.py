"""An embedded FATE-Flow of its own on a small disk, its small jobs under a clock that is set, and what must hold at all times."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import wait_until
from fate_dp.deploy.flow.server import PROGRAM, down, processes_of
from fate_dp.privacy import Ledger

from .client import PARTIES, TABLES, Outcome

ROWS, COLUMNS = 60, 3
CAP = 200
PATIENCE = 10.0
"""After how many seconds clients of this rig say what others say after minutes."""
SECONDS_TO_SETTLE = 45.0
MINUTE, HOUR, DAY = 60, 3600, 86400
CLOCK = "FATE_DP_CHAOS_CLOCK"
FORK_SERVER = "fate_dp.deploy.warm_start.fork_server"
DISK_BYTES = 3 << 30
TASKS = ("psi_0", "label_flip_0", "dp_hetero_lr_0")


@dataclass
class Fault:
    """What did not hold, under the name of its figure."""

    figure: str
    told: str

    def __str__(self) -> str:
        return f"{self.figure}: {self.told}"


@dataclass
class World:
    """The server's home and all that is about it; ``preload`` is the library of the clock that is set."""

    folder: Path
    preload: Path | None
    is_root: bool = False
    children: list[subprocess.Popen] = field(default_factory=list)
    epsilons: int = 0
    seconds_of: dict[str, float] = field(default_factory=dict)
    """How long each command took when it was last left alone."""

    @property
    def home(self) -> Path:
        return self.folder / "disk" / "home"

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    def environment(self) -> dict[str, str]:
        """That of every program; the clock's file is shared by all of them."""
        found = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "FATE_DP_HOME": str(self.home / "parties"),
            CLOCK: str(self.clock),
        }
        return {**found, "LD_PRELOAD": str(self.preload)} if self.preload else found

    def set_clock(self, seconds: int) -> None:
        """Let it be so many seconds later than it is; negative for earlier."""
        with self.clock.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def start(self, module: str, *words: object) -> subprocess.Popen:
        """Start a program of this folder."""
        command = [sys.executable, "-m", f"tests.chaos.{module}", *map(str, words)]
        begun = subprocess.Popen(
            command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.children.append(begun)
        return begun

    def command(self, *words: object) -> subprocess.Popen:
        """Start ``fate-dp`` with these words for this home."""
        return self.start("command", *words, "--home", self.home)

    def run(self, *words: object) -> str:
        """Run ``fate-dp`` to its end and return what it said; AssertionError where it failed."""
        begun = self.command(*words)
        said, _ = begun.communicate(timeout=180)
        assert begun.returncode == 0, f"fate-dp {' '.join(map(str, words))} ended with {begun.returncode}: {said}"
        return said

    def with_boot_time(self, words: str, seconds: int) -> subprocess.Popen:
        """Start ``fate-dp`` where the kernel tells another time of its boot, as after a step of its own clock."""
        stat = self.folder / "stat"
        lines = Path("/proc/stat").read_text().splitlines()
        told = [f"btime {int(line.split()[1]) + seconds}" if line.startswith("btime") else line for line in lines]
        stat.write_text("\n".join([*told, ""]))
        inside = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /proc/stat && exec "$@"', stat]
        command = [sys.executable, "-m", "tests.chaos.command", words, "--home", self.home]
        begun = subprocess.Popen(
            [*inside, *command] if self.is_root else command,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.children.append(begun)
        return begun

    def job(self, epsilon: float) -> subprocess.Popen:
        return self.start("client", self.home, epsilon, PATIENCE)

    def prepare(self) -> None:
        """Tables, server and cap."""
        self.clock.write_bytes(bytes(8))
        draw = np.random.default_rng(5)
        features = draw.standard_normal((ROWS, 2 * COLUMNS))
        ids = [f"loan-{number}" for number in range(ROWS)]
        labels = (features.sum(axis=1) + draw.standard_normal(ROWS) > 0).astype(int)
        guest = pd.DataFrame({"id": ids, "y": labels} | {f"x{at}": features[:, at] for at in range(COLUMNS)})
        host = pd.DataFrame({"id": ids} | {f"z{at}": features[:, COLUMNS + at] for at in range(COLUMNS)})
        guest.to_csv(self.folder / "guest.csv", index=False)
        host.iloc[::-1].to_csv(self.folder / "host.csv", index=False)
        self.run("up")
        guests = self.command("upload", self.folder / "guest.csv", f"{TABLES.namespace}/guest", "--label", "y")
        self.run("upload", self.folder / "host.csv", f"{TABLES.namespace}/host")
        said, _ = guests.communicate(timeout=180)
        assert guests.returncode == 0, said
        self.run("declare", TABLES.label_source(), "--cap", CAP)

    def end(self) -> None:
        """Stop all that was started."""
        for each in self.children:
            each.kill()
            each.wait()
        down(self.home)

    def next_epsilon(self) -> float:
        """One that was never charged."""
        self.epsilons += 1
        return round(0.02 + 0.0001 * self.epsilons, 6)

    # What is there now -----------------------------------------------------------------------------------------------

    def at_work(self, *words: str) -> list[psutil.Process]:
        """The processes that work in a folder of tasks whose path has all these words."""
        found, jobs = [], f"{os.path.realpath(self.home)}/jobs/"
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError, psutil.Error):
                folder = os.readlink(f"/proc/{pid}/cwd")
                if folder.startswith(jobs) and all(f"/{word}/" in folder for word in words):
                    found.append(psutil.Process(int(pid)))
        return found

    def servers(self, program: str = PROGRAM) -> list[psutil.Process]:
        """FATE-Flow's processes, or those of another program of this home."""
        found = []
        for process in processes_of(open_home(self.home).root):
            with suppress(psutil.Error, OSError):
                if program in process.cmdline():
                    found.append(process)
        return found

    def spent(self) -> float:
        """What the guest's ledger says was spent on the labels."""
        path = self.home / "parties" / f"party-{PARTIES.guest}" / "ledger.sqlite"
        return Ledger(path).spent(TABLES.label_source()) if path.is_file() else 0.0

    def ledgers(self) -> list[Path]:
        return sorted((self.home / "parties").glob("party-*/ledger.sqlite"))

    def asked(self, query: str) -> list[tuple]:
        """What FATE-Flow's own database has."""
        with closing(
            sqlite3.connect(f"file:{self.home}/fate_flow_sqlite.db?mode=ro", uri=True, timeout=30)
        ) as database:
            return database.execute(query).fetchall()

    def unfinished(self) -> list[str]:
        return sorted(
            {job for (job,) in self.asked("select f_job_id from t_job where f_status in ('ready','waiting','running')")}
        )

    def jobs(self) -> list[str]:
        return sorted({job for (job,) in self.asked("select f_job_id from t_job")})

    def is_between(self, job: str) -> bool:
        """Whether one of a job's tasks has succeeded and the next not begun."""
        states = dict(self.asked(f"select f_task_name, max(f_status) from t_task where f_job_id = '{job}' group by 1"))
        return "success" in states.values() and not self.at_work(job)

    def cores_lost(self) -> int:
        found = self.asked(
            "select f_cores - f_remaining_cores from t_engine_registry where f_engine_type = 'computing'"
        )
        return sum(lost for (lost,) in found)

    # What must hold --------------------------------------------------------------------------------------------------

    def faults(self) -> Iterator[Fault]:
        """All that is wrong where nothing ought to run; waits until nothing does."""
        wait_until(
            lambda: not (self.unfinished() or self.at_work() or self.cores_lost()), lambda: True, SECONDS_TO_SETTLE
        )
        for job in self.unfinished():
            yield Fault("jobs_stuck", f"job {job} has not ended")
        for process in self.at_work():
            with suppress(psutil.Error):
                yield Fault(
                    "orphans", f"process {process.pid} works in {process.cwd()}: {' '.join(process.cmdline())[:200]}"
                )
        for _ in range(len(self.servers()) - 1):
            yield Fault("orphans", "a second server of this home runs")
        if lost := self.cores_lost():
            yield Fault("cores_lost", f"{lost} cores are held by no job")
        for path in self.ledgers():
            yield from ledger_faults(path)

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """Nothing more can be written to the home's disk."""
        disk = self.folder / "disk"

        def shrunk() -> bool:
            used = os.statvfs(disk)
            size = (used.f_blocks - used.f_bfree) * used.f_frsize
            remount = ["mount", "-o", f"remount,size={size}", disk]
            return subprocess.run(remount, capture_output=True).returncode == 0

        # Refused where a job wrote more since its size was read.
        assert wait_until(shrunk, lambda: True, 30), "the disk cannot be filled"
        try:
            yield
        finally:
            subprocess.run(["mount", "-o", f"remount,size={DISK_BYTES}", disk], check=True)


def ledger_faults(path: Path) -> Iterator[Fault]:
    """A ledger is whole, and every row of it belongs to one that is there."""
    with closing(sqlite3.connect(path, timeout=60)) as database:
        found = [row[0] for row in database.execute("PRAGMA integrity_check")]
        if found != ["ok"]:
            yield Fault("ledger_faults", f"{path}: {found[:3]}")
        strays = database.execute("PRAGMA foreign_key_check").fetchall()
        if strays:
            yield Fault("ledger_faults", f"{path}: rows that belong to none: {strays[:3]}")


def outcome_of(client: subprocess.Popen, seconds: float = 220.0) -> Outcome | None:
    """What a client told at its end; None where it was killed, or never ended, and then it is killed."""
    try:
        said, _ = client.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        client.kill()
        said, _ = client.communicate()
        return Outcome(False, None, f"The client never ended; it said: {said[-2000:]}", "never")
    lines = said.strip().splitlines()
    if lines and lines[-1].startswith("{"):
        return Outcome(**json.loads(lines[-1]))
    return None if client.returncode == -signal.SIGKILL else Outcome(False, None, said[-2000:], "error")


@contextmanager
def disk_at(folder: Path) -> Iterator[bool]:
    """A disk of its own for the home, which can be filled; False where this user may not mount one."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "chaos", folder]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        while mounted and subprocess.run(["umount", folder], capture_output=True).returncode:
            time.sleep(1)
