"""Bounds on shared weights from public numbers: no trajectory leaves them between two checks of its losses."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fate_dp.crypto.descent_steps import QuadraticBounds, UpdateRule
from fate_dp.crypto.shared_descent import (
    INITIAL_WEIGHT_LIMIT,
    LOSS_LIMIT,
    _after_checked_steps,
    _after_unchecked_step,
    _Norms,
    passes,
    steps_allowed,
)

LIMIT = 2.0**28
ROWS = 12


class Training:
    """Plain descent as the parties' shares add up to, with the loss that the guest checks."""

    def __init__(self, bounds: QuadraticBounds, rule: UpdateRule, seed: int, alike: bool, start: float):
        self.bounds, self.rule, self.generator, self.alike = bounds, rule, np.random.default_rng(seed), alike
        self.direction, self.velocity = self._signs(bounds.dimension), None
        self.weights = self.start = start * self.direction

    def steps(self, number: int):
        """Losses and norms of the weights before each of some steps, each along another batch."""
        for _ in range(number):
            hessian, linear, constant = self._batch()
            gradient = hessian @ self.weights + self.bounds.penalty * self.weights - linear
            loss = self.weights @ (gradient - linear) / 2 + constant
            yield loss, float(np.linalg.norm(self.weights))
            self._move(gradient)

    def passes(self, allowed: int, total: int) -> float:
        """The largest norm until a check fails or the training ends."""
        largest, done = 0.0, 0
        while done < total:
            losses, norms = zip(*self.steps(min(allowed, total - done)))
            largest, done = max(largest, *norms), done + allowed
            if not max(losses) <= LOSS_LIMIT:
                break
        return largest

    def _move(self, gradient):
        rule = self.rule
        gradient = gradient + rule.weight_decay * (self.weights - self.start)
        if rule.momentum:
            old = self.velocity
            self.velocity = gradient if old is None else rule.momentum * old + (1 - rule.dampening) * gradient
            gradient = gradient + rule.momentum * self.velocity if rule.nesterov else self.velocity
        self.weights = self.weights - rule.fastest * gradient

    def _signs(self, size):
        return self.generator.choice([-1.0, 1.0], size)

    def _batch(self):
        """A batch that uses up the public numbers: mean squares, targets and noise are as large as they may be."""
        bounds = self.bounds
        features = self.generator.standard_normal((ROWS, bounds.dimension))
        if self.alike:
            features = np.outer(self._signs(ROWS), self.direction)
        features *= np.sqrt(2.0**bounds.mean_square_bits / (features**2).mean(axis=0))
        targets = np.sqrt(bounds.target_mean_square) * (np.sign(features[:, 0]) if self.alike else self._signs(ROWS))
        hessian = features.T @ features / (bounds.divisor * ROWS) - bounds.noise * np.eye(bounds.dimension)
        linear = features.T @ targets / ROWS
        return hessian, linear, bounds.divisor / 2 * bounds.target_mean_square


def logarithmic(lowest, highest):
    return st.floats(lowest, highest).map(lambda exponent: 10.0**exponent)


RULES = st.builds(
    lambda rate, momentum, dampening, nesterov, decay: UpdateRule(
        (rate / 2, rate), momentum, 0.0 if nesterov and momentum else dampening, bool(nesterov and momentum), decay
    ),
    logarithmic(-3, 1.5),
    st.sampled_from([0.0, 0.3, 0.9, 0.99]),
    st.sampled_from([0.0, 0.5, 1.0, -1.0, 3.0]),
    st.booleans(),
    st.sampled_from([0.0, 0.01, 2.0]),
)
BOUNDS = st.builds(
    QuadraticBounds,
    st.integers(1, 5),
    st.sampled_from([1, 4]),
    st.integers(0, 8),
    st.sampled_from([0.25, 1.0, 256.0]),
    st.one_of(st.just(0.0), logarithmic(-3, 4)),
)


TRAINING = st.fixed_dictionaries(
    {"seed": st.integers(0, 2**32), "alike": st.booleans(), "start": st.sampled_from([0.0, 1.0, INITIAL_WEIGHT_LIMIT])}
)


@settings(max_examples=120, deadline=None)
@given(BOUNDS, RULES, st.integers(1, 40), TRAINING)
def test_no_trajectory_leaves_the_bound_before_its_losses_are_checked(bounds, rule, steps, training):
    try:
        allowed = steps_allowed(bounds, rule, steps)
    except ValueError:
        assume(False)
    assert Training(bounds, rule, **training).passes(allowed, steps) < LIMIT


@settings(max_examples=30, deadline=None)
@given(BOUNDS, RULES, st.integers(1, 40), TRAINING, st.floats(0.1, 0.9))
def test_nor_does_one_on_statistics_with_noise(bounds, rule, steps, training, share):
    assume(bounds.penalty > 0)
    minimum = -(bounds.linear_norm**2) / (2 * bounds.penalty * (1 - share))
    bounds = replace(bounds, noise=share * bounds.penalty, minimum=minimum)
    try:
        allowed = steps_allowed(bounds, rule, steps)
    except ValueError:
        assume(False)
    assert Training(bounds, rule, **training).passes(allowed, steps) < LIMIT


@pytest.mark.parametrize("rule", [UpdateRule((2.0,)), UpdateRule((1.0,), 0.5), UpdateRule((1.0,), 0.5, 0.0, True)])
def test_without_checks_a_descent_that_overshoots_leaves_the_bound_soon(rule):
    """The bound is not idle: twice as many steps, and the weights of a badly chosen rate do not fit any more."""
    bounds, steps = QuadraticBounds(4, 1, 3, 1.0), 60
    allowed = steps_allowed(bounds, rule, steps)
    norms = (norm for _, norm in Training(bounds, rule, 1, True, INITIAL_WEIGHT_LIMIT).steps(steps))
    left = next(at for at, norm in zip(itertools.count(), norms) if norm >= LIMIT)
    assert allowed <= left <= 2 * allowed + 2 < steps


DECAYING = UpdateRule((0.8,), 0.9, -1.0, weight_decay=1.5)


@pytest.mark.parametrize(
    "rule",
    [
        UpdateRule((0.8,)),
        UpdateRule((0.8,), weight_decay=1.5),
        DECAYING,
        UpdateRule((0.8,), 0.9, 3.0),
        UpdateRule((0.8,), 0.9, 0.0, True),
        UpdateRule((0.01,), 0.9, 0.0, True, 0.5),
    ],
)
@pytest.mark.parametrize("weights", [0.0, 1.0, 2.0**20])
def test_one_unchecked_step_of_one_weight_reaches_but_never_passes_its_bound(rule, weights):
    """All corners of what the public numbers allow for a single weight, where norms are magnitudes."""
    bounds, reached = QuadraticBounds(1, 1, 2, 9.0, 0.5), _Norms(0.0, 0.0)
    norms = _Norms(weights, 5.0)
    allowed = _after_unchecked_step(norms, bounds, rule)
    corners = itertools.product((0.0, bounds.curvature + 0.5), (-1, 1), (-1, 1), (-1, 1), (-1, 1), (True, False))
    for curvature, linear, weight, velocity, start, first in corners:
        weight, velocity, start = weight * weights, velocity * 5.0, start * INITIAL_WEIGHT_LIMIT
        gradient = curvature * weight - linear * bounds.linear_norm + rule.weight_decay * (weight - start)
        new_velocity = gradient if first else rule.momentum * velocity + (1 - rule.dampening) * gradient
        direction = gradient + rule.momentum * new_velocity if rule.nesterov else new_velocity
        moved = weight - rule.fastest * (direction if rule.momentum else gradient)
        reached = _Norms(max(reached.weights, abs(moved)), max(reached.velocity, abs(new_velocity)))
    assert reached.weights <= allowed.weights <= 2 * reached.weights
    assert reached.velocity <= allowed.velocity <= 2 * reached.velocity


@pytest.mark.parametrize("rule", [UpdateRule((0.1,) * 30, 0.9, -1.0), DECAYING, UpdateRule((0.1,), 0.9, 0.0, True)])
def test_checked_steps_of_one_weight_reach_but_never_pass_their_bound(rule):
    """Gradients of the largest norm that passes, all one way, after an earlier training of the same kind."""
    bounds = QuadraticBounds(1, 1, 2, 9.0, 0.5)
    gradient, moved = np.sqrt(2 * (bounds.curvature + bounds.penalty) * LOSS_LIMIT), 0.0
    velocity = (1 - rule.dampening) * gradient / (1 - rule.momentum)
    for _ in range(6):
        pull = gradient - rule.weight_decay * moved
        velocity = rule.momentum * velocity + (1 - rule.dampening) * pull
        moved += rule.fastest * (pull + rule.momentum * velocity if rule.nesterov else velocity)
    allowed = _after_checked_steps(bounds, rule, 6, 1)
    assert moved <= allowed.weights - INITIAL_WEIGHT_LIMIT and velocity <= allowed.velocity
    assert rule.weight_decay or allowed.weights - INITIAL_WEIGHT_LIMIT < 1.05 * moved


def default_rule(features, penalty, momentum=0.3):
    return UpdateRule((1 / (features / 4 + penalty),), momentum)


def test_how_often_usual_trainings_are_checked():
    """Standardised columns and the default rate: rarely; each check costs messages."""
    standardised = QuadraticBounds(31, 4, 1, 0.25, 0.01)
    assert steps_allowed(standardised, default_rule(31, 0.01), 30) == 27
    assert steps_allowed(standardised, default_rule(31, 0.01, momentum=0.0), 1000) == 1000
    assert steps_allowed(replace(standardised, mean_square_bits=8), default_rule(31, 0.01), 30) == 2
    assert steps_allowed(replace(standardised, penalty=1e6), default_rule(31, 1e6), 30) == 30


@given(BOUNDS, RULES, st.integers(1, 40))
@settings(max_examples=30)
def test_harsher_public_numbers_never_allow_more_steps(bounds, rule, steps):
    def allowed(*arguments):
        try:
            return steps_allowed(*arguments)
        except ValueError:
            return 0

    usual = allowed(bounds, rule, steps)
    assert 0 <= usual <= steps
    for harsher in (
        replace(bounds, mean_square_bits=bounds.mean_square_bits + 1),
        replace(bounds, target_mean_square=1e3),
        replace(bounds, minimum=-1e6),
        replace(bounds, penalty=bounds.penalty * 2 + 1),
    ):
        assert allowed(harsher, rule, steps) <= usual
    assert allowed(bounds, replace(rule, learning_rates=(rule.fastest * 2,)), steps) <= usual


def test_a_rate_and_a_penalty_that_allow_no_step_are_named():
    with pytest.raises(ValueError, match="rate of 10 with a penalty alpha of 1e\\+06 .* beyond 2\\^28 in 1000 steps"):
        steps_allowed(QuadraticBounds(31, 4, 1, 0.25, 1e6), UpdateRule((10.0,)), 1000)


@pytest.mark.parametrize(
    "loss, minimum, sound",
    [
        (0.7, 0.0, True),
        (LOSS_LIMIT, 0.0, True),
        (LOSS_LIMIT + 1e-6, 0.0, False),
        (-1.0, 0.0, True),
        (-65.0, 0.0, False),
        (-3.98e16, 0.0, False),
        (-700.0, -750.0, True),
        (-900.0, -750.0, False),
        (float("nan"), 0.0, False),
    ],
)
def test_losses_pass_between_their_bounds_only(loss, minimum, sound):
    bounds = QuadraticBounds(31, 4, 0, 0.25, penalty=1.0, minimum=minimum)
    assert passes(loss, bounds) == sound
