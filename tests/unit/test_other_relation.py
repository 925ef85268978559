"""What an event costs under the other neighbouring relation: never less than it really does, and nothing where nothing holds."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy import Ledger, events, gaussian_delta
from fate_dp.privacy.accounting.total import OF_TWO_STEPS, total_delta, total_epsilon, under
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Event, InvalidEvent

POSITIVE = st.floats(0.05, 4.0)
NOISE = st.floats(0.5, 20.0)
PROCESSES = st.one_of(
    POSITIVE.map(events.PureDP),
    POSITIVE.map(events.ExponentialMechanism),
    NOISE.map(events.Laplace),
    NOISE.map(events.Gaussian),
    st.builds(events.PoissonSampledGaussian, st.sampled_from([0.01, 0.1, 1.0]), st.sampled_from([0.8, 1.5, 4.0])),
    st.lists(st.tuples(POSITIVE, NOISE), min_size=1, max_size=3).map(
        lambda groups: events.GroupedGaussian(*zip(*groups))
    ),
)
REPLACE_ONLY = [
    events.PureDP(1.0),
    events.ExponentialMechanism(1.0),
    events.Laplace(1.0),
    events.Gaussian(1.0),
    events.GroupedGaussian((1.0,), (1.0,)),
    events.RandomizedResponse(1.0),
    events.FixedSizeSampledGaussian(100, 10, 1.0),
    events.Shuffled(1.0, 1000),
]


def stated(process, relation=ADD_OR_REMOVE, **changes):
    return Event(process, "record", relation, ("server", "model"), **changes)


def test_whatever_can_be_stated_under_add_or_remove_counts_under_replace_one():
    wrong = set(OF_TWO_STEPS) ^ (set(events.PROCESSES) - set(events.REPLACE_ONE_ONLY))
    assert not wrong, f"an event stands either in OF_TWO_STEPS (total.py) or in REPLACE_ONE_ONLY (events.py): {wrong}"


@settings(max_examples=20, deadline=None)
@given(PROCESSES, st.sampled_from([1e-5, 1e-3]))
def test_replacing_costs_no_less_than_removing_and_no_more_than_group_privacy_says(process, delta):
    """Removing and adding are two steps: epsilon 2 e at delta (1 + exp e) d, from e at d for one of them."""
    event = stated(process)
    replaced = under(event, REPLACE_ONE)
    assert (replaced.relation, replaced.unit, replaced.observers) == (REPLACE_ONE, event.unit, event.observers)
    alone = total_epsilon([(event, 3)], delta)
    assert total_epsilon([(replaced, 3)], delta) >= alone * (1 - 1e-6)
    # The bounds of both sides are on grids of some 1e-4 of the loss.
    assert total_epsilon([(replaced, 3)], min(0.999, (1 + math.exp(alone)) * delta)) <= 2 * alone * 1.001 + 1e-3


@given(NOISE, st.floats(0, 3))
def test_a_sum_of_gaussian_noise_moves_by_two_clips(noise, epsilon):
    replaced = under(stated(events.Gaussian(noise)), REPLACE_ONE)
    assert total_delta([(replaced, 1)], epsilon) == pytest.approx(
        gaussian_delta(noise / 2, epsilon), rel=1e-9, abs=1e-15
    )
    grouped = under(stated(events.GroupedGaussian((1.0,), (noise,))), REPLACE_ONE)
    assert total_delta([(grouped, 1)], epsilon) == pytest.approx(
        gaussian_delta(noise / 2, epsilon), rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_histogram_with_two_sided_geometric_noise_costs_exactly_twice_as_much(epsilon):
    """The truth, enumerated: a record that moves from one bin to the other changes both counts by one."""

    def log_mass(noise):
        return -epsilon * abs(noise)

    worst = max(
        abs(log_mass(first) - log_mass(first + 1) + log_mass(second) - log_mass(second - 1))
        for first in range(-5, 6)
        for second in range(-5, 6)
    )
    replaced = under(stated(events.PureDP(epsilon)), REPLACE_ONE)
    assert total_epsilon([(replaced, 1)], 0.0) == pytest.approx(worst, rel=1e-12)


def test_goldens_of_a_training():
    """README's table: MNIST, 80 rounds of a tenth of the records, noise 3.571 over the clip, delta 1e-5."""
    event = stated(events.PoissonSampledGaussian(0.1, 3.571))
    assert total_epsilon([(event, 80)], 1e-5) == pytest.approx(1.0, abs=2e-3)
    assert total_epsilon([(under(event, REPLACE_ONE), 80)], 1e-5) == pytest.approx(1.99, abs=5e-3)


@pytest.mark.parametrize("process", REPLACE_ONLY)
def test_a_replace_one_guarantee_says_nothing_of_presence(process):
    assert under(stated(process, REPLACE_ONE), ADD_OR_REMOVE) is None
    assert under(stated(process, REPLACE_ONE), REPLACE_ONE) == stated(process, REPLACE_ONE)


def test_a_poisson_sampled_sum_has_both_guarantees_and_slack_stays():
    event = stated(events.PoissonSampledGaussian(0.1, 2.0), REPLACE_ONE, slack=1e-9)
    assert under(event, ADD_OR_REMOVE) == stated(events.PoissonSampledGaussian(0.1, 2.0), slack=1e-9)
    assert under(under(event, ADD_OR_REMOVE), REPLACE_ONE) == event


def test_what_cannot_be_doubled_has_no_guarantee_left():
    assert isinstance(under(stated(events.PureDP(1e308)), REPLACE_ONE).process, events.NotPrivate)
    with pytest.raises(InvalidEvent):
        under(stated(events.PureDP(1.0)), "replace-one")


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(PROCESSES, st.booleans()), min_size=1, max_size=4))
def test_no_line_of_a_ledger_understates(tmp_path_factory, steps):
    """Whatever was charged, in whatever relation: the replace-one line holds all of it, the other line is no larger."""
    ledger = Ledger(tmp_path_factory.mktemp("ledger") / "ledger.sqlite")
    released = [stated(process, REPLACE_ONE if replace else ADD_OR_REMOVE) for process, replace in steps]
    for number, event in enumerate(released):
        ledger.record(
            dataset="bank/loans",
            event=event,
            cap=None,
            release_key=f"{number}",
            job_id="j",
            task_id="t",
            fingerprint="f",
        )
    charged = [(under(event, REPLACE_ONE), 1) for event in released]
    total = ledger.total("bank/loans", "record", REPLACE_ONE, "server", 1e-5)
    assert total == pytest.approx(total_epsilon(charged, 1e-5), rel=1e-6)
    presence = ledger.total("bank/loans", "record", ADD_OR_REMOVE, "server", 1e-5)
    if any(replace and not isinstance(process, events.PoissonSampledGaussian) for process, replace in steps):
        assert presence == math.inf
    else:
        assert presence <= total * (1 + 1e-6) + 1e-6
    shown = {(line["relation"], line["observer"]) for line in ledger.totals(1e-5)}
    assert {(REPLACE_ONE, "server"), (REPLACE_ONE, "model")} <= shown
    assert ((ADD_OR_REMOVE, "server") in shown) == any(not replace for _, replace in steps)
