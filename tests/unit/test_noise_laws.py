"""Discrete Gaussian and Laplace: probabilities against a 50-digit oracle, ties forced word by word, refusals."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_stream import Script

from fate_dp.privacy.noise import discrete
from fate_dp.privacy.noise.discrete import (
    InversionTable,
    _DiscreteGaussian,
    _DiscreteLaplace,
    check_scale,
    discrete_gaussian,
    discrete_gaussian_slack,
    discrete_laplace,
    discrete_laplace_slack,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

TOP = 2**64 - 1
LAWS = {
    "gaussian": (_DiscreteGaussian, discrete_gaussian, lambda z, s: -(mpmath.mpf(z) ** 2) / (2 * mpmath.mpf(s) ** 2)),
    "laplace": (_DiscreteLaplace, discrete_laplace, lambda z, s: -abs(mpmath.mpf(z)) / mpmath.mpf(s)),
}
SMALL = (2.0**-50, 0.01, 0.3, 1.0, math.pi, 7.9)
STEPPED = (16.0, 33.3)
LARGE = (1000.5, 2.0**30, 1.7 * 2.0**40, 2.0**50)

law_names = pytest.mark.parametrize("name", LAWS)


def coarse_probabilities(table):
    """Exact probability of every value of a table, from its thresholds."""
    ends = [0, *table._thresholds, 2**192]
    return [mpmath.mpf(after - before) / 2**192 for before, after in zip(ends, ends[1:])]


def sampled_law(law):
    """What the algorithm yields, exactly: table, uniform offset, coin, sign, no negative zero; then normalised."""
    step, mass = 2**law.step_bits, {}
    for coarse, probability in enumerate(coarse_probabilities(law.table)):
        for fine in range(step):
            kept = probability / step * mpmath.mpf(discrete._scaled_exponential(law.exact_extra_cost(coarse, fine)))
            z = step * coarse + fine
            mass[z] = mass.get(z, 0) + kept
            mass[-z] = mass[z]
    total = mpmath.fsum(mass.values())
    return {z: weight / total for z, weight in mass.items()}


@law_names
@pytest.mark.parametrize("scale", SMALL + STEPPED)
def test_the_law_is_exact_to_the_slack(name, scale):
    """Total variation against the formula in 60 digits stays under 2^-130, also with what the table cuts off."""
    make, _, log_weight = LAWS[name]
    with mpmath.workdps(60):
        law = make(scale)
        sampled = sampled_law(law)
        weights = {z: mpmath.exp(log_weight(z, scale)) for z in sampled}
        beyond = law.table.values << law.step_bits
        next_weight = mpmath.exp(log_weight(beyond, scale))
        left_out = 2 * next_weight / (1 - mpmath.exp(log_weight(beyond + 1, scale)) / next_weight)
        total = mpmath.fsum(weights.values()) + left_out
        distance = (mpmath.fsum(abs(sampled[z] - weights[z] / total) for z in sampled) + left_out / total) / 2
        assert distance < mpmath.mpf(2) ** -130
        assert discrete_gaussian_slack(scale) == discrete_laplace_slack(scale) == 2.0**-130


@law_names
def test_the_check_of_the_law_rejects_another_scale_by_far(name):
    """So the test above can fail: one unit in the last place of the scale is seen."""
    make, _, log_weight = LAWS[name]
    with mpmath.workdps(60):
        sampled = sampled_law(make(1.0))
        weights = {z: mpmath.exp(log_weight(z, math.nextafter(1.0, 2.0))) for z in sampled}
        total = mpmath.fsum(weights.values())
        assert mpmath.fsum(abs(sampled[z] - weights[z] / total) for z in sampled) / 2 > mpmath.mpf(2) ** -60


@law_names
@pytest.mark.parametrize("scale", LARGE)
def test_at_large_scales_the_parts_are_exact(name, scale):
    """There the table, the offset and the coin are compared with the formula one by one."""
    make, _, log_weight = LAWS[name]
    law = make(scale)
    step = 2**law.step_bits
    assert law.table.values * step < 2**58
    with mpmath.workdps(60):
        weights = [mpmath.exp(log_weight(step * coarse, scale)) for coarse in range(law.table.values)]
        total = mpmath.fsum(weights)
        for probability, weight in zip(coarse_probabilities(law.table), weights):
            assert abs(probability - weight / total) < mpmath.mpf(2) ** -190
        for coarse in (0, 1, 17, law.table.values - 1):
            for fine in (0, 1, step // 3, step - 1):
                ratio = mpmath.exp(log_weight(step * coarse + fine, scale) - log_weight(step * coarse, scale))
                scaled = discrete._scaled_exponential(law.exact_extra_cost(coarse, fine))
                assert 0 <= ratio - mpmath.mpf(scaled) / 2**192 < mpmath.mpf(2) ** -190


@law_names
@pytest.mark.parametrize("scale", STEPPED + LARGE)
def test_the_float_cost_is_as_close_as_the_proof_needs(name, scale):
    law, generator = LAWS[name][0](scale), np.random.default_rng(1)
    coarse = np.r_[generator.integers(0, law.table.values, 500), law.table.values - 1].astype(np.int32)
    fine = np.r_[generator.integers(0, 2**law.step_bits, 500), 2**law.step_bits - 1]
    costs = law.extra_cost(coarse, fine * 2.0**-law.step_bits)
    assert costs.min() >= 0 and costs.max() < 1
    for cost, *where in zip(costs.tolist(), coarse.tolist(), fine.tolist()):
        assert abs(Fraction(cost) - law.exact_extra_cost(*where)) < Fraction(1, 2**50)


def test_the_exponential_is_as_close_as_the_proof_needs():
    """Sizes that use numpy's vector code and its scalar remainder."""
    for size in (1, 7, 1000):
        costs = np.random.default_rng(size).random(size)
        for cost, value in zip(costs, np.exp(-costs)):
            with mpmath.workdps(40):
                assert abs(mpmath.exp(-mpmath.mpf(cost)) - mpmath.mpf(value)) < mpmath.mpf(2) ** -43


@settings(max_examples=30, deadline=None)
@given(st.floats(2.0**-50, 2.0**50), st.sampled_from(sorted(LAWS)))
def test_the_numbers_of_the_proof_hold_at_every_scale(scale, name):
    law = LAWS[name][0](scale)
    assert law.table.values < 2**11
    probabilities = coarse_probabilities(law.table)
    assert min(probabilities) > 0 and probabilities[-1] > 2.0**-150
    kept = [float(p) * math.exp(-law.exact_extra_cost(i, 2**law.step_bits // 2)) for i, p in enumerate(probabilities)]
    assert sum(kept) > 0.9


# Thresholds of a little law: the second is one that the first 64 bits of a word cannot tell from a uniform number.
THRESHOLDS = [3 << 189, (1 << 191) + 5, (1 << 191) + 9, 7 << 189]


def low_and_high(extra):
    """The two words that make up 128 further bits."""
    return extra % 2**64, extra >> 64


@pytest.mark.parametrize(
    "word, extra, expected",
    [
        (0, None, 0),
        ((3 << 61) - 1, None, 0),
        (3 << 61, 0, 1),
        ((3 << 61) + 1, None, 1),
        (1 << 63, 4, 1),
        (1 << 63, 5, 2),
        (1 << 63, 8, 2),
        (1 << 63, 9, 3),
        (1 << 63, 2**128 - 1, 3),
        ((1 << 63) - 1, None, 1),
        ((1 << 63) + 1, None, 3),
        (7 << 61, 0, 4),
        (TOP, None, 4),
    ],
)
def test_a_word_that_ties_with_a_threshold_is_decided_by_128_more_bits(word, extra, expected):
    script = Script(word, *(low_and_high(extra) if extra is not None else ()))
    assert InversionTable(THRESHOLDS).draw(1, script).tolist() == [expected]
    assert not script.left


def test_a_table_of_one_value_needs_no_threshold():
    assert InversionTable([]).draw(2, Script(0, TOP)).tolist() == [0, 0]


def test_values_rarer_than_one_word_can_tell_are_reached():
    """Beyond 9.4 sigma a value is rarer than 2^-64: the largest word leads there, to the exact last value."""
    table = _DiscreteGaussian(1.0).table
    rarest = 2**192 - table._thresholds[-1]
    assert rarest < 2**128 and table.values == 14
    assert table.draw(1, Script(TOP, *low_and_high(2**128 - 1))).tolist() == [13]
    assert table.draw(1, Script(TOP, *low_and_high(2**128 - rarest))).tolist() == [13]
    assert table.draw(1, Script(TOP, *low_and_high(2**128 - rarest - 1))).tolist() == [12]


def candidate(law, coarse_word, fine, negative, coin_word, *extra):
    """What one candidate becomes that is made of the given words."""
    shift = 64 - law.step_bits
    script = Script(coarse_word, (fine << shift if law.step_bits else 0) | negative, coin_word, *extra)
    kept = law._candidates(1, script).tolist()
    assert not script.left
    return kept


@law_names
def test_a_coin_near_its_probability_is_decided_by_128_more_bits(name):
    law = LAWS[name][0](2.0**30)
    step = 2**law.step_bits
    exact = discrete._scaled_exponential(law.exact_extra_cost(0, step - 1))
    word, extra = exact >> 128, exact % 2**128
    near = 2**24 - 2**12
    assert candidate(law, 0, step - 1, 0, word, *low_and_high(extra - 1)) == [step - 1]
    assert candidate(law, 0, step - 1, 0, word, *low_and_high(extra)) == []
    assert candidate(law, 0, step - 1, 1, word, *low_and_high(extra - 1)) == [1 - step]
    assert candidate(law, 0, step - 1, 0, word - near, 0, 0) == [step - 1]
    assert candidate(law, 0, step - 1, 0, word + near, 0, 0) == []
    # Further away no further word is drawn.
    assert candidate(law, 0, step - 1, 0, word - 2**25) == [step - 1]
    assert candidate(law, 0, step - 1, 0, word + 2**25) == []


@law_names
def test_a_certain_coin_is_kept_and_a_negative_zero_is_not(name):
    for scale in (1.0, 2.0**30):
        law = LAWS[name][0](scale)
        assert candidate(law, 0, 0, 0, 0) == [0]
        assert candidate(law, 0, 0, 1, 0) == []
        assert candidate(law, 0, 0, 0, TOP, TOP, TOP) == [0]
    assert candidate(law, 0, 1, 1, 0) == [-1]


@law_names
def test_the_offset_takes_every_value_below_the_step(name):
    law = LAWS[name][0](2.0**50)
    step = 2**law.step_bits
    assert [candidate(law, 0, fine, 0, 0)[0] for fine in (0, 1, step - 1)] == [0, 1, step - 1]


@law_names
@pytest.mark.parametrize("scale", SMALL + LARGE)
def test_shapes_and_types(name, scale):
    draw = LAWS[name][1]
    for size, shape in ((0, (0,)), (7, (7,)), ((2, 3), (2, 3)), ((), ()), ([4, 0], (4, 0)), (20_000, (20_000,))):
        samples = draw(scale, size, ReproducibleStream(1))
        assert samples.dtype == np.int64 and samples.shape == shape


@law_names
def test_the_widest_law_does_not_overflow(name):
    """The largest value that can be drawn leaves room in an int64 for the values it is added to."""
    law = LAWS[name][0](2.0**50)
    largest = (law.table.values << law.step_bits) - 1
    assert largest < 2**58
    for last_bit, expected in ((0, largest), (1, -largest)):
        words = Script(TOP, *low_and_high(2**128 - 1), TOP - 1 + last_bit, 0)
        assert law._candidates(1, words).tolist() == [expected]


@law_names
def test_the_seed_decides_a_test_and_nothing_decides_a_run(name):
    draw = LAWS[name][1]
    assert (draw(2.0**40, 50, ReproducibleStream(5)) == draw(2.0**40, 50, ReproducibleStream(5))).all()
    assert not (draw(2.0**40, 50, ReproducibleStream(5)) == draw(2.0**40, 50, ReproducibleStream(6))).any()
    np.random.seed(1)
    first = draw(2.0**40, 50)
    np.random.seed(1)
    assert not (first == draw(2.0**40, 50)).any()


@pytest.mark.parametrize("value", [0, -1.0, 2.0**51, 2.0**-51, math.nan, math.inf, True, "1", None])
def test_scales_outside_the_range_are_refused(value):
    wanted = f"must be a number from 2^-50 to 2^50 (in steps of the grid), got {value!r}."
    for name, call in (("sigma", discrete_gaussian), ("scale", discrete_laplace)):
        with pytest.raises(InvalidArgument) as error:
            call(value, 3)
        assert str(error.value) == f"{name} {wanted}"
    for slack in (discrete_gaussian_slack, discrete_laplace_slack):
        with pytest.raises(InvalidArgument):
            slack(value)


def test_whole_and_numpy_scales_are_taken():
    assert check_scale("sigma", 3) == 3.0 and check_scale("sigma", np.float32(0.5)) == 0.5


@law_names
def test_a_size_that_is_no_shape_is_refused(name):
    with pytest.raises(InvalidArgument):
        LAWS[name][1](1.0, -1)
