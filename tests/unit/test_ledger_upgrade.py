"""The upgrade of a ledger of version 1, which has neither events nor private steps."""

import math
import shutil
import sqlite3

import pytest
from ledger_scenarios import KEY, OTHER_KEY, SOURCE, dump, release, released_texts, run_at_once
from ledger_version_1 import VERSION_1

from fate_dp.privacy import CorrectedLabel, Ledger
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PureDP, event_from_json
from fate_dp.privacy.labels.flips import LabelRelease, record_tags
from fate_dp.privacy.ledger.database import SCHEMA_VERSION
from fate_dp.privacy.ledger.entries import BudgetCap
from fate_dp.privacy.ledger.labels import LabelProvenance
from fate_dp.privacy.private_files import key_id

DATASET, RELATED, PUBLIC = "columns:0f1e2d3c4b5a6978", "columns:ffff", "public/breast_guest/y"
# (source, mechanism, epsilon, uses, pending, records, rounds, counted, jobs, fingerprint), as version 1 showed them.
ENTRIES_1 = [
    (SOURCE, "randomized_response", 2.0, 1, 0, 4, 1, True, ["job-1"], "fjob-1"),
    (SOURCE, "randomized_response", 0.5, 1, 1, 2, 1, True, ["job-2"], "fjob-2"),
    (SOURCE, "randomized_response", 1.5, 1, 0, 2, 1, True, ["job-3"], "fjob-3"),
    (
        SOURCE,
        "post-processing",
        0.0,
        1,
        0,
        3,
        1,
        False,
        ["job-4"],
        "87487ace1d245d884be44bbb7935130797ec90f24463714fa3a96a670436570d",
    ),
    (PUBLIC, "not private", "infinity", 1, 0, 2, 1, False, ["job-5"], ""),
    (DATASET, "joint scores", "infinity", 2, 0, 4, 2, True, ["job-6"], "w2"),
    (RELATED, "joint scores", "infinity", 1, 0, 4, 1, True, ["job-6"], "w3"),
    (DATASET, "joint scores", "infinity", 1, 0, 4, 1, False, ["job-6"], "w1"),
]
SHOWN = ("source", "mechanism", "epsilon", "uses", "pending", "records", "rounds", "counted", "jobs", "fingerprint")


def of_flips(epsilon, entry_id, derived=False):
    return LabelProvenance(SOURCE, (LabelRelease(SOURCE, epsilon, 2, key_id(KEY), entry_id),), derived)


@pytest.fixture(scope="module")
def version_1(tmp_path_factory):
    path = tmp_path_factory.mktemp("old") / "ledger.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1)
    connection.close()
    return path


@pytest.fixture
def ledger(version_1, tmp_path):
    return Ledger(shutil.copy(version_1, tmp_path / "ledger.sqlite"))


def tables_of(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    connection.close()
    return [(kind, name, sql and " ".join(sql.split())) for kind, name, sql in rows]


def test_upgraded_file_has_the_tables_of_a_new_one(ledger, tmp_path):
    ledger.spent(SOURCE)
    Ledger(tmp_path / "new").spent(SOURCE)
    assert tables_of(ledger.path) == tables_of(tmp_path / "new")
    assert dict(dump(ledger.path))["ledger_version"] == [(SCHEMA_VERSION,)]


def test_every_number_is_as_before(ledger):
    assert [tuple(entry[name] for name in SHOWN) for entry in ledger.entries()] == ENTRIES_1
    assert ledger.spent(SOURCE) == 4.0 and ledger.sources(key_id(KEY)) == [SOURCE]
    assert ledger.scores_released(DATASET) == ledger.scores_released(RELATED) == 3
    assert not ledger.are_scores_new(dataset=DATASET, weights_digest="w1")
    assert ledger.has_training_record(RELATED, [b"t" * 16], key_id=key_id(KEY))
    assert ledger.related(DATASET) == [DATASET, RELATED]
    public = list(zip(record_tags(range(2), KEY, PUBLIC), "01"))
    assert ledger.are_public(public, source=PUBLIC, key_id=key_id(KEY))
    untouched = {
        "release",
        "true_label",
        "released_label",
        "derived_set",
        "derived_label",
        "public_label",
        "dataset_column",
        "training_record",
    }
    connection = sqlite3.connect(":memory:")
    connection.executescript(VERSION_1)
    for table in untouched:
        before = sorted(connection.execute(f"SELECT * FROM {table}"))
        with sqlite3.connect(ledger.path) as upgraded:
            assert sorted(upgraded.execute(f"SELECT * FROM {table}")) == before and before
        upgraded.close()


def test_labels_are_found_as_before(ledger):
    def found(rows, key=KEY):
        return ledger.find_labels(rows, source=SOURCE, key_id=key_id(key))

    assert found(released_texts(range(4), 2)) == of_flips(2.0, 1)
    assert found(released_texts(range(2), 0.5)) in (of_flips(0.5, 2), of_flips(2.0, 1))
    derived = [(tag, "0.25") for tag in record_tags(range(3), KEY, SOURCE)]
    assert found(derived) == of_flips(2.0, 1, derived=True)
    assert found(derived, OTHER_KEY) is None


def test_memo_and_budget_go_on(ledger):
    again = release(ledger, range(4), 2, class_labels=("0", "1"))
    assert (again.entry_id, again.new_records, ledger.spent(SOURCE)) == (1, 0, 4.0)
    with pytest.raises(CorrectedLabel):
        rows = [(tag, b"other", label, tag, b"other") for tag, label in released_texts(range(2), 2)]
        release(ledger, None, 2, rows=rows, class_labels=("0", "1"))
    ledger.mark_released(2)
    ledger.mark_released(again.release_id)
    assert [entry["pending"] for entry in ledger.entries()] == [0] * 8
    step = Event(PureDP(0.5), "record", ADD_OR_REMOVE, "server")
    recorded = ledger.record(
        dataset="bank/loans",
        event=step,
        cap=BudgetCap(1, 0),
        release_key="draw",
        job_id="j",
        task_id="t",
        fingerprint="f",
    )
    assert recorded.release_id == 11 and recorded.is_new


def test_flips_and_scores_get_their_events(ledger):
    for entry in ledger.entries():
        assert (entry["event"] is not None) == (entry["mechanism"] in ("randomized_response", "joint scores"))
        assert entry["relation"] == "replace_one" and entry["observer"] in ("arbiter, host, model", "guest")
    texts = [row[-1] for row in dict(dump(ledger.path))["entry"]]
    events = [event_from_json(text).process for text in texts if text]
    assert [(event.epsilon, event.classes) for event in events[:3]] == [(2.0, 2), (0.5, 2), (1.5, 3)]
    for observer in ("host", "arbiter", "model"):
        assert math.isclose(ledger.total(SOURCE, "label", "replace_one", observer, 0), ledger.spent(SOURCE))


def test_two_processes_upgrade_an_old_file_once(ledger):
    assert run_at_once(*[lambda: ledger.spent(SOURCE)] * 4) == [4.0] * 4
    assert [tuple(entry[name] for name in SHOWN) for entry in ledger.entries()] == ENTRIES_1
