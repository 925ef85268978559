"""The arithmetic of HomoLR in one process, against its formulas in 64-bit numpy and against what they imply."""

from dataclasses import replace

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.credit_risk.homo_lr import HomoLRSettings
from examples.credit_risk.models import train
from fate_dp.privacy.validation import InvalidArgument

SETTINGS = HomoLRSettings(epochs=12)


def rows(count, seed, scale=1.0, features=4):
    """Features, and labels that depend on the first of them."""
    generator = numpy.random.default_rng(seed)
    values = generator.normal(size=(count, features)) * scale
    labels = (values[:, 0] / scale + generator.normal(size=count) > 0.3).astype(int)
    return values, labels


def by_formula(parties, chosen):
    """Weights with the bias last, and losses, as the formulas of FATE's parts say; rmsprop only."""
    counts = numpy.array([len(labels) for _, labels in parties])
    features = [numpy.column_stack([values, numpy.ones(len(values))]) for values, _ in parties]
    average, squares, losses = numpy.zeros(features[0].shape[1]), [0.0] * len(parties), []
    for _ in range(chosen.epochs):
        steps, loss = [], 0.0
        for number, (values, (_, labels)) in enumerate(zip(features, parties)):
            predicted = 1 / (1 + numpy.exp(-values @ average))
            loss -= numpy.sum(labels * numpy.log(predicted) + (1 - labels) * numpy.log(1 - predicted))
            gradient = values.T @ (predicted - labels) / len(labels)
            gradient *= min(1, 1 / (numpy.linalg.norm(gradient) + 1e-6))
            gradient += chosen.alpha * average
            squares[number] = 0.99 * squares[number] + 0.01 * gradient**2
            steps.append(average - chosen.learning_rate * gradient / (numpy.sqrt(squares[number]) + 1e-8))
        losses.append(loss / counts.sum())
        average = counts @ numpy.array(steps) / counts.sum()
    return average, losses


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_equals_the_formulas(scale, alpha):
    # At scale 30 the gradients exceed the clip.
    parties = [rows(30, 1, scale), rows(50, 2, scale), rows(120, 3, scale)]
    chosen = replace(SETTINGS, alpha=alpha)
    found, (weights, losses) = train(parties, chosen), by_formula(parties, chosen)
    assert found.weights == pytest.approx(weights[:-1], abs=2e-6) and found.bias == pytest.approx(weights[-1], abs=2e-6)
    # 32-bit probabilities round to 1 where scores are large.
    assert found.losses == pytest.approx(losses, abs=1e-6 if scale == 1 else 1e-3)
    assert found.losses[0] == pytest.approx(numpy.log(2), abs=1e-6)


@pytest.mark.parametrize("optimizer", ["rmsprop", "sgd", "adam"])
def test_parties_with_the_same_rows_are_one_party(optimizer):
    chosen = replace(SETTINGS, optimizer=optimizer)
    alone, together = train([rows(40, 4)], chosen), train([rows(40, 4)] * 3, chosen)
    assert together.weights == pytest.approx(alone.weights, abs=1e-6)
    assert together.losses == pytest.approx(alone.losses, abs=1e-6)


def test_one_step_of_plain_gradient_descent_over_parties_is_one_step_on_the_pooled_rows():
    # Averages weighted by rows make it so; equal weights would not.
    parties = [rows(20, 5), rows(90, 6)]
    pooled = [tuple(numpy.concatenate(part) for part in zip(*parties))]
    chosen = replace(SETTINGS, optimizer="sgd", epochs=1, learning_rate=0.5)
    assert train(parties, chosen).weights == pytest.approx(train(pooled, chosen).weights, abs=1e-6)


def test_an_optimiser_state_stays_with_its_party():
    parties = [rows(40, 7), rows(40, 8, scale=5.0)]
    pooled = [tuple(numpy.concatenate(part) for part in zip(*parties))]
    assert abs(train(parties, SETTINGS).weights - train(pooled, SETTINGS).weights).max() > 1e-3


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.permutations(range(3)))
def test_the_order_of_parties_and_of_rows_has_no_say(seed, order):
    parties = [rows(20 + 10 * number, seed + number) for number in range(3)]
    moved = [tuple(part[::-1].copy() for part in parties[number]) for number in order]
    assert train(moved, SETTINGS).weights == pytest.approx(train(parties, SETTINGS).weights, abs=2e-4)


def test_equal_classes_leave_the_first_step_of_the_bias_to_rounding():
    # Why a run of FATE, which shuffles rows, and this one agree to some digits only.
    values, labels = rows(4000, 13)
    chosen = numpy.concatenate([numpy.flatnonzero(labels == label)[:1500] for label in (0, 1)])
    first = replace(SETTINGS, epochs=1)
    biases = {
        train([(values[order], labels[order])], first).bias
        for order in (numpy.random.default_rng(seed).permutation(chosen) for seed in range(8))
    }
    assert max(biases) - min(biases) > 1e-5 and max(map(abs, biases)) < 0.1
    steps = train([(values[chosen], labels[chosen])], first).weights
    assert abs(steps) == pytest.approx(numpy.full(4, 0.1), rel=1e-3)


def test_the_same_rows_give_the_same_bits_and_touch_no_generator():
    import torch

    state = torch.random.get_rng_state()
    first, second = train([rows(60, 9)], SETTINGS), train([rows(60, 9)], SETTINGS)
    assert (first.weights == second.weights).all() and first.losses == second.losses
    assert torch.equal(torch.random.get_rng_state(), state)


def test_scores_are_probabilities_that_rank_by_the_label():
    values, labels = rows(400, 10)
    scores = train([(values, labels)], SETTINGS).scores(values)
    assert scores.shape == (400,) and 0 < scores.min() < scores.max() < 1
    assert scores[labels == 1].mean() > scores[labels == 0].mean() + 0.05


def test_rows_of_one_label_are_learnt_without_complaint():
    values, _ = rows(20, 11)
    assert train([(values, numpy.ones(20))], SETTINGS).bias > 0


VALUES, LABELS = rows(3, 12)


@pytest.mark.parametrize(
    "parties, sentence",
    [
        ([], "Training needs at least one party; there is none."),
        (
            [(VALUES, LABELS[:2])],
            "shapes of features and labels of party 1 must be (n, m) and (n,) with n of at least 1, got ((3, 4), (2,)).",
        ),
        (
            [(VALUES[:0], LABELS[:0])],
            "shapes of features and labels of party 1 must be (n, m) and (n,) with n of at least 1, got ((0, 4), (0,)).",
        ),
        (
            [(VALUES, LABELS), (VALUES[:, :3], LABELS)],
            "number of features of party 2 must be 4, as at party 1, and at least 1, got 3.",
        ),
        ([(VALUES * numpy.nan, LABELS)], "Party 1 has a feature value that is no finite 32-bit number."),
        ([(VALUES * 1e40, LABELS)], "Party 1 has a feature value that is no finite 32-bit number."),
        ([(VALUES, LABELS + 1)], "Party 1 has a label other than 0 and 1."),
    ],
)
def test_refusals(parties, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        train(parties, SETTINGS)
    assert str(refusal.value) == sentence


def test_more_rows_than_a_batch_are_refused():
    with pytest.raises(InvalidArgument) as refusal:
        train([(VALUES[:2], LABELS[:2]), (VALUES, LABELS)], replace(SETTINGS, batch_size=2))
    assert str(refusal.value) == ("Party 2 has 3 rows, more than the batch_size of 2; here every step is on all rows.")
