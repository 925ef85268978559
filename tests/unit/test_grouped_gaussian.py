"""The grouped Gaussian mechanism: one Gaussian after a change of variables."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.gaussian import gaussian_epsilon, grouped_gaussian_epsilon, grouped_noise_multiplier
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

SCALES = st.floats(0.01, 100)
GROUPS = st.lists(st.tuples(SCALES, st.floats(0.5, 1000)), min_size=1, max_size=6)


def test_golden_four_groups():
    assert grouped_gaussian_epsilon([1] * 4, [4] * 4, 1e-5) == pytest.approx(1.993091404, rel=1e-9)
    assert grouped_noise_multiplier([1] * 4, [4] * 4) == pytest.approx(2, rel=1e-15)


def test_one_group_is_the_gaussian_mechanism():
    assert grouped_gaussian_epsilon([3], [7.5], 1e-5) == pytest.approx(gaussian_epsilon(2.5, 1e-5), rel=1e-14)


@settings(max_examples=150, deadline=None)
@given(GROUPS)
def test_noise_multiplier_is_rounded_down(groups):
    multiplier = grouped_noise_multiplier(*zip(*groups))
    squared_mu = sum((Fraction(clip) / Fraction(sigma)) ** 2 for clip, sigma in groups)
    assert Fraction(multiplier) ** 2 * squared_mu <= 1
    assert Fraction(multiplier * (1 + 1e-15)) ** 2 * squared_mu > 1


@settings(max_examples=60, deadline=None)
@given(GROUPS, SCALES, st.floats(1, 5))
def test_monotone_and_invariant(groups, unit, factor):
    clips, sigmas = (list(values) for values in zip(*groups))
    epsilon = grouped_gaussian_epsilon(clips, sigmas, 1e-5)
    assert grouped_gaussian_epsilon([factor * clips[0]] + clips[1:], sigmas, 1e-5) >= epsilon
    assert grouped_gaussian_epsilon(clips, [factor * sigmas[0]] + sigmas[1:], 1e-5) <= epsilon
    assert grouped_gaussian_epsilon(clips + [unit], sigmas + [1.0], 1e-5) >= epsilon
    rescaled = grouped_gaussian_epsilon([unit * clips[0]] + clips[1:], [unit * sigmas[0]] + sigmas[1:], 1e-5)
    assert rescaled == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    "clips, sigmas, sentence",
    [
        ([], [], "clips must be one value for each of at least one group, got []."),
        ([1, 1], [1], "number of sigmas must be 2, one per group, got 1."),
        ([1, 0], [1, 1], "clips must be a finite number greater than 0, got 0."),
        ([1, 1], [1, math.inf], "sigmas must be a finite number greater than 0, got inf."),
        ([True], [1], "clips must be a finite number greater than 0, got True."),
    ],
)
def test_refusals(clips, sigmas, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        grouped_gaussian_epsilon(clips, sigmas, 1e-5)
    assert str(refusal.value) == sentence


def test_delta_is_checked():
    with pytest.raises(InvalidArgument, match="^delta must be a number greater than 0 and less than 1, got 0.$"):
        grouped_gaussian_epsilon([1], [1], 0)
