"""What rounds cost: the events of the privacy core, composed; calibration never overshoots."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import homo_nn_comparison as comparison
from bench.homo_nn_comparison import error_at, mean_error, shuffling_pays_from
from fate_dp.components.protocols.noisy_rounds.account import (
    calibrate_terms,
    collusion_events,
    epsilon_of,
    events_of,
    relations_of,
    round_event,
    secure_sum_of,
)
from fate_dp.components.protocols.noisy_rounds.aggregation import Local
from fate_dp.components.protocols.noisy_rounds.contribution import joint_clip
from fate_dp.components.protocols.noisy_rounds.terms import InvalidTerms, RoundTerms
from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.calibration import UnreachableTarget, subsampled_gaussian_epsilon
from fate_dp.privacy.accounting.secure_sum import SecureSum, noise_share_sigma, secure_sum_event
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS, REPLACE_ONE, InvalidEvent, PureDP, Shuffled
from fate_dp.privacy.mechanisms.clipping import clip_records, grid_for

# The goldens' row "Relation matters".
GOLDEN = RoundTerms(
    aggregation="secure_sum",
    unit="record",
    clients=100,
    max_dropouts=1,
    rounds=219,
    batch_size=4096.0,
    records=60000,
    clips=1.0,
    dimension=7850,
    delta=1e-5,
    noise_multiplier=3.937,
)
LOCAL = replace(GOLDEN, aggregation="local")
SHUFFLE = replace(GOLDEN, aggregation="shuffle", noise_multiplier=None, epsilon0=1.0, rounds=20)


@pytest.mark.parametrize("terms", [GOLDEN, LOCAL])
@pytest.mark.parametrize("relation, expected", [(ADD_OR_REMOVE, 1.00), (REPLACE_ONE, 2.05)])
def test_both_relations_meet_the_goldens(terms, relation, expected):
    reached = epsilon_of(terms, 1e-5, relation)
    assert reached == pytest.approx(expected, abs=0.005)
    exact = subsampled_gaussian_epsilon(4096 / 60000, 3.937, 219, 1e-5, relation=relation)
    assert exact <= reached <= exact * (1 + 1e-6)


def test_epsilon_is_the_composition_of_the_events_and_counts_rounds_that_ran():
    ((event, count),) = events_of(GOLDEN, ADD_OR_REMOVE, 50)
    assert count == 50
    accountant = make_accountant("pld", ADD_OR_REMOVE)
    accountant.compose(event, 50)
    assert epsilon_of(GOLDEN, 1e-5, ADD_OR_REMOVE, 50) == accountant.epsilon(1e-5)
    assert events_of(GOLDEN, ADD_OR_REMOVE, 0) == [] and epsilon_of(GOLDEN, 1e-5, ADD_OR_REMOVE, 0) == 0.0


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_secure_sum_is_charged_as_the_core_says(relation):
    share = noise_share_sigma(3.937, 2.0**34, 100, 1)
    expected = secure_sum_event(
        SecureSum(3.937, 100, 1, 7850, share), "record", relation, 4096 / 60000, ("server", "client", "model")
    )
    event = round_event(GOLDEN, relation)
    assert replace(event, slack=expected.slack) == expected
    assert expected.slack < event.slack < expected.slack + 1e-30


@given(clip=st.floats(1e-6, 1e6), max_dropouts=st.integers(1, 99), multiplier=st.floats(0.01, 100))
def test_no_clip_gives_less_noise_in_steps_than_is_charged(clip, max_dropouts, multiplier):
    terms = replace(GOLDEN, max_dropouts=max_dropouts, noise_multiplier=multiplier)
    used = noise_share_sigma(multiplier, clip / grid_for(clip), 100, max_dropouts)
    assert used >= secure_sum_of(terms).share_sigma_in_steps


@pytest.mark.parametrize("clip", [0.99, 1.0, 1.01, 7.3])
def test_a_local_release_costs_no_more_than_the_event_says(clip):
    terms = replace(LOCAL, dimension=8)
    release = Local.release(clip_records(np.zeros((2, 8)), clip), terms, None)
    event = round_event(terms, ADD_OR_REMOVE)
    assert replace(event, slack=release.event.slack) == release.event and release.event.slack <= event.slack


def test_local_steps_are_each_charged():
    terms = replace(LOCAL, local_steps=3, local_learning_rate=0.1)
    assert events_of(terms, ADD_OR_REMOVE)[0][1] == 657 and events_of(LOCAL, ADD_OR_REMOVE)[0][1] == 219
    clients = replace(LOCAL, unit="client", records=100, batch_size=10.0, local_steps=3, local_learning_rate=0.1)
    assert events_of(clients, ADD_OR_REMOVE)[0][1] == 219


def test_the_number_of_local_clients_does_not_matter_and_that_of_a_secure_sum_does_not_either():
    for terms in (LOCAL, GOLDEN):
        fewer = replace(terms, clients=3)
        assert epsilon_of(fewer, 1e-5, ADD_OR_REMOVE) == pytest.approx(epsilon_of(terms, 1e-5, ADD_OR_REMOVE), rel=1e-6)


def test_shuffling_is_charged_once_per_epoch_under_replace_one_only():
    assert relations_of(SHUFFLE) == (REPLACE_ONE,) and set(relations_of(GOLDEN)) == set(RELATIONS)
    ((event, count),) = events_of(SHUFFLE, REPLACE_ONE)
    # 15 rounds per epoch of 4000 messages, 40 from the client that may collude.
    assert event.process == Shuffled(1.0, 3960) and count == 2
    assert event.observers == ("client", "model", "server") and event.unit == "record"
    with pytest.raises(InvalidEvent, match="relation must be .*, got 'add_or_remove'"):
        round_event(SHUFFLE, ADD_OR_REMOVE)
    assert epsilon_of(SHUFFLE, 1e-5, REPLACE_ONE, 15) == shuffle_epsilon(1.0, 3960, 1e-5)
    ((event, count),) = collusion_events(SHUFFLE)
    assert event.process == PureDP(1.0) and count == 2 and event.observers == ("server", "shuffler")


def test_epochs_are_counted_by_the_rounds_that_ran():
    """Two rounds of two epochs, the others aborted: a record may have sent in both."""
    for rounds, count in (([0, 1], 1), ([3, 18], 2), ([14, 15], 2), ([], 0), (range(20), 2)):
        assert sum(number for _, number in events_of(SHUFFLE, REPLACE_ONE, rounds)) == count
        assert sum(number for _, number in collusion_events(SHUFFLE, rounds)) == count
    assert events_of(GOLDEN, ADD_OR_REMOVE, [3, 18])[0][1] == 2


def test_noise_must_be_given():
    for terms, name in ((GOLDEN, "noise_multiplier"), (SHUFFLE, "epsilon0")):
        with pytest.raises(InvalidTerms, match=f"{name} must be given.*, got None"):
            round_event(terms.with_noise(), REPLACE_ONE)


@settings(max_examples=4, deadline=None)
@given(
    aggregation=st.sampled_from(["secure_sum", "local", "shuffle"]),
    epsilon=st.floats(0.2, 8),
    log_delta=st.floats(-8, -4),
    share=st.floats(0.01, 0.2),
    rounds=st.integers(1, 60),
    relation=st.sampled_from(RELATIONS),
)
def test_calibration_never_overshoots_and_hardly_undershoots(aggregation, epsilon, log_delta, share, rounds, relation):
    relation = REPLACE_ONE if aggregation == "shuffle" else relation
    terms = replace(
        GOLDEN,
        aggregation=aggregation,
        noise_multiplier=None,
        rounds=rounds,
        records=3000,
        batch_size=3000 * share,
        dimension=10,
    )
    found = calibrate_terms(terms, epsilon, 10**log_delta, relation)
    assert found.delta == 10**log_delta
    assert epsilon_of(found, found.delta, relation) <= epsilon
    if aggregation != "shuffle":
        less = found.with_noise(noise_multiplier=found.noise_multiplier * 0.9999)
        assert epsilon_of(less, found.delta, relation) > epsilon


def test_a_calibrated_epsilon0_is_nearly_the_largest():
    found = calibrate_terms(replace(SHUFFLE, rounds=15), 0.1, 1e-5, REPLACE_ONE)
    assert epsilon_of(found, 1e-5, REPLACE_ONE) <= 0.1
    assert epsilon_of(found.with_noise(epsilon0=found.epsilon0 * 1.005), 1e-5, REPLACE_ONE) > 0.1


def test_an_unreachable_target_says_what_is_in_reach():
    with pytest.raises(UnreachableTarget, match="over 219 releases.*epsilon 0.0017.* at this delta would be met"):
        calibrate_terms(replace(GOLDEN, batch_size=60000.0), 1e-4, 1e-5, ADD_OR_REMOVE)
    with pytest.raises(
        UnreachableTarget, match="delta .* at this epsilon would be met. Ask for that, or for fewer rounds."
    ):
        calibrate_terms(replace(GOLDEN, dimension=10**6), 1.0, 1e-30, ADD_OR_REMOVE)


def test_a_private_clip_costs_nothing_but_the_longer_vector():
    private = replace(GOLDEN, clip_quantile=0.5)
    assert private.vector_length == 7851 and joint_clip(1.0) == pytest.approx(1.00195, abs=1e-5)
    assert epsilon_of(private, 1e-5, ADD_OR_REMOVE) == pytest.approx(epsilon_of(GOLDEN, 1e-5, ADD_OR_REMOVE), rel=1e-6)


def test_errors_of_the_means_follow_from_noise_clients_and_dimension():
    assert mean_error(GOLDEN) == pytest.approx(3.937 * math.sqrt(7850 * 100 / 99) / 4096)
    assert mean_error(LOCAL) == pytest.approx(3.937 * math.sqrt(7850 * 100) / 4096)
    assert mean_error(SHUFFLE) == pytest.approx(math.sqrt(math.pi / 2 * 7850 / 4000) / math.tanh(0.5), rel=1e-3)


def test_from_how_many_clients_on_shuffling_pays(monkeypatch):
    monkeypatch.setattr(comparison, "PRECISION", 0.2)
    one_each = replace(
        LOCAL, clients=100, records=100, batch_size=100.0, rounds=12, dimension=20, noise_multiplier=None
    )
    first = shuffling_pays_from(one_each, 2.0, 1e-5, 1000)
    assert error_at(one_each, "shuffle", 2.0, 1e-5, first) <= error_at(one_each, "local", 2.0, 1e-5, first)
    fewer = int(first / 1.4)
    assert first > 2 and error_at(one_each, "shuffle", 2.0, 1e-5, fewer) > error_at(one_each, "local", 2.0, 1e-5, fewer)
    assert shuffling_pays_from(replace(one_each, records=60000, batch_size=6000.0), 2.0, 1e-5, 10**4) is None
    with pytest.raises(InvalidTerms, match="against must be .*, got 'shuffle'"):
        shuffling_pays_from(one_each, 2.0, 1e-5, against="shuffle")
