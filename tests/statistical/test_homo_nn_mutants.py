"""Ways to break the training of ``dp_homo_nn``, each noticed by the audit or the property beside it in ``MUTANTS``.

A mutant is applied from outside and gets pytest's ``monkeypatch``; the product has no switch for any of them. With half
the noise the audits find more than is claimed from one canary under a Gaussian and from many answers; of many canaries
under a Gaussian and of amplified answers they do not find enough for that.
"""

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn import frame_rows, gradients
from fate_dp.components.dp_homo_nn.rounds import client
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds import aggregation
from fate_dp.components.protocols.noisy_rounds.terms import LOCAL, SECURE_SUM, RoundTerms
from fate_dp.privacy.mechanisms import gaussian, randomized_response
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records
from fate_dp.privacy.mechanisms.sampling import random_permutation
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical.homo_nn_training import AUDITS, SLOW, Observed, sum_of_others, terms_of
from tests.statistical.mutants import NO_NOISE, epsilon_times, noise_halved, noise_off
from tests.support import simulated_rounds as simulation
from tests.support.simulated_rounds import BEFORE, ArrayRows, Transport, simulate

pytestmark = pytest.mark.statistical
LIMIT, ENTROPY_LIMIT = 5.0, 7.0
COORDINATES = 4000
RECORDS, PROBABILITY, BATCHES = 60, 0.2, 1500
COINS = 20000


class OneFeature:
    """Stands for ``RecordGradients``: a record's gradient is its features."""

    def __init__(self):
        self.batches = []

    def clipped_sum(self, weights, features, labels, clip, scales=None):
        self.batches.append(labels)
        return clip_records(features, clip)


def client_of(terms, position=0, records=0, rng=None):
    """A client whose records have the gradient of one clip along the first coordinate, labelled by their numbers."""
    features = np.zeros((records, terms.dimension), dtype=np.float32)
    features[:, 0] = terms.clips[0]
    return Client(ArrayRows(features, np.arange(records), OneFeature(), rng), terms, rng, position)


def of_no_records(trust, clients, **others):
    return terms_of(trust, clients, RECORDS, dimension=COORDINATES, noise_multiplier=1.0, **others)


def parties_draw_noise_of_their_own():
    """The noise of three parties adds up like independent noise, in every round anew; each asks for entropy itself."""
    for trust, unit in ((SECURE_SUM, 0.5), (LOCAL, 1.0)):
        terms = of_no_records(trust, 3)
        parties = [client_of(terms, position) for position in range(3)]
        drawn = [
            party.contribution(np.zeros(COORDINATES), number).content.astype(float)
            for party in parties
            for number in range(2)
        ]
        grid = aggregation.grid_for(terms.clips[0]) if trust == SECURE_SUM else 1.0
        assert_variance(sum(drawn) * grid / terms.clips[0], 6 * unit)


def assert_variance(values, expected):
    """Of many independent normal values with mean 0; from real entropy, so the limit is wider than where a seed is set."""
    assert abs(np.mean(np.square(values)) / expected - 1) < ENTROPY_LIMIT * math.sqrt(2 / len(values))


def batches_of_rounds_are_poisson():
    """Over the rounds, sizes have the binomial variance and memberships are independent of each other."""
    terms = terms_of(SECURE_SUM, 2, RECORDS, batch_size=PROBABILITY * RECORDS, rounds=BATCHES, noise_multiplier=1.0)
    party = client_of(terms, records=RECORDS, rng=ReproducibleStream(5))
    for number in range(BATCHES):
        party.contribution(np.zeros(2), number)
    members = np.zeros((BATCHES, RECORDS))
    for row, batch in zip(members, party.rows.gradients.batches, strict=True):
        row[batch] = 1
    assert_poisson(members)


def batches_of_blocks_are_poisson():
    """The same where FATE's engine samples, block by block and by a key: the kernel of ``FrameRows`` alone."""
    members = np.array(
        [
            frame_rows._sum_of_sample(
                BLOCKS, member_counts, RECORDS, frame_rows.Coins(bytes(32), f"sum {number}", PROBABILITY)
            )
            for number in range(BATCHES)
        ]
    )
    assert_poisson(members)


def batches_of_a_task_are_poisson():
    """The same for the sums that one ``FrameRows`` gives in the rounds and steps of its task, which it numbers itself."""
    rows = object.__new__(frame_rows.FrameRows)
    rows._blocks, rows._key, rows._uses = OnePartition(), bytes(32), 0
    sums = [rows._sampled_sum(member_counts, RECORDS, PROBABILITY) for _ in range(BATCHES)]
    assert_poisson(np.array(sums))


class OnePartition:
    """Stands for FATE's table of blocks."""

    def applyPartitions(self, kernel):
        return SimpleNamespace(reduce=lambda _: kernel(BLOCKS))


BLOCKS = [(name, (np.zeros((20, 1)), np.arange(20) + 20 * place)) for place, name in enumerate("abc")]


def coins_of_a_party_are_poisson():
    """With the unit client a party's own coin decides, with the probability that the account has for it."""
    terms = terms_of(
        SECURE_SUM, 2, 2, unit="client", batch_size=1.0, rounds=COINS, noise_multiplier=1.0, local_learning_rate=1.0
    )
    party = client_of(terms, rng=ReproducibleStream(8))
    party.rows = SimpleNamespace(update=lambda weights, *given: np.eye(1, len(weights))[0])
    shown = [party._clipped_update(np.zeros(2), terms.clips[0]).steps.any() for _ in range(COINS)]
    centred = np.array(shown) - terms.sampling_probability
    assert terms.sampling_probability == 0.5
    assert abs(centred.sum()) < LIMIT * math.sqrt(COINS / 4)
    assert abs((centred * np.roll(centred, 1)).sum()) < LIMIT * math.sqrt(COINS) / 4


def member_counts(features, labels):
    return np.bincount(labels, minlength=RECORDS)


def assert_poisson(members):
    """:param members: (BATCHES, RECORDS), 1 where a record is in a batch."""
    spread, sizes = PROBABILITY * (1 - PROBABILITY), members.sum(axis=1)
    assert abs(sizes.mean() - RECORDS * PROBABILITY) < LIMIT * math.sqrt(RECORDS * spread / BATCHES)
    assert abs(sizes.var(ddof=1) / (RECORDS * spread) - 1) < LIMIT * math.sqrt(2 / (BATCHES - 1))
    centred = members - PROBABILITY
    for neighbour in (np.roll(centred, 1, axis=1), np.roll(centred, 20, axis=1), np.roll(centred, 1, axis=0)):
        assert abs((centred * neighbour).sum()) < LIMIT * spread * math.sqrt(centred.size)


def normaliser_is_public():
    """Records of equal gradients: without a public divisor the mean would not show how many took part."""
    terms = terms_of(SECURE_SUM, 2, RECORDS, batch_size=PROBABILITY * RECORDS, noise_multiplier=1e-6)
    stream = ReproducibleStream(6)
    parties = [client_of(terms, records=RECORDS, rng=stream), client_of(terms, 1, rng=stream)]
    path = Transport(terms)
    means = [
        path.deliver([party.contribution(np.zeros(2), number) for party in parties]).gradient[0]
        for number in range(300)
    ]
    sizes = np.array(means) * PROBABILITY * RECORDS / terms.clips[0]
    expected = RECORDS * PROBABILITY * (1 - PROBABILITY)
    assert abs(sizes.var(ddof=1) / expected - 1) < LIMIT * math.sqrt(2 / 299)


def noise_without_those_who_left_suffices():
    """Two of five clients tolerated, one of which fails: what the observing one does not know has the full variance."""
    terms = of_no_records(SECURE_SUM, 5, max_dropouts=2, rounds=1)
    path = Observed(terms, sum_of_others)
    parties = [client_of(terms, position) for position in range(5)]
    start = Server(terms, np.zeros(COORDINATES), SLOW)
    simulate(terms, parties, start, path, failure=lambda position, number: BEFORE if position == 1 else None)
    assert_variance(path.seen[0] / terms.clips[0], 1.0)


def too_few_are_refused_before_anything_leaves():
    for trust in (SECURE_SUM, LOCAL):
        terms = of_no_records(trust, 5, max_dropouts=2, rounds=1)
        with pytest.raises(Exception, match="before anything is sent") as refusal:
            Transport(terms).check_ready([0, 1, 2], 0)
        assert refusal.type.__name__ == "TooFewArrived"
        Transport(terms).check_ready([0, 1, 2, 4], 0)


AUDITS_AND_PROPERTIES = {
    **AUDITS,
    **{
        check.__name__: check
        for check in (
            parties_draw_noise_of_their_own,
            batches_of_rounds_are_poisson,
            batches_of_blocks_are_poisson,
            batches_of_a_task_are_poisson,
            coins_of_a_party_are_poisson,
            normaliser_is_public,
            noise_without_those_who_left_suffices,
            too_few_are_refused_before_anything_leaves,
        )
    },
}


def clip_off(patch):
    """Gradients keep their length, and the sum reports the sensitivity that it would have."""

    class Unclipped(gradients.PartsSum):
        def __init__(self, dimension, clip):
            super().__init__(dimension, clip)
            self._clip, self._promised = math.inf, clip

        def total(self):
            return ClippedSum(super().total().steps, self._grid, self._promised)

    patch.setattr(gradients, "PartsSum", Unclipped)


def generator_is_seeded_alike(patch):
    """Pitfall 9: what FATE does to torch's global generator on every party."""
    patch.setattr(client, "open_stream", lambda rng=None: ReproducibleStream(42))


def batches_of_a_shuffled_loader(patch):
    """Pitfall 2: an order is drawn once per epoch and cut into batches of one size, accounted as Poisson."""
    waiting = []

    def next_batch(records, probability, rng):
        size = round(records * probability)
        if len(waiting) < size:
            waiting[:] = random_permutation(records, rng)
        batch, waiting[:] = np.sort(waiting[:size]), waiting[size:]
        return batch

    patch.setattr(simulation, "poisson_sample", next_batch)


def one_batch_for_ever(patch):
    sample, drawn = simulation.poisson_sample, []

    def repeated(records, probability, rng):
        drawn.append(sample(records, probability, rng))
        return drawn[0]

    patch.setattr(simulation, "poisson_sample", repeated)


def sums_are_not_numbered(patch):
    """All rounds and steps of a task ask for the same coins."""
    sampled = frame_rows.FrameRows._sampled_sum

    def mutated(rows, *given):
        rows._uses = 0
        return sampled(rows, *given)

    patch.setattr(frame_rows.FrameRows, "_sampled_sum", mutated)


def coin_of_a_party_times(factor, patch):
    sample = client.poisson_sample
    patch.setattr(
        client, "poisson_sample", lambda count, probability, stream: sample(count, factor * probability, stream)
    )


def stream_ignores(part, patch):
    """The sample of a round, or of a block, is that of another one."""
    keyed = frame_rows.KeyedStream

    def named_less(key, label):
        words = label.split(" ")
        words[part] = "any"
        return keyed(key, " ".join(words))

    patch.setattr(frame_rows, "KeyedStream", named_less)


def divided_by_the_realised_batch(patch):
    """Pitfall 4: sums are weighted so that the public divisor cancels."""
    gradient_sum = ArrayRows.gradient_sum

    def realised(self, weights, clip, sampling_probability, *more):
        clipped = gradient_sum(self, weights, clip, sampling_probability, *more)
        size = max(1, len(self.gradients.batches[-1]))
        steps = np.rint(clipped.steps * (len(self) * sampling_probability / size))
        return replace(clipped, steps=steps.astype(np.int64))

    patch.setattr(ArrayRows, "gradient_sum", realised)


def shares_for_one_client_too_many(patch):
    """n - t off by one."""
    share = aggregation.noise_share_sigma
    patch.setattr(
        aggregation,
        "noise_share_sigma",
        lambda multiplier, clip, clients, max_dropouts: share(multiplier, clip, clients, max_dropouts - 1),
    )


def one_arrival_too_few(patch):
    patch.setattr(
        RoundTerms, "least_arrivals", property(lambda terms: terms.clients - terms.max_dropouts + terms.colluding - 1)
    )


def observer_counts_as_unknown(patch):
    """n - t arrivals are taken to be enough, though one of them is the observer's own."""
    patch.setattr(RoundTerms, "least_arrivals", property(lambda terms: terms.clients - terms.max_dropouts))


def noise_forgotten_when_one_fails(patch):
    """When a round is computed for those who are left, the first of them sends its sum without noise."""
    deliver = simulation.Transport.deliver

    def mutated(self, contributions, lost=frozenset()):
        if len(contributions) < self.terms.clients:
            bare = replace(contributions[0], content=np.zeros_like(contributions[0].content))
            contributions = [bare, *contributions[1:]]
        return deliver(self, contributions, lost)

    patch.setattr(simulation.Transport, "deliver", mutated)


SUM_NOISE = aggregation, "discrete_gaussian"
MESSAGE_NOISE = gaussian, "discrete_gaussian"
ANSWER_NOISE = randomized_response, "safe_flip_probability", 0
# (what is broken, how, the audit or property that must notice)
MUTANTS = [
    ("noise off", partial(noise_off, *SUM_NOISE), "secure_sum_many_canaries"),
    ("noise off", partial(noise_off, *MESSAGE_NOISE), "local_many_canaries"),
    ("noise off", partial(epsilon_times, NO_NOISE, *ANSWER_NOISE), "shuffle_one_canary"),
    ("noise halved", partial(noise_halved, *SUM_NOISE), "secure_sum_one_canary"),
    ("noise halved", partial(noise_halved, *SUM_NOISE), "noise_without_those_who_left_suffices"),
    ("noise halved", partial(noise_halved, *MESSAGE_NOISE), "local_one_canary"),
    ("noise halved", partial(epsilon_times, 2, *ANSWER_NOISE), "shuffle_many_canaries"),
    ("clip off", clip_off, "secure_sum_one_canary"),
    ("clip off", clip_off, "secure_sum_many_canaries"),
    ("clip off", clip_off, "local_one_canary"),
    ("clip off", clip_off, "local_many_canaries"),
    ("identical noise", generator_is_seeded_alike, "parties_draw_noise_of_their_own"),
    ("shuffled batches", batches_of_a_shuffled_loader, "batches_of_rounds_are_poisson"),
    ("one batch", one_batch_for_ever, "batches_of_rounds_are_poisson"),
    ("one batch", partial(stream_ignores, 1), "batches_of_blocks_are_poisson"),
    ("one batch", sums_are_not_numbered, "batches_of_a_task_are_poisson"),
    ("coin at 1.1 q", partial(coin_of_a_party_times, 1.1), "coins_of_a_party_are_poisson"),
    ("coin at 0.9 q", partial(coin_of_a_party_times, 0.9), "coins_of_a_party_are_poisson"),
    ("one sample for all blocks", partial(stream_ignores, 3), "batches_of_blocks_are_poisson"),
    ("realised batch size", divided_by_the_realised_batch, "normaliser_is_public"),
    ("n - t off by one", shares_for_one_client_too_many, "noise_without_those_who_left_suffices"),
    ("one arrival too few", one_arrival_too_few, "too_few_are_refused_before_anything_leaves"),
    ("observer counted", observer_counts_as_unknown, "too_few_are_refused_before_anything_leaves"),
    ("noise forgotten", noise_forgotten_when_one_fails, "noise_without_those_who_left_suffices"),
]


@pytest.mark.parametrize("name", [name for name in AUDITS_AND_PROPERTIES if name not in AUDITS])
def test_property_holds(name):
    AUDITS_AND_PROPERTIES[name]()


@pytest.mark.parametrize("broken, mutate, check", MUTANTS, ids=[f"{broken}: {check}" for broken, _, check in MUTANTS])
def test_mutant_is_noticed(broken, mutate, check, monkeypatch):
    mutate(monkeypatch)
    if check in AUDITS:
        assert AUDITS[check]().refutes
    else:
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            AUDITS_AND_PROPERTIES[check]()


def test_every_audit_and_property_is_known_to_notice_something():
    """All but one: no mutant of so few messages shows among as many as amplify."""
    assert {check for _, _, check in MUTANTS} == {*AUDITS_AND_PROPERTIES} - {"shuffle_one_canary_among_many"}
