"""The source's rule does what its equations say, which protects nothing."""

import numpy as np
import pytest

from bench.thesis import source_rule as module
from bench.thesis.source_rule import (
    SourceRule,
    clipped_mean,
    noisy_contributions,
    perturbed_inputs,
    perturbed_targets,
    shares,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

RULE = SourceRule(epsilon=3.0, f=0.4, p=0.85, batch_size=10)


def test_raw_values_are_released_with_probability_one_minus_p():
    features = np.full((20_000, 3), 0.25)
    contributions = np.array([0.1, 0.8, 0.1])
    found = perturbed_inputs(RULE, features, contributions, 5, ReproducibleStream(1))
    raw = (found == 0.25).mean(axis=0)
    # Five standard deviations of a share of 20,000 coins.
    assert np.abs(raw[[0, 2]] - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / 20_000)
    assert raw[1] < 1e-3
    assert (features == 0.25).all()


def test_noise_has_the_scales_of_the_equations(monkeypatch):
    asked = []

    def kept(scale, size, stream):
        asked.append((scale, size))
        return np.zeros(size)

    monkeypatch.setattr(module, "_laplace", kept)
    noisy_contributions(RULE, np.ones((7, 4)))
    assert asked.pop() == (pytest.approx(2 * 4 / 7 / 1.0), 4)
    rule = SourceRule(epsilon=3.0, f=0.0, p=0.0, batch_size=10)
    perturbed_inputs(rule, np.zeros((2, 2)), np.array([-3.0, 1.0]), 5)
    # GS_l / epsilon_j / |batch| = 5 * 2 / (2 * beta_j * 1) / 10 for beta = 3/4 and 1/4.
    assert asked == [(pytest.approx(5 / 0.75 / 10), 2), (pytest.approx(5 / 0.25 / 10), 2)]
    asked.clear()
    targets = perturbed_targets(rule, [1, 0], 2)
    assert asked == [(pytest.approx(2 * 2 / 1 / 10), (2, 2))] and targets.tolist() == [[0, 1], [1, 0]]


def test_laplace_noise_has_its_scale():
    drawn = module._laplace(3.0, 40_000, ReproducibleStream(2))
    assert abs(np.abs(drawn).mean() - 3.0) < 5 * 3.0 / 200


def test_contributions_are_means_of_signed_relevance(monkeypatch):
    monkeypatch.setattr(module, "_laplace", lambda scale, size, stream: np.zeros(size))
    assert noisy_contributions(RULE, [[1.0, -2.0], [3.0, 0.0]]).tolist() == [2.0, -1.0]
    assert shares(np.array([2.0, -1.0])).tolist() == [2 / 3, 1 / 3]
    assert shares(np.zeros(4)).tolist() == [0.25] * 4


def test_the_mean_is_clipped_after_the_noise():
    assert clipped_mean([3.0, 4.0], 1.0).tolist() == [0.6, 0.8]
    assert clipped_mean([0.3, 0.4], 1.0).tolist() == [0.3, 0.4]


@pytest.mark.parametrize(
    "field, value",
    [("epsilon", 0.0), ("epsilon", float("nan")), ("f", 1.5), ("f", "x"), ("p", -0.1), ("batch_size", 0)],
)
def test_refusals(field, value):
    settings = {"epsilon": 1.0, "f": 0.15, "p": 0.85, "batch_size": 600, field: value}
    with pytest.raises(InvalidArgument, match=f"^{field} must be .*, got {value!r}"):
        SourceRule(**settings)
