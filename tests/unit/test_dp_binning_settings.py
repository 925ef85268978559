"""Parameters of dp_binning: what rules become, and what is refused in one sentence before any work."""

import numpy as np
import pytest

from fate_dp.components.common.parameters import parameters_of, settings_of
from fate_dp.components.dp_binning.own_columns import _cell_counts
from fate_dp.components.dp_binning.settings import Settings, columns, other_columns
from fate_dp.components.protocols.bin_rules import PublicBins, QuantileBins
from fate_dp.pipelines.clients import DPBinning

RULES = {
    "age": {"cuts": [30, 60]},
    "sex": {"categories": [1, 2]},
    "debt": {"range": [0, 10], "bins": 5},
    "income": {"range": [0, 10], "quantiles": 5},
}


def made(**given):
    return settings_of(Settings, {name: parameters_of(Settings)[name].check(value) for name, value in given.items()})


def test_rules_become_bins_with_a_bin_for_missing_values():
    rules = columns(RULES)
    assert [each.most_bins for each in rules.values()] == [4, 4, 6, 6]
    assert rules["age"].named("other").cuts == (30, 60) and rules["age"].named("other").name == "other"
    assert rules["sex"].named("sex").labels() == ["1", "2", "rare", "missing"]
    assert rules["debt"].named("debt").cuts == (2, 4, 6, 8)
    assert rules["income"] == QuantileBins((0.0, 10.0), 5) and rules["income"].quantiles == 4
    apart = columns({name: {**rule, "special": [-999]} for name, rule in RULES.items()})
    assert [each.most_bins for each in apart.values()] == [5, 5, 7, 7]
    assert apart["debt"].named("debt").codes([-999.0, -998.0]).tolist() == [5, 0]


def test_quantiles_leave_special_values_out_as_missing_ones():
    values, points = np.array([[-999.0], [-1.0], [5.0], [np.nan]]), np.array([0.0, 6.0])
    counted = _cell_counts(values, [0], [points], [QuantileBins((-2.0, 10.0), 3, special=(-999.0,))])
    assert counted.tolist() == [[1, 1, 0]]


def test_a_rule_for_all_other_columns_takes_the_name_of_each():
    settings = made(columns={"age": {"cuts": [30]}}, other_columns={"cuts": [0]})
    rules = settings.rules_of(["age", "x"])
    assert all(isinstance(each, PublicBins) for each in rules.values())
    assert [each.named(name) for name, each in rules.items()][1].name == "x"
    with pytest.raises(KeyError, match="x"):
        made(columns={"age": {"cuts": [30]}}).rules_of(["age", "x"])


@pytest.mark.parametrize(
    "check, value, sentence",
    [
        (columns, [1], "columns must be .*, got \\[1\\]"),
        (columns, {"x": [1, 2]}, "rule of 'x' must be .*, got \\[1, 2\\]"),
        (columns, {"x": {"cuts": [1], "bins": 3}}, "rule of 'x' must be"),
        (
            columns,
            {"x": {"cuts": [2, 1]}},
            "cuts of 'x' must be sorted, each greater than the one before, got \\[2.0, 1.0\\]",
        ),
        (columns, {"x": {"cuts": []}}, "at least one cut point"),
        (columns, {"x": {"categories": [1, 1]}}, "none of them twice"),
        (columns, {"x": {"range": [3, 3], "bins": 2}}, "range of 'x' must be"),
        (
            columns,
            {"x": {"range": 3, "bins": 2}},
            "range of 'x' must be two finite numbers, the smaller one first, got 3",
        ),
        (columns, {"x": {"range": [0, 1], "bins": 1}}, "bins of 'x' must be .*, got 1"),
        (columns, {"x": {"range": [0, 1], "quantiles": 1}}, "quantiles of 'x' must be .*, got 1"),
        (columns, {"x": {"range": [1, 0], "quantiles": 4}}, "range of 'x' must be"),
        (columns, {"x": {"special": [-1]}}, "rule of 'x' must be .*, each with \"special\": "),
        (columns, {"x": {"cuts": [1], "special": []}}, "special of 'x' must be a list of at least one number"),
        (columns, {"x": {"categories": [-1], "special": [-1]}}, "-1 of 'x' must be special or a category, got 'both'"),
        (other_columns, {"cuts": "no"}, "cuts of 'other_columns' must be .*, got 'no'"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_in_one_sentence(check, value, sentence):
    with pytest.raises(ValueError, match=sentence) as refused:
        check(value)
    assert "\n" not in str(refused.value) and str(refused.value).endswith(".")


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"privacy": "label"}, "epsilon must be a finite number above 0 with privacy label, got None"),
        ({"privacy": "none", "epsilon": 1.0}, "epsilon must be left out with privacy none, got 1.0"),
        (
            {"other_columns": {"range": [0, 1], "quantiles": 4}},
            "bins_epsilon must be a finite number above 0 with quantiles, which cost it, got None",
        ),
        ({"woe": False, "privacy": "label"}, "woe is false, .* but privacy is label; leave it out"),
        ({"woe": False, "epsilon": 1.0}, "woe is false, .* but epsilon is 1.0; leave it out"),
    ],
)
def test_parameters_that_do_not_fit_together_are_refused_by_settings_and_client(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        made(**given)
    with pytest.raises(ValueError, match=sentence):
        DPBinning("dp_binning_0", **given)
