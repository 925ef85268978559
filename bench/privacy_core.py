"""How long the privacy core takes where rounds, messages and lines are many.

    python -m bench.privacy_core

Wall seconds of one question each: epsilon of 10^5 sampled rounds by privacy loss distributions, epsilon of 10^9
shuffled messages, and what a ledger of 10^6 releases answers: may one more round be charged, what did one observer
learn, what did one job use. The last line printed is one JSON object.
"""

import json
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.events import Event, PoissonSampledGaussian
from fate_dp.privacy.ledger.entries import BudgetCap, insert, step_entry
from fate_dp.privacy.ledger.ledger import Ledger

ROUNDS, MESSAGES, RELEASES = 10**5, 10**9, 10**6
DATASETS, EVENTS_OF_ONE, ROUNDS_OF_JOB = 10, 5, 1000
CAP = BudgetCap(100.0, 1e-5)
RELEASE = "INSERT INTO release (entry_id, job_id, task_id, time, records, fingerprint, state, note) "


def event_of(number: int) -> Event:
    return Event(PoissonSampledGaussian(0.001, 1 + number / 100), "record", "replace_one", "server")


def epsilon_of_rounds() -> float:
    accountant = make_accountant("pld", "replace_one")
    accountant.compose(event_of(0), ROUNDS)
    return accountant.epsilon(1e-5)


def filled_ledger(path: Path) -> Ledger:
    """A ledger whose releases were written by hand, since each transaction of its own waits for the disk."""
    ledger = Ledger(path)
    ledger.entries()
    lines = [
        (f"bank/loans{dataset}", event_of(number)) for dataset in range(DATASETS) for number in range(EVENTS_OF_ONE)
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        found = [insert(connection, "entry", asdict(step_entry(dataset, event, ""))) for dataset, event in lines]
        uses = (
            (found[at % len(found)], f"job {at // ROUNDS_OF_JOB}", "task", 1e9 + at, 1000, "rows", "released", "")
            for at in range(RELEASES)
        )
        connection.executemany(f"{RELEASE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", uses)
        connection.execute("INSERT INTO private_step SELECT release_id, 'draw ' || release_id, 1 FROM release")
    return ledger


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
    figures |= ledger_seconds()
    table = Table("question", "seconds", title=f"{ROUNDS:,} rounds, {MESSAGES:,} messages, {RELEASES:,} releases")
    for name, seconds in figures.items():
        table.add_row(name.replace("_", " "), f"{seconds:.3f}")
    Console().print(table)
    print(json.dumps({"bench": "privacy-core", "figures": figures}))


if __name__ == "__main__":
    main()
