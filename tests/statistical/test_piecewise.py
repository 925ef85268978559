"""Noise on bounded numbers: epsilon as stated, unbiased, with the stated variance, nearly the best there is; mutants fail."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import lil_matrix

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.events import PureDP
from fate_dp.privacy.mechanisms.local_numbers import PiecewiseLaw, check_bounds, piecewise_law, piecewise_mechanism
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 20.0)
FACTORS = (2 / 3, 3 / 2)


def probabilities(law) -> np.ndarray:
    """P(answer | grid point), (N, M), from the definition."""
    inside = float(law.inside())
    rows = np.full((law.points, law.answers), (1 - inside) / (law.points - 1))
    for index in range(law.points):
        for place in range(law.window):
            rows[index, int(law.answered(index, True, place))] = inside / law.window
        others = [int(law.answered(index, False, place)) for place in range(law.points - 1)]
        window = set(range(index, index + law.window))
        assert sorted([*others, *window]) == list(range(law.answers))
    return rows


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_odds_of_any_answer_change_by_e_to_the_epsilon_and_the_mean_is_the_value(epsilon):
    law = piecewise_law(epsilon, (-2.0, 5.0))
    table, grid = probabilities(law), np.linspace(-2.0, 5.0, law.points)
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert math.log((table.max(axis=0) / table.min(axis=0)).max()) == pytest.approx(epsilon, rel=1e-6)
    scale = np.abs(law.values()).max()
    np.testing.assert_allclose(table @ law.values(), grid, atol=1e-9 * scale)
    np.testing.assert_allclose(table @ law.values() ** 2 - grid**2, law.variance(grid), rtol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.floats(0.05, 15), st.integers(2, 40), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_any_bounds_and_bins_give_an_unbiased_law(epsilon, bins, low, width):
    law = piecewise_law(epsilon, (low, low + width), bins)
    assert law.points == bins and 1 <= law.window <= bins
    table, grid = probabilities(law), np.linspace(law.low, law.high, bins)
    np.testing.assert_allclose(table @ law.values(), grid, atol=1e-6 * np.abs(law.values()).max())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_answers_have_the_stated_mean_and_variance_and_mutants_do_not(epsilon):
    law, values = piecewise_law(epsilon, (0.0, 10.0)), np.repeat([0.0, 3.3, 7.77, 10.0], 50_000)
    answers = piecewise_mechanism(values, (0.0, 10.0), epsilon, observers="host", rng=ReproducibleStream(11)).value
    assert np.isin(answers, law.values()).all()
    for value in np.unique(values):
        own, variance = answers[values == value], float(law.variance(value))
        error = math.sqrt(variance / len(own))
        assert abs(own.mean() - value) < 5 * error
        # Noise of the wrong scale: the spread of the answers is known to 1 % or so.
        assert 0.95 < own.var() / variance < 1.05
        assert not any(0.95 < own.var() / (factor * variance) < 1.05 for factor in FACTORS)
        # Answers that are not stretched back, or too far, are biased where the value is not in the middle.
        for factor in FACTORS:
            assert abs(5 + factor * (own.mean() - 5) - value) > 5 * error


@pytest.mark.parametrize("factor", FACTORS)
def test_a_law_of_another_epsilon_is_noticed(factor):
    law = piecewise_law(2.0, (0.0, 1.0))
    table = probabilities(replace(law, epsilon=factor * 2.0))
    assert abs(math.log((table.max(axis=0) / table.min(axis=0)).max()) - 2.0) > 0.1


@pytest.mark.parametrize("epsilon, most", [(0.5, 1.06), (1.0, 1.08), (2.0, 1.06), (4.0, 1.06)])
def test_the_mean_squared_error_is_nearly_the_smallest_of_any_unbiased_answer(epsilon, most):
    """A linear program over all answers on a fine grid, for evenly spread values; our law's random rounding included."""
    inputs = np.linspace(-1, 1, 21)
    law = piecewise_law(epsilon, (-1.0, 1.0))
    assert law.variance(inputs).mean() <= most * smallest_error(epsilon, inputs)


def smallest_error(epsilon, inputs):
    reach = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    answers = np.linspace(-1.5 * reach, 1.5 * reach, 121)
    count, size = len(inputs), len(answers)
    columns = count * size + size
    cost = np.concatenate([((answers - value) ** 2 / count) for value in inputs] + [np.zeros(size)])
    bounds, equal, right = lil_matrix((2 * count * size, columns)), lil_matrix((2 * count, columns)), []
    for row, value in enumerate(inputs):
        own = slice(row * size, (row + 1) * size)
        equal[2 * row, own], equal[2 * row + 1, own] = 1.0, answers
        right += [1.0, value]
        for answer in range(size):
            at, least = 2 * (row * size + answer), count * size + answer
            bounds[at, row * size + answer], bounds[at, least] = -1.0, 1.0
            bounds[at + 1, row * size + answer], bounds[at + 1, least] = 1.0, -math.exp(epsilon)
    found = linprog(cost, bounds.tocsr(), np.zeros(2 * count * size), equal.tocsr(), right, method="highs")
    assert found.status == 0
    return found.fun


def test_the_event_is_pure_and_accountants_add_it_up():
    release = piecewise_mechanism([0.1, 0.9], [0, 1], 1.5, observers=("host", "model"), unit="label")
    assert release.event.process == PureDP(1.5) and (release.event.unit, release.event.relation) == (
        "label",
        "replace_one",
    )
    accountant = make_accountant("pld", "replace_one")
    accountant.compose(release.event, 3)
    assert 2 < accountant.epsilon(1e-5) <= 4.5 + 1e-6
    told = piecewise_mechanism([0.1], [0, 1], 1.5, observers="host", rng=ReproducibleStream(1)).event
    assert told.mechanism == "NotPrivate"


@pytest.mark.parametrize(
    "bounds", [None, 3, [1], [1, 1], [2, 1], [0, float("inf")], ["0", 1], [0, 1, 2], [1e15, 1e15 + 1]]
)
def test_bounds_are_two_numbers_the_lower_one_first(bounds):
    with pytest.raises(InvalidArgument, match="bounds must be"):
        check_bounds(bounds)


@pytest.mark.parametrize("values", [[1.01], [-0.01], [float("nan")], [float("inf")]])
def test_values_outside_the_bounds_are_refused(values):
    with pytest.raises(InvalidArgument, match=r"outside the declared bounds \[0, 1\]"):
        piecewise_mechanism(values, (0, 1), 1.0, observers="host")


@pytest.mark.parametrize("bins", [1, 2.5, True, "8", 5000])
def test_bins_are_a_whole_number(bins):
    with pytest.raises(InvalidArgument, match="bins must be"):
        piecewise_law(1.0, (0, 1), bins)


def test_epsilon_has_its_range():
    for epsilon in (0, -1, float("nan")):
        with pytest.raises(InvalidArgument):
            piecewise_law(epsilon, (0, 1))
    for epsilon in (1e-4, 31):
        with pytest.raises(InvalidArgument, match="epsilon must be"):
            piecewise_law(epsilon, (0, 1))


def test_the_law_of_a_privacy_parameter_never_changes():
    """Memoised answers are drawn anew in every job, so points, windows and values are part of what was released."""
    laws = [
        (piecewise_law(epsilon, (-1.0, 1.0)).points, piecewise_law(epsilon, (-1.0, 1.0)).window) for epsilon in EPSILONS
    ]
    assert laws == GOLDEN
    assert piecewise_law(2.0, (-1.0, 1.0), 8) == PiecewiseLaw(2.0, -1.0, 1.0, 8, 4)


GOLDEN = [(2, 1), (2, 1), (4, 2), (256, 127), (256, 66), (256, 18), (256, 1)]
