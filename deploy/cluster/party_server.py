"""One party's FATE-Flow server: a home, keys, ledgers, database and data of its own."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fate_dp.deploy import flow_server
from fate_dp.deploy.flow_home import FlowHome, make_home, open_home
from fate_dp.deploy.flow_server_error import FlowServerError
from fate_dp.deploy.ports import HOST
from fate_dp.deploy.server_processes import stop_processes
from fate_dp.deploy.server_record import ServerRecord, write_record
from fate_dp.deploy.server_setup import ServerSetup
from fate_dp.deploy.warm_start.control import is_switched_off

from .parties import ClusterParty
from .piece import PieceStatus

# Four servers start at once, each with seconds of imports, on a machine that may have two cores.
START_SECONDS = 240.0


@dataclass(frozen=True)
class PartyServer:
    """The server of `party` in `folder`, at fixed ports."""

    party: ClusterParty
    folder: Path
    http_port: int
    grpc_port: int
    setup: Callable[[], ServerSetup]
    """Called at the start only: it writes files that a running server's tasks read."""

    @property
    def name(self) -> str:
        return f"{self.party.role} {self.party.party_id}"

    @property
    def home(self) -> FlowHome:
        return open_home(self.folder)

    def status(self) -> PieceStatus:
        found = flow_server.status(self.folder)
        return PieceStatus(self.name, found.state, f"{HOST}:{self.http_port}", found.pid)

    def start(self, progress: Callable[[str], None]) -> None:
        make_home(self.home)
        stop_processes(self.home)
        write_record(self.home.record, ServerRecord(self.http_port, self.grpc_port))
        try:
            flow_server.up(
                self.folder, self.http_port, lambda sentence: progress(f"{self.name}: {sentence}"), START_SECONDS,
                self.setup(), cold=is_switched_off(self.home.warm),
            )  # fmt: skip
        except FlowServerError as error:
            raise FlowServerError(f"The server of {self.name} did not start: {error}") from error

    def stop(self) -> int:
        # The record keeps the process id, which `status` knows to be dead: nothing to write, as on a full disk.
        return stop_processes(self.home)
