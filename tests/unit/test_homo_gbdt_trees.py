"""Sums by leaf of random trees, what one record moves them by, and what the server makes of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.dp_homo_gbdt.boosting import (
    GrownBatch,
    Server,
    contribution,
    noise_of_sums,
    round_terms,
    scores_of,
)
from fate_dp.components.dp_homo_gbdt.growth import Growth, Released, bins_to_the_right, smoothed
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings, normal_cuts
from fate_dp.components.dp_homo_gbdt.trees import (
    BOUND,
    CURVATURE_WEIGHT,
    FIRST_BOUND,
    FIRST_CURVATURE_WEIGHT,
    Batch,
    clips_of,
    curvature_weight,
    leaf_sums,
    record_steps,
)
from fate_dp.components.protocols.noisy_rounds.contribution import NoisyMean
from fate_dp.privacy.bins import TableBins, category_bins, cut_bins
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms.clipping import grid_for
from fate_dp.privacy.noise.stream import ReproducibleStream

BINS = TableBins((cut_bins("age", [30.0, 40.0, 50.0]), category_bins("colour", [1, 2, 3])))
SCORES = np.concatenate([np.linspace(-40, 40, 20001), [0.0, 1e300, -1e300]])
TREES, DEPTH = 5, 3


def batch(trees=TREES, depth=DEPTH, seed=3):
    return Growth(BINS, np.random.default_rng(seed)).draw(trees, depth)


def rows(count, seed=7):
    generator = np.random.default_rng(seed)
    table = np.column_stack([generator.uniform(20, 60, count), generator.integers(1, 5, count)])
    return BINS.codes(table), generator.integers(0, 2, count).astype(float), generator.normal(0, 3, count)


def sums_of(splits, data, number=1):
    return leaf_sums(splits, *data, clips_of(2, splits.trees)[number], curvature_weight(number))


def test_gradient_and_curvature_of_any_score_are_within_the_bound_unscaled():
    for label in (0.0, 1.0):
        probability = 1 / (1 + np.exp(-np.clip(SCORES, -700, 700)))
        norms = np.hypot(label - probability, CURVATURE_WEIGHT * probability * (1 - probability))
        assert norms.max() <= BOUND
        steps = record_steps(SCORES, np.full(len(SCORES), label), CURVATURE_WEIGHT, BOUND, grid_for(BOUND))
        np.testing.assert_allclose(np.hypot(*steps.T) * grid_for(BOUND), norms, atol=1e-9)
    least = min((1 + q) / (q * q * (1 - q)) for q in np.linspace(0.5, 0.75, 100001))
    assert CURVATURE_WEIGHT**2 < least < (CURVATURE_WEIGHT + 0.001) ** 2
    assert math.hypot(0.5, FIRST_CURVATURE_WEIGHT / 4) < FIRST_BOUND < math.hypot(0.5, 0.25) * (1 + 1e-12)


@pytest.mark.parametrize("weight, bound", [(CURVATURE_WEIGHT, BOUND), (CURVATURE_WEIGHT, 0.3), (20.0, BOUND)])
def test_a_row_never_exceeds_the_bound_but_by_its_rounding(weight, bound):
    grid = grid_for(bound)
    for label in (0.0, 1.0):
        steps = record_steps(SCORES, np.full(len(SCORES), label), weight, bound, grid)
        assert np.hypot(*steps.T.astype(float)).max() <= bound / grid + math.sqrt(2) / 2
        assert np.abs(steps).max() > 0.9 * bound / grid


def test_a_row_without_a_finite_score_adds_nothing():
    assert not record_steps(np.array([np.nan]), np.ones(1), CURVATURE_WEIGHT, BOUND, grid_for(BOUND)).any()


@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(0, 1))
def test_a_record_moves_all_sums_by_no_more_than_they_report(count, seed, number):
    splits, (codes, labels, scores) = batch(), rows(count, seed)
    # Before the first batch no record has a score.
    scores = scores * number
    others, other = slice(1, None), rows(1, seed + 1)
    whole = sums_of(splits, (codes, labels, scores), number)
    without = sums_of(splits, (codes[others], labels[others], scores[others]), number)
    replaced = [np.concatenate(pair) for pair in zip(other, (codes[others], labels[others], scores[others]))]
    replaced[2] = replaced[2] * number
    for relation, less in ((ADD_OR_REMOVE, without), (REPLACE_ONE, sums_of(splits, replaced, number))):
        moved = np.linalg.norm((whole.steps - less.steps).astype(float))
        assert moved <= whole.sensitivity_in_steps(relation)


def test_the_reported_sensitivity_is_reached_but_for_a_thousandth():
    splits = batch()
    codes, _, _ = rows(1)
    far = sums_of(splits, (codes, np.ones(1), np.full(1, -40.0)))
    assert np.linalg.norm(far.steps.astype(float)) > 0.999 * far.sensitivity_in_steps(ADD_OR_REMOVE)


def test_a_record_is_in_one_leaf_of_each_tree_and_sums_do_not_depend_on_order_or_parts():
    splits, data = batch(), rows(500)
    whole = sums_of(splits, data)
    order = np.random.default_rng(0).permutation(500)
    np.testing.assert_array_equal(whole.steps, sums_of(splits, [part[order] for part in data]).steps)
    parts = [sums_of(splits, [part[place : place + 1] for part in data]).steps for place in range(500)]
    np.testing.assert_array_equal(whole.steps, sum(parts))
    assert all(np.count_nonzero(part) <= 2 * TREES for part in parts)


def test_a_score_is_the_same_alone_and_among_others():
    splits, (codes, _, _) = batch(trees=40), rows(300)
    grown = GrownBatch(splits, np.random.default_rng(1).normal(size=(40, splits.leaves)))
    together = scores_of([grown, grown], codes)
    alone = [scores_of([grown, grown], codes[place : place + 1])[0] for place in range(300)]
    assert together.tolist() == alone


def test_a_tree_asks_as_its_nodes_say():
    ages, colours = np.array([[False, False, True, True, False]]), np.array([[False, True, False, True, True]])
    splits = Batch(np.array([[0, 1, 1]]), np.concatenate([ages, colours, ~colours])[None])
    table = np.array([[35.0, 1], [35.0, 2], [45.0, 1], [45.0, 9], [np.nan, np.nan]])
    assert splits.leaf_of(BINS.codes(table), 0).tolist() == [0, 1, 3, 2, 1]
    assert (splits.depth, splits.leaves, splits.trees) == (2, 4, 1)


def test_random_splits_keep_order_and_send_missing_values_and_categories_either_way():
    generator = np.random.default_rng(0)
    ordered = np.array([bins_to_the_right(BINS.columns[0], generator) for _ in range(400)])
    assert (np.diff(ordered[:, :4].astype(int), axis=1) >= 0).all()
    assert not ordered[:, 0].any() and ordered[:, 3].all()
    assert 0.4 < ordered[:, 4].mean() < 0.6
    listed = np.array([bins_to_the_right(BINS.columns[1], generator) for _ in range(400)])
    assert ((listed.mean(axis=0) > 0.4) & (listed.mean(axis=0) < 0.6)).all()


def test_without_noise_values_are_newton_steps_of_the_whole_and_of_leaves_that_differ():
    sums, sizes = np.array([[90.0, -30.0]]), np.array([[100.0, 200.0]])
    common, effects, gains = smoothed(Released(sums, sizes, 0.0, 0.0))
    assert common == pytest.approx(60 / 300)
    differing = 0.9 + 0.15
    assert effects[0, 0] - effects[0, 1] == pytest.approx(differing, rel=0.05)
    assert gains[0, 0] == pytest.approx((differing**2 - 1 / 100 - 1 / 200) * 100 * 200 / 300)


def test_what_does_not_exceed_its_noise_has_no_effect():
    sums, sizes = np.array([[3.0, -3.0], [-2.0, 2.0]]), np.full((2, 2), 100.0)
    _, effects, gains = smoothed(Released(sums, sizes, 50.0, 15.0))
    assert not effects.any() and (gains < 0).all()


def test_effects_shrink_as_noise_grows():
    generator = np.random.default_rng(5)
    sizes = np.full((10, 8), 500.0)
    sums = 50 * generator.normal(size=(10, 8))
    sizes_of_effects = [
        np.abs(smoothed(Released(sums, sizes, noise, noise / 3))[1]).sum() for noise in (0.0, 20.0, 40.0)
    ]
    assert sizes_of_effects == sorted(sizes_of_effects, reverse=True) and sizes_of_effects[-1] < sizes_of_effects[0] / 2


def test_columns_that_gained_are_asked_more_often_and_none_is_forgotten():
    growth = Growth(BINS, np.random.default_rng(2))
    assert growth.probabilities().tolist() == [0.5, 0.5]
    growth.gained[:], growth.asked[:] = (400.0, -10.0), (4.0, 4.0)
    weights = growth.probabilities()
    assert weights.sum() == pytest.approx(1) and weights[0] > 0.89 and weights[1] == pytest.approx(0.05)


def test_released_sums_become_the_values_that_the_model_adds_up():
    """In one process with hardly any noise the model finds what decides the labels."""
    settings = TrainSettings(records=3000, noise_multiplier=0.01, trees=20, rounds=4, depth=3)
    table = np.random.default_rng(0).normal(size=(3000, 2))
    labels = (table[:, 0] > 0).astype(float)
    bins, terms, stream = settings.bins_of(["a", "b"]), round_terms(settings, 2), ReproducibleStream(1)
    server, codes, scores = Server(settings, terms, bins), settings.bins_of(["a", "b"]).codes(table), np.zeros(3000)
    for number in range(settings.rounds):
        splits, clip = server.draw(), terms.clip_of(number)
        halves = [slice(0, 1500), slice(1500, None)]
        sums = [
            leaf_sums(splits, codes[half], labels[half], scores[half], clip, curvature_weight(number))
            for half in halves
        ]
        sent = [contribution(each, terms, place, number, stream) for place, each in enumerate(sums)]
        total = sum(each.content for each in sent) * grid_for(clip)
        grown = server.grow(splits, NoisyMean(total / terms.batch_size), 2, number)
        scores += splits.step_of(codes, grown.values)
    assert ((scores > 0) == labels).mean() > 0.95
    np.testing.assert_array_equal(scores, scores_of(server.batches, codes))
    assert server.importance[0] > 10 * server.importance[1]


def test_noise_of_the_server_s_model_is_that_of_what_arrived():
    settings = TrainSettings(records=100, noise_multiplier=4.0, trees=8, rounds=2, max_dropouts=2)
    for aggregation, arrived, factor in (("secure_sum", 3, 3.0), ("secure_sum", 2, 2.0), ("local", 3, 3.0)):
        given = TrainSettings(**{**settings.to_json(), "aggregation": aggregation})
        terms = round_terms(given, 3)
        assert noise_of_sums(terms, arrived, terms.clip_of(1)) == pytest.approx(4.0 * 2 * math.sqrt(factor))
        assert noise_of_sums(terms, arrived, terms.clip_of(0)) == pytest.approx(
            4.0 * 2 * FIRST_BOUND * math.sqrt(factor)
        )


def test_cut_points_of_columns_without_a_rule_read_no_record():
    cuts = normal_cuts()
    assert len(cuts) == 31 and cuts[15] == 0 and cuts[0] == pytest.approx(-1.8627, abs=1e-4)
    assert TrainSettings(records=1, epsilon=1.0).bins_of(["x"]).columns[0].cuts == tuple(cuts)
