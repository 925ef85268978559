"""Who takes part in the cluster, at which ports, and how its folders and files stay its owner's alone."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from fate_dp.privacy.private_files import publish_if_absent

from ..flow.programs import FlowServerError, free_port, is_free


@dataclass(frozen=True)
class ClusterParty:
    """A party with a server of its own; `role` is the one it usually plays."""

    role: str
    party_id: str

    @property
    def name(self) -> str:
        """The name of its home in the cluster's folder."""
        return f"{self.role}-{self.party_id}"


PARTIES = (
    ClusterParty("guest", "9999"),
    ClusterParty("host", "10000"),
    ClusterParty("arbiter", "10001"),
    # The study of three institutions and the pipelines with a shuffler need two hosts.
    ClusterParty("host", "9998"),
)


@contextmanager
def private_umask() -> Iterator[None]:
    """Meanwhile, whatever this process creates is for its owner's eyes, what others' code creates included."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private_folder(folder: Path) -> None:
    """Create a folder of mode 0700; one that exists and that others may enter is closed to them."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise FlowServerError(
            f"The folder {folder} cannot be made private ({error.strerror}); choose another one with --home."
        ) from error


def kept_secret(path: Path) -> str:
    """The secret in a file, drawn at random where the file does not exist yet; all who ask at once get the same."""
    if not path.is_file():
        publish_if_absent(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text(encoding="utf-8").strip()


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
