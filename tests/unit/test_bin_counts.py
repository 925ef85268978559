"""Noise on counts by bin, and what is computed from them: sensitivities that are reached, WOE and IV against pandas."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.events import Gaussian, NotPrivate, PureDP
from fate_dp.privacy.evidence import BinTable, ones_and_others, weight_of_evidence
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS, BinCountNoise, LaplaceBinCountNoise
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

BINS = 4
records = st.tuples(st.lists(st.integers(0, BINS - 1), min_size=3, max_size=3), st.integers(0, 1))


def both_counts(table):
    """The counts of both classes in all bins of all columns, in one vector."""
    found = np.zeros((2, 3, BINS))
    for codes, label in table:
        found[label, range(3), codes] += 1
    return found.ravel()


def label_sums(table, codes_of_others):
    found = np.zeros((3, BINS))
    for (_, label), codes in zip(table, codes_of_others):
        found[range(3), codes] += label
    return found.ravel()


@given(st.lists(records, min_size=1, max_size=5), records, st.data())
def test_a_replaced_record_moves_no_counts_further_than_the_sensitivity(table, other, data):
    theirs = [data.draw(st.lists(st.integers(0, BINS - 1), min_size=3, max_size=3)) for _ in table]
    replaced = [other, *table[1:]]
    own = np.linalg.norm(both_counts(table) - both_counts(replaced))
    of_others = np.linalg.norm(label_sums(table, theirs) - label_sums(replaced, theirs))
    assert own <= BinCountNoise(1.0, 3, 0, 24).sensitivity
    assert of_others <= BinCountNoise(1.0, 0, 3, 12).sensitivity
    assert math.hypot(own, of_others) <= BinCountNoise(1.0, 3, 3, 36).sensitivity


def test_the_sensitivity_is_reached():
    first, second = [([0, 0, 0], 0)], [([1, 1, 1], 1)]
    own = np.linalg.norm(both_counts(first) - both_counts(second))
    theirs = np.linalg.norm(label_sums(first, [[0, 0, 0]]) - label_sums(second, [[0, 0, 0]]))
    assert BinCountNoise(1.0, 3, 3, 36).sensitivity == pytest.approx(math.hypot(own, theirs), rel=1e-12)


@given(st.lists(records, min_size=1, max_size=5), records, st.data())
def test_the_l1_sensitivity_of_laplace_noise_is_never_exceeded_and_reached(table, other, data):
    theirs = [data.draw(st.lists(st.integers(0, BINS - 1), min_size=3, max_size=3)) for _ in table]
    replaced = [other, *table[1:]]
    moved = np.abs(both_counts(table) - both_counts(replaced)).sum()
    moved += np.abs(label_sums(table, theirs) - label_sums(replaced, theirs)).sum()
    noise = LaplaceBinCountNoise(0.5, 3, 3, 36)
    assert moved <= noise.sensitivity == 9 and noise.scale == pytest.approx(18)
    most = np.abs(both_counts([([0, 0, 0], 0)]) - both_counts([([1, 1, 1], 1)])).sum() + 3
    assert most == noise.sensitivity


def test_laplace_noise_is_charged_as_pure_and_drawn_in_whole_counts():
    noise = LaplaceBinCountNoise(0.5, 3, 2, 100)
    event = noise.event(["host"])
    assert event.process == PureDP(0.5) and event.slack < 1e-30
    assert isinstance(noise.event(["host"], ReproducibleStream(1)).process, NotPrivate)
    assert not (noise.draw(100, ReproducibleStream(1)) % (1 << FRACTION_BITS)).any()
    assert noise.sigma == pytest.approx(math.sqrt(2) * noise.scale, rel=1e-3)
    with pytest.raises(InvalidArgument, match="epsilon must be .*, got 1e-08"):
        LaplaceBinCountNoise(1e-8, 3, 2, 100)


@pytest.mark.parametrize("epsilon, delta", [(0.5, 1e-6), (1.0, 1e-5), (8.0, 1e-6)])
def test_what_is_charged_is_at_most_what_was_asked_for(epsilon, delta):
    noise = BinCountNoise.of(epsilon, delta, 13, 10, 600)
    accountant = make_accountant("pld", "replace_one")
    accountant.compose(noise.event(["host"]), 1)
    assert 0.97 * epsilon < accountant.epsilon(delta) <= epsilon
    assert noise.event(["host"]).process == Gaussian(noise.noise_multiplier)


def test_noise_of_a_reproducible_stream_is_charged_as_not_private():
    assert isinstance(BinCountNoise(1.0, 1, 0, 2).event(["host"], ReproducibleStream(1)).process, NotPrivate)


@pytest.mark.parametrize(
    "given, sentence",
    [
        ((0.0, 1, 1, 1), "noise_multiplier must be .*, got 0.0"),
        ((1.0, -1, 1, 1), "own_columns must be .*, got -1"),
        ((1.0, 0, 0, 1), r"own_columns and label_columns must be at least one column together, got \(0, 0\)\."),
        ((1.0, 1, 1, 0), "counts must be .*, got 0"),
        ((2.0**31, 1, 1, 1), "must be at most"),
    ],
)
def test_terms_of_noise_out_of_range_are_refused(given, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        BinCountNoise(*given)


# WOE and IV


def pandas_evidence(codes, labels, smoothing):
    """The textbook's formula on a cross table, every bin with ``smoothing`` further records split as all records are."""
    table = pd.crosstab(codes, labels).astype(float)
    share = table.sum() / len(labels)
    smoothed = table + smoothing * share
    distribution = smoothed / smoothed.sum()
    woe = np.log(distribution[1] / distribution[0])
    return woe.to_numpy(), float(((distribution[1] - distribution[0]) * woe).sum())


def test_woe_and_iv_are_those_of_the_textbook_on_a_cross_table():
    generator = np.random.default_rng(8)
    codes = generator.integers(0, 6, 4000)
    labels = (generator.random(4000) < 0.1 + 0.1 * codes).astype(int)
    ones = np.bincount(codes, weights=labels)
    for smoothing in (1e-9, 0.5, 20.0):
        found = weight_of_evidence(ones_and_others(ones, np.bincount(codes)), smoothing)
        woe, iv = pandas_evidence(codes, labels, smoothing)
        np.testing.assert_allclose(found.woe, woe, rtol=0, atol=1e-12)
        assert found.iv == pytest.approx(iv, rel=1e-12) and iv > 0.1


def test_the_sign_is_that_of_fate_and_small_numbers_are_as_by_hand():
    # Events 30 of 40 and 10 of 40, others 20 of 60 and 40 of 60: ln(.75 / .3333), ln(.25 / .6667).
    found = weight_of_evidence(BinTable([30, 10], [20, 40]), 1e-12)
    np.testing.assert_allclose(found.woe, [math.log(2.25), math.log(0.375)], atol=1e-9)
    assert found.iv == pytest.approx((0.75 - 1 / 3) * math.log(2.25) + (0.25 - 2 / 3) * math.log(0.375), abs=1e-9)


def test_an_empty_bin_has_woe_zero_and_a_bin_with_one_class_a_finite_one():
    found = weight_of_evidence(BinTable([0, 7, 0], [0, 1, 9]), 1.0)
    assert found.woe[0] == 0 and np.isfinite(found.woe).all() and found.woe[1] > 0 > found.woe[2]


@pytest.mark.parametrize("events, others", [([0, 0], [3, 4]), ([3, 4], [0, 0]), ([-2, -1], [3, 4])])
def test_one_class_tells_nothing(events, others):
    found = weight_of_evidence(BinTable(events, others), 1.0)
    assert not found.woe.any() and found.iv == 0


counts = st.lists(st.floats(-50, 1e6), min_size=1, max_size=12)


@given(counts, st.data(), st.floats(1e-3, 100))
def test_evidence_is_finite_and_iv_at_least_zero_for_any_noisy_counts(events, data, smoothing):
    others = data.draw(st.lists(st.floats(-50, 1e6), min_size=len(events), max_size=len(events)))
    found = weight_of_evidence(BinTable(events, others), smoothing)
    assert np.isfinite(found.woe).all() and math.isfinite(found.iv) and found.iv >= 0


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 20.0, 1e4])
def test_the_expected_counts_of_flipped_labels_are_reverted_to_the_true_ones(epsilon):
    true, totals = np.array([3.0, 40.0, 0.0]), np.array([10.0, 50.0, 5.0])
    rate = 1 / (1 + math.exp(min(epsilon, 700)))
    flipped = ones_and_others((1 - rate) * true + rate * (totals - true), totals)
    reverted = flipped.with_flips_reverted(epsilon)
    np.testing.assert_allclose(reverted.events, true, atol=1e-9)
    np.testing.assert_allclose(reverted.totals, totals)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: BinTable([], []), "at least one bin"),
        (lambda: BinTable([1], [math.nan]), "others must be"),
        (lambda: BinTable([1], [1, 2]), "number of others must be 1, one for each bin, got 2"),
        (lambda: weight_of_evidence(BinTable([1], [1]), 0), "smoothing must be .*, got 0"),
    ],
)
def test_what_is_no_table_of_counts_is_refused(make, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        make()


def test_the_grid_of_the_noise_is_finer_than_a_count():
    draws = BinCountNoise(1.0, 1, 0, 8).draw(8, ReproducibleStream(2))
    assert draws.dtype == np.int64 and (draws % 2**FRACTION_BITS).any()
