"""The embedded FATE-Flow server: what is at its address, its processes, and its start and stop."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from fate_dp.privacy.private_files import HOME_VARIABLE

from ..doctor.findings import PROBLEM
from ..doctor.limits import LIMITS
from ..fate_patches.warm_handover import FOLDER as WARM_FOLDER
from ..warm_start import control
from ..warm_start.fork_server import runs
from . import home_command
from .client import Answer, FlowAddress, FlowSilent, ask, credentials_for
from .home import FlowHome, install_server, make_home, open_home
from .programs import (
    EMBEDDED,
    HOST,
    FlowServerError,
    ServerRecord,
    ServerSetup,
    check_requested_port,
    free_port,
    is_free,
    log_end,
    read_record,
    wait_until,
    write_record,
)
from .unfinished import end_unfinished

ANSWERS, REFUSES, SILENT, FOREIGN = "answers", "refuses", "silent", "foreign"
# FATE-Flow's codes for an app that is unknown, a signature that is wrong, an app without rights, and no permission.
REFUSED_CLIENT = (5002, 5003, 5004, 5005)
EXPIRED = 5000


@dataclass(frozen=True)
class FlowState:
    """One of the four, why, and the version that FATE-Flow tells clients that it knows."""

    state: str
    reason: str = ""
    version: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a FATE-Flow is there, be it one with client authentication that does not know this client."""
        return self.state in (ANSWERS, REFUSES)


def state_of(address: FlowAddress) -> FlowState:
    """Ask what is at `address`, with the credentials of `flow init` where they are for it."""
    try:
        answer = ask(address, "server/fateflow", credentials=credentials_for(address))
    except FlowSilent as silence:
        return FlowState(FOREIGN if silence.is_foreign else SILENT, str(silence))
    version = version_in(answer)
    if version:
        return FlowState(ANSWERS, version=version)
    if refuses_client(answer):
        return FlowState(REFUSES, refusal_in(answer))
    return FlowState(SILENT, f"it reports the error {answer.code}: {answer.message}")


def refuses_client(answer: Answer) -> bool:
    """Whether an answer says no more than that FATE-Flow does not know who asks."""
    return answer.code in (*REFUSED_CLIENT, EXPIRED) or "appId" in answer.message


def refusal_in(answer: Answer) -> str:
    """Why FATE-Flow refuses a client."""
    if answer.code == EXPIRED:
        return f"{answer.message}: its clock and that of this machine differ by over a minute"
    return answer.message


def version_in(answer: Answer) -> str | None:
    """The version of FATE-Flow in its answer about itself."""
    servers = answer.data if isinstance(answer.data, dict) else {}
    return next((each.get("version") for each in servers.values() if isinstance(each, dict)), None)


def unknown_client(address: FlowAddress, reason: str) -> str:
    """What to do where FATE-Flow asks for a signature that it knows."""
    return (
        f"FATE-Flow at {address} authenticates clients and refuses this one ({reason}); run `flow init --ip {address.host} "
        f"--port {address.port} --app-id ID --app-token TOKEN` with an app's credentials."
    )


# Every process of a server inherits this variable, and no other process has it with this home.
MARK = "FATE_DP_FLOW_HOME"
# Its sitecustomize.py fences tasks, lets them start warm, and corrects faults of FATE.
FATE_PATCHES = Path(__file__).parents[1] / "fate_patches"
SECONDS_TO_END = 5.0
PROGRAM = "fate_dp.deploy.flow.process"
SECONDS_BETWEEN_LOOKS = 0.05
# Three parties' tasks run at once; with a thread per core and library each they only fight.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")
# With it MKL gives a row of a product the same bits wherever it stands, on more processors than without. No guarantee
# rests on that (see components/dp_homo_nn/record_layers.py): it is a second line, and read when the library is loaded.
ARITHMETIC = {"MKL_CBWR": "AVX2"}
# FATE-Flow writes the environment of every task into its log: nothing goes there that a task does not need.
INHERITED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
INHERITED_PREFIX = "FATE_DP_"


def server_environment(home: FlowHome) -> dict[str, str]:
    """The environment of the server, which its tasks inherit."""
    environment = {
        name: value for name, value in os.environ.items() if name in INHERITED or name.startswith(INHERITED_PREFIX)
    }
    path = [str(home.python), str(FATE_PATCHES), os.environ.get("PYTHONPATH")]
    return {
        **environment,
        **dict.fromkeys(ONE_THREAD, "1"),
        **{name: os.environ.get(name, value) for name, value in ARITHMETIC.items()},
        MARK: str(home.root),
        HOME_VARIABLE: str(home.parties),
        WARM_FOLDER: str(home.warm),
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        # FATE-Flow opens tables in the locale of its process; two parties' ids must be the same letters.
        "PYTHONUTF8": "1",
    }


def start_detached(command: list, folder: Path, environment: Mapping[str, str], log_file: Path) -> subprocess.Popen:
    """Start a program in a process group of its own, so that it outlives the caller's terminal.

    What it writes is for its owner's eyes: the logs of tasks tell what a party trains on.
    """
    with log_file.open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )


def processes_of(folder: Path) -> list:
    """Every process that carries the mark of a folder: a home's server and its tasks, one that was killed included.

    A task may itself ask for `down`; it is ended by the server's end, not by its own hand.
    """
    return processes_where(
        lambda process: process.pid != os.getpid() and process.environ().get(MARK) == str(folder) and runs(process)
    )


def processes_where(belongs: Callable[[psutil.Process], bool]) -> list:
    """The processes, among those that this user may look at, of which something holds."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if belongs(process):
                found.append(process)
    return found


def stop_processes(folder: Path) -> int:
    """End every process with the mark of a folder; returns how many there were."""
    return end_all(lambda: processes_of(folder))


def end_all(find: Callable[[], Iterable]) -> int:
    """End every process that `find` finds, the stubborn ones by force; returns how many there were."""
    processes = list(find())
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    stubborn = [*left_after(SECONDS_TO_END, processes), *find()]
    for process in stubborn:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    left_after(SECONDS_TO_END, stubborn)
    return len(processes)


def is_alive(record: ServerRecord | None, folder: Path) -> bool:
    """Whether the recorded process is the server of a home folder and runs.

    A process that got a recycled id has another program or another mark. No clock is asked, since clocks are set.
    """
    if record is None or record.pid is None:
        return False
    with suppress(psutil.Error, OSError):
        process = psutil.Process(record.pid)
        is_ours = PROGRAM in process.cmdline() and process.environ().get(MARK) == str(folder)
        return is_ours and runs(process)
    return False


def left_after(seconds: float, processes: list) -> list:
    """Wait until these processes have ended, for so many seconds at most; returns those that run still.

    One that has ended and that its parent has not waited for counts as ended: where the machine's first process waits
    for no orphans, as in many containers, it stays for ever.
    """
    deadline = time.monotonic() + seconds
    while True:
        _, processes = psutil.wait_procs(processes, timeout=0)
        processes = [each for each in processes if runs(each)]
        if not processes or time.monotonic() > deadline:
            return processes
        time.sleep(SECONDS_BETWEEN_LOOKS)


# Start and stop: `up`, `status` and `down`.
#
# One server per home folder, FATE-Flow 2.2 with standalone engines and SQLite, listening on the loopback interface
# only. Whoever may open connections on this machine may use it; authentication for clients and sites, which the home's
# `conf/local.service_conf.yaml` can switch on, leaves the pages of tasks (`/v2/worker/`) open.

START_SECONDS = 90.0
# A server that lives but is busy with three parties' tasks may be slow to answer; a hung one never does.
BUSY_SECONDS = 20.0
LOCK_SECONDS = 120.0


@dataclass(frozen=True)
class FlowStatus:
    """`state` is 'running', 'not answering' or 'stopped'; the address is None where none was ever chosen."""

    state: str
    address: FlowAddress | None = None
    pid: int | None = None
    version: str | None = None


def up(
    home: str | os.PathLike,
    http_port: int | None = None,
    progress: Callable[[str], None] = lambda sentence: None,
    patience: float = START_SECONDS,
    setup: ServerSetup = EMBEDDED,
    cold: bool = False,
) -> FlowAddress:
    """Make sure that the server of `home` runs and answers; returns where.

    Its tasks start warm, from a fork server beside it, or cold from now on.
    """
    flow_home = open_home(home)
    make_home(flow_home)
    control.switch(flow_home.warm, cold)
    with locked(flow_home):
        last = read_record(flow_home.record)
        if (
            last is not None
            and is_alive(last, flow_home.root)
            and wait_until(
                lambda: state_of(address_of(last)).runs, lambda: is_alive(last, flow_home.root), BUSY_SECONDS
            )
        ):
            if http_port not in (None, last.http_port):
                # A running server is not moved behind the back of the jobs that it runs.
                raise FlowServerError(
                    f"The FATE-Flow of {flow_home.root} already runs on port {last.http_port}; "
                    f"run `{home_command('down', flow_home.root)}` first to start it on port {http_port}."
                )
            progress(f"FATE-Flow already runs at {address_of(last)}.")
            return address_of(last)
        if last is not None and last.pid is not None:
            progress("FATE-Flow no longer answers; it is started again.")
        check_limits(flow_home.root, progress)
        # What an earlier server left behind is ended first.
        stop_processes(flow_home.root)
        record = choose_ports(last, http_port)
        address = address_of(record)
        install_server(flow_home, record, setup)
        control.forget(flow_home.warm)
        progress(f"FATE-Flow starts at {address}.")
        command, log = [sys.executable, "-m", PROGRAM], flow_home.server_log
        environment = {**server_environment(flow_home), **setup.environment}
        process = start_detached(command, flow_home.root, environment, log)
        write_record(flow_home.record, replace(record, pid=process.pid))
        if not wait_until(lambda: state_of(address).runs, lambda: process.poll() is None, patience):
            exit_status = process.poll()
            stop_processes(flow_home.root)
            write_record(flow_home.record, record)
            happened = (
                f"did not answer at {address} within {patience:g} seconds"
                if exit_status is None
                else f"ended at once with exit status {exit_status}"
            )
            raise FlowServerError(f"FATE-Flow {happened}; the end of {log}:\n{log_end(log)}")
        progress(f"FATE-Flow answers at {address}.")
        # Their processes have ended with the earlier server; FATE-Flow itself would count them as running for good.
        try:
            for job in end_unfinished(address):
                progress(f"{job} Its processes ended with the server; it is stopped.")
        except FlowServerError as refusal:
            progress(f"Jobs that the last server left unfinished may hold its cores: {refusal}")
        return address


def check_limits(root: Path, progress: Callable[[str], None]) -> None:
    """Tell what this machine has too little of, and refuse to start where tasks would fail for it."""
    for found in (each(root) for each in LIMITS):
        if found.state == PROBLEM:
            raise FlowServerError(f"{found.said} {found.cure}")
        if found.cure:
            progress(f"{found.said} {found.cure}")


def status(home: str | os.PathLike) -> FlowStatus:
    """What the server of `home` is doing."""
    flow_home = open_home(home)
    record = read_record(flow_home.record)
    if record is None:
        return FlowStatus("stopped")
    if not is_alive(record, flow_home.root):
        return FlowStatus("stopped", address_of(record))
    found = state_of(address_of(record))
    return FlowStatus("running" if found.runs else "not answering", address_of(record), record.pid, found.version)


def down(home: str | os.PathLike) -> bool:
    """Stop the server of `home` and its tasks, nothing else; False if nothing ran."""
    flow_home = open_home(home)
    if not flow_home.root.is_dir():
        # Nothing to lock, but processes may have outlived their folder.
        return stop_processes(flow_home.root) > 0
    with locked(flow_home):
        stopped = stop_processes(flow_home.root)
        record = read_record(flow_home.record)
        if record is not None:
            write_record(flow_home.record, replace(record, pid=None))
    return stopped > 0


def choose_ports(last: ServerRecord | None, http_port: int | None) -> ServerRecord:
    """The requested port, else the ones of last time where they are free, else new ones."""
    if http_port is not None:
        check_requested_port(http_port)
    elif last is not None and is_free(last.http_port):
        http_port = last.http_port
    else:
        http_port = free_port()
    if last is not None and last.grpc_port != http_port and is_free(last.grpc_port):
        return ServerRecord(http_port, last.grpc_port)
    return ServerRecord(http_port, free_port(besides=(http_port,)))


@contextmanager
def locked(home: FlowHome) -> Iterator[None]:
    """Let one `up` or `down` at a time work on a home; the lock goes with its holder, however that ends."""
    deadline = time.monotonic() + LOCK_SECONDS
    with home.lock.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise FlowServerError(
                        f"Another `fate-dp up` or `down` has held {home.lock} for {LOCK_SECONDS:.0f} seconds; "
                        "wait for it or end it."
                    ) from None
                time.sleep(0.1)
        yield


def address_of(record: ServerRecord) -> FlowAddress:
    return FlowAddress(HOST, record.http_port)
