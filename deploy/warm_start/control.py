"""Start, switch off and look at the fork servers whose sockets are in a folder."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fate_dp.deploy.fate_patches.warm_handover import (
    COUNT_PREFIX,
    OFF_FILE,
    SWITCH,
    folder_of,
    inside,
    is_off,
    key_of,
    open_private_folder,
    start_server,
)

from .fork_server import STATE_PREFIX

# Left by a FATE-Flow in whose own environment warm start is off, which other processes do not see.
OFF_FOR_SERVER_FILE = "off-for-server"

# Why a task started cold, for those words that `warm_handover` and the fork server count.
WHY_COLD = {
    "switched-off": "warm start was switched off",
    "no-server": "no fork server ran yet",
    "no-answer": "the fork server did not answer",
    "stale": "code or configuration had changed",
    "spark": "Spark starts it",
    "threads": "the fork server had a second thread",
    "files": "the fork server had a foreign file open",
    "fork": "no process could be forked",
    "descriptors": "the task had unusual files open",
    "other-user": "the fork server was another user's",
    "error": "something unexpected happened",
}


@dataclass(frozen=True)
class ForkServerState:
    """What the state file of a fork server says; `lives` whether that process still does."""

    pid: int
    state: str
    sentence: str
    lives: bool
    memory: int = 0
    """Its resident bytes, which its children share until they write."""


@dataclass(frozen=True)
class WarmStart:
    """What a folder tells of the tasks that were to start warm."""

    folder: Path
    trouble: str = ""
    """Why no task starts warm here, where that is certain."""
    off: bool = False
    servers: tuple[ForkServerState, ...] = ()
    warm: int = 0
    cold: Mapping[str, int] = field(default_factory=dict)

    @property
    def serving(self) -> tuple[ForkServerState, ...]:
        """The fork servers that take tasks, or will when they have imported everything."""
        return tuple(each for each in self.servers if each.lives and each.state in ("starting", "serving"))

    @property
    def refusal(self) -> str:
        """Why the last fork server does not run, in its own words; empty where one does or nothing is known."""
        if self.serving or not self.servers:
            return ""
        last = self.servers[-1]
        return last.sentence if last.state == "ended" else "The fork server was killed."

    def sentence(self) -> str:
        """All of it in a sentence or two, for an operator."""
        if self.trouble:
            return f"Tasks start cold: {self.trouble}."
        if self.off:
            doing = "Tasks start cold: warm start is switched off"
        elif self.serving:
            states = {"starting": "is being started", "serving": "serves"}
            servers = (
                f"fork server {each.pid} {states[each.state]} ({each.memory // 1_000_000} MB)" for each in self.serving
            )
            doing = f"Tasks start warm: {' and '.join(servers)}"
        else:
            why = f" ({self.refusal.rstrip('.')})" if self.refusal else ""
            doing = f"Tasks start cold at first: no fork server runs before the first task{why}"
        cold = sum(self.cold.values())
        why = "; ".join(f"{number}: {WHY_COLD.get(word, word)}" for word, number in sorted(self.cold.items()) if number)
        counted = f"So far {self.warm} processes of tasks started warm, {cold} cold"
        return f"{doing}. {counted} ({why})." if why else f"{doing}. {counted}."


def start_for(provider_path: str) -> None:
    """Start a fork server for this process's FATE-Flow before its first task, whose PYTHONPATH begins with this path."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (provider_path, environment.get("PYTHONPATH"))))
    try:
        folder = open_private_folder(folder_of(environment))
    except OSError as error:
        print(f"Tasks start cold: {error.filename or error} cannot hold a fork server's socket: {error.strerror}.")
        return
    if environment.get(SWITCH) == "off":
        os.close(os.open(inside(folder, OFF_FOR_SERVER_FILE), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    elif not is_off(folder, environment):
        start_server(folder, key_of(environment), environment)
    os.close(folder)


def switch(folder: Path, cold: bool) -> None:
    """Let the tasks of a folder's servers start cold from now on, or warm again."""
    if cold:
        (folder / OFF_FILE).touch(mode=0o600)
    else:
        (folder / OFF_FILE).unlink(missing_ok=True)


def is_switched_off(folder: Path) -> bool:
    """Whether `switch` was last told to start tasks cold."""
    return (folder / OFF_FILE).exists()


def forget(folder: Path) -> None:
    """Start counting anew, as a FATE-Flow that starts does; what earlier fork servers left is taken away."""
    for each in folder.iterdir():
        if each.name != OFF_FILE:
            each.unlink(missing_ok=True)


def look(folder: Path, environment: Mapping[str, str] | None = None) -> WarmStart:
    """What is known of the fork servers of a folder; `environment` is that of the FATE-Flow that they serve."""
    try:
        os.close(open_private_folder(str(folder)))
    except FileNotFoundError:
        return WarmStart(folder, trouble=f"there is no folder {folder}")
    except OSError:
        return WarmStart(folder, trouble=f"the folder {folder} is open to others, or not this user's")
    sizes = {path.name[len(COUNT_PREFIX) :]: path.stat().st_size for path in folder.glob(COUNT_PREFIX + "*")}
    states = sorted(folder.glob(STATE_PREFIX + "*"), key=lambda path: path.stat().st_mtime)
    off_by_environment = (folder / OFF_FOR_SERVER_FILE).exists() or (environment or {}).get(SWITCH) == "off"
    return WarmStart(
        folder,
        off=is_switched_off(folder) or off_by_environment,
        servers=tuple(map(state_in, states)),
        warm=sizes.pop("warm", 0),
        cold={name.removeprefix("cold."): size for name, size in sizes.items()},
    )


def state_in(path: Path) -> ForkServerState:
    told = json.loads(path.read_text(encoding="utf-8"))
    try:
        memory, lives = psutil.Process(told["pid"]).memory_info().rss, True
    except psutil.Error:
        memory, lives = 0, False
    return ForkServerState(told["pid"], told["state"], told["sentence"], lives, memory)
