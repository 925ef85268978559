"""The dummy count: its law, exact delta by the hockey-stick divergence, the event's charge, the smallest pool."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fate_dp.privacy.accounting.total import total_delta, total_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, NotPrivate, PureDP
from fate_dp.privacy.mechanisms import dummy_count
from fate_dp.privacy.mechanisms.dummy_count import (
    charged_delta,
    check_pool,
    draw_dummy_count,
    dummy_count_event,
    exact_delta,
    pool_size,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

epsilons = st.floats(0.05, 8)
halves = st.integers(1, 60)


def law(epsilon, pool):
    weights = np.exp(-epsilon * np.abs(np.arange(pool + 1) - pool // 2))
    return weights / weights.sum()


def hockey_stick(epsilon, pool, moved=1):
    """max over both directions of sum max(0, P - e^epsilon Q), the laws of m + d and of m + moved + d."""
    own, shifted = np.pad(law(epsilon, pool), (0, moved)), np.pad(law(epsilon, pool), (moved, 0))
    # Equal odds that rounding has pulled apart are not a loss.
    excess = [np.maximum(0, p - math.exp(epsilon) * q * (1 + 1e-12)) for p, q in ((own, shifted), (shifted, own))]
    return max(part.sum() for part in excess)


@given(epsilons, halves)
def test_exact_delta_is_the_hockey_stick_divergence(epsilon, half):
    assert exact_delta(epsilon, 2 * half) == pytest.approx(hockey_stick(epsilon, 2 * half), rel=1e-6)


@given(epsilons, halves)
def test_what_is_charged_covers_the_exact_delta_and_is_not_far_above(epsilon, half):
    ratio, exact = math.exp(-epsilon), exact_delta(epsilon, 2 * half)
    charged, of_sampler = charged_delta(epsilon, 2 * half), 2.0**-110
    assert exact <= charged <= min(1.0, 2 * ratio**half) * (1 + 1e-9) + of_sampler
    assert charged <= exact * 2 * (1 + ratio) / (1 - ratio) * (1 + 1e-9) + of_sampler


@given(epsilons, halves)
def test_slack_is_the_total_variation_of_cutting_off(epsilon, half):
    wide = law(epsilon, 2 * (half + math.ceil(60 / epsilon)))
    inside = np.pad(law(epsilon, 2 * half), (len(wide) - 2 * half - 1) // 2)
    event = dummy_count_event(epsilon, 2 * half, relation=REPLACE_ONE, observers="host")
    assert event.slack == pytest.approx(np.abs(wide - inside).sum() / 2, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE, REPLACE_ONE])
def test_an_accountant_charges_the_event_as_stated(relation):
    event = dummy_count_event(1.0, 30, relation=relation, observers="guest")
    assert event.process == PureDP(1.0) and event.unit == "record" and event.observers == ("guest",)
    assert total_delta([(event, 1)], 1.0) <= charged_delta(1.0, 30)
    assert total_epsilon([(event, 1)], 1e-6) <= 1.0
    assert total_epsilon([(event, 1)], 1e-8) > 1.0


@given(epsilons, st.floats(1e-12, 0.3))
def test_the_pool_is_the_smallest_that_keeps_delta(epsilon, delta):
    pool = pool_size(epsilon, delta)
    assert charged_delta(epsilon, pool) <= delta
    assert pool == 2 or charged_delta(epsilon, pool - 2) > delta


def test_a_pool_by_hand():
    # ln(2 / 1e-6) = 14.5, so 15 on either side.
    assert pool_size(1.0, 1e-6) == 30


def p_value(epsilon, pool, of_epsilon, draws=20_000):
    stream = ReproducibleStream(f"{epsilon} {of_epsilon}".encode())
    counts = Counter(draw_dummy_count(epsilon, pool, stream) for _ in range(draws))
    observed = np.array([counts[value] for value in range(pool + 1)])
    assert observed.sum() == draws
    return stats.chisquare(observed, law(of_epsilon, pool) * draws).pvalue


@pytest.fixture
def quick(monkeypatch):
    """One call of the sampler for many draws: a call by itself costs more than its sample."""
    waiting, drawn = {}, dummy_count.discrete_laplace

    def one(scale, size, rng):
        if not waiting.get(scale):
            waiting[scale] = drawn(scale, 40_000, rng).tolist()
        return [waiting[scale].pop()]

    monkeypatch.setattr(dummy_count, "discrete_laplace", one)


def test_draws_follow_the_law_and_no_other_scale(quick):
    assert p_value(0.6, 6, of_epsilon=0.6) > 1e-4
    assert p_value(0.6 * 2 / 3, 6, of_epsilon=0.6) < 1e-6
    assert p_value(0.6 * 3 / 2, 6, of_epsilon=0.6) < 1e-6


def test_draws_stay_within_the_pool_and_reach_its_ends():
    stream = ReproducibleStream(7)
    assert {draw_dummy_count(0.2, 2, stream) for _ in range(60)} == {0, 1, 2}


def test_a_stream_that_somebody_can_repeat_is_not_private():
    event = dummy_count_event(1.0, 30, relation=REPLACE_ONE, observers="host", rng=ReproducibleStream(1))
    assert isinstance(event.process, NotPrivate)


@pytest.mark.parametrize("pool", [0, -2, 3, 2.0, None, 2**20 + 2])
def test_pools_that_are_none_are_refused(pool):
    with pytest.raises(InvalidArgument, match="must be an even number from 2 to 2\\^20"):
        check_pool(pool)


def test_an_epsilon_that_no_pool_serves_is_refused():
    with pytest.raises(InvalidArgument, match="needs a pool of more than 2\\^20 dummies; allow a larger epsilon"):
        pool_size(1e-6, 1e-6)
    with pytest.raises(InvalidArgument, match="epsilon must be .*, got 0"):
        pool_size(0, 1e-6)
