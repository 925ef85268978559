"""dp_scorecard between parties: the model of the tables, what each party receives, what it pays, what is refused."""

import json

import numpy as np
import pytest

from fate_dp.components.dp_scorecard.additive import calibrate, solve
from fate_dp.components.dp_scorecard.settings import PredictSettings, TrainSettings
from fate_dp.components.protocols.federation import own_party
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS

from .scenarios import (
    GUEST,
    HOST,
    SECOND_HOST,
    SOURCE,
    Scenario,
    assert_refused,
    declare,
    declare_public,
    frame_at,
    play,
    tables,
)

TWO, THREE = (GUEST, HOST), (GUEST, HOST, SECOND_HOST)
BINS, ROWS = 4, 400


def binned(rows=ROWS, hosts=(2,), seed=0, ids=None):
    """Tables of the numbers of bins; the guest's label depends on all columns."""
    made = tables(rows=rows, guest=2, hosts=hosts, seed=seed, ids=ids)
    for party, table in made.items():
        columns = [name for name in table if name.startswith("x")]
        made[party] = table.assign(**{name: np.digitize(table[name], (-0.7, 0.0, 0.7)) for name in columns})
    return made


VERTICAL = binned()


def train(ctx, earlier, tables, own=None, public=True, declared=False, **given):
    """The stage at this party; ``own`` are parameters of single parties."""
    from fate_dp.components.dp_scorecard import train as stage

    if declared and own_party(ctx) == GUEST:
        declare(ctx, SOURCE)
    if public:
        declare_public(ctx, tables)
        given = {"label_source": SOURCE, **given}
    given = {"bins": BINS, **given, **(own or {}).get(own_party(ctx), {})}
    settings = TrainSettings(**given)
    frame = frame_at(ctx, tables)
    run = stage.train_guest if own_party(ctx) == GUEST else stage.train_host
    return json.loads(json.dumps(run(ctx, settings, frame)))


def predict(ctx, earlier, tables, model, **given):
    from fate_dp.components.dp_scorecard import predict as stage

    document, frame = earlier[model].value, frame_at(ctx, tables)
    if own_party(ctx) == GUEST:
        return stage.predict_guest(ctx, PredictSettings(**given), document, frame).as_pd_df()
    return stage.predict_host(ctx, document, frame)


NEW = binned(rows=60, seed=0, ids=[f"other {row}" for row in range(60)])
UNLABELLED = {party: table.drop(columns="y", errors="ignore") for party, table in NEW.items()}
RECORD = {"privacy": "record", "epsilon": 2.0, "delta": 1e-6, "public": False}


LABEL = {"privacy": "label", "label_source": SOURCE, "epsilon": 2.0, "delta": 1e-5, "public": False, "declared": True}


def with_column(party, name, values, base=VERTICAL):
    return {**base, party: base[party].assign(**{name: values})}


FIRST = VERTICAL[HOST].columns[2]
REFUSED = {
    "cap": ({**RECORD, "own": {HOST: {"epsilon": 50.0}}}, "`fate-dp cap"),
    "no epsilon": ({**RECORD, "own": {HOST: {"epsilon": None}}}, "epsilon is not set; every party"),
    "other privacy": (
        {**RECORD, "own": {HOST: {"privacy": "none", "epsilon": None}}},
        "privacy is record at the guest",
    ),
    "true labels": ({"privacy": "none", "public": False}, "training labels"),
    "cap of labels": ({**LABEL, "epsilon": 50.0}, "`fate-dp cap"),
    "no source": ({**LABEL, "label_source": None}, "privacy is label, but the guest sets no label_source"),
    "undeclared": ({**LABEL, "declared": False}, "is not declared at the guest"),
    "no bin": ({**RECORD, "tables": with_column(HOST, FIRST, 4)}, "has a value that is none of its bins"),
    "half a bin": ({**RECORD, "tables": with_column(HOST, FIRST, 0.5)}, "none of its bins"),
    "missing": ({**RECORD, "tables": with_column(HOST, FIRST, np.nan)}, "none of its bins"),
    "one class": ({**RECORD, "tables": with_column(GUEST, "y", 1)}, "All labels are of one class"),
    "other labels": ({**RECORD, "tables": with_column(GUEST, "y", [1, 2] * (ROWS // 2))}, "neither 0 nor 1"),
    "label at host": ({**RECORD, "tables": with_column(HOST, "y", 1)}, "only the guest has labels"),
    "other rows": (
        {**RECORD, "tables": {**VERTICAL, HOST: binned(ids=[f"no {at}" for at in range(ROWS)])[HOST]}},
        "not the same ids",
    ),
    "names of bins": ({**RECORD, "own": {HOST: {"bins": {"y": 3}}}}, "bins names other columns"),
    "monotone": ({**RECORD, "own": {HOST: {"monotone": {"z": "increasing"}}}}, "monotone names a column"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    trained = {
        "none": ({"tables": VERTICAL, "privacy": "none"}, TWO),
        "three": ({"tables": binned(hosts=(2, 3), seed=3), "privacy": "none"}, THREE),
        "record": ({"tables": VERTICAL, **RECORD}, TWO),
        "label": ({"tables": VERTICAL, **LABEL}, TWO),
        "three noisy": ({"tables": binned(hosts=(2, 3), seed=3), **RECORD, "epsilon": 8.0}, THREE),
        "constrained": (
            {"tables": VERTICAL, "privacy": "none", "own": {HOST: {"monotone": {FIRST: "increasing"}}}},
            TWO,
        ),
    }
    scenarios = {name: Scenario(train, arguments, parties) for name, (arguments, parties) in trained.items()}
    for name, (arguments, _) in REFUSED.items():
        scenarios[name] = Scenario(train, {"tables": VERTICAL, **arguments}, TWO)
    for name, table in (("predict", NEW), ("predict unlabelled", UNLABELLED), ("predict training", VERTICAL)):
        scenarios[name] = Scenario(predict, {"tables": table, "model": "none"}, TWO, home="none")
    scenarios["other model"] = Scenario(
        predict_mixed, {"tables": NEW, "models": {GUEST: "none", HOST: "constrained"}}, TWO, home="none"
    )
    return play(scenarios, tmp_path_factory.mktemp("homes"), THREE)


def predict_mixed(ctx, earlier, tables, models):
    return predict(ctx, earlier, tables, models[own_party(ctx)])


def one_hot(tables, parties):
    codes = np.hstack([tables[party][[n for n in tables[party] if n[0] == "x"]].to_numpy(int) for party in parties])
    return np.eye(BINS, dtype=int)[codes].reshape(len(codes), -1), codes


def weights_of(outcomes):
    document = outcomes[GUEST].value["data"]["scorecard"]
    columns = [*document["columns"], *(each for host in document["hosts"].values() for each in host)]
    return np.concatenate([column["weights"] for column in columns]), document


@pytest.mark.parametrize(
    "name, parties, data", [("none", TWO, VERTICAL), ("three", THREE, binned(hosts=(2, 3), seed=3))]
)
def test_the_model_is_ridge_regression_on_the_bins_of_all_parties(runs, name, parties, data):
    rows, codes = one_hot(data, parties)
    target = 2.0 * (2 * data[GUEST]["y"].to_numpy() - 1)
    wanted = solve(rows.T @ rows, rows.T @ target, 1.0)
    weights, document = weights_of(runs[name])
    assert np.abs(rows @ weights - rows @ wanted).max() < 0.02 * np.abs(rows @ wanted).max()
    places = [slice(at, at + BINS) for at in range(0, len(weights), BINS)]
    found = calibrate(weights, rows.T @ rows @ weights, rows.T @ target, rows.sum(axis=0), places)
    assert document["calibration"]["slope"] == pytest.approx(found.slope, rel=1e-3)


def test_every_host_has_the_points_of_its_own_columns_and_the_guest_has_all(runs):
    document = runs["three"][GUEST].value["data"]["scorecard"]
    for host in (HOST, SECOND_HOST):
        own = runs["three"][host].value["data"]["scorecard"]
        assert [each["points"] for each in own["columns"]] == [
            each["points"] for each in document["hosts"][" ".join(host)]
        ]
        assert own["base_points"] == document["base_points"] and not own["hosts"]
        assert [each["column"] for each in document["hosts"][" ".join(host)]] != [e["column"] for e in own["columns"]]


def test_a_constraint_makes_the_hosts_bins_monotone(runs):
    weights = runs["constrained"][HOST].value["data"]["scorecard"]["columns"][0]["weights"]
    assert (np.diff(weights) >= -1e-12).all()


def test_every_party_pays_for_its_records_before_anything_leaves(runs):
    for outcome in runs["record"].values():
        (entry,) = outcome.ledger["entries"]
        assert (entry["unit"], entry["relation"], entry["mechanism"]) == ("record", "replace_one", "Gaussian")
        assert outcome.value["meta"]["noise"]["epsilon"] == 2.0
    for outcome in runs["none"].values():
        assert not [entry for entry in outcome.ledger["entries"] if entry["unit"] == "record"]


def test_with_noise_on_labels_their_source_pays_and_hosts_pay_nothing(runs):
    (entry,) = [each for each in runs["label"][GUEST].ledger["entries"] if each["mechanism"] == "Gaussian"]
    assert (entry["unit"], entry["relation"]) == ("label", "replace_one")
    assert not runs["label"][HOST].ledger["entries"]
    assert runs["label"][GUEST].value["meta"]["noise"]["unit"] == "label"


def test_the_noise_on_labels_is_in_every_weight(runs):
    noisy, exact = (weights_of(runs[name])[0] for name in ("label", "none"))
    assert (noisy != exact).all()


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_everybodys_before_anything_is_charged_or_sent(runs, name):
    assert_refused(runs[name], REFUSED[name][1])
    for outcome in runs[name].values():
        assert not [entry for entry in outcome.ledger["entries"] if entry["mechanism"] == "Gaussian"]
        assert not {kind for _, kind, _ in outcome.received} & {"encrypted_rows", "public_key"}


RECEIVED = {
    "record": {
        GUEST: {"preflight", "public_key", "masked_products", "contingency_tables"},
        HOST: {"verdict", "public_key", "encrypted_rows", "points"},
    },
    "none": {
        GUEST: {"preflight", "public_key", "masked_products", "direction_product"},
        HOST: {"verdict", "public_key", "encrypted_rows", "direction", "points"},
    },
}


@pytest.mark.parametrize("name", RECEIVED)
def test_what_the_parties_receive_is_what_the_protocol_says(runs, name):
    for party, wanted in RECEIVED[name].items():
        assert {kind for _, kind, _ in runs[name][party].received} == wanted


def test_every_count_that_a_host_sends_carries_its_noise(runs):
    rows, _ = one_hot(VERTICAL, (HOST,))
    (sent,) = [value for _, kind, value in runs["record"][GUEST].received if kind == "contingency_tables"]
    noise = np.array(sent["own"], dtype=object) - ((rows.T @ rows).astype(object) << FRACTION_BITS)
    of = np.repeat(np.arange(2), BINS)
    moving = (of[:, None] != of) | np.eye(2 * BINS, dtype=bool)
    assert (noise[moving] != 0).all() and not noise[~moving].any()


def test_a_prediction_is_the_points_of_all_parties(runs):
    rows, codes = one_hot(NEW, TWO)
    _, document = weights_of(runs["none"])
    points = np.array([c["points"] for c in [*document["columns"], *document["hosts"]["host 10000"]]])
    total = document["base_points"] + points[np.arange(4), codes].sum(axis=1)
    wanted = 1 / (1 + np.exp((total - 600) / 20 * np.log(2) + np.log(50)))
    scored = runs["predict"][GUEST].value.set_index("id").loc[NEW[GUEST]["id"]]
    assert scored["predict_score"].to_numpy() == pytest.approx(wanted, abs=1e-6)
    unlabelled = runs["predict unlabelled"][GUEST].value.set_index("id").loc[NEW[GUEST]["id"]]
    assert (unlabelled["predict_score"] == scored["predict_score"]).all()


def test_a_host_sends_whole_points_and_nothing_else_of_a_row(runs):
    (sent,) = [value for _, name, value in runs["predict"][GUEST].received if name == "scores"]
    assert "float" not in repr(sent) and "." not in repr(sent)


def test_points_of_training_rows_are_counted_and_others_noted(runs):
    """A host with two columns allows none, a quarter of them."""
    assert_refused(runs["predict training"], "has released joint scores of 0 models")
    (noted,) = [each for each in runs["predict"][HOST].ledger["entries"] if each["unit"] == "record"]
    assert noted["mechanism"] == "joint scores"


def test_documents_of_two_trainings_are_refused(runs):
    assert_refused(runs["other model"], "are not of one training")
