"""Parameters of dp_homo_gbdt, what it refuses, and what its rounds are charged as."""

import json
import math

import numpy as np
import pytest

from fate_dp.components.dp_homo_gbdt.agreement import check_promise, federation_of, guarantee_of
from fate_dp.components.dp_homo_gbdt.boosting import GrownBatch, round_terms
from fate_dp.components.dp_homo_gbdt.growth import Growth
from fate_dp.components.dp_homo_gbdt.model import _batch_from_json, _batch_to_json
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings, given_settings
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms, events_of
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.bins import TableBins, category_bins, cut_bins

GIVEN = {"records": 1000, "epsilon": 1.0}


def settings(**given):
    return TrainSettings(**{**GIVEN, **given})


def test_defaults_are_eight_rounds_of_trees_and_all_records_in_each():
    terms = round_terms(settings(), 3)
    assert terms.rounds == len(terms.clips) == 8 and terms.sampling_probability == 1
    trees = settings().trees_of_round
    assert terms.dimension == 2 * trees * 2 ** settings().depth
    assert terms.clips[1:] == (math.sqrt(trees),) * 7 and 0.55 < terms.clips[0] / math.sqrt(trees) < 0.56


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"aggregation": "shuffle"}, "is private by itself"),
        ({"aggregation": "sum"}, "must be one of secure_sum, local"),
        ({"noise_multiplier": 1.0}, "must be given one without the other"),
        ({"epsilon": None}, "must be given one without the other"),
        ({"trees": 101}, "trees must be a multiple of rounds, 8, got 101"),
        ({"depth": 11}, "depth"),
        ({"delta": 0.5}, "delta"),
        ({"relation": "label"}, "relation"),
        ({"columns": {}}, "columns must be a mapping of names of columns to rules"),
        ({"columns": {"a": {"cuts": [2, 1]}}}, "sorted"),
        ({"columns": {"a": {"cuts": [1], "categories": [1]}}}, "rule of 'a' must be"),
        ({"columns": {"a": {"range": [0, 1]}}}, "rule of 'a' must be"),
        ({"columns": {"a": {"range": [1, 0], "bins": 3}}}, "range of 'a'"),
        ({"columns": {"a": {"categories": [1, 1]}}}, "none of them twice"),
        ({"other_columns": {"quantiles": 5}}, "rule of 'other_columns' must be"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_a_job_that_cannot_be_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(ValueError, match=".") as refused:
        settings(**given)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


def test_the_number_of_records_is_needed_and_none_means_the_default():
    with pytest.raises(ValueError, match="^records is not set; dp_homo_gbdt needs it"):
        given_settings({"epsilon": 1.0})
    assert given_settings({**GIVEN, "trees": None, "columns": None}) == settings()


def test_columns_have_their_own_rule_another_s_or_that_of_a_standard_normal():
    rules = {"a": {"range": [0, 10], "bins": 5}, "b": {"categories": [3, 1]}}
    bins = settings(columns=rules, other_columns={"cuts": [0.5]}).bins_of(["c", "b", "a"])
    assert bins.names == ("c", "b", "a") and bins.counts == (3, 4, 6)
    assert settings(columns=rules).bins_of(["a", "b", "z"]).counts == (6, 4, 33)
    with pytest.raises(ValueError, match="^columns names 'a'; the tables have no such column"):
        settings(columns=rules).bins_of(["b", "c"])


def test_rules_travel_as_they_were_given():
    given = settings(columns={"a": {"range": [0, 10], "bins": 5}})
    assert json.loads(json.dumps(given.to_json())) == given.to_json()
    assert TrainSettings(**given.to_json()) == given


@pytest.mark.parametrize("aggregation", ["secure_sum", "local"])
@pytest.mark.parametrize("relation, clips", [("add_or_remove", 1), ("replace_one", 2)])
def test_the_noise_is_that_of_one_gaussian_for_all_rounds(aggregation, relation, clips):
    """Full batches: eight rounds are one Gaussian mechanism of sensitivity sqrt(8), of which the account is exact."""
    given = settings(aggregation=aggregation, relation=relation, delta=1e-6)
    terms = calibrate_terms(round_terms(given, 3), 1.0, 1e-6, relation)
    ((event, count),) = events_of(terms, relation)
    assert count == 8 and event.unit == "record" and event.relation == relation
    assert terms.noise_multiplier == pytest.approx(gaussian_sigma(1.0, 1e-6, clips * math.sqrt(8)), rel=2e-3)
    assert guarantee_of(terms, relation).epsilons[relation] <= 1.0


def test_a_party_refuses_noise_that_does_not_keep_the_job_s_promise():
    given = settings(delta=1e-6)
    terms = calibrate_terms(round_terms(given, 3), 1.0, 1e-6, given.relation)
    check_promise(given, terms, guarantee_of(terms, given.relation))
    less = terms.with_noise(terms.noise_multiplier * 0.99)
    with pytest.raises(ValueError, match="^The guest's noise costs epsilon 1.0"):
        check_promise(given, less, guarantee_of(less, given.relation))
    named = settings(epsilon=None, noise_multiplier=3.0)
    other = round_terms(named, 3).with_noise(4.0)
    with pytest.raises(ValueError, match="^The guest asks for noise_multiplier 4.0, while the job says 3.0"):
        check_promise(named, other, guarantee_of(other, named.relation))


@pytest.mark.parametrize(
    "roles, sentence",
    [
        (("guest", "host"), "names 0 arbiters"),
        (("guest", "arbiter"), "names no host"),
        (("guest", "guest", "host", "arbiter"), "names 2 guests"),
    ],
)
def test_roles_that_do_not_fit_are_refused(roles, sentence):
    with pytest.raises(ValueError, match=sentence):
        federation_of((role, str(number)) for number, role in enumerate(roles))


def test_a_batch_is_the_same_after_json():
    bins = TableBins((cut_bins("a", [1.0, 2.0]), category_bins("b", list(range(9)))))
    splits = Growth(bins, np.random.default_rng(0)).draw(3, 4)
    batch = GrownBatch(splits, np.random.default_rng(1).normal(size=(3, 16)))
    read = _batch_from_json(json.loads(json.dumps(_batch_to_json(batch))))
    for part in ("columns", "right"):
        np.testing.assert_array_equal(getattr(read.splits, part), getattr(splits, part))
    assert read.values.tolist() == batch.values.tolist()
