"""The component over FATE's tables: two parties as processes with FATE's standalone engines, without FATE-Flow."""

import tempfile
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from fate_dp.components.align.component import MESSAGES
from fate_dp.components.common.wire.channel import with_plain_messages
from tests.support.local_parties import frame_of, run_parties

EVERY = 0.05
"""Seconds between two looks at workers' memory."""
PARTIES = (("guest", "9999"), ("host", "10000"))


def component_seconds(records: int, features: int) -> float:
    """Wall seconds of the slower party from its frame to its frame of shares; all ids are common. Raises as below."""
    return component_figures(records, features)[0]


def component_figures(records: int, features: int, worker_memory: int | None = None) -> tuple[float, int]:
    """(wall seconds of the slower party, the most bytes that a worker of either held, where ``worker_memory`` is given).

    Raises:
        RuntimeError: a party failed, or not all records were joined.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = run_parties(
            _party,
            PARTIES,
            {"OMP_NUM_THREADS": "1", "FATE_DP_HOME": folder},
            timeout=3600,
            record=False,
            records=records,
            features=features,
            worker_memory=worker_memory,
        )
    for party in PARTIES:
        if results[party].error or results[party].value[0] != records:
            raise RuntimeError(f"{party[0]}: {results[party].error or 'not all records were joined'}")
    return tuple(max(results[party].value[at] for party in PARTIES) for at in (1, 2))


@with_plain_messages(MESSAGES)
def _party(ctx, records, features, worker_memory):
    import pandas as pd

    from fate_dp.components.align.run import run
    from fate_dp.components.align.settings import Settings

    draws = np.random.default_rng(len(ctx.local.role))
    table = pd.DataFrame(draws.uniform(-4, 4, (records, features)), columns=[f"x{at}" for at in range(features)])
    table.insert(0, "id", [f"person {number}" for number in draws.permutation(records)])
    table.insert(0, "sample_id", [str(row) for row in range(records)])
    settings = Settings() if worker_memory is None else Settings(worker_memory=worker_memory)
    partitions = 2 if worker_memory is None else 1
    frame, began = frame_of(ctx, table, label=None, partitions=partitions), time.perf_counter()
    with nullcontext([0]) if worker_memory is None else peak_of_workers() as peak:
        shares, _ = run(ctx, settings, frame)
    return shares.shape[0], time.perf_counter() - began, peak[0]


@contextmanager
def peak_of_workers():
    """A list whose one number is the most bytes that a child of this process has held of its own meanwhile."""
    import psutil

    peak, done = [0], threading.Event()

    def watch():
        own = psutil.Process()
        while not done.wait(EVERY):
            for child in own.children(recursive=True):
                peak[0] = max(peak[0], _held(child.pid))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _held(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        # It has ended.
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)
