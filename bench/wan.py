"""A whole vertical training over a slow line: dp_hetero_lr beside FATE's CoordinatedLR, the same rows, keys and relay.

    python -m bench.wan [--quick] [--delay SECONDS] [--rate BITS_PER_SECOND]

Rows as in `make bench-hetero-lr` (10,000, 10 + 20 features), 30 epochs, 2048-bit keys. Guest, host and arbiter are
processes; everything that they send each other passes a relay with 50 ms each way and 100 Mbit/s (`wan_link`). FATE's
side, as shipped, runs 2 epochs and is **scaled linearly** to 30 (see `epoch_clock`). Wall seconds by the guest's clock,
from the first message to the written model. `wan_link.relayed` does not imitate TCP's slow start, which would be to
the advantage of whoever sends less.

The last line printed is one JSON object: `wall_ratio_fate` is FATE's wall time over ours; `megabytes` and `delays` are those
of ours, of all messages and of those that had to wait for one another (`dp_hetero_lr.traffic` says them beforehand).
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import epoch_fate, epoch_ours, epoch_task
from bench.epoch_sides import Measurement, Side, measure
from bench.hetero_lr_rows import made_tables
from bench.wan_link import Link, relayed

EPOCHS, TIMEOUT = 30, 3600
DELAY, RATE = 0.05, 100e6
ROWS, QUICK_ROWS = 10_000, 500


@dataclass(frozen=True)
class OverLink:
    """A side's ``train`` whose messages pass a relay; the parties' cost is as without."""

    train: object
    link: Link

    def __call__(self, ctx, task, epochs, **arguments):
        from fate.arch.context import Context

        from bench.wan_link import LinkedFederation

        own = ctx.federation
        federation = LinkedFederation(ctx.computing, own.session_id, own.local_party, own.parties, self.link)
        cost = self.train(Context(computing=ctx.computing, federation=federation), task, epochs, **arguments)
        return replace(cost, sent_bytes=federation.sent_bytes, delays=federation.delays)


def measured(train, arguments: dict, epochs: int, rows: int, delay: float, rate: float) -> Measurement:
    """One training of all parties over a relay of its own."""
    with relayed(epoch_task.PARTIES, delay, rate) as link:
        side = Side("over a link", None, OverLink(train, link), arguments)
        return measure(side, epoch_task.Task(partial(made_tables, rows)), epochs, TIMEOUT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows, to see whether all of it runs")
    parser.add_argument("--delay", type=float, default=DELAY, help="seconds, each way")
    parser.add_argument("--rate", type=float, default=RATE, help="bits a second, each way")
    given, console = parser.parse_args(), Console()
    rows = QUICK_ROWS if given.quick else ROWS
    sides: dict[str, tuple[Callable, dict[str, Any], int]] = {
        "dp_hetero_lr": (epoch_ours.train, {"solver": "cross_product"}, EPOCHS),
        "FATE, shipped": (epoch_fate.train, {"repaired": False}, 2),
    }
    found = {}
    for name, (train, arguments, epochs) in sides.items():
        with console.status(f"{name}: {rows:,} rows, {epochs} epochs"):
            found[name] = measured(train, arguments, epochs, rows, given.delay, given.rate)
    title = f"{EPOCHS} epochs, {rows:,} rows, {given.delay * 1000:g} ms each way, {given.rate / 1e6:g} Mbit/s"
    table = Table("", "epochs run", "wall s", "s / epoch", "CPU s", "weights off", title=title)
    for name, run in found.items():
        wall, cpu = run.wall.scaled_to(EPOCHS), run.training_cpu(EPOCHS)
        table.add_row(
            name, f"{run.epochs}", f"{wall:.1f}", f"{run.wall.epoch:.2f}", f"{cpu:.1f}", f"{run.distance:.0e}"
        )
    console.print(table)
    ours, theirs = (run.wall.scaled_to(EPOCHS) for run in found.values())
    cost = found["dp_hetero_lr"].costs
    figures = {
        "wall_ratio_fate": round(theirs / ours, 2),
        "wall_seconds": round(ours, 2),
        "wall_seconds_fate": round(theirs, 1),
        "wall_seconds_an_epoch": round(found["dp_hetero_lr"].wall.epoch, 3),
        "megabytes": round(sum(party.sent_bytes for party in cost.values()) / 1e6, 2),
        "delays": max(party.delays for party in cost.values()),
    }
    print(json.dumps({"bench": "wan-quick" if given.quick else "wan", "figures": figures}))


if __name__ == "__main__":
    main()
