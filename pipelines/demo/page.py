"""The demo's report: one HTML file that needs nothing else, for readers who do not run programs."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.privacy.mechanisms.randomized_response import flip_probability, keep_probability
from fate_dp.privacy.private_files import atomic_write

from ..jobs import text_tables as tables
from ..jobs.text_tables import MODELS, epsilon_text
from ..report.page import BLUE, GREEN, INK, ORANGE, draw_losses, moment, percent, render, svg_drawing

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes


# The line styles tell the models apart without colour.
STYLES: dict[str, dict[str, Any]] = {
    "private": {"color": BLUE, "linestyle": "-"},
    "guest_only": {"color": GREEN, "linestyle": ":"},
    "not_private": {"color": ORANGE, "linestyle": "--"},
}


def loss_figure(models: dict[str, Any]) -> Markup:
    """Loss per epoch of every model that has one."""

    def draw(axis: Axes) -> None:
        for name in MODELS:
            if models[name]["loss_per_epoch"]:
                draw_losses(axis, models[name]["loss_per_epoch"], label=models[name]["title"], **STYLES[name])
        axis.legend(loc="upper right")

    return svg_drawing("loss", "Loss per epoch", (5.4, 4.2), draw)


def roc_figure(models: dict[str, Any]) -> Markup:
    """ROC curves of all models and the diagonal of a guess."""

    def draw(axis: Axes) -> None:
        axis.plot([0, 1], [0, 1], color=INK, alpha=0.35, linewidth=1)
        for name in MODELS:
            roc, auc = models[name]["roc"], models[name]["metrics"]["auc"]
            axis.plot(roc["fpr"], roc["tpr"], label=f"{models[name]['title']} (AUC {auc:.3f})", **STYLES[name])
        axis.set_xlabel("false positive rate")
        axis.set_ylabel("true positive rate")
        axis.legend(loc="lower right")

    return svg_drawing("roc", "ROC curves on held-out records", (5.4, 4.2), draw)


TITLE = "What label privacy costs, and what it protects"


def write_report(result: dict[str, Any], path: str | os.PathLike) -> None:
    """Write the report of a result, a dictionary as result_schema.json describes it, to `path`, whole or not at all."""
    atomic_write(path, report_html(result))


def report_html(result: dict[str, Any]) -> str:
    """The report as one HTML document; the same result gives the same text."""
    private = result["models"]["private"]
    flip = flip_probability(private["epsilon"])
    return render(
        "report_template.html",
        Path(__file__).parent,
        result=result,
        title=TITLE,
        of="result of the demo",
        created=moment(result["created"]),
        summary=summary(result),
        cards=cards(result["models"]),
        precision_of_figures="The intervals are of 95 %; differences within them are chance.",
        protocol=result["privacy"]["protocol"],
        protection=protection,
        tables=tables,
        explanation=explanation,
        loss_figure=loss_figure(result["models"]),
        roc_figure=roc_figure(result["models"]),
        epsilon=epsilon_text(private["epsilon"]),
        flip=percent(flip),
        keep=percent(1 - flip),
        odds=f"{math.exp(private['epsilon']):.1f}",
    )


def summary(result: dict[str, Any]) -> str:
    """What was done and what came out, in one paragraph."""
    data, models = result["data"], result["models"]
    guest, *hosts = data["parties"]
    others = " and ".join(f"{host['party']} ({host['features']} features)" for host in hosts)
    accuracy = {name: models[name]["metrics"]["accuracy"] for name in MODELS}
    private, rows = models["private"], models["private"]["metrics"]["rows"]
    return (
        f"{guest['party'].capitalize()} (the labels and {guest['features']} features) and {others} trained one "
        f"logistic regression on {data['common_rows']['train']} common records of {data['name']}, without "
        f"showing each other their data. Beforehand the guest flipped some of its labels at random, at epsilon "
        f"{epsilon_text(private['epsilon'])}: nobody else to whom a label was a coin toss can be more than "
        f"{percent(keep_probability(private['epsilon']))} sure of it afterwards. On {rows} held-out records the model is "
        f"{comparison(accuracy['private'], accuracy['guest_only'], rows)} one of the guest's own features on the same flipped "
        f"labels, and {comparison(accuracy['private'], accuracy['not_private'], rows)} the same training without any flips, "
        "as far as so few can tell."
    )


def error_of(accuracy: float, rows: int) -> float:
    """The standard error of a share of right answers, of one wrong and one right answer more than there were."""
    smoothed = (accuracy * rows + 1) / (rows + 2)
    return math.sqrt(smoothed * (1 - smoothed) / rows)


def comparison(accuracy: float, other: float, rows: int) -> str:
    """Two shares of right answers in words, to be followed by what is compared with; within two standard errors they are one."""
    points = 100 * (accuracy - other)
    if abs(points) <= 200 * math.hypot(error_of(accuracy, rows), error_of(other, rows)):
        return "as good as"
    return f"{abs(points):.0f} percentage points {'better' if points > 0 else 'worse'} than"


def protection(privacy: dict[str, Any], observer: str) -> str:
    """What protects the others from an observer of the protocol that ran, and how much of what is counted it got."""
    told = next(view["protected_by"] for view in privacy["protocol"]["views"] if view["observer"] == observer)
    for release in privacy["score_releases"] if observer == "guest" else ():
        told += (
            f" By the ledger of {release['party']}, over all jobs, the guest got the joint scores of the training records of "
            f"{release['table']} from {release['released']} of at most {release['cap']} models."
        )
    return told


def cards(models: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The key figures at the head of the page: what chooses their colour, the figure, and what it is."""
    found = [("epsilon", f"ε = {epsilon_text(models['private']['epsilon'])}", "of each training label, at delta 0")]
    for name in MODELS:
        accuracy, rows = (models[name]["metrics"][key] for key in ("accuracy", "rows"))
        text = f"± {196 * error_of(accuracy, rows):.1f} points: accuracy, {models[name]['title']}"
        found.append((name, percent(accuracy), text))
    return found


def explanation(entry: dict[str, Any]) -> str:
    pending = f" {entry['pending']} uses are not confirmed, and charged all the same." if entry["pending"] else ""
    charged = "Counted towards a cap" if entry["counted"] else "Not counted towards a cap"
    return (
        f"{entry['note'][:1].upper()}{entry['note'][1:]}. {charged}; relation {entry['relation']}.{pending} "
        f"First used {moment(entry['first_time'])}, last {moment(entry['last_time'])}; "
        f"jobs {', '.join(entry['jobs']) or 'none'}."
    )
