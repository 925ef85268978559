"""Loss distributions: the rounding of profiles and of convolutions, against exact and 60-digit answers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import erfc, exp, log, mp, mpf, sqrt

from fate_dp.privacy.accounting import losses
from fate_dp.privacy.accounting.losses import PROFILE_ERROR, Composition, Losses, composed
from fate_dp.privacy.accounting.privacy_profiles import profiles
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    ExponentialMechanism,
    Laplace,
    PoissonSampledGaussian,
    RandomizedResponse,
)

DIGITS = 60


def normal(place):
    return erfc(-place / sqrt(2)) / 2


def removed(rate, mu, ratio):
    """P and Q of the half-line on which the loss of removing exceeds ln(ratio)."""
    if ratio <= 1 - rate:
        return mpf(1), mpf(1)
    cut = (log((ratio - 1 + rate) / rate) + mu**2 / 2) / mu
    return (1 - rate) * normal(-cut) + rate * normal(mu - cut), normal(-cut)


def added(rate, mu, ratio):
    if 1 / ratio <= 1 - rate:
        return mpf(0), mpf(0)
    cut = (log((1 / ratio - 1 + rate) / rate) + mu**2 / 2) / mu
    return normal(cut), (1 - rate) * normal(cut) + rate * normal(cut - mu)


def replaced(rate, mu, ratio):
    middle, end = (1 - rate) * (ratio - 1), rate * exp(-(mu**2) / 2)
    cut = -log((middle + sqrt(middle**2 + 4 * end**2 * ratio)) / (2 * end)) / mu
    unsampled = (1 - rate) * normal(cut)
    return unsampled + rate * normal(cut + mu), unsampled + rate * normal(cut - mu)


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.9])
@pytest.mark.parametrize("mu", [0.05, 1.0, 2.0, 5.0])
@pytest.mark.parametrize(
    "relation, sides", [(ADD_OR_REMOVE, (removed, added)), (REPLACE_ONE, (replaced,))], ids=["add-or-remove", "replace"]
)
def test_profiles_are_right_to_the_last_bits(rate, mu, relation, sides):
    pair = profiles(PoissonSampledGaussian(rate, 1 / mu), relation)
    for profile, exact in zip(pair, sides, strict=True):
        places = np.concatenate([np.linspace(profile.lowest, profile.highest, 41), np.linspace(-1e-3, 1e-3, 8)])
        with mp.workdps(DIGITS):
            for place, found in zip(places.tolist(), profile.delta(places).tolist()):
                upper, lower = exact(mpf(rate), mpf(mu), exp(mpf(place)))
                assert abs(found - (upper - exp(mpf(place)) * lower)) <= PROFILE_ERROR / 2 * upper + mpf(10) ** -300


MASSES = st.lists(st.integers(0, 2**20), min_size=2, max_size=5).filter(any)
RELEASES = st.lists(st.tuples(st.integers(-6, 2), MASSES, st.integers(1, 4)), min_size=1, max_size=3)


def exact_composition(releases):
    """{place: exact probability} of the sum of all losses."""
    total = {0: Fraction(1)}
    for first, masses, count in releases:
        whole = sum(masses)
        for _ in range(count):
            longer = {}
            for (place, so_far), (more, mass) in itertools.product(total.items(), enumerate(masses)):
                longer[place + first + more] = longer.get(place + first + more, 0) + so_far * Fraction(mass, whole)
            total = longer
    return total


@given(RELEASES, st.integers(-20, 20), st.sampled_from([0.25, 1.0, 4.0]))
@settings(max_examples=200)
def test_a_composition_lies_just_above_the_exact_one(releases, place, interval):
    made = [(Losses(first, np.array(masses) / sum(masses), 0.0), count) for first, masses, count in releases]
    epsilon = (place + 0.5) * interval
    with mp.workdps(DIGITS):
        exact = sum(
            mpf(mass.numerator) / mass.denominator * (1 - exp(mpf(epsilon) - mpf(at) * interval))
            for at, mass in exact_composition(releases).items()
            if at * interval > epsilon
        )
        composition = Composition(made, interval)
        reported = composition.delta(epsilon)
        assert exact <= composition.quick_delta(epsilon)
        assert exact * (1 - mpf(10) ** -12) <= reported <= exact * (1 + mpf(10) ** -6) + mpf(10) ** -28


@pytest.mark.parametrize("count", [100, 10_000])
@pytest.mark.parametrize("delta", [1e-9, 1e-20, 1e-30])
def test_tails_far_below_the_rounding_of_one_are_still_right(count, delta):
    (response,) = composed([(profiles(RandomizedResponse(0.1), REPLACE_ONE), count)])
    epsilon = response.epsilon(delta)
    with mp.workdps(DIGITS):
        keep = 1 / (1 + exp(mpf("-0.1")))
        of_lies = [mp.binomial(count, lies) * keep ** (count - lies) * (1 - keep) ** lies for lies in range(count // 2)]

        def exact(at):
            losses_of = ((mass, mpf("0.1") * (count - 2 * lies)) for lies, mass in enumerate(of_lies))
            return sum(mass * (1 - exp(at - loss)) for mass, loss in losses_of if loss > at)

        assert exact(mpf(epsilon)) <= delta <= exact(mpf(epsilon) * (1 - mpf(10) ** -3))


def test_a_tail_that_is_hardly_ever_sampled_keeps_its_weight():
    # 80-bit arithmetic on ever finer grids gives 0.29595 under replace-one.
    release = PoissonSampledGaussian(1e-6, 0.5)
    adding, replacing = (
        max(side.epsilon(1e-9) for side in composed([(profiles(release, relation), 100_000)]))
        for relation in (ADD_OR_REMOVE, REPLACE_ONE)
    )
    assert 0.29595 <= replacing <= 0.2972
    assert adding <= replacing


@pytest.mark.parametrize("name", ["TRANSFORM_ERROR", "POWER_ERROR"])
def test_what_rounding_can_do_is_added(monkeypatch, name):
    release = PoissonSampledGaussian(1e-5, 0.6)
    before = composed([(profiles(release, REPLACE_ONE), 20_000)])[0].delta(0.9)
    monkeypatch.setattr(losses, name, getattr(losses, name) * 1e6)
    assert composed([(profiles(release, REPLACE_ONE), 20_000)])[0].delta(0.9) > before * 1.01


def delta_of(epsilon, *charges):
    return max(side.delta(epsilon) for side in composed([(profiles(each, REPLACE_ONE), n) for each, n in charges]))


@pytest.mark.parametrize("count, epsilon", [(100, 130.0), (100, 150.0), (400, 500.0)])
def test_a_tiny_release_beside_wide_ones_lowers_no_delta(count, epsilon):
    wide, tiny = (Laplace(0.5), count), (ExponentialMechanism(1e-5), 1)
    assert delta_of(epsilon, tiny, wide) >= delta_of(epsilon, wide) * (1 - 1e-3)


def test_a_window_that_is_cut_still_bounds_what_lies_below_it(monkeypatch):
    monkeypatch.setattr(losses, "MOST_POINTS", 2**12)
    with mp.workdps(DIGITS):
        keep = 1 / (1 + 9999 * exp(mpf(-1)))
        lies, rest = keep * exp(mpf(-1)), 1 - keep * (1 + exp(mpf(-1)))
        exact = mpf(0)
        for kept in range(20):
            for lied in range(20 - kept):
                if kept - lied > 2.5:
                    ways = mp.binomial(1000, kept) * mp.binomial(1000 - kept, lied)
                    exact += (
                        ways * keep**kept * lies**lied * rest ** (1000 - kept - lied) * (1 - exp(2.5 - kept + lied))
                    )
    for tilted_at in (2.5, 200.0):
        (composition,) = composed([(profiles(RandomizedResponse(1.0, 10_000), REPLACE_ONE), 1000)])
        assert composition._delta(2.5, composition._tilt_for(tilted_at)) >= float(exact)


@pytest.mark.parametrize("epsilon, count", [(20.3, 777), (2.232, 7), (0.1, 100)])
def test_just_below_the_largest_loss_a_delta_is_still_above_the_truth(epsilon, count):
    with mp.workdps(DIGITS):
        largest = mpf(epsilon) * count
        for at in (np.nextafter(float(largest), 0), float(largest) * (1 - 1e-15)):
            exact = (1 / (1 + exp(-mpf(epsilon)))) ** count * (1 - exp(mpf(at) - largest))
            assert delta_of(at, (RandomizedResponse(epsilon), count)) >= exact


def test_an_epsilon_for_a_delta_just_below_the_one_at_0():
    (response,) = composed([(profiles(RandomizedResponse(0.1), REPLACE_ONE), 100)])
    assert 0 <= response.epsilon(np.nextafter(response.delta(0.0), 0)) < 1e-6


@pytest.mark.parametrize("epsilon", [5e-324, 1e-310, 1.0])
def test_a_pure_mechanism_never_loses_more_than_its_epsilon(epsilon):
    for delta in (1e-300, 1e-9):
        (response,) = composed([(profiles(RandomizedResponse(epsilon), REPLACE_ONE), 1)])
        assert response.epsilon(delta) <= max(epsilon, 1e-14) * (1 + 1e-9)
