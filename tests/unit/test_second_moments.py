"""Second moments: no replaced record moves them further than they say, and noise follows what they say."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Gaussian, InvalidEvent, NotPrivate
from fate_dp.privacy.mechanisms import second_moments
from fate_dp.privacy.mechanisms import second_moments as bounded_rows
from fate_dp.privacy.mechanisms.second_moments import (
    RowBounds,
    SecondMoments,
    clip_rows,
    clip_target,
    noise_multiplier_for,
    typical_radius,
    unit_scales,
)
from fate_dp.privacy.noise.discrete import _DiscreteGaussian
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

GUEST, HOST = RowBounds(10, math.sqrt(10), intercept=True, target=2.0), RowBounds(20, math.sqrt(20))
WIDE = 1e3


def rows_of(bounds, features, target, scales=None, fraction_bits=24):
    """All columns of a party's rows as Python integers."""
    scales = unit_scales(bounds) if scales is None else scales
    columns = [clip_rows(features, scales, bounds, fraction_bits)]
    if bounds.intercept:
        columns.append(np.full((len(features), 1), 2**24))
    if bounds.target:
        columns.append(clip_target(target, bounds, fraction_bits)[:, None])
    return np.hstack(columns).astype(object)


def moved_square(own, replaced, others):
    """Exact squared change of the moments, in units of 2^-96: Gram matrix, off-diagonal twice, and cross blocks."""
    change = replaced.T @ replaced - own.T @ own
    crossed = [(replaced - own).T @ other for other in others]
    return sum(int((block**2).sum()) for block in [change, *crossed])


def exceeds(own_bounds, other_bounds, own, replaced, others):
    moments = SecondMoments((own_bounds, *other_bounds), (0.0,) * (1 + len(other_bounds)))
    return moved_square(own, replaced, others) > Fraction(moments.sensitivity(0)) ** 2 * 2**96


values = st.one_of(st.floats(-4, 4), st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, 1e300]))


@st.composite
def parties(draw):
    radius, target = draw(st.floats(1 / 16, 16)), draw(st.sampled_from([0.0, 0.5, 2.0]))
    bounds = RowBounds(draw(st.integers(1, 3)), radius, draw(st.booleans()), target)
    row = st.lists(values, min_size=bounds.features, max_size=bounds.features)
    rows = [(np.array([draw(row)]), np.array([draw(values)])) for _ in range(2)]
    scales = np.array(draw(st.lists(st.floats(1e-3, 1e3), min_size=bounds.features, max_size=bounds.features)))
    return bounds, rows, scales


@settings(max_examples=60)
@given(parties(), st.lists(parties(), min_size=1, max_size=2), st.integers(12, 24))
def test_no_replaced_record_moves_the_moments_further_than_the_sensitivity(own, others, fraction_bits):
    bounds, rows, scales = own
    first, second = (rows_of(bounds, *row, scales, fraction_bits) for row in rows)
    crossed = [rows_of(other, *other_rows[0], unit_scales(other)) for other, other_rows, _ in others]
    assert not exceeds(bounds, [other for other, _, _ in others], first, second, crossed)


def worst_rows(radius, other_radius, factor=1.0):
    """Bounds and rows of two parties that reach the sensitivity: cos of the angle is -Q / (2 r^2), or -1."""
    own, other = RowBounds(2, radius), RowBounds(1, other_radius)
    cosine = max(-1.0, -(other_radius**2) / (2 * radius**2))
    ends = np.array([[1.0, 0.0]]), np.array([[cosine, math.sqrt(1 - cosine**2)]])
    first, second = (rows_of(own, factor * radius * end, None) for end in ends)
    return own, [other], first, second, [rows_of(other, np.array([[factor * other_radius]]), None)]


@settings(max_examples=30)
@given(st.floats(1 / 16, 16), st.floats(1 / 16, 16))
@example(1.0, 1.0)
@example(1.0, math.sqrt(2))
@example(1.0, 2.0)
def test_two_rows_reach_the_sensitivity(radius, other_radius):
    case = worst_rows(radius, other_radius, factor=WIDE)
    assert not exceeds(*case)
    sensitivity = SecondMoments((case[0], *case[1]), (0.0, 0.0)).sensitivity(0)
    assert math.sqrt(moved_square(*case[2:])) * 2.0**-48 > sensitivity * (1 - 1e-4)


def test_with_an_intercept_and_a_target_two_rows_reach_it_too():
    own, other = RowBounds(2, 2.0, intercept=True, target=2.0), RowBounds(1, 2.0)
    # r^2 = 8 and Q = 4 + 2: cos of the angle between both rows, targets included, is -Q / (2 r^2) = -3 / 8.
    first = rows_of(own, np.array([[2.0, 0.0]]), np.array([2.0]))
    second = rows_of(own, np.array([[0.5, math.sqrt(3.75)]]), np.array([-2.0]))
    crossed = [rows_of(other, np.array([[2.0]]), None)]
    assert not exceeds(own, [other], first, second, crossed)
    assert math.isclose(math.sqrt(moved_square(first, second, crossed)) * 2.0**-48, 22 / math.sqrt(2), rel_tol=1e-6)


def clip_off(patch):
    patch.setattr(bounded_rows, "_shortened", lambda rows, radius: rows)


def own_block_only(patch):
    patch.setattr(second_moments, "replace_one_sensitivity", lambda own, others: math.sqrt(2) * own)


def cross_blocks_only(patch):
    patch.setattr(second_moments, "replace_one_sensitivity", lambda own, others: 2 * math.sqrt(own * others))


@pytest.mark.parametrize("mutate", [clip_off, own_block_only, cross_blocks_only])
def test_mutants_of_clip_and_sensitivity_are_caught(mutate, monkeypatch):
    mutate(monkeypatch)
    assert exceeds(*worst_rows(1.0, 1.0, factor=WIDE))


def test_sensitivities_by_hand():
    moments = SecondMoments((GUEST, HOST), (1.0, 1.0))
    # r^2 = 10 + 2^2 and Q = 20 + 2 at the guest; r^2 = 20 and Q = 10 + 4 + 1 at the host: (2 r^2 + Q) / sqrt(2).
    assert math.isclose(moments.sensitivity(0), 50 / math.sqrt(2), rel_tol=1e-12)
    assert math.isclose(moments.sensitivity(1), 55 / math.sqrt(2), rel_tol=1e-12)
    equal = SecondMoments((RowBounds(4, 2.0), RowBounds(4, 2.0)), (1.0, 1.0))
    assert math.isclose(equal.sensitivity(0), 6 * math.sqrt(2), rel_tol=1e-12)
    # Q = 3 * 4 > 2 r^2 = 8: 2 r sqrt(Q).
    many = SecondMoments((RowBounds(4, 2.0),) * 4, (1.0,) * 4)
    assert math.isclose(many.sensitivity(3), 4 * math.sqrt(12), rel_tol=1e-12)


@settings(max_examples=40)
@given(st.floats(1 / 16, 16), st.lists(st.floats(1 / 16, 16), min_size=1, max_size=4))
def test_never_above_the_sum_of_the_blocks_largest_changes(radius, others):
    """R sqrt(2 R^2 + 4 Q), each block at its own worst, is a bound, too, and a looser one."""
    moments = SecondMoments([RowBounds(1, bound) for bound in (radius, *others)], [0.0] * (1 + len(others)))
    squares = sum(bound**2 for bound in others)
    loose = radius * math.sqrt(2 * radius**2 + 4 * squares)
    assert moments.sensitivity(0) <= loose * (1 + 1e-12)


def test_noise_multiplier_and_sigma_by_hand():
    # goldens.md: sigma(1, 1e-5) of sensitivity 1.
    assert math.isclose(noise_multiplier_for(1.0, 1e-5), 3.73063163481594, rel_tol=1e-6)
    moments = SecondMoments((GUEST, HOST), (3.73063163481594, 0.0))
    assert math.isclose(moments.sigma(0), 131.897747, rel_tol=1e-6) and moments.sigma(1) == 0.0


@pytest.mark.parametrize("epsilon, delta", [(0.01, 1e-10), (1.0, 1e-5), (20.0, 1e-10), (4.0, 0.01)])
def test_the_event_costs_no_more_than_its_target(epsilon, delta):
    moments = SecondMoments((GUEST, HOST), (noise_multiplier_for(epsilon, delta), 0.0))
    slack_cost = (1 + math.exp(epsilon)) * moments.slack(0)
    assert gaussian_epsilon(moments.noise_multipliers[0], delta - slack_cost) <= epsilon


def test_the_accountant_agrees_with_the_target():
    moments = SecondMoments((GUEST, HOST), (noise_multiplier_for(1.0, 1e-5), 0.0))
    event = moments.draw(0, ["host", "model"]).event
    assert event.process == Gaussian(moments.noise_multipliers[0]) and event.observers == ("host", "model")
    assert (event.unit, event.relation) == ("record", REPLACE_ONE) and 0 < event.slack < 1e-25
    assert 0.999 < total_epsilon([(event, 1)], 1e-5) <= 1.0


def test_noise_has_the_layout_of_the_moments():
    moments = SecondMoments((GUEST, HOST, RowBounds(3, 1.0)), (1.0, 1.0, 0.0))
    guest, host, silent = (moments.draw(party, "model") for party in range(3))
    assert guest.gram.shape == (12, 12) and host.gram.shape == (20, 20)
    assert {other: block.shape for other, block in guest.cross.items()} == {1: (12, 20), 2: (12, 3)}
    assert {other: block.shape for other, block in host.cross.items()} == {0: (20, 12), 2: (20, 3)}
    assert np.array_equal(guest.gram, guest.gram.T) and isinstance(guest.gram[0, 0], int)
    # The intercept is the guest's eleventh column, and n is public; sums over the features are not.
    assert guest.gram[10, 10] == 0 and not guest.cross[1][10].any()
    assert all((guest.gram != 0).sum(axis=0) == [*[12] * 10, 11, 12]) and (host.cross[0] != 0).all()
    assert silent.event is None and not silent.gram.any() and not silent.cross[0].any()


@pytest.mark.parametrize("multiplier", [1e-3, 1.0, 300.0, 1e5])
def test_statistics_lie_on_the_grid_of_the_noise(multiplier):
    """Else the low bits of the statistics would be released as they are."""
    moments = SecondMoments((GUEST, HOST), (multiplier, 1e-3))
    step = 4 ** (24 - moments.fraction_bits)
    rows = rows_of(HOST, np.random.default_rng(1).normal(size=(5, 20)), None, fraction_bits=moments.fraction_bits)
    assert not ((rows.T @ rows) % step).any()
    noise = moments.draw(0, "model").cross[1]
    assert not (noise % step).any() and (noise // step % 2).any()
    assert moments.sigma(0) * 4.0**moments.fraction_bits <= 2.0**50
    assert moments.fraction_bits == 24 or moments.sigma(0) * 4.0**moments.fraction_bits > 2.0**48


def test_repeatable_noise_is_not_private_and_real_noise_never_repeats():
    moments = SecondMoments((GUEST, HOST), (1.0, 1.0))
    again = [moments.draw(0, "host", ReproducibleStream(3)) for _ in range(2)]
    assert np.array_equal(again[0].gram, again[1].gram) and isinstance(again[0].event.process, NotPrivate)
    first, second = (moments.draw(0, "host") for _ in range(2))
    assert first.event == second.event and not (first.cross[1] == second.cross[1])[:10].any()
    assert len(set(first.cross[1][:10].ravel()) | set(np.triu(first.gram, 1).ravel())) > 200
    assert str(first.gram[0, 1]) not in repr(first)


def test_no_sample_exceeds_the_stated_largest_noise():
    for scale in (2.0**20, 1.99 * 2.0**20, 2.0**50):
        law = _DiscreteGaussian(scale)
        assert law.table.values * 2**law.step_bits < second_moments.MAX_IN_SCALES * scale
    moments = SecondMoments((GUEST, HOST), (2.0, 1.0))
    assert math.isclose(moments.largest_noise(0), 15 * moments.sigma(0))


def noisy_hessian(rows, moments, generator):
    """H with continuous noise of the stated scales; rows without the target."""
    size = rows.shape[1]
    owner = np.repeat(range(len(moments.bounds)), [bound.weights for bound in moments.bounds])
    noise = np.zeros((size, size))
    for party in range(len(moments.bounds)):
        own = moments.sigma(party) * generator.normal(size=(size, size))
        mine = owner == party
        noise += np.where(mine[:, None] & mine, np.triu(own / math.sqrt(2), 1), 0) + np.diag(np.diag(own) * mine)
        noise += np.where((mine[:, None] != mine), np.triu(own, 1), 0)
    return (rows.T @ rows + np.triu(noise) + np.triu(noise, 1).T) / (4 * len(rows))


def test_the_required_ridge_makes_the_noisy_hessian_positive_definite():
    moments = SecondMoments((GUEST, HOST), (1.0, 1.0))
    ridge, generator = moments.required_ridge(500, 4), np.random.default_rng(2)
    empty = np.zeros((500, 31))
    lowest = [np.linalg.eigvalsh(noisy_hessian(empty, moments, generator))[0] for _ in range(40)]
    assert min(lowest) > -ridge
    # Not idle: a third of it would not do.
    assert sorted(lowest)[20] < -ridge / 3


def test_required_ridge_by_hand():
    sigmas = 50 / math.sqrt(2), 55 / math.sqrt(2)
    expected = 2 * math.hypot(*sigmas) * (math.sqrt(31) + math.sqrt(math.log(1000))) / (4 * 500)
    ridge = SecondMoments((GUEST, HOST), (1.0, 1.0)).required_ridge(500, 4)
    assert math.isclose(ridge, expected, rel_tol=1e-9)
    assert ridge > 2 * max(sigmas) * math.sqrt(31) / (4 * 500)
    assert SecondMoments((GUEST, HOST), (0.0, 0.0)).required_ridge(500, 4) == 0.0
    assert SecondMoments((GUEST, HOST), (0.0, 0.0)).largest_curvature(4) == pytest.approx(31 / 4)


def test_rows_are_scaled_clipped_and_rounded_towards_zero():
    bounds = RowBounds(2, 1.0)
    given_rows = [[0.5, -0.25], [6.0, 16.0], [math.nan, 1.0], [math.inf, 0.0], [2.0**-24, -1e-9]]
    rows = clip_rows(given_rows, [1.0, 2.0], bounds)
    fifth = 2**24 // 5
    assert rows.tolist() == [[2**23, -(2**21)], [3 * fifth, 4 * fifth], [0, 0], [0, 0], [1, 0]]
    assert clip_rows([[2.0**-13 + 2.0**-24]] * 2, [1.0], RowBounds(1, 1.0), 13).tolist() == [[2**11]] * 2
    assert clip_rows(np.empty((0, 2)), [1.0, 1.0], bounds).shape == (0, 2)
    whole = clip_target([0.7, -9.0, math.nan, math.inf], RowBounds(1, 1.0, target=0.5))
    assert whole.tolist() == [2**23, -(2**23), 0, 0]


def test_bounds_count_their_columns():
    assert (GUEST.weights, GUEST.columns, HOST.columns) == (11, 12, 20)
    assert GUEST.moving.tolist() == [*range(10), 11] and HOST.moving.tolist() == list(range(20))
    assert typical_radius(9) == 3.0 and typical_radius(1000) == 16.0


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"features": 0}, "features must be a whole number from 1 to 1048576, got 0."),
        (
            {"radius": 0.0},
            "radius must be from 0.0625 to 16, where larger units of the features make rows shorter, got 0.0.",
        ),
        ({"radius": math.nan}, "radius must be from 0.0625 to 16, where"),
        ({"radius": 17.0}, "radius must be from 0.0625 to 16, where"),
        ({"intercept": 1}, "intercept must be True or False, got 1."),
        ({"target": -1.0}, "target must be from 0 to 16, got -1.0."),
    ],
)
def test_bounds_outside_their_range_are_refused(settings, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        RowBounds(**{"features": 2, "radius": 1.0, **settings})
    assert str(refusal.value).startswith(sentence)


def test_other_refusals():
    with pytest.raises(
        InvalidArgument, match="^features must be real numbers in 2 columns, got shape \\(1, 3\\) and type float64.$"
    ):
        clip_rows(np.zeros((1, 3)), np.ones(2), RowBounds(2, 1.0))
    with pytest.raises(InvalidArgument, match="^scales must be 2 finite numbers greater than 0"):
        clip_rows(np.zeros((1, 2)), [1.0, 0.0], RowBounds(2, 1.0))
    with pytest.raises(InvalidArgument, match="no target for this party"):
        clip_target([1.0], RowBounds(2, 1.0))
    with pytest.raises(InvalidArgument, match="^targets must be one number per row, got shape \\(1, 1\\)"):
        clip_target([[1.0]], RowBounds(2, 1.0, target=1.0))
    with pytest.raises(InvalidArgument, match="at least two parties"):
        SecondMoments((GUEST,), (1.0,))
    with pytest.raises(InvalidArgument, match="^number of noise_multipliers must be 2, one per party, got 1.$"):
        SecondMoments((GUEST, HOST), (1.0,))
    for bad in (-1.0, math.nan, math.inf, 1e-4, "1"):
        with pytest.raises(InvalidArgument, match="each 0 or at least 0.001"):
            SecondMoments((GUEST, HOST), (1.0, bad))
    with pytest.raises(InvalidArgument, match="Raise epsilon or lower the radius"):
        SecondMoments((GUEST, HOST), (1e8, 1.0))
    moments = SecondMoments((GUEST, HOST), (1.0, 1.0))
    with pytest.raises(
        InvalidEvent, match="^relation must be replace_one for moments of a public count, got 'add_or_remove'"
    ):
        moments.sensitivity(0, ADD_OR_REMOVE)
    for party in (2, -1, True, "guest"):
        with pytest.raises(InvalidArgument, match="must be a position from 0 to 1, got"):
            moments.draw(party, "host")
    with pytest.raises(InvalidEvent):
        moments.draw(0, "nobody")
