"""The plaintext twin against formulas written out independently, and the exactness of saved optimiser states."""
import math

import numpy as np
import pytest

from fate_dp.components.dp_hetero_lr.plaintext import (
    InvalidTraining,
    TrainingSettings,
    taylor_gradients,
    taylor_loss,
    train_plaintext,
)
from fate_dp.components.dp_hetero_lr.settings import batch_bounds
from fate_dp.components.dp_hetero_lr.updates import (
    PartyOptimizer,
    constant_learning_rate,
    default_optimizer,
    kaiming_uniform,
)
from fate_dp.privacy.flipback import Flipback, FlipbackSettings

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


@pytest.mark.parametrize("method, parameters", [("adam", {"lr": 0.05}), ("rmsprop", {"lr": 0.02}),
                                                ("adagrad", {"lr": 0.1}), ("sgd", {"lr": 0.2, "momentum": 0.9})])
def test_optimisers_per_party_equal_one_optimiser_over_all_weights(method, parameters):
    parts, labels, start = problem(fit_intercept=False)
    optimizer = {"method": method, "penalty": "l2", "alpha": 0.1, "optimizer_params": parameters}
    settings = TrainingSettings(optimizer, epochs=8, batch_size=20, fit_intercept=False)
    apart = train_plaintext(parts, labels, settings, start)
    together = train_plaintext([np.column_stack(parts)], labels, settings, [np.concatenate(start)])
    np.testing.assert_allclose(np.concatenate(apart.weights), together.weights[0], atol=1e-12)
    np.testing.assert_allclose(apart.losses, together.losses, atol=1e-12)


def test_gradient_is_the_derivative_of_the_loss_with_soft_labels():
    parts, _, start = problem(fit_intercept=False)
    labels = np.random.default_rng(3).random(RECORDS)
    gradients = taylor_gradients(parts, labels, start)
    for party in range(2):
        for coordinate in range(len(start[party])):
            moved = [weights.copy() for weights in start]
            losses = []
            for step in (1e-5, -1e-5):
                moved[party][coordinate] = start[party][coordinate] + step
                losses.append(taylor_loss(sum(x @ w for x, w in zip(parts, moved)), labels))
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


@pytest.mark.parametrize("method, parameters", [("sgd", {"lr": 0.2, "momentum": 0.7}), ("adam", {"lr": 0.05}),
                                                ("rmsprop", {"lr": 0.02})])
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
    without = default_optimizer(426, 30, math.inf)
    assert without["alpha"] == pytest.approx(1.5 * 30 / 426)
    alphas = [default_optimizer(426, 30, epsilon)["alpha"] for epsilon in (0.25, 0.5, 1, 2, 4)]
    assert alphas == sorted(alphas, reverse=True)
    assert all(default_optimizer(426, 30, epsilon)["optimizer_params"]["lr"] * (7.5 + alpha) <= 1.0000001
               for epsilon, alpha in zip((0.25, 0.5, 1, 2, 4), alphas))


def test_kaiming_weights_stay_within_their_bound_and_the_intercept_starts_at_zero():
    weights = kaiming_uniform(2500, np.random.default_rng(0), fit_intercept=True)
    assert len(weights) == 2501 and weights[-1] == 0
    assert np.abs(weights).max() <= 0.02 and weights.std() == pytest.approx(0.02 / math.sqrt(3), rel=0.05)


def test_shapes_and_labels_that_do_not_fit_are_refused():
    parts, labels, start = problem()
    settings = TrainingSettings(sgd())
    with pytest.raises(InvalidTraining, match="rows"):
        train_plaintext(parts, labels[:-1], settings, start)
    with pytest.raises(InvalidTraining, match="initial_weights"):
        train_plaintext(parts, labels, settings, [start[0][:-1], start[1]])
    with pytest.raises(InvalidTraining, match="labels"):
        train_plaintext(parts, labels + 1, settings, start)
    with pytest.raises(InvalidTraining, match="epochs"):
        TrainingSettings(sgd(), constant_learning_rate(), epochs=0)
