"""Distribution of the flips, each test beside a mutant that it must reject. The keys are fixed, so results are too."""

import math

import numpy as np
import pytest

from fate_dp.privacy import flip_probability
from fate_dp.privacy.labels.flips import flip_labels

pytestmark = pytest.mark.statistical
SOURCE = "experiment/breast_guest/y"
KEY = b"statistics of label flips, fixed"
RECORDS = 20_000
LIMIT = 5.0


def flipped(epsilon, classes, key=KEY, records=RECORDS):
    labels = np.arange(records) % classes
    return labels, flip_labels([f"id-{i}" for i in range(records)], labels, epsilon, classes, key, SOURCE)


def rate_score(flips, records, rate):
    """Standard score of a number of flips under a hypothetical rate."""
    return (flips - records * rate) / math.sqrt(records * rate * (1 - rate))


def correlation_score(first, second):
    return np.corrcoef(first, second)[0, 1] * math.sqrt(len(first))


def variance_score(counts, variance):
    """Standard score of the sample variance of nearly normal counts."""
    return (np.var(counts, ddof=1) / variance - 1) * math.sqrt((len(counts) - 1) / 2)


@pytest.mark.parametrize("epsilon", [1, 2])
@pytest.mark.parametrize("classes", [2, 3])
def test_rate_is_right_and_two_thirds_and_three_halves_are_rejected(epsilon, classes):
    labels, result = flipped(epsilon, classes)
    flips, rate = int((labels != result).sum()), flip_probability(epsilon, classes)
    assert abs(rate_score(flips, RECORDS, rate)) < LIMIT
    assert rate_score(flips, RECORDS, rate * 2 / 3) > LIMIT
    assert rate_score(flips, RECORDS, rate * 3 / 2) < -LIMIT


@pytest.mark.parametrize("epsilon", [1, 2])
def test_a_mechanism_with_the_wrong_rate_is_rejected(epsilon):
    """The sources print the keep probability as the flip probability."""
    labels, result = flipped(epsilon, 2)
    rate = flip_probability(epsilon)
    assert abs(rate_score(int((labels == result).sum()), RECORDS, rate)) > LIMIT
    for wrong in (2 / 3, 3 / 2):
        mutant = np.random.default_rng(1).binomial(RECORDS, rate * wrong)
        assert abs(rate_score(mutant, RECORDS, rate)) > LIMIT


def test_rate_is_the_same_for_every_true_label():
    labels, result = flipped(1, 3)
    for label in range(3):
        chosen = labels == label
        flips = int((result[chosen] != label).sum())
        assert abs(rate_score(flips, int(chosen.sum()), flip_probability(1, 3))) < LIMIT


def test_other_classes_are_uniform():
    labels, result = flipped(1, 4)
    steps = (result - labels)[labels != result] % 4
    for step in (1, 2, 3):
        assert abs(rate_score(int((steps == step).sum()), len(steps), 1 / 3)) < LIMIT
        assert abs(rate_score(int((steps == step).sum()), len(steps), 1 / 2)) > LIMIT


def test_flips_at_two_epsilons_are_independent():
    """Epsilon is part of the PRF's input; a mutant that compares one uniform with two rates is rejected."""
    first, second = (np.not_equal(*flipped(epsilon, 2)) for epsilon in (1, 2))
    assert abs(correlation_score(first, second)) < LIMIT
    uniform = np.random.default_rng(2).random(RECORDS)
    assert correlation_score(uniform < flip_probability(1), uniform < flip_probability(2)) > LIMIT


def test_flips_of_neighbouring_records_are_independent():
    flips = np.not_equal(*flipped(1, 2))
    assert abs(correlation_score(flips[:-1], flips[1:])) < LIMIT


def test_number_of_flips_is_binomial_and_not_fixed():
    """The source flips a fixed count of records, which is not differentially private; that mutant is rejected."""
    records, rate = 200, flip_probability(1)
    counts = [int(np.not_equal(*flipped(1, 2, b"key %04d" % i, records)).sum()) for i in range(400)]
    variance = records * rate * (1 - rate)
    assert abs(variance_score(counts, variance)) < LIMIT
    assert abs(rate_score(sum(counts), records * 400, rate)) < LIMIT
    assert variance_score([round(records * rate)] * 400, variance) < -LIMIT
