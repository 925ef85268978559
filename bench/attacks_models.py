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
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from bench import attacks_generative as generative
from bench import attacks_membership as membership
from bench.attacks_page import Section, section
from bench.attacks_trials import Figure
from bench.homo_nn_pictures import ARCHIVES, FOLDER
from bench.homo_nn_workers import Workers

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
    _, figures = attack_models(options.data, options.quick, console)
    console.print(f"All took {time.perf_counter() - started:.0f} s with {PROCESSES} processes.")
    print(json.dumps({"bench": "attacks-models", "figures": {one.name: round(one.value, 4) for one in figures}}))


def attack_models(folder: Path, quick: bool, console: Console) -> tuple[list[Section], list[Figure]]:
    """The sections of the page, whose tables are printed, and the figures; what is missing is said, and left out."""
    missing = [name for name in ("fashion", "mnist") if not (folder / ARCHIVES[name]).is_file()]
    if missing:
        files = " and ".join(str(folder / ARCHIVES[name]) for name in missing)
        console.print(f"Missing: {files}. So nothing is measured on trained models.")
        return [], []
    with Workers(PROCESSES, console) as workers:
        plan = membership.QUICK if quick else membership.FULL
        members = membership.attack_members(folder, plan, workers, console.print)
        digits = generative.QUICK if quick else generative.FULL
        pictures = generative.attack_digits(folder, digits, workers, console.print)
    sections = [section_of_members(title, lines) for title, lines in members.items()]
    sections.append(section(PICTURED, pictures, NOTE))
    for one in sections:
        console.print(printed(one))
    figures = membership.summarised(members[membership.FASHION.title])
    figures.append(membership.beyond_epsilon([line for lines in members.values() for line in lines]))
    return sections, figures + generative.summarised(pictures)


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
