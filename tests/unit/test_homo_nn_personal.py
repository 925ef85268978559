"""Parties with an epsilon or a clip of their own: what each is charged, what its message weighs, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from homo_nn_doubles import DIMENSION, make_clients, make_terms, short_rows

from fate_dp.components.dp_homo_nn.round_terms import (
    BY_PARTY,
    calibrated,
    charged_events,
    check_promise,
    guarantee_of,
    noise_of_mean,
    promise_of,
    round_terms,
)
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.dp_homo_nn.settings import given_settings
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of, personal_terms, round_event
from fate_dp.components.protocols.noisy_rounds.terms import InvalidTerms
from fate_dp.privacy.accounting.calibration import UnreachableTarget
from fate_dp.privacy.events import ADD_OR_REMOVE
from tests.support.simulated_rounds import Transport

CLIENTS = ("9999", "10000", "9998")
TARGETS = [4.0, 1.0, 4.0]
GIVEN = {"records": 300, "batch_size": 60, "rounds": 5, "epsilon": 4.0, "party_epsilons": {"10000": 1.0}}


@pytest.fixture(scope="module", params=["local", "secure_sum"])
def personal(request):
    terms = make_terms(request.param, noise_multiplier=None, records=300, batch_size=60.0)
    return personal_terms(terms, TARGETS, 1e-5, ADD_OR_REMOVE)


def settled_terms(**changed):
    settings = given_settings({**GIVEN, **changed})
    terms = round_terms(settings, CLIENTS, DIMENSION)
    return settings, calibrated(settings, terms, clients=CLIENTS)


def test_every_party_keeps_its_own_target_and_spends_nearly_all_of_it(personal):
    for position, target in enumerate(TARGETS):
        assert 0.98 * target < epsilon_of(personal.at(position), 1e-5, ADD_OR_REMOVE) <= target
    assert personal.at(0) == personal.at(2) != personal.at(1)


def test_strict_parties_have_more_noise_in_local_and_fewer_records_in_secure_sum(personal):
    lenient, strict = personal.at(0), personal.at(1)
    if personal.aggregation == "local":
        assert strict.noise_multiplier > lenient.noise_multiplier
        assert strict.sampling_probability == lenient.sampling_probability
    else:
        assert strict.noise_multiplier == lenient.noise_multiplier
        assert strict.sampling_probability < lenient.sampling_probability


def test_terms_of_all_parties_together_have_no_account(personal):
    with pytest.raises(InvalidTerms, match="one client's terms"):
        round_event(personal, ADD_OR_REMOVE)


def test_messages_weigh_as_the_inverse_of_their_variance_and_one_on_average():
    terms = make_terms("local", own_noise=(1.0, 2.0, 4.0), own_clips=(None, None, 0.25))
    weights = [terms.message_weight(position) for position in range(3)]
    np.testing.assert_allclose(weights, np.array([1, 1 / 4, 1]) / (9 / 4) * 3)
    assert make_terms("local").message_weight(0) == 1
    # Two of three variances are one: with these weights less noise is left than with equal ones.
    loud = make_terms("local", own_noise=(1.0, 1.0, 20.0))
    assert noise_of_mean(loud) < np.sqrt(1 + 1 + 20**2) / loud.batch_size / 5


def test_a_loud_party_hardly_moves_the_mean_and_quiet_ones_count_in_full():
    rows = np.tile([0.5, 0.0, 0.0, 0.0], (30, 1))
    terms = make_terms("local", own_noise=(1e-9, 1e-9, 1e-3))
    mean = Transport(terms).deliver([each.contribution(np.zeros(4), 0) for each in make_clients(terms, rows)])
    np.testing.assert_allclose(mean.gradient, [0.5, 0, 0, 0], atol=1e-5)


def test_a_clip_of_its_own_bounds_a_partys_records_whatever_the_server_says():
    terms = make_terms("local", own_clips=(0.1, None, None))
    rows = np.tile([0.6, 0.0, 0.0, 0.0], (30, 1))
    own, other, _ = (client.contribution(np.zeros(4), 0, clip=1.0) for client in make_clients(terms, rows))
    assert own.clip == 0.1 and other.clip == 1.0
    np.testing.assert_allclose(own.content[0] / terms.message_weight(0), 10 * 0.1, rtol=1e-6)
    np.testing.assert_allclose(other.content[0] / terms.message_weight(1), 10 * 0.6, rtol=1e-6)


def test_the_secure_sum_is_divided_by_what_the_parties_own_rates_give():
    terms = make_terms(own_sampling=(1.0, 0.5, 0.3))
    assert terms.expected_units == pytest.approx(30 * 0.6)
    assert [terms.at(position).sampling_probability for position in range(3)] == pytest.approx([1.0, 0.5, 0.3])
    clients = make_clients(make_terms(own_sampling=(1.0, 1.0, 1.0)), short_rows())
    mean = Transport(make_terms(own_sampling=(1.0, 1.0, 1.0))).deliver(
        [each.contribution(np.zeros(4), 0) for each in clients]
    )
    np.testing.assert_allclose(mean.gradient, short_rows().sum(axis=0) / 30, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["local", "secure_sum"])
def test_a_job_promises_each_party_its_own_epsilon_and_charges_it(aggregation):
    settings, terms = settled_terms(aggregation=aggregation)
    promise = promise_of(settings, terms, None, CLIENTS)
    assert promise["epsilon"][ADD_OR_REMOVE] == promise[BY_PARTY]["9999"][ADD_OR_REMOVE] <= 4
    assert 0.98 < promise[BY_PARTY]["10000"][ADD_OR_REMOVE] <= 1
    ((strict, rounds),) = charged_events(settings, terms.at(1))
    assert (strict, rounds) == (round_event(terms.at(1), ADD_OR_REMOVE), 5)
    check_promise(settings, terms.at(1), guarantee_of(settings, terms.at(1)), "10000")
    # A guest that gives the strict party the noise or the rate of the others is found out there, and there alone.
    with pytest.raises(ValueError, match="while the job asks for 1"):
        check_promise(settings, terms.at(0), guarantee_of(settings, terms.at(0)), "10000")
    check_promise(settings, terms.at(0), guarantee_of(settings, terms.at(0)), "9999")


@pytest.mark.parametrize("own", [None, {"10000": 1.0}])
def test_clips_of_their_own_change_no_account(own):
    given = {"aggregation": "local", "party_epsilons": own}
    settings, plain = settled_terms(**given)
    _, clipped = settled_terms(**given, party_clips={"9998": 0.5})
    assert (clipped.noise_multiplier, clipped.own_noise) == (plain.noise_multiplier, plain.own_noise)
    assert (clipped.at(1).clips, clipped.at(2).clips) == (plain.clips, (0.5,))
    assert promise_of(settings, clipped, None, CLIENTS) == promise_of(settings, plain, None, CLIENTS)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"aggregation": "shuffle", "shuffler": "9997"},
            "aggregation is shuffle; party_epsilons needs local or secure_sum",
        ),
        ({"party_clips": {"9999": 1.0}}, "aggregation is secure_sum; party_clips needs local"),
        ({"epsilon": None, "noise_multiplier": 1.0}, "epsilon is not set, but party_epsilons is"),
        ({"noise_spread": "adaptive"}, "noise_spread is adaptive; party_epsilons goes with noise_spread uniform only"),
        ({"clip": {"quantile": 0.5}}, "party_epsilons needs a fixed clip"),
        ({"party_epsilons": {}}, "party_epsilons must be a mapping of party ids to numbers above 0, got {}"),
        ({"party_epsilons": {"10000": 0}}, "party_epsilons.10000 must be a finite number above 0, got 0"),
        ({"party_epsilons": {"1": 1.0}}, "party_epsilons names party 1; the parties with data are 10000, 9998, 9999"),
        ({"aggregation": "local", "party_clips": {"2": 1.0}}, "party_clips names party 2"),
    ],
)
def test_what_parties_cannot_have_of_their_own_is_refused_in_one_sentence(changed, sentence):
    with pytest.raises(ValueError) as refusal:
        settled_terms(**changed)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"aggregation": "secure_sum", "own_noise": (1.0, 1.0, 1.0)},
        {"aggregation": "secure_sum", "own_clips": (1.0, None, None)},
        {"aggregation": "local", "own_sampling": (0.5, 0.5, 0.5)},
        {"aggregation": "local", "own_noise": (1.0, 1.0)},
        {"aggregation": "local", "own_noise": (1.0, 1.0, np.nan)},
        {"aggregation": "local", "own_noise": (1.0, 1.0, 1.0), "clip_quantile": 0.5},
        {"aggregation": "secure_sum", "own_sampling": (0.5, 0.5, 1.5)},
    ],
)
def test_terms_without_a_proof_are_refused(changed):
    with pytest.raises(InvalidTerms, match="own_"):
        make_terms(**changed)


def test_a_target_far_below_the_others_is_out_of_reach_of_a_secure_sum():
    terms = make_terms(noise_multiplier=None, records=300, batch_size=300.0, delta=1e-9)
    with pytest.raises(UnreachableTarget, match="beside a party with a larger one"):
        personal_terms(terms, [50.0, 1e-9, 50.0], 1e-9, ADD_OR_REMOVE)


def test_the_final_weights_are_the_mean_of_the_last_part_of_the_rounds():
    descent = {"method": "sgd", "optimizer_params": {"lr": 1.0}}
    terms, step = make_terms(rounds=4), np.array([1.0, 0.0, -2.0, 0.0])
    servers = {part: Server(terms, np.zeros(4), descent, averaging=part) for part in (0.0, 0.5, 1.0)}
    for server in servers.values():
        for _ in range(4):
            server.step(step)
    np.testing.assert_allclose(servers[0.0].final_weights, -4 * step)
    np.testing.assert_allclose(servers[0.5].final_weights, -3.5 * step)
    np.testing.assert_allclose(servers[1.0].final_weights, -2.5 * step)
    np.testing.assert_allclose(servers[0.5].weights, -4 * step)
    short = Server(replace(terms, rounds=9), np.zeros(4), descent, averaging=0.5)
    short.step(step)
    np.testing.assert_allclose(short.final_weights, -step)
