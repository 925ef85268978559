"""No space on the disk, no permission to write: the ledger refuses, spends nothing, and works again afterwards."""

import os
import resource
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from ledger_scenarios import SOURCE, dump, forked, release

from fate_dp.privacy import Ledger
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PureDP

STEP = Event(PureDP(1.0), "record", ADD_OR_REMOVE, "server")
NOBODY = 65534


def step(ledger, release_key="draw"):
    return ledger.record(
        dataset="public", event=STEP, cap=None, release_key=release_key, job_id="j", task_id="t", fingerprint=""
    )


def with_space(size, operation):
    """``operation`` where no file may grow beyond ``size`` bytes, which SQLite sees as a failed write."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        operation()

    return forked(limited)


def as_stranger(operation):
    """``operation`` as a user whom file modes bind, which they do not bind root."""

    def unprivileged():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
        operation()

    return forked(unprivileged)


def new_ledger(path):
    step(Ledger(path), "earlier draw")
    release(Ledger(path), range(5), 2)


def no_ledger(path):
    pass


OPERATIONS = {
    "step": (new_ledger, step),
    "flips": (new_ledger, lambda ledger: release(ledger, range(3, 400), 1)),
    "mark": (new_ledger, lambda ledger: ledger.mark_released(1)),
    "first creation": (no_ledger, step),
}


@pytest.mark.parametrize("case", OPERATIONS)
def test_full_disk_refuses_spends_nothing_and_leaves_a_sound_ledger(tmp_path, case):
    prepare, operation = OPERATIONS[case]
    prepare(tmp_path / "template")
    before, seen = dump(tmp_path / "template"), set()
    for size in range(0, 300_000, 5_000):
        ledger = Ledger(tmp_path / f"{size}")
        if (tmp_path / "template").exists():
            shutil.copy(tmp_path / "template", ledger.path)
        outcome = with_space(size, lambda: operation(ledger))
        refused = outcome.startswith("LedgerUnavailable: The ledger ") and "\n" not in outcome
        assert refused or outcome == "done", outcome
        # What does not depend on the operation, such as an empty file or the tables, may have been made.
        assert spent(ledger.path) == (spent(tmp_path / "template") if refused else changed(tmp_path, case))
        seen.add(refused)
        if not refused:
            break
        operation(ledger)
        assert spent(ledger.path) == changed(tmp_path, case)
    assert seen == {True, False} and dump(tmp_path / "template") == before


def spent(path):
    """Releases, with what they are charged as, and released labels: all that counts."""
    content = dict(dump(path))
    return [content.get(name, []) for name in ("release", "released_label", "private_step")]


def changed(tmp_path, case):
    """What the operation writes on a disk with space."""
    prepare, operation = OPERATIONS[case]
    path = tmp_path / "complete"
    if not path.exists():
        prepare(path)
        operation(Ledger(path))
    return spent(path)


@pytest.fixture
def open_folder():
    """A folder that any user may enter and write to; pytest's own are closed to a stranger."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def test_read_only_file_is_refused_and_stays_as_it_is(open_folder):
    path = open_folder / "ledger.sqlite"
    new_ledger(path)
    path.chmod(0o444)
    before = dump(path)
    assert as_stranger(lambda: step(Ledger(path))).startswith("LedgerUnavailable: The ledger ")
    assert as_stranger(lambda: release(Ledger(path), range(5), 1)).startswith("LedgerUnavailable: The ledger ")
    assert dump(path) == before


def test_read_only_file_can_be_read(open_folder):
    path = open_folder / "ledger.sqlite"
    new_ledger(path)
    path.chmod(0o444)

    def read():
        assert Ledger(path).spent(SOURCE) == 2 and Ledger(path).scores_released("bank/loans") == 0

    assert as_stranger(read) == "done"


def test_folder_without_permission_is_refused_and_stays_as_it_is(open_folder):
    path = open_folder / "ledger.sqlite"
    new_ledger(path)
    path.chmod(0o666)
    before = dump(path)
    open_folder.chmod(0o555)
    assert as_stranger(lambda: step(Ledger(path))).startswith("LedgerUnavailable: The ledger ")
    missing = as_stranger(lambda: step(Ledger(open_folder / "other.sqlite")))
    assert missing.endswith("other.sqlite cannot be made: Permission denied.")
    open_folder.chmod(0o777)
    assert dump(path) == before and os.listdir(open_folder) == ["ledger.sqlite"]
    assert as_stranger(lambda: step(Ledger(path))) == "done"
