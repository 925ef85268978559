"""FATE's engines in memory: tables whose work runs where it is called, and messages between threads of one process.

Work on a table runs in the party's own thread, so that recorders and debuggers see it. Rows are kept as the bytes that
FATE's engines keep, so that a kernel never shares an object with its caller.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from fate.arch.computing.api import KVTable, KVTableContext
from fate.arch.federation.api import Federation

from fate_dp.components.common.federation import PartyId

Rows = dict[bytes, bytes]


class Silence(BaseException):
    """A party waits for a message that nobody will send; no `except Exception` of a component holds it up."""


class MemoryTable(KVTable):
    """One of FATE's tables: a dictionary of bytes for each partition."""

    def __init__(self, parts: list[Rows], key_form: int, value_form: int, partitioner: int) -> None:
        super().__init__(key_form, value_form, partitioner, len(parts))
        self.parts = [dict(sorted(part.items())) for part in parts]

    @property
    def size(self) -> int:
        return sum(len(key) + len(value) for part in self.parts for key, value in part.items())

    def _impl_map_reduce_partitions_with_index(
        self,
        map_partition_op: Callable[[int, Iterable], Iterable],
        reduce_partition_op: Callable[[Any, Any], Any] | None,
        shuffle: bool,
        output_key_serdes_type: int,
        output_value_serdes_type: int,
        output_partitioner: Callable[[bytes, int], int],
        output_partitioner_type: int,
        output_num_partitions: int,
        **_: Any,
    ) -> "MemoryTable":
        made: list[Rows] = [{} for _ in range(output_num_partitions if shuffle else self.num_partitions)]
        for index, part in enumerate(self.parts):
            for key, value in map_partition_op(index, iter(part.items())):
                rows = made[output_partitioner(key, len(made)) if shuffle else index]
                rows[key] = reduce_partition_op(rows[key], value) if reduce_partition_op and key in rows else value
        return MemoryTable(made, output_key_serdes_type, output_value_serdes_type, output_partitioner_type)

    def _binary_sorted_map_partitions_with_index(
        self,
        other: "MemoryTable",
        binary_map_partitions_with_index_op: Callable[[int, Iterable, Iterable], Iterable],
        key_serdes_type: int,
        partitioner_type: int,
        output_value_serdes_type: int,
        **_: Any,
    ) -> "MemoryTable":
        made = [
            dict(binary_map_partitions_with_index_op(index, iter(own.items()), iter(others.items())))
            for index, (own, others) in enumerate(zip(self.parts, other.parts))
        ]
        return MemoryTable(made, key_serdes_type, output_value_serdes_type, partitioner_type)

    def _reduce(self, func: Callable[[bytes, bytes], bytes]) -> bytes | None:
        found = None
        for part in self.parts:
            for value in part.values():
                found = value if found is None else func(found, value)
        return found

    def _collect(self, **_: Any) -> Iterator[tuple[bytes, bytes]]:
        yield from sorted(item for part in self.parts for item in part.items())

    def _take(self, n: int = 1, **_: Any) -> list[tuple[bytes, bytes]]:
        return list(islice(self._collect(), n))

    def _count(self) -> int:
        return sum(map(len, self.parts))

    def _destroy(self) -> None:
        pass

    def _save(self, uri: Any, schema: Any, options: Any) -> None:
        raise NotImplementedError("Tables of a play are kept nowhere.")

    def _drop_num(self, num: int, partitioner: Any) -> None:
        raise NotImplementedError("Tables of a play keep all their rows.")


class MemorySession(KVTableContext):
    def _parallelize(
        self,
        data: Iterable[tuple[bytes, bytes]],
        total_partitions: int,
        key_serdes_type: int,
        value_serdes_type: int,
        partitioner: Callable[[bytes, int], int],
        partitioner_type: int,
        **_: Any,
    ) -> MemoryTable:
        parts: list[Rows] = [{} for _ in range(total_partitions)]
        for key, value in data:
            parts[partitioner(key, total_partitions)][key] = value
        return MemoryTable(parts, key_serdes_type, value_serdes_type, partitioner_type)

    def _destroy(self) -> None:
        pass


@dataclass
class Exchange:
    """Where the parties of one play leave their messages. One party runs at a time, until it waits or ends.

    So a play is the same every time, a debugger has the process for itself, and it is noticed at once when all wait.
    """

    parties: tuple[PartyId, ...]
    _turn: threading.Condition = field(default_factory=threading.Condition)
    _left: dict[tuple, Any] = field(default_factory=dict)
    _waiting: dict[PartyId, tuple] = field(default_factory=dict)
    _running: set[PartyId] = field(default_factory=set)
    _silent: bool = False

    def __post_init__(self) -> None:
        self._running = set(self.parties)

    @contextmanager
    def turn_of(self, party: PartyId) -> Iterator[None]:
        """What a party does from its first to its last step."""
        with self._turn:
            try:
                yield
            finally:
                self._running.discard(party)
                self._look_for_silence()

    def leave(self, place: tuple, value: Any) -> None:
        self._left[place] = value
        self._turn.notify_all()

    def wait(self, party: PartyId, place: tuple) -> Any:
        while place not in self._left:
            self._waiting[party] = place
            self._look_for_silence()
            if self._silent:
                raise Silence(f"{' '.join(party)} waits for {place}, which never comes.")
            self._turn.wait()
            self._waiting.pop(party, None)
        return self._left.pop(place)

    def _look_for_silence(self) -> None:
        stuck = all(each in self._waiting and self._waiting[each] not in self._left for each in self._running)
        if self._running and stuck:
            self._silent = True
            self._turn.notify_all()


class MemoryFederation(Federation):
    """FATE's federation over an `Exchange`; ``pushed`` is the number of bytes that this party has sent."""

    def __init__(self, exchange: Exchange, session: str, party: PartyId) -> None:
        super().__init__(session, party, list(exchange.parties))
        self._exchange, self.pushed = exchange, 0

    def _push_bytes(self, v: bytes, name: str, tag: str, parties: list[PartyId]) -> None:
        for party in parties:
            self.pushed += len(v)
            self._exchange.leave(("bytes", self.local_party, tuple(party), name, tag), v)

    def _pull_bytes(self, name: str, tag: str, parties: list[PartyId]) -> list[bytes]:
        own = self.local_party
        return [self._exchange.wait(own, ("bytes", tuple(party), own, name, tag)) for party in parties]

    def _push_table(self, table: MemoryTable, name: str, tag: str, parties: list[PartyId]) -> None:
        forms = table.key_serdes_type, table.value_serdes_type, table.partitioner_type
        for party in parties:
            self.pushed += table.size
            self._exchange.leave(("table", self.local_party, tuple(party), name, tag), MemoryTable(table.parts, *forms))

    def _pull_table(self, name: str, tag: str, parties: list[PartyId], table_metas: Any = None) -> list[MemoryTable]:
        own = self.local_party
        return [self._exchange.wait(own, ("table", tuple(party), own, name, tag)) for party in parties]

    def _destroy(self) -> None:
        pass
