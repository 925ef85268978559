"""The component over FATE's tables: two parties as processes with FATE's standalone engines, without FATE-Flow."""

import tempfile
import time

import numpy as np

from fate_dp.components.common.wire.channel import with_plain_messages
from tests.support.local_parties import frame_of, run_parties

PARTIES = (("guest", "9999"), ("host", "10000"))


def component_seconds(records: int, features: int) -> float:
    """Wall seconds of the slower party from its frame to its frame of shares; all ids are common.

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
        )
    for party in PARTIES:
        if results[party].error or results[party].value[0] != records:
            raise RuntimeError(f"{party[0]}: {results[party].error or 'not all records were joined'}")
    return max(results[party].value[1] for party in PARTIES)


@with_plain_messages
def _party(ctx, records, features):
    import pandas as pd

    from fate_dp.components.align.run import run
    from fate_dp.components.align.settings import Settings

    draws = np.random.default_rng(len(ctx.local.role))
    table = pd.DataFrame(draws.uniform(-4, 4, (records, features)), columns=[f"x{at}" for at in range(features)])
    table.insert(0, "id", [f"person {number}" for number in draws.permutation(records)])
    table.insert(0, "sample_id", [str(row) for row in range(records)])
    frame, began = frame_of(ctx, table, label=None), time.perf_counter()
    shares, alignment = run(ctx, Settings(), frame)
    return shares.shape[0], time.perf_counter() - began
