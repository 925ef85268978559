"""The study's report: tables and pictures of a result, drawn in a terminal and as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.pipelines.jobs.text_tables import TextTable, print_table, print_text
from fate_dp.pipelines.report.page import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    SERIES,
    draw_losses,
    moment,
    percent,
    render,
    svg_drawing,
)

from .models import CLASS_MEASURES, FEDERATED
from .private_jobs import COLUMNS, ROWS, TRANSFER
from .result import BALANCING, PARTS, SHARES, TOGETHER, YARDSTICKS

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from rich.console import Console

TITLES = {
    TOGETHER: "Together, alone, and all in one place",
    BALANCING: "Ways to balance the classes",
    SHARES: "Even and uneven shares of two institutions",
    ROWS: "Private models, institutions split by rows",
    YARDSTICKS: "Without privacy, on the splits of the private models",
    COLUMNS: "Private models, bank and bureau split by columns",
    TRANSFER: "Transfer to a small institution",
}
MEASURES = {
    "auc": "AUC",
    "ks": "KS",
    "specificity": "specificity",
    "accuracy": "accuracy",
    "charged_off_f1": "Charged Off F1",
}
VERDICTS = {True: "holds", False: "does not hold", None: "not decided"}
VERDICT_KINDS = {True: "holds", False: "fails", None: "open"}
# The thesis that the study repeats, table of its central model.
SOURCE_FIGURES = dict(zip(CLASS_MEASURES, (0.28, 0.66, 0.40, 0.90, 0.65, 0.75), strict=True))
LABEL_COLOURS = {"Charged Off": ORANGE, "Fully Paid": BLUE}
MARKERS, LINES = "osD^vPX", ("-", "--", ":", "-.")


def bare_rows(axis: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart of horizontal bars or points, the first on top, without lines between them."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)


def interval_text(interval: dict) -> str:
    """The mean, and how far its confidence interval reaches where there is one."""
    mean = f"{interval['mean']:.3f}"
    return mean if interval["low"] is None else f"{mean} ± {interval['high'] - interval['mean']:.3f}"


def models_of(result: dict, part: str) -> list[dict]:
    return [each for each in result["models"] if each["part"] == part]


def notes_of(models: Sequence[dict]) -> dict[str, list[str]]:
    """What an epsilon protects, or how a model was trained, with the titles of the models that it is said of."""
    titles: dict[str, list[str]] = {}
    for each in models:
        told = titles.setdefault(each["note"], [])
        told += [each["title"]] if each["title"] not in told else []
    return titles


def model_table(models: Sequence[dict]) -> TextTable:
    """Measures of the models of a part, with their epsilon."""
    names = [name for name in MEASURES if all(name in each["measures"] for each in models)]
    headings = ("epsilon", *(MEASURES[name] for name in names))
    rows = [
        (
            each["title"],
            "-" if each["epsilon"] is None else f"{each['epsilon']:g}",
            *(interval_text(each["measures"][name]) for name in names),
        )
        for each in models
    ]
    return TextTable(("model", *headings), tuple(rows), frozenset(headings))


def class_table(models: Sequence[dict]) -> TextTable:
    """Precision, recall and F1 of each class, and below them what the source prints of its central model."""
    headings = tuple(name.replace("_", " ") for name in CLASS_MEASURES)
    rows = [(each["title"], *(interval_text(each["measures"][name]) for name in CLASS_MEASURES)) for each in models]
    rows.append(("the source prints (central)", *(f"{SOURCE_FIGURES[name]:.2f}" for name in CLASS_MEASURES)))
    return TextTable(("model", *headings), tuple(rows), frozenset(headings))


def verdict_table(result: dict) -> TextTable:
    rows = tuple((each["claim"], VERDICTS[each["holds"]], each["figures"]) for each in result["verdicts"])
    return TextTable(("claim", "verdict", "figures"), rows)


def ledger_table(result: dict) -> TextTable | None:
    """What every job of the first split charged to whom, equal lines of several parties put together."""
    lines: dict[tuple, list[str]] = {}
    for job in result["jobs"]:
        for line in (job["ledger"] or ()) if job["seed"] == result["settings"]["seeds"][0] else ():
            numbers = (number_text(line[name]) for name in ("epsilon", "delta"))
            told = (job["name"], line["mechanism"], line["unit"], line["relation"] or "-", *numbers)
            lines.setdefault(told, []).append(line["party"])
    headings = ("job", "mechanism", "unit", "relation", "epsilon", "delta", "parties")
    rows = tuple((*told, ", ".join(dict.fromkeys(parties))) for told, parties in lines.items())
    return TextTable(headings, rows, frozenset(("epsilon", "delta"))) if rows else None


def number_text(value: Any) -> str:
    """A ledger's number to four digits; a word, such as infinity, as it is."""
    return value if isinstance(value, str) else "-" if value is None else f"{value:.4g}"


def step_table(data: dict) -> TextTable:
    """What each step of the preparation left."""
    rows = tuple((each["name"], f"{each['rows']:,}", str(each["columns"])) for each in data["steps"])
    return TextTable(("after", "rows", "columns"), rows, frozenset(("rows", "columns")))


def reason_table(data: dict) -> TextTable:
    """Dropped columns by reason, the reason that took most first."""
    names: dict[str, list[str]] = {}
    for column, reason in data["dropped_columns"].items():
        names.setdefault(reason, []).append(column)
    ordered = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = tuple((reason, str(len(columns)), ", ".join(columns)) for reason, columns in ordered)
    return TextTable(("reason", "columns", "names"), rows, frozenset(("columns",)))


def print_result(result: dict, console: Console) -> None:
    """Print every part's models and the verdicts on a rich console."""
    if result["data"]["synthetic"]:
        print_text(console, "All figures are of generated loans: they say nothing about Lending Club's.")
    for part in PARTS:
        models = models_of(result, part)
        if models:
            print_table(console, f"{TITLES[part]}, on held-out loans", model_table(models))
    print_table(console, "What was claimed, and what holds", verdict_table(result))


# The page.


def report_html(result: dict) -> str:
    """The report as one HTML document; the same result gives the same text."""
    folder, data = Path(__file__).parent, result["data"]
    return render(
        "report.html",
        folder,
        result=result,
        title="Credit risk: learning together, and what privacy costs",
        of="the Lending Club credit study",
        created=moment(result["created"]),
        summary=summary(result),
        cards=cards(result),
        precision_of_figures=precision_of_figures(result),
        verdicts=[(VERDICT_KINDS[each["holds"]], VERDICTS[each["holds"]], each) for each in result["verdicts"]],
        parts=[(part, TITLES[part], models, notes_of(models)) for part in PARTS if (models := models_of(result, part))],
        tables={"models": model_table, "classes": class_table},
        figure=part_figure,
        ledger=ledger_table(result),
        steps=step_table(data),
        reasons=reason_table(data),
        pictures={"missing": missing_figure(result), "balance": balance_figure(data), "loss": loss_figure(result)},
        stop_text=stop_text(result),
    )


def summary(result: dict) -> str:
    """What was done and what came out, in one paragraph."""
    data = result["data"]
    federated = next(each["measures"] for each in result["models"] if each["key"] == FEDERATED)
    told = (
        f"One logistic regression was trained by {len(data['balance']) - 1} institutions together, which showed each other none of "
        f"{data['train_rows']:,} loans. Of the charged-off loans among {data['test_rows']:,} held-out ones, this federated model "
        f"recognises {percent(federated['specificity']['mean'])} (specificity); its AUC is {federated['auc']['mean']:.3f}."
    )
    private = [each for each in result["models"] if each["epsilon"] is not None]
    if private:
        least = min(each["epsilon"] for each in private)
        best = max(
            (each for each in private if each["epsilon"] == least), key=lambda each: each["measures"]["auc"]["mean"]
        )
        told += (
            f" With differential privacy at epsilon {least:g} the best held-out AUC is {best['measures']['auc']['mean']:.3f} "
            f"({best['title']})."
        )
    counts = Counter(VERDICTS[each["holds"]] for each in result["verdicts"])
    return (
        f"{told} Of {len(result['verdicts'])} claims: {', '.join(f'{count} {word}' for word, count in counts.items())}."
    )


def precision_of_figures(result: dict) -> str:
    """How far the figures can be trusted."""
    seeds = len(result["settings"]["seeds"])
    if seeds == 1:
        return "One seed, so one split and one run: there are no intervals, and small differences may be chance."
    return (
        f"Figures are means over splits, {seeds} of them for models without privacy; behind ± and in brackets stand 95 % confidence "
        "intervals (Student's t). Splits share most of their loans, so for new loans the intervals are somewhat too narrow."
    )


def cards(result: dict) -> list[tuple[str, str, str]]:
    """The key figures at the head of the page: what chooses their colour, the figure, and what it is."""
    federated, data = next(each["measures"] for each in result["models"] if each["key"] == FEDERATED), result["data"]
    return [
        ("private", f"{federated['auc']['mean']:.3f}", "AUC of the federated model"),
        ("private", percent(federated["specificity"]["mean"]), "of charged-off loans recognised (specificity)"),
        ("epsilon", f"{data['rows']:,}", f"loans after cleaning, {data['test_rows']:,} of them held out"),
    ]


def stop_text(result: dict) -> str:
    """Where the rule of early stopping would have ended the training."""
    settings, epoch = result["settings"]["homo_lr"], result["stop_epoch"]
    ends = (
        "would not have ended the training" if epoch is None else f"would have ended the training after epoch {epoch}"
    )
    return f"FATE 1.x's rule ({settings['early_stop']}, tol {settings['tol']:g}) {ends}; {settings['epochs']} epochs were run."


# The pictures, as inline SVG.


def part_figure(part: str, models: Sequence[dict]) -> Markup:
    """Held-out AUC of a part's models with intervals: against epsilon where there is one, else one below the other."""
    if any(each["epsilon"] is not None for each in models):
        return _figure_by_epsilon(part, models)

    def draw(axis: Axes) -> None:
        for place, each in enumerate(models):
            colour = ORANGE if each["key"] == FEDERATED else BLUE
            _whiskers(axis, [place], [each["measures"]["auc"]], sideways=True, color=colour, marker="o", markersize=7)
        bare_rows(axis, [each["title"] for each in models])
        axis.set_xlabel("held-out AUC")

    return svg_drawing(f"auc-{part}", f"AUC: {TITLES[part]}", (7.2, 1.2 + 0.34 * len(models)), draw)


def _figure_by_epsilon(part: str, models: Sequence[dict]) -> Markup:
    epsilons = sorted({each["epsilon"] for each in models if each["epsilon"] is not None})

    def draw(axis: Axes) -> None:
        for number, key in enumerate(dict.fromkeys(each["key"] for each in models)):
            found = [each for each in models if each["key"] == key]
            style: dict[str, Any] = {"color": SERIES[number % len(SERIES)], "label": found[0]["title"]}
            if found[0]["epsilon"] is None:
                axis.axhline(found[0]["measures"]["auc"]["mean"], linestyle=LINES[1], zorder=0, **style)
                continue
            found.sort(key=lambda each: each["epsilon"])
            # Side by side, since whiskers on top of each other could not be told apart.
            places = [each["epsilon"] * 1.03 ** (number - 2) for each in found]
            measured = [each["measures"]["auc"] for each in found]
            _whiskers(axis, places, measured, marker=MARKERS[number % len(MARKERS)], linestyle="-", **style)
        axis.set_xscale("log")
        axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axis.minorticks_off()
        axis.set_xlabel("epsilon (nats)")
        axis.set_ylabel("held-out AUC")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=9, ncols=2)

    return svg_drawing(f"privacy-{part}", f"Held-out AUC by epsilon: {TITLES[part]}", (7.2, 6.0), draw)


def _whiskers(axis: Axes, places: list, intervals: list[dict], sideways: bool = False, **style: Any) -> None:
    """Means with whiskers as long as their intervals, where they have any."""
    means = [each["mean"] for each in intervals]
    reaches = None if intervals[0]["low"] is None else [each["high"] - each["mean"] for each in intervals]
    style = {"linestyle": "", "capsize": 4, **style}
    if sideways:
        axis.errorbar(means, places, xerr=reaches, **style)
    else:
        axis.errorbar(places, means, yerr=reaches, **style)


def missing_figure(result: dict) -> Markup:
    """The share missing of every raw column, in two columns of bars, with the limit from which a column is dropped."""
    missing, limit = result["data"]["missing"], result["settings"]["preparation"]["most_missing"]
    columns = sorted(missing, key=lambda name: (-missing[name], name))
    half = (len(columns) + 1) // 2

    def draw(axes: Sequence[Axes]) -> None:
        for axis, names in zip(axes, (columns[:half], columns[half:])):
            colours = [GREY if name in result["data"]["dropped_columns"] else BLUE for name in names]
            axis.barh(range(len(names)), [100 * missing[name] for name in names], 0.72, color=colours)
            bare_rows(axis, names)
            axis.set_xlim(0, 100)
            axis.set_xlabel("missing values in percent; grey columns were dropped")
            axis.axvline(100 * limit, color=INK, linewidth=1.2, linestyle="--")

    return svg_drawing("missing", "Share of missing values in each raw column", (9.6, 1.2 + 0.21 * half), draw, 2)


def balance_figure(data: dict) -> Markup:
    """Rows of both classes before and after over-sampling at every party, in all and in the held-out part."""
    bars = [
        (f"{name}, {when}", counts)
        for name, both in data["balance"].items()
        for when, counts in zip(("before", "after"), both)
    ]
    bars.append(("held-out loans", data["held_out"]))

    def draw(axis: Axes) -> None:
        starts = [0] * len(bars)
        for label, colour in LABEL_COLOURS.items():
            counts = [counts[label] for _, counts in bars]
            drawn = axis.barh(range(len(bars)), counts, 0.72, left=starts, color=colour, label=label)
            axis.bar_label(drawn, [f"{count:,}" for count in counts], label_type="center", fontsize=8)
            starts = [start + count for start, count in zip(starts, counts)]
        bare_rows(axis, [name for name, _ in bars])
        axis.set_xlabel("training rows; of the last line, test rows")
        axis.figure.legend(loc="outside upper left", ncols=2)

    return svg_drawing("balance", "Rows of each class", (9.6, 1.3 + 0.3 * len(bars)), draw)


def loss_figure(result: dict) -> Markup:
    """Loss per epoch of every run, and the epoch after which the rule of early stopping would have ended it."""

    def draw(axis: Axes) -> None:
        for number, (name, losses) in enumerate(result["losses"].items()):
            draw_losses(
                axis, losses, label=name, color=SERIES[number % len(SERIES)], linestyle=LINES[number % len(LINES)]
            )
        if result["stop_epoch"] is not None:
            axis.axvline(result["stop_epoch"], color=INK, linewidth=1.2, linestyle=":")
        axis.margins(x=0.02)
        axis.figure.legend(loc="outside upper left", ncols=2)

    return svg_drawing("loss", "Loss per epoch", (9.6, 4.2), draw)
