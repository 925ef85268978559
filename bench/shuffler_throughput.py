"""Messages a second through encode, shuffle and analyse, and what splitting a vector costs, in one run.

    python -m bench.shuffler_throughput

The clients' encoding, the shuffling and the server's analysing run one after the other in one process, on as many
threads as are asked for; in a federation the parties would work at the same time. A message holds 1,024 bytes of
payload. Sealing and opening alone, with threads and with processes, are measured beside it. A figure is the median of
several runs; on a machine that is busy with other things, look at the processor seconds beside it.

Splitting: one round of n = 100 vectors of d = 105,506 float64 numbers (the source's CNN), whole and in blocks of 1,024;
one message per coordinate for d = 1,000, and the other two beside it. Bytes are what leaves all clients.

The last line printed is one JSON object with the figures.
"""

import json
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from nacl.bindings import crypto_box_seal

from fate_dp.components.protocols.sealed_shuffle import Analyzer, Encoder, Splitting, shuffle
from fate_dp.crypto.sealed_box import BoxKey

PAYLOAD_BYTES = 1024
MESSAGES = 24_000
RUNS = 5
THREADS = 2
VECTORS = 100
SPLITS = ((105_506, "none"), (105_506, "block"), (1_000, "none"), (1_000, "block"), (1_000, "coordinate"))


@dataclass(frozen=True)
class Cost:
    """Of one round: wall and processor seconds of all parties together, messages, and bytes that leave the clients."""

    seconds: float
    processor_seconds: float
    messages: int
    sent_bytes: int


def messages_per_second(messages=MESSAGES, payload_bytes=PAYLOAD_BYTES, threads=THREADS, runs=RUNS):
    """Messages through encode, shuffle and analyse a second of wall time: the median of ``runs``."""
    return messages / statistics.median(cost.seconds for cost in message_costs(messages, payload_bytes, threads, runs))


def message_costs(messages=MESSAGES, payload_bytes=PAYLOAD_BYTES, threads=THREADS, runs=RUNS):
    """One ``Cost`` a run, after a short one that is not counted."""
    key, payloads = BoxKey(), [os.urandom(payload_bytes) for _ in range(messages)]

    def through(some):
        ciphertexts = Encoder(key.public_bytes, 0, payload_bytes, threads=threads).encode(some)
        shuffled = shuffle(ciphertexts, len(some))
        opened = Analyzer(key, payload_bytes, len(some), threads=threads).open(shuffled, 0)
        return ciphertexts, opened

    through(payloads[:256])
    return [timed(lambda: through(payloads), payloads) for _ in range(runs)]


def split_cost(dimension, split, vectors=VECTORS, threads=THREADS):
    """The ``Cost`` of one round with so many vectors, from vectors to their sum."""
    splitting, key = Splitting(dimension, split), BoxKey()
    rows = [np.full(dimension, number / 8) for number in range(vectors)]
    least = vectors * splitting.positions

    def through():
        encoder = Encoder(key.public_bytes, 0, splitting.payload_bytes, threads=threads)
        ciphertexts = [item for row in rows for item in encoder.encode_pieces(splitting.pieces(row))]
        analyzer = Analyzer(key, splitting.payload_bytes, least, threads=threads)
        total, _ = splitting.sum_of(analyzer.open_pieces(shuffle(ciphertexts, least), 0))
        return ciphertexts, [total]

    return timed(through, [np.sum(rows, axis=0)])


def timed(through, expected):
    """The ``Cost`` of ``through()``, which returns what left the clients and what the server has in the end."""
    start, processor = time.perf_counter(), time.process_time()
    ciphertexts, result = through()
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    if sorted(map(bytes, result)) != sorted(map(bytes, expected)):
        raise RuntimeError("What the server reads is not what was sent; the figures would be of something else.")
    return Cost(seconds, processor, len(ciphertexts), sum(map(len, ciphertexts)))


def seal_some(payloads, public_key):
    return [crypto_box_seal(payload, public_key) for payload in payloads]


def sealing_alone(pool_class, workers=THREADS, messages=MESSAGES // 2):
    """libsodium's sealing alone, a second of wall time, on threads or processes of a pool that runs already."""
    key, payloads = BoxKey().public_bytes, [os.urandom(PAYLOAD_BYTES) for _ in range(messages)]
    parts = [payloads[at::workers] for at in range(workers)]
    with pool_class(workers) as pool:
        list(pool.map(seal_some, [part[:8] for part in parts], [key] * workers))
        start = time.perf_counter()
        list(pool.map(seal_some, parts, [key] * workers))
        return messages / (time.perf_counter() - start)


def main():
    from rich.console import Console
    from rich.table import Table

    console = Console()
    with console.status("messages"):
        costs = message_costs()
        alone = {kind.__name__: sealing_alone(kind) for kind in (ThreadPoolExecutor, ProcessPoolExecutor)}
    rate = MESSAGES / statistics.median(cost.seconds for cost in costs)
    processor = statistics.median(cost.processor_seconds for cost in costs) / MESSAGES
    console.print(f"{rate:,.0f} messages a second on {THREADS} threads, each {processor * 1e6:.0f} us of processor")
    console.print("sealing alone: " + ", ".join(f"{kind} {value:,.0f}" for kind, value in alone.items()))
    columns = ("d", "split", "messages", "MB sent", "seconds", "processor seconds")
    table = Table(*columns, title=f"One round of {VECTORS} vectors")
    for dimension, split in SPLITS:
        with console.status(f"{split}, d = {dimension:,}"):
            cost = split_cost(dimension, split)
        table.add_row(
            f"{dimension:,}",
            split,
            f"{cost.messages:,}",
            f"{cost.sent_bytes / 1e6:.1f}",
            f"{cost.seconds:.2f}",
            f"{cost.processor_seconds:.2f}",
        )
    console.print(table)
    print(json.dumps({"bench": "shuffler_throughput", "figures": {"shuffler_messages_per_second": round(rate)}}))


if __name__ == "__main__":
    main()
