"""Trainings that are compared: uniform noise, scales that fall or rise with contributions, and two published rules.

All run the rounds of ``dp_homo_nn`` in ``secure_sum`` without masks, which change no number. Streams are seeded, so
that a run can be repeated; nothing here is private.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import flat_weights, load_flat
from fate_dp.components.dp_homo_nn.relevance import (
    ContributionSum,
    coordinate_scales,
    first_layer,
    group_sums,
    noise_beside,
)
from fate_dp.components.dp_homo_nn.rounds.client import Client
from fate_dp.components.dp_homo_nn.rounds.server import Server
from fate_dp.components.dp_homo_nn.settings import ADAPTIVE_KEYS
from fate_dp.components.protocols.noisy_rounds.account import round_event
from fate_dp.components.protocols.noisy_rounds.contribution import NoisyMean
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.accounting.calibration import calibrate
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms.sampling import poisson_sample
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import ArrayRows, Transport, simulate

DELTA = 1e-5
MAX_DROPOUTS = 1
POWERS = {"adaptive": -0.5, "opposite": 0.5}
MEDIAN = 0.5
# Added to a preconditioner whose root mean square is 1.
MIN_PRECONDITIONER = 0.3
CONTRIBUTION_SHARE = ADAPTIVE_KEYS["contribution_share"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What a kind of noise costs.

    :param terms: ``RoundTerms`` of all rounds, with noise.
    :param contributions: ``ContributionSum``; None with uniform noise.
    :param epsilons: of everything together under add-or-remove and under replace-one.
    """

    terms: RoundTerms
    contributions: ContributionSum | None
    epsilons: tuple[float, float]

    def phase(self, rounds, scales=None):
        """Terms of some of the rounds, with these scales."""
        return replace(self.terms, rounds=rounds, scales=scales)


def plans_of(task, epsilon):
    """``Plan`` with uniform noise, with adaptive noise and with a clip that follows the norms, all of which meet (epsilon, 1e-5)
    under add-or-remove, by PLD.
    """
    module, settings, records = build_model(task.spec), task.settings, len(task.splits[0][0])
    terms = RoundTerms(
        aggregation="secure_sum",
        unit="record",
        clients=settings.clients,
        max_dropouts=MAX_DROPOUTS,
        rounds=settings.rounds,
        batch_size=settings.batch_size,
        records=records,
        clips=(settings.clip,),
        dimension=len(flat_weights(module)),
        delta=DELTA,
    )
    contributions = _contribution_sum(first_layer(module).groups, settings, records, epsilon * CONTRIBUTION_SHARE)
    return {
        "uniform": _plan(terms, None, epsilon),
        "adaptive": _plan(terms, contributions, epsilon),
        "quantile": _plan(replace(terms, clip_quantile=MEDIAN), None, epsilon),
    }


def _plan(terms, contributions, epsilon):
    def event_of(noise, relation=ADD_OR_REMOVE):
        return round_event(terms.with_noise(noise_multiplier=noise), relation)

    def released(relation):
        return [(contributions.event(relation), 1)] if contributions else []

    noise = noise_beside(released(ADD_OR_REMOVE), event_of, terms.rounds, epsilon, DELTA)
    reached = tuple(
        total_epsilon([*released(relation), (event_of(noise, relation), terms.rounds)], DELTA)
        for relation in (ADD_OR_REMOVE, REPLACE_ONE)
    )
    return Plan(terms.with_noise(noise_multiplier=noise), contributions, reached)


def _contribution_sum(groups, settings, records, epsilon):
    """A secure sum of contributions that costs ``epsilon`` on its own."""
    sampling = settings.contribution_sampling

    def configured(noise):
        return ContributionSum(groups, records, settings.clients, MAX_DROPOUTS, noise, sampling)

    if sampling is None:
        return configured(gaussian_sigma(epsilon, DELTA))
    start = gaussian_sigma(epsilon, DELTA)
    return configured(
        calibrate(lambda noise: configured(noise).event(ADD_OR_REMOVE), epsilon, DELTA, search=(start, 1e12))
    )


class Run:
    """One split dealt to clients, and its trainings, each of which gives held-out scores' accuracy or AUC.

    :param plans: from ``plans_of``.
    :param seed: text; the same for all kinds of noise, whose figures are compared in pairs.
    :param progress: called after every round.
    """

    def __init__(self, task, split, plans, seed, progress=None):
        self.task, self.plans, self._seed, self._progress = task, plans, seed, progress
        features, labels, *self._test = split
        order = np.random.default_rng(len(features)).permutation(len(features))
        self.owned = [(features[own], labels[own]) for own in np.array_split(order, task.settings.clients)]
        self.module = build_model(task.spec)
        self.start = flat_weights(self.module)
        self._gradients = RecordGradients(self.module)

    def uniform(self):
        """With the same noise on every coordinate."""
        terms = self.plans["uniform"].terms
        return self.measured(self._trained(terms, self._server(terms), "uniform"))

    def adaptive(self):
        """With scales that fall and that rise with the contributions, two continuations of one warm-up: a dict."""
        plan, settings, found = self.plans["adaptive"], self.task.settings, {}
        server = self._server(plan.terms)
        weights = self._trained(plan.phase(settings.warm_up), server, "uniform")
        contributions = self._contributions(plan.contributions, weights)
        for kind, power in POWERS.items():
            scales = coordinate_scales(self.module, contributions, power)
            terms = plan.phase(settings.rounds - settings.warm_up, scales)
            # A copy, so that the optimiser goes on where the warm-up left it.
            found[kind] = self.measured(self._trained(terms, deepcopy(server), "scaled"))
        return found

    def quantile(self):
        """With a clip that follows the median norm [Andrew2021], whose noisy counts are part of the account."""
        terms = self.plans["quantile"].terms
        return self.measured(self._trained(terms, self._server(terms), "quantile"))

    def delayed(self):
        """With delayed preconditioners [Li2023]: phases of plain steps, and between them phases whose gradients are divided
        by the size of the mean of the plain phase's noisy gradients before they are clipped. That is post-processing.
        """
        plan, phase, settings = self.plans["uniform"], self.task.settings.warm_up, self.task.settings
        server = _Delayed(plan.terms, self.start, self._optimizer())
        for number, first in enumerate(range(0, settings.rounds, phase)):
            scales = server.preconditioner() if number % 2 else None
            server.begin(scales)
            terms = plan.phase(min(phase, settings.rounds - first), scales)
            weights = self._trained(terms, server, f"delayed {number}")
        return self.measured(weights)

    def measured(self, weights):
        """Accuracy or AUC of the held-out rows."""
        features, labels = self._test
        return self.task.measured(self._gradients.scores(weights, features), labels)

    def stream(self, purpose, position):
        """A client's stream."""
        return ReproducibleStream(f"{self._seed} {purpose} {position}".encode())

    def _server(self, terms):
        return Server(terms, self.start, self._optimizer())

    def _optimizer(self):
        settings = self.task.settings
        parameters = {"lr": settings.learning_rate, "momentum": settings.momentum}
        return {"method": "sgd", "optimizer_params": parameters}

    def _trained(self, terms, server, phase):
        clients = []
        for position, (features, labels) in enumerate(self.owned):
            rows = ArrayRows(features, labels, self._gradients, self.stream(f"{phase} samples", position))
            clients.append(Client(rows, terms, self.stream(f"{phase} noise", position), position))
        return simulate(terms, clients, server, Transport(terms), self._progress)

    def _contributions(self, configuration, weights):
        """The released mean contributions to what the model of these weights predicts."""
        load_flat(self.module, weights)
        total = 0
        for position, (features, _) in enumerate(self.owned):
            stream = self.stream("contributions", position)
            if configuration.sampling_probability is not None:
                features = features[poisson_sample(len(features), configuration.sampling_probability, stream)]
            total += configuration.share(group_sums(self.module, features), ADD_OR_REMOVE, rng=stream).value
        return configuration.mean(total)


class _Delayed(Server):
    """A server that keeps the sum of a phase's noisy gradients, and moves along gradients in units of its preconditioner."""

    def begin(self, scales):
        """A phase with these scales, None for plain steps."""
        self._scales, self._total = 1.0 if scales is None else scales, np.zeros(self.terms.dimension)

    def step(self, mean_gradient):
        self._total += mean_gradient.gradient
        return super().step(NoisyMean(mean_gradient.gradient / self._scales))

    def preconditioner(self):
        """(d,), positive: the magnitude of the last phase's sum, of root mean square 1, and a constant."""
        magnitude = np.abs(self._total)
        return magnitude / np.sqrt(np.mean(magnitude**2)) + MIN_PRECONDITIONER
