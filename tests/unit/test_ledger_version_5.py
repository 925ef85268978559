"""A ledger that commit 64436b6 wrote, which others have, is read and charged as it was."""

import math
import pickle
import sqlite3
from pathlib import Path

import pytest
from ledger_scenarios import KEY, OTHER_KEY, SOURCE, release, released_texts

from fate_dp.components.common.charges import PartyHome
from fate_dp.pipelines.jobs.populations import keep_blanks
from fate_dp.privacy import CorrectedLabel, Ledger, LedgerUnavailable
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PureDP, event_from_json
from fate_dp.privacy.labels.flips import LabelRelease, flip_labels, label_tags, record_tags
from fate_dp.privacy.ledger.entries import BudgetCap
from fate_dp.privacy.ledger.labels import LabelProvenance
from fate_dp.privacy.private_files import key_id

VERSION_5 = Path(__file__).with_name("ledger_version_5.sql").read_text()
DATASET, RELATED, PUBLIC = "columns:0f1e2d3c4b5a6978", "columns:ffff", "public/breast_guest/y"
# (source, mechanism, epsilon, uses, pending, records, rounds, counted, jobs, fingerprint), as that commit showed them.
ENTRIES = [
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


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_5)
    connection.close()
    return Ledger(path)


def tables_of(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()
    connection.close()
    return [(kind, name, sql and " ".join(sql.split())) for kind, name, sql in rows]


def test_whoever_reads_leaves_the_file_as_it_is(ledger):
    """An older program that still runs reads it, too."""
    before = ledger.path.read_bytes()
    assert ledger.spent(SOURCE) == 4.0 and len(ledger.entries()) == len(ENTRIES)
    ledger.check_scores(dataset=DATASET, planned=0, cap=9)
    assert ledger.path.read_bytes() == before
    assert [path.name for path in ledger.path.parent.iterdir()] == ["ledger.sqlite"]


def test_the_first_write_keeps_a_copy_and_says_so(ledger, tmp_path, capsys):
    before = tables_of(ledger.path)
    for _ in range(2):
        ledger.mark_released(2)
    kept = tmp_path / "ledger.sqlite.version-5"
    assert capsys.readouterr().out == (
        f"The ledger {ledger.path} is upgraded to version 7; as it was, it stays in {kept}.\n"
    )
    assert tables_of(kept) == before and kept.stat().st_mode & 0o777 == 0o600
    assert Ledger(tmp_path / "new").spent(SOURCE) == 0.0
    earlier, new = tables_of(ledger.path), tables_of(tmp_path / "new")
    assert [name for _, name, _ in earlier if name not in [name for _, name, _ in new]] == ["id_blanks"]
    assert [each for each in earlier if each[1] != "id_blanks"] == new


@pytest.mark.parametrize("version", [1, 4])
def test_a_version_that_was_never_published_is_refused_and_left_as_it_is(ledger, version):
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("UPDATE ledger_version SET version = ?", (version,))
    connection.close()
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerUnavailable, match=f"has version {version} but this program reads version 7"):
        ledger.spent(SOURCE)
    assert ledger.path.read_bytes() == before


def test_every_number_is_as_before(ledger):
    assert [tuple(entry[name] for name in SHOWN) for entry in ledger.entries()] == ENTRIES
    assert ledger.spent(SOURCE) == 4.0 and ledger.sources(key_id(KEY)) == [SOURCE]
    assert ledger.scores_released(DATASET) == ledger.scores_released(RELATED) == 3
    assert not ledger.are_scores_new(dataset=DATASET, weights_digest="w1")
    assert ledger.has_training_record(RELATED, [b"t" * 16], key_id=key_id(KEY))
    assert ledger.related(DATASET) == [DATASET, RELATED]
    public = list(zip(record_tags(range(2), KEY, PUBLIC), "01"))
    assert ledger.are_public(public, source=PUBLIC, key_id=key_id(KEY))


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
        rows = [(tag, b"other", label) for tag, label in released_texts(range(2), 2)]
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


def test_records_that_it_knows_with_blanks_keep_their_draws_and_budget_without(tmp_path):
    """Uploads of then left ids as they were; 'both' is a record of its own beside 'both '."""
    home, now = tmp_path / "party-9999", ["abc", "xyz", "both", "new", "far"]
    then = ["abc ", " xyz", "both", "new", "  far\t"]
    home.mkdir(mode=0o700)
    (home / "flip.key").write_bytes(KEY)
    (home / "flip.key").chmod(0o600)
    with sqlite3.connect(home / "ledger.sqlite") as connection:
        connection.executescript(VERSION_5)
        tags = zip(record_tags(then, KEY, SOURCE), label_tags(then, [1] * 5, KEY, SOURCE), then)
        released = [(SOURCE, key_id(KEY), *each) for *each, written in tags if written != "new"]
        released += [(SOURCE, key_id(KEY), record_tags(["both "], KEY, SOURCE)[0], b"another")]
        connection.executemany("INSERT INTO true_label VALUES (?, ?, ?, ?)", released)
    connection.close()
    keep_blanks(PartyHome(home), now, ["abc ", "xyz", "both ", "new ", "  far\t"])
    key = pickle.loads(pickle.dumps(PartyHome(home).key))
    assert record_tags(now, key, SOURCE) == record_tags(then, KEY, SOURCE)
    assert label_tags(now, [1] * 5, key, SOURCE) == label_tags(then, [1] * 5, KEY, SOURCE)
    for classes in range(2, 40):
        labels = flip_labels(then, [1] * 5, 0.1, classes, KEY, SOURCE)
        assert (flip_labels(now, [1] * 5, 0.1, classes, key, SOURCE) == labels).all()
    assert record_tags(now, key, "another/source/y") == record_tags(now, KEY, "another/source/y")


def test_its_labels_count_together_with_those_of_every_table(ledger):
    """It knew no families of label sources."""
    ledger.remember_dataset("columns:new", ["x"], records=[b"n" * 16], key_id=key_id(KEY), labels="a/new/y")
    assert ledger.spent("a/new/y") == ledger.spent(SOURCE) == 4.0


def test_flips_and_scores_keep_their_events(ledger):
    for entry in ledger.entries():
        assert (entry["event"] is not None) == (entry["mechanism"] in ("randomized_response", "joint scores"))
        assert entry["relation"] == "replace_one" and entry["observer"] in ("arbiter, host, model", "guest")
    with sqlite3.connect(ledger.path) as connection:
        texts = [text for (text,) in connection.execute("SELECT event FROM entry WHERE event <> '' ORDER BY entry_id")]
    connection.close()
    events = [event_from_json(text).process for text in texts]
    assert [(event.epsilon, event.classes) for event in events[:3]] == [(2.0, 2), (0.5, 2), (1.5, 3)]
    for observer in ("host", "arbiter", "model"):
        assert math.isclose(ledger.total(SOURCE, "label", "replace_one", observer, 0), ledger.spent(SOURCE))
