"""The tables of a credit study's result: their cells as text, and drawn in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..cli.tables import TextTable, print_table, print_text

if TYPE_CHECKING:
    from rich.console import Console


MEASURES = {"auc": "AUC", "ks": "KS", "specificity": "specificity", "accuracy": "accuracy"}
CLASSES = {"charged_off": "Charged Off", "fully_paid": "Fully Paid"}
CLASS_MEASURES = {"precision": "precision", "recall": "recall", "f1": "F1"}
VERDICTS = {True: "holds", False: "does not hold", None: "not decided"}
SOURCE = "the source prints"
EVENNESS = {name: MEASURES[name] for name in ("specificity", "auc")}
BALANCING = {"auc": "AUC", "specificity": "specificity", "charged_off_f1": "Charged Off F1"}
BALANCED_MODELS = {"central_scikit": "scikit-learn", "central": "central", "federated": "federated"}
PLACES = ("first", "second", "third", "fourth", "fifth")


def interval_text(interval: dict, form: str = ".3f") -> str:
    """The mean in a format, and how far its confidence interval reaches where there is one."""
    mean = f"{interval['mean']:{form}}"
    if interval["low"] is None:
        return mean
    reach = max(interval["mean"] - interval["low"], interval["high"] - interval["mean"])
    return f"{mean} ± {reach:.3f}"


def difference_text(interval: dict) -> str:
    """The mean of a difference with its sign, and both ends of its interval where there is one."""
    mean = signed(interval["mean"], 4)
    return (
        mean if interval["low"] is None else f"{mean} ({signed(interval['low'], 4)} to {signed(interval['high'], 4)})"
    )


def signed(number: float, digits: int) -> str:
    """A number with its sign; what rounds to zero is plus zero."""
    return f"{round(number, digits) + 0.0:+.{digits}f}"


def shares_text(shares: list[float]) -> str:
    """Shares of all rows, such as 0.25 and 0.75, as '25 / 75'."""
    return " / ".join(f"{round(100 * share, 1):g}" for share in shares)


def _table(
    first: str, columns: dict[str, str], rows: list[tuple[str, dict]], text: Callable[[Any], str] = interval_text
) -> TextTable:
    """A table of numbers: each row is its name, and the values of the columns by their keys, which become text."""
    cells = [(name, *(text(values[key]) if key in values else "-" for key in columns)) for name, values in rows]
    return TextTable((first, *columns.values()), tuple(cells), frozenset(columns.values()))


def model_table(result: dict, columns: dict[str, str] = MEASURES) -> TextTable:
    """How well each model tells the two classes apart."""
    return _table("model", columns, [(model["title"], model["measures"]) for model in result["models"]])


def class_table(result: dict, classes: tuple[str, ...] = tuple(CLASSES)) -> TextTable:
    """Precision, recall and F1 of each class for all models, and below them what the source prints."""
    columns = {
        f"{group}_{name}": f"{CLASSES[group]} {text}" for group in classes for name, text in CLASS_MEASURES.items()
    }
    printed = [(f"{SOURCE} ({model})", figures) for model, figures in result["source_figures"].items()]
    table = model_table(result, columns)
    return replace(table, rows=table.rows + _table("", columns, printed, "{:.2f}".format).rows)


def paired_table(result: dict) -> TextTable:
    """Differences between models that were trained on the same split."""
    rows = [(line["title"], line["measures"]) for line in result["paired"]]
    columns = {name: text for name, text in MEASURES.items() if any(name in measures for _, measures in rows)}
    return _table("difference", columns, rows, difference_text)


def balancing_table(result: dict, measures: dict = BALANCING) -> TextTable:
    """The models of each way to balance the classes, and how far the federated AUC is from scikit-learn's."""
    rows = tuple(
        (
            line["title"],
            title,
            *(interval_text(line[model][name]) for name in measures),
            interval_text(line["federated_minus_scikit"], "+.3f") if model == "federated" else "-",
        )
        for line in result["balancing"]
        for model, title in BALANCED_MODELS.items()
        if line[model]
    )
    headings = (*measures.values(), "AUC difference")
    return TextTable(("balanced by", "model", *headings), rows, frozenset(headings))


def evenness_table(result: dict, measure: str) -> TextTable:
    """A measure of the federated model and of each institution alone, the most uneven shares first."""
    ordered = [(shares_text(line["shares"]), evenness_models(line)) for line in from_uneven_to_even(result["evenness"])]
    rows = [(shares, {name: told[measure] for name, told in models.items()}) for shares, models in ordered]
    return _table("shares in percent", {name: name for name in ordered[0][1]}, rows)


def evenness_models(line: dict) -> dict[str, dict]:
    """The measures of one line of the study of evenness by model: federated, then each institution alone."""
    alone = {f"{PLACES[place]} alone": measures for place, measures in enumerate(line.get("alone", ()))}
    return {"federated": line["federated"], **alone}


def from_uneven_to_even(lines: list[dict]) -> list[dict]:
    """The lines of the study of evenness, the most uneven shares first."""
    return sorted(lines, key=lambda line: -sum(share**2 for share in line["shares"]))


def step_table(result: dict) -> TextTable:
    """What each step of the preparation left; columns that a step dropped are named in `reason_table` alone."""
    dropped = set(result["data"]["dropped_columns"])
    named = lambda note: "named below" if dropped.issuperset(note.split(", ")) else note
    rows = tuple(
        (step["name"], f"{step['rows']:,}", str(step["columns"]), named(step["note"]))
        for step in result["data"]["steps"]
    )
    return TextTable(("after", "rows", "columns", "note"), rows, frozenset(("rows", "columns")))


def reason_table(result: dict) -> TextTable:
    """Dropped columns by reason, the reason that took most first."""
    columns: dict[str, list[str]] = {}
    for column, reason in result["data"]["dropped_columns"].items():
        columns.setdefault(reason, []).append(column)
    ordered = sorted(columns.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = tuple((reason, str(len(names)), ", ".join(names)) for reason, names in ordered)
    return TextTable(("reason", "columns", "names"), rows, frozenset(("columns",)))


def party_table(result: dict) -> TextTable:
    """What each party trains on, before and after over-sampling."""
    counts = [(label, when) for when in ("before", "after") for label in CLASSES.values()]
    headings = ("party", "share", *(f"{label} {when}" for label, when in counts), "largest influence")
    rows = tuple(
        (
            party_name(party),
            f"{shares_text([party['share']])} %",
            *(f"{party[when][label]:,}" for label, when in counts),
            f"{party['largest_influence']:,}",
        )
        for party in result["data"]["parties"]
    )
    return TextTable(headings, rows, frozenset(headings[1:]))


def party_name(party: dict) -> str:
    return f"{party['role']} {party['party_id']}"


def flow_table(result: dict) -> TextTable:
    """The runs on FATE-Flow, one column each: FATE's measures, ours, and how far it is from the simulation."""
    runs, four = result["flow"], "{:.4f}".format
    lines = {
        "job": [run["job_id"] for run in runs],
        "seconds": [f"{run['seconds']:.0f}" for run in runs],
        "AUC by FATE's Evaluation": [four(run["evaluation"]["auc"]) for run in runs],
        "AUC by our measures": [four(run["measures"]["auc"]) for run in runs],
        "KS by FATE's Evaluation": [four(run["evaluation"]["ks"]) for run in runs],
        "KS by our measures": [four(run["measures"]["ks"]) for run in runs],
        "specificity": [four(run["measures"]["specificity"]) for run in runs],
        "largest difference of a weight to the simulation": [_agreement(run, "weight") for run in runs],
        "largest difference of a score to the simulation": [_agreement(run, "score") for run in runs],
    }
    headings = tuple(f"seed {run['seed']}" for run in runs)
    return TextTable(("", *headings), tuple((name, *cells) for name, cells in lines.items()), frozenset(headings))


def settings_table(result: dict) -> TextTable:
    """All settings, groups of them as 'group.name'."""
    return TextTable(("setting", "value"), tuple(_flat(result["settings"])))


def time_table(result: dict) -> TextTable:
    """Seconds of each step of the run."""
    rows = tuple((step["name"], f"{step['seconds']:.1f}") for step in result["seconds"]["steps"])
    return TextTable(("step", "seconds"), rows, frozenset(("seconds",)))


def print_credit_result(result: dict, console: Console) -> None:
    """Print verdicts, measures with their intervals, evenness and runs on FATE-Flow on a rich console."""
    if result["data"]["synthetic"]:
        print_text(console, "All figures are of generated loans: they say nothing about Lending Club's.")
    seeds = len(result["settings"]["seeds"])
    note = "one seed, so no intervals" if seeds == 1 else f"means and 95 % intervals over {seeds} seeds"
    print_table(console, f"Models on {result['data']['test_rows']:,} held-out loans; {note}", model_table(result))
    for group, label in CLASSES.items():
        print_table(console, f"{label}: each model, and the source", class_table(result, (group,)))
    if result["paired"]:
        print_table(console, "Differences, seed by seed", paired_table(result))
    if result["balancing"]:
        title = "Ways to balance the classes, simulated; AUC difference: federated minus scikit-learn"
        print_table(console, title, balancing_table(result, {name: BALANCING[name] for name in ("auc", "specificity")}))
    for measure, label in EVENNESS.items() if result["evenness"] else ():
        print_table(console, f"From uneven to even shares: {label}", evenness_table(result, measure))
    for run in result["flow"]:
        print_text(
            console,
            f"\nFATE-Flow, seed {run['seed']}, job {run['job_id']}, {run['seconds']:.0f} s: its weights "
            f"differ from the simulation's by at most {_agreement(run, 'weight')}, its scores by "
            f"{_agreement(run, 'score')}.",
        )
    if not result["flow"]:
        print_text(console, "\nHomoLR did not run through FATE-Flow: federated figures are of its arithmetic alone.")
    verdicts = tuple((line["claim"], VERDICTS[line["holds"]], line["figures"]) for line in result["verdicts"])
    print_table(console, "What was claimed, and what holds", TextTable(("claim", "verdict", "figures"), verdicts))


def _agreement(run: dict, kind: str) -> str:
    return f"{run['agreement'][f'largest_{kind}_difference']:.1e}"


def _flat(settings: dict, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
