"""The ports of all pieces of a cluster, kept from one start to the next."""
from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from fate_dp.deploy.ports import free_port, is_free
from fate_dp.privacy.private_file import replace_file

from .parties import PARTIES


@dataclass(frozen=True)
class BrokerPorts:
    """RabbitMQ's: messages, management over HTTP, Erlang's distribution and its port mapper."""

    messages: int
    management: int
    distribution: int
    mapper: int


@dataclass(frozen=True)
class ClusterRecord:
    """What a cluster's folder remembers: engine and ports; `servers` is party id -> [HTTP port, gRPC port]."""

    engine: str
    router: int
    broker: BrokerPorts
    servers: dict[str, list[int]]

    def all_ports(self) -> Iterable[int]:
        yield self.router
        yield from asdict(self.broker).values()
        for pair in self.servers.values():
            yield from pair


def new_record(engine: str) -> ClusterRecord:
    """Free ports for every piece."""
    taken: list[int] = []

    def next_port() -> int:
        taken.append(free_port(besides=tuple(taken)))
        return taken[-1]

    broker = BrokerPorts(*(next_port() for _ in range(4)))
    servers = {party.party_id: [next_port(), next_port()] for party in PARTIES}
    return ClusterRecord(engine, next_port(), broker, servers)


def taken_port(record: ClusterRecord) -> int | None:
    """The first port of a cluster that does not run which another program has taken meanwhile."""
    return next((port for port in record.all_ports() if not is_free(port)), None)


def read_record(path: Path) -> ClusterRecord | None:
    """The record at `path`; None where there is none or a crash left it unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        servers = {party.party_id: content["servers"][party.party_id] for party in PARTIES}
        return ClusterRecord(content["engine"], content["router"], BrokerPorts(**content["broker"]), servers)
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def write_record(path: Path, record: ClusterRecord) -> None:
    """Replace the record in one step, so that a reader never sees half of it."""
    replace_file(path, (json.dumps(asdict(record), indent=2) + "\n").encode())
