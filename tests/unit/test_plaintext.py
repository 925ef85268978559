"""The plaintext twin against formulas written out independently and scikit-learn; saved optimiser states are exact."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge

from fate_dp.components.protocols.optimizers import (
    PartyOptimizer,
    batch_bounds,
    constant_learning_rate,
    correction_epochs,
    default_optimizer,
    kaiming_uniform,
)
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings
from fate_dp.privacy.validation import InvalidArgument
from tests.support.plaintext import TrainingSettings, logistic_bound, squared_error, train_plaintext

pytestmark = pytest.mark.arithmetic

RECORDS, GUEST, HOST = 60, 3, 4


def sgd(penalty="l2", alpha=0.1, **parameters):
    return {"method": "sgd", "penalty": penalty, "alpha": alpha, "optimizer_params": {"lr": 0.2, **parameters}}


def problem(seed=0, fit_intercept=True):
    generator = np.random.default_rng(seed)
    parts = [generator.normal(size=(RECORDS, GUEST)), generator.normal(size=(RECORDS, HOST))]
    labels = (generator.random(RECORDS) < 0.4).astype(float)
    start = [kaiming_uniform(GUEST, generator, fit_intercept), kaiming_uniform(HOST, generator)]
    return parts, labels, start


def naive_descent(columns, labels, start, penalised, rate, alpha, epochs, batches, momentum=0.0):
    """Gradient descent on all columns at once, one record and one coordinate at a time."""
    weights, velocity = list(start), [0.0] * len(start)
    for _ in range(epochs):
        for rows in batches:
            gradient = [alpha * weight if is_penalised else 0.0 for weight, is_penalised in zip(weights, penalised)]
            for row in rows:
                z = sum(value * weight for value, weight in zip(columns[row], weights))
                slope = z / 4 - labels[row] + 1 / 2
                gradient = [g + slope * value / len(rows) for g, value in zip(gradient, columns[row])]
            velocity = [momentum * v + g for v, g in zip(velocity, gradient)]
            weights = [weight - rate * v for weight, v in zip(weights, velocity)]
    return np.array(weights)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("batch_size, batches", [(None, [range(60)]), (25, [range(25), range(25, 60)])])
def test_twin_equals_naive_gradient_descent(batch_size, batches, momentum):
    parts, labels, start = problem()
    settings = TrainingSettings(sgd(momentum=momentum), epochs=6, batch_size=batch_size)
    result = train_plaintext(parts, labels, settings, start)
    columns = np.column_stack([parts[0], np.ones(RECORDS), parts[1]])
    penalised = [True] * GUEST + [False] + [True] * HOST
    expected = naive_descent(columns, labels, np.concatenate(start), penalised, 0.2, 0.1, 6, batches, momentum)
    np.testing.assert_allclose(np.concatenate(result.weights), expected, atol=1e-10)


def test_twin_converges_to_the_ridge_solution():
    parts, labels, start = problem(fit_intercept=False)
    result = train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=1500, fit_intercept=False), start)
    columns = np.column_stack(parts)
    normal = columns.T @ columns / (4 * RECORDS) + 0.1 * np.eye(GUEST + HOST)
    expected = np.linalg.solve(normal, columns.T @ (labels - 0.5) / RECORDS)
    np.testing.assert_allclose(np.concatenate(result.weights), expected, atol=1e-10)


@pytest.mark.parametrize(
    "method, parameters",
    [
        ("adam", {"lr": 0.05}),
        ("rmsprop", {"lr": 0.02}),
        ("adagrad", {"lr": 0.1}),
        ("sgd", {"lr": 0.2, "momentum": 0.9}),
    ],
)
def test_optimisers_per_party_equal_one_optimiser_over_all_weights(method, parameters):
    parts, labels, start = problem(fit_intercept=False)
    optimizer = {"method": method, "penalty": "l2", "alpha": 0.1, "optimizer_params": parameters}
    settings = TrainingSettings(optimizer, epochs=8, batch_size=20, fit_intercept=False)
    apart = train_plaintext(parts, labels, settings, start)
    together = train_plaintext([np.column_stack(parts)], labels, settings, [np.concatenate(start)])
    np.testing.assert_allclose(np.concatenate(apart.weights), together.weights[0], atol=1e-12)
    np.testing.assert_allclose(apart.losses, together.losses, atol=1e-12)


@pytest.mark.parametrize(
    "quadratic",
    [lambda labels, logits: logistic_bound(labels, logits), lambda labels, _: squared_error(7 * labels - 3)],
)
def test_gradient_is_the_derivative_of_the_loss_with_soft_labels(quadratic):
    parts, _, start = problem(fit_intercept=False)
    generator = np.random.default_rng(3)
    loss = quadratic(generator.random(RECORDS), generator.normal(size=RECORDS))
    gradients = loss.gradients(parts, start)
    for party in range(2):
        for coordinate in range(len(start[party])):
            moved = [weights.copy() for weights in start]
            losses = []
            for step in (1e-5, -1e-5):
                moved[party][coordinate] = start[party][coordinate] + step
                losses.append(loss.loss(sum(x @ w for x, w in zip(parts, moved))))
            assert gradients[party][coordinate] == pytest.approx((losses[0] - losses[1]) / 2e-5, abs=1e-9)


def test_loss_is_the_taylor_loss_with_penalty_and_falls():
    parts, labels, start = problem()
    losses = train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=20), start).losses
    z = parts[0] @ start[0][:-1] + parts[1] @ start[1]
    penalty = 0.05 * (np.sum(start[0][:-1] ** 2) + np.sum(start[1] ** 2))
    assert losses[0] == pytest.approx(math.log(2) - np.mean((labels - 0.5) * z) + np.mean(z**2) / 8 + penalty)
    assert len(losses) == 20 and losses[-1] < losses[0]


def test_learning_rate_schedule_moves_once_per_epoch():
    parts, labels, start = problem()
    steps = {"method": "step", "scheduler_params": {"step_size": 1, "gamma": 0.5}}
    halving = train_plaintext(parts, labels, TrainingSettings(sgd(), steps, epochs=2), start)
    first = train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=1), start)
    slower = {**sgd(), "optimizer_params": {"lr": 0.1}}
    second = train_plaintext(parts, labels, TrainingSettings(slower, epochs=1), first.weights)
    np.testing.assert_allclose(np.concatenate(halving.weights), np.concatenate(second.weights), atol=1e-12)


def test_l1_penalty_sets_some_weights_to_zero_but_not_the_intercept():
    parts, labels, start = problem()
    result = train_plaintext(parts, labels, TrainingSettings(sgd(penalty="l1", alpha=0.3), epochs=40), start)
    assert (result.weights[1] == 0).any() and result.weights[0][-1] != 0


def test_first_epoch_under_l1_is_not_wiped_out():
    parts, labels, start = problem()
    result = train_plaintext(parts, labels, TrainingSettings(sgd(penalty="l1", alpha=0.01), epochs=1), start)
    assert np.count_nonzero(result.weights[1]) == HOST


def test_flipback_gets_the_joint_scores_and_changes_later_epochs_only():
    parts, labels, start = problem()
    flipback = Flipback(FlipbackSettings(mode="swap", every=2, fraction=0.1, max_rounds=1), labels, 1.0)
    settings = TrainingSettings(sgd(), epochs=5)
    seen = []
    with_it = train_plaintext(parts, labels, settings, start, flipback, lambda epoch, weights: seen.append(weights))
    two = train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=2), start)
    np.testing.assert_array_equal(np.concatenate(seen[1]), np.concatenate(two.weights))
    z = parts[0] @ two.weights[0][:-1] + two.weights[0][-1] + parts[1] @ two.weights[1]
    worst = set(np.argsort(-np.abs(labels - 1 / (1 + np.exp(-z))))[:6])
    assert set(np.flatnonzero(with_it.labels != labels)) == worst
    last_three = train_plaintext(parts, with_it.labels, TrainingSettings(sgd(), epochs=3), two.weights)
    np.testing.assert_allclose(np.concatenate(with_it.weights), np.concatenate(last_three.weights), atol=1e-12)


def logistic_loss(columns, labels, weights, alpha, penalised=True):
    """Mean of log(1 + e^z) - y z with penalty, as textbooks have it."""
    z = columns @ weights
    return np.mean(np.log(1 + np.exp(z)) - labels * z) + alpha / 2 * np.sum((weights * penalised) ** 2)


def test_exact_sigmoid_with_many_rounds_is_scikit_learns_logistic_regression():
    parts, labels, start = problem()
    settings = TrainingSettings(sgd(alpha=0.05, lr=1.0, momentum=0.3), epochs=300, sigmoid="exact", sigmoid_rounds=149)
    result = train_plaintext(parts, labels, settings, start)
    central = LogisticRegression(C=1 / (0.05 * RECORDS), tol=1e-12, max_iter=1000)
    central.fit(np.column_stack(parts), labels)
    guest, host = result.weights
    np.testing.assert_allclose(np.concatenate([guest[:-1], host]), central.coef_[0], atol=1e-6)
    assert guest[-1] == pytest.approx(central.intercept_[0], abs=1e-6)


def test_exact_sigmoid_with_soft_labels_in_batches_ends_at_the_least_logistic_loss():
    parts, _, start = problem(fit_intercept=False)
    labels = np.random.default_rng(5).random(RECORDS)
    columns = np.column_stack(parts)
    least = minimize(lambda w: logistic_loss(columns, labels, w, 0.1), np.zeros(GUEST + HOST), tol=1e-12)
    exact = {"batch_size": 20, "fit_intercept": False, "sigmoid": "exact", "sigmoid_rounds": 24}
    result = train_plaintext(parts, labels, TrainingSettings(sgd(lr=0.02), epochs=250, **exact), start)
    weights = np.concatenate(result.weights)
    np.testing.assert_allclose(weights, least.x, atol=5e-3)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(2, 14), st.floats(0, 1))
@hypothesis_settings(max_examples=25, deadline=None)
def test_few_rounds_never_raise_the_loss_and_always_bound_the_logistic_one(seed, rounds, epochs, alpha):
    parts, labels, start = problem(seed, fit_intercept=False)
    columns = np.column_stack(parts)
    curvature = np.linalg.eigvalsh(columns.T @ columns / (4 * RECORDS))[-1] + alpha
    steady = sgd(alpha=alpha, lr=1 / curvature)
    settings = TrainingSettings(steady, epochs=epochs, fit_intercept=False, sigmoid="exact", sigmoid_rounds=rounds)
    weights = [np.concatenate(start)]
    result = train_plaintext(parts, labels, settings, start, after_epoch=lambda _, w: weights.append(np.concatenate(w)))
    exact = [logistic_loss(columns, labels, own, alpha) for own in weights]
    assert (np.diff(result.losses) <= 1e-12).all()
    assert all(bound >= loss - 1e-12 for bound, loss in zip(result.losses, exact))
    corrected = correction_epochs(epochs, rounds)
    np.testing.assert_allclose([result.losses[epoch] for epoch in corrected], [exact[epoch] for epoch in corrected])
    assert (np.diff([exact[epoch] for epoch in (*corrected, epochs)]) <= 1e-12).all()


def test_exact_sigmoid_begins_with_the_taylor_phase_unless_the_start_is_warm():
    parts, labels, start = problem()

    def train(start, epochs=6, **settings):
        return train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=epochs, **settings), start)

    first_phase = train(start, epochs=3)
    exact = train(start, sigmoid="exact", sigmoid_rounds=1)
    assert exact.losses[:3] == pytest.approx(first_phase.losses, abs=1e-12)
    second_phase = train(first_phase.weights, epochs=3, sigmoid="exact", sigmoid_rounds=1, warm_start=True)
    np.testing.assert_allclose(np.concatenate(exact.weights), np.concatenate(second_phase.weights), atol=1e-12)
    assert exact.losses[3:] == pytest.approx(second_phase.losses, abs=1e-12)


@pytest.mark.parametrize(
    "epochs, rounds, expected",
    [(30, 3, [8, 16, 24]), (30, 2, [10, 20]), (30, 4, [6, 12, 18, 24]), (7, 4, [2, 4, 6]), (3, 5, [1, 2]), (1, 3, [])],
)
def test_corrections_end_phases_of_one_length(epochs, rounds, expected):
    assert correction_epochs(epochs, rounds) == expected


@given(st.integers(1, 200), st.integers(1, 40))
def test_a_warm_start_corrects_at_once_and_no_correction_is_outside_the_epochs(epochs, rounds):
    cold, warm = correction_epochs(epochs, rounds), correction_epochs(epochs, rounds, warm_start=True)
    assert warm[0] == 0 and 0 not in cold
    for chosen in (cold, warm):
        assert len(chosen) <= rounds and all(epoch < epochs for epoch in chosen)
        assert len({*np.diff(chosen)}) <= 1


def test_flipback_and_correction_share_one_set_of_scores():
    parts, labels, start = problem()
    settings = TrainingSettings(sgd(), epochs=6, sigmoid="exact", sigmoid_rounds=1)
    flipback = Flipback(FlipbackSettings(mode="swap", every=3, fraction=0.1, max_rounds=1), labels, 1.0)
    result = train_plaintext(parts, labels, settings, start, flipback)
    until = train_plaintext(parts, labels, TrainingSettings(sgd(), epochs=3), start)
    after = TrainingSettings(sgd(), epochs=3, sigmoid="exact", sigmoid_rounds=1, warm_start=True)
    assert (result.labels != labels).sum() == 6
    expected = train_plaintext(parts, result.labels, after, until.weights).weights
    np.testing.assert_allclose(np.concatenate(result.weights), np.concatenate(expected), atol=1e-12)


def test_flipback_after_the_last_correction_corrects_again():
    parts, labels, start = problem()
    settings = TrainingSettings(sgd(), epochs=6, sigmoid="exact", sigmoid_rounds=1)
    flipback = Flipback(FlipbackSettings(mode="swap", every=4, fraction=0.1, max_rounds=1), labels, 1.0)
    seen = []
    result = train_plaintext(parts, labels, settings, start, flipback, lambda epoch, weights: seen.append(weights))
    after = TrainingSettings(sgd(), epochs=2, sigmoid="exact", sigmoid_rounds=1, warm_start=True)
    expected = train_plaintext(parts, result.labels, after, seen[3]).weights
    np.testing.assert_allclose(np.concatenate(result.weights), np.concatenate(expected), atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_family_gaussian_ends_at_the_ridge_solution(fit_intercept):
    parts, _, start = problem(fit_intercept=fit_intercept)
    columns = np.column_stack(parts)
    labels = columns @ np.arange(GUEST + HOST) - 20 + np.random.default_rng(8).normal(size=RECORDS)
    settings = TrainingSettings(sgd(momentum=0.5), epochs=300, family="gaussian", fit_intercept=fit_intercept)
    result = train_plaintext(parts, labels, settings, start)
    central = Ridge(alpha=0.1 * RECORDS, fit_intercept=fit_intercept, tol=1e-12).fit(columns, labels)
    guest, host = result.weights
    np.testing.assert_allclose(np.concatenate([guest[:GUEST], host]), central.coef_, atol=1e-8)
    expected = 0.5 * np.mean((labels - central.predict(columns)) ** 2) + 0.05 * np.sum(central.coef_**2)
    assert result.losses[-1] == pytest.approx(expected)
    if fit_intercept:
        assert guest[-1] == pytest.approx(central.intercept_)


@pytest.mark.parametrize(
    "method, parameters", [("sgd", {"lr": 0.2, "momentum": 0.7}), ("adam", {"lr": 0.05}), ("rmsprop", {"lr": 0.02})]
)
def test_state_restores_exactly_and_leaves_the_running_optimiser_alone(method, parameters):
    optimizer = {"method": method, "penalty": "l2", "alpha": 0.1, "optimizer_params": parameters}
    schedule = {"method": "linear", "scheduler_params": {"start_factor": 0.7, "total_iters": 10}}
    generator = np.random.default_rng(0)
    gradients = generator.normal(size=(8, 5, 1))
    start = generator.normal(size=5)

    def run(party, some):
        for gradient in some:
            party.step(party.regularise(gradient))
            party.next_epoch()

    through = PartyOptimizer(start, optimizer, schedule, fit_intercept=True)
    run(through, gradients[:4])
    state = through.state()
    resumed = PartyOptimizer(np.zeros(5), optimizer, schedule, fit_intercept=True)
    resumed.restore(state)
    run(through, gradients[4:])
    run(resumed, gradients[4:])
    np.testing.assert_array_equal(through.weights.numpy(), resumed.weights.numpy())


def test_batches_are_consecutive_and_the_remainder_joins_the_last():
    assert batch_bounds(10, None) == [(0, 10)]
    assert batch_bounds(10, 20) == [(0, 10)]
    assert batch_bounds(10, 5) == [(0, 5), (5, 10)]
    assert batch_bounds(11, 3) == [(0, 3), (3, 6), (6, 11)]


def test_default_optimizer_penalises_more_at_smaller_epsilon_and_stays_stable():
    found = [default_optimizer(426, 30, epsilon, epochs=100) for epsilon in (0.25, 0.5, 1, 2, 4, math.inf)]
    alphas = [one["alpha"] for one in found]
    assert alphas[-1] == pytest.approx(30 / (8 * 426)) and alphas == sorted(alphas, reverse=True)
    for one in found:
        assert one["optimizer_params"]["lr"] == pytest.approx(1 / (7.5 + one["alpha"]))


@pytest.mark.parametrize("kind, bend", [({}, 0.25), ({"family": "gaussian"}, 1.0)])
@pytest.mark.parametrize("epsilon", [1e-6, 0.25, 1, 4, math.inf])
@pytest.mark.parametrize("epochs", [8, 30, 100, 10**6])
def test_momentum_has_the_pace_of_the_bounds_on_curvature_or_that_which_the_epochs_need(kind, bend, epsilon, epochs):
    settings = default_optimizer(426, 30, epsilon, epochs=epochs, **kind)
    alpha, numbers = settings["alpha"], settings["optimizer_params"]
    signal = max(math.tanh(epsilon / 2) ** 2, 1e-6)
    kept = math.tanh(epsilon / 2)
    expected = 1 / signal if kind else 0.125 + 1.5 * (1 - kept) ** 1.5 / signal
    assert alpha == pytest.approx(expected * 30 / 426)
    assert numbers["lr"] == pytest.approx(1 / (bend * 30 + alpha))
    root = max(math.sqrt(alpha / (bend * 30 + alpha)), 2.5 / epochs)
    assert numbers["momentum"] == pytest.approx((1 - root) / (1 + root), rel=1e-6)
    assert numbers["nesterov"] is True and 0 < numbers["momentum"] < 1


def test_few_epochs_have_no_momentum_and_several_batches_little():
    assert all("momentum" not in default_optimizer(426, 30, 2.0, epochs=few)["optimizer_params"] for few in (1, 2))
    params = default_optimizer(426, 30, 2.0, epochs=100, batches=2)["optimizer_params"]
    assert params["momentum"] == 0.3 and "nesterov" not in params


@pytest.mark.parametrize("epsilon", [1.0, 4.0, math.inf])
def test_the_default_epochs_reach_the_minimum_where_plain_steps_do_not(epsilon):
    """Columns that depend on one another, so that the loss is flat in most directions."""
    generator, rows = np.random.default_rng(11), 4000
    columns = generator.normal(size=(rows, 3)) @ generator.normal(size=(3, 20)) + 0.5 * generator.normal(
        size=(rows, 20)
    )
    columns /= np.sqrt((columns**2).mean(axis=0))
    labels = (columns @ generator.normal(size=20) + 2 * generator.normal(size=rows) > 0).astype(float)
    start = [np.zeros(8), np.zeros(12)]
    optimizer = default_optimizer(rows, 20, epsilon, epochs=100)
    hessian = columns.T @ columns / (4 * rows) + optimizer["alpha"] * np.eye(20)
    best = np.linalg.solve(hessian, columns.T @ (labels - 0.5) / rows)

    def excess(chosen):
        settings = TrainingSettings(chosen, epochs=100, fit_intercept=False)
        off = np.concatenate(train_plaintext([columns[:, :8], columns[:, 8:]], labels, settings, start).weights) - best
        return off @ hessian @ off / 2

    plain = {**optimizer, "optimizer_params": {"lr": optimizer["optimizer_params"]["lr"], "momentum": 0.3}}
    assert excess(optimizer) < 1e-5 and excess(optimizer) < excess(plain) / 20


def test_default_optimizer_of_linear_regression_does_not_diverge_on_features_that_are_all_alike():
    feature = np.random.default_rng(2).normal(size=RECORDS)
    parts = [np.column_stack([feature] * 5)] * 2
    start = [np.ones(5), np.ones(5)]
    settings = TrainingSettings(
        default_optimizer(RECORDS, 10, math.inf, family="gaussian", epochs=60),
        family="gaussian",
        fit_intercept=False,
        epochs=60,
    )
    result = train_plaintext(parts, 3 * feature, settings, start)
    # Ten equal columns share one slope, so the penalty alpha = 10 / 60 shrinks it like one of alpha / 10.
    expected = 3 / (1 + 1 / RECORDS / np.mean(feature**2))
    assert sum(own.sum() for own in result.weights) == pytest.approx(expected, rel=1e-2)


def test_kaiming_weights_stay_within_their_bound_and_the_intercept_starts_at_zero():
    weights = kaiming_uniform(2500, np.random.default_rng(0), fit_intercept=True)
    assert len(weights) == 2501 and weights[-1] == 0
    assert np.abs(weights).max() <= 0.02 and weights.std() == pytest.approx(0.02 / math.sqrt(3), rel=0.05)


def test_shapes_and_labels_that_do_not_fit_are_refused():
    parts, labels, start = problem()
    settings = TrainingSettings(sgd())
    with pytest.raises(InvalidArgument, match="rows"):
        train_plaintext(parts, labels[:-1], settings, start)
    with pytest.raises(InvalidArgument, match="initial_weights"):
        train_plaintext(parts, labels, settings, [start[0][:-1], start[1]])
    with pytest.raises(InvalidArgument, match="labels"):
        train_plaintext(parts, labels + 1, settings, start)
    with pytest.raises(InvalidArgument, match="not finite"):
        train_plaintext(parts, labels + math.inf, TrainingSettings(sgd(), family="gaussian"), start)
    flipback = Flipback(FlipbackSettings(), labels, 1.0)
    with pytest.raises(InvalidArgument, match="flipback"):
        train_plaintext(parts, labels, TrainingSettings(sgd(), family="gaussian"), start, flipback)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"sigmoid_rounds": 0},
        {"sigmoid": "probit"},
        {"family": "poisson"},
        {"sigmoid": "exact", "family": "gaussian"},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        TrainingSettings(sgd(), constant_learning_rate(), **wrong)
