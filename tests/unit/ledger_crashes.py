"""Crashes of the ledger's writer: at any SQL statement, at any line, at any moment."""

import itertools
import os
import shutil
import signal
import sqlite3
import time

import numpy as np
import pytest
from ledger_scenarios import (
    DATASET,
    FORK,
    LEDGER_FILES,
    SOURCE,
    derive,
    dump,
    killed_at_line,
    release,
    released_texts,
    score,
)

from fate_dp.privacy import Ledger
from fate_dp.privacy.accounting import total
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PureDP
from fate_dp.privacy.labels.flips import LabelRelease
from fate_dp.privacy.ledger import database
from fate_dp.privacy.ledger.entries import BudgetCap

STEP = Event(PureDP(1.0), "record", ADD_OR_REMOVE, ("server", "model"))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "home" / "ledger.sqlite")


@pytest.fixture(autouse=True)
def sum_of_epsilons(monkeypatch):
    """What is killed here is the ledger: a plain sum in place of the accountant keeps thousands of runs short."""
    monkeypatch.setattr(
        total, "total_epsilon", lambda charges, delta: sum(count * event.process.epsilon for event, count in charges)
    )


# --- at any SQL statement, at any moment ---


def crash_at_statement(number, operation):
    """Run ``operation`` in a process that dies at its n-th SQL statement; return whether it got to the end."""

    def child():
        connect, statements = sqlite3.connect, itertools.count(1)

        def count(_):
            if next(statements) == number:
                os._exit(9)

        def traced(*arguments, **options):
            connection = connect(*arguments, **options)
            connection.set_trace_callback(count)
            return connection

        database.sqlite3.connect = traced
        operation()
        os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, 9)
    return process.exitcode == 0


def remember(ledger, dataset, columns, records):
    return ledger.remember_dataset(dataset, columns, records=[bytes([record]) for record in records], key_id="k")


OPERATIONS = {
    "joined families": lambda ledger: remember(ledger, "bridge", ["b"], (2, 3, 4)),
    "scores of a model": lambda ledger: ledger.remember_model_scores("digest", [LabelRelease("a/b/c", 1.0)]),
    "derived": lambda ledger: derive(ledger, 1, [(tag, "0.5") for tag, _ in released_texts(range(5), 2)]),
    "not private": lambda ledger: ledger.record_not_private(source="a/b/c", reason="r", job_id="j", task_id="t"),
    "scores": lambda ledger: score(ledger, "w9"),
    "training records": lambda ledger: ledger.remember_training_records(DATASET, [b"a", b"b", b"c"]),
}


@pytest.mark.parametrize("case", OPERATIONS)
def test_crash_at_any_statement_leaves_nothing_or_everything(tmp_path, case):
    states = set()
    for number in itertools.count(1):
        ledger, complete = Ledger(tmp_path / f"{number}"), Ledger(tmp_path / f"{number}-complete")
        for each in (ledger, complete):
            release(each, range(5), 2)
            remember(each, "first", ["a"], (1, 2))
            remember(each, "second", ["a"], (3,))
        before = dump(ledger.path)
        OPERATIONS[case](complete)
        finished = crash_at_statement(number, lambda: OPERATIONS[case](ledger))
        found = dump(ledger.path)
        assert found in (before, dump(complete.path)) and (not finished or found != before)
        states.add(found == before)
        OPERATIONS[case](ledger)
        if finished:
            break
    assert states == {True, False} and number > 5


def test_killed_writer_leaves_only_full_releases(ledger):
    def write():
        for job in itertools.count():
            release(ledger, range(job * 20, job * 20 + 20), 1, job_id=str(job))

    release(ledger, range(20), 1)
    for delay in np.linspace(0.02, 0.15, 8):
        process = FORK.Process(target=write)
        process.start()
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        (entry,) = ledger.entries()
        assert entry["records"] == 20 * len(entry["jobs"]) or entry["records"] == 20 * (len(entry["jobs"]) - 1)


# --- at any line ---


def step(ledger, release_key="draw", cap=BudgetCap(4.0, 1e-6)):
    return ledger.record(
        dataset="bank/loans",
        event=STEP,
        cap=cap,
        release_key=release_key,
        job_id="job",
        task_id="task",
        fingerprint="f",
        purpose="mean",
    )


def run_job(ledger, output):
    """What a component does: record, release, confirm."""
    recorded = step(ledger)
    output.write_text("noisy mean")
    ledger.mark_released(recorded.release_id)


def spent_on_steps(ledger):
    return ledger.total("bank/loans", "record", ADD_OR_REMOVE, "server", 0)


def test_job_killed_at_any_line_releases_nothing_unrecorded_and_records_nothing_twice(tmp_path):
    template = Ledger(tmp_path / "template")
    step(template, "earlier draw")
    seen = set()
    for number in itertools.count(1):
        ledger, output = Ledger(tmp_path / f"{number}"), tmp_path / f"{number}.output"
        shutil.copy(template.path, ledger.path)
        outcome = killed_at_line(number, lambda: run_job(ledger, output), (*LEDGER_FILES, __file__))
        assert outcome in ("done", "killed")
        spent = spent_on_steps(ledger)
        assert spent == 2 or not output.exists()
        seen.add((spent, output.exists()))
        run_job(ledger, output)
        assert spent_on_steps(ledger) == 2 and dict(dump(ledger.path))["private_step"][1:] == [(2, "draw", 1)]
        (line,) = ledger.entries()
        assert (line["uses"], line["pending"], line["rounds"]) == (2, 1, 2)
        if outcome == "done":
            break
    assert seen == {(1, False), (2, False), (2, True)} and number > 150


def complete_dump(path, operation):
    operation(Ledger(path))
    return dump(path)


LINES = {"flips": lambda ledger: release(ledger, range(4, 6), 1), "mark": lambda ledger: ledger.mark_released(1)}


@pytest.mark.parametrize("case", LINES)
def test_writer_killed_at_any_line_leaves_nothing_or_everything(tmp_path, case):
    template = Ledger(tmp_path / "template")
    release(template, range(5), 2)
    before = dump(template.path)
    shutil.copy(template.path, tmp_path / "complete")
    after = complete_dump(tmp_path / "complete", LINES[case])
    found = []
    for number in itertools.count(1):
        path = tmp_path / f"{number}"
        shutil.copy(template.path, path)
        outcome = killed_at_line(number, lambda: LINES[case](Ledger(path)))
        assert outcome in ("done", "killed")
        found.append(dump(path))
        if outcome == "done":
            break
    changed = found.index(after)
    assert found == [before] * changed + [after] * (len(found) - changed) and changed > 20


def test_writer_killed_at_any_line_while_the_file_is_made_leaves_a_usable_ledger(tmp_path):
    after = complete_dump(tmp_path / "complete", step)
    for number in itertools.count(1):
        ledger = Ledger(tmp_path / f"{number}" / "home" / "ledger.sqlite")
        outcome = killed_at_line(number, lambda: ledger.spent(SOURCE))
        assert outcome in ("done", "killed")
        step(ledger)
        assert dump(ledger.path) == after
        if outcome == "done":
            break
    assert number > 80
