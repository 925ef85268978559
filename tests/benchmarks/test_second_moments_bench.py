"""The twin behind bench/hetero_noise.py: without noise it is plain least squares, whatever the scales."""

import json
import sys

import numpy as np
import pytest

from bench import hetero_noise, hetero_noise_twin
from bench.hetero_noise_tasks import Task, breast_cancer
from bench.hetero_noise_twin import bounds_of, fit_adaptive, fit_noisy, fit_without_noise
from fate_dp.privacy.mechanisms.second_moments import SecondMoments
from fate_dp.privacy.noise.stream import ReproducibleStream


@pytest.fixture(scope="module")
def task():
    generator = np.random.default_rng(4)
    parts = generator.uniform(-1, 1, (300, 3)), generator.uniform(-1, 1, (300, 2))
    labels = (parts[0][:, 0] - parts[1][:, 1] + generator.normal(size=300) > 0).astype(float)
    return Task(parts, labels, parts, labels, (3, 2))


def test_without_noise_any_scales_give_the_weights_of_plain_least_squares(task):
    plain = fit_without_noise(task, 0.0)
    for scales in ([np.ones(3), np.ones(2)], [np.array([1.0, 3.0, 1.5]), np.array([2.0, 1.0])]):
        model = fit_noisy(task, bounds_of(task), scales, 0.0, ReproducibleStream(1))
        for own, expected in zip(model.weights, plain.weights):
            assert np.allclose(own, expected, atol=1e-5)
        assert abs(model.intercept - plain.intercept) < 1e-5
        assert np.allclose(model.scores(task.test_parts), model.scores_of_clipped(task.test_parts), atol=1e-4)


def test_joint_noise_is_symmetric_and_a_cross_block_carries_both_parties(task):
    moments = SecondMoments(bounds_of(task), (1.0, 1.0))
    noise = np.array([hetero_noise_twin.joint_noise(moments, ReproducibleStream(seed)) for seed in range(300)])
    assert np.array_equal(noise, noise.transpose(0, 2, 1)) and not noise[:, 3, 3].any()
    variances = np.mean(noise**2, axis=0)
    first, second = moments.sigma(0) ** 2, moments.sigma(1) ** 2
    expected = {
        (0, 0): first,
        (0, 1): first / 2,
        (0, 3): first / 2,
        (4, 4): first,
        (0, 5): first + second,
        (4, 6): first + second,
        (3, 5): second,
        (5, 5): second,
        (5, 6): second / 2,
    }
    for place, variance in expected.items():
        assert 0.7 < variances[place] / variance < 1.4


def test_adaptive_noise_uses_all_three_steps(task):
    model = fit_adaptive(task, bounds_of(task), 50.0, 1e-5, ReproducibleStream(2))
    # The features that decide the label come out as the widest: the smallest scales.
    assert model.scales[0].argmin() == 0 and model.scales[1].argmin() == 1
    opposite = fit_adaptive(task, bounds_of(task), 50.0, 1e-5, ReproducibleStream(2), power=0.5)
    assert opposite.scales[0].argmax() == 0


def test_an_absent_file_is_said_and_the_rest_is_run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["hetero_noise", "--csv", "nowhere/loans.csv.gz"])
    monkeypatch.setattr(hetero_noise, "SPLITS", range(2))
    monkeypatch.setattr(hetero_noise, "EPSILONS", (1.0,))
    monkeypatch.setattr(hetero_noise, "DRAWS_PER_SPLIT", 1)
    hetero_noise.main()
    printed = capsys.readouterr().out
    said = "Lending Club is left out: there is no file nowhere/loans.csv.gz; name one with --csv."
    assert said in " ".join(printed.split())
    result = json.loads(printed.strip().splitlines()[-1])
    assert result["bench"] == "hetero-noise" and 0.9 < result["figures"]["breast_cancer_auc_eps_1"] < 1
    assert "adaptive_minus_uniform_eps_1" in result["figures"]


def test_units_come_from_the_held_out_part_alone():
    task = breast_cancer(3)
    held = np.hstack(task.test_parts)
    assert np.allclose(held.mean(axis=0), 0) and np.allclose(held.std(axis=0), 1)
    assert not np.allclose(task.train_parts[0].mean(axis=0), 0, atol=1e-3)
