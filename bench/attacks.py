"""What an epsilon buys: attacks on horizontal training, its models, and labels of vertical training, undefended and defended.

    python -m bench.attacks [--data ../shared/data] [--quick] [--out out/attacks]

Every attack of ``fate_dp.attacks`` that reads one round of a horizontal training, on MNIST's test pictures and on Lending
Club's loans, against plain averaging, a secure sum without noise, federated averaging, clipping alone, and noise that
``dp_homo_nn`` calibrates for a whole training of epsilon 8, 4 and 1 (delta 1e-5, add-or-remove). The views of noised rounds
are those of the *informed server*, which knows all other records; lines of several rounds average those in which a
record is drawn, as if the weights stood still between them. Both favour the attacks.

What whoever gets a trained model learns of its records is measured by `bench.attacks_models`, which this program runs, too.
Labels are read out of what stock FATE's components show of them, and of flips (`attacks_labels`), and mechanisms are audited
(`audit_certificate`); both need no data. All parts run in the same two processes, the longest jobs first. One table sets every
share beside what its epsilon allows (`attacks_bounds`).

Settings were tried on the first three test pictures and batches of rows, for steps and starts only; the prior's strength
was not searched. The networks have their start weights, as in the papers. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench.attacks_bounds import beyond_bounds, bounded, section_of_bounds
from bench.attacks_labels import attack_labels, label_figures
from bench.attacks_models import PROCESSES, attack_models
from bench.attacks_page import Section, write_page
from bench.attacks_pictures import DIGITS, MNIST, PHOTOGRAPHS, attack_photographs
from bench.attacks_tables import FILE, attack_loans
from bench.attacks_trials import FULL, HEADINGS, QUICK, Line, Plan, Progress, row, summarised
from bench.audit_certificate import figures as audit_figures
from bench.homo_nn_pictures import FOLDER
from bench.homo_nn_workers import Job, Stage
from fate_dp.pipelines.jobs.text_tables import TextTable
from fate_dp.privacy.auditing.certificate import Certificate


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)
    console, started, plan = Console(), time.perf_counter(), QUICK if options.quick else FULL
    stages = inversions(options.data, plan, console.print)
    stages["labels"] = told_stage("labels", (attack_labels,), (options.quick,), console.print)
    stages["audits"] = Stage([Job("audits", 1, audited_product, (options.quick,))], lambda found: found[0])
    models = attack_models(options.data, options.quick, console, tuple(stages.values()))
    *found, (audited, mutants) = models.beside
    lines = dict(zip(stages, found))
    shares = bounded(lines["labels"], models.members)
    summary = [
        *summarised(lines.get("digits", ()), lines.get("loans", ())),
        *label_figures(lines["labels"]),
        *models.figures,
        beyond_bounds(shares),
    ]
    for name, each in lines.items():
        console.print(table_of(name, each))
    sections = [section_of_bounds(shares), *models.sections, audits(audited, mutants)]
    write_page(options.out / "index.html", lines, summary, options.quick, sections)
    spent = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    console.print(
        f"The page is {options.out / 'index.html'}. All took {time.perf_counter() - started:.0f} s with {PROCESSES} "
        f"processes, and {spent:.0f} s of their cores."
    )
    costs = sorted(models.seconds.items(), key=itemgetter(1), reverse=True)
    console.print("Of these " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in costs) + ".")
    figures = {figure.name: round(figure.value, 4) for figure in summary}
    print(json.dumps({"bench": "attacks", "figures": figures | audited}))


def inversions(folder: Path, plan: Plan, progress: Progress) -> dict[str, Stage]:
    """What reads single rounds of a horizontal training, by the name of the data; what is missing is said, and left out."""
    stages = {}
    for name, file, attacks in (
        ("digits", MNIST, DIGITS),
        ("photographs", PHOTOGRAPHS, (attack_photographs,)),
        ("loans", FILE, (attack_loans,)),
    ):
        if name == "photographs" and not plan.photographs:
            continue
        if (folder / file).is_file():
            stages[name] = told_stage(name, attacks, (folder, plan), progress)
        else:
            progress(f"The file {folder / file} is missing, so nothing is measured on {name}.")
    return stages


def told_stage(
    name: str, attacks: Sequence[Callable[..., list[Line]]], arguments: tuple[Any, ...], progress: Progress
) -> Stage:
    """Attacks in processes of their own; what they said is told when all of them have ended."""

    def finish(found: list[tuple[list[Line], list[str]]]) -> list[Line]:
        for _, said in found:
            for sentence in said:
                progress(sentence)
        return [line for lines, _ in found for line in lines]

    return Stage([Job(name, 1, told, (attack, arguments)) for attack in attacks], finish)


def told(
    attack: Callable[..., list[Line]], arguments: tuple[Any, ...], tick: Callable[[], None]
) -> tuple[list[Line], list[str]]:
    """The lines of an attack, and what it said on its way."""
    said: list[str] = []
    lines = attack(*arguments, said.append)
    tick()
    return lines, said


def audited_product(quick: bool, tick: Callable[[], None]) -> tuple[dict[str, float], dict[str, Certificate]]:
    """`audit_certificate.figures` for a process of its own."""
    found = audit_figures(quick)
    tick()
    return found


def audits(found: dict[str, float], mutants: dict[str, Certificate]) -> Section:
    """What audits prove of sound mechanisms and of deliberate faults, for the page."""
    note = (
        f"Audits by canaries prove {found['audit_share']:.2f} of epsilon 4 in one run of a Gaussian sum, and accuse "
        f"{found['false_alarms']:.0f} sound mechanisms. Each fault below was put into the product on purpose."
    )
    rows = tuple((name, each.verdict, each.reason) for name, each in mutants.items())
    return Section("Audits of deliberate faults", TextTable(("fault", "verdict", "reason"), rows), (), (), (), note)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, default=FOLDER, help="folder of mnist.npz, fashion_mnist.npz and lending_club.csv.gz"
    )
    parser.add_argument("--quick", action="store_true", help="few targets, in some minutes")
    parser.add_argument("--out", type=Path, default=Path("out/attacks"), help="folder of the page")
    return parser.parse_args()


def table_of(name: str, lines: list[Line]) -> Table:
    table = Table(*HEADINGS, title=name)
    for line in lines:
        table.add_row(*row(line))
    return table


if __name__ == "__main__":
    main()
