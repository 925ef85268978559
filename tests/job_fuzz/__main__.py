"""`python -m tests.job_fuzz`: whole jobs beside an oracle, and planted faults that must be found.

    --seconds N     in all (default 600); planted faults come first, and may take a third of it
    --seed N        of the first sequence
    --one SEED      play, and shrink, the sequence of one seed
    --replay FILE   play a sequence that was printed
    --without A,B   leave out operations of the generator
    --mutants WORD  only these faults; none for no fault
    --tell N        of so many sequences that fail

The last line is one JSON object; the status is 1 where a ledger understates, a fault is not found, or the fuzzer is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.planting import Mutant

from .fuzz import MEMORY, find, fuzz, player, replay, shrink, written
from .mutants import MUTANTS

MUTANTS_SHARE = 1 / 3
"""Of the time, for all planted faults."""
MOST_TOLD = 300
"""Letters of what is told of a fault."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.job_fuzz")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", type=int)
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--without", default="")
    parser.add_argument("--mutants", default="")
    parser.add_argument("--tell", type=int, default=3)
    options = parser.parse_args()
    if options.one is not None or options.replay is not None:
        return _one(options)
    ends = time.monotonic() + options.seconds
    planted = [] if options.mutants == "none" else [each for each in MUTANTS if options.mutants in each.name]
    missed = _missed(planted, options)
    seconds = ends - time.monotonic()
    figures = fuzz(seconds, workers=options.workers, first=options.seed, without=options.without)
    for told in figures.told[: options.tell]:
        print(told)
    print(
        json.dumps(
            {
                "bench": "job-fuzz",
                "figures": {
                    "sequences": figures.sequences,
                    "jobs": figures.jobs,
                    "accepted_share": round(figures.accepted_share, 3),
                    "understated": figures.understated,
                    "broken": figures.broken,
                    "mutants_found": len(planted) - len(missed),
                    "mutants": len(planted),
                },
            }
        )
    )
    return int(bool(figures.understated or figures.broken or missed))


def _missed(planted: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """Faults that are not found, once each of all was told."""
    searches = find(
        planted, MUTANTS_SHARE * options.seconds, workers=options.workers, first=options.seed, without=options.without
    )
    for search in searches:
        found, figures = search.is_found, search.figures
        told = figures.told[-1] if found else f"{figures.broken} broken; no ledger says less than the oracle"
        print(f"{'found' if found else 'missed'} in {figures.sequences}: {search.mutant.name}: {told[:MOST_TOLD]}")
    return [search.mutant for search in searches if not search.is_found]


def _one(options: argparse.Namespace) -> int:
    seed, file = options.one, options.replay
    home = Path(tempfile.mkdtemp(prefix="job-fuzz-", dir=MEMORY if MEMORY.is_dir() else None))
    player(home)
    from .generator import sequence
    from .shrink import script

    if seed is not None:
        steps = sequence(seed, frozenset(options.without.split(",")))
        print(*replay(steps, home), sep="\n")
        smallest, finding = shrink(steps, home)
        print("", script(smallest), finding, written(smallest), sep="\n")
    elif file is not None:
        steps = json.loads(file.read_text(encoding="utf-8"))
        print(script(steps), *replay(steps, home), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
