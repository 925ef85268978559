"""Memory of align's workers over FATE's tables, against the parameter that bounds it.

    python -m bench.align_memory [records]

Both parties align all records, which lie in one partition at first, with each worker_memory. Shown is the peak of what any
worker process holds of its own (RssAnon of Linux), beside what `preflight.sorted_bytes` says that a partition takes while
it is sorted. What a worker holds besides does
not grow with the records: Python with FATE, and the tables of powers. The last line printed is one JSON object.
"""

import json
import sys

from fate_dp.components.align.preflight import partitions_of, sorted_bytes
from fate_dp.crypto.paillier import PublicKey

from .align_component import component_figures

RECORDS = 60_000
FEATURES = 10
MEMORY = (16, 1024)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    key, figures = PublicKey((1 << 2048) - 1), {"records": records}
    for memory in MEMORY:
        seconds, peak = component_figures(records, FEATURES, memory)
        partitions = partitions_of(records, FEATURES, key, memory)
        sorting = sorted_bytes(-(-records // partitions), FEATURES, key)
        print(
            f"worker_memory {memory} MiB: {partitions} partitions of {sorting / 2**20:.0f} MiB while they are sorted, "
            f"a worker's peak {peak / 2**20:.0f} MiB, {seconds:.0f} s",
            flush=True,
        )
        figures |= {f"peak_mib_{memory}": round(peak / 2**20), f"sorting_mib_{memory}": round(sorting / 2**20)}
    print(json.dumps({"bench": "align_memory", "figures": figures}))


if __name__ == "__main__":
    main()
