"""The page of the attack benchmark: figures, tables, and originals and reconstructions side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
from markupsafe import Markup

from bench.attacks_trials import HEADINGS, Figure, Line, row
from bench.report_parts import image, subplots
from fate_dp.pipelines.jobs.text_tables import TextTable
from fate_dp.pipelines.report.page import moment, render

TITLE = "What gradients and ciphertexts show, and what an epsilon hides"
NUMERIC = frozenset(HEADINGS[3:])
TITLES = {
    "digits": "Handwritten digits (MNIST)",
    "photographs": "Photographs (CIFAR-10), the setting of the papers",
    "loans": "Loans (Lending Club)",
    "labels": "Labels of a vertical training",
}
# Of the card that a figure stands on: what is open is orange, what is defended blue.
OPEN = (
    "psnr_no_defence",
    "tab_cells_no_defence",
    "lira_tpr_no_privacy",
    "gan_no_privacy",
    "labels_stock_lr",
    "labels_stock_binning",
)
NOTE = (
    "Found: the median PSNR over pictures, or the mean share of cells or labels. Public alone: black or the mean picture, "
    "whichever is better, the commonest value of each cell or label, or what known labels tell with a host's own columns. Bound: "
    "the largest share that epsilon allows in expectation, where there is one."
)


@dataclass(frozen=True)
class Versions:
    """What the page was made with, for its foot."""

    fate_dp_version: str
    fate_version: str
    schema: str = "bench-attacks"


@dataclass(frozen=True)
class Section:
    """One part of the page."""

    title: str
    table: TextTable
    yardsticks: tuple[str, ...]
    pictures: tuple[tuple[Markup, str], ...]
    defences: tuple[tuple[str, str], ...]
    note: str = NOTE


def write_page(
    path: Path,
    lines: Mapping[str, Sequence[Line]],
    summary: Sequence[Figure],
    quick: bool,
    more: Sequence[Section] = (),
) -> None:
    """Write the page to ``path``, whose folder is made; ``more`` are sections of other attacks."""
    page = render(
        "attacks_template.html",
        title=TITLE,
        of="attacks on horizontal and vertical training",
        created=moment(datetime.now(timezone.utc).isoformat()),
        summary=(
            "Who sees the gradient of a record sees the record: its picture, or the cells of its row. Each line below is one "
            "attack against one defence, beside what is known without any gradient. Noise is that of dp_homo_nn for a whole "
            "training, and the observer of a noised round knows all other records of it, which no real server does. Labels of a "
            "vertical training are read out of what stock FATE sends, beside the most that flips of an epsilon allow."
        ),
        cards=[
            ("not_private" if one.name in OPEN else "private", f"{one.value:.3g}", f"{one.name}: {one.words}")
            for one in summary
        ],
        precision_of_figures=(
            " ".join(f"{one.name}: {one.interval.low:.3g} to {one.interval.high:.3g}." for one in summary)
            + " Intervals are of 95 %: bootstraps over targets, and Clopper and Pearson's for shares of labels."
            + (" This was a quick run, with few targets." if quick else "")
        ),
        sections=[*(section(TITLES[name], found) for name, found in lines.items() if found), *more],
        result=Versions(version("fate-dp"), version("pyfate")),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def section(title: str, lines: Sequence[Line], note: str = NOTE) -> Section:
    yardsticks = [
        f"{line.result.attack}: {line.result.value:.4g} {line.result.unit}, which "
        f"{'reaches' if line.result.reaches_yardstick else 'does not reach'} {line.result.yardstick.reference}"
        for line in lines
        if line.result.yardstick is not None
    ]
    return Section(
        title,
        TextTable(HEADINGS, tuple(row(line) for line in lines), NUMERIC),
        tuple(yardsticks),
        tuple((pictures(line), caption(line)) for line in lines if line.originals is not None),
        tuple({line.result.defence: line.words for line in lines}.items()),
        note,
    )


def caption(line: Line) -> str:
    return f"{line.model}; {line.result.attack}; {line.result.defence}: {line.result.value:.1f} {line.result.unit}."


def pictures(line: Line) -> Markup:
    """Originals above, what was found below; values are cut to what a screen shows."""
    assert line.originals is not None and line.found is not None
    count = len(line.originals)
    figure, axes = subplots(2, count, (0.75 * count, 1.6))
    for axis, picture in zip(axes, [*line.originals, *line.found]):
        shown = np.clip(picture, 0.0, 1.0).transpose(1, 2, 0)
        axis.imshow(shown.squeeze(), cmap="gray", vmin=0.0, vmax=1.0)
        axis.axis("off")
    return Markup(image(figure, f"Originals above, reconstructions below. {caption(line)}"))
