"""The scorecard's arithmetic: weights, probabilities, points, constraints, and what users do with the document."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.components.dp_scorecard.additive import (
    DECREASING,
    INCREASING,
    Errors,
    Scale,
    calibrate,
    constrained,
    inverse_of,
    merged,
    noise_of_weights,
    slices,
    solve,
)
from fate_dp.components.dp_scorecard.export import contributions, function_of, with_ridge
from fate_dp.components.dp_scorecard.model import Points, Scorecard
from fate_dp.components.dp_scorecard.settings import TrainSettings, ridge_path
from fate_dp.crypto.contingency import one_hot
from fate_dp.privacy.bins import ColumnBins, TableBins

COUNTS = (4, 3, 5)
COLUMNS = slices(COUNTS)
SCALE = Scale(600, 50.0, 20.0)


def records(rows=3000, seed=0):
    """Rows of zeros and ones, and labels whose log-odds are additive."""
    generator = np.random.default_rng(seed)
    codes = np.column_stack([generator.integers(0, count, rows) for count in COUNTS])
    joined = one_hot(codes + np.array([0, 4, 7]), 12)
    effects = generator.normal(size=12)
    labels = (generator.random(rows) < 1 / (1 + np.exp(1.0 - joined @ effects))).astype(float)
    return joined, codes, labels


ROWS, CODES, LABELS = records()
MATRIX, LINEAR = ROWS.T @ ROWS, ROWS.T @ (4 * LABELS - 2)
WEIGHTS = solve(MATRIX, LINEAR, 1.0)
FOUND = calibrate(WEIGHTS, MATRIX @ WEIGHTS, LINEAR, np.diag(MATRIX), COLUMNS)


def card():
    base, points = SCALE.table(WEIGHTS, np.diag(MATRIX), COLUMNS, FOUND)
    own = Points(("a", "b"), COUNTS[:2], WEIGHTS[:7], points[:7])
    host = Points(("x0",), COUNTS[2:], WEIGHTS[7:], points[7:])
    return Scorecard(own, {"host 10000": host}, base, SCALE, FOUND)


DOCUMENT = json.loads(json.dumps(card().to_json({"threshold": 0.5})))


RIDGE, NOISE = 600.0, (np.full((12, 12), 900.0), np.full(12, 900.0))
"""Noise of 30 on every sum, and the ridge that such noise wants."""


def noisy_fits(draws=200):
    """(X^T X, X^T t, inverse, weights) of fits with noise that is drawn anew."""
    generator = np.random.default_rng(3)
    for _ in range(draws):
        noise = np.triu(generator.normal(0, 30, (12, 12)))
        matrix, linear = MATRIX + noise + np.triu(noise, 1).T, LINEAR + generator.normal(0, 30, 12)
        inverse = inverse_of(matrix, RIDGE)
        yield matrix, linear, inverse, inverse @ linear


def test_stated_noise_of_weights_and_points_is_what_noise_does_to_them():
    weights, points, stated, of_points = [], [], [], []
    for matrix, linear, inverse, found in noisy_fits():
        moved = noise_of_weights(inverse, found, NOISE)
        fitted = calibrate(found, matrix @ found, linear, np.diag(matrix), COLUMNS, Errors.of(inverse, found, NOISE))
        weights.append(found)
        points.append(SCALE.table(found, np.diag(matrix), COLUMNS, fitted)[1])
        stated.append(np.linalg.norm(moved, axis=1))
        of_points.append(SCALE.noise_of_points(moved, np.diag(matrix), COLUMNS, fitted))
    assert np.abs(np.std(weights, axis=0) / np.mean(stated, axis=0) - 1).max() < 0.25
    assert np.median(np.std(points, axis=0) / np.mean(of_points, axis=0)) == pytest.approx(1, abs=0.3)


def test_noise_that_weights_were_fitted_to_is_no_signal_to_the_calibration():
    """Left in, the noise stretches the log-odds."""
    corrected, plain, best = [], [], []
    for matrix, linear, inverse, found in noisy_fits():
        counts = np.diag(matrix)
        for kept, errors in ((corrected, Errors.of(inverse, found, NOISE)), (plain, Errors())):
            kept.append(calibrate(found, matrix @ found, linear, counts, COLUMNS, errors).slope)
        best.append(calibrate(found, MATRIX @ found, LINEAR, np.diag(MATRIX), COLUMNS).slope)
    ratios = np.array(corrected) / best
    assert abs(np.median(ratios) - 1) < 0.5 * abs(np.median(np.array(plain) / best) - 1) + 0.02
    assert ratios.min() > 0.5 and ratios.max() < 2


def test_weights_are_those_of_ridge_regression():
    assert np.linalg.norm(MATRIX @ WEIGHTS + WEIGHTS - LINEAR) < 1e-6 * np.linalg.norm(LINEAR)


def test_a_noisy_matrix_that_is_indefinite_still_gives_finite_weights():
    noise = np.random.default_rng(1).normal(size=(12, 12)) * 2000
    assert np.isfinite(solve(MATRIX + noise + noise.T, LINEAR, 1.0)).all()


def test_probabilities_are_calibrated_where_the_model_is_right():
    log_odds = FOUND.slope * (ROWS @ WEIGHTS) + FOUND.intercept
    probability = 1 / (1 + np.exp(-log_odds))
    order = np.argsort(probability)
    for part in np.array_split(order, 5):
        assert abs(probability[part].mean() - LABELS[part].mean()) < 0.05


def test_labels_that_tell_nothing_give_every_record_the_share_of_ones():
    found = calibrate(np.zeros(12), np.zeros(12), LINEAR, np.diag(MATRIX), COLUMNS)
    assert 1 / (1 + math.exp(-found.intercept)) == pytest.approx(LABELS.mean()) and found.slope == 0


def test_noise_that_outweighs_the_scores_still_gives_bounded_odds():
    """The noisy variance of the scores is negative here; odds then are as if classes made up all but a twentieth of it."""
    found = calibrate(WEIGHTS, -(MATRIX @ WEIGHTS), LINEAR, np.diag(MATRIX), COLUMNS)
    assert np.abs(found.slope * (ROWS @ WEIGHTS) + found.intercept).max() < 200


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=12, max_size=12), st.sampled_from([INCREASING, DECREASING]))
def test_constraints_hold_and_leave_other_columns_and_the_weighted_mean_as_they_are(weights, direction):
    weights, counts = np.array(weights), np.arange(1.0, 13.0)
    fitted = constrained(weights, counts, COLUMNS, {2: direction})
    steps = np.diff(fitted[COLUMNS[2]])
    assert (steps >= -1e-9).all() if direction == INCREASING else (steps <= 1e-9).all()
    assert (fitted[:7] == weights[:7]).all()
    assert fitted[7:] @ counts[7:] == pytest.approx(weights[7:] @ counts[7:], abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-40, 40), min_size=12, max_size=12), st.integers(0, 30))
def test_merged_neighbours_differ_by_more_and_keep_the_order_of_a_column(points, at_most):
    points, counts = np.array(points), np.arange(1.0, 13.0)
    found = merged(points, counts, COLUMNS, at_most)
    for column in COLUMNS:
        gaps = np.abs(np.diff(found[column]))
        # Means that differ by more than at_most may be rounded towards each other.
        assert ((gaps == 0) | (gaps > at_most - 1)).all()
        assert points[column].min() <= found[column].min() and found[column].max() <= points[column].max()
    rising = np.sort(points[COLUMNS[0]])
    assert (np.diff(merged(rising, counts[:4], [slice(0, 4)], at_most)) >= 0).all()


def test_bins_are_merged_into_their_mean_by_records_from_the_closest_on():
    found = merged(np.array([0, 3, 5, 20]), np.array([10.0, 10.0, 30.0, 5.0]), [slice(0, 4)], 4)
    # 3 and 5 first, into 4.5, then 0 is 4.5 away.
    assert found.tolist() == [0, 4, 4, 20]
    assert merged(np.array([0, 3, 5, 20]), np.ones(4), [slice(0, 2)], 3).tolist() == [2, 2, 5, 20]


def test_points_are_whole_and_stand_for_the_log_odds_within_their_rounding():
    base, points = SCALE.table(WEIGHTS, np.diag(MATRIX), COLUMNS, FOUND)
    total = base + ROWS @ points
    log_odds = FOUND.slope * (ROWS @ WEIGHTS) + FOUND.intercept
    assert np.abs(SCALE.log_odds(total) - log_odds).max() < (len(COUNTS) + 1) / 2 / SCALE.factor + 1e-9


def test_the_scale_says_what_points_mean():
    assert math.exp(-SCALE.log_odds(600)) == pytest.approx(50)
    assert math.exp(-SCALE.log_odds(620)) == pytest.approx(100)


def test_a_document_is_read_as_it_was_written_and_nothing_else_is():
    assert Scorecard.from_json(DOCUMENT).to_json({"threshold": 0.5}) == DOCUMENT
    for broken in (None, {}, {"data": {}}, {**DOCUMENT, "meta": {}}):
        with pytest.raises(ValueError, match="must be a scorecard"):
            Scorecard.from_json(broken)


def test_the_exported_function_scores_as_the_table_does():
    score = function_of(DOCUMENT)
    for row, codes in zip(ROWS[:20], CODES[:20].tolist()):
        _, points = SCALE.table(WEIGHTS, np.diag(MATRIX), COLUMNS, FOUND)
        record = dict(zip(("a", "b", "host 10000: x0"), codes))
        found = score(record)
        assert (
            found.points
            == card().base + int(row @ points)
            == card().base + sum(contributions(DOCUMENT, record).values())
        )
        assert found.probability == pytest.approx(1 / (1 + math.exp(-SCALE.log_odds(found.points))))


@pytest.mark.parametrize(
    "record, told",
    [({"a": 0}, "has no 'b'"), ({"a": 9, "b": 0, "host 10000: x0": 0}, "from 0 to 3"), ({"c": 0}, "has no 'a'")],
)
def test_records_that_do_not_fit_are_refused_in_one_sentence(record, told):
    with pytest.raises(ValueError, match=told):
        function_of(DOCUMENT)(record)


def test_one_bin_is_refused():
    from fate_dp.components.common.parameters import parameters_of

    with pytest.raises(ValueError, match="bins must be .*, got 1"):
        parameters_of(TrainSettings)["bins"].check(1)


def test_the_numbers_of_bins_come_from_the_model_of_the_step_that_made_them_or_from_the_parameter():
    made = {"bins": TableBins((ColumnBins("a", (0.0, 1.0)), ColumnBins("b", (), (1.0, 2.0)))).to_wire()}
    assert TrainSettings().counts(["a", "b"], made) == (4, 4)
    for settings_given, model in ((TrainSettings(), None), (TrainSettings(bins=3), made)):
        with pytest.raises(ValueError, match="come from binning_model or from bins"):
            settings_given.counts(["a", "b"], model)
    with pytest.raises(ValueError, match="columns of binning_model must be those of the table"):
        TrainSettings().counts(["b", "a"], made)
    with pytest.raises(ValueError, match="holds no bins"):
        TrainSettings().counts(["a"], {"data": {}})


def test_rare_special_and_missing_bins_have_no_neighbours():
    columns = (
        ColumnBins("a", (0.0, 1.0)),
        ColumnBins("b", (), (1.0, 2.0)),
        ColumnBins("c", (0.0,), missing=False, special=(-9.0,)),
    )
    made = {"bins": TableBins(columns).to_wire()}
    assert TrainSettings().ordered(["a", "b", "c"], made) == (3, 2, 2)
    assert TrainSettings(bins=4).ordered(["a", "b"]) == (4, 4)


def test_another_ridge_of_the_path_is_a_document_of_its_own():
    further = Scorecard(card().own, card().hosts, card().base + 7, SCALE, FOUND)
    document = json.loads(json.dumps(replace(card(), path=((4.0, further),)).to_json({"threshold": 0.5})))
    record = {"a": 0, "b": 0, "host 10000: x0": 0}
    assert function_of(with_ridge(document, 4.0))(record).points == function_of(document)(record).points + 7
    with pytest.raises(ValueError, match=r"ridge must be of the model's ridge_path, 4\.0, got 5\.0\."):
        with_ridge(document, 5.0)


@pytest.mark.parametrize("given", [[], [0.0], [-1.0], 3.0, [float("nan")], [1.0] * 33, ["x"]])
def test_a_ridge_path_must_be_a_list_of_positive_multiples(given):
    with pytest.raises(ValueError, match="ridge_path"):
        ridge_path(given)


def test_bins_and_directions_must_name_the_columns_of_the_table():
    chosen = TrainSettings(bins={"a": 4, "b": 3}, monotone={"b": INCREASING})
    assert chosen.counts(["b", "a"]) == (3, 4) and chosen.directions(["b", "a"]) == {0: INCREASING}
    with pytest.raises(ValueError, match="bins names other columns"):
        chosen.counts(["a"])
    with pytest.raises(ValueError, match="monotone names a column"):
        chosen.directions(["a"])
