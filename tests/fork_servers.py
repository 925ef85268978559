"""Fork servers that import little, and small programs as tasks for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fate_dp.deploy.fate_patches.warm_handover import FOLDER, SWITCH
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.server import FATE_PATCHES
from fate_dp.deploy.warm_start import control
from fate_dp.deploy.warm_start.control import ForkServerState

PATIENCE_SECONDS = 300.0
# Imports what it is told to instead of FATE, which takes many seconds and most of the memory that a server wants to see free.
SERVER = """
import sys
from fate_dp.deploy.warm_start import fork_server, preload
if {modules!r} is not None:
    preload.MODULES, preload.own_components = {modules!r}, lambda: []
    fork_server.MIN_MEMORY = 10_000_000
{change}
fork_server.main()
"""


@dataclass
class Place:
    """A folder with fork servers, and one with the program of the tasks, which FATE-Flow would run."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root / "warm"

    @property
    def program(self) -> Path:
        return self.root / "fate_flow" / "manager" / "worker" / "fate_executor.py"

    def variables(self, **more: str) -> dict[str, str]:
        """The environment of a task."""
        path = os.pathsep.join((str(FATE_PATCHES), str(self.root / "modules")))
        kept = {name: value for name, value in os.environ.items() if name not in (SWITCH, "PYTHONPATH")}
        return {**kept, "PYTHONPATH": path, FOLDER: str(self.folder), **self.environment, **more}

    def key(self, **more: str) -> str:
        """The name of the fork server for such tasks."""
        probe = "import os, warm_handover; print(warm_handover.key_of(os.environ))"
        done = subprocess.run([sys.executable, "-c", probe], env=self.variables(**more), capture_output=True, text=True)
        return done.stdout.strip()

    def no_new_server(self, **more: str) -> None:
        """Keep tasks that find no server from starting one: it would import FATE and take this machine's time."""
        mark = self.folder / f"started.{self.key(**more)}"
        mark.touch(mode=0o600)
        future = time.time() + 3600
        os.utime(mark, (future, future))

    def start_task(self, text: str, *arguments: str, **options) -> subprocess.Popen:
        """Start a task whose program is this text."""
        # At once: tasks started just before may be reading it.
        draft = self.program.with_suffix(".draft")
        draft.write_text(text, encoding="utf-8")
        draft.replace(self.program)
        more = options.pop("more", {})
        return subprocess.Popen(
            [sys.executable, str(self.program), "component", "execute", *arguments],
            env=self.variables(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run_task(self, text: str, *arguments: str, **options) -> subprocess.CompletedProcess:
        """Run a task to its end."""
        task = self.start_task(text, *arguments, **options)
        output, errors = task.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(task.args, task.returncode, output, errors)

    def counts(self) -> tuple[int, dict[str, int]]:
        """How many tasks started warm, and how many cold and why."""
        found = control.look(self.folder)
        return found.warm, dict(found.cold)

    def state(self) -> ForkServerState:
        """What the only fork server of the folder says of itself."""
        (found,) = control.look(self.folder).servers
        return found


def make_place(root: Path, **environment: str) -> Place:
    """A place without a fork server."""
    place = Place(root, environment)
    place.folder.mkdir(mode=0o700)
    place.program.parent.mkdir(parents=True)
    (root / "modules").mkdir()
    place.no_new_server()
    return place


@contextmanager
def serving(
    place: Place, modules: tuple[str, ...] | None = (), change: str = "", options: tuple[str, ...] = (), **more: str
) -> Iterator[subprocess.Popen]:
    """A fork server of a place, which has imported these modules, or FATE for None; it is killed at the end."""
    program = SERVER.format(modules=modules, change=change)
    command = [sys.executable, "-c", program, str(place.folder), place.key(), *options]
    log = (place.folder / "log").open("ab")
    server = subprocess.Popen(
        command, env=place.variables(**more), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    try:
        wait_until(lambda: server.poll() is not None or _state(place, server.pid) not in ("", "starting"))
        yield server
    finally:
        server.kill()
        server.wait()
        log.close()


def _state(place: Place, pid: int) -> str:
    path = place.folder / f"state.{place.key()}"
    if not path.exists():
        return ""
    told = json.loads(path.read_text(encoding="utf-8"))
    return told["state"] if told["pid"] == pid else ""


def wait_until(happened: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until something is so; fails the test where it does not come to be."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def serving_at(home: Path) -> ForkServerState:
    """The fork server of a FATE-Flow's home, once it has imported everything: tasks that come before start cold."""

    def ready() -> list[ForkServerState]:
        return [each for each in control.look(open_home(home).warm).serving if each.state == "serving"]

    wait_until(lambda: bool(ready()))
    return ready()[-1]


def imported_at(home: Path) -> None:
    """Wait until no fork server of a FATE-Flow's home imports any more, which slows down all that starts cold meanwhile."""

    def settled() -> bool:
        found = control.look(open_home(home).warm)
        return bool(found.trouble) or any(each.state != "starting" or not each.lives for each in found.servers)

    wait_until(settled)


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def number_in(path: Path) -> int:
    """The process id that a task writes into a file, when it has."""
    wait_until(lambda: path.exists() and path.read_text().strip() != "")
    return int(path.read_text())


def end(pid: int) -> None:
    """End a process that a failed test may have left."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
