"""Audits of whole trainings of ``dp_homo_nn``, each beside a control without noise: functions that return an ``Audit``.

A training runs as in a simulation: clients, transport and server of the product. Canaries are records of a logistic
regression with a feature of their own, so large that their gradients lie beyond the clip along one coordinate. The
claim is what ``account`` says of the terms. All noise comes from one reproducible stream, so that a result is always
the same.

*One canary*: many short trainings with and without it (or with its opposite), an ``epsilon_lower_bound`` between them.
*Many canaries*: one training in which every canary takes part by a coin of its own. Other
records protect nobody, since an observer may know them, so there are none but where they are meant to amplify.
"""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.dp_homo_nn.rounds import client
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds import aggregation
from fate_dp.components.protocols.noisy_rounds.account import collusion_events, epsilon_of
from fate_dp.components.protocols.noisy_rounds.terms import LOCAL, SECURE_SUM, SHUFFLE, RoundTerms
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.auditing.bounds import guess_coins
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms import gaussian
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.distinguishing import audit_claim, audit_guesses, epsilon_lower_bound
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

SEED = 20210910
CONFIDENCE = 1 - 1e-4
# One run of few guesses proves less.
ONE_RUN_CONFIDENCE = 0.99
CLIP = 0.5
# What reveals a record at a small delta is too rare for so few trainings.
DELTA = 0.1
# Of 40 lanes each, for add-or-remove.
LANES, TRAININGS, CONTROL_TRAININGS = 40, 80, 20
# A canary's feature. Steps are so short that no label is ever predicted so well that a gradient falls below the clip.
FAR = 1000.0
SLOW = {"method": "sgd", "optimizer_params": {"lr": 1e-3}}


class Observed:
    """A transport that keeps what one observer sees of every round, and hands on what the server needs.

    :param view: function of (contributions, ``NoisyMean``, terms) -> what is kept.
    """

    def __init__(self, terms, view, encrypted=False):
        self.terms, self.seen = terms, []
        self._view, self._transport = view, Transport(terms, encrypted)

    def check_ready(self, positions, round_number):
        self._transport.check_ready(positions, round_number)

    def deliver(self, contributions, lost=frozenset()):
        mean = self._transport.deliver(contributions, lost)
        self.seen.append(self._view(contributions, mean, self.terms))
        return mean


def sum_of_others(contributions, mean, terms):
    """``secure_sum``: what the last client learns from the mean and its own contribution."""
    own = contributions[-1]
    grid = aggregation.grid_for(own.clip)
    return mean.gradient * terms.batch_size - own.content * grid


def messages_of_clients(contributions, mean, terms):
    """``local``: the server sees each message; so does a shuffler that collaborates with it in ``shuffle``."""
    return [np.array(each.content) for each in contributions]


def answers_of_others(contributions, mean, terms):
    """``shuffle``: the last client knows its own answers, so the sum of the others' is left."""
    return sum(each.content.sum(axis=0) for each in contributions[:-1])


def logistic_regression(features):
    return RecordGradients(build_model(ModelSpec("logistic_regression", features, 2)))


def train(terms, records, gradients, view, stream, encrypted=False):
    """One training; returns what was seen in each round.

    :param records: (features, labels) of each client.
    """
    clients = [
        Client(ArrayRows(features, labels, gradients, stream), terms, stream, position)
        for position, (features, labels) in enumerate(records)
    ]
    transport = Observed(terms, view, encrypted)
    simulate(terms, clients, Server(terms, np.zeros(terms.dimension), SLOW), transport)
    return transport.seen


def terms_of(trust, clients, records, **others):
    given = dict(
        unit="record",
        clients=clients,
        max_dropouts=1,
        rounds=2,
        batch_size=0.9 * records,
        records=records,
        clips=(CLIP,),
        dimension=2,
        delta=DELTA,
    )
    return RoundTerms(aggregation=trust, **{**given, **others})


def record(feature, label, features=1):
    """One record, (features, labels), with one feature that is not zero."""
    return np.full((1, features), feature, dtype=np.float32), np.array([label], dtype=np.int64)


def one_canary(terms, view, score, noise, runs):
    """Audit from many trainings, with and without a canary in each of ``LANES`` features, by a coin of its own.

    Features are lanes of one training: noise and samples of one lane are independent of those of all others, and what
    canaries share, the bias, moves no gradient that is clipped along its feature. So every lane is a run.

    :param score: function of what was seen in a training -> a number per lane.
    :param noise: (module, name of its sampler, a replacement without noise), for the control.
    """
    gradients = logistic_regression(LANES)
    nobody = np.zeros((0, LANES), dtype=np.float32), np.zeros(0, dtype=np.int64)

    def attack(trainings):
        stream, coins = ReproducibleStream(SEED), np.random.default_rng(SEED).random((trainings, LANES)) < 0.5
        found = []
        for present in coins:
            canaries = FAR * np.eye(LANES, dtype=np.float32)[present], np.ones(present.sum(), dtype=np.int64)
            found.append(score(train(terms, [canaries] + [nobody] * (terms.clients - 1), gradients, view, stream)))
        found = np.array(found)
        return epsilon_lower_bound(found[coins], found[~coins], terms.delta, CONFIDENCE)

    return audit_of_training(attack, noise, epsilon_of(terms, terms.delta, ADD_OR_REMOVE), runs, CONTROL_TRAININGS)


def audit_of_training(attack, noise, claimed, runs=1, control_runs=1):
    """``audit_claim`` of the product as it is, against itself with its sampler replaced; that takes fewer runs."""
    module, name, silent = noise

    def lower_bound(is_control):
        if not is_control:
            return attack(runs)
        with patch.object(module, name, silent):
            return attack(control_runs)

    return audit_claim(lower_bound, False, True, claimed)


def _zeros(scale, size, rng=None):
    return np.zeros(size, dtype=np.int64)


def _clipped_alone(rows, clip, epsilon0, **_):
    return SimpleNamespace(value=rows * np.minimum(1, clip / np.linalg.norm(rows, axis=1, keepdims=True)))


SILENT_SUM = (aggregation, "discrete_gaussian", _zeros)
SILENT_MESSAGE = (gaussian, "discrete_gaussian", _zeros)
SILENT_ANSWER = (client, "duchi_l2", _clipped_alone)


def secure_sum_one_canary():
    """Seen by the last of three clients, whose own noise does not protect anybody from it."""
    terms = terms_of(SECURE_SUM, 3, 10, noise_multiplier=1.0, dimension=LANES + 1)
    return one_canary(terms, sum_of_others, along_lanes, SILENT_SUM, TRAININGS)


def local_one_canary():
    """Seen by the server."""
    terms = terms_of(LOCAL, 2, 10, noise_multiplier=1.0, dimension=LANES + 1)

    def score(seen):
        return along_lanes([messages[0] for messages in seen])

    return one_canary(terms, messages_of_clients, score, SILENT_MESSAGE, TRAININGS)


def along_lanes(seen):
    """The canaries' label is 1, so their gradients point down their features."""
    return -sum(each[:-1] for each in seen)


def shuffle_one_canary():
    """A client per canary, each seen by all others with the server: nothing is amplified."""
    clients = 200
    colluding = dict(max_dropouts=clients - 1, colluding=clients - 1)
    terms = terms_of(SHUFFLE, clients, clients, batch_size=clients, epsilon0=1.0, **colluding)
    gradients, coins = logistic_regression(1), fair_coins(clients)
    records = [record(FAR, (coin + 1) // 2) for coin in coins]

    def attack(trainings):
        stream, found = ReproducibleStream(SEED), []
        for _ in range(trainings):
            rounds = train(terms, records, gradients, messages_of_clients, stream)
            found.append(-sum(np.sign(np.concatenate(messages)[:, 0]) for messages in rounds))
        found = np.array(found)
        first, second = found[:, coins == 1], found[:, coins == -1]
        return epsilon_lower_bound(first.ravel(), second.ravel(), terms.delta, CONFIDENCE)

    return audit_of_training(attack, SILENT_ANSWER, epsilon_of(terms, terms.delta, REPLACE_ONE), 4, 2)


def shuffle_one_canary_among_many():
    """So many honest messages that they amplify; that bound is far above what so few trainings can find."""
    terms = terms_of(SHUFFLE, 3, 330, batch_size=330, rounds=1, epsilon0=0.8, delta=0.01)
    gradients, crowd = logistic_regression(1), (np.zeros((110, 1), dtype=np.float32), np.arange(110) % 2)

    def scores(label, stream, trainings):
        canary = tuple(np.concatenate([canary, others[1:]]) for canary, others in zip(record(FAR, label), crowd))
        runs = (train(terms, [canary, crowd, crowd], gradients, answers_of_others, stream) for _ in range(trainings))
        return [sum(each[0] for each in seen) for seen in runs]

    def attack(trainings):
        stream = ReproducibleStream(SEED)
        first, second = (scores(label, stream, trainings) for label in (0, 1))
        return epsilon_lower_bound(first, second, terms.delta, CONFIDENCE)

    return audit_of_training(attack, SILENT_ANSWER, epsilon_of(terms, terms.delta, REPLACE_ONE), 40, 40)


def many_canaries(terms, view, score, noise, relation, clients, count, encrypted=False):
    """Audit from one training in which each canary has a feature of its own.

    :param clients: how many of the clients, the first ones, hold canaries.
    :param count: number of coins, of which a fifth are guessed.
    :param score: function of what was seen -> a number per canary.
    """
    coins = fair_coins(count)
    gradients = logistic_regression(count)
    shares = np.array_split(np.flatnonzero(coins == 1), clients)
    rows = [(FAR * np.eye(count, dtype=np.float32)[share], np.ones(len(share), dtype=np.int64)) for share in shares]
    nobody = np.zeros((0, count), dtype=np.float32), np.zeros(0, dtype=np.int64)
    records = rows + [nobody] * (terms.clients - clients)
    guesses = count // 10

    def attack(_):
        seen = train(terms, records, gradients, view, ReproducibleStream(SEED), encrypted)
        return audit_guesses(coins, guess_coins(score(seen), guesses, guesses), terms.delta, ONE_RUN_CONFIDENCE)

    return audit_of_training(attack, noise, epsilon_of(terms, terms.delta, relation))


def fair_coins(count):
    return np.where(np.random.default_rng(SEED).random(count) < 0.5, 1, -1)


def secure_sum_many_canaries():
    """With masks; seen by the last of three clients."""
    count = 1500
    terms = terms_of(SECURE_SUM, 3, count, rounds=4, noise_multiplier=2.4, dimension=count + 1, delta=1e-6)
    return many_canaries(
        terms, sum_of_others, lambda seen: -sum(seen)[:count], SILENT_SUM, ADD_OR_REMOVE, 2, count, encrypted=True
    )


def local_many_canaries():
    """Seen by the server; both clients hold canaries, and each one's message is searched for its own."""
    count = 1500
    terms = terms_of(LOCAL, 2, count, rounds=4, noise_multiplier=2.4, dimension=count + 1, delta=1e-6)
    return many_canaries(
        terms,
        messages_of_clients,
        lambda seen: -sum(messages[0] for messages in seen)[:count],
        SILENT_MESSAGE,
        ADD_OR_REMOVE,
        1,
        count,
    )


def shuffle_many_canaries():
    """Seen by a shuffler that collaborates with the server: a client per canary, whose label its coin decides."""
    count, epsilon0 = 600, 2.0
    terms = terms_of(SHUFFLE, count, count, batch_size=count / 2, epsilon0=epsilon0, delta=1e-6)
    coins, gradients = fair_coins(count), logistic_regression(1)
    records = [record(FAR, (coin + 1) // 2) for coin in coins]

    def attack(_):
        messages = train(terms, records, gradients, messages_of_clients, ReproducibleStream(SEED))
        answers = [np.concatenate(of_client) for of_client in zip(*messages)]
        return audit_guesses(coins, np.array([-np.sign(answer[0, 0]) for answer in answers]), 0.0, CONFIDENCE)

    return audit_of_training(attack, SILENT_ANSWER, total_epsilon(collusion_events(terms), 0.0))


AUDITS = {
    audit.__name__: audit
    for audit in (
        secure_sum_one_canary,
        local_one_canary,
        shuffle_one_canary,
        shuffle_one_canary_among_many,
        secure_sum_many_canaries,
        local_many_canaries,
        shuffle_many_canaries,
    )
}
