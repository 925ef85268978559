"""A folder that appears under its name complete, or not at all.

What is written goes to a hidden folder beside the target, which then takes the target's place. A run that fails or is
interrupted removes it; a run that is killed leaves it, locked by nobody, and the next one removes it. A folder that is
replaced is set aside first, for the moment between two renames; where a run died in that moment, the next one puts the
old folder back.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fate_dp.privacy.private_files import sync
from fate_dp.privacy.validation import InvalidArgument

STAGED, REPLACED = ".{}.staged-by-fate-dp", ".{}.replaced-by-fate-dp"


@contextlib.contextmanager
def replaced_folder(target: str | os.PathLike, check_replaceable: Callable[[Path], None]) -> Iterator[Path]:
    """Give an empty folder to write into, which becomes ``target`` when the block ends without an exception.

    ``check_replaceable`` is called with a target that exists and is not empty; it raises where that must be kept.
    """
    # Where the target is a link, the folder that it leads to is replaced, and the link stays.
    target = Path(os.path.realpath(target))
    made = [parent for parent in target.parents if not parent.exists()]  # the deepest first
    with _in_one_sentence(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _locked_staging(target) as staging:
                _restore(target)
                check_target(target, check_replaceable)
                yield staging
                # Files and names are durable before the rename makes them visible.
                for parent, _, files in os.walk(staging):
                    for name in (*files, ""):
                        sync(Path(parent, name))
                _exchange(staging, target)
        except BaseException:
            for folder in made:
                with contextlib.suppress(OSError):
                    folder.rmdir()
            raise


def check_target(target: str | os.PathLike, check_replaceable: Callable[[Path], None]) -> None:
    """Refuse a target that is no folder, or that ``check_replaceable`` refuses; ask before long work."""
    target = Path(os.path.realpath(target))
    with _in_one_sentence(target):
        parent = next((parent for parent in target.parents if parent.exists()), target)
        if not parent.is_dir():
            raise InvalidArgument(f"{target} cannot be a folder, because {parent} is a file.")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InvalidArgument(
                f"{target} could not be written: {parent} cannot be written to; choose another folder."
            )
        if not target.exists():
            return
        if not target.is_dir():
            raise InvalidArgument(f"{target} is a file; name a folder that does not exist yet.")
        if any(target.iterdir()):
            check_replaceable(target)


@contextlib.contextmanager
def _locked_staging(target: Path) -> Iterator[Path]:
    staging = target.with_name(STAGED.format(target.name))
    staging.mkdir(exist_ok=True)
    descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, staging, target)
        for entry in staging.iterdir():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        try:
            yield staging
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    finally:
        os.close(descriptor)


def _lock(descriptor: int, staging: Path, target: Path) -> None:
    """Take the lock of this very folder: another run may have renamed or removed it since it was opened."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.path.samestat(os.fstat(descriptor), os.stat(staging))
    except (BlockingIOError, FileNotFoundError):
        mine = False
    if not mine:
        raise InvalidArgument(f"Another run is writing {target} now; wait until it ends.")


def _restore(target: Path) -> None:
    """Finish what a killed run began: put back the folder that it had set aside, or remove it if it was replaced."""
    replaced = target.with_name(REPLACED.format(target.name))
    if target.exists() and replaced.exists():
        shutil.rmtree(replaced)
    elif replaced.exists():
        os.rename(replaced, target)


def _exchange(staging: Path, target: Path) -> None:
    try:
        if target.exists():
            os.rename(target, target.with_name(REPLACED.format(target.name)))
        os.rename(staging, target)
    except BaseException:
        _restore(target)
        raise
    sync(target.parent)
    # The new folder is in place: an old one that cannot be removed now is no failure, and the next run removes it.
    with contextlib.suppress(OSError):
        _restore(target)


@contextlib.contextmanager
def _in_one_sentence(target: Path) -> Iterator[None]:
    """An error of the file system as a refusal that says what the user can mend."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        advice = _ADVICE.get(number, "nothing was changed")
        raise InvalidArgument(f"{target} could not be written: {os.strerror(number)}; {advice}.") from error


_ADVICE = {
    errno.ENOSPC: "free some space or choose another disk",
    errno.EDQUOT: "free some of your quota or choose another disk",
    errno.EFBIG: "files of this size are not allowed here",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a disk that can be written to",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ENAMETOOLONG: "choose a shorter name",
}
