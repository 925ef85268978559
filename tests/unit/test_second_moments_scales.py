"""Adaptive scales: what contributions are, how far a record moves them, and what the three releases cost together."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy import adaptive_scales as module
from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.adaptive_scales import AdaptiveBudget, adaptive_scales, contribution_sums, release_contributions
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian, NotPrivate, PureDP
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

WHOLE = 2**30
numbers = st.one_of(st.floats(-3, 3), st.floats(allow_nan=True, allow_infinity=True))


def test_contributions_by_hand():
    features = [[1.0, -2.0, 0.0], [0.0, 0.0, 0.0], [math.nan, 1.0, 1.0], [0.0, 4.0, -4.0]]
    sums = contribution_sums(features, [2.0, -1.0, 1.0])
    assert sums.tolist() == [WHOLE // 2, WHOLE // 2 + WHOLE // 2, WHOLE // 2]
    assert contribution_sums(features, [0.0, 0.0, 0.0]).tolist() == [0, 0, 0]
    blocks = contribution_sums(features[:1], [2.0, -1.0, 1.0]) + contribution_sums(features[1:], [2.0, -1.0, 1.0])
    assert np.array_equal(blocks, sums)


@settings(max_examples=40)
@given(
    st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=2, max_size=2),
    st.lists(numbers, min_size=3, max_size=3),
)
def test_one_record_moves_the_sums_by_at_most_two(pair, weights):
    first, second = (contribution_sums(np.array([row]), weights) for row in pair)
    assert first.min() >= 0 and first.sum() <= WHOLE
    assert np.abs(first - second).sum() <= 2 * WHOLE


def test_the_release_adds_laplace_noise_of_scale_two_over_n_epsilon(monkeypatch):
    asked = []

    def zeros(scale, size, rng):
        asked.append(scale)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr("fate_dp.privacy.mechanisms.laplace.discrete_laplace", zeros)
    release = release_contributions(np.array([WHOLE, 3 * WHOLE]), 4, 0.25, observers="host")
    assert np.allclose(release.value, [0.25, 0.75])
    assert math.isclose(asked[0] / (4 * WHOLE), 2 / (4 * 0.25), rel_tol=1e-9)
    assert release.event.process == PureDP(0.25) and release.event.relation == REPLACE_ONE


def test_repeatable_noise_is_not_private():
    release = release_contributions(np.array([WHOLE]), 1, 1.0, observers="host", rng=ReproducibleStream(1))
    assert isinstance(release.event.process, NotPrivate)


def test_scales_fall_with_the_contribution_and_have_geometric_mean_one():
    assert np.allclose(adaptive_scales([0.16, 0.64, 0.16, 0.64]), np.sqrt([2.0, 0.5, 2.0, 0.5]))
    assert np.allclose(adaptive_scales([0.16, 0.64, 0.16, 0.64], power=0.5), np.sqrt([0.5, 2.0, 0.5, 2.0]))
    # The floor is 1 / 12 here, and 1 is the most that a contribution can be.
    assert np.allclose(adaptive_scales([-5.0, 7.0, 1 / 12]), adaptive_scales([1 / 12, 1.0, 0.0]))
    assert adaptive_scales([0.3]).tolist() == [1.0]


@settings(max_examples=30)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=8))
def test_scales_are_positive_and_span_at_most_the_floor(contributions):
    scales = adaptive_scales(contributions)
    assert math.isclose(np.log(scales).sum(), 0.0, abs_tol=1e-9)
    assert scales.max() / scales.min() <= math.sqrt(4 * len(contributions)) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon, share", [(0.1, 0.5), (1.0, 0.125), (8.0, 0.05)])
def test_the_budget_adds_up(epsilon, share):
    budget = AdaptiveBudget(epsilon, 1e-5, share)
    joint = 1 / math.hypot(1 / budget.first_fit_multiplier, 1 / budget.training_multiplier)
    assert budget.contribution_epsilon + gaussian_epsilon(joint, 1e-5) <= epsilon * (1 + 1e-12)
    assert math.isclose(joint / budget.first_fit_multiplier, 0.25, rel_tol=1e-9)


def test_the_accountant_charges_the_three_releases_no_more_than_the_budget():
    budget = AdaptiveBudget(1.0, 1e-5)
    processes = (
        PureDP(budget.contribution_epsilon),
        Gaussian(budget.first_fit_multiplier),
        Gaussian(budget.training_multiplier),
    )
    charges = [(Event(process, "record", REPLACE_ONE, "host"), 1) for process in processes]
    assert 0.9 < total_epsilon(charges, 1e-5) <= 1.0


def test_a_first_fit_that_costs_nothing_would_be_seen(monkeypatch):
    monkeypatch.setattr(AdaptiveBudget, "training_multiplier", property(AdaptiveBudget._joint_multiplier))
    budget = AdaptiveBudget(1.0, 1e-5)
    joint = 1 / math.hypot(1 / budget.first_fit_multiplier, 1 / budget.training_multiplier)
    assert budget.contribution_epsilon + gaussian_epsilon(joint, 1e-5) > 1.0


def test_refusals():
    for share in (0.0, 1.0, math.nan, "half"):
        with pytest.raises(InvalidArgument, match="^contribution_share must be strictly between 0 and 1, got"):
            AdaptiveBudget(1.0, 1e-5, share)
    for epsilon, delta in ((0.0, 1e-5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError):
            AdaptiveBudget(epsilon, delta)
    with pytest.raises(
        InvalidArgument, match=r"weights must be one per column of \(2, 2\), got shape \(1,\) and type float64\."
    ):
        contribution_sums(np.zeros((2, 2)), [1.0])
    for records in (0, 1.5, True, 2**31):
        with pytest.raises(InvalidArgument, match="^records must be "):
            release_contributions(np.array([0]), records, 1.0, observers="host")
    for bad in ([], [math.nan], [[0.5]]):
        with pytest.raises(InvalidArgument, match="^contributions must be finite numbers"):
            adaptive_scales(bad)
    assert module.STEPS_OF_RECORD * module.MAX_RECORDS <= 2**60
