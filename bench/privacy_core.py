"""How long the privacy core takes where rounds, messages and lines are many.

    python -m bench.privacy_core

Wall seconds of one question each: epsilon of 10^5 sampled rounds by privacy loss distributions, epsilon of 10^9
shuffled messages, and what a ledger of 10^6 releases answers: may one more round be charged, what did one observer
learn, what did one job use. Then, with 10^5 jobs of flips, two private steps and scores in a ledger: the whole commands
`fate-dp ledger` and `cap`, the slowest of four charges (composing included), the page's size, and how often one charge waits
for the disk. The last line printed is one JSON object.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.events import Event, Gaussian, PoissonSampledGaussian
from fate_dp.privacy.ledger.database import ROWS, UPGRADES
from fate_dp.privacy.ledger.entries import JOINT_SCORES, BudgetCap, counted_entry, insert, step_entry
from fate_dp.privacy.ledger.ledger import Ledger

ROUNDS, MESSAGES, RELEASES = 10**5, 10**9, 10**6
DATASETS, EVENTS_OF_ONE, ROUNDS_OF_JOB = 10, 5, 1000
CAP = BudgetCap(100.0, 1e-5)
RELEASE = "INSERT INTO release (entry_id, job_id, task_id, time, records, fingerprint, state, note) "
JOBS, RECORDS, LOANS, SOURCE = 10**5, 1000, "columns:0123456789abcdef", "bank/loans/y"
NOISE = Event(Gaussian(40.0), "record", "replace_one", ("host", "model"))
SAMPLED = Event(PoissonSampledGaussian(0.001, 2.0), "record", "replace_one", "model")
JOB: dict[str, Any] = {"job_id": "job", "task_id": "task"}
COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int syncs;
int fsync(int f) { syncs++; return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(f); }
int fdatasync(int f) { syncs++; return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(f); }
__attribute__((destructor)) static void tell(void) { printf("%d\\n", syncs); }
"""
CHARGES = """
import sys
from pathlib import Path
from bench.privacy_core import charges
each = dict(charges(Path(sys.argv[1])))["private step"]
for _ in range(int(sys.argv[2])):
    each()
"""


def event_of(number: int) -> Event:
    return Event(PoissonSampledGaussian(0.001, 1 + number / 100), "record", "replace_one", "server")


def epsilon_of_rounds() -> float:
    accountant = make_accountant("pld", "replace_one")
    accountant.compose(event_of(0), ROUNDS)
    return accountant.epsilon(1e-5)


def filled_ledger(path: Path) -> Ledger:
    """A ledger whose releases were written by hand, since each transaction of its own waits for the disk."""
    lines = [
        (f"bank/loans{dataset}", event_of(number)) for dataset in range(DATASETS) for number in range(EVENTS_OF_ONE)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        # As a program without sums wrote it; the first write makes them.
        for statement in (*ROWS, f"INSERT INTO ledger_version VALUES ({max(UPGRADES)})"):
            connection.execute(statement)
        found = [insert(connection, "entry", asdict(step_entry(dataset, event, ""))) for dataset, event in lines]
        uses = (
            (found[at % len(found)], f"job {at // ROUNDS_OF_JOB}", "task", 1e9 + at, 1000, "rows", "released", "")
            for at in range(RELEASES)
        )
        connection.executemany(f"{RELEASE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", uses)
        connection.execute("INSERT INTO private_step SELECT release_id, 'draw ' || release_id, 1 FROM release")
    ledger = Ledger(path)
    ledger.mark_released(1)
    return ledger


def filled_with_jobs(path: Path) -> None:
    """10^5 jobs that ended, of which the API wrote the first one's flips."""
    dict(charges(path))["flips"]()
    lines = [step_entry(LOANS, NOISE, ""), step_entry(LOANS, SAMPLED, ""), counted_entry(JOINT_SCORES, LOANS, "p")]
    with closing(sqlite3.connect(path)) as connection, connection:
        flips, *steps, scores = (1, *(insert(connection, "entry", asdict(line)) for line in lines))
        uses = (
            (line, f"2026{job:018}", "task", 1.7e9 + 600 * job, RECORDS, f"{job:064}" if line == scores else "rows")
            for job in range(JOBS)
            for line in (flips, *steps, scores)
        )
        connection.executemany(f"{RELEASE} VALUES (?, ?, ?, ?, ?, ?, 'released', '')", uses)
        of_steps = f"SELECT release_id, 'draw ' || release_id, 1 FROM release WHERE entry_id IN {tuple(steps)}"
        connection.execute(f"INSERT INTO private_step {of_steps}")


def charges(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """One more of each kind, as a component asks for it."""
    ledger, numbers, cap = Ledger(path), count(), BudgetCap(1e4, 1e-6)
    records = [number.to_bytes(16, "big") for number in range(RECORDS)]
    ledger.remember_dataset(LOANS, ["x"], records=records, key_id="key", tables=["bank/loans"])
    rows = [(record, record, "0") for record in records]
    flips: dict[str, Any] = {
        "source": SOURCE,
        "epsilon": 1.0,
        "classes": 2,
        "key_id": "key",
        "cap": 8.0,
        "fingerprint": "rows",
    }
    yield "flips", lambda: ledger.record_flips(rows=rows, **flips, **JOB)

    def step(event: Event) -> None:
        key = f"{os.getpid()} {time.time()} {next(numbers)}"
        ledger.record(dataset=LOANS, event=event, cap=cap, fingerprint="rows", release_key=key, **JOB)

    yield "private step", partial(step, NOISE)
    yield "Poisson steps", partial(step, SAMPLED)
    scores = partial(ledger.record_scores, dataset=LOANS, purpose="p", rows=RECORDS, cap=10**7, **JOB)
    yield "scores", lambda: scores(weights_digest=f"{time.time()}")


def syncs_of_a_charge(folder: Path) -> int:
    """How often the disk is waited for; counted in a process that charges once more than another."""
    (folder / "count.c").write_text(COUNTER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "count.so", folder / "count.c", "-ldl"], check=True)
    command = [sys.executable, "-c", CHARGES, str(folder / "few.sqlite")]
    counts = [
        int(
            subprocess.run(
                [*command, f"{times}"],
                env=os.environ | {"LD_PRELOAD": f"{folder / 'count.so'}"},
                check=True,
                stdout=subprocess.PIPE,
            ).stdout
        )
        for times in (1, 1, 2)
    ]
    return counts[2] - counts[1]


def figures_of_jobs() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        home, page = Path(folder), Path(folder) / "ledger.html"
        path = home / "parties" / "party-9999" / "ledger.sqlite"
        filled_with_jobs(path)
        command = [Path(sys.executable).with_name("fate-dp"), "--home", folder]

        def asked(*words: str) -> float:
            run = partial(subprocess.run, [command[0], *words, *command[1:]], check=True, stdout=subprocess.DEVNULL)
            return median(seconds_of(run) for _ in range(3))

        found = {"ledger_seconds_1e5_jobs": asked("ledger"), "cap_seconds_1e5_jobs": asked("cap", "bank/loans")}
        of_charges = [[seconds_of(each) for _ in range(4)] for _, each in charges(path)]
        # The first of each imports what it needs.
        found["charge_ms_1e5_jobs"] = round(1000 * max(median(each[1:]) for each in of_charges), 1)
        found["page_seconds_1e5_jobs"] = asked("ledger", "--html", str(page))
        found["html_mib"] = round(page.stat().st_size / 2**20, 2)
        found["syncs_per_charge"] = syncs_of_a_charge(home)
        return found


def seconds_of(ask: Callable[[], Any]) -> float:
    began = time.perf_counter()
    ask()
    return round(time.perf_counter() - began, 3)


def ledger_seconds() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = filled_ledger(Path(folder) / "ledger.sqlite")
        one_more = partial(ledger.record, dataset="bank/loans0", event=event_of(0), cap=CAP, fingerprint="rows")
        return {
            "ledger_record_seconds": seconds_of(lambda: one_more(release_key="one more", job_id="job", task_id="task")),
            "ledger_total_seconds": seconds_of(lambda: ledger.total("bank/loans1", "record", "replace_one", "server")),
            "ledger_job_seconds": seconds_of(lambda: ledger.totals(job_id="job 7")),
            "ledger_totals_seconds": seconds_of(ledger.totals),
        }


def main() -> None:
    figures = {"pld_seconds": seconds_of(epsilon_of_rounds)}
    figures |= {
        f"shuffle_seconds_epsilon0_{epsilon0:g}": seconds_of(lambda: shuffle_epsilon(epsilon0, MESSAGES, 1e-9))
        for epsilon0 in (0.5, 2.0, 8.0)
    }
    figures |= ledger_seconds() | figures_of_jobs()
    table = Table(
        "question", "found", title=f"{ROUNDS:,} rounds, {MESSAGES:,} messages, {RELEASES:,} releases, {JOBS:,} jobs"
    )
    for name, seconds in figures.items():
        table.add_row(name.replace("_", " "), f"{seconds:.3f}")
    Console().print(table)
    print(json.dumps({"bench": "privacy-core", "figures": figures}))


if __name__ == "__main__":
    main()
