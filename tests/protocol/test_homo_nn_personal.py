"""dp_homo_nn between processes where a party has an epsilon of its own: what each party's ledger, model and summary say."""

import math

import pytest

from .homo_nn_parties import DATA, EVERYBODY, GUEST, HOST, training
from .scenarios import assert_refused, play

CAPS = dict.fromkeys(DATA, "default_dataset_cap: {epsilon: 20, delta: 1.0e-6}")
# The host's cap has room for its own epsilon under both relations, and for nobody else's.
OWN_CAP = {**CAPS, HOST: "default_dataset_cap: {epsilon: 2.2, delta: 1.0e-6}"}
ASKED = {"rounds": 2, "noise_multiplier": None, "epsilon": 4.0, "party_epsilons": {HOST[1]: 1.0}, "averaging": 0.5}
RAN = {
    "local": training(aggregation="local", party_clips={GUEST[1]: 0.5}, policies=OWN_CAP, **ASKED),
    "secure_sum": training(policies=OWN_CAP, **ASKED),
}
REFUSED = {"others' epsilon": training(policies=OWN_CAP, **{**ASKED, "party_epsilons": {GUEST[1]: 1.0}})}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play({**RAN, **REFUSED}, tmp_path_factory.mktemp("homes"), EVERYBODY)


@pytest.mark.parametrize("name", RAN)
def test_every_ledger_holds_its_partys_own_event_and_all_hold_one_model(runs, name):
    told = {}
    for party in DATA:
        assert runs[name][party].error is None, runs[name][party].error
        (line,) = runs[name][party].ledger["entries"]
        assert line["rounds"] == 2
        told[party] = line["parameters"]
    others = [told[party] for party in DATA if party != HOST]
    assert others[0] == others[1] != told[HOST]
    models = [runs[name][party].value["model"] for party in DATA]
    assert models[0] == models[1] == models[2]


@pytest.mark.parametrize("name", RAN)
def test_everybody_is_told_each_partys_epsilon(runs, name):
    summary = runs[name][GUEST].value["summary"]
    assert summary == runs[name][HOST].value["summary"]
    assert summary["epsilon (nats, add-or-remove, all 2 rounds)"] <= 4
    for party in DATA:
        stated = float(summary[f"epsilon of party {party[1]}"].split()[0])
        target = ASKED["party_epsilons"].get(party[1], 4.0)
        assert 0.95 * target < stated <= target and math.isfinite(stated)


def test_a_party_whose_cap_does_not_allow_its_own_epsilon_refuses_for_everybody(runs):
    assert_refused(runs["others' epsilon"], "cap")
    assert not any(outcome.ledger["entries"] for outcome in runs["others' epsilon"].values() if outcome.ledger)
