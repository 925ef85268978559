"""A program for a Spark with executors of its own: flips and shares before and after executors are killed.

What it prints last is one JSON object: what was computed twice, and whether it came out the same. Run it as a test
does, by its path; it needs `SPARK_CONF_DIR`.
"""

from __future__ import annotations

import json
import time
from functools import partial

import numpy as np
import psutil

MASTER = "local-cluster[2,1,1024]"
PARTITIONS, ROWS, COLUMNS = 4, 75, 3
SECONDS = 60.0


def main() -> None:
    from pyspark import SparkConf, SparkContext

    SparkContext(conf=SparkConf().setMaster(MASTER))
    ctx = context()
    report = {}
    for name, make in (("flips", flips), ("shares", shares), ("fresh draws", fresh_draws)):
        table = make(ctx)
        before = sorted(table.collect())
        lost = lose_the_executors()
        # Spark finds out that the table is gone, starts other executors, and computes it again.
        after = sorted(table.collect())
        report[name] = {"rows": len(before), "partitions": table.num_partitions, "lost": lost, "same": before == after}
    print(json.dumps(report))


def context():
    from fate.arch.computing.backends.spark import CSession
    from fate.arch.context import Context

    return Context(computing=CSession("lost-executor"))


def flips(ctx):
    """{block: flipped labels}, as label_flip makes them of a block's match ids and labels.

    The blocks are given: FATE's own reader cuts a frame into blocks in the order in which a shuffle brings the rows,
    which is another one when it happens again.
    """
    from fate_dp.components.label_flip.guest import Flips, _flip_block

    names = [(at, np.array([f"loan-{at}-{row}" for row in range(ROWS)])) for at in range(PARTITIONS)]
    labels = [(at, np.arange(ROWS) % 2) for at in range(PARTITIONS)]
    ids, truth = (ctx.computing.parallelize(part, include_key=True, partition=PARTITIONS) for part in (names, labels))
    kernel = partial(_flip_block, draw=Flips(1.0, (0.0, 1.0)), key=b"k" * 32, label_source="a/b/y")
    return ids.join(truth, kernel).mapValues(lambda block: block.tolist())


def shares(ctx):
    """{tag: the shares of a record that stay with the party which blinds it}, as align makes them of what it received.

    Masks depend on the ciphertexts, and these are as fixed as a message is once it has come.
    """
    from fate_dp.components.align.tagged_tables import Blinding, blinded_table, encrypted_table
    from fate_dp.crypto.joined_records import TagKey
    from fate_dp.crypto.paillier import generate_keypair

    public_key, private_key = generate_keypair()
    blocks = [
        (at, ([f"loan-{at}-{row}" for row in range(8)], np.full((8, COLUMNS), at, dtype=np.int64)))
        for at in range(PARTITIONS)
    ]
    table = ctx.computing.parallelize(blocks, include_key=True, partition=PARTITIONS)
    records = encrypted_table(table, TagKey().for_workers(), private_key.encryption(), 8 * PARTITIONS)
    received = ctx.computing.parallelize(list(records.collect()), include_key=True, partition=PARTITIONS)
    blinded = blinded_table(received, Blinding(COLUMNS, public_key, b"m" * 32, 8 * PARTITIONS))
    return blinded.mapValues(lambda pair: pair[1].hex())


def fresh_draws(ctx):
    """{number: a fresh draw}: what no component may do, since it must come out different, or nothing was recomputed."""
    import secrets

    numbers = [(number, number) for number in range(100)]
    table = ctx.computing.parallelize(numbers, include_key=True, partition=PARTITIONS)
    return table.mapValues(lambda _: secrets.randbits(64))


def lose_the_executors() -> int:
    """End this program's executors by force, wait until others are there, and say how many were lost.

    All of them: of a single one nobody knows whether it holds any part of the table in question.
    """
    lost = own_executors()
    for executor in lost:
        executor.kill()
    psutil.wait_procs(lost, timeout=SECONDS)
    deadline = time.monotonic() + SECONDS
    while len(own_executors()) < len(lost) and time.monotonic() < deadline:
        time.sleep(0.2)
    return len(lost)


def own_executors() -> list:
    """The Java processes that are executors of this program."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


if __name__ == "__main__":
    main()
