"""The child that a fork server has forked becomes the process of a task.

What that process was started with comes over the connection: command line, environment, folder, open files. The child
takes it on, says that it is ready, begins when it is told to, and ends as Python ends, but for taking down the modules
that it shares: that alone would copy all their memory, and cost a third of a second.
"""

import atexit
import builtins
import ctypes
import fcntl
import gc
import io
import marshal
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
import types
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from typing import Any, NoReturn

from fate_dp.deploy.fate_patches.warm_handover import GO, HIGHEST_DESCRIPTOR, PATIENCE_SECONDS, READY

from .inheritance import Inheritance

PARENT_DEATH_SIGNAL, PROCESS_NAME = 1, 15
# The child's own files, while it takes over others with numbers below.
PRIVATE = HIGHEST_DESCRIPTOR + 1
# Where memory runs out, a task is to be ended rather than the fork server with all tasks.
MORE_EXPENDABLE = 50
LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))
# Python's own, where what a program printed cannot be written.
FLUSH_FAILED = 120
# The class of all files, those written in C included.
IO_BASE = io.IOBase.__mro__[1]


@dataclass(frozen=True)
class Task:
    """What a process was started with."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    umask: int
    descriptors: list[int]


def run(connection: socket.socket, parent: int, inheritance: Inheritance) -> NoReturn:
    """In a forked child: become the process at the other end of the connection, and end as it would."""
    try:
        die_with(parent)
        # As in a Python process that has just started.
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        peer, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        task, files = receive(connection)
        private = move_up(connection.detach())
        take_files(task.descriptors, files, private)
        take_limits(peer)
        take_place(task)
        inheritance.make_own()
        wait_for_go(private)
    except BaseException:
        # Before it begins, a task is not this child's: it starts cold.
        os._exit(1)
    status = 1
    try:
        status = ended(status_of(task.arguments[1]))
        if status < 0:
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
    finally:
        os._exit(status)


def die_with(parent: int) -> None:
    """Let the kernel kill this process when the fork server ends, however it does."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    library.prctl(PROCESS_NAME, b"warm-task", 0, 0, 0)
    if os.getppid() != parent:
        raise ProcessLookupError(parent)


def receive(connection: socket.socket) -> tuple[Task, list[int]]:
    """The task, and its open files under whatever numbers they got on the way."""
    connection.settimeout(PATIENCE_SECONDS)
    header, files, _, _ = socket.recv_fds(connection, 4, 256)
    length, message = int.from_bytes(header, sys.byteorder), bytearray()
    while len(message) < length:
        part = connection.recv(length - len(message))
        if not part:
            raise EOFError
        message += part
    return Task(*marshal.loads(bytes(message))), files


def move_up(descriptor: int) -> int:
    """The same open file under a number that no file of the task has."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, PRIVATE)
    os.close(descriptor)
    return moved


def take_files(numbers: list[int], files: list[int], private: int) -> None:
    """Close all that was the fork server's, and open the task's files under their own numbers."""
    if len(numbers) != len(files):
        raise EOFError
    moved = [move_up(each) for each in files]
    os.closerange(0, PRIVATE)
    for number, each in zip(numbers, moved):
        os.dup2(each, number, inheritable=True)
        os.close(each)
    streams: tuple[tuple[Any, int], ...] = ((sys.stdout, 1), (sys.stderr, 2))
    for stream, number in streams:
        stream.reconfigure(line_buffering=number == 2 or os.isatty(number))


def take_limits(peer: int) -> None:
    """The limits and the priority of the process whose task this is."""
    for limit in LIMITS:
        resource.setrlimit(limit, resource.prlimit(peer, limit))
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, peer))
    try:
        with open(f"/proc/{peer}/oom_score_adj", encoding="ascii") as file:
            expendable = min(1000, int(file.read()) + MORE_EXPENDABLE)
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(expendable))
    except OSError:
        pass  # a container may forbid it; the kernel then chooses as it likes


def take_place(task: Task) -> None:
    """Folder, environment and command line, as Python sees them, and a session by which what it starts is known."""
    os.setsid()
    os.chdir(task.folder)
    os.umask(task.umask)
    os.environ.clear()
    os.environ.update(task.environment)
    time.tzset()
    sys.orig_argv = list(task.arguments)
    sys.argv = list(task.arguments[1:])
    sys.path.insert(0, os.path.dirname(os.path.abspath(task.arguments[1])))


def wait_for_go(private: int) -> None:
    """Say that this child is ready, and wait for the word: whoever lost patience runs the task itself."""
    connection = socket.socket(fileno=private)
    connection.settimeout(PATIENCE_SECONDS)
    connection.sendall(READY + os.getpid().to_bytes(4, sys.byteorder))
    if connection.recv(1) != GO:
        raise EOFError
    connection.close()


def status_of(path: str) -> int:
    """Run a file as the main program; returns Python's exit status, or the signal by which it would end, negative."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    try:
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, main.__dict__)
        return 0
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return (leaving.code or 0) & 0xFF
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException as error:
        # As Python prints it, from the program's own first line on.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def ended(status: int) -> int:
    """What Python does at the end: wait for threads, run what was registered, let go of what the program held."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()
    gc.collect()
    close_files()
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except (OSError, ValueError):
        status = FLUSH_FAILED
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # there is nowhere left to say so
    return status


def close_files() -> None:
    """Close the files that the task left open, so that nothing unwritten is lost: text, then what compresses, then
    plain files."""
    standard = {0, 1, 2}
    ours = [each for each in gc.get_objects() if IO_BASE in type(each).__mro__]
    plain = (io.BufferedWriter, io.BufferedRandom)
    ours.sort(key=lambda each: (type(each) is not io.TextIOWrapper, type(each) in plain))
    for each in ours:
        try:
            if each.fileno() not in standard:
                each.close()
        except Exception:
            continue  # closed already, or nowhere to write: Python, too, ends without a word about it
