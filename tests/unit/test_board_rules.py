"""Each of FATE-Board's rules is found broken where it is broken, and nothing is found in what the board draws."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.common.preflight import CHIEF_FACTS, show_summary
from tests.support import board_rules as rules
from tests.support.board_rules import WORDS, TaskNames, check_names, check_records, check_task, drawings

NAMES = TaskNames("dp_hetero_lr_0", "dp_hetero_lr", "guest", "9999")
GROUPS = [{"name": "iterations", "index": 0}]


def record(data, name="summary", type=None, groups=()):
    return {"name": name, "type": type, "groups": list(groups), "step_axis": None, "data": data}


def loss(*steps, name="loss", groups=(), metric=0.5):
    return [record([{"metric": metric, "step": step, "timestamp": 1.0}], name, "loss", groups) for step in steps]


def evaluation(entries, dataset="train_set", model="dp_hetero_lr_0"):
    return record({model: {dataset: entries}}, "evaluation")


SUMMARY = record({"mechanism": "randomised response", "epsilon": 2.0, "rows": 569, "converged": True, "note": None})
CURVE = {"cuts": [0.0, 1.0], "fpr": [0.0, 1.0], "tpr": [0.0, 1.0], "threshold": [0.9, 0.1]}
GOOD = {
    "summary": [SUMMARY],
    "summary and loss": [*loss(0, 1, 2), SUMMARY],
    "two summaries": [SUMMARY, record({"round": 1})],
    "a list of values": [record({"classes": [0, 1]})],
    "data split": [record({"count": 3}, "train", "data_split"), record({"count": 4}, "total", "data_split")],
    "evaluation": [evaluation([[{"metric": "auc", "val": 0.9}], {"metric": "ks_table", "val": CURVE}])],
    "a metric that the board leaves out": [evaluation([{"metric": "mse", "val": 1.5}])],
    "upload": [record({"rows": 3}, "upload")],
    "nothing": [],
}
BROKEN = [
    ("another name", rules.NEVER_DRAWN, [record({"epsilon": 2.0}, "privacy")]),
    ("a scalar over steps", rules.NEVER_DRAWN, [record([{"metric": 1.0, "step": 0}], "noise", "scalar")]),
    ("data_split as a name", rules.NEVER_DRAWN, [record({"count": 3}, "data_split")]),
    ("two loss series by name", rules.ONE_LOSS, [*loss(0, 1), *loss(0, 1, name="validation_loss")]),
    (
        "two loss series by fold",
        rules.ONE_LOSS,
        [*loss(0, groups=[{"name": "folds", "index": 0}]), *loss(0, groups=[{"name": "folds", "index": 1}])],
    ),
    ("steps that start again", rules.LOSS_POINTS, loss(0, 1, 0, 1)),
    ("a loss without points", rules.LOSS_POINTS, [record({"loss": 1.0}, "loss", "loss")]),
    ("a loss in a list", rules.LOSS_POINTS, loss(0, metric=[0.5])),
    ("a loss that is true", rules.LOSS_POINTS, loss(0, metric=True)),
    ("a summary of values without names", rules.SHAPE, [record([1, 2])]),
    ("an empty summary", rules.SHAPE, [record({})]),
    ("a row of a split without names", rules.SHAPE, [record([3], "train", "data_split")]),
    ("an object in a summary", rules.NESTED, [record({"privacy": {"epsilon": 2.0}})]),
    ("a list of objects in a summary", rules.NESTED, [record({"rounds": [{"epsilon": 2.0}]})]),
    ("an object in a row", rules.NESTED, [record({"count": {"guest": 1}}, "train", "data_split")]),
    ("a numpy float", rules.PLAIN, [record({"epsilon": np.float64(2.0)})]),
    ("a numpy integer in a list", rules.PLAIN, [record({"rows": [np.int64(3)]})]),
    ("a numpy array", rules.PLAIN, [record({"weights": np.zeros(2)})]),
    ("NaN", rules.PLAIN, [record({"last loss": math.nan})]),
    ("NaN in the loss", rules.PLAIN, loss(0, metric=math.nan)),
    ("infinity", rules.PLAIN, [record({"epsilon": math.inf})]),
    ("an integer that doubles lack", rules.PLAIN, [record({"session": 2**53 + 1})]),
    ("a key that is no text", rules.PLAIN, [record({1: "one"})]),
    ("a set", rules.PLAIN, [record({"observers": {"host"}})]),
    ("a name too long for its line", rules.CUT, [record({"e" * 61: "2"}, "upload")]),
    ("a small delta", rules.ROUNDED, [record({"delta": 1e-7})]),
    (
        "an evaluation without models",
        rules.SHAPE_OF_EVALUATION,
        [record([{"metric": "auc", "val": 1.0}], "evaluation")],
    ),
    (
        "an evaluation without datasets",
        rules.SHAPE_OF_EVALUATION,
        [record({"model": [{"metric": "auc"}]}, "evaluation")],
    ),
    ("an evaluation without entries", rules.SHAPE_OF_EVALUATION, [evaluation({"auc": 0.9})]),
    ("an evaluation by metric names", rules.SHAPE_OF_EVALUATION, [evaluation([{"auc": 0.9}])]),
    ("an area that is no number", rules.SHAPE_OF_EVALUATION, [evaluation([{"metric": "auc", "val": [0.9]}])]),
    (
        "a curve without thresholds",
        rules.SHAPE_OF_EVALUATION,
        [evaluation([{"metric": "ks_table", "val": {"cuts": [], "fpr": [], "tpr": []}}])],
    ),
]


@pytest.mark.parametrize("what", GOOD)
def test_what_the_board_draws_breaks_no_rule(what):
    assert check_task(NAMES, GOOD[what], {"dp_hetero_lr"}) == []


@pytest.mark.parametrize("rule, records", [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_rule_is_found_alone_and_the_sentence_names_the_task(rule, records):
    (finding,) = check_records(str(NAMES), NAMES.component, records)
    assert finding.rule == rule and "dp_hetero_lr_0 at guest 9999" in finding.sentence
    assert finding.sentence.endswith(".") and "\n" not in finding.sentence


@pytest.mark.parametrize(
    "names",
    [
        TaskNames("train 1", "dp_hetero_lr", "guest", "9999"),
        TaskNames("dp_hetero_lr_0", "dp_hetero_lr", "guest", "bank/9999"),
        TaskNames("épargne", "dp_hetero_lr", "guest", "9999"),
        TaskNames("", "dp_hetero_lr", "guest", "9999"),
    ],
    ids=["a space", "a slash", "a letter beyond ASCII", "nothing"],
)
def test_a_name_that_the_boards_routes_refuse_is_found(names):
    (finding,) = check_names(names, {"dp_hetero_lr"})
    assert finding.rule == rules.ROUTE


def test_a_component_without_description_is_found():
    (finding,) = check_names(NAMES, {"label_flip"})
    assert finding.rule == rules.DESCRIBED and "dp_hetero_lr" in finding.sentence


def test_each_rule_is_shown_broken_and_says_where_it_comes_from():
    shown = {case[1] for case in BROKEN} | {rules.ROUTE, rules.DESCRIBED}
    assert set(rules.RULES) == shown
    assert all(rule.text and rule.source for rule in rules.RULES)
    assert len({rule.name for rule in rules.RULES}) == len(rules.RULES)


def test_a_component_that_samples_may_have_a_row_for_each_label():
    rows = [record({"0": {"count": 3}, "1": {"count": 4}})]
    assert check_records("sample_0 at guest 9999", "sample", rows) == []


@pytest.mark.parametrize(
    "entries, flaws",
    [
        ([{"metric": "biclass_precision_table", "val": {"cuts": [1], "p": [1]}}], 0),
        ([{"metric": "biclass_precision_table", "val": {"cuts": [1]}}], 1),
        ([{"metric": "binary_precision", "val": 0.5}], 0),
        ([{"metric": "binary_precision", "val": None}], 1),
        ([{"metric": "fscore_table", "val": {"cuts": [1], "f_score": [1]}}], 0),
        ([{"metric": "confusion_matrix", "val": {"cuts": [1], "fn": [1], "fp": [1], "tp": [1]}}], 1),
        ([{"metric": "lift", "val": {"liftx": [[0, 1]], "lifty": [[0, 1]]}}, {"metric": "gain", "val": 3}], 1),
    ],
    ids=str,
)
def test_the_board_takes_from_each_metric_what_its_name_promises(entries, flaws):
    assert len(check_records("task", "evaluation", [evaluation(entries)])) == flaws


def test_drawings_say_what_a_person_sees():
    assert drawings([]) == drawings([record({"a": 1}, "privacy")]) == ["NO DATA"]
    assert drawings([*loss(0, 1), SUMMARY]) == [WORDS["summary"], WORDS["loss"]]


def test_a_long_summary_has_what_protects_it_above_its_table():
    """The board mixes the lines of a table and shows ten at a time."""
    from types import SimpleNamespace

    def shown(facts):
        records = []
        metrics = SimpleNamespace(log_metrics=lambda data, name: records.append(record(data, name)))
        show_summary(SimpleNamespace(metrics=metrics), facts)
        return records

    facts = {
        "mechanism": "flips",
        "epsilon (nats)": 1.2345678,
        "record-level epsilon from here on": "infinity",
        "solver": "x",
        "delta": 1e-9,
        "training rows: AUC": 0.5,
        "rows": 7,
    }
    (short,) = shown(facts)
    assert short == record(facts | {"delta": "1e-09"})
    chief, table = shown(facts | {f"round {number}": number for number in range(5)})
    assert chief["name"] == "upload" and chief["data"] == {
        "mechanism": "flips",
        # Six digits, as in the table.
        "epsilon (nats)": "1.23457",
        "record-level epsilon from here on": "infinity",
        "delta": "1e-09",
        "rows": "7",
    }
    assert len(table["data"]) == 12 and check_records("here", "dp_hetero_lr", [chief, table]) == []


def test_the_first_lines_say_how_good_how_far_how_private_and_of_how_many():
    shown = {}
    logged = SimpleNamespace(metrics=SimpleNamespace(log_metrics=lambda data, name: shown.update({name: data})))
    facts = [
        "solver",
        "mechanism",
        "rows",
        "epsilon of the labels",
        "last loss",
        "converged",
        "train: AUC on true labels",
    ]
    show_summary(logged, dict.fromkeys([*facts, *"abcdefgh"], "x"))
    assert list(shown["summary"])[:7] == [
        "train: AUC on true labels",
        "last loss",
        "converged",
        "epsilon of the labels",
        "rows",
        "mechanism",
        "solver",
    ]
    assert list(shown["upload"]) == list(shown["summary"])[:6]


@pytest.mark.parametrize(
    "name, stands_above",
    [
        ("epsilon0 of one message (nats)", True),
        ("features and labels have differential privacy (unit record)", True),
        ("joined rows", True),
        ("rows of this party", True),
        ("records of all parties", True),
        ("rows before, label 0", False),
        ("flip probability", False),
    ],
)
def test_what_protects_and_how_many_rows_stands_above_a_long_table(name, stands_above):
    assert bool(CHIEF_FACTS.match(name)) == stands_above
    assert not stands_above or check_records("here", "any", [record({name: "1"}, "upload")]) == []
