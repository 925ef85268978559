"""The embedded FATE-Flow server: `up`, `status` and `down`.

One server per home folder, FATE-Flow 2.2 with standalone engines and SQLite, listening on the loopback interface
only. Whoever may open connections on this machine may use it; authentication for clients and sites, which the home's
`conf/local.service_conf.yaml` can switch on, leaves the pages of tasks (`/v2/worker/`) open.
"""
from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Callable, Iterator

from .flow_address import FlowAddress
from .flow_home import FlowHome, install_server, make_home, open_home
from .flow_server_error import FlowServerError
from .flow_state import state_of
from .home_command import home_command
from .ports import HOST, check_requested_port, free_port, is_free
from .program_start import log_end, wait_until
from .server_processes import start_server, stop_processes
from .server_record import ServerRecord, is_alive, read_record, write_record
from .server_setup import EMBEDDED, ServerSetup
from .warm_start import control

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
        record = read_record(flow_home.record)
        if is_alive(record) and wait_for_answer(address_of(record), BUSY_SECONDS, lambda: is_alive(record)):
            refuse_other_port(flow_home, record, http_port)
            progress(f"FATE-Flow already runs at {address_of(record)}.")
            return address_of(record)
        return start(flow_home, record, http_port, progress, patience, setup)


def status(home: str | os.PathLike) -> FlowStatus:
    """What the server of `home` is doing."""
    record = read_record(open_home(home).record)
    if record is None:
        return FlowStatus("stopped")
    if not is_alive(record):
        return FlowStatus("stopped", address_of(record))
    found = state_of(address_of(record))
    return FlowStatus("running" if found.runs else "not answering", address_of(record), record.pid, found.version)


def down(home: str | os.PathLike) -> bool:
    """Stop the server of `home` and its tasks, nothing else; False if nothing ran."""
    flow_home = open_home(home)
    if not flow_home.root.is_dir():
        # Nothing to lock, but processes may have outlived their folder.
        return stop_processes(flow_home) > 0
    with locked(flow_home):
        stopped = stop_processes(flow_home)
        record = read_record(flow_home.record)
        if record is not None:
            write_record(flow_home.record, replace(record, pid=None, started=None))
    return stopped > 0


def start(
    home: FlowHome, last: ServerRecord | None, http_port, progress, patience, setup: ServerSetup = EMBEDDED
) -> FlowAddress:
    """Start a server where none answers; what an earlier one left behind is ended first."""
    if last is not None and last.pid is not None:
        progress("FATE-Flow no longer answers; it is started again.")
    stop_processes(home)
    record = choose_ports(last, http_port)
    install_server(home, record, setup)
    control.forget(home.warm)
    progress(f"FATE-Flow starts at {address_of(record)}.")
    process = start_server(home, setup.environment)
    write_record(home.record, replace(record, pid=process.pid, started=start_time(process.pid)))
    if not wait_for_answer(address_of(record), patience, lambda: process.poll() is None):
        exit_status = process.poll()
        stop_processes(home)
        write_record(home.record, record)
        raise FlowServerError(failed_start(home, record, exit_status, patience))
    progress(f"FATE-Flow answers at {address_of(record)}.")
    return address_of(record)


def failed_start(home: FlowHome, record: ServerRecord, exit_status: int | None, patience: float) -> str:
    """Why a server did not come up."""
    if exit_status is not None:
        happened = f"ended at once with exit status {exit_status}"
    else:
        happened = f"did not answer at {address_of(record)} within {patience:g} seconds"
    return f"FATE-Flow {happened}; the end of {home.server_log}:\n{log_end(home.server_log)}"


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


def refuse_other_port(home: FlowHome, record: ServerRecord, http_port: int | None) -> None:
    """A running server is not moved behind the back of the jobs that it runs."""
    if http_port is not None and http_port != record.http_port:
        raise FlowServerError(
            f"The FATE-Flow of {home.root} already runs on port {record.http_port}; "
            f"run `{home_command('down', home.root)}` first to start it on port {http_port}."
        )


def wait_for_answer(address: FlowAddress, patience: float, lives: Callable[[], bool]) -> bool:
    """Whether the server answers before it ends or `patience` seconds are over."""
    return wait_until(lambda: state_of(address).runs, lives, patience)


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


def start_time(pid: int) -> float:
    """When a process began, as psutil gives it: the second half of its identity."""
    import psutil

    return psutil.Process(pid).create_time()
