"""What is done to a `World`, round by round: programs are killed and stopped, the disk is full, the clock is set.

Each round ends with a job that must work, whose flips are those of the jobs that were killed, and with one charge.
"""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from fate_dp.deploy.flow.programs import read_record, wait_until

from .client import TABLES, Outcome, played
from .world import DAY, FORK_SERVER, HOUR, PATIENCE, PROGRAM, TASKS, Fault, World, outcome_of

TARGETS = [(role, task) for task in TASKS for role in ("guest", "host")] + [("arbiter", TASKS[-1])]
STEPS = (-5 * DAY, -DAY, -3 * HOUR, -40, -3, 3, 40, 3 * HOUR, DAY, 5 * DAY)
"""Seconds. FATE-Flow as it comes fails a task that is older than three days by its clock."""
TOLERANCE = 1e-6


@dataclass
class Tally:
    """What was done, and what did not hold."""

    kills: int = 0
    stops: int = 0
    clock_steps: int = 0
    disks_filled: int = 0
    disk_full_named: int = 0
    victims: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def kill(self, what: str, processes: list[psutil.Process]) -> int:
        """Kill those of them that still run; returns whether there was one."""
        killed = 0
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
                killed = 1
        self.kills += killed
        self.victims += [what] * killed
        return killed


class Round:
    """One round; ``draw`` decides all that is left to chance."""

    def __init__(self, world: World, tally: Tally, draw: random.Random) -> None:
        self.world, self.tally, self.draw = world, tally, draw
        self.outcomes: list[Outcome] = []
        self.epsilon, self.before = world.next_epsilon(), world.spent()
        self.known = set(world.jobs())

    def fault(self, figure: str, told: str) -> None:
        self.tally.faults.append(Fault(figure, told))

    def play(self, work: Callable[[], None]) -> None:
        """Do it, and see that the next job works and everything holds."""
        work()
        self.outcomes.append(played(self.world.home, self.epsilon, PATIENCE))
        last = self.outcomes[-1]
        if not last.succeeded:
            self.fault("jobs_stuck", f"the next job did not work: {last.sentence}")
        flips = {each.flips for each in self.outcomes if each.flips}
        if len(flips) > 1:
            self.fault("ledger_faults", f"the flips of one epsilon differ: {flips}")
        charged = self.world.spent() - self.before
        if last.succeeded and abs(charged - self.epsilon) > TOLERANCE:
            self.fault("ledger_faults", f"{charged} was charged for {self.epsilon}")
        self.tally.faults += self.world.faults()

    # Jobs, and who is hit in them ------------------------------------------------------------------------------------

    def jobs(self, count: int) -> Iterator[tuple[str, Future[Outcome]]]:
        """Ids of jobs of this round's epsilon at once, each as it begins; all have ended after the last."""
        with ThreadPoolExecutor(count) as threads:
            begun = [threads.submit(played, self.world.home, self.epsilon, PATIENCE) for _ in range(count)]
            seen: set[str] = set()
            while len(seen) < count and not all(each.done() for each in begun):
                for job in sorted(set(self.world.jobs()) - self.known - seen):
                    seen.add(job)
                    yield job, begun[0]
                time.sleep(0.05)
        self.outcomes += [each.result() for each in begun]

    def at(self, job: str, role: str, task: str, most: float = 60.0) -> list[psutil.Process]:
        """The processes of a party's task, a little after the first of them is there."""
        found: list[psutil.Process] = []

        def works() -> bool:
            found[:] = self.world.at_work(job, role, task)
            return bool(found)

        def goes_on() -> bool:
            return job in self.world.unfinished()

        wait_until(works, goes_on, most)
        time.sleep(self.draw.uniform(0, 1.2))
        return self.world.at_work(job, role, task)

    def strike_parties(self) -> None:
        """Kill one process, or all, of one party in each of three jobs that run at once."""
        hit: dict[str, str] = {}
        targets = self.draw.sample(TARGETS, 3)

        def strike(job: str, role: str, task: str) -> None:
            found = self.at(job, role, task)
            chosen = [self.draw.choice(found)] if found and self.draw.random() < 0.7 else found
            if self.tally.kill(f"{role} in {task}", chosen):
                hit[job] = role

        killers = []
        for job, _ in self.jobs(3):
            killers.append(threading.Thread(target=strike, args=(job, *targets[len(killers)])))
            killers[-1].start()
        for killer in killers:
            killer.join()
        self._see_who_is_named(hit)

    def stop_party(self) -> None:
        """Let a party stand still; the client names it."""
        hit = {}
        role, task = self.draw.choice(TARGETS)
        for job, _ in self.jobs(1):
            for process in self.at(job, role, task):
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGSTOP)
                    hit[job] = role
        self.tally.stops += len(hit)
        self._see_who_is_named(hit)

    def _see_who_is_named(self, hit: dict[str, str]) -> None:
        for each in self.outcomes:
            role = hit.get(each.job_id or "")
            if role is not None and not each.succeeded and each.party != role:
                told = f"{role} was hit in job {each.job_id}, and {each.party or 'nobody'} is named: {each.sentence}"
                self.fault("wrong_party_named", told)
            elif role is None and not each.succeeded:
                self.fault("jobs_stuck", f"job {each.job_id}, in which nobody was hit, failed: {each.sentence}")

    def strike_servers(self) -> None:
        """Kill FATE-Flow, or the fork server, in the middle of a job, between two tasks, or before one is submitted."""
        program = self.draw.choice(["flow", "flow", "fork_server"])
        when = self.draw.choice(["within", "between", "before"]) if program == "flow" else "within"
        killed = PROGRAM if program == "flow" else FORK_SERVER
        if when == "before":
            self.tally.kill("flow before a job", self.world.servers())
        for job, _ in self.jobs(1):
            if when == "within":
                self.at(job, *self.draw.choice(TARGETS))
            elif when == "between":
                wait_until(lambda: self.world.is_between(job), lambda: job in self.world.unfinished(), 60)
            self.tally.kill(f"{program} {when} a job", self.world.servers(killed))
            if program == "flow":
                self.world.run("up")
        self.world.run("up")

    def strike_client(self) -> None:
        """Kill the client, and half the time the server too, as a reboot does: its job runs on, or `up` ends it."""
        client = self.world.job(self.epsilon)
        wait_until(lambda: bool(set(self.world.jobs()) - self.known), lambda: client.poll() is None, 60)
        time.sleep(self.draw.uniform(0, 6))
        if client.poll() is None:
            self.tally.kill("client", [psutil.Process(client.pid)])
        if self.draw.random() < 0.5:
            self.tally.kill("flow without a client", self.world.servers())
            self.world.run("up")
        if (ended := outcome_of(client)) is not None:
            self.outcomes.append(ended)
        if not wait_until(lambda: not self.world.unfinished(), lambda: True, 120):
            self.fault("jobs_stuck", f"jobs without a client never ended: {self.world.unfinished()}")

    # Commands --------------------------------------------------------------------------------------------------------

    def strike_commands(self) -> None:
        """Kill commands in quick succession, two at a time, at any moment of theirs; then each must work."""
        number, folder = self.world.epsilons, self.world.folder
        words = {
            "upload": ("upload", folder / "guest.csv", f"other/t{number}", "--label", "y"),
            "declare": ("declare", f"x/t{number}/y", "--cap", 3),
            "cap": ("cap", f"{TABLES.namespace}/guest", "--labels", 150 + number / 100),
            "backup": ("backup", folder / "backups"),
            "ledger": ("ledger", "--html", folder / "ledger.html"),
        }
        for _ in range(6):
            pair = self.draw.sample(sorted(words), 2)
            begun = [(name, self.world.command(*words[name])) for name in pair]
            for name, command in begun:
                with suppress(subprocess.TimeoutExpired):
                    command.wait(self.draw.uniform(0.1, 1.2) * self.world.seconds_of.get(name, 2.0) / 2)
            for name, command in begun:
                if command.poll() is None:
                    self.tally.kill(name, [psutil.Process(command.pid)])
                command.communicate()
        for name in words:
            start = time.monotonic()
            self.world.run(*words[name])
            self.world.seconds_of[name] = time.monotonic() - start

    def strike_up(self) -> None:
        """Kill the server, and then twice the command that starts it."""
        self.tally.kill("flow at rest", self.world.servers())
        for _ in range(2):
            command = self.world.command("up")
            with suppress(subprocess.TimeoutExpired):
                command.wait(self.draw.uniform(0.5, 7.0))
            if command.poll() is None:
                self.tally.kill("up", [psutil.Process(command.pid)])
            command.communicate()
        self.world.run("up")

    # Clock and disk --------------------------------------------------------------------------------------------------

    def step_clock(self) -> None:
        """Set the clock in the middle of a job, look at the server, set it back, and do the same before a job."""
        step = self.draw.choice(STEPS)
        if self.draw.random() < 0.3:
            self._set_clock(-step)
        client = self.world.job(self.epsilon)
        wait_until(lambda: bool(set(self.world.jobs()) - self.known), lambda: client.poll() is None, 60)
        time.sleep(self.draw.uniform(0, 5))
        self._set_clock(step)
        ended = outcome_of(client)
        if ended is not None:
            self.outcomes.append(ended)
            if not ended.succeeded:
                self.fault("killed_by_clock", f"a step of {step} s within job {ended.job_id}: {ended.sentence}")
        record = read_record(self.world.home / "server.json")
        for begun in (self.world.command("up"), self.world.with_boot_time("status", 3)):
            said, _ = begun.communicate(timeout=180)
            if begun.returncode or read_record(self.world.home / "server.json") != record:
                self.fault("killed_by_clock", f"after a step of {step} s the server was taken for dead: {said}")
        self._set_clock(0)

    def _set_clock(self, seconds: int) -> None:
        self.world.set_clock(seconds)
        self.tally.clock_steps += 1

    def fill_disk(self) -> None:
        """Let no byte be written in the middle of a job and by commands; both say so, and the job goes its way after that."""
        for job, _ in self.jobs(1):
            self.at(job, "guest", TASKS[0])
            with self.world.full_disk():
                self.tally.disks_filled += 1
                for words in (
                    ("declare", "x/full/y", "--cap", "3"),
                    ("cap", f"{TABLES.namespace}/guest", "--labels", "190"),
                ):
                    said, _ = self.world.command(*words).communicate(timeout=60)
                    if "Traceback" in said:
                        self.fault("jobs_stuck", f"fate-dp {words[0]} on a full disk: {said}")
                wait_until(lambda: job not in self.world.unfinished(), lambda: True, 2 * PATIENCE)
            self.world.command("stop", job).communicate(timeout=60)
        failed = [each for each in self.outcomes if not each.succeeded]
        self.tally.disk_full_named += any("is full" in each.sentence for each in failed) or not failed


ROUNDS: dict[str, Callable[[Round], None]] = {
    "parties": Round.strike_parties,
    "commands": Round.strike_commands,
    "clock": Round.step_clock,
    "servers": Round.strike_servers,
    "stop": Round.stop_party,
    "client": Round.strike_client,
    "up": Round.strike_up,
    "disk": Round.fill_disk,
}
ORDER = (
    "parties",
    "commands",
    "clock",
    "servers",
    "parties",
    "clock",
    "commands",
    "up",
    "stop",
    "clock",
    "disk",
    "client",
)
