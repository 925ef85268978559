"""What every start of a program takes: patience, free ports, and a record of what was started."""

import json
import random
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fate_dp.privacy.private_files import replace_file

LOG_LINES_SHOWN = 15


def wait_until(answers: Callable[[], bool], lives: Callable[[], bool], patience: float) -> bool:
    """Whether something answers before it ends or `patience` seconds are over."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and lives():
        if answers():
            return True
        time.sleep(0.2)
    return False


def log_end(log: Path) -> str:
    """The last lines of a program's output."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])


class FlowServerError(Exception):
    """FATE-Flow or a job on it cannot do what was asked; the message is one sentence for the user."""


HOST = "127.0.0.1"
LOWEST, HIGHEST = 1024, 65535
# Below Linux's range for outgoing connections (32768 and up): a port that was free stays free.
CHOSEN_FROM = range(20000, 32000)


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(besides: tuple[int, ...] = ()) -> int:
    """A free port, drawn at random so that two servers that start together do not meet."""
    for port in random.sample(CHOSEN_FROM, 1000):
        if port not in besides and is_free(port):
            return port
    raise FlowServerError(
        f"No free port was found on {HOST} between {CHOSEN_FROM.start} and {CHOSEN_FROM.stop - 1}; "
        "stop a program that listens there or name a free one with --port."
    )


def check_requested_port(port: int) -> None:
    """Refuse a port that a user asked for and that cannot be had."""
    if not LOWEST <= port <= HIGHEST:
        raise FlowServerError(f"The port must be from {LOWEST} to {HIGHEST}, got {port}.")
    if not is_free(port):
        raise FlowServerError(
            f"Port {port} on {HOST} is taken by another program; pass a free one with --port, "
            "or leave --port out to have one chosen."
        )


@dataclass(frozen=True)
class ServerRecord:
    """Ports, kept over restarts, and the last process; `pid` is None after `down`."""

    http_port: int
    grpc_port: int
    pid: int | None = None


def read_record(path: Path) -> ServerRecord | None:
    """The record at `path`; None where there is none or a crash left it unreadable."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return ServerRecord(told["http_port"], told["grpc_port"], told.get("pid"))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_record(path: Path, record: Any) -> None:
    """Replace the record, a dataclass, in one step, so that a reader never sees half of it."""
    replace_file(path, (json.dumps(asdict(record), indent=2) + "\n").encode())


@dataclass(frozen=True)
class ServerSetup:
    """How a server differs from the embedded one, which plays all parties, with standalone engines."""

    service: Mapping[str, object] = field(default_factory=dict)
    """Top-level keys of service_conf.yaml."""
    files: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    """The content of further YAML files in `conf/`, by their names."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the server and its tasks, beside those that every server has."""


EMBEDDED = ServerSetup()
