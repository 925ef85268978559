"""The sums that a ledger keeps beside its rows are what a recount of the rows says, whatever was written, killed or upgraded."""

import itertools
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_scenarios import FORK, derive, in_family, release, released_texts, score

from fate_dp.privacy import Ledger
from fate_dp.privacy.events import REPLACE_ONE, Event, NotPrivate, PureDP
from fate_dp.privacy.ledger import database
from fate_dp.privacy.ledger.entries import COUNTED_USES, JOINT_SCORES, LedgerError
from fate_dp.privacy.ledger.steps import PrivateStep

STEP, OTHER = (Event(PureDP(epsilon), "record", REPLACE_ONE, "model") for epsilon in (0.5, 0.25))
EXACT = Event(NotPrivate("exact"), "record", REPLACE_ONE, "model")
DATASETS = ("bank/loans", "bank/cards")
RECOUNTS = {
    "entry_sum": database.RECOUNT.format(chosen=1),
    "entry_note": f"SELECT DISTINCT entry_id, note FROM ({database.NOTES.format(chosen=1)})",
    "counted_use": f"SELECT DISTINCT * FROM ({COUNTED_USES.format(chosen=1)})",
}


def steps(ledger, number, dataset):
    asked = [
        (PrivateStep(dataset, event, f"{number} {count}", "f", count=count), None)
        for event, count in ((STEP, 2), (OTHER, 1), (STEP, 10**9), (EXACT, 3))
    ]
    return ledger.record_together(asked, f"job {number}", "t")[0].release_id


def derived(ledger, number, _):
    parent = release(ledger, range(3), 1, cap=1e6, job_id=f"job {number}").entry_id
    derive(ledger, parent, [(tag, str(number % 3)) for tag, _ in released_texts(range(3), 1)], job_id=f"job {number}")


def losses(ledger, number, dataset):
    ledger.record_losses(dataset=dataset, trainings=3, rows=number, cap=10**6, job_id=f"job {number}", task_id="t")


def over_sampled(ledger, number, dataset):
    task = {"job_id": f"job {number}", "task_id": "t"}
    ledger.record_over_sampling(dataset=dataset, method="smote", rows=9, synthetic_rows=number % 3, **task)
    ledger.record_not_private(source="a/b/y", reason="public", rows=number, **task)
    ledger.note_recorder(component="align", role="host", **task)


WRITES = {
    "flips": lambda ledger, number, _: release(ledger, range(number % 5, 6), 1 + number % 2, cap=1e6).release_id,
    "steps": steps,
    "derived": derived,
    "scores": lambda ledger, number, dataset: score(
        ledger, f"w{number % 4}", 100, purpose=f"p{number % 2}", dataset=dataset
    ),
    "prediction": lambda ledger, number, dataset: ledger.record_prediction(
        dataset=dataset, weights_digest=f"w{number % 3}", rows=number, job_id="j", task_id="t"
    ),
    "losses": losses,
    "notes": over_sampled,
    "family": lambda ledger, number, dataset: in_family(ledger, "a/b/y", numbers=[number % 3]),
}


def disagreements(path):
    """Names of the sums that are not what the rows say."""
    with closing(sqlite3.connect(path)) as connection:
        kept = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in RECOUNTS}
        told = {name: connection.execute(query).fetchall() for name, query in RECOUNTS.items()}
    return [name for name in RECOUNTS if sorted(kept[name]) != sorted(told[name])]


def killed_at(number, operation):
    """Run in a process that dies at its n-th SQL statement."""

    def child():
        connect, statements = sqlite3.connect, itertools.count(1)

        def traced(*arguments, **options):
            connection = connect(*arguments, **options)
            connection.set_trace_callback(lambda _: next(statements) == number and database.os._exit(9))
            return connection

        database.sqlite3.connect = traced
        operation()
        database.os._exit(0)

    process = FORK.Process(target=child)
    process.start()
    process.join()


def as_version_6(path):
    """What a program without sums would have written."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for kind, name in [*(("TRIGGER", name) for (name,) in names), *(("TABLE", name) for name in RECOUNTS)]:
            connection.execute(f"DROP {kind} {name}")
        connection.execute("UPDATE ledger_version SET version = 6")


def write(ledger, name, number, mark):
    number_of_release = WRITES[name](ledger, number, DATASETS[number % 2])
    if mark and isinstance(number_of_release, int) and number_of_release > 1:
        ledger.mark_released(number_of_release)


ACTIONS = st.tuples(
    st.sampled_from(["write", "write", "write", "kill", "restore", "downgrade"]),
    st.sampled_from(sorted(WRITES)),
    st.integers(0, 30),
    st.booleans(),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, min_size=1, max_size=12))
def test_sums_are_what_a_recount_says(tmp_path_factory, actions):
    folder = tmp_path_factory.mktemp("sums")
    ledger, backup = Ledger(folder / "ledger.sqlite"), folder / "backup"
    ledger.related("x")
    for place, (action, name, number, mark) in enumerate(actions):
        write_this = lambda: write(ledger, name, number + 31 * place, mark)  # noqa: B023, E731
        if action == "kill":
            killed_at(1 + number, write_this)
        elif action == "restore" and backup.exists():
            shutil.copy(backup, ledger.path)
        else:
            if action == "downgrade":
                shutil.copy(ledger.path, backup)
                as_version_6(ledger.path)
            write_this()
        assert disagreements(ledger.path) == []


def all_writes(ledger):
    for number, name in enumerate([*WRITES, *WRITES]):
        write(ledger, name, number, mark=True)


@pytest.mark.parametrize("trigger", ["release_is_counted", "release_is_marked", "step_is_counted"])
def test_a_ledger_without_one_of_its_triggers_is_noticed(tmp_path, monkeypatch, trigger):
    all_writes(Ledger(tmp_path / "whole"))
    assert disagreements(tmp_path / "whole") == []
    kept = tuple(statement for statement in database.UPGRADES[6] if trigger not in statement)
    assert len(kept) == len(database.UPGRADES[6]) - 1
    monkeypatch.setitem(database.UPGRADES, 6, kept)
    all_writes(Ledger(tmp_path / "broken"))
    assert disagreements(tmp_path / "broken") != []


def test_a_ledger_of_version_6_is_read_as_it_is_and_upgraded_by_the_first_write(tmp_path, capsys):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    all_writes(ledger)
    told = ledger.entries(), ledger.totals(), ledger.scores_released(DATASETS[0]), ledger.scores_released(DATASETS[1])
    as_version_6(ledger.path)
    before = ledger.path.read_bytes()
    assert told == (
        ledger.entries(),
        ledger.totals(),
        ledger.scores_released(DATASETS[0]),
        ledger.scores_released(DATASETS[1]),
    )
    assert ledger.path.read_bytes() == before
    ledger.mark_released(1)
    assert (tmp_path / "ledger.sqlite.version-6").exists() and "is upgraded to version 7" in capsys.readouterr().out
    assert disagreements(ledger.path) == []


def test_an_upgrade_that_dies_at_any_statement_leaves_the_old_ledger_or_the_new_one(tmp_path):
    whole = Ledger(tmp_path / "whole")
    all_writes(whole)
    as_version_6(whole.path)
    versions = set()
    for number in range(1, 60, 4):
        path = Path(shutil.copy(whole.path, tmp_path / str(number)))
        killed_at(number, lambda: Ledger(path).mark_released(1))
        with closing(sqlite3.connect(path)) as connection:
            version = database.version_of(connection)
        versions.add(version)
        Ledger(path).mark_released(1)
        assert disagreements(path) == []
    assert versions == {6, 7}


def test_a_family_counts_the_same_scores_of_two_datasets_once(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for dataset, digest in zip((*DATASETS, *DATASETS), ("w1", "w1", "w2", "w3")):
        ledger.remember_dataset(dataset, ["x"], records=[b"r" * 16], key_id="k")
        score(ledger, digest, dataset=dataset)
    assert [ledger.counted(dataset, JOINT_SCORES) for dataset in DATASETS] == [3, 3]
    with pytest.raises(LedgerError, match="joint scores of 3 models"):
        score(ledger, "w4", cap=3, dataset=DATASETS[0])


def work_of(operation, monkeypatch):
    """How many hundred instructions of SQLite an operation takes."""
    connect, hundreds = sqlite3.connect, itertools.count()

    def counted(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_progress_handler(lambda: next(hundreds) < 0, 100)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(database.sqlite3, "connect", counted)
        operation()
    return next(hundreds)


def test_no_charge_and_no_total_takes_longer_after_ten_times_as_many_uses(tmp_path, monkeypatch):
    found = []
    for uses in (500, 5000):
        ledger = Ledger(tmp_path / f"{uses}")
        all_writes(ledger)
        with closing(sqlite3.connect(ledger.path)) as connection, connection:
            columns = "entry_id, job_id, task_id, time, records, fingerprint, state, note"
            again = f"SELECT {columns} FROM release GROUP BY entry_id"
            for _ in range(uses // 10):
                connection.execute(f"INSERT INTO release ({columns}) {again}")
            connection.execute(
                "INSERT INTO private_step SELECT release_id, 'k' || release_id, 1 FROM release JOIN entry USING (entry_id)"
                " WHERE epsilon IS NULL AND release_id NOT IN (SELECT release_id FROM private_step)"
            )
        assert disagreements(ledger.path) == []
        asked = [lambda name=name: WRITES[name](ledger, 1000, DATASETS[0]) for name in ("flips", "steps", "scores")]
        asked += [lambda: ledger.entries(with_jobs=False), ledger.totals, lambda: ledger.counted(DATASETS[0], "x")]
        found.append([work_of(each, monkeypatch) for each in asked])
    assert all(later <= 1.1 * earlier + 3 for earlier, later in zip(*found)), found
