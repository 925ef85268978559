"""A home of their own for all tests, and a guard before that of whoever runs them."""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from multiprocessing import util
from pathlib import Path

from fate_dp.privacy.private_files import HOME_VARIABLE

OF_THE_USER = "FATE_DP_TESTS_GUARD"
"""The folders that are guarded, for processes that a run of tests starts."""
FOLDER = ".fate-dp"
PATHS = (str, bytes, os.PathLike)
CHANGED = "This run, or somebody beside it, changed {}, which is not its own."
_CALLS = (
    "listdir",
    "scandir",
    "mkdir",
    "rmdir",
    "rename",
    "remove",
    "link",
    "symlink",
    "chmod",
    "chown",
    "utime",
    "truncate",
)
WATCHED = frozenset(
    ("open", "sqlite3.connect", "shutil.rmtree", "shutil.copyfile", "shutil.move", *(f"os.{each}" for each in _CALLS))
)
"""What Python tells of a use of files, with one or two paths first."""


@cache
def guard() -> Guard:
    """The one of this process: a second one would be kept off the folders by the first."""
    return Guard()


class Guard:
    """Gives this process, and those that it starts, a new HOME and FATE_DP_HOME, and keeps it off the folders before.

    Whoever opens, lists or changes anything below those in this process gets an error; what other processes changed there
    is found at the end.
    """

    def __init__(self) -> None:
        if OF_THE_USER not in os.environ:
            homes = {os.environ.get("HOME") or str(Path.home()), pwd.getpwuid(os.getuid()).pw_dir}
            left = {os.path.abspath(os.path.join(home, FOLDER)) for home in homes}
            left |= {os.path.abspath(os.environ[HOME_VARIABLE])} if os.environ.get(HOME_VARIABLE) else set()
            home = tempfile.mkdtemp(prefix="fate-dp-home-")
            os.environ |= {"HOME": home, HOME_VARIABLE: os.path.join(home, FOLDER), OF_THE_USER: os.pathsep.join(left)}
            util.Finalize(None, shutil.rmtree, args=(home, True), exitpriority=-200)
        self.folders = tuple(os.environ[OF_THE_USER].split(os.pathsep))
        self.before, self._raised = self._contents(), True
        # Python never takes a hook away.
        sys.addaudithook(self._hear)

    def changes(self) -> list[str]:
        """Files that are others than before."""
        self._raised = False
        return sorted({path for path, _ in self.before.items() ^ self._contents().items()})

    def fail_at_exit(self) -> None:
        """End this process with status 1 if a file of the user's is another one by then; pytest has its own end."""
        atexit.register(self._end)

    def _end(self) -> None:
        if changed := self.changes():
            print(CHANGED.format(", ".join(changed[:5])), file=sys.stderr, flush=True)
            os._exit(1)

    def _hear(self, event: str, args: tuple) -> None:
        if event not in WATCHED or not self._raised:
            return
        for path in (os.path.abspath(os.fsdecode(each)) for each in args[:2] if isinstance(each, PATHS)):
            if path in self.folders or path.startswith(tuple(folder + os.sep for folder in self.folders)):
                raise RuntimeError(f"A test touches {path}, which is not its own.")

    def _contents(self) -> dict[str, tuple[int, int]]:
        found = {}
        for path in (path for folder in self.folders for path in Path(folder).rglob("*")):
            with suppress(FileNotFoundError):
                found[str(path)] = (path.lstat().st_size, path.lstat().st_mtime_ns)
        return found
