"""The tables of a credit study's result: their cells as text, and drawn in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..cli.tables import TextTable, print_table, print_text

if TYPE_CHECKING:
    from rich.console import Console


MEASURES = {"auc": "AUC", "ks": "KS", "specificity": "specificity", "accuracy": "accuracy"}
CLASSES = {"charged_off": "Charged Off", "fully_paid": "Fully Paid"}
CLASS_MEASURES = {"precision": "precision", "recall": "recall", "f1": "F1"}
VERDICTS = {True: "holds", False: "does not hold", None: "not decided"}
SOURCE = "the source prints"
EVENNESS = {name: MEASURES[name] for name in ("specificity", "auc")}
NARROW_BALANCING = {"auc": "AUC", "specificity": "specificity"}
BALANCING = {**NARROW_BALANCING, "charged_off_f1": "Charged Off F1"}
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
    if interval["low"] is None:
        return signed(interval["mean"], 4)
    return f"{signed(interval['mean'], 4)} ({signed(interval['low'], 4)} to {signed(interval['high'], 4)})"


def signed(number: float, digits: int) -> str:
    """A number with its sign; what rounds to zero is plus zero."""
    return f"{round(number, digits) + 0.0:+.{digits}f}"


def shares_text(shares: list[float]) -> str:
    """Shares of all rows, such as 0.25 and 0.75, as '25 / 75'."""
    return " / ".join(f"{round(100 * share, 1):g}" for share in shares)


def model_table(result: dict) -> TextTable:
    """How well each model tells the two classes apart."""
    rows = tuple(
        (model["title"], *(interval_text(model["measures"][name]) for name in MEASURES)) for model in result["models"]
    )
    return TextTable(("model", *MEASURES.values()), rows, frozenset(MEASURES.values()))


def class_table(result: dict, classes: tuple[str, ...] = tuple(CLASSES)) -> TextTable:
    """Precision, recall and F1 of each class for all models, and below them what the source prints."""
    measures = [f"{group}_{name}" for group in classes for name in CLASS_MEASURES]
    headings = tuple(f"{CLASSES[group]} {text}" for group in classes for text in CLASS_MEASURES.values())
    rows = [
        (model["title"], *(interval_text(model["measures"][name]) for name in measures)) for model in result["models"]
    ]
    rows.extend(
        (f"{SOURCE} ({model})", *(f"{figures[name]:.2f}" for name in measures))
        for model, figures in result["source_figures"].items()
    )
    return TextTable(("model", *headings), tuple(rows), frozenset(headings))


def paired_table(result: dict) -> TextTable:
    """Differences between models that were trained on the same split."""
    names = [name for name in MEASURES if any(name in line["measures"] for line in result["paired"])]
    rows = tuple(
        (line["title"], *(_cell(line["measures"], name, difference_text) for name in names))
        for line in result["paired"]
    )
    headings = tuple(MEASURES[name] for name in names)
    return TextTable(("difference", *headings), rows, frozenset(headings))


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
    ordered = [(line["shares"], evenness_models(line)) for line in from_uneven_to_even(result["evenness"])]
    rows = tuple(
        (shares_text(shares), *(interval_text(measures[measure]) for measures in models.values()))
        for shares, models in ordered
    )
    headings = tuple(ordered[0][1])
    return TextTable(("shares in percent", *headings), rows, frozenset(headings))


def evenness_models(line: dict) -> dict[str, dict]:
    """The measures of one line of the study of evenness by model: federated, then each institution alone."""
    alone = {f"{PLACES[place]} alone": measures for place, measures in enumerate(line.get("alone", ()))}
    return {"federated": line["federated"], **alone}


def from_uneven_to_even(lines: list[dict]) -> list[dict]:
    """The lines of the study of evenness, the most uneven shares first."""
    return sorted(lines, key=lambda line: -sum(share**2 for share in line["shares"]))


def verdict_table(result: dict) -> TextTable:
    """What was claimed, and whether it holds."""
    rows = tuple((line["claim"], VERDICTS[line["holds"]], line["figures"]) for line in result["verdicts"])
    return TextTable(("claim", "verdict", "figures"), rows)


def step_table(result: dict) -> TextTable:
    """What each step of the preparation left; columns that a step dropped are named in `reason_table` alone."""
    dropped = set(result["data"]["dropped_columns"])
    rows = tuple(
        (
            step["name"],
            f"{step['rows']:,}",
            str(step["columns"]),
            "named below" if dropped.issuperset(step["note"].split(", ")) else step["note"],
        )
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
    headings = (
        "party",
        "share",
        *(f"{label} {when}" for when in ("before", "after") for label in CLASSES.values()),
        "largest influence",
    )
    rows = tuple(
        (
            party_name(party),
            f"{shares_text([party['share']])} %",
            *(f"{party[when][label]:,}" for when in ("before", "after") for label in CLASSES.values()),
            f"{party['largest_influence']:,}",
        )
        for party in result["data"]["parties"]
    )
    return TextTable(headings, rows, frozenset(headings[1:]))


def party_name(party: dict) -> str:
    return f"{party['role']} {party['party_id']}"


def flow_table(result: dict) -> TextTable:
    """The runs on FATE-Flow, one column each: FATE's measures, ours, and how far it is from the simulation."""
    quantities = {
        "job": lambda run: run["job_id"],
        "seconds": lambda run: f"{run['seconds']:.0f}",
        "AUC by FATE's Evaluation": lambda run: f"{run['evaluation']['auc']:.4f}",
        "AUC by our measures": lambda run: f"{run['measures']['auc']:.4f}",
        "KS by FATE's Evaluation": lambda run: f"{run['evaluation']['ks']:.4f}",
        "KS by our measures": lambda run: f"{run['measures']['ks']:.4f}",
        "specificity": lambda run: f"{run['measures']['specificity']:.4f}",
        "largest difference of a weight to the simulation": lambda run: _agreement(run, "weight"),
        "largest difference of a score to the simulation": lambda run: _agreement(run, "score"),
    }
    rows = tuple((name, *(text(run) for run in result["flow"])) for name, text in quantities.items())
    headings = tuple(f"seed {run['seed']}" for run in result["flow"])
    return TextTable(("", *headings), rows, frozenset(headings))


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
    print_table(
        console,
        f"Models on {result['data']['test_rows']:,} held-out loans; {intervals_note(result)}",
        model_table(result),
    )
    for group, label in CLASSES.items():
        print_table(console, f"{label}: each model, and the source", class_table(result, (group,)))
    if result["paired"]:
        print_table(console, "Differences, seed by seed", paired_table(result))
    if result["balancing"]:
        print_table(
            console,
            "Ways to balance the classes, simulated; AUC difference: federated minus scikit-learn",
            balancing_table(result, NARROW_BALANCING),
        )
    for measure, label in EVENNESS.items() if result["evenness"] else ():
        print_table(console, f"From uneven to even shares: {label}", evenness_table(result, measure))
    _print_flow(result, console)
    print_table(console, "What was claimed, and what holds", verdict_table(result))


def intervals_note(result: dict) -> str:
    """What the intervals are, in a few words."""
    seeds = len(result["settings"]["seeds"])
    return "one seed, so no intervals" if seeds == 1 else f"means and 95 % intervals over {seeds} seeds"


def _print_flow(result: dict, console: Console) -> None:
    for run in result["flow"]:
        print_text(
            console,
            f"\nFATE-Flow, seed {run['seed']}, job {run['job_id']}, {run['seconds']:.0f} s: its weights "
            f"differ from the simulation's by at most {_agreement(run, 'weight')}, its scores by "
            f"{_agreement(run, 'score')}.",
        )
    if not result["flow"]:
        print_text(console, "\nNothing ran through FATE-Flow: federated figures are of its arithmetic alone.")


def _cell(measures: dict, name: str, text: Callable[[dict], str]) -> str:
    return text(measures[name]) if name in measures else "-"


def _agreement(run: dict, kind: str) -> str:
    return f"{run['agreement'][f'largest_{kind}_difference']:.1e}"


def _flat(settings: dict, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)
