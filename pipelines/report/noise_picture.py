"""One small picture for each line of a ledger: how far one record can be told from the noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from fate_dp.privacy.events import REPLACE_ONE

from .page import BLUE, GREY, ORANGE, percent, svg_drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .job_ledger import LedgerLine
    from .job_noise import Noise

SIZE = (4.6, 1.5)
LAPLACE = ("PureDP", "Laplace")


def noise_picture(noise: Noise, line: LedgerLine, name: str) -> Markup:
    """Of noise on a sum its law with and without one record, of any other guarantee how sure an observer may become; nothing
    where there is no guarantee, or nothing was spent. ``name`` is unique on the page."""
    epsilon = float(line.epsilon)
    if noise.moved:
        other = "another in its place" if line.relation == REPLACE_ONE else "without it"
        told = f"One release with one {line.unit}, and {other}: at most {noise.moved:.3g} standard deviations of the noise apart"
        drawing = svg_drawing(name, told, SIZE, lambda axis: _draw_laws(axis, noise))
    elif 0 < epsilon < math.inf:
        sure = min(1.0, (math.exp(min(epsilon, 700.0)) + (line.delta or 0.0)) / (math.exp(min(epsilon, 700.0)) + 1))
        told = f"Who held one {line.unit}'s value for a coin toss may be {percent(sure)} sure of it afterwards, at most"
        drawing = svg_drawing(name, told, (SIZE[0], 0.9), lambda axis: _draw_certainty(axis, sure))
    else:
        return Markup("")
    return Markup("<figure>{}<figcaption>{}.</figcaption></figure>").format(drawing, told)


def _draw_laws(axis: Axes, noise: Noise) -> None:
    moved = noise.moved or 0.0
    at = np.linspace(-4, 4 + moved, 161)
    for place, color, style in ((0.0, GREY, "--"), (moved, BLUE, "-")):
        away = np.abs(at - place)
        law = np.exp(-math.sqrt(2) * away) if noise.mechanism in LAPLACE else np.exp(-(away**2) / 2)
        axis.plot(at, law, color=color, linestyle=style)
        axis.fill_between(at, law, color=color, alpha=0.15, linewidth=0)
    axis.set_yticks([])
    axis.set_ylim(bottom=0)
    axis.set_xlabel("standard deviations of the noise")


def _draw_certainty(axis: Axes, sure: float) -> None:
    axis.barh([0], [0.5], color=GREY)
    axis.barh([0], [sure - 0.5], left=0.5, color=ORANGE)
    axis.set_yticks([])
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0 %", "50 %, a coin toss", "100 %"])
