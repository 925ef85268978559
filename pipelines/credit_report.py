"""The credit study's report: one HTML file that needs nothing else, for readers who do not run programs."""
from __future__ import annotations

import html
import os
from collections import Counter

from . import credit_tables as tables
from .credit_report_balancing import balancing_html
from .credit_report_figures import balance_figure, evenness_figure, loss_figure, missing_figure, model_figure
from .page import card_html, filled, moment, percent, table_html
from .tables import TextTable
from .whole_file import write_whole

TITLE = "Credit risk: learning together, alone, and in one place"
BEST_ALONE = "federated - best alone"
VERDICT_KINDS = {True: "holds", False: "fails", None: "open"}
LOSS_STARTS = {
    "rmsprop": "RMSprop's first step is ten times the learning rate in every coefficient that has a gradient, since "
               "its mean of squares starts at zero and 1 / sqrt(1 - 0.99) is 10: the loss may jump at first. ",
}  # fmt: skip
# Of one claim, and of several.
COUNTED = {
    True: ("holds", "hold"), False: ("does not hold", "do not hold"), None: ("is not decided", "are not decided"),
}  # fmt: skip


def write_credit_report(result: dict, path: str | os.PathLike) -> None:
    """Write the report of a result, a dictionary as credit_result_schema.json describes it, to `path`.

    The file is there as a whole or not at all.
    """
    write_whole(path, credit_report_html(result))


def credit_report_html(result: dict) -> str:
    """The report as one HTML document; the same result gives the same text."""
    settings, models = result["settings"], result["models"]
    source = result["source_figures"].get("central", {}).get("charged_off_recall")
    texts = {
        "title": TITLE,
        "created": moment(result["created"]),
        "summary": summary(result),
        "precision_of_figures": precision_of_figures(result),
        "whiskers": whiskers(result),
        "threshold": f"{settings['threshold']:g}",
        "data_source": data_source(result["data"]),
        "total": f"{result['seconds']['total']:.0f}",
        **{name: result[name] for name in ("fate_dp_version", "fate_version", "schema")},
    }
    drawn = {
        "banner": banner(result["data"]),
        "cards": cards(result),
        "verdicts": verdicts_html(result["verdicts"]),
        "specificity_figure": model_figure(models, "specificity", "specificity", source),
        "auc_figure": model_figure(models, "auc", "AUC"),
        "paired": paired_html(result),
        "how": how_html(models),
        "balancing": balancing_html(result, whiskers(result)),
        "evenness": evenness_html(result),
        "flow": flow_html(result),
        "notices": list_html(result["data"]["notices"]),
        "missing": missing_html(result),
        "dropped": dropped_html(result),
        "balance_figure": balance_figure(result["data"]),
        **{f"{name}_table": table_html(getattr(tables, f"{name}_table")(result))
           for name in ("model", "class", "step", "party", "settings", "time")},
    }
    return filled("credit_report_template.html", texts, drawn)


def how_html(models: list[dict]) -> str:
    """How each model was trained; models that were trained alike stand together."""
    titles: dict[str, list[str]] = {}
    for model in models:
        titles.setdefault(model["how"], []).append(model["title"])
    return "\n".join(
        f"<dt>{html.escape(', '.join(names))}</dt><dd>{html.escape(how)}</dd>" for how, names in titles.items())


def summary(result: dict) -> str:
    """What was done and what came out, in one paragraph."""
    data, federated = result["data"], measures_of(result, "federated")
    *shares, last = (f"{tables.shares_text([party['share']])} %" for party in data["parties"])
    return (
        f"One logistic regression was trained by {len(shares) + 1} institutions together. They hold "
        f"{', '.join(shares)} and {last} of {data['train_rows']:,} loans and showed each other none of them. Of the "
        f"charged-off loans among {data['test_rows']:,} held-out ones, this federated model recognises "
        f"{percent(federated['specificity']['mean'])} (specificity); its AUC is {federated['auc']['mean']:.3f}. "
        f"{against_best_alone(result)}{verdict_counts(result['verdicts'])}"
    )


def measures_of(result: dict, name: str) -> dict:
    return next(model["measures"] for model in result["models"] if model["name"] == name)


def against_best_alone(result: dict) -> str:
    """The difference in specificity to the best institution alone as a sentence; empty where it was not measured."""
    found = best_alone(result)
    if found is None:
        return ""
    if found["low"] is None:
        return f"Its specificity is {points_text(found['mean'])} percentage points from the best institution's alone. "
    ends = f"{points_text(found['low'])} to {points_text(found['high'])}"
    if found["low"] <= 0 <= found["high"]:
        return f"No difference in specificity to the best institution alone can be told from chance ({ends} points). "
    word = "above" if found["mean"] > 0 else "below"
    return (f"Its specificity is {100 * abs(found['mean']):.1f} percentage points {word} that of the best institution "
            f"alone ({ends}). ")


def best_alone(result: dict) -> dict | None:
    lines = (line["measures"].get("specificity") for line in result["paired"] if line["name"] == BEST_ALONE)
    return next(lines, None)


def points_text(difference: float) -> str:
    return tables.signed(100 * difference, 1)


def verdict_counts(verdicts: list[dict]) -> str:
    """How many of the claims hold, as a sentence; empty where nothing was claimed."""
    if not verdicts:
        return ""
    counts = Counter(verdict["holds"] for verdict in verdicts)
    found = [f"{counts[holds]} {words[counts[holds] > 1]}" for holds, words in COUNTED.items() if counts[holds]]
    claims = "1 claim that was" if len(verdicts) == 1 else f"{len(verdicts)} claims that were"
    return f"Of {claims} checked, {', '.join(found)}."


def precision_of_figures(result: dict) -> str:
    """How far the figures can be trusted."""
    seeds = len(result["settings"]["seeds"])
    if seeds == 1:
        return "One seed, so one split and one run: there are no intervals, and small differences may be chance."
    return (f"Figures are means over {seeds} seeds, each with its own split and over-sampling; behind ± and in "
            f"brackets stand 95 % confidence intervals (Student's t). The seeds share most of their loans, so for new "
            f"loans the intervals are somewhat too narrow.")


def whiskers(result: dict) -> str:
    """What the bars in the figures are."""
    return "One seed: no intervals." if len(result["settings"]["seeds"]) == 1 else "Bars are 95 % confidence intervals."


def banner(data: dict) -> str:
    if not data["synthetic"]:
        return ""
    return ('<div class="limits"><p><b>Generated loans.</b> All figures in this report are of synthetic rows that '
            "follow the raw file's schema. They show that everything runs; about real loans they say nothing."
            "</p></div>")


def cards(result: dict) -> str:
    """The key figures at the head of the page."""
    federated, difference, data = measures_of(result, "federated"), best_alone(result), result["data"]
    figures = [
        ("private", f"{federated['auc']['mean']:.3f}", "AUC of the federated model"),
        ("private", percent(federated["specificity"]["mean"]), "of charged-off loans recognised (specificity)"),
        ("epsilon", f"{data['rows']:,}", f"loans after cleaning, {data['test_rows']:,} of them held out"),
    ]
    if difference is not None:
        text = "percentage points of specificity against the best institution alone"
        figures.insert(2, ("guest_only", points_text(difference["mean"]), text))
    return "\n".join(card_html(*figure) for figure in figures)


def verdicts_html(verdicts: list[dict]) -> str:
    if not verdicts:
        return "<p>Nothing was claimed in this run.</p>"
    lines = "".join(
        f'<li class="{VERDICT_KINDS[verdict["holds"]]}"><b>{tables.VERDICTS[verdict["holds"]]}</b>'
        f'<div>{html.escape(verdict["claim"])}<span>{html.escape(verdict["figures"])}</span></div></li>'
        for verdict in verdicts)
    return f'<ul class="verdicts">{lines}</ul>'


def paired_html(result: dict) -> str:
    if not result["paired"]:
        return ""
    note = ("Differences are taken seed by seed, so that what both models share cancels. The best institution alone "
            "is the one that does best on the held-out loans themselves: chosen afterwards, in its favour.")
    return f'<h3>Differences</h3>{_scrolled(tables.paired_table(result))}<p class="quiet">{note}</p>'


def evenness_html(result: dict) -> str:
    lines = result["evenness"]
    if not lines:
        return "<p>How the model depends on the evenness of the shares was not part of this run.</p>"
    pictures = "".join(
        f"<figure>{evenness_figure(lines, name, label)}<figcaption>{label[:1].upper()}{label[1:]}. {whiskers(result)}"
        f"</figcaption>{_scrolled(tables.evenness_table(result, name))}</figure>"
        for name, label in tables.EVENNESS.items())
    text = ("The same number of training loans, shared out between institutions from unevenly to evenly. The source "
            "finds the model the better the more even the shares are.")
    return f'<p>{text}</p><div class="pictures">{pictures}</div>'


def flow_html(result: dict) -> str:
    """The runs on FATE-Flow and the course of the loss."""
    if result["flow"]:
        text = ("These runs went through FATE-Flow with all its parties. The last two lines say how far weights and "
                "scores are, at most, from the simulation that runs the same arithmetic without transport. KS by "
                "FATE's Evaluation looks at 100 thresholds, ours at all of them: it is at most ours.")
        runs = f"<p>{text}</p>{_scrolled(tables.flow_table(result))}"
    else:
        runs = ("<p>Nothing ran through FATE-Flow here: all federated figures are of the arithmetic of its HomoLR "
                "without transport.</p>")
    start = LOSS_STARTS.get(result["settings"]["homo_lr"].get("optimizer"), "")
    return runs + loss_html(result["loss"], result["early_stop"], start)


def loss_html(runs: list[dict], early_stop: dict | None, start: str) -> str:
    if not runs:
        return "<p>No losses were recorded.</p>"
    stop_epoch = early_stop["epoch"] if early_stop else None
    caption = ("Mean cross-entropy of the training rows in each epoch, without the penalty, which pulls the weights back. "
               f"{start}{stop_text(early_stop)}")
    return f"<figure>{loss_figure(runs, stop_epoch)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def stop_text(early_stop: dict | None) -> str:
    """Where the rule of early stopping would have ended the training."""
    if early_stop is None:
        return "No rule of early stopping was looked at."
    rule = f"The rule of early stopping ({early_stop['rule']}, tol {early_stop['tol']:g})"
    ran = f"{early_stop['epochs_run']} epochs were run"
    if early_stop["epoch"] is None:
        return f"{rule} would not have ended the training: {ran}."
    return f"{rule} would have ended the training after epoch {early_stop['epoch']}; {ran}."


def data_source(data: dict) -> str:
    return (f"{data['source']} (SHA-256 {data['sha256']}): {data['rows']:,} loans after cleaning with "
            f"{data['features']} features; {data['train_rows']:,} for training, {data['test_rows']:,} held out.")


def missing_html(result: dict) -> str:
    data, limit = result["data"], result["settings"].get("most_missing")
    if not data["missing"]:
        return "<p>Missing values were not counted.</p>"
    drawing = missing_figure(data["missing"], data["dropped_columns"], limit)
    rule = "" if limit is None else f" A column with more than {percent(limit)} missing is dropped."
    caption = f"Share of missing values in each of {len(data['missing'])} raw columns.{rule}"
    return f"<figure>{drawing}<figcaption>{html.escape(caption)}</figcaption></figure>"


def dropped_html(result: dict) -> str:
    if not result["data"]["dropped_columns"]:
        return "<p>No column was dropped.</p>"
    return _scrolled(tables.reason_table(result))


def list_html(texts: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def _scrolled(table: TextTable) -> str:
    return f'<div class="scroll">{table_html(table)}</div>'
