"""Drawings of reports as inline SVG in the page's own text colour: the same numbers give the same bytes."""
from __future__ import annotations

import html
import io
import re

# Readable on white and on black, told apart by eyes that confuse red and green.
BLUE, ORANGE, GREEN, GREY = "#2f7ed8", "#c96f1a", "#2e9366", "#8d98a5"
SERIES = (BLUE, ORANGE, GREEN, "#8a63c9", "#b8505f", "#5d7f8c")
# A colour that nothing else uses: the page's own text colour takes its place.
INK = "#010203"
SETTINGS = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "lines.linewidth": 2.0,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
}


def svg_drawing(name: str, description: str, size: tuple[float, float], draw, columns: int = 1) -> str:
    """An `<svg>` element of `size` inches at 72 pixels each. `name` is unique on its page: it keeps ids apart.

    `draw` gets the axis, or where there are several `columns` all axes, and draws on them.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with rc_context({**SETTINGS, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(ncols=columns)
        for axis in figure.axes:
            axis.grid(True)
            axis.set_axisbelow(True)
        draw(axes)
        figure.savefig(buffer, format="svg", transparent=True,
                       metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inlined(buffer.getvalue(), name, description)


def bare_rows(axis, names) -> None:
    """Name the rows of a chart of horizontal bars or points, the first on top, without lines between them."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)


def _inlined(document: str, name: str, description: str) -> str:
    """The drawing without the XML head, its ids apart from those of other drawings, its ink the page's."""
    drawing = document[document.index("<svg"):]
    drawing = re.sub(r'(\bid="|="#|url\(#)', rf"\g<1>{name}-", drawing).replace(INK, "currentColor")
    label = html.escape(description)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" class="figure" ', 1).strip()
