"""Flipback: its modes, its budget of swaps, its choice of a mode, and that a rare class survives (pitfall 15)."""

import math

import numpy as np
import pytest

from fate_dp.components.protocols.optimizers import correction_epochs
from fate_dp.privacy.labels.flipback import (
    Flipback,
    FlipbackSettings,
    choose_mode,
    expected_flips,
    keep_rare_class,
    most_distant,
)
from fate_dp.privacy.validation import InvalidArgument


def flipped_labels(records, prior, epsilon, seed=0):
    generator = np.random.default_rng(seed)
    true = generator.random(records) < prior
    return np.where(generator.random(records) < 1 / (1 + math.exp(epsilon)), ~true, true).astype(float)


def relabel(mode, current, flipped, scores, epsilon, *, fraction, swaps_left, class_prior=None, stream=None):
    flipback = Flipback(FlipbackSettings("swap", fraction=fraction), flipped, epsilon, stream, class_prior)
    flipback.mode, flipback.swaps_left = mode, swaps_left
    return flipback.relabel(current, scores)


@pytest.mark.parametrize(
    "field, value",
    [
        ("mode", "swop"),
        ("mode", None),
        ("every", 0),
        ("every", 2.5),
        ("every", True),
        ("fraction", 0),
        ("fraction", 1.5),
        ("fraction", math.nan),
        ("fraction", "half"),
        ("max_rounds", -1),
        ("max_rounds", 1.0),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(field, value):
    with pytest.raises(InvalidArgument) as raised:
        FlipbackSettings(**{field: value})
    message = str(raised.value)
    assert field in message and repr(value) in message and message.endswith(".") and message.count(". ") == 0


@pytest.mark.parametrize("mode", ["auto", "flip", ""])
def test_relabel_refuses_a_mode_that_is_not_a_working_one(mode):
    labels = np.array([0.0, 1.0])
    with pytest.raises(InvalidArgument, match="flipback mode"):
        relabel(mode, labels, labels, labels, 1.0, fraction=0.5, swaps_left=1)


def test_planned_rounds_leaves_out_the_last_epoch():
    settings = FlipbackSettings(mode="swap", every=10, max_rounds=3)
    assert [settings.planned_rounds(epochs) for epochs in (1, 10, 11, 30, 31, 100)] == [0, 0, 1, 2, 3, 3]
    assert FlipbackSettings(mode="none").planned_rounds(100) == 0


@pytest.mark.parametrize(
    "epochs, rounds",
    [(100, [25, 50, 75]), (30, [8, 16, 24]), (5, [2, 4]), (4, [1, 2, 3]), (3, [1, 2]), (2, [1]), (1, [])],
)
def test_rounds_without_every_divide_a_training_where_the_sigmoid_is_corrected(epochs, rounds):
    settings = FlipbackSettings(mode="swap")
    assert settings.planned_epochs(epochs) == rounds == correction_epochs(epochs, settings.max_rounds)
    flipback, labels = Flipback(settings, np.array([0, 1]), 1.0), np.array([0.0, 1.0])
    due = []
    for epoch in range(1, epochs):
        if flipback.is_due(epoch, epochs):
            flipback.relabel(labels, np.full(2, 0.5))
            due.append(epoch)
    assert due == rounds
    assert FlipbackSettings(mode="swap", max_rounds=0).planned_epochs(epochs) == []


def test_swap_turns_the_most_distant_records_in_order():
    current = np.array([0.0, 1.0, 1.0, 0.0])
    scores = np.array([0.9, 0.2, 0.95, 0.6])
    swapped = relabel("swap", current, current, scores, 1.0, fraction=0.5, swaps_left=10)
    assert swapped.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert relabel("swap", current, current, scores, 1.0, fraction=1.0, swaps_left=1).tolist() == [1, 1, 1, 0]
    assert current.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
def test_swaps_of_a_whole_run_never_exceed_the_expected_flips(epsilon):
    flipped = flipped_labels(300, 0.4, epsilon)
    generator = np.random.default_rng(1)
    flipback = Flipback(FlipbackSettings(mode="swap", every=1, fraction=0.07, max_rounds=100), flipped, epsilon)
    current, swaps = flipped, 0
    for epoch in range(1, 101):
        assert flipback.is_due(epoch, 101)
        revised = flipback.relabel(current, generator.random(300))
        swaps += int((revised != current).sum())
        current = revised
    assert swaps == expected_flips(300, epsilon) == math.floor(300 / (1 + math.exp(epsilon)))
    assert not flipback.is_due(101, 101)


def test_rounds_follow_every_and_stop_at_max_rounds():
    flipped = flipped_labels(100, 0.5, 1.0)
    flipback = Flipback(FlipbackSettings(mode="swap", every=3, max_rounds=2), flipped, 1.0)
    rounds = []
    for epoch in range(1, 20):
        if flipback.is_due(epoch, 20):
            flipback.relabel(flipped, np.full(100, 0.5))
            rounds.append(epoch)
    assert rounds == [3, 6]


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_posterior_is_bayes_rule(epsilon):
    scores = np.linspace(0.3, 0.9, 50)
    flipped = np.arange(50) % 2.0
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    given_one = np.where(flipped == 1, keep, 1 - keep)
    given_zero = np.where(flipped == 1, 1 - keep, keep)
    expected = scores * given_one / (scores * given_one + (1 - scores) * given_zero)
    posterior = relabel("posterior", flipped, flipped, scores, epsilon, fraction=0.1, swaps_left=0, class_prior=0.5)
    np.testing.assert_allclose(posterior, expected, rtol=1e-12)


def test_posterior_stays_between_0_and_1_at_extreme_scores():
    flipped = np.array([0.0, 1.0, 0.0, 1.0])
    posterior = relabel("posterior", flipped, flipped, np.array([0.0, 0.0, 1.0, 1.0]), 8.0, fraction=1, swaps_left=0)
    assert ((posterior >= 0) & (posterior <= 1)).all()


@pytest.mark.parametrize("score", [1e-9, 0.05, 0.2, 0.36])
def test_posterior_keeps_a_rare_class_that_the_scores_would_erase(score):
    flipped = flipped_labels(5000, 0.2, 1.0)
    posterior = relabel("posterior", flipped, flipped, np.full(5000, score), 1.0, fraction=0.1, swaps_left=0)
    assert posterior.mean() > 0.17


@pytest.mark.parametrize("score", [0.0, 0.2, 0.36])
def test_swap_keeps_a_rare_class_even_with_its_whole_budget(score):
    flipped = flipped_labels(5000, 0.2, 1.0)
    settings = FlipbackSettings(mode="swap", every=1, fraction=0.5, max_rounds=10)
    flipback, current = Flipback(settings, flipped, 1.0), flipped
    for _ in range(10):
        current = flipback.relabel(current, np.full(5000, score))
    assert current.mean() > 0.05


def test_keep_rare_class_works_on_either_side_and_leaves_good_scores_alone():
    good = np.array([0.2, 0.4, 0.6])
    np.testing.assert_array_equal(keep_rare_class(good, 0.3), good)
    low = keep_rare_class(np.array([0.01, 0.02, 0.03]), 0.3)
    assert low.mean() == pytest.approx(0.3) and (np.diff(low) > 0).all()
    assert keep_rare_class(np.array([0.97, 0.98, 0.99]), 0.7).mean() == pytest.approx(0.7)


class CountingStream:
    """Answers a fixed series and counts the draws."""

    def __init__(self, *answers):
        self.answers, self.draws = answers, 0

    def random(self):
        self.draws += 1
        return self.answers[self.draws - 1]


def test_resample_draws_only_from_its_own_stream():
    current = np.array([0.0, 1.0, 1.0, 0.0])
    scores = np.array([0.9, 0.2, 0.95, 0.1])
    stream = CountingStream(0.1, 0.9)
    before = np.random.get_state()[1].copy()
    revised = relabel("resample", current, current, scores, 1.0, fraction=0.5, swaps_left=0, stream=stream)
    assert stream.draws == 2
    assert revised.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert (np.random.get_state()[1] == before).all()


def test_resample_flips_at_the_rate_of_the_mechanism():
    flipped = np.zeros(20000)
    revised = relabel(
        "resample",
        flipped,
        flipped,
        np.full(20000, 0.5),
        1.0,
        fraction=1.0,
        swaps_left=0,
        stream=np.random.default_rng(5),
    )
    assert revised.mean() == pytest.approx(1 / (1 + math.e), abs=0.015)


def test_resample_without_a_stream_is_refused():
    with pytest.raises(InvalidArgument, match="stream"):
        relabel("resample", np.zeros(4), np.zeros(4), np.zeros(4), 1.0, fraction=0.5, swaps_left=0)


@pytest.mark.parametrize(
    "epsilon, mode", [(0.25, "swap"), (0.5, "swap"), (1, "swap"), (2, "none"), (4, "none"), (math.inf, "none")]
)
def test_choose_mode_on_balanced_classes(epsilon, mode):
    assert choose_mode(epsilon, flipped_labels(426, 0.63, min(epsilon, 50))) == mode


def test_choose_mode_takes_soft_labels_for_a_class_that_is_certainly_rare():
    assert choose_mode(1.0, flipped_labels(20000, 0.03, 1.0)) == "posterior"
    assert choose_mode(1.0, flipped_labels(20000, 0.97, 1.0)) == "posterior"
    assert choose_mode(1.0, flipped_labels(20000, 0.2, 1.0)) == "swap"


def test_auto_without_flips_never_asks_for_scores():
    flipback = Flipback(FlipbackSettings(), np.array([0, 1, 1]), math.inf)
    assert flipback.mode == "none" and not any(flipback.is_due(epoch, 50) for epoch in range(1, 50))


@pytest.mark.parametrize("current, scores", [([0, 1], [0.5]), ([0, 2], [0.5, 0.5]), ([0, 1], [0.5, math.nan])])
def test_relabel_refuses_values_that_are_no_labels_or_scores(current, scores):
    with pytest.raises(InvalidArgument):
        relabel("swap", current, [0, 1], scores, 1.0, fraction=0.5, swaps_left=1)


def test_flipped_labels_other_than_0_and_1_are_refused():
    with pytest.raises(InvalidArgument, match="flipped"):
        choose_mode(1.0, [0, 1, 2])


def test_most_distant_breaks_ties_in_record_order():
    assert most_distant(np.zeros(5), np.full(5, 0.5), 0.6).tolist() == [0, 1, 2]
