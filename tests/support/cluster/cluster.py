"""The cluster of a folder: `up`, `status` and `down`.

FATE-Flow's HTTP interface and its command channel have no authentication here: whoever may open connections on this
machine may use them. Everything listens on the loopback interface only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fate_dp.deploy.flow.home import FlowHome, make_home, open_home
from fate_dp.deploy.flow.programs import FlowServerError, wait_until, write_record
from fate_dp.deploy.flow.server import BUSY_SECONDS, locked, stop_processes
from fate_dp.deploy.warm_start import control as warm_start

from .party_server import PartyServer, party_setup
from .programs import (
    PARTIES,
    Broker,
    ClusterRecord,
    PieceStatus,
    Router,
    check_engine,
    make_private_folder,
    new_record,
    private_umask,
    read_record,
    taken_port,
)

BROKER, ROUTER = "broker", "router"
Piece = Broker | Router | PartyServer
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cluster:
    """The pieces of a cluster whose engine and ports are settled."""

    root: Path
    record: ClusterRecord

    @property
    def broker(self) -> Broker:
        return Broker(self.root / BROKER, self.record.broker)

    @property
    def router(self) -> Router:
        http_ports = {party_id: http_port for party_id, (http_port, _) in self.record.servers.items()}
        return Router(self.root / ROUTER, self.record.router, http_ports)

    @property
    def servers(self) -> list[PartyServer]:
        found = []
        for party in PARTIES:
            folder, ports = self.root / party.name, self.record.servers[party.party_id]
            setup = partial(party_setup, self.record, party, self.broker, folder)
            found.append(PartyServer(party, folder, ports[0], ports[1], setup))
        return found

    def pieces(self) -> list[Piece]:
        """All of them, those that others need first."""
        return [self.broker, self.router, *self.servers]


def up(
    home: str | os.PathLike, engine: str | None = None, progress: Progress = lambda sentence: None, cold: bool = False
) -> Cluster:
    """Make sure that every piece of the cluster runs and answers; what already does is left alone.

    `engine` None means the one of last time, standalone at first; `cold`, that from now on no task starts from a fork
    server. Raises FlowServerError, after everything was stopped again, where a piece does not come up.
    """
    # The cluster's lock is named like a server's.
    folder = open_home(home)
    make_private_folder(folder.root)
    with private_umask(), locked(folder):
        cluster = Cluster(folder.root, settled_record(folder, engine))
        idle = all(piece.status().state == "stopped" for piece in cluster.pieces())
        if idle and taken_port(cluster.record) is not None:
            # Another program has taken one while nothing ran.
            cluster = Cluster(folder.root, new_record(cluster.record.engine))
            write_record(folder.root / "cluster.json", cluster.record)
        for server in cluster.servers:
            make_home(server.home)
            warm_start.switch(server.home.warm, cold)
        start_all(cluster, [piece for piece in cluster.pieces() if not runs(piece)], progress)
    return cluster


def runs(piece: Piece) -> bool:
    """Whether a piece runs and answers; a busy one, whose tasks would die with it, is given time to."""
    return wait_until(
        lambda: piece.status().state == "running", lambda: piece.status().state != "stopped", BUSY_SECONDS
    )


def status(home: str | os.PathLike) -> list[PieceStatus]:
    """What every piece of the cluster is doing; empty where there is no cluster."""
    cluster = find(home)
    return [] if cluster is None else [piece.status() for piece in cluster.pieces()]


def down(home: str | os.PathLike) -> bool:
    """Stop all pieces of the cluster and the tasks of its servers, nothing else; False if nothing ran.

    What a crash left of the folder is enough: processes are known by the folder in which they work.
    """
    root = Path(home).expanduser().resolve()
    if not any((root / party.name).is_dir() for party in PARTIES):
        # No cluster's folder, or no longer one: nothing to lock, but processes may have outlived it.
        return stop_all(root) > 0
    with locked(FlowHome(root)):
        return stop_all(root) > 0


def find(home: str | os.PathLike) -> Cluster | None:
    """The cluster that was once started in a folder."""
    root = Path(home).expanduser().resolve()
    record = read_record(root / "cluster.json")
    return None if record is None else Cluster(root, record)


def settled_record(folder: FlowHome, engine: str | None) -> ClusterRecord:
    """Engine and ports: those of last time, else new ones."""
    path = folder.root / "cluster.json"
    record = read_record(path)
    wanted = engine or (record.engine if record else "standalone")
    check_engine(wanted)
    if record is not None and record.engine != wanted:
        raise FlowServerError(
            f"The cluster of {folder.root} computes with {record.engine}, and its tables are stored for that; "
            f"choose another folder with --home for one that computes with {wanted}."
        )
    if record is None:
        record = new_record(wanted)
        write_record(path, record)
    return record


def start_all(cluster: Cluster, pieces: list[Piece], progress: Progress) -> None:
    """Start pieces side by side; the first that fails takes the whole cluster down."""
    if not pieces:
        progress("The cluster already runs.")
        return
    with ThreadPoolExecutor(len(pieces)) as threads:
        starts = [threads.submit(piece.start, progress) for piece in pieces]
        failures = [start.exception() for start in starts]
    failure = next((failure for failure in failures if failure is not None), None)
    if failure is not None:
        stop_all(cluster.root)
        raise failure


def stop_all(root: Path) -> int:
    """End every process of the cluster, the servers first, since tasks need the others; returns how many there were."""
    homes = [root / party.name for party in PARTIES]
    with ThreadPoolExecutor(len(homes)) as threads:
        stopped = sum(threads.map(stop_processes, homes))
    return stopped + Router(root / ROUTER, 0, {}).stop() + stop_processes(root / BROKER)
