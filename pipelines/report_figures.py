"""The pictures of a demo's report as inline SVG: the same numbers give the same bytes."""
from __future__ import annotations

from .svg import BLUE, GREEN, INK, ORANGE, SERIES, svg_drawing
from .tables import MODELS

# The line styles tell the models apart without colour.
STYLES = {
    "private": {"color": BLUE, "linestyle": "-"},
    "guest_only": {"color": GREEN, "linestyle": ":"},
    "not_private": {"color": ORANGE, "linestyle": "--"},
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

    return svg_drawing("loss", "Loss per epoch", (5.4, 4.2), draw)


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

    return svg_drawing("roc", "ROC curves on held-out records", (5.4, 4.2), draw)


def seconds_figure(tasks: list[dict]) -> str:
    """One bar per task, one colour per job."""
    jobs = list(dict.fromkeys(line["job"] for line in tasks))

    def draw(axis):
        for number, job in enumerate(jobs):
            bars = [(place, line["seconds"]) for place, line in enumerate(tasks) if line["job"] == job]
            places, seconds = zip(*bars)
            drawn = axis.barh(places, seconds, 0.7, color=SERIES[number % len(SERIES)], label=job)
            axis.bar_label(drawn, fmt="%.1f", padding=4, fontsize=10)
        axis.set_yticks(range(len(tasks)), [line["task"] for line in tasks])
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.tick_params(axis="y", length=0)
        axis.margins(x=0.08, y=0.02)
        axis.set_xlabel("seconds")
        axis.figure.legend(loc="outside upper left", ncols=max(1, min(4, len(jobs))))

    return svg_drawing("seconds", "Seconds per task", (9.6, 1.4 + 0.3 * max(1, len(tasks))), draw)
