"""The noise of boosted trees is what is charged, audited beside mutants that must fail.

The observer is the server together with one data party: it subtracts that party's share of the noise from the sum and looks
along the vector of the record in question, whose score and label move the sums as far as any.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from fate_dp.components.dp_homo_gbdt import boosting, trees
from fate_dp.components.dp_homo_gbdt.agreement import guarantee_of
from fate_dp.components.dp_homo_gbdt.boosting import contribution, round_terms
from fate_dp.components.dp_homo_gbdt.growth import Growth
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.dp_homo_gbdt.trees import curvature_weight, leaf_sums
from fate_dp.components.protocols.noisy_rounds import account, aggregation
from fate_dp.components.protocols.noisy_rounds.account import events_of, round_event
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms import gaussian
from fate_dp.privacy.mechanisms.clipping import grid_for
from fate_dp.privacy.noise.stream import ReproducibleStream, open_stream
from tests.statistical import audits
from tests.statistical.mutants import keys_are_constant, noise_halved, noise_off
from tests.support.distinguishing import audit_claim

pytestmark = pytest.mark.statistical
RUNS, DEVIATIONS = 800, 6
NOISE = 0.6
SETTINGS = TrainSettings(records=100, noise_multiplier=NOISE, trees=6, rounds=2, depth=1)
PARTIES, KNOWN = 3, 1
BINS = SETTINGS.bins_of(["a", "b"])
# Far beyond any score that a model has, where a record's part of the sums is as long as it can be.
SURE = -40.0


def splits_of(settings=SETTINGS):
    return Growth(BINS, np.random.default_rng(4)).draw(settings.trees_of_round, settings.depth)


def sums_of(rows, number=1):
    """Of so many equal records with the label 1 and a score that is sure of 0 (0 in the first round)."""
    terms, score = boosting.round_terms(SETTINGS, PARTIES), SURE if number else 0.0
    codes = np.full((rows, 2), 7)
    return leaf_sums(
        splits_of(), codes, np.ones(rows), np.full(rows, score), terms.clip_of(number), curvature_weight(number)
    )


def contents(terms, number=1, rows=0, stream=None):
    """What the parties send, in units of gradients; the first has the records."""
    each = [sums_of(rows if place == 0 else 0, number) for place in range(PARTIES)]
    return noisy(each, terms, number, open_stream(stream))


def noisy(each, terms, number, stream):
    grid = grid_for(terms.clip_of(number)) if terms.aggregation == "secure_sum" else 1.0
    return [contribution(sums, terms, place, number, stream).content * grid for place, sums in enumerate(each)]


def has_deviation(samples, deviation):
    ratio = float(np.mean(np.square(samples))) / deviation**2
    return abs(ratio - 1) < DEVIATIONS * math.sqrt(2 / np.size(samples))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("trust", ["secure_sum", "local"])
def test_noise_has_the_deviation_that_is_charged_and_no_other(trust, number):
    terms = round_terms(replace(SETTINGS, aggregation=trust), PARTIES)
    stream = ReproducibleStream(8)
    drawn = [contents(terms, number, stream=stream) for _ in range(300)]
    unknown = np.array([np.sum(each[KNOWN:], axis=0) if trust == "secure_sum" else each[0] for each in drawn])
    expected = NOISE * terms.clip_of(number)
    assert has_deviation(unknown, expected)
    for wrong in (2 / 3, 3 / 2):
        assert not has_deviation(unknown, expected * wrong)


def audit(trust="secure_sum", rows=1):
    terms = boosting.round_terms(replace(SETTINGS, aggregation=trust), PARTIES)
    line, nothing = sums_of(rows).value, sums_of(0)
    of_first = {count: sums_of(count) for count in (0, rows)}

    def release(count, stream):
        sent = noisy([of_first[count], nothing, nothing], terms, 1, stream)
        return (np.sum(sent[:-KNOWN], axis=0) if trust == "secure_sum" else sent[0]) @ line

    control = audits.without_privacy(lambda count: sums_of(count).value @ line)
    claimed = audits.stated_epsilon(round_event(terms, ADD_OR_REMOVE))
    return audit_claim(audits.gaussian_attack(0, rows), audits.run_by_run(release), control, claimed)


def of_all_rounds():
    """The promise at all rounds is above that of one; what the ledger holds is counted as often as rounds run."""
    terms = round_terms(SETTINGS, PARTIES)
    one = round_terms(replace(SETTINGS, rounds=1, trees=3), PARTIES)
    for relation in (ADD_OR_REMOVE, REPLACE_ONE):
        assert [count for _, count in events_of(terms, relation)] == [SETTINGS.rounds]
        whole, part = (guarantee_of(each, relation).epsilons[relation] for each in (terms, one))
        assert whole > 1.3 * part


def bounds_are_those_of_one_tree(patch):
    """As if a record were in a leaf of one tree only."""
    original = trees.record_steps
    patch.setattr(boosting, "clips_of", lambda rounds, count: (trees.BOUND,) * rounds)
    patch.setattr(
        trees,
        "record_steps",
        lambda scores, labels, weight, bound, grid: original(scores, labels, weight, bound * 3, grid),
    )


def nothing_is_bounded(patch):
    """A record has a gradient of any length."""
    patch.setattr(
        trees,
        "record_steps",
        lambda scores, labels, weight, bound, grid: np.rint(
            np.stack([labels - scores, 0 * scores], axis=1) / grid
        ).astype(np.int64),
    )


def noise_of_a_share(module):
    return {
        "noise off": lambda patch: noise_off(module, "discrete_gaussian", patch),
        "half noise": lambda patch: noise_halved(module, "discrete_gaussian", patch),
    }


BROKEN = {"trees ignored": bounds_are_those_of_one_tree, "nothing bounded": nothing_is_bounded}
MUTANTS = [
    *(("secure_sum", name, mutate) for name, mutate in {**noise_of_a_share(aggregation), **BROKEN}.items()),
    *(("local", name, mutate) for name, mutate in noise_of_a_share(gaussian).items()),
]


@pytest.mark.parametrize("trust", ["secure_sum", "local"])
def test_the_audit_does_not_refute_the_claim(trust, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    found = audit(trust)
    assert not found.refutes and found.found > found.claimed / 5 and found.control > found.claimed


@pytest.mark.parametrize("trust, name, mutate", MUTANTS, ids=[" ".join(each[:2]) for each in MUTANTS])
def test_the_audit_refutes_mutants(trust, name, mutate, monkeypatch):
    monkeypatch.setattr(audits, "RUNS", RUNS)
    mutate(monkeypatch)
    assert audit(trust).refutes


def test_all_rounds_are_counted_and_one_that_counts_as_all_is_noticed(monkeypatch):
    of_all_rounds()
    monkeypatch.setattr(account.RoundTerms, "noised_steps", property(lambda self: 1 / self.rounds))
    with pytest.raises(Exception, match="."):
        of_all_rounds()


def test_parties_and_rounds_draw_noise_of_their_own_and_a_fixed_seed_is_noticed(monkeypatch):
    def all_differ():
        terms = round_terms(SETTINGS, PARTIES)
        drawn = [each for _ in range(2) for each in contents(terms)]
        return all(not (one == other).any() for place, one in enumerate(drawn) for other in drawn[:place])

    assert all_differ()
    keys_are_constant(monkeypatch)
    assert not all_differ()
