"""smote's parameters: one clear sentence for a bad value, and what its rows and labels must be."""

import math

import numpy as np
import pytest

from fate_dp.components.smote import party
from fate_dp.components.smote.component import smote
from fate_dp.components.smote.party import rule_of
from fate_dp.pipelines import clients

BAD = [
    *[
        ("method", value, f"method must be one of smotenc, smotenc_parents, smote, got {value!r}.")
        for value in ("adasyn", "", "SMOTE", 1, True, ["smote"])
    ],
    *[
        ("neighbours", value, f"neighbours must be a whole number at least 1, got {value!r}.")
        for value in (0, -1, 2.5, "5", True, math.nan, 10**400)
    ],
    *[
        ("groups", value, f"groups must be a list of lists of one-hot column names, got {value!r}.")
        for value in ("a,b", {"a": "b"}, 3)
    ],
    *[
        ("groups", [["x", "y"], value], f"each of groups must be a list of at least two column names, got {value!r}.")
        for value in ("ab", ["a"], [], ["a", ""], ["a", 2], None)
    ],
    ("groups", [["a", "b"], ["c", "a"]], "groups has the column 'a' more than once; a column belongs to one group."),
    ("groups", [["a", "a"]], "groups has the column 'a' more than once; a column belongs to one group."),
    *[
        ("seed", value, f"seed must be a whole number at least 0 and at most {2**63 - 1}, got {value!r}.")
        for value in (-1, 0.5, "1", True, 2**63)
    ],
    *[
        ("dataset", value, f"dataset must be namespace/name, without white space around either, got {value!r}.")
        for value in ("", "name", "a/", "/b", " /b", " a/b", "a/b\n", "a /b", "a/b/c", 3, ["a", "b"])
    ],
]
GOOD = [
    ("method", "smote", "smote"),
    ("neighbours", np.int64(1), 1),
    ("groups", [], ()),
    ("groups", [["a", "b"], ("c", "d", "e")], (("a", "b"), ("c", "d", "e"))),
    ("seed", 0, 0),
    ("seed", 2**63 - 1, 2**63 - 1),
    ("dataset", "bank/loans", "bank/loans"),
]
GROUPS = (("b", "c"),)
FEATURES = np.array([[1.0, 1, 0], [2.0, 0, 1], [-3.0, 0, 1]])


def parameter_type(name):
    return smote._flatten_stages().parameters.mapping[name].type


def test_a_bad_value_gives_one_clear_sentence():
    for name, value, sentence in BAD:
        with pytest.raises(ValueError) as refused:
            parameter_type(name).parse(value)
        assert str(refused.value) == sentence


@pytest.mark.parametrize("name, value, parsed", GOOD, ids=lambda value: str(value)[:40])
def test_good_values_pass_and_are_normalised(name, value, parsed):
    assert parameter_type(name).parse(value) == parsed
    assert getattr(clients.Smote("task", **{name: value}), name) == value


def test_test_data_has_no_way_in():
    described = smote._flatten_stages().artifacts
    assert list(described.data_inputs) == ["train_data"] and list(described.data_outputs) == ["train_output_data"]
    assert {stage.name for stage in described.data_inputs["train_data"].stages} == {"train"}


def test_without_groups_smotenc_is_smote_by_name_too():
    assert rule_of("smotenc", 3, ()).method == "smote" and rule_of("smotenc", 3, GROUPS).method == "smotenc"
    assert rule_of("smote", 3, GROUPS).method == "smote" and rule_of("smotenc", 3, GROUPS).neighbours == 3


def refused(check, *arguments) -> ValueError:
    with pytest.raises(ValueError) as refusal:
        check(*arguments)
    return refusal.value


def test_a_sound_table_passes():
    party.check_values(["a", "b", "c"], FEATURES, GROUPS)
    party.check_labels(np.repeat([0.0, 1.0], [6, 7]), 5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1e151])
def test_values_without_bound_are_refused_and_the_column_named_to_its_own_party(value):
    refusal = refused(party.check_values, ["a", "b", "c"], np.vstack([FEATURES, [value, 1, 0]]), GROUPS)
    said = "must be finite and within 1e+150, got a missing or larger value."
    assert str(refusal) == f"Feature 'a' {said}"


@pytest.mark.parametrize("row", [[0.5, 0.5], [0, 0], [1, 1], [2, -1]])
def test_a_group_has_exactly_one_1_in_each_row(row):
    refusal = refused(party.check_values, ["a", "b", "c"], np.vstack([FEATURES, [4.0, *row]]), GROUPS)
    assert str(refusal) == ("The group of 'b' must be one-hot: in every row one of its 2 columns 1 and the others 0.")


@pytest.mark.parametrize(
    "counts, sentence",
    [
        ((5,), "The labels take 1 values; over-sampling needs two."),
        ((6, 7, 8), "The labels take 3 values; over-sampling needs two."),
        ((8, 8), "Both classes have the same number of rows; leave smote out."),
        ((9, 5), "The label 1 has 5 rows; with neighbours 5 it needs at least 6."),
        ((2, 9), "The label 0 has 2 rows; with neighbours 5 it needs at least 6."),
    ],
)
def test_labels_that_do_not_allow_it_are_refused_and_the_others_hear_one_sentence(counts, sentence):
    refusal = refused(party.check_labels, np.repeat(np.arange(float(len(counts))), counts), 5)
    assert str(refusal) == sentence


def test_a_missing_label_is_no_class():
    refusal = refused(party.check_labels, np.array([0.0, 1, 1, np.nan]), 1)
    assert str(refusal) == "A label is missing. Every record needs one."
