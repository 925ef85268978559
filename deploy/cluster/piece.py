"""What `up`, `status` and `down` ask of each piece of the cluster: broker, router, servers."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fate_dp.deploy.flow_server_error import FlowServerError
from fate_dp.deploy.program_start import log_end


@dataclass(frozen=True)
class PieceStatus:
    """`state` is 'running', 'not answering' or 'stopped'."""

    name: str
    state: str
    address: str
    pid: int | None = None


class Piece(Protocol):
    """One program of the cluster, in a folder of its own."""

    name: str

    def status(self) -> PieceStatus: ...

    def start(self, progress: Callable[[str], None]) -> None:
        """Start it and wait until it answers, after ending what an earlier one left behind; raises FlowServerError."""

    def stop(self) -> int:
        """End all its processes; returns how many there were."""


def failed_start(name: str, process, patience: float, log: Path) -> FlowServerError:
    """Why a program did not come up, with the end of its log."""
    ended = process.poll()
    happened = f"did not answer within {patience:g} seconds" if ended is None else f"ended with exit status {ended}"
    return FlowServerError(f"The {name} {happened}; the end of {log}:\n{log_end(log)}")


def status_of(name: str, address: str, processes: list, answers: Callable[[], bool]) -> PieceStatus:
    """The status of a piece from its processes, the oldest of which stands for all."""
    if not processes:
        return PieceStatus(name, "stopped", address)
    oldest = min(processes, key=lambda process: process.create_time())
    return PieceStatus(name, "running" if answers() else "not answering", address, oldest.pid)
