"""Laws of what mechanisms release, each test beside 2/3 and 3/2 of the right scale, which it must reject.

All streams are reproducible with fixed seeds, so results never change from run to run.
"""

import math

import numpy as np
import pytest
from scipy import stats

from fate_dp.privacy.mechanisms.aggregates import (
    CANDIDATES,
    private_mean,
    private_median,
    rank_scores,
    sample_and_aggregate,
)
from fate_dp.privacy.mechanisms.clipping import clip_records, clip_records_by_group
from fate_dp.privacy.mechanisms.dummy_count import draw_dummy_count
from fate_dp.privacy.mechanisms.exponential import (
    WEIGHT_BITS,
    exponential_mechanism,
    exponential_weights,
    report_noisy_max,
)
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism, grouped_gaussian_mechanism
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism, laplace_mechanism
from fate_dp.privacy.mechanisms.local_numbers import duchi_l2, duchi_norm
from fate_dp.privacy.mechanisms.quantiles import private_quantiles
from fate_dp.privacy.mechanisms.randomized_response import (
    estimate_mean,
    flip_indices,
    flip_probability,
    grid_randomized_response,
)
from fate_dp.privacy.mechanisms.sampling import poisson_sample, random_permutation
from fate_dp.privacy.noise.stream import ReproducibleStream

pytestmark = pytest.mark.statistical
LIMIT = 5.0
MUTANTS = (2 / 3, 3 / 2)
SAMPLES = 20_000
WHOM = {"relation": "replace_one", "observers": "model"}


def accepts(sample, law):
    """Whether a Kolmogorov-Smirnov test at a level of 1e-6 accepts the law (a cumulative distribution function)."""
    return stats.kstest(np.ravel(sample), law).pvalue > 1e-6


def check_law(sample, law_of_scale, scale):
    assert accepts(sample, law_of_scale(scale).cdf)
    for wrong in MUTANTS:
        assert not accepts(sample, law_of_scale(wrong * scale).cdf)


def check_shares(counts, shares, wrong_shares):
    counts, shares = np.asarray(counts), np.asarray(shares, dtype=float)
    assert stats.chisquare(counts, counts.sum() * shares / shares.sum()).pvalue > 1e-6
    for wrong in wrong_shares:
        assert stats.chisquare(counts, counts.sum() * np.asarray(wrong) / sum(wrong)).pvalue < 1e-6


def normal(scale):
    return stats.norm(scale=scale)


def laplace(scale):
    return stats.laplace(scale=scale)


@pytest.mark.parametrize("relation, moved", [("add_or_remove", 1), ("replace_one", 2)])
def test_gaussian_noise_is_in_units_of_the_sensitivity(relation, moved):
    clipped = clip_records(np.zeros((1, SAMPLES)), 3.0)
    release = gaussian_mechanism(clipped, 0.7, relation=relation, observers="model", rng=ReproducibleStream(1))
    check_law(release.value, normal, 0.7 * 3.0 * moved)


def test_gaussian_noise_of_a_poisson_sample_is_in_units_of_the_clip():
    clipped = clip_records(np.zeros((1, SAMPLES)), 3.0)
    release = gaussian_mechanism(clipped, 0.7, sampling_probability=0.1, rng=ReproducibleStream(2), **WHOM)
    check_law(release.value, normal, 0.7 * 3.0)


def test_every_group_has_its_own_noise():
    groups = [slice(0, SAMPLES), slice(SAMPLES, 2 * SAMPLES)]
    clipped = clip_records_by_group(np.zeros((1, 2 * SAMPLES)), groups, [1.0, 5.0])
    release = grouped_gaussian_mechanism(clipped, [2.0, 0.25], rng=ReproducibleStream(3), **WHOM)
    check_law(release.value[:SAMPLES], normal, 2.0)
    check_law(release.value[SAMPLES:], normal, 0.25)


def test_laplace_noise_has_the_scale_of_sensitivity_over_epsilon():
    release = laplace_mechanism(np.full(SAMPLES, 7.0), 3.0, 0.5, rng=ReproducibleStream(4), **WHOM)
    check_law(release.value - 7.0, laplace, 6.0)


def test_counts_have_geometric_noise():
    noise = geometric_mechanism(np.zeros(SAMPLES, dtype=int), 2, 1.0, rng=ReproducibleStream(5), **WHOM).value
    values = np.arange(-8, 9)
    counts = [(noise == value).sum() for value in values]
    laws = [stats.dlaplace(1 / (2 * scale)) for scale in (1.0, *MUTANTS)]
    expected = [[*law.pmf(values), 2 * law.sf(8)] for law in laws]
    check_shares([*counts, (np.abs(noise) > 8).sum()], expected[0], expected[1:])


def test_a_private_mean_has_noise_of_one_range_over_n_epsilon():
    stream = ReproducibleStream(6)
    means = [private_mean([4.0, 2.0], 0.0, 10.0, 2.0, observers="model", rng=stream).value for _ in range(1500)]
    check_law(np.array(means) - 3.0, laplace, 2.5)


def test_sample_and_aggregate_has_noise_of_one_range_over_parts_epsilon():
    stream, data = ReproducibleStream(7), np.full(20, 0.5)
    options = dict(parts=10, epsilon=0.5, lower=0.0, upper=1.0, observers="model", rng=stream)
    values = [sample_and_aggregate(data, np.mean, **options).value for _ in range(1500)]
    check_law(np.array(values) - 0.5, laplace, 0.2)


def weights(scores, epsilon):
    return [weight / 2**WEIGHT_BITS for weight in exponential_weights(scores, epsilon, 1.0)]


def test_the_exponential_mechanism_has_its_law():
    scores, stream = [0.0, 1.0, 2.0, 3.5, 3.0], ReproducibleStream(8)
    chosen = [exponential_mechanism(scores, 1.2, 1.0, stream) for _ in range(6000)]
    expected = [np.exp(1.2 * factor * np.array(scores) / 2) for factor in (1.0, *MUTANTS)]
    check_shares(np.bincount(chosen, minlength=5), expected[0], expected[1:])


def test_a_median_of_cells_is_chosen_by_how_many_values_lie_on_either_side():
    counts, stream = np.array([1, 4, 1, 2]), ReproducibleStream(17)
    chosen = [private_quantiles(counts, 1, 1.5, stream)[0] for _ in range(6000)]
    # Of 8 values 1, 5 and 6 lie below the points; a replaced one moves the difference of both sides by two.
    expected = [np.exp(1.5 * factor * np.array([-6, -2, -4]) / 4) for factor in (1.0, *MUTANTS)]
    check_shares(np.bincount(chosen, minlength=3), expected[0], expected[1:])


def test_dummies_have_a_discrete_laplace_law_cut_off_at_both_ends():
    pool, stream = 8, ReproducibleStream(18)
    counts = np.bincount([draw_dummy_count(0.7, pool, stream) for _ in range(6000)], minlength=pool + 1)
    expected = [np.exp(-0.7 * factor * np.abs(np.arange(pool + 1) - pool / 2)) for factor in (1.0, *MUTANTS)]
    check_shares(counts, expected[0], expected[1:])


def test_permute_and_flip_has_its_law():
    scores, stream = [0.0, 2.0], ReproducibleStream(9)
    chosen = [report_noisy_max(scores, 1.0, 1.0, rng=stream, **WHOM).value for _ in range(6000)]
    expected = []
    for factor in (1.0, *MUTANTS):
        worse = math.exp(-factor) / 2
        expected.append([worse, 1 - worse])
    check_shares(np.bincount(chosen, minlength=2), expected[0], expected[1:])


def test_a_median_is_chosen_by_its_rank():
    stream, values = ReproducibleStream(10), np.repeat([0.0, 0.5, 1.0], [3, 5, 3])
    medians = [private_median(values, 0.0, 1.0, 6.0, observers="model", rng=stream).value for _ in range(1500)]
    scores = rank_scores(np.repeat([0, 512, 1024], [3, 5, 3]))
    counts = np.bincount((np.array(medians) * 1024).round().astype(int), minlength=CANDIDATES)
    groups = [slice(0, 512), slice(512, 513), slice(513, CANDIDATES)]
    expected = [[np.exp(6.0 * factor * scores[group] / 4).sum() for group in groups] for factor in (1.0, *MUTANTS)]
    check_shares([counts[group].sum() for group in groups], expected[0], expected[1:])


def test_permutations_are_uniform():
    stream = ReproducibleStream(11)
    orders = [tuple(random_permutation(3, stream)) for _ in range(6000)]
    counts = [orders.count(order) for order in sorted(set(orders))]
    check_shares(counts, [1] * 6, [[2, 2, 2, 2, 2, 3], [1, 1, 1, 1.5, 1.5, 1.5]])


@pytest.mark.parametrize("epsilon, classes", [(1.0, 2), (2.0, 5)])
def test_fresh_flips_have_their_rate_and_choose_evenly(epsilon, classes):
    flipped = flip_indices(np.ones(SAMPLES, dtype=int), epsilon, classes, ReproducibleStream(12))
    expected = []
    for factor in (1.0, *MUTANTS):
        flip = flip_probability(epsilon * factor, classes)
        shares = np.full(classes, flip / (classes - 1))
        shares[1] = 1 - flip
        expected.append(shares)
    check_shares(np.bincount(flipped, minlength=classes), expected[0], expected[1:])


def test_the_mean_on_a_grid_is_estimated_without_bias():
    points, values = [0.0, 1.0, 3.0, 10.0], np.random.default_rng(1).uniform(0, 10, size=SAMPLES)
    release = grid_randomized_response(values, points, 2.0, observers="server", rng=ReproducibleStream(13))
    estimates = [estimate_mean(part, points, 2.0) for part in np.split(release.value, 20)]
    error = np.std(estimates, ddof=1) / math.sqrt(20)
    assert abs(np.mean(estimates) - values.mean()) < LIMIT * error
    for wrong in MUTANTS:
        assert abs(np.mean(estimates) - wrong * values.mean()) > LIMIT * error


@pytest.mark.parametrize("vector", [[0.6, -0.3, 0.2, 0.0], [3.0, 4.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0]])
def test_duchi_s_answers_are_unbiased(vector):
    vector = np.array(vector)
    clipped = vector / max(1.0, np.linalg.norm(vector))
    count = 40_000
    answers = duchi_l2(np.tile(vector, (count, 1)), 1.0, 1.5, observers="server", rng=ReproducibleStream(14)).value
    # Every coordinate of an answer is at most of size B, and its mean square is about B^2 / 4.
    error = duchi_norm(4, 1.0, 1.5) / 2 / math.sqrt(count)
    assert np.abs(answers.mean(axis=0) - clipped).max() < LIMIT * error
    for wrong in MUTANTS:
        assert np.abs(answers.mean(axis=0) - wrong * clipped).max() > LIMIT * error


def test_duchi_s_answers_to_opposite_vectors_have_odds_of_e_to_the_epsilon_on_a_hemisphere():
    count, vectors = 40_000, np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    shares = []
    for seed, vector in enumerate(vectors):
        answers = duchi_l2(np.tile(vector, (count, 1)), 1.0, 1.0, observers="server", rng=ReproducibleStream(seed))
        shares.append((answers.value[:, 1] > 0).mean())
    assert math.isclose(shares[0], math.e / (math.e + 1), abs_tol=LIMIT * 0.5 / math.sqrt(count))
    assert math.isclose(math.log(shares[0] / shares[1]), 1.0, abs_tol=0.05)


RECORDS, ROUNDS, RATE = 500, 2000, 0.1


def memberships(batches):
    table = np.zeros((len(batches), RECORDS))
    for row, batch in zip(table, batches):
        row[batch] = 1
    return table


def looks_like_poisson(table, rate=RATE):
    """Whether rates, batch sizes and pairs of memberships agree with independent coins, each to 5 standard errors."""
    trials = table.size
    rate_score = (table.mean() - rate) / math.sqrt(rate * (1 - rate) / trials)
    sizes = table.sum(axis=1)
    variance_score = (sizes.var(ddof=1) / (RECORDS * rate * (1 - rate)) - 1) * math.sqrt((len(sizes) - 1) / 2)
    neighbours = np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1] * math.sqrt(trials)
    successive = np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1] * math.sqrt(trials)
    return max(map(abs, (rate_score, variance_score, neighbours, successive))) < LIMIT


def shuffled_batches(generator):
    """Batches of a shuffled loader: every epoch cuts a permutation into pieces of one size."""
    per_epoch = round(1 / RATE)
    return [batch for _ in range(ROUNDS // per_epoch) for batch in np.split(generator.permutation(RECORDS), per_epoch)]


def test_poisson_batches_are_independent_coins_and_other_loaders_are_not():
    stream, generator = ReproducibleStream(15), np.random.default_rng(15)
    poisson = memberships([poisson_sample(RECORDS, RATE, stream) for _ in range(ROUNDS)])
    assert looks_like_poisson(poisson)
    for wrong in MUTANTS:
        assert not looks_like_poisson(poisson, RATE * wrong)
    fixed_size = [generator.choice(RECORDS, int(RECORDS * RATE), replace=False) for _ in range(ROUNDS)]
    same_coins = [poisson_sample(RECORDS, RATE, ReproducibleStream(16))] * ROUNDS
    pairs = [np.flatnonzero(np.repeat(generator.random(RECORDS // 2) < RATE, 2)) for _ in range(ROUNDS)]
    assert not looks_like_poisson(memberships(shuffled_batches(generator)))
    assert not looks_like_poisson(memberships(fixed_size))
    assert not looks_like_poisson(memberships(same_coins))
    assert not looks_like_poisson(memberships(pairs))
