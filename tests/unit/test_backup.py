"""Backups: whole, private, new each time, and never a file that only looks like one."""

import os
import signal
import sqlite3
import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest

from fate_dp.deploy import backup
from fate_dp.deploy.backup import BackupRefused, back_up
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.privacy import Ledger
from fate_dp.privacy.private_files import KEY_FILE, LEDGER_FILE, POLICY_FILE, party_folder, publish_if_absent

NOW = datetime(2026, 11, 22, 11, 5, 7, tzinfo=timezone.utc)


@pytest.fixture
def parties(tmp_path):
    """The guest with all three files, a host with a policy only, and a folder with nothing."""
    parties = tmp_path / "home" / "parties"
    declare(parties, "9999", "a/b/y", cap=2.0)
    declare(parties, "10000", "a/c/y")
    (parties / "party-1").mkdir()
    publish_if_absent(party_folder(parties, "9999") / KEY_FILE, b"k" * 32)
    charge(parties)
    return parties


def charge(parties, number=1):
    ledger = Ledger(party_folder(parties, "9999") / LEDGER_FILE)
    ledger.record_not_private(source=f"a/{number}/y", reason="public", job_id="job", task_id="task")


def test_each_party_is_copied_whole_into_a_private_folder(parties, tmp_path):
    target = tmp_path / "backups"
    done = back_up(parties, target, NOW)
    assert {each.party_id: each.files for each in done} == {
        "9999": (KEY_FILE, LEDGER_FILE, POLICY_FILE),
        "10000": (POLICY_FILE,),
    }
    assert sorted(path.name for path in target.iterdir()) == [
        "party-10000-no000001-20261122T110507Z",
        "party-9999-no000001-20261122T110507Z",
    ]
    for path in target.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0
    guest = target / "party-9999-no000001-20261122T110507Z"
    assert (guest / KEY_FILE).read_bytes() == b"k" * 32
    restored = tmp_path / "restored" / "party-9999"
    restored.parent.mkdir()
    guest.rename(restored)
    assert party_ledger(restored.parent, "9999") == party_ledger(parties, "9999") != []


def test_an_older_backup_is_never_touched(parties, tmp_path):
    back_up(parties, tmp_path / "backups", NOW)
    before = {path: path.read_bytes() for path in (tmp_path / "backups").rglob("*") if path.is_file()}
    charge(parties, 2)
    back_up(parties, tmp_path / "backups", NOW)
    back_up(parties, tmp_path / "backups")
    assert all(path.read_bytes() == content for path, content in before.items())
    assert len(list((tmp_path / "backups").iterdir())) == 6


def test_names_sort_by_when_they_were_written_also_where_the_clock_was_set_back(parties, tmp_path):
    """Behind those that an earlier version named by the time alone."""
    target, found = tmp_path / "backups", ["party-9999-20261122T110507Z"]
    (target / found[0]).mkdir(parents=True)
    for days in (0, 0, -1, 1, -400):
        found += [each.folder.name for each in back_up(parties, target, NOW + timedelta(days))]
    of_guest = [name for name in found if name.startswith("party-9999-")]
    assert of_guest == sorted(of_guest) and len(set(of_guest)) == 6


def test_a_ledger_in_use_is_copied_as_it_was_at_one_moment(parties, tmp_path):
    """A writer charges all the time; every copy opens and holds a beginning of what it wrote."""
    stop = threading.Event()

    def write():
        for number in range(2, 10_000):
            charge(parties, number)
            # On a slow disk the lock is held nearly all the time; a pause keeps the backup from waiting longer than it may.
            if stop.wait(0.02):
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            back_up(parties, tmp_path / f"backups-{number}", NOW)
    finally:
        stop.set()
        writer.join()
    for number in range(5):
        copy = tmp_path / f"backups-{number}"
        (copy / "party-9999-no000001-20261122T110507Z").rename(copy / "party-9999")
        sources = [entry["source"] for entry in party_ledger(copy, "9999")]
        assert sources == [f"a/{charged}/y" for charged in range(1, len(sources) + 1)]


def other_database(ledger):
    ledger.unlink()
    with closing(sqlite3.connect(ledger)) as connection:
        connection.execute("CREATE TABLE x (y)")


def torn(ledger):
    content = bytearray(ledger.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    ledger.write_bytes(content)


@pytest.mark.parametrize(
    "harm, told",
    [
        (lambda ledger: ledger.write_bytes(b"no database" * 100), "could not be copied to .*: file is not a database"),
        (lambda ledger: ledger.write_bytes(b""), "is an empty or another database, not a ledger"),
        (other_database, "is an empty or another database, not a ledger"),
        (torn, "is damaged|could not be copied"),
    ],
    ids=["no database", "emptied", "another database", "torn"],
)
def test_what_is_no_ledger_is_no_backup_and_the_other_parties_have_theirs(parties, tmp_path, capsys, harm, told):
    """A copy of no use must not push good ones out, nor keep another party from its own."""
    for number in range(2, 60):
        charge(parties, number)
    declare(parties, "99990", "a/d/y")
    harm(party_folder(parties, "9999") / LEDGER_FILE)
    with pytest.raises(BackupRefused, match=told):
        back_up(parties, tmp_path / "backups", NOW)
    assert sorted(path.name for path in (tmp_path / "backups").iterdir()) == [
        "party-10000-no000001-20261122T110507Z",
        "party-99990-no000001-20261122T110507Z",
    ]
    assert main(["backup", str(tmp_path / "again"), "--home", str(parties.parent)]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("Party ") == 2 and "9999" in printed.err


def test_a_ledger_that_stays_locked_is_given_up(parties, tmp_path, monkeypatch):
    """A nightly job must not wait for ever behind a task that was stopped."""
    monkeypatch.setattr(backup, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(party_folder(parties, "9999") / LEDGER_FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BackupRefused, match="database is locked"):
            back_up(parties, tmp_path / "backups", NOW)


def test_another_account_and_a_second_backup_are_refused(parties, tmp_path, monkeypatch):
    def closed(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    with monkeypatch.context() as patched:
        patched.setattr(backup.os, "listdir", closed)
        with pytest.raises(BackupRefused, match="cannot be read .Permission denied.; run the backup as the user who"):
            back_up(parties, tmp_path / "backups")

    def meanwhile(done):
        with pytest.raises(BackupRefused, match="Another backup is being written to"):
            back_up(parties, tmp_path / "backups")

    assert len(back_up(parties, tmp_path / "backups", done=meanwhile)) == 2


def test_nothing_to_copy_and_a_target_among_the_parties_are_refused(parties, tmp_path, capsys):
    """A copy below the parties' folder would be taken for a party."""
    assert main(["backup", str(parties / "backups"), "--home", str(parties.parent)]) == 1
    assert "choose one outside it" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "backups"), "--home", str(tmp_path)]) == 1
    assert "name the right folder with --home" in capsys.readouterr().err
    assert not (tmp_path / "backups").exists() and not (parties / "backups").exists()
    assert main(["backup", str(tmp_path / "backups"), "--home", str(parties.parent)]) == 0
    assert "Party 9999: flip.key, ledger.sqlite, policy.yaml in " in capsys.readouterr().out


def test_a_kill_between_the_copies_leaves_a_draft_that_the_next_backup_removes(parties, tmp_path, monkeypatch):
    """kill -9 after the key was copied: what has a backup's name is whole, and no copy of the key is forgotten."""
    monkeypatch.setattr(backup, "_copy_ledger", lambda source, target: os.kill(os.getpid(), signal.SIGKILL))
    child = os.fork()
    if child == 0:
        back_up(parties, tmp_path / "backups", NOW)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    (draft,) = (tmp_path / "backups").glob(".party-9999*")
    assert (draft / KEY_FILE).is_file() and not list((tmp_path / "backups").glob("party-9999*"))
    monkeypatch.undo()
    back_up(parties, tmp_path / "backups")
    assert not list((tmp_path / "backups").glob(".*")) and len(list((tmp_path / "backups").glob("party-9999*"))) == 1
