"""What dp_homo_nn chooses where a job names no rounds, optimiser or clip: by the rule that `settled` states, and when."""

import math
from dataclasses import replace

import pytest

from fate_dp.components.dp_homo_nn.round_terms import calibrated, guarantee_of, noise_of_mean, round_terms, settled
from fate_dp.components.dp_homo_nn.settings import TrainSettings

PARTIES = ("9999", "10000", "9998")
# A job of 24,000 records with 23 features, whose noise bears the largest clip.
LARGE = {"records": 24_000, "epsilon": 2.0}
MANY_INPUTS = 24


def chosen(dimension=MANY_INPUTS, **given):
    settings = TrainSettings(**given)
    return settled(settings, calibrated(settings, round_terms(settings, PARTIES, dimension)))


def test_a_job_that_names_records_and_epsilon_trains_fifty_rounds_on_all_of_them():
    settings, terms = chosen(**LARGE)
    assert (terms.rounds, terms.batch_size, terms.sampling_probability) == (50, 24_000, 1.0)
    assert settings.optimizer["method"] == "sgd"
    assert settings.optimizer["optimizer_params"] == {"lr": 4 / MANY_INPUTS, "momentum": 0.9, "nesterov": True}
    assert settings.clip == terms.clip_of(0) == pytest.approx(math.sqrt(MANY_INPUTS), rel=5e-3)
    assert guarantee_of(settings, terms).epsilons["add_or_remove"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"records": 450, "epsilon": 4.0},
        {"records": 1000, "epsilon": 1.0, "batch_size": 200.0},
        {"records": 3000, "epsilon": 1.0, "aggregation": "local"},
    ],
    ids=str,
)
def test_a_clip_between_its_bounds_makes_the_noise_of_all_rounds_as_large_as_the_rule_allows(given):
    settings, terms = chosen(**given)
    share = settings.clip / math.sqrt(MANY_INPUTS)
    assert 0.1 < share < 1
    assert share * MANY_INPUTS * noise_of_mean(terms) / math.sqrt(terms.rounds) == pytest.approx(1 / 30, rel=5e-3)


def test_a_clip_has_a_least_share_of_the_norm_and_falls_with_the_noise():
    clips = [chosen(records=records, epsilon=1.0)[0].clip for records in (50, 1000, 2000, 100_000)]
    assert clips == sorted(clips) and clips[0] == pytest.approx(0.1 * math.sqrt(MANY_INPUTS), rel=5e-3)
    assert clips[1] < clips[2] < clips[3] == pytest.approx(math.sqrt(MANY_INPUTS), rel=5e-3)


def test_larger_steps_for_rare_classes_count_as_noise():
    weighted = {"prior": [0.9, 0.1], "maximum": 5.0}
    plain, rare = (chosen(records=2000, epsilon=1.5, **more)[0] for more in ({}, {"class_weights": weighted}))
    assert rare.clip == pytest.approx(plain.clip / rare.step_factor, rel=1e-2) and rare.step_factor > 1


def test_softmax_regression_takes_the_steps_of_two_classes():
    settings, _ = chosen(dimension=3 * 11, classes=3, **LARGE)
    assert settings.optimizer["optimizer_params"]["lr"] == pytest.approx(4 / 11)
    assert settings.clip == pytest.approx(math.sqrt(11), rel=5e-3)


def test_what_a_job_names_is_kept():
    own = {"method": "adam", "penalty": "l2", "alpha": 0.0, "optimizer_params": {"lr": 0.01}}
    assert chosen(optimizer=own, clip=2.0, **LARGE)[0] == TrainSettings(optimizer=own, clip=2.0, **LARGE)
    assert chosen(optimizer=own, **LARGE)[0].clip == chosen(optimizer=own, **LARGE)[1].clip_of(0) == 1.0
    settings, terms = chosen(clip={"quantile": 0.5, "start": 1.0}, **LARGE)
    assert settings.clip == {"quantile": 0.5, "start": 1.0} and terms.clip_quantile == 0.5
    assert settings.optimizer["optimizer_params"]["lr"] == 4 / MANY_INPUTS


@pytest.mark.parametrize(
    "given",
    [
        {"model": {"name": "mlp", "params": {}}},
        {"noise_spread": "adaptive"},
        {"aggregation": "local", "local_steps": 2, "local_learning_rate": 0.1},
        {"privacy": "client", "records": 3, "local_learning_rate": 0.1},
        {"aggregation": "shuffle", "shuffler": "9997", "rounds": 10, "batch_size": 2400},
    ],
    ids=str,
)
def test_other_models_and_ways_to_train_have_a_clip_of_one_and_plain_descent(given):
    settings = TrainSettings(**{**LARGE, **given})
    terms = round_terms(settings, PARTIES, MANY_INPUTS, [8000] * 3 if settings.aggregation == "shuffle" else None)
    kept, same = settled(settings, terms)
    assert same == terms and terms.clip_of(0) == kept.clip == 1.0
    assert kept.optimizer["optimizer_params"] == {"lr": 0.1}


def test_a_mutant_that_ignores_the_noise_or_the_features_is_told_apart():
    """The clip must move with each number of the rule by the power that the rule says."""
    settings = TrainSettings(records=1000, epsilon=2.0, delta=1e-5)
    terms = calibrated(settings, round_terms(settings, PARTIES, MANY_INPUTS))
    clip = settled(settings, terms)[0].clip
    louder = terms.with_noise(noise_multiplier=2 * terms.noise_multiplier)
    assert settled(settings, louder)[0].clip == pytest.approx(clip / 2, rel=1e-2)
    wider = replace(terms, dimension=4 * MANY_INPUTS)
    assert settled(settings, wider)[0].clip == pytest.approx(clip / 2, rel=1e-2)
