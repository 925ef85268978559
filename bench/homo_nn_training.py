"""Training over many clients in one process, on features in files that several processes share."""

import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench.homo_nn_pictures import CLASSES, TEST, TRAIN
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.protocols.noisy_rounds.terms import RECORD
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

MOMENTUM = 0.9


class Held:
    """Rows of a shared array that one client holds, read when they are asked for."""

    def __init__(self, rows, places):
        self._rows, self._places = rows, places

    def __len__(self):
        return len(self._places)

    def __getitem__(self, chosen):
        return self._rows[self._places[chosen]]


def train(folder, terms, learning_rate, seed, tick=None):
    """Softmax regression on the records in ``folder``; returns the accuracy on its test records, measured at the end.

    :param terms: calibrated ``RoundTerms``.
    :param seed: of the division of the records over the clients; noise and samples have no seed.
    :param tick: None, or called after every round.
    """
    gradients, clients, server = parties(folder, terms, learning_rate, seed)
    progress = None if tick is None else lambda round_number, server: tick()
    weights = simulate(terms, clients, server, Transport(terms), progress)
    features, labels = stored(folder, TEST)
    return float((gradients.scores(weights, features).argmax(axis=1) == labels).mean())


def parties(folder, terms, learning_rate, seed):
    """(``RecordGradients``, one ``Client`` per part of the training records that the terms speak of, ``Server``)."""
    features, labels = stored(folder, TRAIN)
    module = build_model(ModelSpec("logistic_regression", features.shape[1], CLASSES))
    gradients = RecordGradients(module)
    # A division of public data that takes the place of clients: nothing that protects anything.
    order = np.random.default_rng(seed).permutation(len(labels))
    if terms.unit == RECORD:
        order = order[: terms.records]
    clients = [
        Client(ArrayRows(Held(features, places), labels[places], gradients), terms, position=position)
        for position, places in enumerate(np.array_split(order, terms.clients))
    ]
    optimizer = {"method": "sgd", "optimizer_params": {"lr": learning_rate, "momentum": MOMENTUM}}
    return gradients, clients, Server(terms, flat_weights(module), optimizer)


def round_seconds(folder, terms, learning_rate, tick=lambda: None):
    """Seconds, on one core, of the first round: {"clients": what all compute, "plain" and "masked": the way of their
    messages to the new weights, without and with masks over all pairs of clients; "keys": agreeing on these}.
    """
    _, clients, server = parties(folder, terms, learning_rate, seed=0)
    clients[0].contribution(server.weights, 0)
    seconds, transports = {}, {}
    with _measured(seconds, "clients"):
        contributions = [client.contribution(server.weights, 0) for client in clients]
    with _measured(seconds, "keys"):
        transports["masked"] = Transport(terms, encrypted=True)
    transports["plain"] = Transport(terms)
    for name, transport in transports.items():
        with _measured(seconds, name):
            server.step(transport.deliver(contributions))
        tick()
    return seconds


@contextmanager
def _measured(seconds, name):
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def stored(folder, part):
    """(features, labels) of a part; training features, which processes share, are a file mapped into memory."""
    mapped = "r" if part == TRAIN else None
    return np.load(path_of(folder, part, "features"), mmap_mode=mapped), np.load(path_of(folder, part, "labels"))


def shape_of(folder):
    """(records, features) of the training part."""
    return np.load(path_of(folder, TRAIN, "features"), mmap_mode="r").shape


def path_of(folder, part, kind):
    """File of the ``features`` or the ``labels`` of a part."""
    return Path(folder) / f"{part}_{kind}.npy"
