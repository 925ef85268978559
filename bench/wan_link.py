"""A slow line between sites: a relay that holds back what passes it, and FATE's federation over sockets through it.

The relay is one process. Every party reaches every other one through a port of the relay, which hands over each byte no
sooner than a line of this delay and this rate would: chunks leave one after the other at the rate, and arrive a delay
later. Each direction between two sites has a line of its own. TCP's own waiting (handshake, slow start) is not
imitated: connections are made once, before the clock of a benchmark runs.
"""

import asyncio
import multiprocessing
import pickle
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fate.arch.computing.backends.standalone import Table
from fate.arch.computing.partitioners import get_partitioner_by_type
from fate.arch.federation.api import Federation

Party = tuple[str, str]
ADDRESS = "127.0.0.1"
CHUNK = 1 << 14
CHUNKS_ON_THE_WAY = 1 << 10
"""More than a tenth of a second of a gigabit line holds; beyond it the relay reads no further."""
HEAD = struct.Struct("!QQ")
CONNECTS = 600
"""Attempts of the relay to reach a party that does not listen yet, a tenth of a second apart."""


@dataclass
class Line:
    """One direction between two sites.

    Attributes:
        delay: seconds that every byte is on its way.
        rate: bits a second.
    """

    delay: float
    rate: float
    _free: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if not self.delay >= 0:
            raise ValueError(f"delay must be a number of seconds, at least 0, got {self.delay!r}.")
        if not self.rate > 0:
            raise ValueError(f"rate must be a number of bits a second above 0, got {self.rate!r}.")

    def due(self, size: int, now: float) -> float:
        """When the last of ``size`` bytes that come at ``now`` arrives; called in the order in which they come."""
        self._free = max(self._free, now) + 8 * size / self.rate
        return self._free + self.delay


@dataclass(frozen=True)
class Link:
    """Where parties listen and how they reach each other.

    Attributes:
        own: {party: its port}.
        ways: {(sender, receiver): the relay's port}.
    """

    own: dict[Party, int]
    ways: dict[tuple[Party, Party], int]


@contextmanager
def relayed(parties: Sequence[Party], delay: float, rate: float) -> Iterator[Link]:
    """Run a relay between all pairs of parties; the link tells their processes of it.

    Args:
        delay: seconds, each way.
        rate: bits a second, each way.
    """
    Line(delay, rate)
    pairs = [(sender, receiver) for sender in parties for receiver in parties if sender != receiver]
    ports = free_ports(len(parties) + len(pairs))
    link = Link(dict(zip(parties, ports)), dict(zip(pairs, ports[len(parties) :])))
    process = multiprocessing.get_context("spawn").Process(target=_relay, args=(link, delay, rate), daemon=True)
    process.start()
    try:
        yield link
    finally:
        process.kill()
        process.join()


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses."""
    held = [socket.create_server((ADDRESS, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _relay(link: Link, delay: float, rate: float) -> None:
    async def serve() -> None:
        servers = [
            await asyncio.start_server(_passing_on(Line(delay, rate), link.own[receiver]), ADDRESS, port)
            for (_, receiver), port in link.ways.items()
        ]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(serve())


def _passing_on(line: Line, port: int) -> Callable:
    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        writer = await _connected(port)
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_ON_THE_WAY)

        async def deliver() -> None:
            while True:
                due, chunk = await on_the_way.get()
                await asyncio.sleep(due - time.monotonic())
                writer.write(chunk)
                await writer.drain()

        delivery = asyncio.create_task(deliver())
        while chunk := await reader.read(CHUNK):
            await on_the_way.put((line.due(len(chunk), time.monotonic()), chunk))
        await asyncio.wait([delivery], timeout=line.delay + 1)

    return serve


async def _connected(port: int) -> asyncio.StreamWriter:
    for _ in range(CONNECTS):
        try:
            return (await asyncio.open_connection(ADDRESS, port))[1]
        except OSError:
            await asyncio.sleep(0.1)
    raise TimeoutError(f"No party listens on port {port}.")


class LinkedFederation(Federation):
    """FATE's federation of one party over a `Link`: as with a broker, sending does not wait for the line.

    Attributes:
        sent_bytes: of all messages that this party sent, names included.
        delays: messages that had to arrive one after the other until here, at whichever party: the wall time is at least
            so many times the line's delay. Every message tells how many there were before it.
    """

    def __init__(self, computing: Any, session_id: str, party: Party, parties: Sequence[Party], link: Link) -> None:
        super().__init__(session_id, party, list(parties))
        self._session, self.sent_bytes, self.delays = computing.get_standalone_session(), 0, 0
        self._received: dict[tuple[Party, str, str], tuple[int, bytes]] = {}
        self._arrived = threading.Condition()
        self._outbox: dict[Party, queue.SimpleQueue] = {}
        listening = socket.create_server((ADDRESS, link.own[party]))
        others = [(role, number) for role, number in parties if (role, number) != party]
        for other in others:
            self._outbox[other] = queue.SimpleQueue()
            connection = _connection(link.ways[party, other])
            threading.Thread(target=_send_all, args=(connection, self._outbox[other]), daemon=True).start()
            self._put(other, "hello", "", b"")
        for _ in others:
            connection, _ = listening.accept()
            threading.Thread(target=self._receive_all, args=(connection,), daemon=True).start()
        self._wait(others, "hello", "")
        self.sent_bytes = self.delays = 0

    def _push_bytes(self, v: bytes, name: str, tag: str, parties: list) -> None:
        for party in parties:
            self._put(tuple(party), name, tag, v)

    def _push_table(self, table: Table, name: str, tag: str, parties: list) -> None:
        self._push_bytes(pickle.dumps(list(table.table.collect())), name, tag, parties)

    def _pull_bytes(self, name: str, tag: str, parties: list) -> list[bytes]:
        return self._wait(list(map(tuple, parties)), name, tag)

    def _pull_table(self, name: str, tag: str, parties: list, table_metas: list) -> list[Table]:
        return [
            Table(
                self._session.parallelize(
                    data=pickle.loads(rows),
                    partition=meta.num_partitions,
                    partitioner=get_partitioner_by_type(meta.partitioner_type),
                    key_serdes_type=meta.key_serdes_type,
                    value_serdes_type=meta.value_serdes_type,
                    partitioner_type=meta.partitioner_type,
                )
            )
            for rows, meta in zip(self._pull_bytes(name, tag, parties), table_metas)
        ]

    def _put(self, party: Party, name: str, tag: str, content: bytes) -> None:
        letter = pickle.dumps((self.local_party, name, tag, self.delays + 1))
        self.sent_bytes += HEAD.size + len(letter) + len(content)
        self._outbox[party].put((HEAD.pack(len(letter), len(content)), letter, content))

    def _wait(self, parties: list[Party], name: str, tag: str) -> list[bytes]:
        wanted = [(party, name, tag) for party in parties]
        with self._arrived:
            self._arrived.wait_for(lambda: all(each in self._received for each in wanted))
            delays, contents = zip(*(self._received.pop(each) for each in wanted))
        self.delays = max(self.delays, *delays)
        return list(contents)

    def _receive_all(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while head := stream.read(HEAD.size):
                of_letter, of_content = HEAD.unpack(head)
                party, name, tag, delays = pickle.loads(stream.read(of_letter))
                content = stream.read(of_content)
                with self._arrived:
                    self._received[tuple(party), name, tag] = delays, content
                    self._arrived.notify_all()


def _send_all(connection: socket.socket, outbox: queue.SimpleQueue) -> None:
    while True:
        for part in outbox.get():
            connection.sendall(part)


def _connection(port: int) -> socket.socket:
    for _ in range(CONNECTS):
        try:
            return socket.create_connection((ADDRESS, port))
        except OSError:
            time.sleep(0.1)
    raise TimeoutError(f"The relay does not listen on port {port}.")
