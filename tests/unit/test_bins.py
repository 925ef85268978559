"""Bins of columns: which value falls where, what is refused, and that nothing is lost on the wire."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.bins import (
    MAX_BINS,
    ColumnBins,
    TableBins,
    category_bins,
    cut_bins,
    equal_width_bins,
    quantile_bins,
)
from fate_dp.privacy.validation import InvalidArgument

NAN = float("nan")
FINITE = st.floats(allow_nan=False, allow_infinity=False, width=32)
VALUES = st.lists(st.floats(width=32), min_size=1, max_size=30)


def test_cut_points_close_their_bins_on_the_right():
    column = cut_bins("age", [30, 60])
    assert column.codes([29, 30, 30.5, 60, 61, NAN, -np.inf, np.inf]).tolist() == [0, 0, 1, 1, 2, 3, 0, 2]
    assert column.labels() == ["(-inf, 30]", "(30, 60]", "(60, inf)", "missing"] and column.count == 4


def test_categories_that_are_not_listed_are_rare():
    column = category_bins("sex", [2, 1, 7.5])
    assert column.codes(np.array([1, 2, 7.5, 3, 0, NAN, np.inf, -np.inf])).tolist() == [1, 0, 2, 3, 3, 4, 3, 3]
    assert column.labels() == ["2", "1", "7.5", "rare", "missing"] and column.count == 5


@pytest.mark.parametrize("column", [cut_bins("x", [0, 400]), category_bins("x", [5, 6])], ids=["cuts", "categories"])
def test_special_values_have_bins_of_their_own_between_all_others_and_missing(column):
    apart = replace(column, special=(-999, 300))
    values = [-999.0, -998.0, 300.0, 301.0, 5.0, NAN]
    theirs, plain = apart.codes(values), column.codes(values)
    assert theirs.tolist() == [3, plain[1], 4, plain[3], plain[4], 5] and apart.ordered == column.ordered
    assert apart.labels() == [*column.labels()[:-1], "special -999", "special 300", "missing"]
    assert ColumnBins.from_wire(apart.to_wire()) == apart
    earlier = {key: value for key, value in column.to_wire().items() if key != "special"}
    assert ColumnBins.from_wire(earlier) == column


@given(st.lists(FINITE, min_size=1, max_size=9, unique=True), VALUES)
def test_cut_points_agree_with_pandas(cuts, values):
    cuts = sorted(cuts)
    ours = cut_bins("x", cuts).codes(np.array(values, dtype=np.float64))
    present = np.isfinite(values)
    theirs = pd.cut(np.array(values)[present], [-np.inf, *cuts, np.inf], labels=False)
    assert ours[present].tolist() == list(theirs)


@given(st.lists(FINITE, min_size=1, max_size=9, unique=True), VALUES, st.booleans())
def test_every_value_has_one_bin_with_a_label_of_its_own(listed, values, categories):
    column = category_bins("x", listed) if categories else cut_bins("x", sorted(listed))
    codes = column.codes(np.array(values))
    assert codes.dtype == np.int64 and codes.min() >= 0 and codes.max() < column.count
    assert len(set(column.labels())) == len(column.labels()) == column.count
    assert ((codes == column.count - 1) == np.isnan(values)).all()


@given(st.lists(FINITE, min_size=1, max_size=9, unique=True), st.booleans(), st.booleans())
def test_bins_survive_the_wire_as_json(listed, categories, missing):
    column = category_bins("x", listed, missing=missing) if categories else quantile_bins("x", listed, missing=missing)
    table = TableBins((column, cut_bins("y", [0.1])))
    assert TableBins.from_wire(json.loads(json.dumps(table.to_wire()))) == table


def test_equal_width_bins_divide_the_range():
    assert equal_width_bins("x", 0, 10, 5).cuts == (2, 4, 6, 8)
    assert np.isfinite(equal_width_bins("x", -1.7e308, 1.7e308, 4).cuts).all()


def test_equal_quantiles_are_one_cut_point_and_none_is_one_bin():
    assert quantile_bins("x", [3, 1, 3]).cuts == (1, 3)
    assert quantile_bins("x", []).codes([1, -np.inf, NAN]).tolist() == [0, 0, 1]


def test_a_table_numbers_its_bins_through_all_columns():
    table = TableBins((cut_bins("a", [0]), category_bins("b", [1, 2], missing=False)))
    codes = table.codes([[1, 2], [NAN, 5], [-1, 1]])
    assert table.counts == (3, 3) and table.offsets == (0, 3, 6) and table.total == 6
    assert codes.tolist() == [[1, 1], [2, 2], [0, 0]] and table.places(codes).tolist() == [[1, 4], [2, 5], [0, 3]]
    assert TableBins(()).total == 0 and TableBins(()).codes(np.empty((4, 0))).shape == (4, 0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cut_bins("x", [2, 1]), "cuts of 'x' must be sorted"),
        (lambda: cut_bins("x", [1, 1]), "cuts of 'x' must be sorted"),
        (lambda: cut_bins("x", [1, NAN]), "cuts of 'x' must be a list of finite numbers"),
        (lambda: cut_bins("x", [True]), "cuts of 'x' must be a list of finite numbers"),
        (lambda: cut_bins("x", []), "at least one cut point"),
        (lambda: ColumnBins("x", "12"), "cuts of 'x' must be .*, got '12'"),  # type: ignore[arg-type]
        (lambda: cut_bins("x", list(range(MAX_BINS))), f"at most {MAX_BINS - 2}"),
        (lambda: cut_bins("", [1]), "name of a column must be .*, got ''"),
        (lambda: ColumnBins("x", (1,), missing=1), "missing of 'x' must be .*, got 1"),  # type: ignore[arg-type]
        (lambda: ColumnBins("x", (1,), (1,)), "bins of 'x' must be cut points or categories, got 'both'"),
        (lambda: category_bins("x", []), "categories of 'x'"),
        (lambda: category_bins("x", 3), "categories of 'x' must be .*, got 3"),  # type: ignore[arg-type]
        (lambda: cut_bins("x", 3), "cuts of 'x' must be .*, got 3"),  # type: ignore[arg-type]
        (lambda: category_bins("x", [1, 1.0]), "none of them twice"),
        (lambda: ColumnBins("x", (1,), special=(1, 1.0)), "special of 'x' must be .*none of them twice"),
        (lambda: ColumnBins("x", (), (1,), special=(1,)), "1 of 'x' must be special or a category, got 'both'"),
        (lambda: ColumnBins("x", tuple(range(MAX_BINS - 2)), special=(-1,)), f"at most {MAX_BINS}"),
        (lambda: equal_width_bins("x", 1, 1, 4), "range of 'x' must be .*, got \\[1, 1\\]"),
        (lambda: equal_width_bins("x", 1, np.inf, 4), "two finite numbers"),
        (lambda: equal_width_bins("x", 0, 1, 1), "bins of 'x' must be .*, got 1"),
        (lambda: equal_width_bins("x", 1, np.nextafter(1, 2), 3), "wide enough for 3 different bins"),
        (lambda: TableBins((cut_bins("x", [1]), cut_bins("x", [2]))), "'x' has bins twice"),
        (lambda: TableBins([cut_bins("x", [1])]), "a tuple of ColumnBins"),  # type: ignore[arg-type]
        (lambda: ColumnBins.from_wire({"name": "x", "cuts": [1]}), "mapping of name"),
        (lambda: TableBins.from_wire({}), "a list"),
        (lambda: cut_bins("x", [1], missing=False).codes([NAN]), "missing values but no bin"),
        (lambda: cut_bins("x", [1]).codes(["a"]), "a type of numbers"),
        (lambda: TableBins((cut_bins("x", [1]),)).codes([[1, 2]]), "rows of 1 columns"),
    ],
)
def test_what_cannot_be_bins_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(InvalidArgument, match=sentence) as refused:
        make()
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)
