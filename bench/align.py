"""Two parties align their records: seconds against the size of the intersection, and growth with the number of records.

    python -m bench.align [largest number of records]

Two processes, one for each party, run the kernels of components/align over a pipe. The clock runs from the making of
keys until both hold their shares; starting Python is not counted. In every run the shares must add up to the joined
records. The source (Gao and others 2024, table 2) times 50 to 250 common ids; here each side has 500 records with 10
features. For growth all ids are common, which is the most work. Wall seconds are those of the slower party, CPU seconds
those of both: on a busy machine the latter say more. Beside it stands what the component takes for the smallest of these
sizes over FATE's tables, see `align_component`. A million records (6 GB of memory) are measured with the argument
1000000. The last line printed is one JSON object.
"""

import json
import math
import multiprocessing
import queue
import sys
import time
from typing import NamedTuple

import numpy as np

from fate_dp.components.align.preflight import record_name
from fate_dp.crypto.joined_records import LOW_BITS, encode_values
from fate_dp.crypto.kernel import kernel

from .align_component import component_seconds
from .align_party import Party, align

SOURCE_SECONDS = {50: 2.30, 100: 4.49, 150: 6.69, 200: 8.82, 250: 11.07}
SOURCE_RECORDS = 500
FEATURES = 10
GROWTH = (10_000, 31_600, 100_000)
SIZES = {10_000: "10k", 100_000: "100k", 1_000_000: "1m"}
REPEATS = 3
PARTS = 4
"""Encrypt, tag again, blind, open: so often a record of one party is handled."""


class Seconds(NamedTuple):
    """Wall seconds of the slower party, and CPU seconds of both."""

    wall: float
    cpu: float


def tables(records: int, common: int, features=FEATURES, seed=0) -> tuple:
    """Two parties with ``common`` ids in both, in different places."""
    draws = np.random.default_rng(seed)
    made = []
    for first, start in ((True, 0), (False, records - common)):
        numbers = draws.permutation(np.arange(start, start + records))
        names = [record_name(f"person {number}") for number in numbers]
        made.append(Party(first, names, draws.uniform(-4, 4, (records, features))))
    return tuple(made)


def seconds_of(records: int, common: int, features=FEATURES, report=lambda done: None) -> Seconds:
    """What one alignment by two processes takes.

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
    kernel()
    start.wait()
    began, used = time.perf_counter(), time.process_time()
    shares = align(connection, party, lambda count: messages.put(("step", count)) if party.first else None)
    seconds = Seconds(time.perf_counter() - began, time.process_time() - used)
    messages.put(("shares", (party.first, seconds, shares)))


def _watch(processes, parties, common, start, messages, report) -> Seconds:
    start.wait()
    shares: dict[bool, np.ndarray] = {}
    seconds: list[Seconds] = []
    while len(shares) < 2:
        # One that is through ends with 0 while the other still works, for minutes where records are many. Whoever had ended before
        # the wait had sent its shares before it, too.
        codes = [process.exitcode for process in processes]
        try:
            kind, content = messages.get(timeout=5)
        except queue.Empty:
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
    return Seconds(max(each.wall for each in seconds), sum(each.cpu for each in seconds))


def _check(shares, parties, common):
    first, second = parties
    (own, of_second), (second_own, of_first) = shares[True], shares[False]
    found = np.hstack([_sums(own, of_first), _sums(second_own, of_second)])
    place = {name: row for row, name in enumerate(second.names)}
    pairs = np.array([(row, place[name]) for row, name in enumerate(first.names) if name in place], dtype=int)
    rows, others = pairs.reshape(-1, 2).T
    joined = np.hstack([_encoded(first)[rows], _encoded(second)[others]])
    if len(joined) != common or found.shape != joined.shape or (_in_order(found) != _in_order(joined)).any():
        raise RuntimeError("The shares do not add up to the joined records; the figures would be of something else.")


def _sums(shares, others):
    """What two shares of small numbers add up to: exact, since all but the low 64 bits of the sums are signs."""
    total = shares + others
    return (total[:, ::2] << LOW_BITS) + total[:, 1::2]


def _in_order(rows):
    """The rows, in an order that does not depend on the one that they came in."""
    weights = np.random.default_rng(1).integers(1, 2**62, rows.shape[1])
    return rows[np.argsort(rows @ weights, kind="stable")]


def _encoded(party):
    return encode_values(party.values, range(party.values.shape[1]))


def growth_exponent(seconds: dict) -> float:
    """Slope of the logarithm of seconds over that of records, by least squares."""
    return float(np.polyfit([math.log(records) for records in seconds], list(map(math.log, seconds.values())), 1)[0])


def source_table(console) -> dict:
    """{common ids: wall seconds, the median of a few runs}."""
    found = {}
    for common in SOURCE_SECONDS:
        with console.status(f"{common} common ids of {SOURCE_RECORDS}"):
            runs = sorted(seconds_of(SOURCE_RECORDS, common).wall for _ in range(REPEATS))
        found[common] = runs[REPEATS // 2]
    return found


def growth_table(console, largest: int) -> dict:
    """{records: `Seconds`} where all ids are common."""
    from rich.progress import Progress

    found = {}
    for records in [records for records in GROWTH if records < largest] + [largest]:
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(f"{records:,} records", total=PARTS * records)
            found[records] = seconds_of(records, records, report=lambda count: progress.advance(bar, count))
    return found


def of_sizes(growth: dict) -> dict:
    """{wall_seconds_10k: ..., cpu_seconds_10k: ...} and so on for the sizes that have a name, of those measured."""
    found: dict[str, float] = {}
    for records, (wall, cpu) in growth.items():
        if records in SIZES:
            found |= {f"wall_seconds_{SIZES[records]}": round(wall, 2), f"cpu_seconds_{SIZES[records]}": round(cpu, 2)}
    return found


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    largest = int(sys.argv[1]) if len(sys.argv) > 1 else GROWTH[-1]
    if largest <= GROWTH[0]:
        raise SystemExit(f"The largest number of records must be above {GROWTH[0]:,}, got {largest}.")
    console = Console()
    common, growth = source_table(console), growth_table(console, largest)
    with console.status(f"{GROWTH[0]:,} records over FATE's tables"):
        over_tables = component_seconds(GROWTH[0], FEATURES)
    title = f"{SOURCE_RECORDS} records, {FEATURES} features a side"
    table = Table("common ids", "source, s", "here, s", "times faster", title=title)
    for ids, seconds in common.items():
        table.add_row(str(ids), f"{SOURCE_SECONDS[ids]:.2f}", f"{seconds:.2f}", f"{SOURCE_SECONDS[ids] / seconds:.1f}")
    console.print(table)
    table = Table("records a side, all common", "s", "CPU s of both", "CPU ms a record and party")
    for records, (wall, cpu) in growth.items():
        table.add_row(f"{records:,}", f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / records * 500:.2f}")
    console.print(table)
    console.print(f"The component over FATE's tables, {GROWTH[0]:,} records: {over_tables:.1f} s")
    figures = {
        "speedup_over_source": round(SOURCE_SECONDS[250] / common[250], 2),
        "wall_seconds_10k_component": round(over_tables, 2),
        "growth_exponent": round(growth_exponent({records: each.wall for records, each in growth.items()}), 3),
        "growth_exponent_cpu": round(growth_exponent({records: each.cpu for records, each in growth.items()}), 3),
        "largest_records": largest,
        "ifma": int(kernel().library is not None),
        **{f"wall_seconds_{ids}_common": round(seconds, 3) for ids, seconds in common.items()},
        **of_sizes(growth),
    }
    print(json.dumps({"bench": "align", "figures": figures}))


if __name__ == "__main__":
    main()
