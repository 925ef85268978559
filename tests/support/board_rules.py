"""What FATE-Board makes of a metric record: a chart, a table, or nothing.

The board looks at the type first: one that contains 'loss' goes into the task's loss chart, 'data_split' into a table
of all such records. Whatever is left is drawn only if the record has one of three names
(FATE-Board 2.1.0, transform/metric/index.ts).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

LOSS, DATA_SPLIT, SUMMARY, EVALUATION, UPLOAD = "loss", "data_split", "summary", "evaluation", "upload"
DRAWN_BY_NAME = (SUMMARY, EVALUATION, UPLOAD)
WORDS = {
    LOSS: "the line chart 'Loss' over steps, one for the task",
    DATA_SPLIT: "a row of a table, whose last row is called 'total'",
    SUMMARY: "a table of variable and value",
    EVALUATION: "the table 'Evaluation Scores', and curves",
    UPLOAD: "lines of name and value",
}


def kind_of(record: dict) -> str | None:
    """How the board draws a record, None if it does not."""
    kind = record.get("type")
    if isinstance(kind, str) and re.search("loss", kind, re.IGNORECASE):
        return LOSS
    if kind == DATA_SPLIT:
        return DATA_SPLIT
    return record.get("name") if record.get("name") in DRAWN_BY_NAME else None


def drawings(records: list[dict]) -> list[str]:
    """What a person sees of a task, in words, in the order in which the board shows it."""
    kinds = [kind_of(record) for record in records]
    single = [WORDS[kind] for kind in kinds if kind in DRAWN_BY_NAME]
    return single + [WORDS[kind] for kind in (LOSS, DATA_SPLIT) if kind in kinds] or ["NO DATA"]


# The shape of an `evaluation` record: {model: {dataset: [{"metric": name, "val": value}, ...]}}.
#
# The board recognises a metric by a part of its name, in this order; what it does not recognise it leaves out, and one
# entry of another shape makes it drop the whole record (FATE-Board 2.1.0, transform/metric/evaluation*.ts).

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


def flaws_of_evaluation(data: object) -> list[str]:
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


def flaws_of_entry(entry: object) -> list[str]:
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


# FATE-Board's rules as code: what is wrong with the metric records that a task emitted.
#
# The board never says that it cannot draw something: a record that breaks a rule is missing from the page, or shows
# something else than was meant. Read in the source of FATE-Board 2.1.0, which FATE 2.2.0 comes with; the files that the
# rules name lie in ``resources-front-end/packages/fate-board/src``, those in Java in ``src/main/java``.

MAX_EXACT_INTEGER = 2**53
# The board rounds to six digits after the point.
MIN_SHOWN = 5e-7
# A line above the table gives its name two fifths of a page of 1280 pixels, and cuts the rest.
LONGEST_NAME = 60
ROUTE_NAME = re.compile(r"[.0-9a-zA-Z_-]+")
DEEPEST = 50


@dataclass(frozen=True)
class Rule:
    """A rule and where in the board's source it comes from."""

    name: str
    text: str
    source: str


NEVER_DRAWN = Rule(
    "never_drawn",
    "a record is drawn only if its type or its name is one that the board knows",
    "transform/metric/index.ts: the name is that of a file, anything else is dropped",
)
ONE_LOSS = Rule(
    "one_loss",
    "all loss records of a task are one chart without names, so there may be one series only",
    "transform/metric/index.ts joins them, loss.ts cuts where a step is 0",
)
LOSS_POINTS = Rule(
    "loss_points",
    "a loss record is a list of points of a number and a step, and steps rise",
    "transform/metric/loss.ts: x is step, y is metric",
)
SHAPE = Rule(
    "shape",
    "the data of a summary, and of a row of a data split, is an object with at least one entry",
    "transform/metric/summary.ts, data_split.ts",
)
NESTED = Rule(
    "nested",
    "the entries of a table are single values; an object in one is shown as '-'",
    "transform/tools/toData.ts; fate-ui-component/lib/components/Table/cellExplain.ts",
)
PLAIN = Rule(
    "plain",
    "values are what JSON can carry: no numpy, no NaN, no infinity, no integers beyond 2^53",
    "fate/arch/context/_metrics.py sends JSON; the board reads numbers as doubles",
)
ROUNDED = Rule(
    "rounded", "a number below 5e-7 is shown as 0; write it as text", "utils/toFixed.ts: six digits after the point"
)
CUT = Rule(
    "cut",
    f"a line of an upload record shows some {LONGEST_NAME} letters of its name",
    "fate-ui-component/lib/components/Text/Text.scss: max-width 40%",
)
SHAPE_OF_EVALUATION = Rule(
    "evaluation", "an evaluation is {model: {dataset: [{metric, val}]}}", "transform/metric/evaluation.ts"
)
ROUTE = Rule(
    "route",
    "names of task, component, role and party consist of letters, digits, '.', '_' and '-'",
    "log/LogFileService.java: checkPathParameters",
)
DESCRIBED = Rule(
    "described",
    "dag/ holds a description of every component of a job, or no part of its graph is drawn",
    "services/JobDetailService.java; utils/dagExplaination.ts",
)
RULES = (NEVER_DRAWN, ONE_LOSS, LOSS_POINTS, SHAPE, NESTED, PLAIN, ROUNDED, CUT, SHAPE_OF_EVALUATION, ROUTE, DESCRIBED)


@dataclass(frozen=True)
class Finding:
    """A rule that something breaks, and what to do about it in one sentence."""

    rule: Rule
    sentence: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.sentence}"


@dataclass(frozen=True)
class TaskNames:
    """What the board asks FATE-Flow for: a task of a component at a party."""

    task: str
    component: str
    role: str
    party_id: str

    def __str__(self) -> str:
        return f"{self.task} at {self.role} {self.party_id}"


def check_task(names: TaskNames, records: list[dict], described: set[str]) -> list[Finding]:
    """What keeps the board from showing this task as it was meant.

    Args:
        records: as FlowClient's ``output.query_metric`` or fate_client's ``get_output_metric`` gives them.
        described: components with a file in the board's dag/ folder.
    """
    return [*check_names(names, described), *check_records(str(names), names.component, records)]


def check_names(names: TaskNames, described: set[str]) -> list[Finding]:
    found = [
        Finding(ROUTE, f"the {what} {value!r} of {names} is refused by the board's routes; rename it.")
        for what, value in vars(names).items()
        if not ROUTE_NAME.fullmatch(value)
    ]
    if names.component not in described:
        found.append(Finding(DESCRIBED, f"the component {names.component} of {names} has no description in dag/."))
    return found


def check_records(task: str, component: str, records: list[dict]) -> list[Finding]:
    """The rules about the records of one task at one party."""
    found = [
        Finding(PLAIN, f"{value} in the record {record.get('name')!r} of {task} is not plain JSON.")
        for record in records
        for value in not_plain(record.get("data"))
    ]
    if found:
        # What is not JSON never reaches the board, and the other rules compare numbers.
        return found
    for record in records:
        found += _check_record(f"the record {record.get('name')!r} of {task}", component, record)
    return found + _check_loss(task, [record for record in records if kind_of(record) == LOSS])


def _check_record(which: str, component: str, record: dict) -> list[Finding]:
    kind, data = kind_of(record), record.get("data")
    if kind is None:
        return [Finding(NEVER_DRAWN, f"{which}, of type {record.get('type')!r}, is never drawn; log it as 'summary'.")]
    if kind in (SUMMARY, DATA_SPLIT):
        return _check_table(which, data, labelled=kind == SUMMARY and "sample" in component.lower())
    if kind == UPLOAD:
        return [
            Finding(CUT, f"{which} shows {name!r} without its end; give it a name of {LONGEST_NAME} letters at most.")
            for name in data
            if len(name) > LONGEST_NAME
        ]
    if kind == EVALUATION:
        return [Finding(SHAPE_OF_EVALUATION, f"{which} {flaw}.") for flaw in flaws_of_evaluation(data)]
    return []


def _check_table(which: str, data: object, labelled: bool) -> list[Finding]:
    if not isinstance(data, dict) or not data:
        return [Finding(SHAPE, f"{which} holds no object with entries; give it names and values.")]
    if labelled:
        # The table of a component that samples has a row for each label: its entries are objects.
        return []
    nested = [
        Finding(NESTED, f"{which} has {_kind_of_value(value)} as {name!r}; give each value its own name.")
        for name, value in data.items()
        if _is_nested(value)
    ]
    small = [
        Finding(ROUNDED, f"{which} shows {name!r}, {value!r}, as 0; write it as text.")
        for name, value in data.items()
        if _is_number(value) and 0 < abs(value) < MIN_SHOWN
    ]
    return nested + small


def _check_loss(task: str, records: list[dict]) -> list[Finding]:
    series: dict[tuple, list] = {}
    for record in records:
        if not isinstance(record["data"], list):
            return [Finding(LOSS_POINTS, f"the record {record['name']!r} of {task} is no list of points.")]
        groups = tuple((group["name"], group["index"]) for group in record.get("groups") or ())
        series.setdefault((record["name"], groups), []).extend(record["data"])
    if len(series) > 1:
        told = ", ".join(" ".join([name, *(f"{group}[{index}]" for group, index in groups)]) for name, groups in series)
        return [
            Finding(
                ONE_LOSS,
                f"{task} logs {len(series)} loss series ({told}), of which nobody can tell which is "
                "which; log one, and put the others into a summary.",
            )
        ]
    flaws = filter(None, map(_flaw, series.values()))
    return [Finding(LOSS_POINTS, f"the loss of {task} {flaw}.") for flaw in flaws]


def _flaw(points: list) -> str | None:
    for point in points:
        if not isinstance(point, dict) or not _is_number(point.get("metric")) or not isinstance(point.get("step"), int):
            return f"has the point {point!r}, where a number 'metric' and a whole 'step' belong"
    steps = [point["step"] for point in points]
    if any(later <= earlier for earlier, later in zip(steps, steps[1:])):
        return f"has the steps {steps}, which do not rise"
    return None


def not_plain(value: Any, where: str = "data", depth: int = 0) -> list[str]:
    """The parts of a value that JSON cannot carry, or that the browser reads as something else."""
    if value is None or type(value) in (bool, str):
        return []
    if type(value) is int:
        return [f"{where} = {value}, too large for a double,"] if abs(value) > MAX_EXACT_INTEGER else []
    if type(value) is float:
        return [] if math.isfinite(value) else [f"{where} = {value}"]
    if depth > DEEPEST:
        return [f"{where}, nested more than {DEEPEST} deep,"]
    if type(value) in (list, tuple):
        return [part for index, item in enumerate(value) for part in not_plain(item, f"{where}[{index}]", depth + 1)]
    if type(value) is dict:
        keys = [f"{where} with the key {key!r}" for key in value if type(key) is not str]
        return keys + [part for key, item in value.items() for part in not_plain(item, f"{where}[{key!r}]", depth + 1)]
    return [f"{where} of type {type(value).__module__}.{type(value).__name__}"]


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_nested(value: object) -> bool:
    return isinstance(value, dict) or isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)


def _kind_of_value(value: object) -> str:
    return "an object" if isinstance(value, dict) else "a list of objects"
