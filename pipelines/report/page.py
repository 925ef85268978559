"""What the reports share: their templates, times and shares as text, and drawings."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..jobs.flow import fate_version

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Made:
    """What made a page, as its foot names it: the programs, and the form of what was read."""

    schema: str
    fate_dp_version: str = field(default_factory=lambda: version("fate-dp"))
    fate_version: str = field(default_factory=fate_version)


def render(template: str, folder: Path = FOLDER, **named: object) -> str:
    """The page of a template in ``folder``, which may extend those beside this file; all text in it is escaped, but what is
    `Markup` already."""
    loader = FileSystemLoader([folder, FOLDER])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template(template).render(percent=percent, **named)


def moment(time: str) -> str:
    """A time as datetime.isoformat writes it, to the minute."""
    return datetime.fromisoformat(time).strftime("%Y-%m-%d %H:%M %Z").strip()


def percent(share: float) -> str:
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


# Drawings of reports as inline SVG in the page's own text colour: the same numbers give the same bytes.

# Readable on white and on black, told apart by eyes that confuse red and green.
BLUE, ORANGE, GREEN, GREY = "#2f7ed8", "#c96f1a", "#2e9366", "#8d98a5"
SERIES = (BLUE, ORANGE, GREEN, "#8a63c9", "#b8505f", "#5d7f8c")
# A colour that nothing else uses: the page's own text colour takes its place.
INK = "#010203"
SETTINGS = {
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
    **dict.fromkeys(("text.parse_math", "axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.linewidth": 0.6,
    "grid.alpha": 0.12,
    "lines.linewidth": 2.0,
    "legend.handlelength": 2.6,
}


def svg_drawing(
    name: str, description: str, size: tuple[float, float], draw: Callable[[Any], None], columns: int = 1
) -> Markup:
    """An `<svg>` element of `size` inches at 72 pixels each; the `name`, unique on its page, keeps ids apart. `draw`
    gets the axis, or all axes where there are several `columns`."""
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
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    return _inlined(buffer.getvalue(), name, description)


def draw_losses(axis: Axes, losses: Sequence[float], **style: Any) -> None:
    axis.plot(range(1, len(losses) + 1), losses, **style)
    axis.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axis.set_xlabel("epoch")
    axis.set_ylabel("loss")


def _inlined(document: str, name: str, description: str) -> Markup:
    """The drawing without the XML head, its ids apart from those of other drawings, its ink the page's."""
    drawing = document[document.index("<svg") :]
    drawing = re.sub(r'(\bid="|="#|url\(#)', rf"\g<1>{name}-", drawing).replace(INK, "currentColor")
    start, rest = drawing.strip().split(">", 1)
    named = start.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" class="figure" ', 1)
    return Markup(f"{named}><title>{escape(description)}</title>{rest}")
