"""The scorecard's arithmetic: weights, probabilities, points, constraints, and what users do with the document."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.components.dp_scorecard.additive import (
    DECREASING,
    INCREASING,
    Scale,
    calibrate,
    constrained,
    slices,
    solve,
    solve_by_products,
)
from fate_dp.components.dp_scorecard.export import contributions, function_of, picture
from fate_dp.components.dp_scorecard.model import Points, Scorecard
from fate_dp.components.dp_scorecard.settings import TrainSettings
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


def test_weights_are_those_of_ridge_regression():
    assert np.linalg.norm(MATRIX @ WEIGHTS + WEIGHTS - LINEAR) < 1e-6 * np.linalg.norm(LINEAR)


def test_conjugate_gradients_find_the_same_scores_in_few_products():
    asked = []

    def product(direction):
        asked.append(direction)
        return MATRIX @ direction

    weights = solve_by_products(product, LINEAR, np.diag(MATRIX), 1.0, 40)
    assert len(asked) < 20
    assert np.abs(ROWS @ (weights - WEIGHTS)).max() < 0.01 * np.abs(ROWS @ WEIGHTS).max()


def test_rounds_bound_the_products_that_are_shown():
    asked = []
    solve_by_products(lambda p: asked.append(p) or MATRIX @ p, LINEAR, np.diag(MATRIX), 1.0, 3)
    assert len(asked) == 3


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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=12, max_size=12), st.sampled_from([INCREASING, DECREASING]))
def test_constraints_hold_and_leave_other_columns_and_the_weighted_mean_as_they_are(weights, direction):
    weights, counts = np.array(weights), np.arange(1.0, 13.0)
    fitted = constrained(weights, counts, COLUMNS, {2: direction})
    steps = np.diff(fitted[COLUMNS[2]])
    assert (steps >= -1e-9).all() if direction == INCREASING else (steps <= 1e-9).all()
    assert (fitted[:7] == weights[:7]).all()
    assert fitted[7:] @ counts[7:] == pytest.approx(weights[7:] @ counts[7:], abs=1e-6)


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
        with pytest.raises(ValueError, match="is no scorecard"):
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
    [({"a": 0}, "no bin of 'b'"), ({"a": 9, "b": 0, "host 10000: x0": 0}, "from 0 to 3"), ({"c": 0}, "no bin of 'a'")],
)
def test_records_that_do_not_fit_are_refused_in_one_sentence(record, told):
    with pytest.raises(ValueError, match=told):
        function_of(DOCUMENT)(record)


def test_a_picture_has_every_columns_shape(tmp_path):
    picture(DOCUMENT, tmp_path / "shapes.png")
    assert (tmp_path / "shapes.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "given, told",
    [({"bins": 1}, None), ({"bins": 4, "privacy": "none", "epsilon": 1.0}, "epsilon is 1 but privacy is none")],
)
def test_settings_that_do_not_fit_together_are_refused(given, told):
    if told is None:
        from fate_dp.components.common.parameters import parameters_of

        with pytest.raises(ValueError, match="bins is 1"):
            parameters_of(TrainSettings)["bins"].check(given["bins"])
        return
    with pytest.raises(ValueError, match=told):
        TrainSettings(**given)


def test_the_numbers_of_bins_come_from_the_model_of_the_step_that_made_them_or_from_the_parameter():
    made = {"bins": TableBins((ColumnBins("a", (0.0, 1.0)), ColumnBins("b", (), (1.0, 2.0)))).to_wire()}
    assert TrainSettings().counts(["a", "b"], made) == (4, 4)
    for settings_given, model in ((TrainSettings(), None), (TrainSettings(bins=3), made)):
        with pytest.raises(ValueError, match="from one of them"):
            settings_given.counts(["a", "b"], model)
    with pytest.raises(ValueError, match="other columns than the table"):
        TrainSettings().counts(["b", "a"], made)
    with pytest.raises(ValueError, match="holds no bins"):
        TrainSettings().counts(["a"], {"data": {}})


def test_bins_and_directions_must_name_the_columns_of_the_table():
    chosen = TrainSettings(bins={"a": 4, "b": 3}, monotone={"b": INCREASING})
    assert chosen.counts(["b", "a"]) == (3, 4) and chosen.directions(["b", "a"]) == {0: INCREASING}
    with pytest.raises(ValueError, match="bins names other columns"):
        chosen.counts(["a"])
    with pytest.raises(ValueError, match="monotone names a column"):
        chosen.directions(["a"])
