"""One round: from clients' rows to the server's noisy mean, in each trust model."""

import numpy as np
import pytest
from homo_nn_doubles import DIMENSION, RowsAsGradients, make_clients, make_terms, short_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fate_dp.components.dp_homo_nn.rounds.client import Client, NotFinite
from fate_dp.components.protocols.noisy_rounds.aggregation import Local, Shuffle, make_aggregation
from fate_dp.components.protocols.noisy_rounds.contribution import (
    WEIGHT,
    Contribution,
    InvalidMessage,
    joint_clip,
    next_clip,
    share_below,
    with_indicators,
)
from fate_dp.components.protocols.noisy_rounds.terms import InvalidTerms
from fate_dp.components.protocols.sealed_shuffle import TooFewMessages
from fate_dp.privacy.accounting.secure_sum import TooFewArrived
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records, grid_for
from fate_dp.privacy.mechanisms.local_numbers import duchi_norm
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import SERVER, ArrayRows, Transport

pytestmark = pytest.mark.arithmetic

WEIGHTS = np.zeros(DIMENSION)


def mean_of_round(terms, features, encrypted=False, **kind):
    clients = make_clients(terms, features, **kind)
    contributions = [client.contribution(WEIGHTS, 0) for client in clients]
    return Transport(terms, encrypted).deliver(contributions)


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
@pytest.mark.parametrize("encrypted", [False, True])
def test_the_mean_is_that_of_the_rows_over_the_public_normaliser(aggregation, encrypted):
    rows = short_rows()
    mean = mean_of_round(make_terms(aggregation), rows, encrypted)
    np.testing.assert_allclose(mean.gradient, rows.sum(axis=0) / 30, atol=1e-6)
    assert mean.share_below is None


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_scales_divide_before_the_clip_and_multiply_afterwards(aggregation):
    rows, scales = short_rows() * 3, np.array([1.0, 2.0, 4.0, 0.5])
    mean = mean_of_round(make_terms(aggregation, scales=scales), rows)
    scaled = rows / scales
    clipped = scaled / np.maximum(1, np.linalg.norm(scaled, axis=1, keepdims=True))
    np.testing.assert_allclose(mean.gradient, clipped.sum(axis=0) * scales / 30, atol=1e-6)


@pytest.mark.parametrize("encrypted", [False, True])
def test_shuffled_answers_have_the_norm_of_the_sampler_and_are_divided_by_the_schedule(encrypted):
    terms = make_terms("shuffle", epsilon0=1.0)
    mean = mean_of_round(terms, short_rows(), encrypted)
    assert 0 < np.linalg.norm(mean.gradient) <= duchi_norm(DIMENSION, 1.0, 1.0) * (1 + 1e-6)
    one_less = make_terms("shuffle", clients=3, batch_size=15.0)
    contributions = [client.contribution(WEIGHTS, 1) for client in make_clients(one_less, short_rows())]
    assert [each.content.shape for each in contributions] == [(5, DIMENSION)] * 3


def test_the_mean_of_shuffled_answers_is_unbiased():
    rows = np.tile([0.6, 0.0, -0.6, 0.0], (30_000, 1))
    mean = mean_of_round(make_terms("shuffle", records=30_000, batch_size=30_000.0), rows)
    np.testing.assert_allclose(mean.gradient, rows[0], atol=6 * duchi_norm(DIMENSION, 1, 50.0) / 30_000**0.5)


def test_negative_sums_and_sums_beyond_31_bits_are_decoded():
    terms = make_terms(records=3000, batch_size=3000.0)
    rows = np.tile([0.0, -1.0, 0.0, 0.0], (3000, 1))
    np.testing.assert_allclose(mean_of_round(terms, rows, True).gradient, [0, -1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("aggregation", ["secure_sum", "local", "shuffle"])
def test_nan_records_and_empty_clients_count_as_zero(aggregation):
    terms = make_terms(aggregation, client_records=(30, 0, 0) if aggregation == "shuffle" else None, max_dropouts=1)
    rows = short_rows(30)
    rows[:29] = np.nan
    if aggregation == "shuffle":
        terms = make_terms(aggregation)
        rows = np.full((30, DIMENSION), np.nan)
        assert np.isfinite(mean_of_round(terms, rows).gradient).all()
        return
    clients = [
        Client(ArrayRows(part, np.zeros(len(part)), RowsAsGradients()), terms, None, position)
        for position, part in enumerate((rows, rows[:0], rows[:0]))
    ]
    mean = Transport(terms).deliver([client.contribution(WEIGHTS, 0) for client in clients])
    np.testing.assert_allclose(mean.gradient, rows[29] / 30, atol=1e-6)


def test_an_empty_batch_is_a_step_of_noise_alone():
    terms = make_terms(batch_size=1e-9, noise_multiplier=1.0)
    contributions = [client.contribution(WEIGHTS, 0) for client in make_clients(terms, short_rows())]
    assert all(each.content.any() for each in contributions)
    assert np.isfinite(Transport(terms).deliver(contributions).gradient).all()


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_the_normaliser_is_public_whatever_the_batch(aggregation):
    """Half of the records, twice: the sum is divided by 15, not by the number that took part."""
    terms = make_terms(aggregation, batch_size=15.0)
    rows = np.tile([0.5, 0, 0, 0], (30, 1))
    counts = [mean_of_round(terms, rows).gradient[0] * 15 / 0.5 for _ in range(40)]
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)
    assert len(set(np.round(counts))) > 3


def test_fewer_than_the_least_arrivals_are_refused_before_anything_is_added():
    terms = make_terms("secure_sum", clients=4, max_dropouts=2)
    contributions = [client.contribution(WEIGHTS, 0) for client in make_clients(terms, short_rows())]
    transport = Transport(terms)
    whole, federation = transport.parties[SERVER][0], transport.federation
    messages = [whole.encode(each, federation.names) for each in contributions]
    with pytest.raises(TooFewArrived, match="arrived must be at least 3 of 4.*, got 2"):
        whole.decode(messages[:2], 1.0)
    whole.decode(messages[:3], 1.0)
    with pytest.raises(TooFewArrived, match="must be at least 3 of 4"):
        Local(terms, federation).decode([b""] * 2, 1.0)
    terms = make_terms("shuffle")
    shuffle = Shuffle(terms, Transport(terms).federation)
    pieces = [
        piece
        for client in make_clients(terms, short_rows())[:1]
        for piece in shuffle.pieces(client.contribution(WEIGHTS, 0))
    ]
    with pytest.raises(TooFewMessages, match="10 messages arrived in this round; it takes at least 30"):
        shuffle.decode(pieces, 0)


def test_the_server_never_holds_a_partial_sum_that_it_could_open():
    """What it receives, and every sum of it but the whole, is uniform: far beyond any true sum."""
    terms = make_terms(dimension=64, noise_multiplier=1.0)
    clients = make_clients(terms, np.zeros((30, 64)))
    transport = Transport(terms, encrypted=True)
    names, parties = transport.federation.names, [transport.parties[party][0] for party in transport.federation.data]
    messages = [parties[client.position].encode(client.contribution(np.zeros(64), 0), names) for client in clients]
    words = [np.frombuffer(message, dtype=np.uint64) for message in messages]
    largest_sum = 40 * 2**36
    for part in (words[:1], words[1:2], words[2:], words[:2], words[1:], words[::2]):
        opened = np.abs(np.sum(part, axis=0, dtype=np.uint64).view(np.int64).astype(float))
        # A uniform word is that small with a chance of 3e-7; four of 64 are with one below 1e-20.
        assert (opened > largest_sum).sum() > 60 and opened.max() > 2**60
    assert (np.abs(np.sum(words, axis=0, dtype=np.uint64).view(np.int64)) < largest_sum).all()


def test_messages_of_another_size_or_content_are_refused():
    terms = make_terms("local", upload_fraction=0.5)
    local, whole = (make_aggregation(each, Transport(each).federation) for each in (terms, make_terms()))
    good = np.array([0, 2], "<u4").tobytes() + np.array([1.0, 2.0]).tobytes()
    np.testing.assert_allclose(local.decode([good] * 3, 1.0).gradient, np.array([3, 0, 6, 0]) / 30)
    for bad, sentence in (
        (good[:-1], "A message must have 24 bytes, got 23."),
        (np.array([2, 0], "<u4").tobytes() + good[8:], "indices must be increasing and below 4"),
        (np.array([0, 4], "<u4").tobytes() + good[8:], "indices must be increasing and below 4"),
        (good[:8] + np.array([np.nan, 1.0]).tobytes(), "not finite"),
    ):
        with pytest.raises(InvalidMessage, match=sentence):
            local.decode([bad] * 3, 1.0)
    with pytest.raises(InvalidMessage, match="A message must have 32 bytes, got 31."):
        whole.decode([bytes(31)] * 3, 1.0)


def test_the_largest_coordinates_are_chosen_after_the_noise():
    terms = make_terms("local", upload_fraction=0.5, clip_quantile=0.5)
    values = np.array([0.1, -5.0, 3.0, 0.2, 0.7])
    federation = Transport(terms).federation
    message = Local(terms, federation).encode(Contribution(0, 0, 1.0, values), federation.names)
    assert len(message) == 2 * 4 + 3 * 8
    assert np.frombuffer(message, "<u4", 2).tolist() == [1, 2]
    assert np.frombuffer(message, "<f8", offset=8).tolist() == [-5.0, 3.0, 0.7]
    noisy = make_terms("local", upload_fraction=0.25, noise_multiplier=1e4)
    rows, local = np.tile([0.9, 0, 0, 0], (30, 1)), Local(noisy, federation)
    chosen = {
        int(np.frombuffer(local.encode(make_clients(noisy, rows)[0].contribution(WEIGHTS, 0), ()), "<u4", 1)[0])
        for _ in range(60)
    }
    assert chosen == {0, 1, 2, 3}, "the choice must show the noise, not the data"


def test_local_steps_lead_the_same_way_as_descent_without_noise():
    terms = make_terms("local", local_steps=3, local_learning_rate=0.5, clips=10.0, client_weights=(0.5, 0.25, 0.25))
    rows = short_rows()
    parts = np.array_split(rows, 3)
    expected = np.zeros(DIMENSION)
    for part, weight in zip(parts, terms.client_weights):
        current = np.zeros(DIMENSION)
        for _ in range(3):
            current -= 0.5 * (part - current).sum(axis=0) / (30 * weight)
        expected -= weight * current
    np.testing.assert_allclose(mean_of_round(terms, rows, pull=True).gradient, expected, atol=1e-5)


# The unit client.
CLIENT = {"unit": "client", "records": 3, "batch_size": 3.0, "local_learning_rate": 0.5, "local_steps": 2}


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_updates_of_clients_are_averaged(aggregation):
    rows = short_rows()
    terms = make_terms(aggregation, **CLIENT, clips=100.0)
    expected = -np.mean([[-0.5 * part.mean(axis=0) * 2] for part in np.array_split(rows, 3)], axis=0)[0]
    np.testing.assert_allclose(mean_of_round(terms, rows).gradient, expected, atol=1e-5)


def test_public_weights_weigh_the_update_before_it_is_clipped():
    weights, rows = (0.6, 0.3, 0.1), np.repeat(np.eye(DIMENSION)[:3], 10, axis=0)
    free = mean_of_round(make_terms(**CLIENT, clips=100.0, client_weights=weights), rows)
    np.testing.assert_allclose(free.gradient, [0.6, 0.3, 0.1, 0], atol=1e-5)
    bound = mean_of_round(make_terms(**CLIENT, clips=0.5, client_weights=weights), rows)
    np.testing.assert_allclose(bound.gradient, np.array([0.5, 0.5, 0.3, 0]) / 3, atol=1e-5)


def test_batches_of_local_steps_hold_the_records_asked_for():
    sizes = []

    class Counting(RowsAsGradients):
        def rows(self, weights, features, labels):
            sizes.append(len(features))
            return super().rows(weights, features, labels)

    rows = ArrayRows(short_rows(10), np.zeros(10), Counting())
    rows.update(WEIGHTS, 5, 0.1, 4)
    assert sizes == [4] * 5


def test_a_client_takes_part_by_a_secret_coin_of_its_own():
    terms = make_terms(**{**CLIENT, "batch_size": 1.5}, clips=100.0)
    client = make_clients(terms, np.ones((30, DIMENSION)))[0]
    taken = [abs(client.contribution(WEIGHTS, 0).content[0]) > 1e6 for _ in range(200)]
    assert 60 < sum(taken) < 140


def test_an_update_of_nan_counts_as_zero():
    terms = make_terms(**CLIENT)
    rows = short_rows()
    rows[:10] = np.nan
    assert np.isfinite(mean_of_round(terms, rows).gradient).all()


# What clients refuse.


def test_weights_that_diverged_are_refused():
    client = make_clients(make_terms(), short_rows())[0]
    with pytest.raises(NotFinite, match="The weights hold NaN or an infinity"):
        client.contribution(np.array([0, np.nan, 0, 0]), 0)
    with pytest.raises(InvalidTerms, match=r"shape of weights must be \(4,\), got \(3,\)."):
        client.contribution(np.zeros(3), 0)


def test_terms_without_noise_and_rows_that_do_not_fit_are_refused():
    rows = ArrayRows(short_rows(10), np.zeros(10), RowsAsGradients())
    with pytest.raises(InvalidTerms, match="noise_multiplier must be given before a client sends.*, got None"):
        Client(rows, make_terms().with_noise())
    with pytest.raises(InvalidTerms, match="position must be below the number of clients, 3, got 3."):
        Client(rows, make_terms(), position=3)
    with pytest.raises(InvalidTerms, match="client_records says 20 for client 0, but it has 10."):
        Client(rows, make_terms("shuffle", client_records=(20, 5, 5)))


def test_rows_that_report_more_sensitivity_than_the_clip_are_refused():
    class Unbounded:
        private = True

        def gradient_sum(self, weights, clip, sampling_probability, scales, indicators):
            return clip_records(np.ones((1, DIMENSION)), clip * 1.01)

    class Long:
        private = True

        def gradient_sum(self, weights, clip, sampling_probability, scales, indicators):
            return ClippedSum(np.zeros(DIMENSION + 1, dtype=np.int64), grid_for(clip), clip)

    for rows in (Unbounded(), Long()):
        with pytest.raises(InvalidTerms, match="The clipped sum must have . coordinates and a sensitivity"):
            Client(rows, make_terms()).contribution(WEIGHTS, 0)


def test_a_client_knows_whether_its_randomness_is_its_own():
    terms = make_terms()
    clients = make_clients(terms, short_rows(), rng=ReproducibleStream(1)), make_clients(terms, short_rows())
    assert [group[0].private for group in clients] == [False, True]
    half = Client(ArrayRows(short_rows(), np.zeros(30), RowsAsGradients(), ReproducibleStream(1)), terms)
    assert not half.private


# The private clip.


@settings(max_examples=80, deadline=None)
@given(
    rows=arrays(np.float64, (3, 4), elements=st.floats(-1e200, 1e200) | st.sampled_from([np.nan, np.inf, 0.0])),
    clip=st.floats(1e-3, 1e3),
)
def test_a_record_moves_gradient_and_indicator_together_by_at_most_the_joint_clip(rows, clip):
    whole, fewer = with_indicators(rows, clip), with_indicators(rows[1:], clip)
    moved = np.linalg.norm((whole.steps - fewer.steps).astype(float))
    assert moved <= whole.sensitivity_in_steps(ADD_OR_REMOVE)
    assert whole.clip == joint_clip(clip) and whole.clip**2 >= clip**2 + (WEIGHT * clip / 2) ** 2
    assert np.linalg.norm(whole.value[:4] - fewer.value[:4]) <= clip * (1 + 1e-6)


def test_the_share_below_is_found_again():
    rows = np.array([[0.5, 0, 0, 0]] * 3 + [[2.0, 0, 0, 0]] + [[np.nan, 0, 0, 0]] * 2)
    total = with_indicators(rows, 1.0)
    assert share_below(float(total.value[-1]), 1.0, 4) == pytest.approx(0.75, abs=1e-6)
    assert total.value[0] == pytest.approx(2.5, abs=1e-6)
    assert share_below(-1e9, 1.0, 4) == 0.0 and share_below(1e9, 1.0, 4) == 1.0
    assert with_indicators(np.zeros((0, 4)), 1.0).steps.tolist() == [0] * 5


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
def test_the_round_returns_gradient_and_share(aggregation):
    rows = np.concatenate([np.tile([0.5, 0, 0, 0], (18, 1)), np.tile([0, 2.0, 0, 0], (12, 1))])
    mean = mean_of_round(make_terms(aggregation, clip_quantile=0.5), rows)
    assert mean.share_below == pytest.approx(0.6, abs=1e-4)
    np.testing.assert_allclose(mean.gradient, [0.3, 0.4, 0, 0], atol=1e-5)


def test_the_clip_goes_to_the_quantile_and_stays_near_the_first_one():
    norms, clip = np.linspace(0, 10, 1001), 0.1
    for _ in range(200):
        clip = next_clip(clip, float((norms <= clip).mean()), 0.3, 0.1)
    assert clip == pytest.approx(3.0, rel=0.02)
    assert next_clip(1e-30, 1.0, 0.5, 1.0) == 2.0**-20 and next_clip(1e30, 0.0, 0.5, 1.0) == 2.0**20
