"""Attacks on whole trainings and on the models that they give: who was in it, and what a class looks like.

    python -m bench.attacks_models [--data ../shared/data] [--quick]

Membership inference (`attacks_membership`) and pictures of a digit that the attacker never had (`attacks_generative`), by two
processes. ``python -m bench.attacks`` runs this, too, and shows it on its page. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench import attacks_generative as generative
from bench import attacks_membership as membership
from bench.attacks_page import Section, section
from bench.attacks_trials import Figure
from bench.homo_nn_pictures import ARCHIVES, FOLDER
from bench.homo_nn_workers import Stage, Workers

PROCESSES = 2
PICTURED = "A digit that the attacker never had (MNIST)"
NOTE = (
    "Recognised: the mean share of pictures that a classifier, trained on other pictures, takes for the digit; public alone: the "
    "share of other digits' pictures that it takes for it. Likeness: the mean correlation with the digit's mean picture; public "
    "alone: that of the mean picture of all other digits."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER, help="folder of mnist.npz and fashion_mnist.npz")
    parser.add_argument("--quick", action="store_true", help="few models, in some minutes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console, started = Console(), time.perf_counter()
    figures = attack_models(options.data, options.quick, console).figures
    console.print(f"All took {time.perf_counter() - started:.0f} s with {PROCESSES} processes.")
    print(json.dumps({"bench": "attacks-models", "figures": {one.name: round(one.value, 4) for one in figures}}))


@dataclass(frozen=True)
class Attacked:
    """What attacks on models found, and what was run beside them.

    Attributes:
        sections: of the page.
        figures: that the project states.
        members: lines of membership inference, by the title of their scene.
        beside: results of other stages.
        seconds: of the cores, by what the bars of progress call it.
    """

    sections: list[Section]
    figures: list[Figure]
    members: dict[str, list[membership.Line]]
    beside: list[Any]
    seconds: dict[str, float]


def attack_models(folder: Path, quick: bool, console: Console, beside: Sequence[Stage] = ()) -> Attacked:
    """Tables are printed; what is missing is said, and left out. ``beside`` are run by the same processes, before trainings."""
    missing = [name for name in ("fashion", "mnist") if not (folder / ARCHIVES[name]).is_file()]
    digits, cases = generative.QUICK if quick else generative.FULL, []
    if missing:
        files = " and ".join(str(folder / ARCHIVES[name]) for name in missing)
        console.print(f"Missing: {files}. So nothing is measured on trained models.")
    else:
        cases = membership.cases_of(membership.QUICK if quick else membership.FULL)
    drawn = [] if missing else generative.stages_of(folder, digits, console.print)
    with Workers(PROCESSES, console) as workers:
        # The longest jobs come first, so that the processes end together.
        found = workers.run_stages([*beside, *drawn, *(case.trainings(folder) for case in cases)])
        others, pictures = (
            found[: len(beside)],
            [line for lines in found[len(beside) :][: len(drawn)] for line in lines],
        )
        populations = found[len(beside) + len(drawn) :]
        attacked = workers.run_stages([case.attacks(folder, each) for case, each in zip(cases, populations)])
    if missing:
        return Attacked([], [], {}, others, workers.seconds)
    members = membership.by_scene(cases, attacked, console.print)
    sections = [section_of_members(title, lines) for title, lines in members.items()]
    sections.append(section(PICTURED, pictures, NOTE))
    for one in sections:
        console.print(printed(one))
    figures = membership.summarised(members[membership.FASHION.title])
    figures += membership.leakier(members.get(membership.LEAKIER.title, ()))
    figures.append(membership.beyond_epsilon([line for lines in members.values() for line in lines]))
    return Attacked(sections, figures + generative.summarised(pictures), members, others, workers.seconds)


def section_of_members(title: str, lines: Sequence[membership.Line]) -> Section:
    controls = [
        f"{result.attack}: {result.value:.4f}, which {'reaches' if result.reaches_yardstick else 'does not reach'} "
        f"{result.yardstick.reference}"
        for result in (line.results[0] for line in lines)
        if result.yardstick is not None
    ]
    words = {line.results[0].defence: line.words for line in lines}
    return Section(title, membership.table_of(lines), tuple(controls), (), tuple(words.items()), membership.NOTE)


def printed(one: Section) -> Table:
    table = Table(title=one.title)
    for heading in one.table.headings:
        table.add_column(heading, overflow="fold")
    for cells in one.table.rows:
        table.add_row(*cells)
    return table


if __name__ == "__main__":
    main()
