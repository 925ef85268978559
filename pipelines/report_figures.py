"""The pictures of a demo's report as inline SVG: the same numbers give the same bytes."""
from __future__ import annotations

import html
import io
import re

from .tables import MODELS

# Readable on white and on black; the line styles tell the models apart without colour.
STYLES = {
    "private": {"color": "#2f7ed8", "linestyle": "-"},
    "guest_only": {"color": "#2e9366", "linestyle": ":"},
    "not_private": {"color": "#c96f1a", "linestyle": "--"},
}
JOB_COLOURS = ("#2f7ed8", "#c96f1a", "#2e9366", "#8a63c9", "#b8505f", "#5d7f8c")
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


def loss_figure(models: dict) -> str:
    """Loss per epoch of every model that has one."""

    def draw(axis):
        for name in MODELS:
            losses = models[name]["loss_per_epoch"]
            if losses:
                axis.plot(range(1, len(losses) + 1), losses, label=models[name]["title"], **STYLES[name])
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_xlabel("epoch")
        axis.set_ylabel("loss")
        axis.legend(loc="upper right")

    return _svg("loss", "Loss per epoch", (5.4, 4.2), draw)


def roc_figure(models: dict) -> str:
    """ROC curves of all models and the diagonal of a guess."""

    def draw(axis):
        axis.plot([0, 1], [0, 1], color=INK, alpha=0.35, linewidth=1)
        for name in MODELS:
            roc, auc = models[name]["roc"], models[name]["metrics"]["auc"]
            axis.plot(roc["fpr"], roc["tpr"], label=f"{models[name]['title']} (AUC {auc:.3f})", **STYLES[name])
        axis.set_xlabel("false positive rate")
        axis.set_ylabel("true positive rate")
        axis.legend(loc="lower right")

    return _svg("roc", "ROC curves on held-out records", (5.4, 4.2), draw)


def seconds_figure(tasks: list[dict]) -> str:
    """One bar per task, one colour per job."""
    jobs = list(dict.fromkeys(line["job"] for line in tasks))

    def draw(axis):
        for number, job in enumerate(jobs):
            bars = [(place, line["seconds"]) for place, line in enumerate(tasks) if line["job"] == job]
            places, seconds = zip(*bars)
            drawn = axis.barh(places, seconds, 0.7, color=JOB_COLOURS[number % len(JOB_COLOURS)], label=job)
            axis.bar_label(drawn, fmt="%.1f", padding=4, fontsize=10)
        axis.set_yticks(range(len(tasks)), [line["task"] for line in tasks])
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
        axis.margins(x=0.08, y=0.02)
        axis.set_xlabel("seconds")
        axis.figure.legend(loc="outside upper left", ncols=max(1, min(4, len(jobs))))

    return _svg("seconds", "Seconds per task", (9.6, 1.4 + 0.3 * max(1, len(tasks))), draw)


def _svg(name: str, description: str, size: tuple[float, float], draw) -> str:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with rc_context({**SETTINGS, "svg.hashsalt": name}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axis = figure.subplots()
        axis.grid(True)
        axis.set_axisbelow(True)
        draw(axis)
        figure.savefig(buffer, format="svg", transparent=True,
                       metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inlined(buffer.getvalue(), name, description)


def _inlined(document: str, name: str, description: str) -> str:
    """The drawing without the XML head, its ids apart from those of other drawings, its ink the page's."""
    drawing = document[document.index("<svg"):]
    drawing = re.sub(r'(\bid="|="#|url\(#)', rf"\g<1>{name}-", drawing).replace(INK, "currentColor")
    label = html.escape(description)
    return drawing.replace("<svg ", f'<svg role="img" aria-label="{label}" class="figure" ', 1).strip()
