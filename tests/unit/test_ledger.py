"""The ledger: memo, budget, refusals that write nothing, display, and several processes at once."""

import json
import math
import os
import sqlite3
import stat
import threading

import numpy as np
import pytest
from ledger_scenarios import (
    DATASET,
    KEY,
    OTHER_KEY,
    SOURCE,
    derive,
    dump,
    in_family,
    labels_of,
    release,
    released_texts,
    rows_of,
    run_at_once,
    score,
)

from fate_dp.privacy import BudgetExceeded, CorrectedLabel, Ledger, LedgerUnavailable
from fate_dp.privacy.labels.flips import LabelRelease, record_tags
from fate_dp.privacy.ledger import database
from fate_dp.privacy.ledger.database import SCHEMA_VERSION
from fate_dp.privacy.ledger.entries import LOSSES, LedgerError
from fate_dp.privacy.ledger.labels import LabelProvenance
from fate_dp.privacy.private_files import key_id, publish_if_absent, replace_file


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "home" / "ledger.sqlite")


def find(ledger, rows, key=KEY):
    return ledger.find_labels(rows, source=SOURCE, key_id=key_id(key))


# --- memo and budget ---


def test_same_job_twice_is_one_line_and_costs_once(ledger):
    first, second = release(ledger, range(50), 2, job_id="a"), release(ledger, range(50), 2.0, job_id="b")
    assert (first.new_records, second.new_records) == (50, 0)
    assert first.entry_id == second.entry_id and first.release_id != second.release_id
    assert ledger.spent(SOURCE) == 2
    (entry,) = ledger.entries()
    assert (entry["uses"], entry["jobs"], entry["records"]) == (2, ["a", "b"], 50)


def test_added_rows_and_halves_cost_nothing_more(ledger):
    release(ledger, range(50), 2)
    assert release(ledger, range(60), 2).new_records == 10
    assert release(ledger, range(30), 2).new_records == 0
    assert ledger.spent(SOURCE) == 2 and len(ledger.entries()) == 1 and ledger.entries()[0]["records"] == 60


def test_repeated_job_runs_even_at_the_cap_and_after_the_cap_was_lowered(ledger):
    release(ledger, range(50), 2, cap=2)
    release(ledger, range(50), 2, cap=2)
    release(ledger, range(50), 2, cap=1)
    with pytest.raises(BudgetExceeded):
        release(ledger, range(51), 2, cap=1)


def test_new_epsilon_composes(ledger):
    release(ledger, range(50), 2)
    release(ledger, range(50), 1)
    assert ledger.spent(SOURCE) == 3 and len(ledger.entries()) == 2


def test_new_number_of_classes_composes(ledger):
    release(ledger, range(50), 2)
    release(ledger, range(50), 2, classes=3)
    assert ledger.spent(SOURCE) == 4


def test_disjoint_records_under_one_key_do_not_compose(ledger):
    release(ledger, range(50), 2)
    release(ledger, range(50, 100), 3)
    assert ledger.spent(SOURCE) == 3
    release(ledger, range(49, 51), 1)
    assert ledger.spent(SOURCE) == 4


def test_new_key_composes_because_records_cannot_be_linked(ledger):
    release(ledger, range(50), 2)
    release(ledger, range(50, 100), 3, key=OTHER_KEY)
    assert ledger.spent(SOURCE) == 5


def test_sources_are_separate(ledger):
    release(ledger, range(50), 2)
    others = [1 - label for label in labels_of(range(50))]
    release(ledger, None, 3, source="a/b/c", rows=rows_of(range(50), 3, source="a/b/c", labels=others))
    assert (ledger.spent(SOURCE), ledger.spent("a/b/c"), ledger.spent("x/y/z")) == (2, 3, 0)
    assert ledger.sources(key_id(KEY)) == ["a/b/c", SOURCE] and ledger.sources(key_id(OTHER_KEY)) == []


def test_labels_of_one_family_have_one_budget_whatever_their_sources_are_called(ledger):
    """A second name, a union with other rows, and a table in between that shares one record with each."""
    in_family(ledger, SOURCE, numbers=range(300))
    in_family(ledger, "a/b/y", numbers=range(290, 900))
    in_family(ledger, "a/apart/y", numbers=range(1000, 1100))
    release(ledger, range(300), 7)
    before = dump(ledger.path)
    with pytest.raises(BudgetExceeded, match="has spent epsilon 7, this job asks for 2 .total 9."):
        release(ledger, None, 2, source="a/b/y", rows=rows_of(range(290, 900), 2, source="a/b/y"))
    assert dump(ledger.path) == before
    release(ledger, None, 1, source="a/b/y", rows=rows_of(range(290, 900), 1, source="a/b/y"))
    release(ledger, None, 7, source="a/apart/y", rows=rows_of(range(1000, 1100), 7, source="a/apart/y"))
    assert [ledger.spent(source) for source in (SOURCE, "a/b/y", "a/apart/y")] == [8, 8, 7]
    assert ledger.related("a/b/y") == ["a/b/y", SOURCE] and ledger.related("columns:a-b-y")[1:] == [
        "columns:experiment-breast_guest-y"
    ]
    in_family(ledger, "a/apart/y", "a/far/y", numbers=[5000])
    assert ledger.spent("a/far/y") == 7
    in_family(ledger, "a/between/y", numbers=[299, 1000])
    assert {ledger.spent(source) for source in (SOURCE, "a/b/y", "a/apart/y", "a/between/y")} == {15}


def test_labels_under_a_lost_key_count_with_those_of_every_table(ledger):
    in_family(ledger, SOURCE, key=OTHER_KEY)
    release(ledger, range(10), 3, key=OTHER_KEY)
    in_family(ledger, "a/b/y", numbers=range(500, 510))
    assert ledger.spent("a/b/y") == 3


def test_a_source_releases_labels_of_no_more_records_than_were_declared(ledger):
    release(ledger, range(30), 1, most_records=40)
    release(ledger, range(10, 40), 1, most_records=40)
    before = dump(ledger.path)
    with pytest.raises(LedgerError, match="declared with 40 records, and with this job labels of 41"):
        release(ledger, range(41), 2, most_records=40)
    assert dump(ledger.path) == before
    release(ledger, range(40), 2, most_records=40)
    # New spellings of the ids are new records, nine times the labels.
    with pytest.raises(LedgerError):
        release(ledger, [f"0{number}" for number in range(40)], 1, most_records=40)


def test_rounding_does_not_refuse_an_exact_budget(ledger):
    release(ledger, range(5), 0.1, cap=0.3)
    with pytest.raises(BudgetExceeded):
        release(ledger, range(5), 0.2, cap=0.3 * (1 - 1e-9))
    release(ledger, range(5), 0.2, cap=0.3)
    assert math.isclose(ledger.spent(SOURCE), 0.3)


def test_release_is_pending_and_charged_until_marked(ledger):
    flips = release(ledger, range(50), 2)
    assert ledger.entries()[0]["pending"] == 1 and ledger.spent(SOURCE) == 2
    ledger.mark_released(flips.release_id)
    assert ledger.entries()[0]["pending"] == 0 and ledger.spent(SOURCE) == 2


# --- refusals write nothing ---


def corrected():
    labels = labels_of(range(50))
    labels[7] = 1 - labels[7]
    return rows_of(range(50), 2, labels=labels)


def relabelled():
    return [(*row[:2], "2" if row[2] == "0" else row[2], *row[3:]) for row in rows_of(range(50), 2)]


def broken():
    yield from rows_of(range(10), 1)
    raise RuntimeError("the table broke off")


REFUSALS = {
    "budget": (BudgetExceeded, lambda ledger: release(ledger, range(50), 7)),
    "budget of added rows": (BudgetExceeded, lambda ledger: release(ledger, range(60), 2, cap=1)),
    "budget under a new key": (BudgetExceeded, lambda ledger: release(ledger, range(50), 7, key=OTHER_KEY)),
    "corrected label": (CorrectedLabel, lambda ledger: release(ledger, None, 2, rows=corrected())),
    "corrected label at a new epsilon": (CorrectedLabel, lambda ledger: release(ledger, None, 1, rows=corrected())),
    "other released label": (LedgerError, lambda ledger: release(ledger, None, 2, rows=relabelled())),
    "other classes": (LedgerError, lambda ledger: release(ledger, range(50), 2, class_labels=("a", "b"))),
    "duplicate": (LedgerError, lambda ledger: release(ledger, None, 1, rows=rows_of([1, 2, 1], 1))),
    "broken rows": (RuntimeError, lambda ledger: release(ledger, None, 1, rows=broken())),
    "missing label": (TypeError, lambda ledger: release(ledger, None, 1, rows=[(b"i", b"l", None, b"r", b"t")])),
    "epsilon 0": (ValueError, lambda ledger: release(ledger, None, 0, rows=[])),
    "epsilon text": (ValueError, lambda ledger: release(ledger, None, "2", rows=[])),
    "cap nan": (ValueError, lambda ledger: release(ledger, range(50), 1, cap=math.nan)),
    "cap infinite": (ValueError, lambda ledger: release(ledger, range(50), 1, cap=math.inf)),
    "cap text": (ValueError, lambda ledger: release(ledger, range(50), 1, cap="8")),
    "unknown release": (LedgerError, lambda ledger: ledger.mark_released(99)),
    "derived from nothing": (LedgerError, lambda ledger: derive(ledger, 99, released_texts(range(5), 2))),
    "derived of unreleased": (LedgerError, lambda ledger: derive(ledger, 1, released_texts(range(51), 2))),
    "derived twice": (LedgerError, lambda ledger: derive(ledger, 1, released_texts([1, 1], 2))),
    "scores": (LedgerError, lambda ledger: score(ledger, "w2", cap=1)),
    "score check": (LedgerError, lambda ledger: ledger.check_scores(dataset=DATASET, planned=1, cap=1)),
    "score cap": (ValueError, lambda ledger: score(ledger, "w2", cap=1.5)),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal_is_one_sentence_and_writes_nothing(ledger, case):
    release(ledger, range(50), 2)
    score(ledger, "w1")
    before = dump(ledger.path)
    error, request = REFUSALS[case]
    with pytest.raises(error) as caught:
        request(ledger)
    assert dump(ledger.path) == before
    assert "\n" not in str(caught.value) and (error is RuntimeError or str(caught.value).endswith("."))


def test_budget_sentence_names_source_spent_asked_and_cap(ledger):
    release(ledger, range(50), 2)
    with pytest.raises(BudgetExceeded) as caught:
        release(ledger, range(50), 4, cap=5)
    assert str(caught.value) == (
        f"The label source {SOURCE} has spent epsilon 2, this job asks for 4 (total 6), and the cap is 5; the guest's "
        f"operator changes that with `fate-dp cap {SOURCE.rpartition('/')[0]} --labels EPSILON`."
    )


def test_corrected_label_sentence_names_no_record_and_no_count(ledger):
    release(ledger, range(50), 2)
    with pytest.raises(CorrectedLabel) as caught:
        release(ledger, None, 2, rows=corrected())
    assert not any(character.isdigit() for character in str(caught.value))


def test_order_of_declared_classes_must_stay(ledger):
    release(ledger, range(50), 2, class_labels=("0", "1"))
    release(ledger, range(50, 60), 2, class_labels=("0", "1"))
    with pytest.raises(LedgerError):
        release(ledger, range(60, 70), 2, class_labels=("1", "0"))


# --- provenance ---


def test_released_labels_are_recognised(ledger):
    entry_id = release(ledger, range(50), 2).entry_id
    for numbers in (range(50), range(10, 30)):
        found = find(ledger, released_texts(numbers, 2))
        assert found == LabelProvenance(SOURCE, (LabelRelease(SOURCE, 2.0, 2, key_id(KEY), entry_id),), derived=False)


def test_true_labels_and_strangers_are_not_recognised(ledger):
    release(ledger, range(50), 1)
    true = list(zip(record_tags(range(50), KEY, SOURCE), map(str, labels_of(range(50)))))
    assert find(ledger, true) is None
    assert find(ledger, released_texts(range(51), 1)) is None
    assert find(ledger, released_texts(range(50), 1, OTHER_KEY), OTHER_KEY) is None
    assert find(ledger, []) is None


def test_ambiguous_labels_get_the_largest_epsilon(ledger):
    release(ledger, range(50), 1)
    release(ledger, range(50), 2)
    one, two = released_texts(range(50), 1), released_texts(range(50), 2)
    common = sorted(set(one) & set(two))
    assert 0 < len(common) < 50
    assert [find(ledger, rows).epsilon for rows in (one, two, common)] == [1, 2, 2]


def test_derived_labels_cost_nothing_and_are_recognised(ledger):
    entry_id = release(ledger, range(50), 2).entry_id
    derived = [(id_tag, "0.25") for id_tag, _ in released_texts(range(40), 2)]
    derive(ledger, entry_id, derived, job_id="a")
    derive(ledger, entry_id, derived, job_id="b")
    assert ledger.spent(SOURCE) == 2
    found = find(ledger, derived[:20])
    assert (found.epsilon, found.entry_id, found.derived) == (2, entry_id, True)
    line = ledger.entries()[1]
    assert (line["mechanism"], line["epsilon"], line["uses"], line["records"]) == ("post-processing", 0, 2, 40)
    assert line["parameters"] == {"parent_entry_id": entry_id, "description": "flipback swap"} and not line["counted"]


def test_rows_of_two_derived_sets_are_not_mixed(ledger):
    entry_id = release(ledger, range(10), 2).entry_id
    tags = record_tags(range(10), KEY, SOURCE)
    derive(ledger, entry_id, [(tag, "0.1") for tag in tags])
    derive(ledger, entry_id, [(tag, "0.2") for tag in tags])
    assert find(ledger, [(tag, "0.2") for tag in tags]).derived
    assert find(ledger, [(tag, "0.1" if i else "0.2") for i, tag in enumerate(tags)]) is None


def test_derived_from_derived_goes_back_to_the_flips(ledger):
    entry_id = release(ledger, range(10), 2).entry_id
    rows = released_texts(range(10), 2)
    derive(ledger, entry_id, rows, "first")
    derive(ledger, ledger.entries()[1]["entry_id"], rows, "second")
    assert ledger.entries()[2]["parameters"]["parent_entry_id"] == entry_id


def test_released_is_preferred_to_derived_at_equal_epsilon(ledger):
    entry_id = release(ledger, range(10), 2).entry_id
    derive(ledger, entry_id, released_texts(range(10), 2))
    assert not find(ledger, released_texts(range(10), 2)).derived


# --- runs without privacy ---


def test_not_private_is_one_line_outside_the_cap(ledger):
    for job_id in ("a", "b"):
        ledger.record_not_private(source=SOURCE, reason="public copy", job_id=job_id, task_id="task", rows=426)
    (entry,) = ledger.entries()
    assert (entry["mechanism"], entry["epsilon"]) == ("not private", "infinity")
    assert (entry["uses"], entry["records"]) == (2, 426)
    assert "public copy" in entry["note"] and ledger.spent(SOURCE) == 0 and not entry["counted"]


# --- joint scores ---


def test_different_weights_are_counted_over_all_purposes(ledger):
    assert score(ledger, "w1") and score(ledger, "w2", purpose="accuracy per epoch")
    assert not score(ledger, "w1") and not score(ledger, "w2")
    assert ledger.scores_released(DATASET) == 2 and ledger.scores_released("a/b") == 0
    lines = ledger.entries()
    assert [(line["uses"], line["rounds"], line["counted"]) for line in lines] == [(3, 2, True), (1, 1, True)]


def test_same_weights_are_free_at_the_cap(ledger):
    score(ledger, "w1", cap=1)
    assert score(ledger, "w1", cap=1) is False
    with pytest.raises(LedgerError):
        score(ledger, "w2", cap=1)


def test_score_sentence_names_dataset_released_planned_and_cap(ledger):
    score(ledger, "w1")
    ledger.check_scores(dataset=DATASET, planned=4, cap=5)
    ledger.check_scores(dataset=DATASET, planned=0, cap=0)
    with pytest.raises(LedgerError) as caught:
        ledger.check_scores(dataset=DATASET, planned=5, cap=5)
    assert str(caught.value) == (
        f"The dataset {DATASET} has released joint scores of 1 models (tables with the same match ids count together), 5 more "
        f"are planned, and the cap is 5; its operator changes that with `fate-dp cap {DATASET} --scores N`."
    )


def show_losses(ledger, dataset, trainings=1, cap=3):
    ledger.record_losses(dataset=dataset, trainings=trainings, rows=5, cap=cap, job_id="j", task_id="t")


def test_trainings_with_losses_count_each_time_by_records_beside_scores(ledger):
    """Their losses are hidden anew: the same training again tells more."""
    remember(ledger, "whole", "abc", range(9))
    remember(ledger, "part", "d", range(8, 12))
    count_scores(ledger, "whole", "1")
    show_losses(ledger, "whole")
    show_losses(ledger, "part", trainings=2)
    assert [ledger.counted(name, LOSSES) for name in ("whole", "part", "apart")] == [3, 3, 0]
    assert ledger.scores_released("whole") == 1
    for dataset in ("whole", "part"):
        with pytest.raises(
            LedgerError, match=f"{dataset} has shown the losses of 3 trainings .* cap {dataset} --losses N"
        ):
            show_losses(ledger, dataset)
    assert [line["rounds"] for line in ledger.entries() if line["mechanism"] == LOSSES] == [1, 2]
    totals = {line["dataset"]: line for line in ledger.totals() if line["observer"] == "guest"}
    assert totals["part"]["epsilon"] == "infinity" and "losses are functions" in totals["part"]["note"]


def test_of_two_trainings_against_one_cap_exactly_one_shows_losses(ledger):
    results = run_at_once(lambda: show_losses(ledger, DATASET, cap=1), lambda: show_losses(ledger, DATASET, cap=1))
    assert sorted(map(str, results)) == ["LedgerError", "None"] and ledger.counted(DATASET, LOSSES) == 1


def test_predictions_outside_training_are_noted_and_not_counted(ledger):
    ledger.record_prediction(dataset=DATASET, weights_digest="w", rows=143, job_id="job", task_id="task")
    assert ledger.scores_released(DATASET) == 0 and not ledger.entries()[0]["counted"]
    assert score(ledger, "w") and ledger.scores_released(DATASET) == 1


def test_training_records_are_remembered(ledger):
    tags = record_tags(range(20), KEY, DATASET)
    ledger.remember_training_records(DATASET, iter(tags[:10]))
    ledger.remember_training_records(DATASET, tags[5:12])
    assert ledger.has_training_record(DATASET, tags[11:], key_id="k") and not ledger.has_training_record(
        DATASET, iter(tags[12:]), key_id="k"
    )
    assert not ledger.has_training_record("a/b", tags, key_id="k")


# --- display ---


def test_entry_says_what_is_guaranteed_against_whom(ledger):
    release(ledger, range(50), 2, class_labels=("0", "1"))
    entry = ledger.entries()[0]
    expected = {
        "source": SOURCE,
        "mechanism": "randomized_response",
        "unit": "label",
        "relation": "replace_one",
        "observer": "arbiter, host, model",
        "epsilon": 2.0,
        "delta": 0.0,
        "sampling": "none",
        "rounds": 1,
        "records": 50,
        "uses": 1,
        "jobs": ["job"],
        "fingerprint": "f",
        "counted": True,
    }
    assert {name: entry[name] for name in expected} == expected
    assert entry["parameters"]["classes"] == 2 and entry["parameters"]["class_labels"] == ["0", "1"]
    assert math.isclose(entry["parameters"]["keep_probability"], 0.88079707797788, rel_tol=1e-12)


def test_a_line_of_flips_names_its_classes_where_it_was_written_with_them(ledger):
    release(ledger, range(5), 1, class_labels=("0", "2", "5"), classes=3)
    release(ledger, range(5), 2)
    assert [ledger.class_labels(entry_id) for entry_id in (1, 2)] == [["0", "2", "5"], []]


def test_entries_are_plain_json(ledger):
    assert ledger.entries() == []
    entry_id = release(ledger, range(50), np.float64(2)).entry_id
    derive(ledger, entry_id, released_texts(range(5), 2))
    ledger.record_not_private(source="a/b/c", reason="yardstick", job_id="job", task_id="task")
    score(ledger, "w1")
    assert json.loads(json.dumps(ledger.entries(), allow_nan=False)) == ledger.entries()


def test_no_displayed_value_depends_on_the_flips(tmp_path):
    """The realised number of flips is never released: with all other labels known it reveals the last one."""
    shown = []
    for name, label in (("a", 0), ("b", 1)):
        ledger = Ledger(tmp_path / name)
        release(ledger, None, 1, rows=rows_of(range(50), 1, labels=[label] * 50))
        shown.append([{**entry, "first_time": "", "last_time": ""} for entry in ledger.entries()])
    assert shown[0] == shown[1]


# --- the file ---


def test_file_and_folder_are_private(ledger):
    release(ledger, range(5), 1)
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ledger.path.parent.stat().st_mode) == 0o700
    assert os.listdir(ledger.path.parent) == [ledger.path.name]


@pytest.mark.parametrize("write, naming", [(publish_if_absent, "link"), (replace_file, "replace")])
def test_private_files_are_on_the_disk_before_they_get_their_name(tmp_path, monkeypatch, write, naming):
    steps, synced, named = [], os.fsync, getattr(os, naming)

    def sync(descriptor):
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, naming, lambda *paths: (steps.append("name"), named(*paths)))
    write(tmp_path / "key", b"secret")
    assert steps == ["file", "name", "folder"] and (tmp_path / "key").read_bytes() == b"secret"


def test_newer_version_is_refused(ledger):
    release(ledger, range(5), 1)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("UPDATE ledger_version SET version = ?", (SCHEMA_VERSION + 1,))
    connection.close()
    with pytest.raises(
        LedgerUnavailable, match=f"has version {SCHEMA_VERSION + 1} but this program reads version {SCHEMA_VERSION}"
    ):
        ledger.spent(SOURCE)


@pytest.mark.parametrize("version", [None, "2", 0, -1, b"2"])
def test_a_version_that_cannot_be_is_refused(ledger, version):
    release(ledger, range(5), 1)
    with sqlite3.connect(ledger.path) as connection:
        # Without a type, so that the text stays text.
        connection.execute("DROP TABLE ledger_version")
        connection.execute("CREATE TABLE ledger_version (version)")
        connection.executemany("INSERT INTO ledger_version VALUES (?)", [] if version is None else [(version,)])
    connection.close()
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.spent(SOURCE)
    assert str(caught.value) == (
        f"The ledger is damaged: its version is {version!r}, which is no whole number from 1 on."
    )


def test_damaged_file_is_refused(ledger):
    ledger.path.parent.mkdir()
    ledger.path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(LedgerUnavailable, match="cannot be used: file is not a database"):
        release(ledger, range(5), 1)


def test_a_damaged_schema_is_refused(ledger):
    release(ledger, range(5), 1)
    content = ledger.path.read_bytes()
    table, name = b"CREATE TABLE derived_set", b"derived_setderived_set"
    assert content.count(table) == content.count(name) == 1
    # SQLite quotes the name in its error message, which is then no text.
    ledger.path.write_bytes(content.replace(table, b"X" * len(table)).replace(name, b"\xac" * len(name)))
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.spent(SOURCE)
    assert str(caught.value) == f"The ledger {ledger.path} cannot be used: it is damaged."


def test_a_commit_is_on_the_disk_when_it_returns(ledger):
    """No test can cut the power; EXTRA (3) is what syncs file, journal and folder."""
    with database.Database(ledger.path).open() as connection:
        asked = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")]
    assert asked == [3, "delete"]


def test_locked_ledger_is_refused_in_one_sentence(ledger, monkeypatch):
    release(ledger, range(5), 1)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    blocker = sqlite3.connect(ledger.path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="database is locked"):
        release(ledger, range(5), 2)
    blocker.close()


# --- several processes ---


@pytest.mark.parametrize("attempt", range(3))
def test_of_two_reservations_against_one_cap_exactly_one_wins(ledger, attempt):
    results = run_at_once(
        lambda: release(ledger, range(50), 2, cap=3).new_records,
        lambda: release(ledger, range(50), 1.5, cap=3).new_records,
    )
    assert sorted(map(str, results)) == ["50", "BudgetExceeded"]
    assert ledger.spent(SOURCE) in (2, 1.5) and len(ledger.entries()) == 1


def test_of_two_score_releases_against_one_cap_exactly_one_wins(ledger):
    results = run_at_once(lambda: score(ledger, "w1", cap=1), lambda: score(ledger, "w2", cap=1))
    assert sorted(map(str, results)) == ["LedgerError", "True"] and ledger.scores_released(DATASET) == 1


def test_many_processes_and_threads_lose_nothing(ledger):
    def work(first):
        threads = [threading.Thread(target=release, args=(ledger, [first, first + 1], 1)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    run_at_once(*(lambda first=first: work(first) for first in (0, 2, 4)))
    (entry,) = ledger.entries()
    assert (entry["uses"], entry["records"]) == (9, 6) and ledger.spent(SOURCE) == 1


def test_ledger_object_survives_a_fork(ledger):
    release(ledger, range(5), 1)
    assert run_at_once(lambda: release(ledger, range(5), 2).new_records) == [5]
    assert ledger.spent(SOURCE) == 3


def test_public_labels_are_known_record_by_record(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    source, registered = "a/b/y", [(b"1" * 16, "0"), (b"2" * 16, "1")]
    ledger.register_public(source=source, key_id="k", rows=registered)
    assert ledger.are_public(registered[:1], source=source, key_id="k")
    assert not ledger.are_public([(b"1" * 16, "1")], source=source, key_id="k")
    assert not ledger.are_public([*registered, (b"3" * 16, "1")], source=source, key_id="k")
    assert not ledger.are_public([], source=source, key_id="k")
    assert not ledger.are_public(registered, source="other/b/y", key_id="k")


def remember(ledger, dataset, columns, records, key=KEY):
    tags = record_tags(records, key, "records")
    return ledger.remember_dataset(dataset, list(columns), records=tags, key_id=key_id(key))


def count_scores(ledger, dataset, digest, cap=9):
    job = {"rows": 5, "job_id": "j", "task_id": "t", "purpose": "flipback"}
    return ledger.record_scores(dataset=dataset, weights_digest=digest, cap=cap, **job)


def test_datasets_that_share_records_share_the_count_and_the_training_records(ledger):
    assert remember(ledger, "whole", "abc", range(9)) == "whole"
    assert (
        remember(ledger, "part", "d", range(8, 12)) == "part"
        and remember(ledger, "apart", "abx", range(20, 30)) == "apart"
    )
    assert count_scores(ledger, "whole", "1") and count_scores(ledger, "part", "2")
    assert [ledger.scores_released(name) for name in ("whole", "part", "apart")] == [2, 2, 0]
    assert ledger.related("whole") == ["part", "whole"] and ledger.related("apart") == ["apart"]
    ledger.remember_training_records("whole", [b"1" * 16])
    trained = [ledger.has_training_record(name, [b"1" * 16], key_id=key_id(KEY)) for name in ("whole", "part", "apart")]
    assert trained == [True, True, False]


def test_disjoint_columns_of_one_table_are_one_family_and_so_are_tables_that_a_third_one_joins(ledger):
    for columns in ("abcd", "efgh", "ijkl"):
        remember(ledger, columns, columns, range(100))
    assert ledger.related("abcd") == ["abcd", "efgh", "ijkl"]
    remember(ledger, "far", "x", range(200, 300))
    assert ledger.related("far") == ["far"]
    count_scores(ledger, "far", "1")
    remember(ledger, "bridge", "y", range(99, 201))
    assert ledger.related("abcd") == ledger.related("far") == ["abcd", "bridge", "efgh", "far", "ijkl"]
    assert ledger.scores_released("ijkl") == 1
    # Records of either side lead to the family that there is now.
    for name, record in (("later", 50), ("latest", 250)):
        remember(ledger, name, "z", [record])
        assert len(ledger.related(name)) == 6 + (name == "latest")


def test_tables_of_the_same_columns_without_a_common_record_are_two_datasets_until_one_has_both(ledger):
    """FATE's example tables all call their columns x0, x1, ..."""
    assert remember(ledger, "columns:x", "xy", range(10)) == "columns:x"
    assert remember(ledger, "columns:x", "xy", range(10, 20)) == "columns:x#2"
    assert remember(ledger, "columns:x", "xy", range(5, 8)) == "columns:x"
    assert count_scores(ledger, "columns:x#2", "1") and ledger.scores_released("columns:x") == 0
    assert remember(ledger, "columns:x", "xy", range(20, 30)) == "columns:x#3"
    assert remember(ledger, "columns:x", "xy", range(8, 12)) == "columns:x"
    assert ledger.scores_released("columns:x") == 1 and ledger.scores_released("columns:x#3") == 0
    # Nobody knows which of them is meant.
    assert remember(ledger, "columns:x", "xy", []) == "columns:x"
    assert ledger.related("columns:x") == ["columns:x", "columns:x#2", "columns:x#3"]


def test_after_a_lost_key_every_table_counts_with_all_earlier_ones(ledger):
    remember(ledger, "old", "ab", range(10))
    count_scores(ledger, "old", "1")
    ledger.remember_training_records("old", record_tags(range(5), KEY, "t"))
    assert (
        remember(ledger, "old", "ab", range(10), OTHER_KEY) == "old#2"
        and remember(ledger, "new", "c", [77], OTHER_KEY) == "new"
    )
    assert ledger.scores_released("new") == ledger.scores_released("old#2") == 1
    strange = record_tags(range(5), OTHER_KEY, "t")
    assert ledger.has_training_record("new", strange, key_id=key_id(OTHER_KEY))
    assert not ledger.has_training_record("old", strange, key_id=key_id(KEY))


def test_models_on_columns_of_one_name_count_together_and_not_with_tables(ledger):
    remember(ledger, "columns:a", "ab", range(5))
    for name, columns in (
        ("weights of columns:a", "ab"),
        ("weights of columns:b", "bc"),
        ("weights of columns:c", "d"),
    ):
        ledger.remember_weights(name, columns)
    for dataset, digest in (("weights of columns:a", "1"), ("weights of columns:b", "2"), ("columns:a", "3")):
        count_scores(ledger, dataset, digest)
    assert [ledger.scores_released(f"weights of columns:{name}") for name in "abc"] == [2, 2, 0]
    assert ledger.scores_released("columns:a") == 1


def test_two_processes_that_join_families_at_once_make_one_family(ledger):
    remember(ledger, "first", "a", range(10))
    remember(ledger, "second", "b", range(10, 20))
    names = run_at_once(*(lambda at=at: remember(ledger, f"bridge {at}", "c", range(at, at + 12)) for at in (0, 4, 8)))
    assert sorted(names) == ["bridge 0", "bridge 4", "bridge 8"]
    assert len(ledger.related("first")) == 5
