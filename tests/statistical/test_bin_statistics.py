"""Noise on counts by bin as another party sees it: of the stated scale, and audited beside mutants that must fail."""

import math

import numpy as np
import pytest

from fate_dp.privacy.mechanisms import bin_counts, quantiles
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS, BinCountNoise, LaplaceBinCountNoise
from fate_dp.privacy.mechanisms.quantiles import private_quantiles, quantile_event, quantile_levels
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits
from tests.statistical.mutants import NO_NOISE, epsilon_times, keys_are_constant, noise_halved, noise_off
from tests.support.distinguishing import audit_claim

pytestmark = pytest.mark.statistical
LIMIT = 5.0
UNIT = 2.0**FRACTION_BITS
COLUMNS = 4
NOISE = BinCountNoise(1.0, 0, COLUMNS, 2 * COLUMNS)


@pytest.mark.parametrize("factor, fits", [(1, True), (2 / 3, False), (3 / 2, False)])
def test_noise_has_the_stated_scale_and_two_thirds_and_three_halves_are_rejected(factor, fits):
    noise = BinCountNoise(1.7, 3, 5, 100)
    squares = (noise.draw(4000, ReproducibleStream(3)) / UNIT / (factor * 1.7 * math.sqrt(11))) ** 2
    assert bool(abs(squares.mean() - 1) < LIMIT * math.sqrt(2 / squares.size)) is fits


@pytest.mark.parametrize("factor, fits", [(1, True), (2 / 3, False), (3 / 2, False)])
def test_laplace_noise_has_the_stated_scale_too(factor, fits):
    noise = LaplaceBinCountNoise(0.8, 3, 5, 100)
    sizes = np.abs(noise.draw(4000, ReproducibleStream(4)) / UNIT) / (factor * 11 / 0.8)
    # Sizes of Laplace numbers have mean and standard deviation of their scale.
    assert bool(abs(sizes.mean() - 1) < LIMIT / math.sqrt(sizes.size)) is fits


def sums_at_a_host(label):
    """Of one record, in the first bin of each of the host's columns; the attack adds up what the label moves."""

    def release(stream):
        sums = np.zeros(2 * COLUMNS)
        sums[::2] = label
        return sums + NOISE.draw(sums.size, stream) / UNIT

    return release


def audit_of_sums():
    claimed = audits.stated_epsilon(NOISE.event(["host"]))
    attack = audits.gaussian_attack(0, 1)

    def mechanism(label, runs, stream):
        return np.array([sums_at_a_host(label)(stream)[::2].sum() for _ in range(runs)])

    return audit_claim(attack, mechanism, audits.without_privacy(lambda label: COLUMNS * label), claimed)


def audit_of_laplace_sums():
    noise = LaplaceBinCountNoise(audits.EPSILON, 0, 1, 2)
    claimed = audits.stated_epsilon(noise.event(["host"]))

    def mechanism(label, runs, stream):
        return label + noise.draw(runs, stream) / UNIT

    return audit_claim(audits.epsilon_attack(0, 1), mechanism, audits.without_privacy(float), claimed)


def audit_of_the_median():
    """Two points equally far from the middle; a value that goes from above both to below both decides for the first."""
    counts = {0: np.array([3, 6, 3]), 1: np.array([4, 6, 2])}
    event = quantile_event(audits.EPSILON, 1, observers="model")
    claimed = audits.stated_epsilon(event, count=quantile_levels(1))

    def mechanism(moved, runs, stream):
        return np.array([private_quantiles(counts[moved], 1, audits.EPSILON, stream)[0] for _ in range(runs)], float)

    return audit_claim(audits.epsilon_attack(0, 1, rounds=3), mechanism, audits.without_privacy(float), claimed)


AUDITS = {"sums": audit_of_sums, "laplace sums": audit_of_laplace_sums, "median": audit_of_the_median}


@pytest.mark.parametrize("name", AUDITS)
def test_an_audit_finds_less_than_is_claimed_but_not_absurdly_little(name):
    audit = AUDITS[name]()
    assert not audit.refutes and audit.found > 0.3 * audit.claimed


MUTANTS = {
    ("sums", "no noise"): lambda patch: noise_off(bin_counts, "discrete_gaussian", patch),
    ("sums", "half the noise"): lambda patch: noise_halved(bin_counts, "discrete_gaussian", patch),
    ("laplace sums", "no noise"): lambda patch: noise_off(bin_counts, "discrete_laplace", patch),
    ("laplace sums", "half the noise"): lambda patch: noise_halved(bin_counts, "discrete_laplace", patch),
    ("median", "twice the epsilon"): lambda patch: epsilon_times(2, quantiles, "exponential_mechanism", 1, patch),
    ("median", "the true one"): lambda patch: epsilon_times(NO_NOISE, quantiles, "exponential_mechanism", 1, patch),
}


@pytest.mark.parametrize("kind, name", MUTANTS)
def test_a_mutant_is_noticed(kind, name, monkeypatch):
    MUTANTS[kind, name](monkeypatch)
    assert AUDITS[kind]().refutes


def test_two_draws_never_repeat_unless_keys_do(monkeypatch):
    assert NOISE.draw(8).tolist() != NOISE.draw(8).tolist()
    keys_are_constant(monkeypatch)
    assert NOISE.draw(8).tolist() == NOISE.draw(8).tolist()
