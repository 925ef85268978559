"""The pictures of the credit study's report as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..report.page import BLUE, GREEN, GREY, INK, ORANGE, SERIES, bare_rows, draw_losses, svg_drawing
from .tables import BALANCED_MODELS, MEASURES, evenness_models, from_uneven_to_even, party_name, shares_text

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes


# Colour and shape both tell the kinds of model apart.
STYLES: dict[str, dict[str, Any]] = {
    "federated": {"color": BLUE, "marker": "o"},
    "alone": {"color": GREEN, "marker": "s"},
    "central": {"color": ORANGE, "marker": "D"},
}
BALANCED_STYLES = {
    "central_scikit": STYLES["central"],
    "central": {"color": SERIES[3], "marker": "^"},
    "federated": STYLES["federated"],
}
LINES, MARKERS = ("-", "--", ":", "-."), "os^vPX"
KEPT, TOO_MANY, OTHERWISE = "kept", "dropped: too many are missing", "dropped for another reason"
FATES = {KEPT: BLUE, TOO_MANY: ORANGE, OTHERWISE: GREY}
LABEL_COLOURS = {"Charged Off": ORANGE, "Fully Paid": BLUE}


def missing_figure(missing: dict[str, float], dropped: dict[str, str], limit: float | None) -> Markup:
    """The share missing of every raw column, coloured by what became of it, in two columns of bars.

    Without a `limit` there is no line, and dropped columns are not told apart by reason.
    """
    from matplotlib.patches import Patch

    columns = sorted(missing, key=lambda name: (-missing[name], name))
    half = (len(columns) + 1) // 2
    too_many = {name for name in columns if limit is not None and missing[name] > limit}
    fates = {name: KEPT if name not in dropped else TOO_MANY if name in too_many else OTHERWISE for name in columns}

    def draw(axes: Sequence[Axes]) -> None:
        for axis, names in zip(axes, (columns[:half], columns[half:])):
            _draw_missing(axis, names, missing, fates, limit)
        handles = [Patch(color=colour, label=fate) for fate, colour in FATES.items() if fate in fates.values()]
        axes[0].figure.legend(handles=handles, loc="outside upper left", ncols=3)

    return svg_drawing("missing", "Share of missing values in each raw column", (9.6, 1.2 + 0.21 * half), draw, 2)


def _draw_missing(
    axis: Axes, names: Sequence[str], missing: dict[str, float], fates: dict[str, str], limit: float | None
) -> None:
    shares, colours = [100 * missing[name] for name in names], [FATES[fates[name]] for name in names]
    bars = axis.barh(range(len(names)), shares, 0.72, color=colours)
    axis.bar_label(bars, [_share_text(share) for share in shares], padding=3, fontsize=8.5)
    bare_rows(axis, names)
    # A bar of nothing has no colour: every row begins with a key of what became of the column.
    axis.scatter([-4] * len(names), range(len(names)), 22, colours, marker="s")
    axis.tick_params(axis="y", labelsize=9)
    axis.set_xlim(-8, 114)
    axis.set_xticks(range(0, 101, 20))
    axis.set_xlabel("missing values in percent")
    if limit is not None:
        axis.axvline(100 * limit, color=INK, linewidth=1.2, linestyle="--")
        axis.text(100 * limit, -0.5, f" limit {100 * limit:.3g} %", va="bottom", fontsize=9)


def _share_text(share: float) -> str:
    if share == 0:
        return "none"
    return "< 0.1 %" if share < 0.05 else f"{share:.1f} %"


def balance_figure(data: dict) -> Markup:
    """Rows of both classes before and after over-sampling at every party, in all and in the held-out part."""
    balance = data["balance"]
    groups = [(party_name(party), party["before"], party["after"]) for party in data["parties"]]
    groups.append(("all loans in one place", balance["train_before"], balance["train_after"]))
    bars = [(f"{name}, {when}", counts) for name, *both in groups for when, counts in zip(("before", "after"), both)]
    bars.append(("held-out loans", balance["test"]))

    def draw(axis: Axes) -> None:
        starts = [0] * len(bars)
        for label, colour in LABEL_COLOURS.items():
            counts = [counts[label] for _, counts in bars]
            axis.barh(range(len(bars)), counts, 0.72, left=starts, color=colour, label=label)
            starts = [start + count for start, count in zip(starts, counts)]
        for place, (_, counts) in enumerate(bars):
            end, text = (starts[place], place), _counts_text(counts)
            axis.annotate(text, end, (5, 0), textcoords="offset points", va="center", fontsize=9)
        bare_rows(axis, [name for name, _ in bars])
        axis.set_xlim(0, 1.42 * max(*starts, 1))
        axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.xaxis.get_major_locator().set_params(nbins=5)  # type: ignore[call-arg]
        axis.set_xlabel("training rows; of the last line, test rows")
        axis.figure.legend(loc="outside upper left", ncols=2)

    return svg_drawing("balance", "Rows of each class", (9.6, 1.3 + 0.3 * len(bars)), draw)


def _counts_text(counts: dict[str, int]) -> str:
    rows = max(1, sum(counts.values()))
    return " + ".join(f"{counts[label]:,} ({100 * counts[label] / rows:.0f} %)" for label in LABEL_COLOURS)


def model_figure(models: list[dict], measure: str, label: str, source: float | None = None) -> Markup:
    """One point with its confidence interval per model; `source` is the figure that the source prints for its own."""
    names = [model["title"] for model in models] + (["the source's (central)"] if source is not None else [])

    def draw(axis: Axes) -> None:
        for place, model in enumerate(models):
            interval, style = model["measures"][measure], STYLES[kind_of(model["name"])]
            _points(axis, [place], [interval], markersize=8, capsize=5, elinewidth=2, capthick=2, **style)
            _name_point(axis, interval["mean"], place)
            if model["name"] == "federated":
                axis.axvline(interval["mean"], color=BLUE, linewidth=1, linestyle=":", zorder=0)
        if source is not None:
            hollow: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": INK, "markeredgewidth": 1.4}
            axis.plot(source, len(models), marker="D", markersize=8, linestyle="", **hollow)
            _name_point(axis, source, len(models), 2)
        bare_rows(axis, names)
        axis.margins(x=0.14)
        axis.set_xlabel(label)

    return svg_drawing(f"models-{measure}", f"{label} of each model", (5.6, 1.2 + 0.52 * len(names)), draw)


def kind_of(name: str) -> str:
    """The kind of a model by its name: federated, alone or, of all others, central."""
    return next((kind for kind in STYLES if name.startswith(kind)), "central")


def _name_point(axis: Axes, value: float, place: float, digits: int = 3) -> None:
    axis.annotate(f"{value:.{digits}f}", (value, place), (0, 7), textcoords="offset points", ha="center", fontsize=9)


def _points(axis: Axes, places: Sequence[float], intervals: list[dict], upright: bool = False, **style: Any) -> None:
    """Means with whiskers as long as their intervals, where they have any."""
    means = [interval["mean"] for interval in intervals]
    reaches = None
    if all(interval["low"] is not None for interval in intervals):
        below = [interval["mean"] - interval["low"] for interval in intervals]
        reaches = [below, [interval["high"] - interval["mean"] for interval in intervals]]
    style = {"linestyle": "", "capsize": 4, "elinewidth": 1.8, "capthick": 1.8, **style}
    if upright:
        axis.errorbar(places, means, yerr=reaches, **style)
    else:
        axis.errorbar(means, places, xerr=reaches, **style)


def balancing_figure(lines: list[dict]) -> Markup:
    """AUC and specificity of each way to balance the classes, one point with its interval per model."""

    def draw(axes: Sequence[Axes]) -> None:
        for axis, measure in zip(axes, ("auc", "specificity")):
            for number, model in enumerate(BALANCED_MODELS):
                measured = [(place, line[model][measure]) for place, line in enumerate(lines) if line[model]]
                places, intervals = (
                    [place + 0.22 * (number - 1) for place, _ in measured],
                    [each for _, each in measured],
                )
                style = {"label": BALANCED_MODELS[model], "markersize": 7, **BALANCED_STYLES[model]}
                _points(axis, places, intervals, **style)
            bare_rows(axis, [line["title"] for line in lines])
            axis.set_xlabel(MEASURES[measure])
        axes[1].tick_params(axis="y", labelleft=False)
        axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=3)

    return svg_drawing("balancing", "AUC and specificity by the way to balance", (9.6, 1.2 + 0.6 * len(lines)), draw, 2)


def evenness_figure(lines: list[dict], measure: str, label: str) -> Markup:
    """A measure of the federated model and of each institution alone against their shares, the most uneven first."""
    ordered = from_uneven_to_even(lines)
    names = list(evenness_models(ordered[0]))

    def draw(axis: Axes) -> None:
        for number, name in enumerate(names):
            intervals = [evenness_models(line)[name][measure] for line in ordered]
            # Side by side: whiskers on top of each other could not be told apart.
            places = [place + 0.1 * (number - (len(names) - 1) / 2) for place in range(len(ordered))]
            style = {"color": SERIES[number], "marker": MARKERS[number], "linestyle": LINES[number % len(LINES)]}
            _points(axis, places, intervals, upright=True, label=name, linewidth=1.2, markersize=6, **style)
        axis.set_xticks(range(len(ordered)), [shares_text(line["shares"]) for line in ordered])
        axis.margins(x=0.07, y=0.12)
        axis.set_xlabel("shares of the institutions in percent")
        axis.set_ylabel(label)
        axis.figure.legend(loc="outside upper left", ncols=len(names), columnspacing=1.2)

    return svg_drawing(f"evenness-{measure}", f"{label} against evenness", (5.6, 4.2), draw)


def loss_figure(runs: list[dict], stop_epoch: int | None) -> Markup:
    """Loss per epoch of every run, and the epoch after which the rule of early stopping would have ended it."""

    def draw(axis: Axes) -> None:
        for number, run in enumerate(runs):
            style = {"color": SERIES[number % len(SERIES)], "linestyle": LINES[number % len(LINES)]}
            draw_losses(axis, run["losses"], label=run["name"], **style)
        if stop_epoch is not None:
            told = f"the rule would stop after epoch {stop_epoch}"
            axis.axvline(stop_epoch, color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), label=told)
        axis.margins(x=0.02)
        axis.figure.legend(loc="outside upper left", ncols=2)

    return svg_drawing("loss", "Loss per epoch", (9.6, 4.2), draw)
