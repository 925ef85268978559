"""Flips or noise on sums: the variances are those of what is drawn, and the advice follows from them."""

import json
import math

import numpy as np
import pytest

from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.plan import advice
from fate_dp.pipelines.jobs.plan import InvalidArgument, LabelPlanRequest, plan_labels
from fate_dp.privacy.labels.choice import (
    crossover,
    largest_size,
    noise_over_flips,
    variance_of_flips,
    variance_of_noise,
)
from fate_dp.privacy.mechanisms.label_moments import LabelMoments
from fate_dp.privacy.mechanisms.randomized_response import flip_indices, keep_probability
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for
from fate_dp.privacy.noise.stream import ReproducibleStream


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_variance_of_flips_is_that_of_unbiased_flips(epsilon):
    kept = keep_probability(epsilon, 2)
    flipped = flip_indices(np.ones(40_000, dtype=np.int64), epsilon, 2, ReproducibleStream(3))
    unbiased = (flipped - (1 - kept)) / (2 * kept - 1)
    spread = unbiased.var() / variance_of_flips(epsilon)
    assert abs(spread - 1) < 0.05 and all(abs(spread * wrong - 1) > 0.05 for wrong in (2 / 3, 3 / 2))
    assert variance_of_flips(epsilon) == pytest.approx(math.exp(epsilon) / (math.exp(epsilon) - 1) ** 2)
    assert 0 <= variance_of_flips(1e308) <= variance_of_flips(1e3) < 1e-300


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_variance_of_noise_is_that_of_the_mechanism(epsilon):
    moments = LabelMoments((7.0, 3.0), 1.0, noise_multiplier_for(epsilon, 1e-5))
    assert moments.sigma**2 / 10 == pytest.approx(variance_of_noise(epsilon, 1e-5), rel=1e-4)


def test_the_largest_size_is_where_both_are_equal():
    for records, epsilon in ((30_000, 1.0), (569, 2.0), (30_000, 8.0)):
        size = largest_size(records, epsilon, 1e-5)
        if size:
            assert noise_over_flips(records, size, 1, epsilon, 1e-5) <= 1
        assert noise_over_flips(records, size + 1, 1, epsilon, 1e-5) > 1
    assert noise_over_flips(900, 4, 3, 1.0, 1e-5) == pytest.approx(noise_over_flips(900, 12, 1, 1.0, 1e-5))


def test_the_crossover_separates_noise_from_flips():
    found = crossover(24_000, 23, 1, 1e-5)
    assert noise_over_flips(24_000, 23, 1, found * 0.99, 1e-5) < 1 < noise_over_flips(24_000, 23, 1, found * 1.01, 1e-5)
    assert crossover(24_000, 23, 100, 1e-5) < found
    assert crossover(10, 10**6, 1, 1e-5) is None


def test_the_plan_says_which_of_the_two_to_take():
    one, many = (plan_labels(LabelPlanRequest(24_000, 1.0, columns=23, models=models)) for models in (1, 500))
    assert "take noise (privacy label); the crossover is at epsilon" in advice(one)
    assert "take flips (label_flip)" in advice(many) and "23 columns and 500 models" in advice(many)
    unasked = plan_labels(LabelPlanRequest(24_000, 1.0))
    assert unasked.crossover is None and "With --columns" in advice(unasked)
    assert [choice.epsilon for choice in unasked.choices] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert plan_labels(LabelPlanRequest(24_000, 1.0, classes=3, columns=5)).choices == ()


def test_the_command_prints_table_and_advice(capsys):
    asked = ["plan", "labels", "--records", "24000", "--epsilon", "3", "--columns", "23", "--models", "2"]
    assert main(asked) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "privacy label, delta 1e-06" in text and "23 columns and 2 models at epsilon 3: take noise" in text
    assert main([*asked, "--delta", "1e-6", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["request"]["delta"] == 1e-6 and len(told["choices"]) == 6


@pytest.mark.parametrize(
    "name, value",
    [("columns", 0), ("columns", 2.5), ("models", 0), ("delta", 0.0), ("delta", 1.0), ("delta", math.nan)],
)
def test_bad_requests_are_refused_by_name(name, value):
    with pytest.raises(InvalidArgument, match=name):
        LabelPlanRequest(100, 1.0, **{name: value})
