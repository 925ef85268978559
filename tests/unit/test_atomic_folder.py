"""A folder appears complete or not at all, whatever happens while it is written, and a killed run leaves no mess."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fate_dp.data_prep import atomic_folder
from fate_dp.data_prep.atomic_folder import check_target, replaced_folder
from fate_dp.privacy.validation import InvalidArgument

# Dies with SIGKILL at the call number `step` of one of the functions that leave something on the disk.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from fate_dp.data_prep import atomic_folder
target, function, call = sys.argv[1], sys.argv[2], int(sys.argv[3])
module, name = (shutil, "rmtree") if function == "rmtree" else (os, function)
original, calls = getattr(module, name), 0
def counting(*arguments, **options):
    global calls
    calls += 1
    if calls == call:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **options)
setattr(module, name, counting)
with atomic_folder.replaced_folder(target, lambda folder: None) as staging:
    (staging / "half").write_text("half")
    os.listdir(staging)
    (staging / "a").write_text("killed")
    (staging / "half").unlink()
"""


def anything_goes(folder):
    """Every folder may be replaced."""


def write_folder(target, text, check=anything_goes):
    with replaced_folder(target, check) as staging:
        (staging / "sub").mkdir()
        (staging / "a").write_text(text)
        (staging / "sub" / "b").write_text(text)


def texts(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def complete(text):
    return {"a": text, os.path.join("sub", "b"): text}


@pytest.fixture
def target(tmp_path):
    return tmp_path / "deep" / "er" / "folder"


@pytest.fixture
def old(tmp_path):
    write_folder(tmp_path / "folder", "old")
    return tmp_path / "folder"


def test_the_name_appears_with_the_last_file(target):
    with replaced_folder(target, anything_goes) as staging:
        (staging / "a").write_text("x")
        assert not target.exists()
    assert texts(target) == {"a": "x"} and os.listdir(target.parent) == ["folder"]


def test_a_folder_is_replaced_as_a_whole(old):
    (old / "more").write_text("old")
    write_folder(old, "new")
    assert texts(old) == complete("new") and os.listdir(old.parent) == ["folder"]


def test_an_empty_folder_may_be_there(tmp_path):
    (tmp_path / "folder").mkdir()

    def refuse(folder):
        raise AssertionError("an empty folder needs no consent")

    write_folder(tmp_path / "folder", "new", refuse)
    assert texts(tmp_path / "folder") == complete("new")


def test_a_link_stays_and_its_folder_is_replaced(old):
    link = old.parent / "link"
    link.symlink_to(old)
    write_folder(link, "new")
    assert link.is_symlink() and texts(old) == complete("new")


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit, OSError(errno.ENOSPC, "full")])
def test_a_failure_leaves_what_was_there(old, target, failure):
    for place in (old, target):
        with pytest.raises((ValueError, KeyboardInterrupt, SystemExit)):
            with replaced_folder(place, anything_goes) as staging:
                (staging / "a").write_text("half")
                raise failure
    assert texts(old.parent) == {os.path.join("folder", name): "old" for name in complete("old")}
    assert os.listdir(old.parent) == ["folder"], "the parents that were made for the other are gone"


@pytest.mark.parametrize(
    "number, reason",
    [
        (errno.ENOSPC, "No space left on device; free some space or choose another disk"),
        (errno.EROFS, "Read-only file system; choose a disk that can be written to"),
        (errno.EIO, "Input/output error; nothing was changed"),
    ],
)
@pytest.mark.parametrize("owner, function", [(os, "fsync"), (os, "rename"), (Path, "mkdir")])
def test_an_error_of_the_disk_is_one_sentence(old, monkeypatch, number, reason, owner, function):
    def fail(*arguments, **options):
        raise OSError(number, "whatever the system calls it")

    with monkeypatch.context() as patched:
        patched.setattr(owner, function, fail)
        with pytest.raises(InvalidArgument) as refusal:
            write_folder(old, "new")
    assert str(refusal.value) == f"{old} could not be written: {reason}."
    assert texts(old) == complete("old") and os.listdir(old.parent) == ["folder"]


def test_where_the_second_rename_fails_the_old_folder_is_back(old, monkeypatch):
    rename, calls = os.rename, []

    def second_fails(source, destination):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EIO, "no")
        rename(source, destination)

    monkeypatch.setattr(atomic_folder.os, "rename", second_fails)
    with pytest.raises(InvalidArgument):
        write_folder(old, "new")
    assert texts(old) == complete("old") and os.listdir(old.parent) == ["folder"]


def test_what_must_be_kept_is_kept(old):
    def refuse(folder):
        assert folder == old
        raise ValueError("keep it")

    for attempt in (lambda: write_folder(old, "new", refuse), lambda: check_target(old, refuse)):
        with pytest.raises(ValueError, match="keep it"):
            attempt()
    assert texts(old) == complete("old") and os.listdir(old.parent) == ["folder"]


def test_the_root_folder_is_asked_about_like_any_other():
    def refuse(folder):
        raise ValueError(f"keep {folder}")

    with pytest.raises(ValueError, match="keep /"):
        check_target("/", refuse)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place, sentence in (
        (tmp_path / "file", f"{tmp_path}/file is a file; name a folder that does not exist yet."),
        (tmp_path / "file" / "x", f"{tmp_path}/file/x cannot be a folder, because {tmp_path}/file is a file."),
    ):
        with pytest.raises(InvalidArgument) as refusal:
            check_target(place, anything_goes)
        assert str(refusal.value) == sentence
        with pytest.raises(InvalidArgument):
            write_folder(place, "new")
    assert texts(tmp_path) == {"file": "mine"}


def test_a_folder_that_cannot_be_written_to_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(atomic_folder.os, "access", lambda path, mode: False)
    for place in (tmp_path / "there", tmp_path / "x" / "y"):
        with pytest.raises(InvalidArgument) as refusal:
            check_target(place, anything_goes)
        assert str(refusal.value) == (
            f"{place} could not be written: {tmp_path} cannot be written to; choose another folder."
        )


def test_two_runs_do_not_share_a_folder(target):
    with replaced_folder(target, anything_goes) as staging:
        (staging / "a").write_text("first")
        with pytest.raises(InvalidArgument) as refusal:
            write_folder(target, "second")
    assert str(refusal.value) == f"Another run is writing {target} now; wait until it ends."
    assert texts(target) == {"a": "first"} and os.listdir(target.parent) == ["folder"]


def test_a_lock_is_worth_nothing_once_another_run_has_used_the_folder(tmp_path, monkeypatch):
    flock = atomic_folder.fcntl.flock

    def finished_meanwhile(descriptor, operation):
        flock(descriptor, operation)
        (staging,) = tmp_path.iterdir()
        os.rename(staging, tmp_path / "folder")
        staging.mkdir()
        (staging / "a").write_text("a third run")

    monkeypatch.setattr(atomic_folder.fcntl, "flock", finished_meanwhile)
    with pytest.raises(InvalidArgument, match="^Another run is writing "):
        write_folder(tmp_path / "folder", "new")
    assert sorted(texts(tmp_path).values()) == ["a third run"]


@pytest.mark.parametrize(
    "function, call, survives",
    [("listdir", 1, "old"), ("fsync", 1, "old"), ("rename", 1, "old"), ("rename", 2, None), ("rmtree", 1, "killed")],
)
def test_a_killed_run_is_mended_by_the_next(old, function, call, survives):
    run = subprocess.run([sys.executable, "-c", KILLED, str(old), function, str(call)], timeout=600)
    assert run.returncode == -9
    assert old.exists() == (survives is not None) and (survives is None or (old / "a").read_text() == survives)
    with pytest.raises(ValueError, match="stop"), replaced_folder(old, anything_goes) as staging:
        assert os.listdir(staging) == [], "what the killed run left must not get into the new folder"
        raise ValueError("stop")
    assert (old / "a").read_text() == (survives or "old") and os.listdir(old.parent) == ["folder"]
    write_folder(old, "new")
    assert texts(old) == complete("new") and os.listdir(old.parent) == ["folder"]
