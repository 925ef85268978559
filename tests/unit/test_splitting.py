"""Splits and divisions of rows: nothing on two sides, nothing lost, the same from the same seed, and the refusals."""

import copy
import dataclasses
import pickle
import re

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.data_prep.division import (
    CannotDivide,
    HeldOutRows,
    Shares,
    Skew,
    TrainingRows,
    check_classes,
    divide_horizontally,
    generator,
    split_train_test,
)
from fate_dp.privacy.validation import InvalidArgument


def table(rows=40, smaller=12, order_seed=None):
    """Loans with ids that do not sort like row numbers; `smaller` of them have label 0."""
    frame = pandas.DataFrame(
        {
            "id": [f"loan-{number}" for number in range(rows)],
            "amount": np.arange(rows, dtype=float),
            "term": np.tile([36.0, 60.0], rows)[:rows],
            "paid": np.array([0] * smaller + [1] * (rows - smaller), dtype="int8"),
        }
    )
    if order_seed is not None:
        frame = frame.sample(frac=1, random_state=order_seed)
    return frame


def split(frame, test_share=0.3, seed=7):
    return split_train_test(frame, label="paid", id="id", test_share=test_share, seed=seed)


def training(rows=40, smaller=12):
    return split(table(rows, smaller), test_share=0.2)[0]


def ids(rows):
    return rows.frame["id"].tolist()


def refusal(error, sentence):
    return pytest.raises(error, match=f"^{re.escape(sentence)}$")


@given(st.integers(2, 60), st.integers(2, 60), st.floats(0.02, 0.98), st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_a_split_loses_nothing_shares_nothing_and_keeps_each_class_to_the_nearest_row(smaller, larger, share, seed):
    frame = table(smaller + larger, smaller)
    expected = {label: int(np.floor(share * count + 0.5)) for label, count in ((0, smaller), (1, larger))}
    if any(not 0 < expected[label] < count for label, count in ((0, smaller), (1, larger))):
        with pytest.raises(InvalidArgument, match="too few for both sides"):
            split(frame, share, seed)
        return
    train, test = split(frame, share, seed)
    assert type(train) is TrainingRows and type(test) is HeldOutRows
    assert not set(ids(train)) & set(ids(test))
    pandas.testing.assert_frame_equal(pandas.concat([train.frame, test.frame]).sort_index(), frame)
    assert test.frame["paid"].value_counts().to_dict() == expected
    assert train.frame.index.is_monotonic_increasing and test.frame.index.is_monotonic_increasing


def test_the_same_records_are_held_out_whatever_their_order_and_types_of_text():
    train, test = split(table())
    again_train, again_test = split(table(order_seed=3).astype({"id": "string"}))
    assert set(ids(test)) == set(ids(again_test)) and set(ids(train)) == set(ids(again_train))
    assert ids(again_train) != ids(train)


def test_a_seed_gives_the_same_bytes_and_another_seed_other_rows():
    assert pickle.dumps(split(table())[1].frame) == pickle.dumps(split(table())[1].frame)
    assert ids(split(table(), seed=7)[1]) != ids(split(table(), seed=8)[1])


def test_every_row_is_held_out_about_as_often_as_the_share_says():
    held_out = [name for seed in range(300) for name in ids(split(table(), 0.25, seed)[1])]
    counts = pandas.Series(held_out).value_counts()
    # 300 draws at 0.25: 75 expected, a standard deviation of 7.5, and 40 rows to look at.
    assert len(counts) == 40 and counts.min() > 40 and counts.max() < 110


def test_rows_of_a_side_come_from_a_split_only():
    train, test = split(table())
    sentence = "come from split_train_test only, so that no row is on both sides of a split."
    with refusal(TypeError, f"TrainingRows {sentence}"):
        TrainingRows(table(), "paid", "id")
    with refusal(TypeError, f"HeldOutRows {sentence}"):
        HeldOutRows(table(), "paid", "id", object())
    with refusal(TypeError, f"TrainingRows {sentence}"):
        dataclasses.replace(train, frame=test.frame)
    with pytest.raises(dataclasses.FrozenInstanceError):
        train.frame = test.frame
    for back_door in (pickle.dumps, copy.copy, copy.deepcopy):
        with refusal(TypeError, "TrainingRows cannot be pickled or copied; keep `frame` and split it again."):
            back_door(train)


def test_take_keeps_the_side_and_the_order_that_is_asked_for():
    train, test = split(table())
    assert ids(train.take([3, 1])) == [ids(train)[3], ids(train)[1]]
    assert type(train.take([0])) is TrainingRows and type(test.take([0])) is HeldOutRows
    assert len(test.take([0, 2])) == 2 and train.take([0]).label == "paid" and train.take([0]).id == "id"


@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (lambda frame: frame.drop(columns="paid"), "the table has no column 'paid'."),
        (lambda frame: frame.drop(columns="id"), "the table has no column 'id'."),
        (lambda frame: frame.assign(paid=[None, *frame["paid"][1:]]), "1 rows have no paid. Every row needs one."),
        (
            lambda frame: frame.assign(id=["loan-5", *frame["id"][1:]]),
            "id loan-5 occurs more than once. Keep one row for each id.",
        ),
        (lambda frame: frame.set_index("term"), "the table's index repeats a value; reset it first."),
        (lambda frame: frame[:0], "the table has no rows."),
        (lambda frame: frame[11:], "label 0 has 1 rows, too few for both sides of a split with test_share 0.3."),
    ],
)
def test_tables_that_cannot_be_split_are_refused(spoil, sentence):
    with refusal(InvalidArgument, sentence):
        split(spoil(table()))


@pytest.mark.parametrize("test_share", [0, 1, -0.1, 1.5, float("nan"), True, "0.3", None])
def test_a_test_share_lies_between_0_and_1(test_share):
    with refusal(InvalidArgument, f"test_share must be a number between 0 and 1, both excluded, got {test_share!r}."):
        split(table(), test_share)


@pytest.mark.parametrize("seed", [-1, True, 1.0, "7", None])
def test_a_seed_is_a_whole_number(seed):
    with refusal(InvalidArgument, f"seed must be a whole number of at least 0, got {seed!r}."):
        split(table(), seed=seed)


def test_steps_with_different_names_draw_differently_and_numpy_seeds_count_as_numbers():
    draws = {
        tuple(generator(*step).integers(0, 2**62, 3))
        for step in [(1, "a"), (2, "a"), (1, "b"), (1, "a", "b"), (1, "ab"), (1, "a,b"), (1,)]
    }
    assert len(draws) == 7
    assert generator(np.int64(5), "a").integers(2**62) == generator(5, "a").integers(2**62)


@pytest.mark.parametrize(
    "values",
    [
        (25, 25, 50),
        (0.25, 0.25, 0.5),
        (33.3, 33.3, 33.4),
        (0.1, 0.2, 0.7),
        (1 / 3,) * 3,
        (100 / 7,) * 7,
        (1,),
        [40, 60],
        tuple(np.array([0.5, 0.5])),
    ],
)
def test_fractions_add_to_1_and_percentages_to_100(values):
    shares = Shares(values)
    assert shares.fractions.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(shares.fractions, np.array(values) / np.sum(values), rtol=1e-8)
    assert hash(shares) == hash(Shares(tuple(values)))


@pytest.mark.parametrize(
    "values, sentence",
    [
        ((25, 25, 40), "sum of shares must be 1 or 100, got 90 from 25/25/40."),
        ((33.33, 33.33, 33.33), "sum of shares must be 1 or 100, got 99.99 from 33.33/33.33/33.33."),
        ((0.5, 0.50000001), "sum of shares must be 1 or 100, got 1.00000001 from 0.5/0.50000001."),
        ((), "shares must be one for each party, got ()."),
        ((100, 0), "a share must be a finite number greater than 0, got 0."),
        ((150, -50), "a share must be a finite number greater than 0, got -50."),
        ((float("nan"), 50), "a share must be a finite number greater than 0, got nan."),
        ((True,), "a share must be a finite number greater than 0, got True."),
        (("50", "50"), "a share must be a finite number greater than 0, got '50'."),
    ],
)
def test_shares_that_do_not_divide_a_whole_are_refused(values, sentence):
    with refusal(CannotDivide, sentence):
        Shares(values)


def test_shares_are_read_from_a_text():
    assert Shares.parse("25, 25,50") == Shares((25.0, 25.0, 50.0))
    with refusal(CannotDivide, "shares must be numbers with commas between, such as 25,25,50, got '25;75'."):
        Shares.parse("25;75")
    with refusal(CannotDivide, "sum of shares must be 1 or 100, got 50 from 25/25."):
        Shares.parse("25,25")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_sizes_add_up_and_are_less_than_one_row_off(parts, rows):
    shares = Shares(tuple(part / sum(parts) for part in parts))
    sizes = shares.sizes(rows)
    assert sizes.sum() == rows
    assert (np.abs(sizes - rows * np.array(parts) / sum(parts)) < 1 + 1e-6).all()


def test_the_largest_remainders_get_the_rows_that_are_left():
    assert Shares((20, 33, 47)).sizes(10).tolist() == [2, 3, 5]
    assert Shares((50, 50)).sizes(3).tolist() == [2, 1]


skews = st.sampled_from([Skew(), Skew("label", 5.0), Skew("label", 1e-6), Skew("state", 1.0)])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), skews, st.integers(0, 2**32))
@settings(max_examples=80, deadline=None)
def test_every_row_goes_to_exactly_one_party(parts, skew, seed):
    rows, shares = training(), Shares(tuple(part / sum(parts) for part in parts))
    states = pandas.Series(["CA", "NY", "", "TX"] * 10)
    try:
        divided = divide_horizontally(rows, shares, seed, skew, states)
    except CannotDivide as error:
        assert "gets none of the 32 rows" in str(error)
        return
    assert all(type(part) is TrainingRows and len(part) for part in divided)
    assert all(part.frame.index.is_monotonic_increasing for part in divided)
    pandas.testing.assert_frame_equal(pandas.concat([part.frame for part in divided]).sort_index(), rows.frame)
    if skew.kind == "none":
        assert [len(part) for part in divided] == shares.sizes(len(rows)).tolist()


def test_a_division_follows_its_seed_and_not_the_order_of_the_rows():
    rows, shares = training(), Shares((25, 25, 50))
    reversed_rows = rows.take(np.arange(len(rows))[::-1])
    first, again, turned, other = (
        [set(ids(part)) for part in divide_horizontally(given_rows, shares, seed)]
        for given_rows, seed in [(rows, 1), (rows, 1), (reversed_rows, 1), (rows, 2)]
    )
    assert first == again == turned != other


@pytest.mark.parametrize("skew", [Skew("label", 1.0), Skew("state", 0.1), Skew("state", 10.0)])
def test_under_skew_the_expected_sizes_follow_the_shares(skew):
    rows, states = training(200, 80), pandas.Series([f"state-{number % 20}" for number in range(200)])
    shares, sizes = Shares((10, 30, 60)), []
    for seed in range(120):
        try:
            sizes.append([len(part) for part in divide_horizontally(rows, shares, seed, skew, states)])
        except CannotDivide:
            sizes.append([np.nan] * 3)
    means = np.nanmean(sizes, axis=0) / len(rows)
    # Without the few divisions that leave the smallest party empty, its mean is a little above its share.
    np.testing.assert_allclose(means, shares.fractions, atol=0.06)


def test_less_concentration_is_more_skew():
    rows, shares = training(400, 120), Shares((50, 50))

    def unevenness(concentration):
        divisions = [divide_horizontally(rows, shares, seed, Skew("label", concentration)) for seed in range(40)]
        return np.mean([abs(first.frame["paid"].mean() - second.frame["paid"].mean()) for first, second in divisions])

    assert unevenness(1e4) < 0.1 < unevenness(1.0) < 0.6
    assert unevenness(1.0) > 2 * unevenness(20.0)


@pytest.mark.parametrize("concentration", [1e20, 1e300, 1.7e308])
def test_under_a_concentration_without_end_the_shares_remain(concentration):
    rows = training(4000, 1200)
    sizes = [len(part) for part in divide_horizontally(rows, Shares((10, 90)), 3, Skew("label", concentration))]
    assert sum(sizes) == 3200 and abs(sizes[0] - 320) < 80


def test_rows_of_a_state_go_together_under_a_strong_skew():
    rows, states = training(200, 80), pandas.Series([f"state-{number % 20}" for number in range(200)])
    divided = divide_horizontally(rows, Shares((50, 50)), 3, Skew("state", 1e-6), states)
    held = [set(states[part.frame.index]) for part in divided]
    assert held[0] | held[1] == set(states) and not held[0] & held[1]


def test_what_cannot_be_divided_is_refused():
    rows, states = training(), pandas.Series(["CA"] * 40)
    train, test = split(table())
    sentence = "only TrainingRows from split_train_test are divided, not HeldOutRows."
    with refusal(TypeError, sentence):
        divide_horizontally(test, Shares((50, 50)), 1)
    with refusal(CannotDivide, "party 2 of 2 gets none of the 32 rows (shares 99.9/0.1, no skew)."):
        divide_horizontally(rows, Shares((99.9, 0.1)), 1)
    with refusal(CannotDivide, "a skew by state needs the state of every row, and there is none."):
        divide_horizontally(rows, Shares((50, 50)), 1, Skew("state"))
    with refusal(CannotDivide, "27 rows have no state; a skew by state needs it for all rows."):
        divide_horizontally(rows, Shares((50, 50)), 1, Skew("state"), states[~states.index.isin(rows.frame.index[:27])])
    with pytest.raises(CannotDivide, match=r"\(shares 50/50, skew by state, concentration 1e-06\)\.$"):
        divide_horizontally(rows, Shares((50, 50)), 1, Skew("state", 1e-6), states)


@pytest.mark.parametrize(
    "kind, concentration, sentence",
    [
        ("label", 0, "concentration must be a finite number greater than 0, got 0."),
        ("label", True, "concentration must be a finite number greater than 0, got True."),
        ("label", float("inf"), "concentration must be a finite number greater than 0, got inf."),
        ("", 1.0, "skew must be none, label or the name of a grouping, got ''."),
        (None, 1.0, "skew must be none, label or the name of a grouping, got None."),
    ],
)
def test_a_skew_checks_itself(kind, concentration, sentence):
    with refusal(CannotDivide, sentence):
        Skew(kind, concentration)


def test_a_party_without_a_class_is_named():
    rows = training()
    only_paid = rows.take(np.flatnonzero(rows.frame["paid"] == 1))
    names = {"Charged Off": 0, "Fully Paid": 1}
    check_classes([rows, rows], ["guest 9999", "host 10000"], names)
    with refusal(CannotDivide, "party host 10000 has no Charged Off rows."):
        check_classes([rows, only_paid], ["guest 9999", "host 10000"], names)
