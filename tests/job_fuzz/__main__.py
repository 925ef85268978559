"""`python -m tests.job_fuzz`: whole jobs beside an oracle, and planted faults that must be found.

    --seconds N     in all (default 600); planted faults come first, and may take four tenths of it
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
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.planting import Mutant

from .fuzz import MEMORY, fuzz, player, replay, shrink, written
from .mutants import MUTANTS

MUTANTS_SHARE, MORE = 0.4, 2.0
"""Of the time, for all planted faults; and how much more than its equal part one may take."""


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
    found = sum(_is_found(mutant, left, options) for mutant, left in _timed(planted, MUTANTS_SHARE * options.seconds))
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
                    "mutants_found": found,
                    "mutants": len(planted),
                },
            }
        )
    )
    return int(bool(figures.understated or figures.broken) or found < len(planted))


def _timed(planted: Sequence[Mutant], seconds: float) -> Iterator[tuple[Mutant, float]]:
    """Each fault with the seconds that it may take; what one does not need, the others have."""
    ends = time.monotonic() + seconds
    for at, mutant in enumerate(planted):
        yield mutant, MORE * (ends - time.monotonic()) / (len(planted) - at)


def _is_found(mutant: Mutant, seconds: float, options: argparse.Namespace) -> bool:
    figures = fuzz(
        seconds, workers=options.workers, first=options.seed, stop=True, mutant=mutant, without=options.without
    )
    caught = bool(figures.understated) and not figures.broken
    told = figures.told[0] if figures.told else "no ledger says less than the oracle"
    print(f"{'found' if caught else 'MISSED'} after {figures.sequences}: {mutant.name}: {told}", flush=True)
    return caught


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
