"""Private quantiles: the exact law on small grids, for every pair of neighbouring tables, and near the truth on large ones."""

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.events import ExponentialMechanism, NotPrivate
from fate_dp.privacy.mechanisms import quantiles
from fate_dp.privacy.mechanisms.exponential import exponential_weights
from fate_dp.privacy.mechanisms.quantiles import (
    GRID_CELLS,
    cell_counts,
    grid_points,
    middle_scores,
    private_quantiles,
    quantile_event,
    quantile_levels,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

# The losses of so many values come near to the bound at this epsilon: 0.98 of it for one quantile, 0.65 for three.
EPSILON, VALUES, CELLS = 4.0, 6, 4


class Enumerated:
    """In place of the exponential mechanism: takes the choices of one path, and notes their probability and the options."""

    def __init__(self):
        self.path, self.chance, self.options = [], 1.0, []

    def __call__(self, scores, epsilon, sensitivity, rng=None):
        weights = exponential_weights(scores, epsilon, sensitivity)
        place = len(self.options)
        choice = self.path[place] if place < len(self.path) else 0
        self.options.append(len(weights))
        self.chance *= weights[choice] / sum(weights)
        return choice


def law(counts, wanted, patch):
    """{points: probability} of all quantiles of one table, with the code of the product around every choice."""
    found, paths = {}, [[]]
    while paths:
        choices = Enumerated()
        choices.path = paths.pop()
        patch.setattr(quantiles, "exponential_mechanism", choices)
        points = tuple(private_quantiles(counts, wanted, EPSILON).tolist())
        if len(choices.path) == len(choices.options):
            found[points] = found.get(points, 0.0) + choices.chance
        else:
            here = len(choices.path)
            paths += [choices.path + [option] for option in range(choices.options[here])]
    return found


def tables(values):
    """Counts of all tables of so many values, a missing one (cell -1) among them."""
    for cells in combinations_with_replacement(range(-1, CELLS), values):
        yield np.bincount([cell for cell in cells if cell >= 0], minlength=CELLS).astype(np.int64), cells


def largest_loss(wanted, patch):
    """The largest log ratio of probabilities over all outcomes and all tables that differ in one value."""
    laws = [(law(counts, wanted, patch), cells) for counts, cells in tables(VALUES)]
    losses = []
    for first, cells in laws:
        for second, others in laws:
            left = list(others)
            for cell in cells:
                if cell in left:
                    left.remove(cell)
            if len(left) == 1:
                losses += [math.log(chance / second[points]) for points, chance in first.items()]
    return max(losses)


@pytest.mark.parametrize("wanted, least", [(1, 0.95), (2, 0.4), (3, 0.6)])
def test_no_outcome_is_likelier_than_epsilon_allows_for_any_neighbours(wanted, least, monkeypatch):
    assert least * EPSILON < largest_loss(wanted, monkeypatch) <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize(
    "broken, mutant",
    [
        (
            "all levels get the epsilon of one",
            lambda patch: patch.setattr(quantiles, "quantile_levels", lambda wanted: 1),
        ),
        (
            "scores move twice as far as is said",
            lambda patch: patch.setattr(quantiles, "middle_scores", lambda *given: 2 * middle_scores(*given)),
        ),
    ],
)
def test_a_mutant_that_loses_more_than_epsilon_is_noticed(broken, mutant, monkeypatch):
    mutant(monkeypatch)
    assert largest_loss(3, monkeypatch) > EPSILON * (1 + 1e-6), broken


@given(st.lists(st.integers(0, 9), min_size=2, max_size=9), st.data())
def test_one_value_more_moves_no_score_by_more_than_is_claimed(counts, data):
    parts = data.draw(st.integers(2, 9))
    part, cell = data.draw(st.integers(1, parts - 1)), data.draw(st.integers(0, len(counts) - 1))
    more = np.array(counts) + (np.arange(len(counts)) == cell)
    moved = middle_scores(more, part, parts) - middle_scores(np.array(counts), part, parts)
    assert np.abs(moved).max() <= max(part, parts - part)


@pytest.mark.parametrize("law", ["normal", "lognormal", "uniform"])
def test_parts_are_of_nearly_one_size_on_many_values(law):
    values = getattr(np.random.default_rng(3), law)(size=20_000)
    counts = cell_counts(values, grid_points("x", -6, 40))
    points = private_quantiles(counts, 7, 2.0, ReproducibleStream(1))
    shares = np.diff([0, *np.cumsum(counts)[points] / len(values), 1])
    # A cell of the grid is 0.011 wide, where the lognormal law has a density of at most 0.66.
    assert np.abs(shares - 1 / 8).max() < 0.02


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-2, 12) | st.just(math.nan), max_size=30), st.integers(1, 12))
def test_quantiles_are_ascending_points_of_the_grid_whatever_the_values_are(values, wanted):
    points = grid_points("x", 0, 10)
    counts = cell_counts(values, points)
    assert counts.sum() == np.isfinite(values).sum() and len(counts) == GRID_CELLS
    chosen = private_quantiles(counts, wanted, 1.0, ReproducibleStream(4))
    assert (np.diff(chosen) >= 0).all() and chosen.min() >= 0 and chosen.max() < len(points)


def test_a_value_on_a_point_lies_below_it():
    points = grid_points("x", 0, GRID_CELLS)
    assert cell_counts([1.0, 1.5, 2.0, -7.0, 1e9], points)[[0, 1, GRID_CELLS - 1]].tolist() == [2, 2, 1]


def test_a_level_is_charged_as_one_choice_and_all_levels_together_cost_epsilon():
    for wanted, levels in ((1, 1), (3, 2), (4, 3), (7, 3), (11, 4)):
        event = quantile_event(EPSILON, wanted, observers="model")
        assert quantile_levels(wanted) == levels
        assert event.process == ExponentialMechanism(EPSILON / levels) and (event.unit, event.relation) == (
            "record",
            "replace_one",
        )
        assert 0 < event.slack < 1e-50
    assert isinstance(quantile_event(1.0, 3, rng=ReproducibleStream(1), observers="model").process, NotPrivate)


@pytest.mark.parametrize(
    "counts, wanted, epsilon, sentence",
    [
        ([1], 1, 1.0, r"counts must be 2 to 4096 whole numbers of at least 0, got shape \(1,\) and type int64\."),
        ([1, -1], 1, 1.0, "at least 0"),
        (
            [1.0, 2.0],
            1,
            1.0,
            r"counts must be 2 to 4096 whole numbers of at least 0, got shape \(2,\) and type float64\.",
        ),
        ([1, 2], 0, 1.0, "quantiles must be .*, got 0"),
        ([1, 2], 1, 0.0, "epsilon must be .*, got 0"),
    ],
)
def test_bad_arguments_are_refused(counts, wanted, epsilon, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        private_quantiles(counts, wanted, epsilon)
