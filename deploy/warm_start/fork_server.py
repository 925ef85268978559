"""The fork server: imports FATE once, then forks a child for each task that asks, and watches over it.

It serves the tasks of one user in one environment, named by a key (`warm_handover.key_of`), at a socket in a folder
that is this user's alone. It never reads what a task sends, so that nothing of any task is in it: the child reads it.
It serves only while a fork is harmless, with a single thread and no file open but its own, and while what it has
imported is what a new Python process would import; otherwise it refuses, and the task starts cold.
"""

import argparse
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from fate_dp.deploy.fate_patches.warm_handover import (
    REFUSED,
    REFUSED_SECONDS,
    inside,
    open_files,
    open_private_folder,
    postpone,
)

from . import worker
from .inheritance import Inheritance, find_inheritance
from .preload import Imported, import_all

IDLE_SECONDS = 900.0
OWNER_CHECK_SECONDS = 2.0
FRESHNESS_SECONDS = 0.5
BACKLOG = 256
# With what it needs itself, a fork server that starts leaves a machine enough for the tasks of one party.
MIN_MEMORY = 1_000_000_000
# How many parties' servers share the machine, each with a fork server of its own.
SHARERS = "FATE_DP_WARM_SHARERS"
STATE_PREFIX, LOCK_PREFIX = "state.", "lock."
MAX_LOG = 1_000_000
OWNER_HAS_ENDED = "the FATE-Flow that it served has ended"
HANG_UP = select.POLLHUP | select.POLLERR | select.POLLRDHUP
# Where a container or a service has a limit of its own: (limit, in use), of the second and of the first kind of cgroup.
GROUP_FILES = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class NotServing(Exception):
    """This environment gets no fork server; the message is one sentence for the operator."""


@dataclass(frozen=True)
class Place:
    """Where a fork server of one key works: an open private folder, a lock in it, and a file that says what it does."""

    folder: int
    key: str
    lock: int

    def note(self, state: str, sentence: str = "") -> None:
        """Say in the state file what this process does; on a full disk it goes unsaid."""
        content = {"pid": os.getpid(), "state": state, "sentence": sentence}
        draft = inside(self.folder, f"draft.{os.getpid()}")
        try:
            with open(draft, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.replace(draft, inside(self.folder, STATE_PREFIX + self.key))
        except OSError as error:
            print(f"The state file could not be written: {error.strerror}.", flush=True)

    def listen(self) -> socket.socket:
        """The socket, which tasks may already ask while this process still imports; they are answered when it has."""
        path = inside(self.folder, self.key)
        if os.path.lexists(path):
            os.unlink(path)  # of a server that was killed: the lock tells that none lives
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(BACKLOG)
        return listener

    def leave(self, listener: socket.socket, sentence: str) -> None:
        """Take no further task, and leave the place to a successor."""
        self.note("ended", sentence)
        os.unlink(inside(self.folder, self.key))
        listener.close()
        fcntl.flock(self.lock, fcntl.LOCK_UN)

    def postpone(self) -> None:
        """Let tasks start no other server for a while: it would come to the same end, and take seconds to."""
        with suppress(OSError):
            postpone(self.folder, self.key, REFUSED_SECONDS)


def open_place(path: str, key: str) -> Place | None:
    """The place of a key; None where another fork server has it."""
    folder = open_private_folder(path)
    lock = os.open(inside(folder, LOCK_PREFIX + key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return Place(folder, key, lock)


@dataclass
class ForkServer:
    place: Place
    listener: socket.socket
    wake: socket.socket
    """Readable whenever a child has ended,"""
    bell: socket.socket
    """since Python then writes to this other end of it."""
    imported: Imported
    inheritance: Inheritance
    own: frozenset[int]
    """The files that it has open besides the connections of its children."""
    owner: psutil.Process | None = None
    idle_seconds: float = IDLE_SECONDS
    children: dict[int, socket.socket] = field(default_factory=dict)
    """Each child's process id, with the connection to the process that it stands for."""
    last_checked: float = 0.0

    def serve(self) -> None:
        """Fork until there is a reason not to; returns when the last child has ended."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        idle_since, reason = time.monotonic(), ""
        while not reason or self.children:
            events = dict(poll.poll(OWNER_CHECK_SECONDS * 1000))
            if self.owner is not None and not runs(self.owner):
                for pid in self.children:
                    end_with_descendants(pid)
                if self.listener.fileno() >= 0:
                    self.place.leave(self.listener, OWNER_HAS_ENDED)
                return
            for pid in [pid for pid, each in self.children.items() if events.get(each.fileno(), 0) & HANG_UP]:
                # Whoever waited for this task has gone, as when FATE-Flow kills it.
                poll.unregister(self.children[pid])
                end_with_descendants(pid)
            if self.wake.fileno() in events:
                self.wake.recv(4096)
                self.reap(poll)
            if not reason and self.listener.fileno() in events:
                reason = self.take(poll)
            if events or self.children:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self.idle_seconds:
                reason = f"no task came for {self.idle_seconds:.0f} seconds"
            if reason and self.listener.fileno() >= 0:
                poll.unregister(self.listener)
                self.place.leave(self.listener, reason)

    def take(self, poll: select.poll) -> str:
        """Accept a task's process and fork for it; returns why no further one will be, or nothing."""
        connection, _ = self.listener.accept()
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            connection.close()
            return ""
        word, reason = self.blocker(connection)
        if not word:
            try:
                self.fork(connection, poll)
                return ""
            except OSError as error:
                print(f"A task could not be forked and starts cold: {error.strerror}.", flush=True)
                word = "fork"
        with suppress(OSError):  # It may have given up by itself.
            connection.sendall(REFUSED + word.encode())
        connection.close()
        return reason

    def blocker(self, connection: socket.socket) -> tuple[str, str]:
        """Why a task is to start cold: a word for it, and a sentence where this server is of no use any more."""
        if thread_count() > 1:
            return "threads", "it has a second thread, which does not live on in a fork"
        connections = {each.fileno() for each in (connection, *self.children.values())}
        foreign = foreign_descriptors(self.own | connections)
        if foreign:
            return "files", f"it has {foreign[0]} open, which is not its own"
        if time.monotonic() - self.last_checked > FRESHNESS_SECONDS:
            changed = self.imported.changed()
            if changed:
                return "stale", f"{changed} has changed since it was read"
            self.last_checked = time.monotonic()
        return "", ""

    def fork(self, connection: socket.socket, poll: select.poll) -> None:
        """Fork a child that becomes the process at the other end of the connection."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            worker.run(connection, parent, self.inheritance)
        self.children[pid] = connection
        poll.register(connection, HANG_UP)

    def reap(self, poll: select.poll) -> None:
        """Tell each process whose child has ended how it ended."""
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self.children.pop(pid)
            with suppress(KeyError):  # Its process has gone before.
                poll.unregister(connection)
            with suppress(OSError):
                connection.sendall(status.to_bytes(4, sys.byteorder))
            connection.close()


def prepared(place: Place, listener: socket.socket, owner: psutil.Process | None, idle_seconds: float) -> ForkServer:
    """A server that has imported everything; raises NotServing where a fork is not harmless or memory is short."""
    sharers = int(os.environ.get(SHARERS, "1"))
    needed, left = MIN_MEMORY * sharers, available_memory()
    if left < needed:
        raise NotServing(
            f"{left // 1_000_000:,} MB of memory are available, but {needed // 1_000_000:,} MB are needed before a fork "
            f"server starts, {MIN_MEMORY // 1_000_000:,} MB for each of {sharers} servers on this machine."
        )
    wake, bell = socket.socketpair()
    for each in (wake, bell):
        each.setblocking(False)
    own = {0, 1, 2, place.folder, place.lock, *(each.fileno() for each in (listener, wake, bell))}
    imported = import_all()
    inheritance = find_inheritance()
    if inheritance.unknown:
        kind = inheritance.unknown[0]
        raise NotServing(f"A module holds random numbers or a key that cannot be made anew for each task: {kind}.")
    if thread_count() > 1:
        raise NotServing("A module has started a thread, which does not live on in a fork.")
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        raise NotServing("A module has initialised CUDA, which no forked process can use.")
    foreign = foreign_descriptors(own)
    if foreign:
        raise NotServing(f"A module keeps {foreign[0]} open, which tasks would share.")
    # A handler that does nothing: the bell rings all the same, and the poll of `serve` wakes up.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
    # Without this, each child's first search for garbage would write to, and so copy, all that was imported.
    gc.collect()
    gc.freeze()
    return ForkServer(place, listener, wake, bell, imported, inheritance, frozenset(own), owner, idle_seconds)


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended yet; one that nobody has waited for yet has, once its last thread closed its ports."""
    try:
        return process.is_running() and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1)
    except psutil.NoSuchProcess:
        return False


def end_with_descendants(pid: int) -> None:
    """Kill a process and all that it has started, and they."""
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        family: set[psutil.Process] = set()
        found = {leader}
        while not found <= family:
            family |= found
            # What is stopped starts nothing more, so that the search comes to an end.
            for each in family:
                with suppress(psutil.NoSuchProcess):
                    each.suspend()
            found = set(leader.children(recursive=True))
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def thread_count() -> int:
    """Threads of this process, those of native libraries included."""
    return len(os.listdir("/proc/self/task"))


def foreign_descriptors(own: Set[int]) -> list[str]:
    return [os.readlink(f"/proc/self/fd/{number}") for number in open_files() - own]


def available_memory() -> int:
    """Bytes that a new process may use before others lose theirs, under the limits of machine and container."""
    left = psutil.virtual_memory().available
    for limit, used in GROUP_FILES:
        try:
            free = int(Path(limit).read_text(encoding="ascii")) - int(Path(used).read_text(encoding="ascii"))
            left = min(left, free + reclaimable(Path(limit).parent))
        except (OSError, ValueError):
            continue  # no such cgroup, or "max": no limit
    return left


def reclaimable(group: Path) -> int:
    """Bytes of a cgroup that only keep files at hand."""
    for line in (group / "memory.stat").read_text(encoding="ascii").splitlines():
        name, value = line.split()
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("key")
    parser.add_argument("--owner", type=int, help="process id of the FATE-Flow with which to end")
    parser.add_argument("--idle-seconds", type=float, default=IDLE_SECONDS)
    options = parser.parse_args()
    # `down` ends this process so: its modules' temporary folders go with it, as they do at the end of any Python.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    place = open_place(options.folder, options.key)
    if place is None:
        return
    if os.fstat(1).st_size > MAX_LOG:
        os.ftruncate(1, 0)
    place.note("starting")
    listener = place.listen()
    try:
        owner = None if options.owner is None else psutil.Process(options.owner)
        server = prepared(place, listener, owner, options.idle_seconds)
    except psutil.NoSuchProcess:
        place.leave(listener, OWNER_HAS_ENDED)
        return
    except NotServing as refusal:
        place.leave(listener, str(refusal))
        place.postpone()
        return
    except Exception as error:
        place.leave(listener, f"It failed while it imported FATE: {type(error).__name__}: {error}.")
        place.postpone()
        raise
    place.note("serving")
    with suppress(SystemExit):
        server.serve()
    for folder in server.inheritance.folders:
        folder.cleanup()
    # Leaving as usual would take down thousands of modules one by one.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
