"""Noise of released contributions: of the stated scale, audited beside mutants that must fail, and never shared."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from fate_dp.components.dp_homo_nn import relevance as module
from fate_dp.components.dp_homo_nn.relevance import ContributionSum, group_sums
from fate_dp.privacy import adaptive_scales
from fate_dp.privacy.adaptive_scales import STEPS_OF_RECORD, release_contributions
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms import laplace
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits
from tests.statistical.mutants import keys_are_constant, noise_halved, noise_off
from tests.support.distinguishing import audit_claim

pytestmark = [pytest.mark.statistical, pytest.mark.arithmetic]
LIMIT = 5.0
WRONG = (2 / 3, 3 / 2)
DRAWS = 4000
RUNS = 800
CLIENTS, MAX_DROPOUTS = 4, 1
MODEL = nn.Linear(2, 1)
with torch.no_grad():
    MODEL.weight.copy_(torch.tensor([[1.0, 1.0]]))
    MODEL.bias.zero_()
# All relevance at one input, and all at the other.
FIRST, SECOND = np.array([[1000.0, 0.0]], dtype=np.float32), np.array([[0.0, 1000.0]], dtype=np.float32)
NOBODY = np.empty((0, 2), dtype=np.float32)


def terms(groups=2):
    return ContributionSum(groups, records=1, clients=CLIENTS, max_dropouts=MAX_DROPOUTS, noise_multiplier=1.0)


@pytest.mark.parametrize("relation, moved", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_laplace_noise_has_its_scale_and_two_thirds_and_three_halves_are_rejected(relation, moved):
    release = release_contributions(
        np.zeros(DRAWS, dtype=np.int64), 10, 0.5, observers="server", relation=relation, rng=ReproducibleStream(3)
    )

    def score(scale):
        return abs(np.abs(release.value).mean() / scale - 1) * math.sqrt(DRAWS)

    scale = moved / (10 * 0.5)
    assert score(scale) < LIMIT and all(score(scale * wrong) > LIMIT for wrong in WRONG)


def test_shares_that_are_left_carry_the_noise_together():
    configuration, stream = terms(DRAWS), ReproducibleStream(4)
    nothing = np.zeros(DRAWS, dtype=np.int64)
    total = sum(configuration.share(nothing, ADD_OR_REMOVE, rng=stream).value for _ in range(CLIENTS - MAX_DROPOUTS))

    def score(scale):
        squares = (total / STEPS_OF_RECORD / scale) ** 2
        return abs(squares.mean() - 1) * math.sqrt(DRAWS / 2)

    assert score(1.0) < LIMIT and all(score(wrong) > LIMIT for wrong in WRONG)


def audit_of_laplace():
    """Replace-one: all relevance moves from one input to the other. The score is the likelihood ratio."""
    exact = {id(features): group_sums(MODEL, features) for features in (FIRST, SECOND)}

    def release(features, stream):
        return release_contributions(exact[id(features)], 1, 2.0, observers="server", rng=stream)

    def closer_to_second(value):
        return np.abs(value - [1.0, 0.0]).sum() - np.abs(value - [0.0, 1.0]).sum()

    return audits.audit_of(
        release, FIRST, SECOND, score=closer_to_second, control=lambda features: closer_to_second(features[0] / 1000)
    )


def audit_of_secure_sum():
    """Add-or-remove, as a client sees it that knows its own share: the sum of the other clients' shares."""
    exact = {id(features): group_sums(MODEL, features) for features in (NOBODY, FIRST)}

    def release(features, stream):
        empty = [np.zeros(2, dtype=np.int64)] * (CLIENTS - MAX_DROPOUTS - 1)
        shares = [terms().share(sums, ADD_OR_REMOVE, rng=stream).value for sums in (exact[id(features)], *empty)]
        return terms().mean(sum(shares))[0]

    control = audits.without_privacy(lambda features: exact[id(features)][0])
    claimed = audits.stated_epsilon(terms().event(ADD_OR_REMOVE))
    return audit_claim(audits.gaussian_attack(NOBODY, FIRST), audits.run_by_run(release), control, claimed)


AUDITS = {"laplace": audit_of_laplace, "secure_sum": audit_of_secure_sum}


def not_normalised(patch):
    def sums(parts):
        return (parts * STEPS_OF_RECORD).astype(np.int64).sum(axis=0)

    patch.setattr(adaptive_scales, "normalised_sums", sums)
    patch.setattr(module, "normalised_sums", sums)


MUTANTS = {
    ("laplace", "noise off"): lambda patch: noise_off(laplace, "discrete_laplace", patch),
    ("laplace", "records not normalised"): not_normalised,
    ("secure_sum", "noise off"): lambda patch: noise_off(module, "discrete_gaussian", patch),
    ("secure_sum", "half noise"): lambda patch: noise_halved(module, "discrete_gaussian", patch),
    ("secure_sum", "records not normalised"): not_normalised,
}


@pytest.mark.parametrize("kind", AUDITS)
def test_the_audit_does_not_refute_the_claim(monkeypatch, kind):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    found = AUDITS[kind]()
    assert not found.refutes and found.found > found.claimed / 4


@pytest.mark.parametrize("kind, name", MUTANTS)
def test_the_audit_refutes_mutants(kind, name, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    MUTANTS[kind, name](monkeypatch)
    assert AUDITS[kind]().refutes


def clients_noises_differ():
    nothing = np.zeros(8, dtype=np.int64)
    draws = [terms(8).share(nothing, ADD_OR_REMOVE).value for _ in range(2)]
    return not (draws[0] == draws[1]).any()


def test_identical_noise_at_two_clients_is_noticed(monkeypatch):
    assert clients_noises_differ()
    keys_are_constant(monkeypatch)
    assert not clients_noises_differ()
