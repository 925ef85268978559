"""The noise and the batches of rounds are those that are charged: right laws pass, and mutants of each are caught."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.protocols.noisy_rounds import aggregation
from fate_dp.components.protocols.noisy_rounds.account import senders
from fate_dp.components.protocols.noisy_rounds.contribution import joint_clip
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.events import ADD_OR_REMOVE
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records, grid_for
from fate_dp.privacy.noise.stream import ReproducibleStream, SystemStream
from tests.support.simulated_rounds import ArrayRows, Transport

pytestmark = pytest.mark.statistical

# Standard deviations; a test that is right fails once in 10^9 runs.
DEVIATIONS = 6
DIMENSION = 4000
TERMS = RoundTerms(
    aggregation="secure_sum",
    unit="record",
    clients=5,
    max_dropouts=2,
    rounds=1,
    batch_size=10.0,
    records=50,
    clips=1.0,
    dimension=DIMENSION,
    delta=1e-5,
    noise_multiplier=2.0,
)


class FeaturesAsGradients:
    def rows(self, weights, features, labels):
        return features

    def clipped_sum(self, weights, features, labels, clip, scales=None):
        return clip_records(features, clip)


def clients_without_data(terms, streams=None):
    rows = np.zeros((10, terms.dimension), dtype=np.float32)
    return [
        Client(ArrayRows(rows, np.zeros(10), FeaturesAsGradients()), terms, streams and streams[k], k)
        for k in range(terms.clients)
    ]


def shares_of(clients):
    """What each client adds to nothing, in units of the clip."""
    weights = np.zeros(clients[0].terms.dimension)
    return [client.contribution(weights, 0).content * grid_for(1.0) for client in clients]


def has_variance(samples, variance):
    """Whether the samples of a centred Gaussian law have it, up to chance."""
    ratio = float(np.mean(np.square(samples))) / variance
    return abs(ratio - 1) < DEVIATIONS * math.sqrt(2 / np.size(samples))


def are_independent(first, second):
    correlation = float(np.mean(first * second)) / math.sqrt(np.mean(first**2) * np.mean(second**2))
    return abs(correlation) < DEVIATIONS / math.sqrt(len(first))


def test_the_shares_that_an_observer_does_not_know_have_the_noise_that_is_charged():
    shares = shares_of(clients_without_data(TERMS))
    unknown = np.sum(shares[2:], axis=0)
    assert has_variance(unknown, 2.0**2)
    for wrong in (2 / 3, 3 / 2):
        assert not has_variance(unknown, 2.0**2 * wrong) and not has_variance(unknown * wrong, 2.0**2)
    assert has_variance(np.sum(shares, axis=0), 2.0**2 * 5 / 3)


def test_forgetting_the_tolerated_clients_is_caught():
    """Shares of variance sigma^2 / n, as if every client came and none knew its own."""
    mutant = [share * math.sqrt(3 / 5) for share in shares_of(clients_without_data(TERMS))]
    assert has_variance(np.sum(mutant, axis=0), 2.0**2) and not has_variance(np.sum(mutant[2:], axis=0), 2.0**2)


def test_no_two_clients_have_equal_noise():
    shares = shares_of(clients_without_data(TERMS))
    again = shares_of(clients_without_data(TERMS))
    for first in range(5):
        assert are_independent(shares[first], again[first])
        for second in range(first):
            assert are_independent(shares[first], shares[second])


def test_identical_noise_at_two_parties_is_caught():
    """As a seed that a framework sets at every party gives it."""
    seeded = [ReproducibleStream(42), ReproducibleStream(42)] + [SystemStream()] * 3
    shares = shares_of(clients_without_data(TERMS, seeded))
    assert not are_independent(shares[0], shares[1]) and are_independent(shares[1], shares[2])
    # Two of five are one, so their sum has four times their variance instead of twice.
    assert not has_variance(np.sum(shares, axis=0), 2.0**2 * 5 / 3)


def test_local_noise_is_each_clients_own_and_whole():
    terms = replace(TERMS, aggregation="local")
    for share in shares_of_local(terms):
        assert has_variance(share, 2.0**2)
        for wrong in (2 / 3, 3 / 2):
            assert not has_variance(share * wrong, 2.0**2)
    first, second, *_ = shares_of_local(terms)
    assert are_independent(first, second)


def shares_of_local(terms):
    return [client.contribution(np.zeros(terms.dimension), 0).content for client in clients_without_data(terms)]


def test_the_private_clip_has_the_same_noise_on_its_indicator():
    terms = replace(TERMS, clip_quantile=0.5, dimension=1)
    clipped = ClippedSum(np.zeros(2, dtype=np.int64), grid_for(joint_clip(1.0)), joint_clip(1.0))
    for draw, variance in (
        (lambda: aggregation.SecureSum.noised(clipped, terms, SystemStream()) * clipped.grid, 2.0**2 / 3),
        (lambda: aggregation.Local.noised(clipped, terms, SystemStream()), 2.0**2),
    ):
        samples = np.array([draw() for _ in range(2500)])
        for coordinate in samples.T:
            assert has_variance(coordinate, variance * joint_clip(1.0) ** 2)
            assert not has_variance(coordinate * 2 / 3, variance) and not has_variance(coordinate * 3 / 2, variance)


def test_noise_that_is_switched_off_is_caught(monkeypatch):
    monkeypatch.setattr(aggregation, "discrete_gaussian", lambda sigma, shape, stream: np.zeros(shape, dtype=np.int64))
    assert not has_variance(np.sum(shares_of(clients_without_data(TERMS)), axis=0), 2.0**2 * 5 / 3)


def test_the_noise_reaches_the_mean():
    """Through masks, decoding and normaliser: the server's mean of nothing has the noise of all five shares."""
    contributions = [client.contribution(np.zeros(DIMENSION), 0) for client in clients_without_data(TERMS)]
    mean = Transport(TERMS, encrypted=True).deliver(contributions).gradient
    assert has_variance(mean, 2.0**2 * 5 / 3 / 10.0**2)


def largest_move(gradients):
    """By how much the sum moves when one huge record is added, in units of what its clip allows."""
    record = np.full((1, 6), 1e6, dtype=np.float32)
    whole = ArrayRows(record, np.zeros(1), gradients).gradient_sum(np.zeros(6), 1.0, 1.0)
    return np.linalg.norm(whole.value) / whole.sensitivity(ADD_OR_REMOVE)


def test_a_record_moves_the_sum_by_its_clip_at_most_and_no_clip_is_caught():
    class Unclipped(FeaturesAsGradients):
        def clipped_sum(self, weights, features, labels, clip, scales=None):
            steps = np.rint(features.astype(float).sum(axis=0) / grid_for(clip)).astype(np.int64)
            return ClippedSum(steps, grid_for(clip), clip)

    assert 0.99 < largest_move(FeaturesAsGradients()) <= 1 < largest_move(Unclipped())


# Batches.
RECORDS, PROBABILITY, DRAWS = 40, 0.25, 3000


def memberships(rows):
    """bool (draws, records): who is in each batch; record i is the i-th unit vector."""
    grid = grid_for(1.0)
    return np.array([rows.gradient_sum(np.zeros(RECORDS), 1.0, PROBABILITY).steps * grid > 0.5 for _ in range(DRAWS)])


def are_poisson(members):
    """Whether sizes vary as a sum of independent coins does, and whether coins of two records are uncorrelated."""
    variance = RECORDS * PROBABILITY * (1 - PROBABILITY)
    sizes = members.sum(axis=1)
    error = math.sqrt(2 / DRAWS) * 1.1
    right_variance = abs(sizes.var() / variance - 1) < DEVIATIONS * error
    right_rate = abs(members.mean() - PROBABILITY) < DEVIATIONS * math.sqrt(PROBABILITY * 0.75 / members.size)
    centred = (members - PROBABILITY) / math.sqrt(PROBABILITY * (1 - PROBABILITY))
    correlations = (centred.T @ centred / DRAWS)[np.triu_indices(RECORDS, 1)]
    # Their mean is -1 / (records - 1) for batches of one size.
    uncorrelated = abs(correlations.mean()) < DEVIATIONS / math.sqrt(DRAWS * len(correlations))
    over_time = np.mean(centred[1:] * centred[:-1])
    return bool(
        right_variance and right_rate and uncorrelated and abs(over_time) < DEVIATIONS / math.sqrt(members.size)
    )


class ShuffledBatches(ArrayRows):
    """Fixed batches of a shuffled pass, as a data loader cuts them: what must not be charged as Poisson."""

    def gradient_sum(self, weights, clip, sampling_probability, scales=None, indicators=False):
        size = round(len(self) * sampling_probability)
        if not getattr(self, "_left", ()):
            self._left = list(np.random.default_rng().permutation(len(self)))
        batch, self._left = self._left[:size], self._left[size:]
        return self.gradients.clipped_sum(weights, self.features[batch], self.labels[batch], clip, scales)


def test_batches_are_poisson_and_a_shuffled_loader_is_caught():
    identity = np.eye(RECORDS, dtype=np.float32)
    assert are_poisson(memberships(ArrayRows(identity, np.zeros(RECORDS), FeaturesAsGradients())))
    assert not are_poisson(memberships(ShuffledBatches(identity, np.zeros(RECORDS), FeaturesAsGradients())))


def test_the_order_of_a_shuffled_epoch_is_secret_and_new_in_every_epoch():
    terms = replace(
        TERMS, aggregation="shuffle", noise_multiplier=None, epsilon0=1.0, records=200, batch_size=50.0, dimension=40
    )
    rows = ArrayRows(np.eye(RECORDS, dtype=np.float32), np.zeros(RECORDS), FeaturesAsGradients())
    firsts = []
    for epoch in range(400):
        sent = [
            rows.gradient_rows(np.zeros(40), senders(terms, 0, 4 * epoch + at), epoch).argmax(axis=1) for at in range(4)
        ]
        assert sorted(np.concatenate(sent)) == list(range(RECORDS))
        firsts.append(sent[0])
    counts = np.bincount(np.concatenate(firsts), minlength=RECORDS)
    assert (np.abs(counts - 100) < DEVIATIONS * math.sqrt(400 * 0.25 * 0.75)).all()


def test_every_partys_own_noise_is_that_of_its_own_multiplier_and_clip():
    own = replace(
        TERMS, aggregation="local", own_noise=(1.0, 2.0, 4.0, 2.0, 3.0), own_clips=(None, None, 0.5, None, 2.0)
    )
    weights = np.zeros(DIMENSION)
    for position, client in enumerate(clients_without_data(own)):
        share = client.contribution(weights, 0).content / own.message_weight(position)
        deviation = own.own_noise[position] * (own.own_clips[position] or 1.0)
        assert has_variance(share, deviation**2)
        for wrong in (2 / 3, 3 / 2):
            assert not has_variance(share * wrong, deviation**2)


def test_every_partys_records_are_sampled_with_its_own_probability():
    records, own = 4000, (0.6, 0.2, 0.4, 0.6, 0.6)
    terms = replace(TERMS, dimension=1, records=5 * records, noise_multiplier=1e-9, own_sampling=own)
    for position, probability in enumerate(own):
        rows = ArrayRows(np.ones((records, 1), dtype=np.float32), np.zeros(records), FeaturesAsGradients())
        client = Client(rows, terms, position=position)
        taken = float(client.contribution(np.zeros(1), 0).content[0] * grid_for(1.0))
        for wrong, accepted in ((1, True), (2 / 3, False), (3 / 2, False)):
            expected = records * probability * wrong
            spread = math.sqrt(expected * (1 - probability * wrong)) if probability * wrong < 1 else 1.0
            assert (abs(taken - expected) < DEVIATIONS * spread + 1) == accepted
