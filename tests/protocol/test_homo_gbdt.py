"""dp_homo_gbdt between processes: trust models, drop-outs, ledgers, refusals, and what each party saw."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.dp_homo_gbdt.boosting import scores_of
from fate_dp.components.dp_homo_gbdt.model import model_of

from .homo_gbdt_parties import (
    ARBITER,
    DATA,
    EVERYBODY,
    FEATURES,
    GUEST,
    HOST,
    QUICK,
    SECOND_HOST,
    TABLES,
    changed,
    predict,
    train_with_failures,
    training,
)
from .scenarios import Scenario, assert_refused, play

ONE_HOST = (GUEST, HOST, ARBITER)
WIDE_CAP = dict.fromkeys(DATA, "default_dataset_cap: {epsilon: 20, delta: 1.0e-6}")


def failing(failing, at, **given):
    scenario = training(**given)
    return Scenario(train_with_failures, {"failing": failing, "at": at, **scenario.arguments}, scenario.parties)


RAN = {
    "secure_sum": training(),
    "local": training(aggregation="local", partitions=1, label_type="float64"),
    "epsilon": training(noise_multiplier=None, epsilon=3.0, policies=WIDE_CAP),
    "replace one": training(
        noise_multiplier=None, epsilon=3.0, relation="replace_one", trees=2, rounds=1, policies=WIDE_CAP
    ),
    "one missing": failing({HOST: [1]}, "sums", max_dropouts=2),
    "too few": failing({HOST: [1], GUEST: [2]}, "sums"),
    "one lost": failing({HOST: [1]}, "charge_round", max_dropouts=2),
}
PREDICTED = {
    "predicted": Scenario(predict, {"model_of": "secure_sum", "tables": TABLES}, DATA),
    "without labels": Scenario(predict, {"model_of": "secure_sum", "tables": changed(GUEST, y=None)}, (GUEST,)),
    "other columns": Scenario(predict, {"model_of": "secure_sum", "tables": changed(GUEST, x3=None)}, (GUEST,)),
    "no model": Scenario(predict, {"model_of": "secure_sum", "tables": {ARBITER: TABLES[GUEST]}}, (ARBITER,)),
}
FAILED = {"no round": failing({HOST: [0, 1, 2], GUEST: [0]}, "sums")}
# The party at fault, its sentence, and that of the others where it is another one.
REFUSED = {
    "shuffle": (
        training(aggregation="shuffle"),
        GUEST,
        "aggregation must be secure_sum or local, got 'shuffle'.",
        None,
    ),
    "no noise": (
        training(noise_multiplier=None),
        GUEST,
        "epsilon and noise_multiplier must be given one without the other",
        None,
    ),
    "uneven": (training(trees=13), GUEST, "trees must be a multiple of rounds, 3, got 13.", None),
    "no records": (training(records=None), GUEST, "records is not set; dp_homo_gbdt needs it", None),
    "few records": (training(records=450), HOST, "this party alone has 500.", "got 450, fewer than that party has"),
    "unknown rule": (training(columns={"x3": {"width": 2}}), GUEST, "rule of 'x3' must be", None),
    "unsorted cuts": (training(columns={"x0": {"cuts": [1, 0]}}), GUEST, "cuts of 'x0'", None),
    "unknown column": (
        training(columns={"z": {"cuts": [1]}}),
        GUEST,
        "columns names 'z'; the tables have no such",
        None,
    ),
    "no table": (training({party: TABLES[party] for party in (GUEST, HOST)}), SECOND_HOST, "no train_data", None),
    "no labels": (training(changed(HOST, y=None)), HOST, "The training table has no label column", None),
    "other schema": (
        training({**TABLES, HOST: TABLES[HOST].rename(columns={"x1": "z"})}),
        GUEST,
        "The table of host 10000 has 'z' as feature 2 and the guest's has 'x1'",
        None,
    ),
    "out of reach": (training(noise_multiplier=None, epsilon=1e-6), GUEST, "is out of reach", None),
    "too many dropouts": (training(max_dropouts=3), GUEST, "max_dropouts must be less than", None),
    "repeated id": (training(changed(GUEST, id="one")), GUEST, "An id occurs more than once", UNTOLD),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {**RAN, **PREDICTED, **FAILED, **{name: case[0] for name, case in REFUSED.items()}}
    return play(scenarios, tmp_path_factory.mktemp("homes"), EVERYBODY)


def value(runs, name, party):
    assert runs[name][party].error is None, runs[name][party].error
    return runs[name][party].value


@pytest.mark.parametrize("name", RAN)
def test_all_data_parties_hold_the_same_model_and_the_arbiter_none(runs, name):
    models = [value(runs, name, party)["model"] for party in DATA]
    assert models[0] == models[1] == models[2] and models[0]["data"]["estimator"]["batches"]
    assert value(runs, name, ARBITER)["model"]["data"] == {"estimator": None}


@pytest.mark.parametrize("name", ["secure_sum", "local"])
def test_the_model_learns(runs, name):
    """Guessing has an AUC of 0.5, give or take 0.02; simulated trainings of this noise stay above 0.8."""
    scored = pd.concat([value(runs, name, party)["scored"] for party in DATA])
    assert roc_auc_score(scored["label"].astype(float), scored["predict_score"].astype(float)) > 0.7


@pytest.mark.parametrize("name", RAN)
def test_the_ledgers_agree_and_count_the_rounds_that_ran(runs, name):
    kept = ("source", "event", "parameters")
    lines = {
        party: [{key: line[key] for key in kept} for line in runs[name][party].ledger["entries"]] for party in DATA
    }
    assert lines[GUEST] == lines[HOST] == lines[SECOND_HOST] and len(lines[GUEST]) == 1
    counts = [runs[name][party].ledger["entries"][0]["rounds"] for party in DATA]
    expected = {"one missing": [3, 2, 3], "too few": [1] * 3, "one lost": [3, 2, 3], "replace one": [1] * 3}
    assert counts == expected.get(name, [3] * 3)
    assert runs[name][ARBITER].ledger["entries"] == []


def test_drop_outs_are_left_out_aborted_or_lost(runs):
    facts = ("rounds run", "rounds aborted", "rounds lost")
    course = {
        name: tuple(value(runs, name, GUEST)["summary"][fact] for fact in facts)
        for name in ("secure_sum", "one missing", "too few", "one lost")
    }
    assert course == {"secure_sum": (3, 0, 0), "one missing": (3, 0, 0), "too few": (1, 2, 0), "one lost": (3, 0, 1)}
    grown = {name: len(model_of(value(runs, name, GUEST)["model"])[1]) for name in course}
    assert grown == {"secure_sum": 3, "one missing": 3, "too few": 1, "one lost": 2}


def test_the_summary_says_what_was_promised(runs):
    summary = value(runs, "secure_sum", HOST)["summary"]
    assert summary == value(runs, "secure_sum", GUEST)["summary"] == value(runs, "secure_sum", ARBITER)["summary"]
    assert (summary["noise over what one record moves"], summary["privacy"], summary["trees"]) == (3.0, "record", 12)
    for name, relation in (("epsilon", "add-or-remove"), ("replace one", "replace-one")):
        asked = value(runs, name, GUEST)["summary"]
        told = asked[f"epsilon (nats, {relation}, all {asked['rounds planned']} rounds)"]
        assert 2.99 < told <= 3.0 and asked["relation that is charged"] == relation
    assert all(isinstance(item, (str, int, float)) for item in summary.values())


def test_no_party_sees_more_than_it_should(runs):
    """The arbiter gets keyless facts and masked vectors; data parties splits, values of leaves and public keys."""
    names = {party: {name for _, name, _ in runs["secure_sum"][party].received} for party in EVERYBODY}
    assert names[ARBITER] == {"verdict", "ready", "message"}
    assert names[HOST] == {"verdict", "public_key", "round", "present", "outcome"}
    assert names[GUEST] == {"preflight", "public_key", "round", "present", "outcome"}
    received = {
        party: [content for _, name, content in runs["secure_sum"][party].received if name == "round"] for party in DATA
    }
    assert len(received[HOST]) == QUICK["rounds"] and all(
        set(content) == {"grown", "splits", "clip"} for content in received[HOST]
    )


def test_masked_sums_are_spread_over_all_residues(runs):
    """Control: without masks the first byte of a sum in steps of 2^-34 is that of a small number, 0 or 255."""
    length = 2 * QUICK["trees"] // QUICK["rounds"] * 2 ** QUICK["depth"]
    masked = [content for _, name, content in runs["secure_sum"][ARBITER].received if name == "message"]
    assert len(masked) == 3 * QUICK["rounds"] and {len(content) for content in masked} == {8 * length}
    top = np.concatenate([np.frombuffer(content, dtype="<u8") >> np.uint64(56) for content in masked])
    assert np.isin(top, (0, 255)).mean() < 0.1
    bare = np.concatenate([np.frombuffer(content, dtype="<f8") for content in _messages(runs, "local")])
    assert np.abs(bare).max() < 1000


def _messages(runs, name):
    return [content for _, called, content in runs[name][ARBITER].received if called == "message"]


def test_splits_are_those_of_the_public_seed_before_anything_was_released(runs):
    first = {}
    for name in ("secure_sum", "local"):
        content = next(content for _, called, content in runs[name][HOST].received if called == "round")
        first[name] = (
            np.asarray(content["splits"]["columns"]).tolist(),
            np.asarray(content["splits"]["right"]).tolist(),
        )
    assert first["secure_sum"] == first["local"]


def test_predictions_are_in_fates_format_and_those_of_the_model(runs):
    scored = value(runs, "predicted", HOST)
    bins, batches = model_of(value(runs, "secure_sum", HOST)["model"])
    features = TABLES[HOST].set_index("id")[[f"x{column}" for column in range(FEATURES)]].loc[scored["id"]].to_numpy()
    expected = expit(scores_of(batches, bins.codes(features)))
    np.testing.assert_allclose(scored["predict_score"].astype(float), expected, rtol=1e-12)
    columns = ["sample_id", "id", "label", "predict_score", "predict_result", "predict_detail", "type"]
    assert scored.columns.tolist() == columns and set(scored["type"]) == {"test_set"}
    trained = value(runs, "secure_sum", HOST)["scored"].set_index("id")["predict_score"].astype(float)
    np.testing.assert_array_equal(trained.loc[scored["id"]], scored["predict_score"].astype(float))
    assert value(runs, "without labels", GUEST).columns.tolist() == [name for name in columns if name != "label"]


def test_a_prediction_that_cannot_be_is_refused(runs):
    assert "columns must be those of the model" in runs["other columns"][GUEST].error
    assert "holds no model" in runs["no model"][ARBITER].error


def test_a_training_without_a_round_tells_every_party_the_same_sentence(runs):
    errors = {outcome.error for outcome in runs["no round"].values()}
    assert len(errors) == 1 and "No round ran to its end" in errors.pop()


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_at_every_party_before_anything_is_charged(runs, name):
    _, at_fault, own, public = REFUSED[name]
    assert all(outcome.ledger["entries"] == [] for outcome in runs[name].values())
    if public is None:
        assert_refused(runs[name], own)
        return
    assert own in runs[name][at_fault].error
    others = {outcome.error for party, outcome in runs[name].items() if party != at_fault}
    assert len(others) == 1 and public in others.pop()
