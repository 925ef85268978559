"""Hand a task's process over to a fork server that has FATE imported already, or let it start as ever.

FATE-Flow starts five Python processes for each task and role, and each imports for seconds what the one before it
imported. Here such a process, before it has imported anything, gives its command line, environment, folder and open
files to the fork server of its environment (`fate_dp.deploy.warm_start`), which runs the task in a forked child; the
process itself stays, with the id and command line that FATE-Flow knows, passes on signals, and ends as the child does.

Whenever something is in doubt it does nothing, and the task starts cold. A child begins only when it is told to, so
that a task never runs twice. Python loads this module in every process that has its folder on PYTHONPATH, by the
`sitecustomize` beside it: nothing but modules that are built into Python is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping
    from typing import Any


# "off" starts every task cold; an operator sets it for a server.
SWITCH = "FATE_DP_WARM_START"
# The private folder with the fork servers' sockets; our servers have one in their home.
FOLDER = "FATE_DP_WARM_FOLDER"
# The process with which a fork server ends; without it, it ends only when it is idle.
OWNER = "FATE_DP_WARM_OWNER"
# Made in the folder by `--cold`, whereupon tasks start cold at once, also under a server that runs.
OFF_FILE = "off"
COUNT_PREFIX = "count."
# Of files that are as old as the last start of a fork server.
STARTED_PREFIX = "started."
# What a task is about: nothing that a fork server may know.
OF_ONE_TASK = ("FATE_TASK_CONFIG", "FATE_JOB_ID")
# Variables that modules read when they are imported: tasks that differ in one need fork servers of their own. All
# others are taken over with the task.
READ_AT_IMPORT = (
    *("PYTHON", "VIRTUAL_ENV", "LD_", "GLIBC", "MALLOC_", "JE_", "LANG", "LC_", "TZ", "HOME", "XDG_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "RAYON_", "BLIS_", "CUDA", "NVIDIA_", "NCCL_"),
    *("TORCH", "PYTORCH_", "HF_", "TRANSFORMERS_", "ARROW_", "GRPC_", "MPL"),
    *("FATE_PROJECT_BASE", "FATE_PYTHONPATH", "FATE_ENABLE_TRACING", "FATE_TASK_TYPE"),
    *("LOG_LEVEL", "DEBUG_MODE_LOG_LEVEL"),
)
EXECUTORS = ("fate_flow/manager/worker/fate_flow_executor.py", "fate_flow/manager/worker/fate_executor.py")
# Changed whenever a fork server and a hand-over of before would not understand each other.
PROTOCOL = 1
READY, GO, REFUSED = b"R", b"G", b"N"
# A server that is still importing answers when it has; on a slow machine that may take as long as a cold task does.
PATIENCE_SECONDS = 60.0
SECONDS_BETWEEN_STARTS = 30.0
REFUSED_SECONDS = 600.0
# Numbers above are for the child's own use while it takes over the open files.
HIGHEST_DESCRIPTOR = 512
LOST_CHILD = 70
# The name, in the kernel's eyes, of a process that waits for its child to end; its command line stays.
FOLLOWER = "warm-follower"
PASSED_ON = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


class Cold(Exception):
    """This task starts as ever; the message is a word by which such starts are counted."""


def hand_over() -> None:
    """Run this process's task in a forked child and end as that does; returns only where it is to start cold."""
    arguments = list(getattr(sys, "orig_argv", ()))
    if not is_executor(arguments):
        return
    try:
        folder = open_private_folder(folder_of(os.environ))
    except OSError:
        # Missing, or not private: nothing in it is believed, and nothing is written there.
        start_in_new_folder()
        return
    try:
        connection = connected(folder)
        child = accepted(connection, request(arguments, {folder, connection.fileno()}))
    except Exception as reason:
        count(folder, "cold." + (str(reason) if isinstance(reason, Cold) else "error"))
        os.close(folder)
        return
    count(folder, "warm")
    follow(connection, child)


def is_executor(arguments: list) -> bool:
    """Whether a command line is one by which FATE-Flow runs a task, without options for Python."""
    return len(arguments) > 3 and arguments[1].endswith(EXECUTORS) and arguments[2] == "component"


def folder_of(environment: Mapping[str, str]) -> str:
    """The folder with the sockets of the fork servers of this environment."""
    return environment.get(FOLDER) or os.path.join(os.path.expanduser("~"), ".fate-dp", "warm")


def open_private_folder(path: str) -> int:
    """A descriptor of a folder, which must be one into which nobody but this user can put or replace anything."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(folder)
        raise PermissionError(f"{path} is not this user's alone")
    return folder


def inside(folder: int, name: str) -> str:
    """The path of something in an open folder, short enough for a socket however deep the folder lies."""
    return f"/proc/self/fd/{folder}/{name}"


def is_off(folder: int, environment: Mapping[str, str]) -> bool:
    """Whether the operator wants tasks to start cold."""
    return environment.get(SWITCH, "") == "off" or os.path.exists(inside(folder, OFF_FILE))


def key_of(environment: Mapping[str, str]) -> str:
    """The name of the fork server for tasks with this environment: all that importing the same modules depends on."""
    import _imp

    variables = sorted(each for each in environment.items() if each[0].startswith(READ_AT_IMPORT))
    spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in ("mnt", "net", "pid", "user")]
    with open("/proc/self/cgroup", "rb") as file:
        group = file.read()
    account = (os.geteuid(), os.getegid(), sorted(os.getgroups()))
    python = (sys.version, sys.executable, sys.prefix, tuple(sys.flags))
    itself = os.stat(__file__).st_mtime_ns
    text = repr((PROTOCOL, itself, python, variables, account, spaces, group))
    return _imp.source_hash(PROTOCOL, text.encode("utf-8", "surrogateescape")).hex()


def connected(folder: int) -> _socket.socket:
    """A connection to the fork server, whose process is known to be this user's; raises Cold where there is none."""
    if is_off(folder, os.environ):
        raise Cold("switched-off")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Spark's own launcher started this process and watches it.
        raise Cold("spark")
    import _socket

    key = key_of(os.environ)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.settimeout(PATIENCE_SECONDS)
    try:
        connection.connect(inside(folder, key))
    except (FileNotFoundError, ConnectionRefusedError):
        start_server(folder, key, os.environ)
        raise Cold("no-server") from None
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
        raise Cold("other-user")
    return connection


def request(arguments: list, own: set) -> tuple:
    """What the child needs to be this process: a message, and the numbers of the open files that go with it."""
    descriptors = sorted(open_files() - own)
    if descriptors[:3] != [0, 1, 2] or descriptors[-1] > HIGHEST_DESCRIPTOR or len(descriptors) > 200:
        raise Cold("descriptors")
    umask = os.umask(0o077)
    os.umask(umask)
    task = (arguments, dict(os.environ), os.getcwd(), umask, descriptors)
    return marshal.dumps(task), descriptors


def open_files() -> set:
    """The numbers of this process's open files, without that by which they are listed."""
    return {int(each) for each in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{each}")}


def accepted(connection: _socket.socket, asked: tuple) -> int:
    """The process id of the child that has taken the task over, and now begins; else raises Cold, and none begins."""
    import _signal
    import _socket

    message, descriptors = asked
    numbers = b"".join(each.to_bytes(4, sys.byteorder) for each in descriptors)
    length = len(message).to_bytes(4, sys.byteorder)
    try:
        connection.sendmsg([length], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
        connection.sendall(message)
    except (BrokenPipeError, ConnectionResetError):
        pass  # a server that refuses closes without reading; it has said why
    except TimeoutError:
        raise Cold("no-answer") from None
    try:
        answer = connection.recv(64)
    except TimeoutError:
        raise Cold("no-answer") from None
    except ConnectionResetError:
        answer = b""
    if answer[:1] != READY or len(answer) != 5:
        reason = answer[1:].decode("ascii", "replace") if answer[:1] == REFUSED else "no-answer"
        raise Cold(reason if reason.isalpha() else "no-answer")
    connection.settimeout(None)
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(FOLLOWER)
    child = int.from_bytes(answer[1:], sys.byteorder)
    # Before the child begins: whoever sees it work may send a signal at once.
    before = pass_signals_on(child)
    try:
        connection.sendall(GO)
    except OSError:
        for number, handler in before.items():
            _signal.signal(number, handler)
        raise Cold("no-answer") from None
    return child


def pass_signals_on(child: int) -> dict:
    """Signals to this process go on to the child; returns what was done with each until now."""
    import _signal

    numbers = [getattr(_signal, name) for name in PASSED_ON]
    return {number: _signal.signal(number, lambda got, frame: pass_on(child, got)) for number in numbers}


def pass_on(child: int, number: int) -> None:
    """Send the child a signal, unless it has just ended: its status is then on the way."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def follow(connection: _socket.socket, child: int) -> None:
    """Wait for the child's end, and end likewise. Never returns: the task runs elsewhere."""
    import _signal

    try:
        told = b""
        while len(told) < 4:
            part = connection.recv(4 - len(told))
            if not part:
                # The server was killed, and the child with it: so this process ends as a killed one.
                end_by(_signal.SIGKILL, child)
            told += part
        status = int.from_bytes(told, sys.byteorder)
        if os.WIFSIGNALED(status):
            end_by(os.WTERMSIG(status), child)
        os._exit(os.WEXITSTATUS(status))
    finally:
        os._exit(LOST_CHILD)


def end_by(number: int, child: int) -> None:
    """End by the signal that ended the child, without a second image of memory beside the child's."""
    import _signal
    import resource

    # Its own processes, such as those of FATE's pool, would wait for it for ever.
    end_session(child)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number not in (_signal.SIGKILL, _signal.SIGSTOP):
        _signal.signal(number, _signal.SIG_DFL)
    os.kill(os.getpid(), number)


def end_session(leader: int) -> None:
    """Kill the leader of a session and all that it has started, but for those that follow children of their own: they
    do likewise."""
    import _signal

    left: Any = True
    while left:
        left = [pid for pid in os.listdir("/proc") if pid.isdigit() and works_in(pid, leader)]
        for pid in left:
            try:
                os.kill(int(pid), _signal.SIGKILL)
            except OSError:
                pass  # it has just ended


def works_in(pid: str, session: int) -> bool:
    """Whether a process of a session runs, other than to follow a child."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            start, _, rest = file.read().rpartition(b")")
    except OSError:
        return False
    state, fields = rest[1:2], rest.split()
    return int(fields[3]) == session and state not in b"ZX" and start.partition(b"(")[2] != FOLLOWER.encode()


def count(folder: int, how: str) -> None:
    """One byte more in the file of its kind: its size is the number of such starts, whoever writes at the same time."""
    try:
        name = inside(folder, COUNT_PREFIX + how)
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, b".")
        finally:
            os.close(file)
    except OSError:
        pass  # a full disk stops no task here


def start_in_new_folder() -> None:
    """Start a fork server where there was no folder for it yet; one that is not private is left alone."""
    path = folder_of(os.environ)
    if os.environ.get(SWITCH, "") == "off":
        return
    try:
        # The folders above it as well, for which `makedirs` takes no mode.
        umask = os.umask(0o077)
        try:
            os.makedirs(path)
        finally:
            os.umask(umask)
        folder = open_private_folder(path)
        start_server(folder, key_of(os.environ), os.environ)
        count(folder, "cold.no-server")
        os.close(folder)
    except OSError:
        pass


def postpone(folder: int, key: str, seconds: float) -> None:
    """Let tasks start no fork server for so long, by a clock that nobody sets: the mark's time is when the next may come."""
    mark, later = inside(folder, STARTED_PREFIX + key), time.monotonic() + seconds
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(mark, (later, later))


def start_server(folder: int, key: str, environment: Mapping[str, str]) -> None:
    """Start a fork server for the next tasks in the background, unless one was just started; it learns nothing of the
    first task."""
    try:
        left = os.stat(inside(folder, STARTED_PREFIX + key)).st_mtime - time.monotonic()
        # A mark from before the machine's last start may be far ahead of a clock that began anew.
        if 0 < left <= REFUSED_SECONDS:
            return
    except OSError:
        pass
    postpone(folder, key, SECONDS_BETWEEN_STARTS)
    path = os.readlink(inside(folder, "").rstrip("/"))
    variables = {name: value for name, value in environment.items() if name not in OF_ONE_TASK}
    variables["PROCESS_ROLE"] = "worker"
    command = [sys.executable, "-m", "fate_dp.deploy.warm_start.fork_server", path, key]
    if OWNER in environment:
        command += ["--owner", environment[OWNER]]
    # Twice forked, so that it is no child of a task, which might wait for its children.
    first = os.fork()
    if first:
        os.waitpid(first, 0)
        return
    try:
        os.setsid()
        if not os.fork():
            become(command, variables, folder)
    finally:
        os._exit(0)


def become(command: list, environment: dict, folder: int) -> None:
    """Replace this forked process by the server, with none of the task's files and its own log."""
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(inside(folder, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, number)
    os.closerange(3, 4096)
    os.chdir("/")
    os.umask(0o077)
    os.execve(command[0], command, environment)
