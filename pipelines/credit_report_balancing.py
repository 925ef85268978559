"""The report's section on the ways to balance the two classes: what they cost, in a figure, a table and sentences."""
from __future__ import annotations

import html

from .credit_report_figures import balancing_figure
from .credit_tables import balancing_table, difference_text
from .intervals import paired_difference
from .page import percent, table_html

SCIKIT, FEDERATED, WEIGHTS = "central_scikit", "federated", "class_weights"
SMOTENC_FACTS = (
    "SMOTENC gives a synthetic loan the category that is most frequent among its first parent's neighbours, so that "
    "frequent categories become more frequent among charged-off loans than they are; SMOTENC-parents gives it the "
    "category of one of its two parents; plain SMOTE gives it fractions of both."
)


def balancing_html(result: dict, whiskers: str) -> str:
    """The section below its heading."""
    lines = result["balancing"]
    if not lines:
        return "<p>Ways to balance the classes were not compared in this run.</p>"
    sentences = (costs(lines), SMOTENC_FACTS, without_balancing(lines, result["data"]), privacy(lines), left_out(lines))
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences if sentence)
    seeds = len(lines[0][SCIKIT]["auc"]["values"])
    splits = "one split" if seeds == 1 else f"the same {seeds} splits"
    caption = (f"Models on {splits}, all simulated. {whiskers} 'scikit-learn' and 'central' have all loans in one "
               "place, the latter with the federation's settings. HomoLR has no class weights. The AUC "
               "difference is federated minus scikit-learn, split by split.")
    return (f'{paragraphs}<figure>{balancing_figure(lines)}<figcaption>{html.escape(caption)}</figcaption></figure>'
            f'<div class="scroll">{table_html(balancing_table(result))}</div>')


def costs(lines: list[dict]) -> str:
    """What each method with synthetic rows changes for a central model, against the one with class weights."""
    weighted = next(line[SCIKIT]["auc"] for line in lines if line["method"] == WEIGHTS)
    changes = [
        f"{difference_text(paired_difference(line[SCIKIT]['auc'], weighted))} with {line['title']}"
        for line in over_sampled(lines)
    ]
    if not changes:
        return ""
    return ("Against class weights, which make no synthetic loans, the AUC of scikit-learn's central regression "
            f"changes by {listed(changes)}.")


def without_balancing(lines: list[dict], data: dict) -> str:
    """Why accuracy and an untouched balance of classes say little here."""
    plain = next(line for line in lines if line["method"] == "none")
    test = data["balance"]["test"]
    return (
        f"Without balancing, scikit-learn's model recognises {percent(plain[SCIKIT]['specificity']['mean'])} of the "
        f"charged-off loans and the federated one {percent(plain[FEDERATED]['specificity']['mean'])}, with an AUC of "
        f"{plain[SCIKIT]['auc']['mean']:.3f} and {plain[FEDERATED]['auc']['mean']:.3f}. To call every loan Fully Paid "
        f"is right for {percent(test['Fully Paid'] / sum(test.values()))} of the held-out loans: accuracy says nothing "
        "about such a model."
    )


def privacy(lines: list[dict]) -> str:
    """What synthetic rows mean for a guarantee to records."""
    influences = [f"{line['largest_influence']} with {line['title']}" for line in over_sampled(lines)]
    measured = f" The most of them that one real loan had a part in are {listed(influences)}." if influences else ""
    return ("With synthetic loans of any kind the epsilon of a record is infinity, whatever training follows."
            f"{measured} The private way is class weights with a public maximum.")


def left_out(lines: list[dict]) -> str:
    """Which methods could not be used; empty where all could."""
    titles = [line["title"] for line in lines if not line[SCIKIT]]
    return f"Some institution has too few charged-off loans for {listed(titles)}: not measured." if titles else ""


def over_sampled(lines: list[dict]) -> list[dict]:
    """The methods with synthetic rows that could be used."""
    return [line for line in lines if line["method"] not in ("none", WEIGHTS) and line[SCIKIT]]


def listed(texts: list[str]) -> str:
    """Texts with commas, and 'and' before the last."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last
