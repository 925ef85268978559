"""Two parties align their records: seconds against the size of the intersection, and growth with the number of records.

    python -m bench.align [largest number of records]

Two processes, one for each party, run the kernels of components/align over a pipe. The clock runs from the making of
keys until both hold their shares; starting Python is not counted. In every run the shares must add up to the joined
records. The source (Gao and others 2024, table 2) times 50 to 250 common ids; here each side has 500 records with 10
features. For growth all ids are common, which is the most work. Beside it stands what the component takes for the
smallest of these sizes over FATE's tables, see `align_component`. The last line printed is one JSON object.
"""

import json
import math
import multiprocessing
import queue
import sys
import time

import numpy as np

from fate_dp.components.align.preflight import record_name
from fate_dp.crypto.joined_records import encode_values

from .align_component import component_seconds
from .align_party import Party, align

SOURCE_SECONDS = {50: 2.30, 100: 4.49, 150: 6.69, 200: 8.82, 250: 11.07}
SOURCE_RECORDS = 500
FEATURES = 10
GROWTH = (10_000, 31_600, 100_000)
REPEATS = 3
PARTS = 4
"""Encrypt, tag again, blind, open: so often a record of one party is handled."""


def tables(records: int, common: int, features=FEATURES, seed=0) -> tuple:
    """Two parties with ``common`` ids in both, in different places."""
    draws = np.random.default_rng(seed)
    made = []
    for first, start in ((True, 0), (False, records - common)):
        numbers = draws.permutation(np.arange(start, start + records))
        names = [record_name(f"person {number}") for number in numbers]
        made.append(Party(first, names, draws.uniform(-4, 4, (records, features))))
    return tuple(made)


def seconds_of(records: int, common: int, features=FEATURES, report=lambda done: None) -> float:
    """Wall seconds of one alignment by two processes.

    Raises:
        RuntimeError: a party failed, or the shares do not add up to the joined records.
    """
    context = multiprocessing.get_context("spawn")
    parties, ends = tables(records, common, features), context.Pipe()
    start, messages = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=_party_process, args=(end, party, start, messages), daemon=True)
        for end, party in zip(ends, parties)
    ]
    for process in processes:
        process.start()
    try:
        return _watch(processes, parties, common, start, messages, report)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _party_process(connection, party, start, messages):
    start.wait()
    began = time.perf_counter()
    shares = align(connection, party, lambda count: messages.put(("step", count)) if party.first else None)
    messages.put(("shares", (party.first, time.perf_counter() - began, shares)))


def _watch(processes, parties, common, start, messages, report) -> float:
    start.wait()
    shares, seconds = {}, []
    while len(shares) < 2:
        try:
            kind, content = messages.get(timeout=5)
        except queue.Empty:
            # One that is through ends with 0 while the other still works, for minutes where records are many.
            codes = [process.exitcode for process in processes]
            if any(codes) or None not in codes:
                raise RuntimeError("A party of the benchmark ended before it had its shares; see its trace.") from None
            continue
        if kind == "step":
            report(content)
        else:
            first, took, shares_of_party = content
            shares[first] = shares_of_party
            seconds.append(took)
    _check(shares, parties, common)
    return max(seconds)


def _check(shares, parties, common):
    first, second = parties
    (own, of_second), (second_own, of_first) = shares[True], shares[False]
    found = sorted(map(tuple, np.hstack([own + of_first, second_own + of_second]).tolist()))
    rows = dict(zip(second.names, _encoded(second)))
    joined = [row + rows[name] for name, row in zip(first.names, _encoded(first)) if name in rows]
    if len(joined) != common or found != sorted(map(tuple, joined)):
        raise RuntimeError("The shares do not add up to the joined records; the figures would be of something else.")


def _encoded(party) -> list:
    return encode_values(party.values, range(party.values.shape[1])).tolist()


def growth_exponent(seconds: dict) -> float:
    """Slope of the logarithm of seconds over that of records, by least squares."""
    return float(np.polyfit([math.log(records) for records in seconds], list(map(math.log, seconds.values())), 1)[0])


def source_table(console) -> dict:
    """{common ids: the median of a few runs}."""
    found = {}
    for common in SOURCE_SECONDS:
        with console.status(f"{common} common ids of {SOURCE_RECORDS}"):
            runs = sorted(seconds_of(SOURCE_RECORDS, common) for _ in range(REPEATS))
        found[common] = runs[REPEATS // 2]
    return found


def growth_table(console, largest: int) -> dict:
    """{records: seconds} where all ids are common."""
    from rich.progress import Progress

    found = {}
    for records in [records for records in GROWTH if records < largest] + [largest]:
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(f"{records:,} records", total=PARTS * records)
            found[records] = seconds_of(records, records, report=lambda count: progress.advance(bar, count))
    return found


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    largest = int(sys.argv[1]) if len(sys.argv) > 1 else GROWTH[-1]
    if largest <= GROWTH[0]:
        raise SystemExit(f"The largest number of records is {largest}; it must be above {GROWTH[0]:,}.")
    console = Console()
    common, growth = source_table(console), growth_table(console, largest)
    with console.status(f"{GROWTH[0]:,} records over FATE's tables"):
        over_tables = component_seconds(GROWTH[0], FEATURES)
    title = f"{SOURCE_RECORDS} records, {FEATURES} features a side"
    table = Table("common ids", "source, s", "here, s", "times faster", title=title)
    for ids, seconds in common.items():
        table.add_row(str(ids), f"{SOURCE_SECONDS[ids]:.2f}", f"{seconds:.2f}", f"{SOURCE_SECONDS[ids] / seconds:.1f}")
    console.print(table)
    table = Table("records a side, all common", "s", "ms a record")
    for records, seconds in growth.items():
        table.add_row(f"{records:,}", f"{seconds:.1f}", f"{seconds / records * 1000:.2f}")
    console.print(table)
    console.print(f"The component over FATE's tables, {GROWTH[0]:,} records: {over_tables:.1f} s")
    figures = {
        "speedup_over_source": round(SOURCE_SECONDS[250] / common[250], 2),
        "wall_seconds_10k": round(growth[GROWTH[0]], 2),
        "wall_seconds_10k_component": round(over_tables, 2),
        "growth_exponent": round(growth_exponent(growth), 3),
        "largest_records": largest,
        **{f"wall_seconds_{ids}_common": round(seconds, 3) for ids, seconds in common.items()},
    }
    print(json.dumps({"bench": "align", "figures": figures}))


if __name__ == "__main__":
    main()
