"""The distinguishing game: its intervals, its bounds on mechanisms whose epsilon is known, and audits that are void."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.auditing.bounds import clopper_pearson
from fate_dp.privacy.validation import InvalidArgument
from tests.support.distinguishing import Audit, audit_claim, epsilon_lower_bound, mu_lower_bound

CONFIDENCE = 1 - 1e-6


@pytest.mark.parametrize(
    "successes, trials, lower, upper",
    [
        (0, 10, 0.0, 0.3084971078187608),  # 1 - 0.025^(1/10)
        (10, 10, 0.6915028921812392, 1.0),
        (1, 2, 0.012579117093425, 0.987420882906575),  # 1 - sqrt(0.975), sqrt(0.975)
    ],
)
def test_clopper_pearson_in_closed_form(successes, trials, lower, upper):
    assert clopper_pearson(successes, trials, 0.025) == (pytest.approx(lower, rel=1e-9), pytest.approx(upper, rel=1e-9))


@given(trials=st.integers(1, 60), probability=st.floats(0.01, 0.99), error=st.sampled_from([1e-4, 0.05, 0.3]))
@settings(max_examples=40)
def test_each_clopper_pearson_bound_errs_no_more_often_than_stated(trials, probability, error):
    from scipy.stats import binom

    lower, upper = clopper_pearson(np.arange(trials + 1), trials, error)
    chances = binom.pmf(np.arange(trials + 1), trials, probability)
    assert chances[lower > probability].sum() <= error * (1 + 1e-9)
    assert chances[upper < probability].sum() <= error * (1 + 1e-9)


def randomised_bits(bit, epsilon, runs, generator):
    return np.where(generator.random(runs) < 1 / (1 + math.exp(-epsilon)), bit, 1 - bit)


def share_of_wrong_bounds(bound, truth, draw, games=400):
    generator = np.random.default_rng(7)
    return np.mean([bound(draw(0, generator), draw(1, generator)) > truth for _ in range(games)])


def test_bounds_exceed_the_truth_no_more_often_than_their_confidence_allows():
    """At confidence 0.8: 400 games of a bound that errs in a fifth of them reach a share of 0.3 once in 700 000."""
    pure = share_of_wrong_bounds(
        lambda first, second: epsilon_lower_bound(first, second, confidence=0.8),
        1.0,
        lambda bit, generator: randomised_bits(bit, 1.0, 400, generator),
    )
    gaussian = share_of_wrong_bounds(
        lambda first, second: mu_lower_bound(first, second, 0.8),
        1.0,
        lambda mean, generator: generator.normal(mean, 1, 400),
    )
    assert pure < 0.3 and gaussian < 0.3


def test_a_bound_that_chooses_and_measures_on_the_same_runs_would_be_caught():
    """The proof that the test above can fail: best of 200 thresholds on the very runs that are counted."""

    def careless(first, second):
        thresholds = np.quantile(np.concatenate([first, second]), np.linspace(0.02, 0.98, 200))[:, None]
        low, _ = clopper_pearson((second >= thresholds).sum(axis=1), len(second), 0.1)
        _, high = clopper_pearson((first >= thresholds).sum(axis=1), len(first), 0.1)
        return np.log(low / high).max()

    def same_noise(_, generator):
        return generator.laplace(0, 1, 400)

    assert share_of_wrong_bounds(careless, 0.0, same_noise, games=60) > 0.3


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_bound_comes_close_to_the_epsilon_of_randomised_response_from_below(epsilon):
    generator = np.random.default_rng(11)
    first, second = (randomised_bits(bit, epsilon, 100_000, generator) for bit in (0, 1))
    assert 0.85 * epsilon < epsilon_lower_bound(first, second, 0.0, CONFIDENCE) < epsilon
    assert 0.85 * epsilon < epsilon_lower_bound(second, first, 0.0, CONFIDENCE) < epsilon


def test_order_of_inputs_and_sign_of_scores_find_the_same_leak():
    """The leak lies on one side of one order only: input 1 gives a 1 in a hundred runs, input 0 never."""
    first, second = np.zeros(4000), (np.arange(4000) % 100 == 0).astype(float)
    bounds = {
        round(epsilon_lower_bound(sign * a, sign * b, 0.0, 0.95), 9)
        for sign in (1, -1)
        for a, b in ((first, second), (second, first))
    }
    assert len(bounds) == 1 and bounds.pop() > 1


def test_delta_is_taken_off():
    """A mechanism that betrays its input in 2 of 100 runs and otherwise says nothing is (0, 0.02)-private."""
    second = (np.arange(20_000) % 50 == 0).astype(float)
    assert epsilon_lower_bound(np.zeros(20_000), second, 0.0, CONFIDENCE) > 2
    assert epsilon_lower_bound(np.zeros(20_000), second, 0.02, CONFIDENCE) == 0


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_bound_on_mu_is_close_and_rejects_a_scale_of_two_thirds(mu):
    generator = np.random.default_rng(13)
    first, second = generator.normal(0, 1, 40_000), generator.normal(mu, 1, 40_000)
    assert 0.8 * mu < mu_lower_bound(first, second, CONFIDENCE) < mu
    assert mu_lower_bound(first * 2 / 3, (second - mu) * 2 / 3 + mu, CONFIDENCE) > mu


def test_equal_distributions_refute_nothing_and_separate_ones_reach_the_limit_of_the_runs():
    runs = np.zeros(2000)
    assert epsilon_lower_bound(runs, runs) == mu_lower_bound(runs, runs) == 0
    limit = math.log(2000 / (2 * math.log(2 / 1e-6)))
    assert epsilon_lower_bound(runs, runs + 1, 0.0, CONFIDENCE) == pytest.approx(limit, abs=0.02)


def test_an_audit_reports_claim_finding_and_control():
    audit = audit_claim(lambda bound: bound, 0.7, 5.0, 1.0)
    assert audit == Audit(claimed=1.0, found=0.7, control=5.0) and not audit.refutes
    assert audit_claim(lambda bound: bound, 1.2, 5.0, 1.0).refutes


@pytest.mark.parametrize("control", [0.2, 1.0, math.nan])
def test_an_audit_whose_control_is_not_broken_is_void(control):
    with pytest.raises(RuntimeError) as void:
        audit_claim(lambda bound: bound, 0.1, control, 1.0)
    assert str(void.value) == (
        f"The audit is void: on the control without privacy the attack proves no more than {control:.4g}, "
        "which does not exceed the claim of 1."
    )


@pytest.mark.parametrize(
    "refused, sentence",
    [
        (
            lambda: epsilon_lower_bound([1, 2, 3], [1] * 4),
            "first must hold the scores of at least 4 runs, finite numbers.",
        ),
        (
            lambda: mu_lower_bound([1] * 4, [math.nan] * 4),
            "second must hold the scores of at least 4 runs, finite numbers.",
        ),
        (lambda: epsilon_lower_bound([1] * 4, [1] * 4, 2), "delta must be a number from 0 to 1, got 2."),
        (lambda: mu_lower_bound([1] * 4, [1] * 4, 0), "confidence must be a number strictly between 0 and 1, got 0."),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(refused, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        refused()
    assert str(refusal.value) == sentence


def test_an_attack_that_finds_not_a_number_makes_the_audit_void():
    """NaN exceeds no claim: without a refusal such an audit could not fail."""
    with pytest.raises(RuntimeError) as refusal:
        audit_claim({"mechanism": math.nan, "control": 9.0}.get, "mechanism", "control", 1.0)
    assert str(refusal.value) == (
        "The audit is void: on the mechanism the attack gives NaN, which refutes nothing whatever leaks."
    )
