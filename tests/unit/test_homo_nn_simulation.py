"""Whole trainings in one process: they learn, drop-outs are left out, and the rounds that ran are known."""

import numpy as np
import pytest
from homo_nn_doubles import DIMENSION, make_clients, make_terms, short_rows

from fate_dp.components.dp_homo_nn.rounds.client import NotFinite
from fate_dp.components.dp_homo_nn.rounds.server import Server
from tests.support.simulated_rounds import AFTER, BEFORE, Transport, simulate

pytestmark = pytest.mark.arithmetic

DESCENT = {"method": "sgd", "optimizer_params": {"lr": 1.0}}


def trained(terms, encrypted=False, failure=None, rows=None, optimizer=None, progress=None, **kind):
    """The way from start to end, which with learning rate 1 is the sum of the rounds' means, and the server."""
    server = Server(terms, np.zeros(DIMENSION), optimizer or DESCENT)
    clients = make_clients(terms, short_rows(terms.records) if rows is None else rows, **kind)
    weights = simulate(terms, clients, server, Transport(terms, encrypted), progress, failure)
    return -weights, server


def fails(when, rounds, positions):
    return lambda position, number: when if number in rounds and position in positions else None


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_all_rounds_run_and_add_up(aggregation, encrypted):
    seen = []
    weights, server = trained(make_terms(aggregation), encrypted, progress=lambda number, at: seen.append((number, at)))
    np.testing.assert_allclose(weights, 4 * short_rows().mean(axis=0), atol=1e-5)
    assert server.rounds_run == [0, 1, 2, 3] and not server.rounds_aborted
    assert [number for number, _ in seen] == [0, 1, 2, 3] and seen[0][1] is server
    np.testing.assert_array_equal(weights, -server.weights)


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("message_splitting", ["none", "block", "coordinate"])
def test_shuffled_rounds_run_in_every_split(encrypted, message_splitting):
    terms = make_terms("shuffle", batch_size=15.0, epsilon0=1.0)
    server = Server(terms, np.zeros(DIMENSION), DESCENT)
    weights = simulate(terms, make_clients(terms, short_rows()), server, Transport(terms, encrypted, message_splitting))
    assert np.isfinite(weights).all() and weights.any() and server.rounds_run == [0, 1, 2, 3]


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_round_goes_on_with_those_who_are_ready(aggregation, encrypted):
    """Three of four are enough where two are tolerated, one of whom may collude."""
    terms = make_terms(aggregation, clients=4, max_dropouts=2, records=40, batch_size=40.0)
    rows = short_rows(40)
    weights, server = trained(terms, encrypted, fails(BEFORE, {1}, {2}), rows)
    expected = (4 * rows.sum(axis=0) - rows[20:30].sum(axis=0)) / 40
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert server.rounds_run == [0, 1, 2, 3]


@pytest.mark.parametrize("aggregation", ["secure_sum", "local", "shuffle"])
def test_below_the_minimum_a_round_is_aborted_before_anything_is_computed(aggregation):
    terms = make_terms(aggregation)
    asked = []

    def failure(position, number):
        return BEFORE if number == 2 and position == 0 else None

    server, clients = Server(terms, np.zeros(DIMENSION), DESCENT), make_clients(terms, short_rows())
    for client in clients:
        original = client.contribution
        client.contribution = lambda weights, number, clip, of=original: (
            asked.append(number) or of(weights, number, clip)
        )
    simulate(terms, clients, server, Transport(terms, True), failure=failure)
    assert server.rounds_run == [0, 1, 3] and server.rounds_aborted == [2] and 2 not in asked


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_lost_masked_vector_spends_the_round_and_gives_no_step(encrypted):
    terms = make_terms(clients=4, max_dropouts=2, records=40, batch_size=40.0)
    rows = short_rows(40)
    weights, server = trained(terms, encrypted, fails(AFTER, {1}, {2}), rows)
    np.testing.assert_allclose(weights, 3 * rows.mean(axis=0), atol=1e-5)
    assert server.rounds_run == [0, 1, 2, 3] and not server.rounds_aborted


def test_a_lost_local_vector_is_left_out_and_too_many_spend_the_round():
    terms = make_terms("local", clients=4, max_dropouts=2, records=40, batch_size=40.0)
    rows = short_rows(40)
    weights, _ = trained(terms, failure=fails(AFTER, {1}, {2}), rows=rows)
    np.testing.assert_allclose(weights, (4 * rows.sum(axis=0) - rows[20:30].sum(axis=0)) / 40, atol=1e-5)
    weights, server = trained(terms, failure=fails(AFTER, {1}, {2, 3}), rows=rows)
    np.testing.assert_allclose(weights, 3 * rows.mean(axis=0), atol=1e-5)
    assert server.rounds_run == [0, 1, 2, 3]


@pytest.mark.parametrize("encrypted", [False, True])
def test_lost_shuffled_messages_end_the_round_at_the_shuffler(encrypted):
    weights, server = trained(make_terms("shuffle", rounds=1), encrypted, fails(AFTER, {0}, {1}))
    assert not weights.any() and server.rounds_run == [0]
    terms = make_terms("shuffle", rounds=1, clients=3, max_dropouts=2)
    weights, server = trained(terms, encrypted, fails(AFTER, {0}, {1}))
    assert weights.any()


def test_a_private_clip_moves_by_what_was_released():
    terms = make_terms(clip_quantile=0.5, rounds=60, clips=0.01)
    clips = []
    trained(terms, progress=lambda number, server: clips.append(server.clip(number)))
    norms = np.linalg.norm(short_rows(), axis=1)
    assert clips[-1] == pytest.approx(np.median(norms), rel=0.2)


def test_training_that_diverges_is_refused():
    rows = np.tile([0.9, 0, 0, 0], (30, 1))
    with pytest.raises(NotFinite, match="training has diverged; lower the learning rate"):
        trained(
            make_terms(), rows=rows, optimizer={"method": "sgd", "optimizer_params": {"lr": 1e308, "momentum": 1.0}}
        )
