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

    from .job_facts import PartyPart


def noise_picture(part: PartyPart, place: int) -> Markup:
    """Of noise on a sum its law with and without one record, of any other guarantee how sure an observer may become; nothing
    where there is no guarantee, or nothing was spent."""
    noise, line = part.noise[place], part.ledger.lines[place]  # type: ignore[union-attr]
    moved, epsilon = noise.moved, float(line.epsilon)
    if moved is None and not 0 < epsilon < math.inf:
        return Markup("")
    # An answer is at most so likely under the one value, and at least so unlikely under the other.
    sure = (1 + (line.delta or 0.0) * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    told = f"Who held one {line.unit}'s value for a coin toss may be {percent(min(1.0, sure))} sure of it afterwards, at most"
    if moved is not None:
        other = "another in its place" if line.relation == REPLACE_ONE else "without it"
        told = (
            f"One release with one {line.unit}, and {other}: at most {moved:.3g} standard deviations of the noise apart"
        )

    def draw(axis: Axes) -> None:
        axis.set_yticks([])
        if moved is None:
            axis.barh([0, 0], [0.5, min(1.0, sure) - 0.5], left=[0, 0.5], color=[GREY, ORANGE])
            axis.set_xticks([0, 0.5, 1], ["0 %", "50 %, a coin toss", "100 %"])
            return
        at = np.linspace(-4, 4 + moved, 161)
        for middle, color, style in ((0.0, GREY, "--"), (moved, BLUE, "-")):
            away = np.abs(at - middle)
            law = np.exp(-math.sqrt(2) * away) if noise.mechanism in ("PureDP", "Laplace") else np.exp(-(away**2) / 2)
            axis.plot(at, law, color=color, linestyle=style)
            axis.fill_between(at, law, color=color, alpha=0.15, linewidth=0)
        axis.set_xlabel("standard deviations of the noise")

    drawing = svg_drawing(f"noise-{part.party_id}-{place}", told, (4.6, 0.9 if moved is None else 1.5), draw)
    return Markup("<figure>{}<figcaption>{}.</figcaption></figure>").format(drawing, told)
