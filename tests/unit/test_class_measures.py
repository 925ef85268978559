"""Measures per class and over thresholds, against counts by hand."""

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.credit_risk.models import MEASURES, class_measures
from fate_dp.privacy.validation import InvalidArgument

LABELS = [0, 0, 0, 1, 1, 1, 1, 1]
SCORES = [0.1, 0.7, 0.4, 0.3, 0.6, 0.8, 0.9, 0.5]


def test_every_measure_by_hand():
    found = class_measures(LABELS, SCORES)
    assert tuple(found) == MEASURES
    # Predicted Fully Paid: rows 2, 5, 6, 7; the score 0.5 is not above the threshold.
    assert found["specificity"] == found["charged_off_recall"] == pytest.approx(2 / 3)
    assert found["charged_off_precision"] == pytest.approx(2 / 4)
    assert found["charged_off_f1"] == pytest.approx(4 / 7)
    assert found["fully_paid_precision"] == pytest.approx(3 / 4)
    assert found["fully_paid_recall"] == pytest.approx(3 / 5)
    assert found["fully_paid_f1"] == pytest.approx(6 / 9)
    assert found["accuracy"] == pytest.approx(5 / 8)
    # Of the 15 pairs, those in which the Fully Paid score is the higher one.
    assert found["auc"] == pytest.approx((4 + 5 + 2) / 15)
    # Threshold 0.45: four of five Fully Paid above it, one of three Charged Off.
    assert found["ks"] == pytest.approx(4 / 5 - 1 / 3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=2, max_size=30))
def test_auc_and_ks_ask_for_the_order_alone(rows):
    labels, scores = [numpy.array(column) for column in zip(*rows)]
    if len(set(labels)) < 2:
        return
    found, ranks = class_measures(labels, scores), numpy.searchsorted(numpy.unique(scores), scores)
    moved = class_measures(labels, ranks * 7.0 - 100.0)
    assert found["auc"] == pytest.approx(moved["auc"]) and found["ks"] == pytest.approx(moved["ks"])
    mirrored = class_measures(1 - labels, -scores, threshold=-0.5)
    assert found["auc"] == pytest.approx(mirrored["auc"]) and found["ks"] == pytest.approx(mirrored["ks"])


def test_ks_of_a_model_that_is_wrong_everywhere_is_one():
    assert class_measures([0, 0, 1], [0.9, 0.8, 0.1])["ks"] == 1.0


def test_the_threshold_moves_class_measures_and_leaves_the_others():
    low, high = class_measures(LABELS, SCORES, 0.0), class_measures(LABELS, SCORES, 0.95)
    assert low["specificity"] == 0.0 and low["charged_off_precision"] == 0.0 and low["fully_paid_recall"] == 1.0
    assert high["specificity"] == 1.0 and high["fully_paid_precision"] == 0.0 and high["fully_paid_f1"] == 0.0
    assert low["auc"] == high["auc"] and low["ks"] == high["ks"]


@pytest.mark.parametrize(
    "labels, scores, threshold, sentence",
    [
        ([1, 1], [0.2, 0.3], 0.5, "The labels are 1; both 0 and 1 must occur, and nothing else."),
        ([0, 1, 2], [0.2, 0.3, 0.4], 0.5, "The labels are 0, 1, 2; both 0 and 1 must occur, and nothing else."),
        ([], [], 0.5, "The labels are none; both 0 and 1 must occur, and nothing else."),
        ([0, 1], [0.2], 0.5, "shapes of labels and scores must be (n,) for both, got ((2,), (1,))."),
        ([0, 1], [0.2, float("nan")], 0.5, "Row 1 has a score that is no finite number."),
        (["0", "1"], [0.2, 0.3], 0.5, "The labels are of type <U1; the numbers 0 and 1 are allowed."),
        ([0, 1, None], [0.2, 0.3, 0.4], 0.5, "The labels are of type object; the numbers 0 and 1 are allowed."),
        ([0, 1], [0.2, 0.3], float("nan"), "The threshold must be a number, got nan."),
        ([0, 1], [0.2, 0.3], True, "The threshold must be a number, got True."),
    ],
)
def test_refusals(labels, scores, threshold, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        class_measures(labels, scores, threshold)
    assert str(refusal.value) == sentence
