"""The credit study's report: one HTML file that needs nothing else, for readers who do not run programs."""

from __future__ import annotations

import os
from collections import Counter

from fate_dp.privacy.private_files import atomic_write

from ..report.page import moment, percent, render
from . import private_result, tables
from .balancing import CLASS_WEIGHTS
from .figures import balance_figure, balancing_figure, evenness_figure, loss_figure, missing_figure, model_figure
from .models import CENTRAL_SCIKIT, FEDERATED, paired_difference
from .private_jobs import TRANSFER_EPSILON
from .private_result import privacy_figures
from .tables import difference_text

SMOTENC_FACTS = (
    "SMOTENC gives a synthetic loan the category that is most frequent among its first parent's neighbours, so that "
    "frequent categories become more frequent among charged-off loans than they are; SMOTENC-parents gives it the "
    "category of one of its two parents; plain SMOTE gives it fractions of both."
)


def balancing_sentences(result: dict) -> list[str]:
    """What the ways to balance the classes cost, and why none is private."""
    lines = result["balancing"]
    sentences = (costs(lines), SMOTENC_FACTS, without_balancing(lines, result["data"]), privacy(lines), left_out(lines))
    return [sentence for sentence in sentences if sentence]


def costs(lines: list[dict]) -> str:
    """What each method with synthetic rows changes for a central model, against the one with class weights."""
    weighted = next(line[CENTRAL_SCIKIT]["auc"] for line in lines if line["method"] == CLASS_WEIGHTS)
    changes = [
        f"{difference_text(paired_difference(line[CENTRAL_SCIKIT]['auc'], weighted))} with {line['title']}"
        for line in over_sampled(lines)
    ]
    if not changes:
        return ""
    return (
        "Against class weights, which make no synthetic loans, the AUC of scikit-learn's central regression "
        f"changes by {listed(changes)}."
    )


def without_balancing(lines: list[dict], data: dict) -> str:
    """Why accuracy and an untouched balance of classes say little here."""
    plain = next(line for line in lines if line["method"] == "none")
    test = data["balance"]["test"]
    return (
        f"Without balancing, scikit-learn's model recognises {percent(plain[CENTRAL_SCIKIT]['specificity']['mean'])} of the "
        f"charged-off loans and the federated one {percent(plain[FEDERATED]['specificity']['mean'])}, with an AUC of "
        f"{plain[CENTRAL_SCIKIT]['auc']['mean']:.3f} and {plain[FEDERATED]['auc']['mean']:.3f}. To call every loan Fully Paid "
        f"is right for {percent(test['Fully Paid'] / sum(test.values()))} of the held-out loans: accuracy says nothing "
        "about such a model."
    )


def privacy(lines: list[dict]) -> str:
    """What synthetic rows mean for a guarantee to records."""
    influences = [f"{line['largest_influence']} with {line['title']}" for line in over_sampled(lines)]
    measured = f" The most of them that one real loan had a part in are {listed(influences)}." if influences else ""
    return (
        "With synthetic loans of any kind the epsilon of a record is infinity, whatever training follows."
        f"{measured} The private way is class weights with a public maximum."
    )


def left_out(lines: list[dict]) -> str:
    """Which methods could not be used; empty where all could."""
    titles = [line["title"] for line in lines if not line[CENTRAL_SCIKIT]]
    return f"Some institution has too few charged-off loans for {listed(titles)}: not measured." if titles else ""


def over_sampled(lines: list[dict]) -> list[dict]:
    """The methods with synthetic rows that could be used."""
    return [line for line in lines if line["method"] not in ("none", CLASS_WEIGHTS) and line[CENTRAL_SCIKIT]]


def listed(texts: list[str]) -> str:
    """Texts with commas, and 'and' before the last."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


TITLE = "Credit risk: learning together, and what privacy costs"
BEST_ALONE = "federated - best alone"
VERDICT_KINDS = {True: "holds", False: "fails", None: "open"}
# Why the loss may jump at first under the optimiser of HomoLR.
LOSS_STARTS = {
    "rmsprop": "RMSprop's first step is ten times the learning rate in every coefficient that has a gradient, since "
    "its mean of squares starts at zero and 1 / sqrt(1 - 0.99) is 10: the loss may jump at first. "
}
# Of one claim, and of several.
COUNTED = {
    True: ("holds", "hold"),
    False: ("does not hold", "do not hold"),
    None: ("is not decided", "are not decided"),
}


def write_credit_report(result: dict, path: str | os.PathLike) -> None:
    """Write the report of a result, a dictionary as credit_result_schema.json describes it, to `path`.

    The file is there as a whole or not at all.
    """
    atomic_write(path, credit_report_html(result))


def credit_report_html(result: dict) -> str:
    """The report as one HTML document; the same result gives the same text."""
    models, lines = result["models"], result["balancing"]
    source = result["source_figures"].get("central", {}).get("charged_off_recall")
    seeds = len(lines[0][CENTRAL_SCIKIT]["auc"]["values"]) if lines else 0
    optimizer = result["settings"]["homo_lr"].get("optimizer")
    only_seed = len(result["settings"]["seeds"]) == 1
    return render(
        "credit_report_template.html",
        result=result,
        title=TITLE,
        of="the Lending Club credit study",
        created=moment(result["created"]),
        summary=summary(result),
        cards=cards(result),
        precision_of_figures=precision_of_figures(result),
        tables=tables,
        verdict_kinds=VERDICT_KINDS,
        whiskers="One seed: no intervals." if only_seed else "Bars are 95 % confidence intervals.",
        specificity_figure=model_figure(models, "specificity", "specificity", source),
        auc_figure=model_figure(models, "auc", "AUC"),
        ways=ways(models),
        balancing_sentences=balancing_sentences(result) if lines else [],
        splits="one split" if seeds == 1 else f"the same {seeds} splits",
        balancing_figure=balancing_figure,
        evenness_figure=evenness_figure,
        loss_figure=loss_figure,
        loss_start=LOSS_STARTS.get(optimizer, ""),
        stop_text=stop_text(result["early_stop"]),
        data_source=data_source(result["data"]),
        missing_figure=missing_figure,
        balance_figure=balance_figure(result["data"]),
        **private_parts(result["private"]),
    )


def private_parts(private: dict | None) -> dict:
    """What the template needs of the private study."""
    if private is None:
        return {"private": None}
    single = len(private["seeds"]) == 1
    seeds = "One seed: no intervals." if single else "Bars are 95 % confidence intervals."
    told = f"Means over the seeds {', '.join(map(str, private['seeds']))}." if not single else "They are of one seed."
    return {
        "private": private,
        "of_private": private_result,
        "transfer_epsilon": TRANSFER_EPSILON,
        "private_seeds": told,
        "private_whiskers": seeds,
        "privacy_figures": privacy_figures(private),
    }


def ways(models: list[dict]) -> dict[str, list[str]]:
    """How models were trained, each way with the titles of its models."""
    titles: dict[str, list[str]] = {}
    for model in models:
        titles.setdefault(model["how"], []).append(model["title"])
    return titles


def summary(result: dict) -> str:
    """What was done and what came out, in one paragraph."""
    data, federated = result["data"], measures_of(result, "federated")
    *shares, last = (f"{tables.shares_text([party['share']])} %" for party in data["parties"])
    return (
        f"One logistic regression was trained by {len(shares) + 1} institutions together. They hold "
        f"{', '.join(shares)} and {last} of {data['train_rows']:,} loans and showed each other none of them. Of the "
        f"charged-off loans among {data['test_rows']:,} held-out ones, this federated model recognises "
        f"{percent(federated['specificity']['mean'])} (specificity); its AUC is {federated['auc']['mean']:.3f}. "
        f"{against_best_alone(result)}{private_result.summary(result['private'])}{verdict_counts(result['verdicts'])}"
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
    return (
        f"Its specificity is {100 * abs(found['mean']):.1f} percentage points {word} that of the best institution "
        f"alone ({ends}). "
    )


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
    return (
        f"Figures are means over {seeds} seeds, each with its own split and over-sampling; behind ± and in "
        f"brackets stand 95 % confidence intervals (Student's t). The seeds share most of their loans, so for new "
        f"loans the intervals are somewhat too narrow."
    )


def cards(result: dict) -> list[tuple[str, str, str]]:
    """The key figures at the head of the page: what chooses their colour, the figure, and what it is."""
    federated, difference, data = measures_of(result, "federated"), best_alone(result), result["data"]
    figures = [
        ("private", f"{federated['auc']['mean']:.3f}", "AUC of the federated model"),
        ("private", percent(federated["specificity"]["mean"]), "of charged-off loans recognised (specificity)"),
        ("epsilon", f"{data['rows']:,}", f"loans after cleaning, {data['test_rows']:,} of them held out"),
    ]
    if difference is not None:
        text = "percentage points of specificity against the best institution alone"
        figures.insert(2, ("guest_only", points_text(difference["mean"]), text))
    return figures


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
    return (
        f"{data['source']} (SHA-256 {data['sha256']}): {data['rows']:,} loans after cleaning with "
        f"{data['features']} features; {data['train_rows']:,} for training, {data['test_rows']:,} held out."
    )
