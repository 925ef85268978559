"""What is remembered about the embedded server between two calls, and whether that server lives."""
from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

# Kernel clock ticks and adjusted clocks move the reported start time by fractions of a second.
START_TIME_TOLERANCE = 1.0


@dataclass(frozen=True)
class ServerRecord:
    """Ports, kept over restarts, and the last process; `pid` is None after `down`."""

    http_port: int
    grpc_port: int
    pid: int | None = None
    started: float | None = None


def read_record(path: Path) -> ServerRecord | None:
    """The record at `path`; None where there is none or a crash left it unreadable."""
    try:
        return ServerRecord(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def write_record(path: Path, record: ServerRecord) -> None:
    """Replace the record in one step, so that a reader never sees half of it."""
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    os.replace(draft, path)


def is_alive(record: ServerRecord | None) -> bool:
    """Whether the recorded process runs; another process that got its recycled id does not count."""
    if record is None or record.pid is None:
        return False
    import psutil

    try:
        process = psutil.Process(record.pid)
        same_process = abs(process.create_time() - record.started) < START_TIME_TOLERANCE
        return same_process and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
