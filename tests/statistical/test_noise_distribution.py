"""Distribution of the noise, each test beside a mutant that it must reject. Seeds are fixed, so results are too.

Three paths: the table alone (scale 1), table, offset and coin with every integer tested (50 and 1000.5), and steps of
millions (scales of practice, tested against the continuous law, from which the discrete one differs by less than 1e-6).
"""

import math

import numpy as np
import pytest
from scipy import stats

from fate_dp.privacy.mechanisms.clipping import clip_records
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism
from fate_dp.privacy.mechanisms.laplace import laplace_mechanism
from fate_dp.privacy.noise.discrete import _DiscreteGaussian, _DiscreteLaplace, discrete_gaussian, discrete_laplace
from fate_dp.privacy.noise.stream import ReproducibleStream, bernoulli, uniform_below

pytestmark = pytest.mark.statistical
SAMPLES = 200_000
LIMIT = 5.0
FALSE_ALARM = 1e-6
SCALES = (1.0, 50.0, 1000.5, 2.0**30, 2.0**40, 2.0**50)
WRONG = (2 / 3, 3 / 2)

# By law: sampler, continuous law of scale 1, its variance and fourth moment, log of the weight at z.
LAWS = {
    "gaussian": (discrete_gaussian, stats.norm, 1.0, 3.0, lambda z, s: -(z**2) / (2 * s**2)),
    "laplace": (discrete_laplace, stats.laplace, 2.0, 24.0, lambda z, s: -np.abs(z) / s),
}
law_names = pytest.mark.parametrize("name", LAWS)
scales = pytest.mark.parametrize("scale", SCALES)


def samples_of(name, scale, seed=1, count=SAMPLES):
    return LAWS[name][0](scale, count, ReproducibleStream(seed))


def exact_probabilities(name, scale, largest):
    """P(z) for z from -largest to largest of the discrete law, in float64."""
    reach = np.arange(-60 * math.ceil(scale), 60 * math.ceil(scale) + 1, dtype=float)
    weights = np.exp(LAWS[name][4](reach, scale))
    return (weights / weights.sum())[np.abs(reach) <= largest]


def frequency_p_value(name, samples, scale):
    """Chi-square over every integer that is expected at least 20 times; the rest is one class."""
    largest = 60 * math.ceil(scale)
    probabilities = exact_probabilities(name, scale, largest)
    counts = np.bincount(np.clip(samples, -largest, largest) + largest, minlength=2 * largest + 1)
    frequent = probabilities * len(samples) >= 20
    observed = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(probabilities[frequent], probabilities[~frequent].sum()) * len(samples)
    return stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


def quantile_p_value(name, samples, scale):
    """Chi-square over 256 classes of equal probability of the continuous law."""
    classes = np.floor(LAWS[name][1].cdf((samples + 0.5) / scale) * 256).astype(int)
    return stats.chisquare(np.bincount(np.minimum(classes, 255), minlength=256)).pvalue


def p_value(name, samples, scale):
    return (frequency_p_value if scale < 2**20 else quantile_p_value)(name, samples, scale)


@law_names
@scales
def test_the_law_is_right_and_two_thirds_and_three_halves_are_rejected(name, scale):
    samples = samples_of(name, scale)
    assert p_value(name, samples, scale) > FALSE_ALARM
    for wrong in WRONG:
        assert p_value(name, samples, scale * wrong) < FALSE_ALARM
        if scale * wrong <= 2.0**50:
            assert p_value(name, samples_of(name, scale * wrong, seed=2), scale) < FALSE_ALARM


@law_names
@scales
def test_mean_and_variance(name, scale):
    relative = samples_of(name, scale, seed=3) / scale
    variance, fourth = LAWS[name][2:4]
    if scale == 1.0:
        reach = np.arange(-60.0, 61.0)
        variance, fourth = (exact_probabilities(name, scale, 60) @ reach**power for power in (2, 4))
    assert abs(relative.mean()) < LIMIT * math.sqrt(variance / SAMPLES)
    deviation = math.sqrt((fourth - variance**2) / SAMPLES)
    score = (np.mean(relative**2) - variance) / deviation
    assert abs(score) < LIMIT
    for wrong in WRONG:
        assert abs(np.mean(relative**2) - variance * wrong**2) > LIMIT * deviation * wrong**2


@law_names
@scales
def test_tails_on_both_sides(name, scale):
    """Beyond 3 scales: a law of 2/3 or 3/2 of the scale has too few or too many samples there."""
    law, samples = LAWS[name][1], samples_of(name, scale, seed=4)
    for side in (samples, -samples):
        beyond = int((side > 3 * scale).sum())
        rates = [law.sf((math.floor(3 * scale) + 0.5) / (scale * wrong)) for wrong in (1.0, *WRONG)]
        if scale == 1.0:
            rates = [
                exact_probabilities(name, scale * wrong, 60 * math.ceil(wrong))[-60 * math.ceil(wrong) :][3:].sum()
                for wrong in (1.0, *WRONG)
            ]
        right, *others = [stats.binomtest(beyond, SAMPLES, rate).pvalue for rate in rates]
        assert right > FALSE_ALARM and max(others) < FALSE_ALARM


@law_names
@pytest.mark.parametrize("scale", SCALES[2:])
def test_the_coin_is_needed_and_thrown(name, scale, monkeypatch):
    """Within a step the law falls; the mutant without a coin is flat there, which the mean place in the step shows."""
    law = {"gaussian": _DiscreteGaussian, "laplace": _DiscreteLaplace}[name](scale)
    step = 2**law.step_bits
    table_scale = scale / step
    coarse = np.arange(law.table.values)[:, None]
    places = (np.arange(4096) + 0.5) / 4096
    weights = np.exp(LAWS[name][4](coarse + places, table_scale)).sum(axis=0)
    expected = (weights @ places) / weights.sum() - 0.5 / step

    def score(seed):
        within = np.abs(law.sample(4 * SAMPLES, ReproducibleStream(seed))) % step
        return (within.mean() / step - expected) * math.sqrt(12 * 4 * SAMPLES)

    assert abs(score(5)) < LIMIT
    monkeypatch.setattr(law, "_coins", lambda coarse, fine, stream: np.ones(len(coarse), dtype=bool))
    assert score(5) > LIMIT


@law_names
def test_a_mutant_that_keeps_negative_zeros_is_rejected(name):
    samples = samples_of(name, 1.0)
    zeros_twice = np.concatenate([samples, samples[samples == 0]])
    assert frequency_p_value(name, zeros_twice, 1.0) < FALSE_ALARM


@law_names
@pytest.mark.parametrize("scale", [2.0**30, 2.0**50])
def test_every_low_bit_is_a_fair_coin_and_independent_of_its_neighbours(name, scale):
    samples = samples_of(name, scale, seed=6)
    bits = (samples[:, None] >> np.arange(int(math.log2(scale)) - 8)) & 1
    scores = (bits.mean(axis=0) - 0.5) * 2 * math.sqrt(SAMPLES)
    pairs = ((bits[:, 1:] ^ bits[:, :-1]).mean(axis=0) - 0.5) * 2 * math.sqrt(SAMPLES)
    assert np.abs(scores).max() < LIMIT and np.abs(pairs).max() < LIMIT


@law_names
def test_successive_samples_are_uncorrelated(name):
    """Also across the blocks in which samples are drawn."""
    samples = samples_of(name, 2.0**40, seed=7) / 2.0**40
    for lag in (1, 2, 2**14):
        assert abs(np.corrcoef(samples[lag:], samples[:-lag])[0, 1]) * math.sqrt(SAMPLES - lag) < LIMIT


def low_bit_shares(release):
    """Pitfall 8: share of releases from 0.0 and from 1.0 that are no multiple of 2^-power, for powers from 20 to 60."""
    shares = []
    for value in (0.0, 1.0):
        released = release(np.full(SAMPLES, value))
        scaled = (released * 2.0**power for power in range(20, 61))
        shares.append([np.mean(np.rint(multiple) != multiple) for multiple in scaled])
    return np.array(shares)


def largest_difference(shares):
    """In standard deviations of the difference of two shares; where neither varies they must be equal."""
    middle = shares.mean(axis=0)
    deviation = np.sqrt(2 * middle * (1 - middle) / SAMPLES)
    difference = np.abs(shares[0] - shares[1])
    return np.max(np.where(deviation > 0, difference / np.maximum(deviation, 1e-300), np.where(difference > 0, 99, 0)))


def gaussian_release(values, sigma, stream):
    """All values as the coordinates of one record, whose norm lies below the clip."""
    clip = 2 * math.sqrt(SAMPLES)
    clipped = clip_records(values[None, :], clip)
    return gaussian_mechanism(clipped, sigma / clip, relation="add_or_remove", observers="model", rng=stream).value


def laplace_release(values, scale, stream):
    return laplace_mechanism(values, 1.0, 1 / scale, relation="replace_one", observers="model", rng=stream).value


@pytest.mark.parametrize("release", [gaussian_release, laplace_release])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_low_bits_do_not_tell_0_from_1(release, scale):
    # One stream for both values: with equal noise the shares would agree whatever the grid.
    stream = ReproducibleStream(8)
    shares = low_bit_shares(lambda values: release(values, scale, stream))
    assert largest_difference(shares) < LIMIT
    # The grid leaves low bits to compare: some are set in half of all releases.
    assert shares.max() > 0.4


@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_low_bits_of_numpy_noise_do_tell(scale):
    generator = np.random.default_rng(8)
    assert largest_difference(low_bit_shares(lambda values: values + generator.normal(0, scale, SAMPLES))) > 100


@pytest.mark.parametrize("bound", [3, 12, 2**63 - 1, 3 * 2**61])
def test_uniform_integers_are_uniform(bound):
    """At 3 * 2^61 a mutant that takes 64 bits modulo the bound favours the first third twofold."""

    def p_value_of(samples):
        return stats.chisquare(np.bincount((samples.astype(object) * 3 // bound).astype(int), minlength=3)).pvalue

    assert p_value_of(uniform_below(bound, 30_000, ReproducibleStream(9))) > FALSE_ALARM
    biased = ReproducibleStream(9).words(30_000) % np.uint64(3 * 2**61)
    assert stats.chisquare(np.bincount((biased // np.uint64(2**61)).astype(int), minlength=3)).pvalue < FALSE_ALARM


@pytest.mark.parametrize("probability", [0.001, 0.3, 0.5])
def test_coins_have_their_probability(probability):
    heads = int(bernoulli(probability, SAMPLES, ReproducibleStream(10)).sum())
    assert stats.binomtest(heads, SAMPLES, probability).pvalue > FALSE_ALARM
    for wrong in WRONG:
        assert stats.binomtest(heads, SAMPLES, probability * wrong).pvalue < FALSE_ALARM
