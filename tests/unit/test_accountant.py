"""Accountants: golden values, the count law, exact answers as oracles, refusals; pitfalls 5 and 6 of privacy.md."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from fate_dp.privacy.accounting import accountant as rdp_accountant
from fate_dp.privacy.accounting.accountant import UnsupportedEvent, make_accountant
from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.privacy_profiles import profiles
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    PROCESSES,
    RELATIONS,
    REPLACE_ONE,
    REPLACE_ONE_ONLY,
    Event,
    ExponentialMechanism,
    FixedSizeSampledGaussian,
    Gaussian,
    GroupedGaussian,
    InvalidEvent,
    Laplace,
    NotPrivate,
    PoissonSampledGaussian,
    PureDP,
    RandomizedResponse,
    Shuffled,
)
from fate_dp.privacy.validation import InvalidArgument

KINDS = ("pld", "rdp")
EXAMPLES = (
    RandomizedResponse(0.7),
    RandomizedResponse(1.2, 5),
    PureDP(0.4),
    ExponentialMechanism(0.9),
    Laplace(2.5),
    Gaussian(6.0),
    GroupedGaussian((1.0, 2.0), (7.0, 15.0)),
    PoissonSampledGaussian(0.05, 1.4),
    PoissonSampledGaussian(1.0, 9.0),
    FixedSizeSampledGaussian(500, 20, 2.5),
    FixedSizeSampledGaussian(20, 20, 9.0),
    Shuffled(1.0, 2000),
)


def event(process, relation=REPLACE_ONE, unit="record", slack=0.0):
    return Event(process, unit, relation, "model", slack)


def composed(kind, relation, *charges, slack=0.0):
    accountant = make_accountant(kind, relation)
    for process, count in charges:
        accountant.compose(event(process, relation, slack=slack), count)
    return accountant


def supported():
    for kind in KINDS:
        for relation in RELATIONS:
            for process in EXAMPLES:
                if relation == REPLACE_ONE or not isinstance(process, REPLACE_ONE_ONLY):
                    if make_accountant(kind, relation).reason_against(event(process, relation)) is None:
                        yield pytest.param(kind, relation, process, id=f"{kind}-{relation}-{process}")


SUPPORTED = list(supported())


def test_the_examples_hold_every_process():
    missing = set(PROCESSES) - {type(process) for process in EXAMPLES} - {NotPrivate}
    assert not missing, f"EXAMPLES of this file has none of {missing}"


@pytest.mark.parametrize(
    "kind, charge, expected, tolerance",
    [
        ("rdp", (PoissonSampledGaussian(0.04, 1.5), 2250), 7.3291, 1e-4),
        ("pld", (PoissonSampledGaussian(0.04, 1.5), 2250), 6.7688, 1e-5),
        ("rdp", (PoissonSampledGaussian(150 / 60000, 1.3), 6000), 0.7242234026, 1e-8),
        ("rdp", (Gaussian(5), 10), 2.81365325, 1e-8),
        ("pld", (Gaussian(5), 10), 2.59438338, 1e-8),
        ("pld", (GroupedGaussian((1,) * 4, (4,) * 4), 1), 1.993091404, 1e-9),
    ],
)
def test_golden_values_under_add_or_remove(kind, charge, expected, tolerance):
    assert composed(kind, ADD_OR_REMOVE, charge).epsilon(1e-5) == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("epsilon, count, expected", [(1.0, 10, 9.9997706345), (0.5, 20, 9.8594110241)])
def test_fresh_flips_in_every_epoch_cost_what_the_golden_table_says(epsilon, count, expected):
    reported = composed("pld", REPLACE_ONE, (RandomizedResponse(epsilon), count)).epsilon(1e-5)
    assert expected * (1 - 1e-10) <= reported <= expected * (1 + 1e-6)


@pytest.mark.parametrize("kind, relation, process", SUPPORTED)
def test_composing_n_times_equals_composing_n(kind, relation, process):
    at_once, one_by_one = make_accountant(kind, relation), make_accountant(kind, relation)
    at_once.compose(event(process, relation), 7)
    for _ in range(7):
        one_by_one.compose(event(process, relation))
    assert at_once.epsilon(1e-5) == one_by_one.epsilon(1e-5)
    assert at_once.delta(0.5) == one_by_one.delta(0.5)
    assert at_once.epsilon(1e-5) > 1.2 * composed(kind, relation, (process, 1)).epsilon(1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_order_does_not_matter(kind):
    exchangeable = [
        process for process in EXAMPLES if not make_accountant(kind, REPLACE_ONE).reason_against(event(process))
    ]
    charges = [(process, 1 + place) for place, process in enumerate(exchangeable)]
    forwards, backwards = (composed(kind, REPLACE_ONE, *order) for order in (charges, charges[::-1]))
    assert forwards.epsilon(1e-6) == backwards.epsilon(1e-6)


@pytest.mark.parametrize("kind, relation, process", SUPPORTED)
def test_epsilon_grows_with_the_count_and_its_delta_is_met(kind, relation, process):
    answers = [composed(kind, relation, (process, count)) for count in (1, 3, 20)]
    epsilons = [accountant.epsilon(1e-6) for accountant in answers]
    assert epsilons == sorted(epsilons) and epsilons[0] > 0 and math.isfinite(epsilons[-1])
    for accountant, epsilon in zip(answers, epsilons):
        assert accountant.delta(epsilon) <= 1e-6
        assert accountant.delta(0.99 * epsilon) > 1e-6


# Bounded range composes better order by order than as one dominating pair.
@pytest.mark.parametrize(
    "kind, relation, process",
    [case for case in SUPPORTED if case.values[0] == "rdp" and not isinstance(case.values[2], ExponentialMechanism)],
)
def test_loss_distributions_are_tighter_than_renyi(kind, relation, process):
    pld, rdp = (composed(each, relation, (process, 12)).epsilon(1e-5) for each in KINDS)
    assert pld <= rdp + 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_both_accountants_read_the_noise_multiplier_alike(kind):
    sampled, unsampled = PoissonSampledGaussian(1.0, 3.0), Gaussian(3.0)
    assert composed(kind, REPLACE_ONE, (unsampled, 5)).epsilon(1e-5) == pytest.approx(
        composed(kind, ADD_OR_REMOVE, (unsampled, 5)).epsilon(1e-5), rel=1e-12
    )
    assert composed(kind, ADD_OR_REMOVE, (sampled, 5)).epsilon(1e-5) == pytest.approx(
        composed(kind, ADD_OR_REMOVE, (unsampled, 5)).epsilon(1e-5), rel=1e-12
    )
    expected = {"pld": 6.9992, "rdp": 7.5323}[kind]
    assert composed(kind, REPLACE_ONE, (sampled, 5)).epsilon(1e-5) == pytest.approx(expected, rel=1e-4)


def exact_response_epsilon(epsilon, count, delta):
    """Epsilon of ``count`` binary randomised responses by the binomial sum, in 50 digits."""
    with mp.workdps(50):
        keep = 1 / (1 + mp.exp(-mpf(epsilon)))
        losses = [(2 * kept - count) * mpf(epsilon) for kept in range(count + 1)]
        masses = [mp.binomial(count, kept) * keep**kept * (1 - keep) ** (count - kept) for kept in range(count + 1)]
        low, high = mpf(0), count * mpf(epsilon)
        for _ in range(60):
            middle = (low + high) / 2
            reached = sum(mass * -mp.expm1(middle - loss) for mass, loss in zip(masses, losses) if loss > middle)
            low, high = (middle, high) if reached > delta else (low, middle)
        return float(high)


@pytest.mark.parametrize("epsilon, count", [(0.1, 60), (0.7, 25), (2.0, 9)])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-10, 1e-12, 1e-20])
def test_randomised_response_lies_just_above_the_exact_answer(epsilon, count, delta):
    exact = exact_response_epsilon(epsilon, count, delta)
    reported = composed("pld", REPLACE_ONE, (RandomizedResponse(epsilon), count)).epsilon(delta)
    assert exact * (1 - 1e-12) <= reported <= exact * 1.002


@pytest.mark.parametrize("noise, count", [(20.0, 100), (200.0, 10_000), (1.0, 3)])
@pytest.mark.parametrize("delta, excess", [(1e-5, 1e-4), (1e-10, 1e-4), (1e-18, 1e-4)])
@pytest.mark.parametrize("relation, clips", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_the_grid_lies_above_the_exact_gaussian(noise, count, delta, excess, relation, clips):
    almost_unsampled = PoissonSampledGaussian(1 - 1e-13, noise)
    exact = gaussian_epsilon(noise / math.sqrt(count), delta, clips)
    reported = composed("pld", relation, (almost_unsampled, count)).epsilon(delta)
    assert exact <= reported <= exact * (1 + excess)


@pytest.mark.parametrize("process", [Laplace(2.5), RandomizedResponse(1.2, 5), PoissonSampledGaussian(0.05, 1.4)])
def test_dp_accounting_agrees_where_it_is_right(process):
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.privacy_accountant import NeighboringRelation

    made = {
        Laplace: lambda: library.from_laplace_mechanism(2.5),
        RandomizedResponse: lambda: library.from_randomized_response(5 / (math.exp(1.2) + 4), 5),
        PoissonSampledGaussian: lambda: library.from_gaussian_mechanism(
            1.4, sampling_prob=0.05, neighboring_relation=NeighboringRelation.REPLACE_ONE
        ),
    }
    expected = made[type(process)]().self_compose(10).get_epsilon_for_delta(1e-6)
    assert composed("pld", REPLACE_ONE, (process, 10)).epsilon(1e-6) == pytest.approx(expected, rel=3e-4)


def hockey_stick(means, rate, exponent, points):
    """[P - e^exponent Q]+ summed on a grid in the plane, P and Q mixtures of N(stand-in), N(own) and N(other)."""
    stand_in, own, other = (
        np.exp(-((points[0] - mean[0]) ** 2 + (points[1] - mean[1]) ** 2) / 2) / (2 * math.pi) for mean in means
    )
    upper, lower = (1 - rate) * stand_in + rate * own, (1 - rate) * stand_in + rate * other
    cell = (points[0][1, 0] - points[0][0, 0]) ** 2
    return float(np.maximum(upper - math.exp(exponent) * lower, 0).sum() * cell)


@settings(max_examples=25, deadline=None)
@given(
    rate=st.floats(0.05, 0.95),
    exponent=st.floats(-1.5, 1.5),
    noise=st.floats(0.6, 3.0),
    places=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 2 * math.pi)), min_size=3, max_size=3),
)
def test_no_records_in_the_plane_are_told_apart_better_than_the_dominating_pair(rate, exponent, noise, places):
    axis = np.linspace(-9, 9, 241)
    points = np.meshgrid(axis, axis, indexing="ij")
    means = [(r * math.cos(angle) / noise, r * math.sin(angle) / noise) for r, angle in places]
    (poisson,) = profiles(PoissonSampledGaussian(rate, noise), REPLACE_ONE)
    apart = hockey_stick([(0.0, 0.0), *means[1:]], rate, exponent, points)
    assert apart <= float(poisson.delta(np.array([exponent]))[0]) + 2e-4
    (fixed,) = profiles(FixedSizeSampledGaussian(10_000, round(10_000 * rate), noise), REPLACE_ONE)
    apart = hockey_stick(means, round(10_000 * rate) / 10_000, exponent, points)
    assert apart <= float(fixed.delta(np.array([exponent]))[0]) + 2e-4


def test_the_dominating_pair_is_attained_by_opposite_records():
    axis = np.linspace(-9, 9, 1201)
    points = np.meshgrid(axis, axis, indexing="ij")
    (profile,) = profiles(PoissonSampledGaussian(0.3, 1.0), REPLACE_ONE)
    attained = hockey_stick([(0, 0), (-1, 0), (1, 0)], 0.3, 0.2, points)
    assert attained == pytest.approx(float(profile.delta(np.array([0.2]))[0]), abs=1e-5)


def mirrored(profile, exponents):
    """Profile of (Q, P) where ``profile`` is that of (P, Q)."""
    return np.exp(exponents) * profile.delta(-exponents) - np.expm1(exponents)


def test_adding_is_the_mirror_image_of_removing_and_replacing_is_its_own():
    exponents = np.linspace(-1.2, 1.2, 25)
    removed, added = profiles(PoissonSampledGaussian(0.3, 1.5), ADD_OR_REMOVE)
    assert np.allclose(added.delta(exponents), mirrored(removed, exponents), rtol=0, atol=1e-14)
    assert np.abs(added.delta(exponents) - removed.delta(exponents)).max() > 1e-2
    for process in (PoissonSampledGaussian(0.3, 1.5), FixedSizeSampledGaussian(10, 3, 1.5)):
        (profile,) = profiles(process, REPLACE_ONE)
        assert np.allclose(profile.delta(exponents), mirrored(profile, exponents), rtol=0, atol=1e-14)


@pytest.mark.parametrize("noise", [0.7, 3.0, 40.0])
def test_renyi_replaces_no_cheaper_than_the_gaussian_that_hardly_samples(noise):
    process = PoissonSampledGaussian(1 - 1e-12, noise)
    bound = rdp_accountant.DIVERGENCES[PoissonSampledGaussian](process, REPLACE_ONE)
    exact = rdp_accountant.ORDERS * (2 / noise) ** 2 / 2
    assert np.all(bound >= exact * (1 - 1e-9))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_renyi_holds_for_every_loss_of_bounded_range_and_is_nearly_attained(epsilon):
    orders = rdp_accountant.ORDERS
    bound = rdp_accountant.DIVERGENCES[ExponentialMechanism](ExponentialMechanism(epsilon), REPLACE_ONE)
    attained = np.zeros(len(orders))
    for top in np.linspace(0, epsilon, 101)[1:-1]:
        share = (math.exp(epsilon) - math.exp(top)) / math.expm1(epsilon)
        upper = math.log(share) + (orders - 1) * top
        lower = math.log1p(-share) + (orders - 1) * (top - epsilon)
        attained = np.maximum(attained, np.logaddexp(upper, lower) / (orders - 1))
    assert np.all(attained <= bound * (1 + 1e-9))
    assert attained[0] >= 0.6 * bound[0]


def test_two_coordinates_of_laplace_noise_hide_more_than_one():
    axis = np.linspace(-30, 30, 1201)
    y1, y2 = np.meshgrid(axis, axis, indexing="ij")
    density = np.exp(-np.abs(y1) - np.abs(y2)) / 4
    moved = np.exp(-np.abs(y1 - 0.5) - np.abs(y2 - 0.5)) / 4
    (profile,) = profiles(Laplace(1.0), REPLACE_ONE)
    for exponent in (0.0, 0.3, 0.9):
        apart = np.maximum(density - math.exp(exponent) * moved, 0).sum() * (axis[1] - axis[0]) ** 2
        assert apart < float(profile.delta(np.array([exponent]))[0])


def apart(upper, lower, exponent):
    return float(np.maximum(upper - math.exp(exponent) * lower, 0).sum())


@settings(max_examples=50, deadline=None)
@given(
    epsilon=st.floats(0.05, 6),
    exponent=st.floats(-7, 7),
    scores=st.lists(st.tuples(st.floats(0, 3), st.floats(-1, 1)), min_size=2, max_size=6),
)
def test_no_scores_are_told_apart_better_than_bounded_range_allows(epsilon, exponent, scores):
    scores, changes = np.array(scores).T
    upper, lower = (np.exp(epsilon * each / 2) for each in (scores, scores + changes))
    (profile,) = profiles(ExponentialMechanism(epsilon), REPLACE_ONE)
    bound = float(profile.delta(np.array([exponent]))[0])
    assert apart(upper / upper.sum(), lower / lower.sum(), exponent) <= bound + 1e-12


@pytest.mark.parametrize("exponent", [-2.0, -1.0, -0.3, 0.0, 0.4, 1.0, 1.5])
def test_profiles_of_pure_mechanisms_are_exact(exponent):
    other = 1 / (math.exp(1.2) + 4)
    keep = math.exp(1.2) * other
    upper, lower = np.array([keep, other, other, other, other]), np.array([other, keep, other, other, other])
    (response,) = profiles(RandomizedResponse(1.2, 5), REPLACE_ONE)
    assert float(response.delta(np.array([exponent]))[0]) == pytest.approx(apart(upper, lower, exponent), abs=1e-14)
    # At given t the loss is t or t - epsilon; the profile is the largest over t.
    ends = np.linspace(0, 1.2, 1201)
    shares = (math.exp(1.2) - np.exp(ends)) / math.expm1(1.2)
    values = np.maximum(1 - np.exp(exponent - ends), 0) * shares
    values += np.maximum(1 - np.exp(exponent - ends + 1.2), 0) * (1 - shares)
    (bounded,) = profiles(ExponentialMechanism(1.2), REPLACE_ONE)
    assert float(bounded.delta(np.array([exponent]))[0]) == pytest.approx(values.max(), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_slack_adds_what_the_event_says(kind):
    process, slack = PoissonSampledGaussian(0.05, 1.4), 1e-9
    plain = composed(kind, ADD_OR_REMOVE, (process, 50))
    sloppy = composed(kind, ADD_OR_REMOVE, (process, 50), slack=slack)
    for epsilon in (0.5, 2.0):
        extra = 50 * slack * (1 + math.exp(epsilon))
        assert sloppy.delta(epsilon) == pytest.approx(plain.delta(epsilon) + extra, rel=1e-9)
    assert sloppy.epsilon(1e-6) > plain.epsilon(1e-6)
    assert sloppy.delta(sloppy.epsilon(1e-6)) <= 1e-6
    assert sloppy.epsilon(1e-6) < composed(kind, ADD_OR_REMOVE, (process, 50), slack=5e-9).epsilon(1e-6)
    assert sloppy.epsilon(1e-7) == math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_slack_of_equal_and_of_different_releases_adds_up(kind):
    process, relation = Gaussian(5.0), ADD_OR_REMOVE
    one_by_one, plain = make_accountant(kind, relation), composed(kind, relation, (process, 4))
    for slack in (1e-9, 3e-9, 1e-9, 1e-9):
        one_by_one.compose(event(process, relation, slack=slack))
    extra = 6e-9 * (1 + math.exp(2.0))
    assert one_by_one.delta(2.0) - plain.delta(2.0) == pytest.approx(extra, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_costs_nothing_and_no_privacy_costs_everything(kind):
    accountant = make_accountant(kind, ADD_OR_REMOVE)
    assert accountant.epsilon(1e-5) == 0.0 and accountant.delta(0.0) == 0.0
    accountant.compose(event(Gaussian(2.0), ADD_OR_REMOVE))
    accountant.compose(event(NotPrivate("noise from a test stream"), ADD_OR_REMOVE))
    assert accountant.epsilon(1e-5) == math.inf and accountant.delta(50.0) == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("process", [PureDP(1e9), Laplace(1e-200), PoissonSampledGaussian(0.5, 1e-200)])
def test_losses_too_wide_for_floats_give_no_small_number(kind, process):
    assert composed(kind, ADD_OR_REMOVE, (process, 2)).epsilon(1e-5) >= 1e9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("process", [PureDP(1e-12), ExponentialMechanism(1e-9), Gaussian(1e200), Laplace(1e9)])
def test_next_to_nothing_costs_next_to_nothing(kind, process):
    assert composed(kind, ADD_OR_REMOVE, (process, 1)).epsilon(1e-5) < 1e-6


TINY = (
    PureDP(1e-300),
    ExponentialMechanism(1e-300),
    Laplace(1e300),
    PoissonSampledGaussian(1e-300, 1e3),
    PoissonSampledGaussian(1e-8, 1e9),
    PoissonSampledGaussian(1e-12, 1e3),
    FixedSizeSampledGaussian(10**12, 1, 1e9),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind, ceiling", [("pld", 1e-7), ("rdp", 0.011)])
@pytest.mark.parametrize("process", TINY)
def test_losses_lost_in_the_rounding_of_one_cost_next_to_nothing_however_often(kind, ceiling, process):
    accountant = composed(kind, REPLACE_ONE, (process, 10**5))
    assert accountant.epsilon(1e-5) <= ceiling and 0 < accountant.delta(0.0) < 1e-4
    if not isinstance(process, REPLACE_ONE_ONLY):
        assert composed(kind, ADD_OR_REMOVE, (process, 10**5)).epsilon(1e-5) <= ceiling


@pytest.mark.parametrize("kind, relation, process", SUPPORTED)
def test_delta_never_grows_with_epsilon(kind, relation, process):
    accountant = composed(kind, relation, (process, 1000))
    deltas = [accountant.delta(epsilon) for epsilon in (0, 1e-9, 1, 20, 50, 1e3, 1e4)]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in zip(deltas, deltas[1:]))


@pytest.mark.parametrize("kind", KINDS)
def test_many_tiny_steps_stay_near_their_limit(kind):
    epsilon = composed(kind, ADD_OR_REMOVE, (PoissonSampledGaussian(1e-5, 1.0), 10**6)).epsilon(1e-5)
    # The central limit theorem of Gaussian differential privacy: mu = q sqrt(T (e^(1/sigma^2) - 1)).
    limit = gaussian_epsilon(1 / (1e-5 * math.sqrt(1e6 * math.expm1(1))), 1e-5)
    assert limit < epsilon < (1.5 * limit if kind == "pld" else 0.5)


def test_a_mechanism_without_a_bound_is_refused_by_name(monkeypatch):
    # Every process of today has a bound in both; this is what a new one meets until somebody proves its bound.
    monkeypatch.delitem(rdp_accountant.DIVERGENCES, PoissonSampledGaussian)
    rdp = make_accountant("rdp", REPLACE_ONE)
    with pytest.raises(UnsupportedEvent) as refused:
        rdp.compose(event(PoissonSampledGaussian(0.1, 2.0)))
    assert str(refused.value) == "The rdp accountant knows no bound for PoissonSampledGaussian under replace_one."
    assert rdp.reason_against(event(PoissonSampledGaussian(0.1, 2.0))) and not rdp.reason_against(
        event(NotPrivate("seed"))
    )
    assert rdp.epsilon(1e-5) == 0


def test_refusals_name_what_is_wrong_and_change_nothing():
    rdp = make_accountant("rdp", REPLACE_ONE)
    rdp.compose(event(Gaussian(3.0)))
    before = rdp.epsilon(1e-5)
    with pytest.raises(InvalidArgument) as refused:
        rdp.compose(event(Gaussian(3.0), ADD_OR_REMOVE))
    assert str(refused.value) == (
        "The event holds under add_or_remove but the accountant adds up events under replace_one."
    )
    with pytest.raises(InvalidArgument) as refused:
        rdp.compose(event(Gaussian(3.0), unit="client"))
    assert str(refused.value) == "The event protects one client but the events before it protect one record."
    for count in (0, -1, 1.5, True, "2"):
        with pytest.raises(InvalidArgument) as refused:
            rdp.compose(event(Gaussian(3.0)), count)
        assert str(refused.value) == f"count must be a whole number of at least 1, got {count!r}."
    assert rdp.epsilon(1e-5) == before


def test_unknown_names_and_values_are_refused():
    with pytest.raises(InvalidArgument, match="^accountant must be one of pld, rdp, got 'prv'.$"):
        make_accountant("prv", REPLACE_ONE)
    with pytest.raises(InvalidEvent, match="^relation must be one of add_or_remove, replace_one, got 'replace'.$"):
        make_accountant("pld", "replace")
    for delta in (0, 1, -1e-5, math.nan, True):
        with pytest.raises(InvalidArgument):
            make_accountant("pld", REPLACE_ONE).epsilon(delta)
