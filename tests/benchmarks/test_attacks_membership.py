"""Membership attacks find what they must find, find nothing in noise, and stay below what epsilon allows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from bench.attack_methods.membership import (
    Asked,
    PublicConfidences,
    References,
    above_quantile,
    allowed_by,
    allowed_by_profile,
    found_at,
    likelihood_ratio,
    likelihood_ratio_offline,
    relative,
    relative_offline,
)
from bench.attack_methods.released import ReleasedModel
from bench.attack_methods.view import PLAIN
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.privacy.accounting.gaussian import gaussian_delta
from fate_dp.privacy.validation import InvalidArgument

CANDIDATES, MODELS = 4000, 17


def population(shift, seed=0, models=MODELS, candidates=CANDIDATES):
    """Made-up confidences: normal around a level of each record's own, and higher by ``shift`` for members."""
    generator = np.random.default_rng(seed)
    members = generator.random((models, candidates)) < 0.5
    levels = 5 * generator.standard_normal(candidates)
    return levels + generator.standard_normal(members.shape) + shift * members, members


def target_and_references(confidences, members):
    return confidences[0], References(confidences[1:], members[1:])


def public_of(models=MODELS, count=2000, seed=1):
    """Public records of the same made-up kind, members of none."""
    confidences, _ = population(0.0, seed, models, count)
    return PublicConfidences(confidences[0], confidences[1:])


def every_score(confidences, members):
    target, references = target_and_references(confidences, members)
    public = public_of(len(members))
    return {
        "online": likelihood_ratio(target, references),
        "offline": likelihood_ratio_offline(target, references),
        "relative": relative(target, references, public),
        "relative, offline": relative_offline(target, references, public),
        "confidence": target,
    }


def test_likelihood_ratios_reach_what_the_best_test_of_a_known_shift_reaches():
    confidences, members = population(3.0)
    found = found_at(likelihood_ratio(*target_and_references(confidences, members)), members[0], 0.01)
    # Neyman and Pearson: a shift of 3 standard deviations; the law's mean is estimated from eight models for each.
    best = norm.cdf(norm.ppf(0.01) + 3)
    assert 0.6 * best < found < 1.1 * best


def test_every_attack_finds_members_that_the_model_is_surer_of():
    confidences, members = population(4.0)
    found = {name: found_at(scores, members[0], 0.01) for name, scores in every_score(confidences, members).items()}
    assert min(found[name] for name in ("online", "offline", "relative", "relative, offline")) > 0.1
    # Records differ more than membership does: who knows nothing of them finds few.
    assert found["confidence"] < found["relative, offline"] and found["confidence"] < 0.1


def test_no_attack_finds_more_than_its_false_positives_where_there_is_nothing_to_find():
    found = {}
    for seed in range(8):
        confidences, members = population(0.0, seed)
        for name, scores in every_score(confidences, members).items():
            found.setdefault(name, []).append(found_at(scores, members[0], 0.01))
    # The standard deviation of one is below 0.004, of the mean of eight below 0.0015.
    assert max(np.mean(values) for values in found.values()) < 0.016


def test_a_likelihood_ratio_with_the_members_exchanged_is_caught():
    confidences, members = population(3.0)
    target, references = target_and_references(confidences, members)
    mutant = likelihood_ratio(target, replace(references, members=~references.members))
    assert found_at(mutant, members[0], 0.01) < 0.01


def test_a_candidate_that_no_reference_model_tells_anything_about_gets_no_evidence():
    confidences, members = population(1.0, candidates=20)
    members[1:, 3], members[1:, 4] = True, False
    target, references = target_and_references(confidences, members)
    assert likelihood_ratio(target, references)[[3, 4]].tolist() == [0.0, 0.0]
    assert likelihood_ratio_offline(target, references)[3] == 0.5
    assert np.isfinite(relative_offline(target, references, public_of())).all()


def test_the_share_found_is_counted_above_the_threshold_of_the_others():
    members = np.array([True] * 4 + [False] * 100)
    scores = np.concatenate([[98.5, 99.5, 97.0, 99.0], np.arange(100.0)])
    # One of a hundred is accused, the one with 99: the threshold is 98, and ties with it do not count.
    assert found_at(scores, members, 0.01) == 0.75
    assert found_at(np.zeros(104), members, 0.01) == 0.0
    assert found_at(np.where(members, 1.0, 0.0), members, 0.01) == 1.0


def test_epsilon_allows_what_it_says():
    assert allowed_by(0.01, 0.0, 0.0) == pytest.approx(0.01)
    assert allowed_by(0.01, math.log(3), 0.001) == pytest.approx(0.031)
    assert allowed_by(0.5, 1.0, 0.0) == pytest.approx(1 - 0.5 / math.e)
    assert allowed_by(0.01, 8.0, 1e-5) == pytest.approx(1 - math.exp(-8) * (1 - 1e-5 - 0.01))


@pytest.mark.parametrize("multiplier", [0.5, 2.0])
def test_the_profile_of_gaussian_noise_allows_what_its_trade_off_function_does(multiplier):
    for rate in (0.001, 0.3):
        exact = norm.cdf(norm.ppf(rate) + 1 / multiplier)
        found = allowed_by_profile(rate, lambda epsilon: gaussian_delta(multiplier, epsilon), 20.0)
        assert exact * (1 - 1e-9) <= found <= exact * 1.02


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_noise_of_another_scale_gives_another_bound(factor):
    right = norm.cdf(norm.ppf(0.01) + 1.0)
    assert abs(allowed_by_profile(0.01, lambda epsilon: gaussian_delta(factor, epsilon), 20.0) / right - 1) > 0.2


def asked(count, seed, memorised=False):
    """Records whose confidence follows from what they look like, but for some noise and what was memorised."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((count, 5)).astype(np.float32)
    labels = generator.integers(3, size=count)
    confidences = 4 * features[:, 0] + labels + 0.3 * generator.standard_normal(count)
    members = generator.random(count) < 0.5
    return Asked(features, labels, confidences + (2.0 * members if memorised else 0.0)), members


@pytest.mark.parametrize("memorised, low, high", [(True, 0.2, 1.0), (False, 0.0, 0.03)])
def test_the_quantile_of_others_that_look_alike_shows_members_and_nothing_else(memorised, low, high):
    candidates, members = asked(1000, 3, memorised)
    public, _ = asked(1000, 4)
    found = found_at(above_quantile(candidates, public, 0.95), members, 0.01)
    assert low <= found <= high
    assert not memorised or found > 2 * found_at(candidates.confidences, members, 0.01)


def released(seed=0):
    module = build_model(ModelSpec("mlp", 4, 3, {"hidden": [5], "seed": seed}))
    return ReleasedModel.of(module, flat_weights(module) * 3, PLAIN)


def test_a_confidence_is_the_log_odds_of_the_label():
    features = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    labels = np.array([0, 1, 2, 0, 1, 2])
    model = released()
    own = np.exp(model.log_probabilities(features).numpy())[np.arange(6), labels]
    assert np.allclose(model.confidences(features, labels), np.log(own / (1 - own)))
    # A model that is certain has finite confidences.
    certain = ReleasedModel.of(model.module, flat_weights(model.module) * 1e4, PLAIN)
    assert np.isfinite(certain.confidences(features, labels)).all()


def test_bad_input_is_refused_in_a_sentence():
    confidences, members = population(0.0, candidates=30)
    target, references = target_and_references(confidences, members)
    with pytest.raises(InvalidArgument, match="must be 30 finite numbers, one for each candidate"):
        likelihood_ratio(target[:-1], references)
    with pytest.raises(InvalidArgument, match="one row for each of at least 1 model"):
        References(confidences[1:], members[2:])
    with pytest.raises(InvalidArgument, match="NaN or infinite"):
        References(np.full((2, 3), np.nan), np.ones((2, 3), dtype=bool))
    with pytest.raises(InvalidArgument, match="gamma must be a finite number of at least 1.*, got 0.5"):
        relative(target, references, public_of(), gamma=0.5)
    with pytest.raises(InvalidArgument, match="scale must be a number from 0 to 1.*, got 2"):
        relative_offline(target, references, public_of(), scale=2)
    with pytest.raises(InvalidArgument, match="quantile must be a number strictly between 0 and 1.*, got 1"):
        above_quantile(asked(9, 0)[0], asked(9, 1)[0], 1)
    with pytest.raises(InvalidArgument, match="at least 100 non-members and 1 member"):
        found_at(target, members[0], 0.01)
    with pytest.raises(InvalidArgument, match="rate must be .*, got 1.5"):
        found_at(target, members[0], 1.5)
    with pytest.raises(InvalidArgument, match="outputs of the released model must be at least 2 logits a record"):
        module = build_model(ModelSpec("logistic_regression", 4, 2))
        ReleasedModel(module, PLAIN).confidences(np.zeros((1, 4), dtype=np.float32), np.zeros(1, dtype=np.int64))
