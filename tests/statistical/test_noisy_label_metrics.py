"""Figures corrected for flips: right on average, with the standard errors they state, and 2/3 or 3/2 of either is noticed."""

from functools import lru_cache

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score, roc_curve

from fate_dp.privacy.labels.noisy_metrics import (
    ACCURACY,
    AUC,
    KS,
    Fit,
    NotCorrectable,
    corrected_accuracy,
    corrected_figures,
)
from fate_dp.privacy.mechanisms.randomized_response import keep_probability

EPSILON = 1.2
FACTORS = (2 / 3, 3 / 2)
REPETITIONS, ROWS = 400, 1500


def flipped(labels, epsilon, generator, classes=2):
    """Randomised response with numpy's generator."""
    moved = generator.random(len(labels)) >= keep_probability(epsilon, classes)
    return np.where(moved, (labels + generator.integers(1, classes, len(labels))) % classes, labels)


def rows_of(generator, rows, shift=1.1, prior=0.27):
    """Labels and scores, rounded so that there are ties, of a model that was not fitted to them."""
    labels = (generator.random(rows) < prior).astype(int)
    return labels, np.round(generator.normal(size=rows) + shift * labels - 0.9, 2)


def true_figures(labels, scores):
    false_positive, true_positive, _ = roc_curve(labels, scores)
    return {
        ACCURACY: np.mean((scores > 0) == labels),
        AUC: roc_auc_score(labels, scores),
        KS: np.max(true_positive - false_positive),
    }


@lru_cache(maxsize=1)
def repeated():
    """{measure: (estimates, stated standard errors, values on flips)} of many tables, and the figures of a large one."""
    generator = np.random.default_rng(7)
    runs = []
    for _ in range(REPETITIONS):
        labels, scores = rows_of(generator, ROWS)
        runs.append(corrected_figures(flipped(labels, EPSILON, generator), scores, EPSILON))
    found = {
        name: tuple(
            np.array([getattr(run[name], field) for run in runs])
            for field in ("estimate", "standard_error", "on_flips")
        )
        for name in runs[0]
    }
    return found, true_figures(*rows_of(generator, 1_000_000))


def standard_errors_off(estimates, expected):
    """By how many standard errors of their mean the estimates are off."""
    return abs(np.mean(estimates) - expected) / (np.std(estimates) / np.sqrt(len(estimates)))


@pytest.mark.parametrize("name, least", [(ACCURACY, 0.5), (AUC, 0.5), (KS, 0.0)])
def test_estimates_are_right_on_average_and_two_thirds_or_three_halves_of_the_correction_are_not(name, least):
    (estimates, _, on_flips), expected = repeated()[0][name], repeated()[1][name]
    # The maximum in KS overshoots by a part of its standard error; the others do not.
    overshoot = np.std(estimates) if name == KS else 0.0
    assert standard_errors_off(estimates, expected) < 5 or 0 < np.mean(estimates) - expected < overshoot
    for factor in FACTORS:
        # The correction is what a figure on flips is away from one of guesses, stretched.
        wrong = least + factor * (estimates - least)
        assert standard_errors_off(wrong, expected) > 10 and abs(np.mean(wrong) - expected) > overshoot
    assert standard_errors_off(on_flips, expected) > 10


@pytest.mark.parametrize("name", [ACCURACY, AUC, KS])
def test_standard_errors_are_those_of_further_rows(name):
    estimates, stated, _ = repeated()[0][name]
    ratio = np.sqrt(np.mean(stated**2)) / np.std(estimates)
    # Of 400 repetitions a standard deviation is known to 3.5 %.
    assert 0.82 < ratio < 1.22
    assert not any(0.82 < factor * ratio < 1.22 for factor in FACTORS)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_accuracy_of_any_number_of_classes(classes):
    generator = np.random.default_rng(classes)
    labels = generator.integers(0, classes, 200_000)
    predicted = np.where(generator.random(len(labels)) < 0.7, labels, (labels + 1) % classes)
    found = corrected_accuracy(flipped(labels, EPSILON, generator, classes), predicted, EPSILON, classes)
    truth, distance = np.mean(predicted == labels), lambda value: abs(value - truth) / found.standard_error
    assert distance(found.estimate) < 5 < distance(found.on_flips)
    guessed = 1 / classes
    assert all(distance(guessed + factor * (found.estimate - guessed)) > 10 for factor in FACTORS)


@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_the_bias_on_fitted_rows_is_what_the_fit_gives_at_most(scale):
    """Ridge fits of the Taylor loss on flips, on standardised and on large columns: the figures err upwards by most of the
    stated bias, and no more.
    """
    generator = np.random.default_rng(3)
    rows, columns, ridge, errors = 400, 12, 0.05, {ACCURACY: [], AUC: []}
    fit = Fit(columns, 0.25)
    for _ in range(500):
        features = generator.normal(size=(rows, columns))
        labels = (generator.random(rows) < expit(1.5 * features[:, 0])).astype(int)
        features *= scale
        flips = flipped(labels, EPSILON, generator)
        moments = features.T @ features / (4 * rows) + ridge * np.eye(columns)
        scores = features @ np.linalg.solve(moments, features.T @ (flips - 0.5) / rows)
        found, truth = corrected_figures(flips, scores, EPSILON, fit=fit), true_figures(labels, scores)
        for name, kept in errors.items():
            kept.append((found[name].estimate - truth[name], found[name].most_bias))
    for name, pairs in errors.items():
        error, stated = np.mean(pairs, axis=0)
        uncertain = np.std([pair[0] for pair in pairs]) / np.sqrt(len(pairs))
        assert error < stated + 4 * uncertain and error > 0.6 * stated, (name, error, stated)
        assert not any(error < factor * stated + 4 * uncertain for factor in (1 / 3, 0.5))


def test_without_flips_nothing_is_corrected_and_without_a_fit_nothing_is_said_of_bias():
    labels, scores = rows_of(np.random.default_rng(0), 3000)
    found, expected = corrected_figures(labels, scores, 40.0), true_figures(labels, scores)
    for name, figure in found.items():
        assert figure.estimate == pytest.approx(figure.on_flips) == pytest.approx(expected[name])
        assert figure.most_bias == 0


def test_a_threshold_moves_accuracy_alone():
    labels, scores = rows_of(np.random.default_rng(1), 500)
    here, there = corrected_figures(labels, scores, 2.0), corrected_figures(labels, scores, 2.0, threshold=1.0)
    assert here[AUC] == there[AUC] and here[KS] == there[KS] and here[ACCURACY] != there[ACCURACY]


@pytest.mark.parametrize("flips", [[1, 1, 1, 1], [0] * 9 + [1]])
def test_a_class_that_is_too_rare_is_said_to_be(flips):
    with pytest.raises(NotCorrectable, match="one class is too rare among these rows"):
        corrected_figures(np.array(flips), np.arange(len(flips)), 1.0)
