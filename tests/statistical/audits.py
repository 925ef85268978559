"""Audits of every mechanism, each beside a control without privacy: functions that return an ``Audit``.

The claim is the epsilon that the accountant gives for the event that the mechanism itself emits. All runs of an audit
draw from one reproducible stream, so that a result is always the same; the event is that of a run on real entropy.
"""

from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.gaussian import gaussian_epsilon
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.auditing.bounds import guess_coins
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Event, RandomizedResponse
from fate_dp.privacy.labels import flips as label_flips
from fate_dp.privacy.mechanisms import (
    aggregates,
    clipping,
    dummy_count,
    exponential,
    gaussian,
    laplace,
    local_numbers,
    randomized_response,
    sampling,
)
from fate_dp.privacy.mechanisms import exponential as report_noisy_max
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.distinguishing import audit_claim, audit_guesses, epsilon_lower_bound, mu_lower_bound

SEED = 20230515
DELTA = 1e-6
CONFIDENCE = 1 - 1e-6
RUNS = 2000
EPSILON = 2.0
CLIP = 0.5
EPOCHS = 9
STATED = dict(relation=REPLACE_ONE, observers="host")


def stated_epsilon(event, delta=DELTA, count=1):
    """What the project claims for ``count`` releases of ``event``."""
    accountant = make_accountant("pld", event.relation)
    accountant.compose(event, count)
    return accountant.epsilon(delta)


def epsilon_attack(first, second, delta=DELTA, rounds=1):
    """The distinguishing game; a mechanism is a function (input, number of runs, stream) -> scores.

    :param rounds: how many times ``RUNS`` it takes.
    """

    def attack(mechanism):
        return epsilon_lower_bound(*_scores(mechanism, first, second, rounds * RUNS), delta, CONFIDENCE)

    return attack


def gaussian_attack(first, second):
    """The same for mechanisms that are claimed to be Gaussian, with the found mu turned into epsilon."""

    def attack(mechanism):
        mu = mu_lower_bound(*_scores(mechanism, first, second, RUNS), CONFIDENCE)
        return gaussian_epsilon(1 / mu, DELTA) if mu else 0.0

    return attack


def _scores(mechanism, first, second, runs):
    stream = ReproducibleStream(SEED)
    return [mechanism(data, runs, stream) for data in (first, second)]


def run_by_run(release):
    """A mechanism in the form of an attack, from a function (input, stream) -> score of one run."""
    return lambda data, runs, stream: np.array([release(data, stream) for _ in range(runs)], dtype=float)


def without_privacy(score):
    """A control, from a function input -> score."""
    return lambda data, runs, _: np.full(runs, score(data), dtype=float)


def audit_of(release, first, second, attack=epsilon_attack, score=float, control=float):
    """Audit of a function (input, stream) -> ``Release``, claimed at the epsilon of its own event.

    :param score: released value -> number.
    :param control: input -> the score without privacy.
    """
    claimed = stated_epsilon(release(first, None).event)
    mechanism = run_by_run(lambda data, stream: score(release(data, stream).value))
    return audit_claim(attack(first, second), mechanism, without_privacy(control), claimed)


def fair_coins(count):
    return np.where(np.random.default_rng(SEED).random(count) < 0.5, 1, -1)


def memoised_flips():
    """One run on many labels, each a coin: the host sees the labels in every epoch and takes the majority."""
    coins = fair_coins(1500)
    match_ids = [f"id-{position}" for position in range(len(coins))]

    def flips(labels):
        return label_flips.flip_labels(match_ids, labels, EPSILON, 2, b"a key of the audit, and fixed", "a/b/y")

    def attack(mechanism):
        ones = sum(mechanism((coins + 1) // 2) for _ in range(EPOCHS))
        return audit_guesses(coins, np.where(ones > EPOCHS / 2, 1, -1), 0.0, CONFIDENCE)

    claimed = stated_epsilon(Event(RandomizedResponse(EPSILON), "label", REPLACE_ONE, "host"))
    return audit_claim(attack, flips, lambda labels: labels, claimed)


def fresh_randomized_response():
    """Five classes; the score tells the two that the neighbours hold apart."""

    def flips(index, runs, stream):
        return _ends(randomized_response.flip_indices(np.full(runs, index), EPSILON, 5, stream), 4)

    return audit_claim(epsilon_attack(0, 4), flips, without_privacy(lambda index: _ends(index, 4)), EPSILON)


def grid_answers():
    points = [0.0, 1.0, 3.0]

    def answers(value, runs, stream):
        values = np.full(runs, value)
        release = randomized_response.grid_randomized_response(values, points, EPSILON, observers="server", rng=stream)
        return _ends(release.value, 2)

    return audit_claim(epsilon_attack(0.0, 3.0), answers, without_privacy(float), EPSILON)


def shuffled_messages():
    """Whoever sees shuffled bits sees how many are 1; all senders but one hold a 0."""
    senders, delta = 20, 0.1
    claimed = shuffle_epsilon(EPSILON, senders, delta, "randomized_response")

    def ones(bit, runs, stream):
        bits = np.zeros((10 * runs, senders), dtype=np.int64)
        bits[:, 0] = bit
        return randomized_response.flip_indices(bits, EPSILON, 2, stream).sum(axis=1)

    return audit_claim(epsilon_attack(0, 1, delta), ones, without_privacy(float), claimed)


def duchi_vectors():
    """Two opposite vectors; all that an answer says is on which side of the plane between them it lies."""

    def answers(sign, runs, stream):
        vectors = np.full((runs, 3), [sign, 0.0, 0.0])
        return np.sign(local_numbers.duchi_l2(vectors, 1.0, EPSILON, observers="server", rng=stream).value[:, 0])

    return audit_claim(epsilon_attack(-1.0, 1.0), answers, without_privacy(float), EPSILON)


def piecewise_numbers():
    """The two ends of the range on a grid of two points, where odds are as far apart as they may be."""

    def answers(value, runs, stream):
        values = np.full(runs, value)
        return local_numbers.piecewise_mechanism(
            values, (0.0, 1.0), EPSILON, bins=2, observers="host", rng=stream
        ).value

    return audit_claim(epsilon_attack(0.0, 1.0), answers, without_privacy(float), EPSILON)


def hidden_count():
    """A count of 7 or 8, seen with the dummies."""
    pool = dummy_count.pool_size(EPSILON, DELTA)

    def seen(count, runs, stream):
        return np.array([count + dummy_count.draw_dummy_count(EPSILON, pool, stream) for _ in range(runs)], float)

    claimed = stated_epsilon(dummy_count.dummy_count_event(EPSILON, pool, **STATED))
    return audit_claim(epsilon_attack(7, 8), seen, without_privacy(float), claimed)


def _ends(index, last):
    return np.where(index == last, 1, 0) - np.where(index == 0, 1, 0)


def geometric_counts():
    def release(count, stream):
        return laplace.geometric_mechanism(count, 1, EPSILON, **STATED, rng=stream)

    return audit_of(release, 7, 8)


def laplace_number():
    def release(value, stream):
        return laplace.laplace_mechanism(value, 0.5, EPSILON, **STATED, rng=stream)

    return audit_of(release, 0.25, 0.75)


def mean_of_clamped():
    """Ten values; one of them lies far outside the range, on either side."""

    def release(value, stream):
        return aggregates.private_mean([0.5] * 9 + [value], 0.0, 1.0, EPSILON, observers="host", rng=stream)

    return audit_of(release, -1000.0, 1000.0)


def mean_of_disjoint_parts():
    """The estimator is as sensitive as can be: one record decides the answer of its part."""

    def release(value, stream):
        return aggregates.sample_and_aggregate(
            [value, 0.0, 0.0], max, parts=2, epsilon=EPSILON, lower=0.0, upper=1.0, observers="host", rng=stream
        )

    return audit_of(release, 0.0, 1000.0)


def median_of_clamped():
    """Between 0.8 and 1 candidates gain, below 0.8 they lose, by two ranks each: the worst case."""

    def release(values, stream):
        return aggregates.private_median(values, 0.0, 1.0, EPSILON, observers="host", rng=stream)

    with weights_computed_once():
        return audit_of(
            release,
            [0.0, 0.0, 0.8, 1.0],
            [0.0, 0.8, 1.0, 1.0],
            partial(epsilon_attack, rounds=2),
            score=lambda median: median > 0.8,
            control=np.sum,
        )


def exponential_choice():
    """All scores move against the chosen one, by the sensitivity: the worst case."""

    def choose(scores, stream):
        return exponential.exponential_mechanism(scores, EPSILON, 1.0, rng=stream) == 0

    claimed = stated_epsilon(exponential.exponential_event(EPSILON, len(OPPOSITE_SCORES[0]), **STATED))
    with weights_computed_once():
        attack = epsilon_attack(*OPPOSITE_SCORES, rounds=2)
        return audit_claim(attack, run_by_run(choose), without_privacy(_is_first_best), claimed)


@contextmanager
def weights_computed_once():
    """The exponential mechanism's weights of one input are the same in every run, and slow: no run repeats them."""
    weights, known = exponential.exponential_weights, {}

    def weights_once(scores, *parameters):
        key = np.asarray(scores).tobytes()
        if key not in known:
            known[key] = weights(scores, *parameters)
        return known[key]

    with patch.object(exponential, "exponential_weights", weights_once):
        yield


def noisy_max():
    def choose(scores, stream):
        return report_noisy_max.report_noisy_max(scores, EPSILON, 1.0, **STATED, rng=stream)

    return audit_of(choose, *OPPOSITE_SCORES, score=lambda index: index == 0, control=_is_first_best)


OPPOSITE_SCORES = ([1.0] + [0.0] * 4, [0.0] + [1.0] * 4)


def _is_first_best(scores):
    return np.argmax(scores) == 0


# One record far beyond the clip joins three others, or is replaced by its opposite.
OTHERS = np.array([[0.1, -0.2], [3.0, 1.0], [0.0, 0.3]])
FAR = np.array([60.0, 80.0]) * CLIP
DIRECTION = FAR / np.linalg.norm(FAR)
NEIGHBOURS = {
    ADD_OR_REMOVE: (OTHERS, np.vstack([OTHERS, FAR])),
    REPLACE_ONE: (np.vstack([OTHERS, -FAR]), np.vstack([OTHERS, FAR])),
}


def gaussian_sum(relation):
    def release(gradients, stream):
        clipped = clipping.clip_records(gradients, CLIP)
        return gaussian.gaussian_mechanism(clipped, 0.6, relation=relation, observers="server", rng=stream)

    return audit_of(
        release,
        *NEIGHBOURS[relation],
        gaussian_attack,
        score=DIRECTION.__matmul__,
        control=lambda gradients: DIRECTION @ gradients.sum(axis=0),
    )


def gaussian_sum_add_or_remove():
    return gaussian_sum(ADD_OR_REMOVE)


def gaussian_sum_replace_one():
    return gaussian_sum(REPLACE_ONE)


def grouped_gaussian_sum():
    """The score weighs each group by its clip over its variance: the best test there is."""
    clips, sigmas = (CLIP, 3 * CLIP), (0.75 * CLIP, 3 * CLIP)
    weights = np.array([clip / sigma**2 for clip, sigma in zip(clips, sigmas)])

    def release(gradients, stream):
        clipped = clipping.clip_records_by_group(gradients, [[0], [1]], clips)
        return gaussian.grouped_gaussian_mechanism(
            clipped, sigmas, relation=ADD_OR_REMOVE, observers="server", rng=stream
        )

    return audit_of(
        release,
        *NEIGHBOURS[ADD_OR_REMOVE],
        gaussian_attack,
        score=weights.__matmul__,
        control=lambda gradients: weights @ gradients.sum(axis=0),
    )


def sampled_gaussian_sum():
    """One record or none, at a large delta: what reveals a record at a small one is too rare for so few runs."""
    probability, delta = 0.9, 0.1

    def release(gradients, stream):
        batch = sampling.poisson_sample(len(gradients), probability, stream)
        clipped = clipping.clip_records(gradients[batch], CLIP)
        return gaussian.gaussian_mechanism(
            clipped, 0.6, relation=ADD_OR_REMOVE, observers="server", sampling_probability=probability, rng=stream
        )

    claimed = stated_epsilon(release(FAR[None], None).event, delta)
    return audit_claim(
        epsilon_attack(np.empty((0, 2)), FAR[None], delta),
        run_by_run(lambda gradients, stream: DIRECTION @ release(gradients, stream).value),
        without_privacy(lambda gradients: DIRECTION @ gradients.sum(axis=0)),
        claimed,
    )


def trained_model():
    """One run of noisy training with many canaries, seen step by step; the others are records of a regression.

    Every canary has a feature of its own and a target far beyond the clip, so its score is what all the noisy gradients
    say along that feature.
    """
    steps, coins, generator = 4, fair_coins(2000), np.random.default_rng(SEED)
    others = np.hstack([generator.normal(size=(50, 5)), np.zeros((50, len(coins)))])
    canaries = np.hstack([np.zeros((len(coins), 5)), np.eye(len(coins))])
    features = np.vstack([others, canaries[coins == 1]])
    targets = np.concatenate([others[:, :5].sum(axis=1), np.full((coins == 1).sum(), 1000.0)])

    def step(weights, stream):
        residuals = features @ weights - targets
        clipped = clipping.clip_records(residuals[:, None] * features, CLIP)
        return gaussian.gaussian_mechanism(clipped, 2.4, relation=ADD_OR_REMOVE, observers="model", rng=stream)

    def train(mechanism):
        weights, seen, stream = np.zeros(features.shape[1]), np.zeros(features.shape[1]), ReproducibleStream(SEED)
        for _ in range(steps):
            gradient = mechanism(weights, stream)
            weights, seen = weights - 0.01 * gradient, seen - gradient
        return audit_guesses(coins, guess_coins(seen[5:], 150, 150), DELTA, 0.95)

    def without_noise(weights, _):
        return (features @ weights - targets) @ features

    claimed = stated_epsilon(step(np.zeros(features.shape[1]), None).event, count=steps)
    return audit_claim(train, lambda weights, stream: step(weights, stream).value, without_noise, claimed)


AUDITS = {
    audit.__name__: audit
    for audit in (
        memoised_flips,
        fresh_randomized_response,
        grid_answers,
        shuffled_messages,
        duchi_vectors,
        piecewise_numbers,
        hidden_count,
        geometric_counts,
        laplace_number,
        mean_of_clamped,
        mean_of_disjoint_parts,
        median_of_clamped,
        exponential_choice,
        noisy_max,
        gaussian_sum_add_or_remove,
        gaussian_sum_replace_one,
        grouped_gaussian_sum,
        sampled_gaussian_sum,
        trained_model,
    )
}
