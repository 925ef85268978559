"""The shape of an `evaluation` record: {model: {dataset: [{"metric": name, "val": value}, ...]}}.

The board recognises a metric by a part of its name, in this order; what it does not recognise it leaves out, and one
entry of another shape makes it drop the whole record (FATE-Board 2.1.0, transform/metric/evaluation*.ts).
"""
from __future__ import annotations

NUMBER = "a number"
# All words of a part must be in the name; the first part that fits counts.
RECOGNISED = (
    ("auc", NUMBER),
    ("ks table", ("cuts", "fpr", "tpr", "threshold")),
    ("ks", NUMBER),
    ("confusion_matrix", ("cuts", "fn", "fp", "tp", "tn")),
    ("gain", ("gainx", "gainy")),
    ("lift", ("liftx", "lifty")),
    ("precision biclass", ("cuts", "p")),
    ("precision", NUMBER),
    ("recall biclass", ("cuts", "r")),
    ("recall", NUMBER),
    ("accuracy biclass", ("cuts", "accuracy", "threshold")),
    ("accuracy", NUMBER),
    ("rmse", NUMBER),
    ("fscore", ("cuts", "f_score")),
)


def flaws_of_evaluation(data) -> list[str]:
    """Ends of sentences; none for a record that is drawn whole."""
    if not isinstance(data, dict) or not data:
        return ["holds no object of models"]
    flaws = []
    for model, datasets in data.items():
        if not isinstance(datasets, dict) or not datasets:
            flaws.append(f"holds no object of datasets for the model {model!r}")
            continue
        for dataset, entries in datasets.items():
            if not isinstance(entries, list):
                flaws.append(f"holds no list for the dataset {dataset!r} of the model {model!r}")
                continue
            flaws += [flaw for entry in flat(entries) for flaw in flaws_of_entry(entry)]
    return flaws


def flat(entries: list) -> list:
    """The entries of nested lists in one, as the board takes them."""
    return [entry for item in entries for entry in (flat(item) if isinstance(item, list) else [item])]


def flaws_of_entry(entry) -> list[str]:
    if not isinstance(entry, dict) or not isinstance(entry.get("metric"), str):
        return [f"has the entry {entry!r}, which names no metric"]
    metric, value = entry["metric"], entry.get("val")
    needed = needed_by(metric.lower())
    if needed == NUMBER:
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        return [] if plain else [f"has {value!r} as {metric}, where a number belongs"]
    missing = [name for name in needed if not isinstance(value, dict) or not isinstance(value.get(name), list)]
    return [f"has a {metric} without the list {missing[0]!r}"] if missing else []


def needed_by(metric: str) -> tuple | str:
    """What the board takes out of a value: `NUMBER`, the names of lists, or nothing where it knows no such metric."""
    for part, needed in RECOGNISED:
        if all(word in metric for word in part.split()):
            return needed
    return ()
