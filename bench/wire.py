"""What hostile bytes cost whoever reads them, and what our codec costs beside pickle.

    python -m bench.wire

Hostile forms of 1 MiB each are read under the kinds of our messages that admit them best: processor seconds per MiB, and the
peak of memory by tracemalloc over the bytes of the message. An honest message of 8 MiB, big integers, ciphertexts and arrays in
equal parts, is encoded and decoded by our codec and by pickle: processor seconds of the one over those of the other, medians
of repeats in turn. The last line printed is one JSON object.
"""

import json
import pickle
import secrets
import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.kinds import (
    DOCUMENT,
    AnyKind,
    Array,
    Bytes,
    Flag,
    Int,
    Integers,
    List,
    Map,
    OneOf,
    Record,
    Rows,
)
from fate_dp.components.dp_hetero_lr.component import MESSAGES as VERTICAL
from fate_dp.components.dp_homo_nn.component import MESSAGES as HORIZONTAL
from fate_dp.components.shuffler.component import MESSAGES as SHUFFLED

MIB = 1 << 20
REPEATS = 15
HONEST = Record(
    {
        "shares": List(Int(1 << 13), MIB),
        "ciphertexts": List(Bytes(1 << 12), MIB),
        "weights": Array(("float64",)),
        "tables": Integers(1 << 10, dims=2),
    }
)


def several(letter: bytes, item: bytes, memory: int = 0) -> bytes:
    """A list, tuple or dict of equal items, as many as 1 MiB holds and may take ``memory`` each, filled up with zeros."""
    count = (MIB - 16) // len(item)
    if memory:
        count = min(count, (codec.MEMORY_FOR_ANY + codec.MEMORY_FOR_ONE * MIB) // memory - 10)
    return (letter + _count(count) + item * count).ljust(MIB - 8, b"\0")


def of_list(kind: AnyKind | Rows, item: object) -> tuple[AnyKind, bytes]:
    """A list of this kind that is as long as it may be."""
    assert isinstance(kind, List)
    return kind, several(b"l", codec.encode(item), kind.of.memory + len(codec.encode(item)))


def _count(number: int) -> bytes:
    return codec.encode(bytes(number))[1:-number]


def in_document(value: bytes) -> bytes:
    return b"m\x01s\x01a" + value


def keys(first: int, step: int, count: int) -> bytes:
    """A dict of integers to nothing, filled up to 1 MiB."""
    items = b"".join(codec.encode(first + step * at) + b"N" for at in range(count))
    return (b"m" + _count(count) + items).ljust(MIB - 8, b"\0")


def hostile_forms() -> dict[str, tuple[AnyKind, bytes]]:
    """{what: (kind that admits it at best, message)}."""
    wide, most = (1 << 61) - 1, (codec.MEMORY_FOR_ANY + codec.MEMORY_FOR_ONE * MIB) // 175
    numbers, any_number = Map(Int(64), OneOf((None, Flag())), MIB), List(Int(64), MIB)
    inside = {
        "nothing": b"N",
        "empty lists": b"l\0",
        "empty dicts": b"m\0",
        "dicts of one key": b"m\1s\1aN",
        "empty texts": b"s\0",
        "texts of one character": b"s\2\xc4\x80",
        "empty bytes": b"b\0",
        "small integers": b"i\1\x80",
        "integers and nothing in turn": b"i\1\x80N",
        "floats": b"d12345678",
        "lists of nothing": b"l\4NNNN",
    }
    return {
        **{f"{what} in a document": (DOCUMENT, in_document(several(b"l", item))) for what, item in inside.items()},
        "a tuple in a document": (DOCUMENT, in_document(several(b"t", b"T", 24))),
        "levels without end": (DOCUMENT, in_document(b"l\1" * (MIB // 2))),
        "keys in a document": (DOCUMENT, in_document(keys(1 << 14, 1, most))),
        "keys of one hash": (DOCUMENT, in_document(keys(wide, wide, MIB // 12))),
        "keys of 64 bits that differ in their highest": (numbers, keys(-(1 << 62), 1 << 46, most)),
        "shares of one byte": of_list(VERTICAL["weight_shares"], -128),
        "shares of two": of_list(any_number, 1 << 14),
        "ciphertexts of two bytes": of_list(VERTICAL["masked"], b"ab"),
        "lists of ciphertexts": of_list(VERTICAL["masked_products"], []),
        "empty products": of_list(VERTICAL["masks"], {"weights": b"", "left": b""}),
        "empty statistics": of_list(SHUFFLED["statistics"], {"column": "a", "kind": "mean", "messages": 1}),
        "empty names of parties": of_list(HORIZONTAL["present"], ""),
        "empty arrays": of_list(List(Array(("float64",)), MIB), np.zeros(0)),
        "an array of integers of one byte": (Integers(64), b"o\1" + _count(MIB // 4) + b"\1" + b"\x80" * MIB),
        "an array of integers of four": (Integers(64), b"o\1" + _count(MIB // 4) + b"\4" + b"\x80\1\1\1" * (MIB // 4)),
        "an array of truth values": (Array(("bool",)), b"a\0\1" + _count(MIB) + b"\1" * MIB),
    }


def read(data: bytes, kind: AnyKind) -> object:
    try:
        return codec.decode(data, kind)
    except codec.Malformed as refusal:
        return refusal


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def peak(work: Callable[[], object]) -> int:
    """Bytes of memory at most while it works."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def honest() -> dict:
    """A value of `HONEST`, 2 MiB of each of its parts."""
    tables = np.empty((MIB // 128, 16), dtype=object)
    tables.ravel()[:] = [secrets.randbits(120) for _ in range(tables.size)]
    return {
        "shares": [secrets.randbits(4096) for _ in range(2 * MIB // 512)],
        "ciphertexts": [secrets.token_bytes(512) for _ in range(2 * MIB // 512)],
        "weights": np.random.default_rng(0).normal(size=2 * MIB // 8),
        "tables": tables,
    }


def ratio_to_pickle() -> float:
    value = honest()
    ours, theirs = [], []
    for _ in range(REPEATS):
        ours.append(seconds(lambda: codec.decode(codec.encode(value), HONEST)))
        theirs.append(seconds(lambda: pickle.loads(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))))
    return statistics.median(ours) / statistics.median(theirs)


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("hostile form", "s per MiB", "bytes per byte", "what comes of it", title="1 MiB of hostile bytes")
    slowest, largest = 0.0, 0.0
    for name, (kind, data) in hostile_forms().items():
        found = read(data, kind)
        per_mib = min(seconds(lambda: read(data, kind)) for _ in range(3)) * MIB / len(data)  # noqa: B023
        per_byte = peak(lambda: read(data, kind)) / len(data)  # noqa: B023
        slowest, largest = max(slowest, per_mib), max(largest, per_byte)
        told = str(found) if isinstance(found, codec.Malformed) else "a value"
        table.add_row(name, f"{per_mib:.3f}", f"{per_byte:.1f}", told)
    Console().print(table)
    figures = {
        "worst_seconds_per_mib": round(slowest, 3),
        "worst_bytes_per_byte": round(largest, 2),
        "pickle_ratio": round(ratio_to_pickle(), 3),
    }
    print(json.dumps({"bench": "wire", "figures": figures}))


if __name__ == "__main__":
    main()
