"""dp_scorecard between parties: the model of the tables, what each party receives, what it pays, what is refused."""

import json
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.federation import own_party
from fate_dp.components.dp_scorecard.additive import calibrate, solve
from fate_dp.components.dp_scorecard.settings import PredictSettings, TrainSettings
from fate_dp.privacy.bins import ColumnBins, TableBins
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS, BinnedRows, ContingencyTables
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for

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
    raise_score_cap,
    tables,
)

TWO, THREE = (GUEST, HOST), (GUEST, HOST, SECOND_HOST)
BINS, ROWS = 4, 400
HOST_EPSILON, FAINT_BITS = 2.0, 10
"""Where a job names no epsilon, hosts have this one, and noise is 2^10 times too small, for what is compared with exact tables."""


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
    settings, frame = settings_at(ctx, given, own), frame_at(ctx, tables)
    with noise_for(given):
        return json.loads(json.dumps(stage.train(ctx, settings, frame)))


def settings_at(ctx, given, own):
    """Of this party; where the job names no epsilon the ridge is 1."""
    if "epsilon" not in given:
        given = {"ridge": 1.0, "epsilon": None if own_party(ctx) == GUEST else HOST_EPSILON, **given}
    return TrainSettings(**{"bins": BINS, **given, **(own or {}).get(own_party(ctx), {})})


def noise_for(given):
    """A context in which noise is faint where the job names no epsilon."""
    draw, variances = ContingencyTables.draw, ContingencyTables.variances

    def faint(*arguments):
        noise = draw(*arguments)
        cross = {position: block >> FAINT_BITS for position, block in noise.cross.items()}
        return replace(noise, own=noise.own >> FAINT_BITS, cross=cross)

    told = {"draw": faint, "variances": lambda terms: variances(terms) / 4**FAINT_BITS}
    return nullcontext() if "epsilon" in given else mock.patch.multiple(ContingencyTables, **told)


def predict(ctx, earlier, tables, model, own=None, **given):
    from fate_dp.components.dp_scorecard import predict as stage

    given = {**given, **(own or {}).get(own_party(ctx), {})}
    document, frame = earlier[model].value, frame_at(ctx, tables)
    if own_party(ctx) == GUEST:
        return stage.predict_guest(ctx, PredictSettings(**given), document, frame).as_pd_df()
    return stage.predict_host(ctx, PredictSettings(**given), document, frame)


def cross_validate(ctx, earlier, tables, own=None, public=False, declared=False, score_cap=9, **given):
    """The stage at this party; the guest's frames of held-out rows and its summaries."""
    from fate_dp.components.dp_hetero_lr.settings import cv_param
    from fate_dp.components.dp_scorecard import folds as stage

    if declared and own_party(ctx) == GUEST:
        declare(ctx, SOURCE)
    if public:
        declare_public(ctx, tables)
        given = {"label_source": SOURCE, **given}
    if own_party(ctx) != GUEST:
        raise_score_cap(ctx, tables, score_cap)
    splits = {"n_splits": given.pop("n_splits", 3), **(own or {}).get(own_party(ctx), {})}
    folds = cv_param(splits)
    # FATE makes what holds metrics when it is first asked for; contexts made after that share it.
    assert ctx.metrics
    settings, frame = settings_at(ctx, given, None), frame_at(ctx, tables)
    with noise_for(given):
        if own_party(ctx) != GUEST:
            return stage.validate_host(ctx, settings, folds, frame)
        scored = [each.as_pd_df() for each in stage.validate_guest(ctx, settings, folds, frame)]
    return scored, [record["data"] for record in ctx.metrics.handler.get_metrics() if record["name"] == "summary"]


def joined_at_guest(tables):
    """The guest with all columns, the hosts without a table."""
    hosts = [
        table[[name for name in table if name.startswith("x")]] for party, table in tables.items() if party != GUEST
    ]
    return {GUEST: pd.concat([tables[GUEST], *hosts], axis=1)}


NEW = binned(rows=60, seed=0, ids=[f"other {row}" for row in range(60)])
UNLABELLED = {party: table.drop(columns="y", errors="ignore") for party, table in NEW.items()}
RECORD = {"privacy": "record", "epsilon": 2.0, "delta": 1e-6, "public": False}


LABEL = {"privacy": "label", "label_source": SOURCE, "epsilon": 2.0, "delta": 1e-5, "public": False, "declared": True}


def with_column(party, name, values, base=VERTICAL):
    return {**base, party: base[party].assign(**{name: values})}


FIRST = VERTICAL[HOST].columns[2]
PATH = (0.5, 4.0, 20.0)
REFUSED = {
    "no epsilon": ({**RECORD, "own": {HOST: {"epsilon": None}}}, "Set it at every host"),
    "no epsilon beside noise on labels": ({**LABEL, "own": {HOST: {"epsilon": None}}}, "Set it at every host"),
    "no epsilon beside flips": ({"privacy": "none", "own": {HOST: {"epsilon": None}}}, "Set it at every host"),
    "epsilon of nothing": ({"privacy": "none", "epsilon": 2.0}, "epsilon is 2 at the guest, but privacy is none"),
    "other privacy": (
        {**RECORD, "own": {HOST: {"privacy": "none"}}},
        "privacy at host 10000 must be record, as at the guest, got 'none'.",
    ),
    "true labels": ({"privacy": "none", "public": False}, "training labels"),
    "cap of labels": ({**LABEL, "epsilon": 50.0}, "`fate-dp cap"),
    "no source": ({**LABEL, "label_source": None}, "label_source must be set at the guest, got None"),
    "undeclared": ({**LABEL, "declared": False}, "is not declared at the guest"),
    "no bin": ({**RECORD, "tables": with_column(HOST, FIRST, 4)}, "contains a value that is not a bin number"),
    "half a bin": ({**RECORD, "tables": with_column(HOST, FIRST, 0.5)}, "not a bin number"),
    "missing": ({**RECORD, "tables": with_column(HOST, FIRST, np.nan)}, "not a bin number"),
    "one class": ({"privacy": "none", "tables": with_column(GUEST, "y", 1)}, "All labels are of one class"),
    "other labels": ({**RECORD, "tables": with_column(GUEST, "y", [1, 2] * (ROWS // 2))}, "neither 0 nor 1"),
    "label at host": ({**RECORD, "tables": with_column(HOST, "y", 1)}, "only the guest has labels"),
    "other rows": (
        {**RECORD, "tables": {**VERTICAL, HOST: binned(ids=[f"no {at}" for at in range(ROWS)])[HOST]}},
        "not the same ids",
    ),
    "names of bins": ({**RECORD, "own": {HOST: {"bins": {"y": 3}}}}, "bins names other columns"),
    "host without columns": (
        {**RECORD, "tables": {**VERTICAL, HOST: VERTICAL[HOST][["sample_id", "id"]]}},
        "has no feature columns",
    ),
    "monotone": ({**RECORD, "own": {HOST: {"monotone": {"z": "increasing"}}}}, "monotone names a column"),
}


FOLDS_REFUSED = {
    "folds beyond the cap": ({**RECORD, "score_cap": 2}, "has released joint scores of 0 models"),
    "other folds": (
        {**RECORD, "own": {HOST: {"n_splits": 4}}},
        "cv_param.n_splits at host 10000 must be 3, as at the guest, got 4.",
    ),
    "more folds than rows": (
        {"privacy": "none", "public": True, "n_splits": ROWS + 1, "score_cap": ROWS + 1},
        "cv_param.n_splits must be at most the rows of the table",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    trained = {
        "none": ({"tables": VERTICAL, "privacy": "none"}, TWO),
        "three": ({"tables": binned(hosts=(2, 3), seed=3), "privacy": "none"}, THREE),
        "record": ({"tables": VERTICAL, **RECORD}, TWO),
        "record of one class": ({"tables": with_column(GUEST, "y", 1), **RECORD}, TWO),
        "label": ({"tables": VERTICAL, **LABEL}, TWO),
        "three noisy": ({"tables": binned(hosts=(2, 3), seed=3), **RECORD, "epsilon": 8.0}, THREE),
        "path": ({"tables": VERTICAL, "privacy": "none", "ridge_path": PATH}, TWO),
        "noisy path": ({"tables": VERTICAL, **RECORD, "ridge_path": PATH}, TWO),
        "merged": ({"tables": VERTICAL, "privacy": "none", "merge_points": 9}, TWO),
        "one bin alone": ({"tables": with_column(HOST, FIRST, 2), "privacy": "none"}, TWO),
        "few rows": (
            {"tables": {party: table.head(12) for party, table in VERTICAL.items()}, "privacy": "none", "bins": 20},
            TWO,
        ),
        "constrained": (
            {"tables": VERTICAL, "privacy": "none", "own": {HOST: {"monotone": {FIRST: "increasing"}}}},
            TWO,
        ),
    }
    scenarios = {name: Scenario(train, arguments, parties) for name, (arguments, parties) in trained.items()}
    for name, (arguments, _) in REFUSED.items():
        scenarios[name] = Scenario(train, {"tables": VERTICAL, **arguments}, TWO)
    for name, arguments in (("folds of none", {"privacy": "none", "public": True}), ("folds of record", RECORD)):
        scenarios[name] = Scenario(cross_validate, {"tables": VERTICAL, **arguments}, TWO)
    for name, (arguments, _) in FOLDS_REFUSED.items():
        scenarios[name] = Scenario(cross_validate, {"tables": VERTICAL, **arguments}, TWO)
    for name, table in (("predict", NEW), ("predict unlabelled", UNLABELLED), ("predict training", VERTICAL)):
        scenarios[name] = Scenario(predict, {"tables": table, "model": "none"}, TWO, home="none")
    joined = joined_at_guest(NEW)
    plain = {"model": "none", "scoring": "plain"}
    scenarios["plain"] = Scenario(predict, {"tables": joined, **plain}, TWO, home="none")
    scenarios["plain columns"] = Scenario(predict, {"tables": {GUEST: NEW[GUEST]}, **plain}, TWO, home="none")
    scenarios["joint without rows"] = Scenario(
        predict, {"tables": {GUEST: NEW[GUEST]}, "model": "none"}, TWO, home="none"
    )
    scenarios["two kinds"] = Scenario(
        predict, {"tables": NEW, "model": "none", "own": {HOST: {"scoring": "plain"}}}, TWO, home="none"
    )
    models = {party: binning_of(party) for party in TWO}
    scenarios["missing bin"] = Scenario(
        train_binned, {"models": models, "own": {HOST: {"monotone": {FIRST: "decreasing"}}}}, TWO
    )
    scenarios["other model"] = Scenario(
        predict_mixed, {"tables": NEW, "models": {GUEST: "none", HOST: "constrained"}}, TWO, home="none"
    )
    return play(scenarios, tmp_path_factory.mktemp("homes"), THREE)


def train_binned(ctx, earlier, models, own):
    """The stage with the document of dp_binning in place of bins."""
    from fate_dp.components.dp_scorecard import train as stage

    declare_public(ctx, VERTICAL)
    given = {"privacy": "none", "label_source": SOURCE, "bins": None}
    settings = settings_at(ctx, given, own)
    with noise_for(given):
        return json.loads(json.dumps(stage.train(ctx, settings, frame_at(ctx, VERTICAL), models[own_party(ctx)])))


def binning_of(party):
    """Two cut points, then a bin of missing values, in both of a party's columns."""
    names = [name for name in VERTICAL[party] if name.startswith("x")]
    return {"bins": TableBins(tuple(ColumnBins(name, (0.5, 1.5)) for name in names)).to_wire()}


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
    # Of three parties the noise moves it by .0026 at most in 3,000 draws.
    assert document["calibration"]["slope"] == pytest.approx(found.slope, rel=0.01)


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
    assert not [entry for entry in runs["none"][GUEST].ledger["entries"] if entry["unit"] == "record"]


@pytest.mark.parametrize("name", ["label", "none"])
def test_whatever_protects_labels_a_host_pays_for_its_records(runs, name):
    (entry,) = runs[name][HOST].ledger["entries"]
    assert (entry["unit"], entry["relation"], entry["mechanism"]) == ("record", "replace_one", "Gaussian")
    assert runs[name][HOST].value["meta"]["noise"]["epsilon"] == HOST_EPSILON
    assert runs[name][HOST].value["meta"]["noise"]["unit"] == "record"


def test_with_noise_on_labels_their_source_pays(runs):
    (entry,) = [each for each in runs["label"][GUEST].ledger["entries"] if each["mechanism"] == "Gaussian"]
    assert (entry["unit"], entry["relation"]) == ("label", "replace_one")
    assert runs["label"][GUEST].value["meta"]["noise"]["unit"] == "label"


def test_no_exact_bit_of_noised_labels_decides_whether_the_job_goes_on(runs):
    """All labels are 1 here, which the noisy totals of every bin may say and a refusal must not."""
    assert np.isfinite(weights_of(runs["record of one class"])[0]).all()


@pytest.mark.parametrize("name", [*REFUSED, *FOLDS_REFUSED])
def test_a_refusal_is_everybodys_before_anything_is_charged_or_sent(runs, name):
    assert_refused(runs[name], {**REFUSED, **FOLDS_REFUSED}[name][1])
    for outcome in runs[name].values():
        assert not [entry for entry in outcome.ledger["entries"] if entry["mechanism"] == "Gaussian"]
        assert not {kind for _, kind, _ in outcome.received} & {"encrypted_rows", "public_key"}


RECEIVED = {
    GUEST: {"preflight", "public_key", "masked_products", "contingency_tables"},
    HOST: {"verdict", "public_key", "encrypted_rows", "points"},
}


@pytest.mark.parametrize("name", ["record", "label", "none"])
def test_what_the_parties_receive_is_what_the_protocol_says(runs, name):
    for party, wanted in RECEIVED.items():
        assert {kind for _, kind, _ in runs[name][party].received} == wanted


def tables_sent(runs, name):
    """What the host sent the guest, a dict for each training."""
    return [value for _, kind, value in runs[name][GUEST].received if kind == "contingency_tables"]


def test_pairs_with_the_guest_s_bins_carry_noise_of_the_scale_that_the_host_is_charged_for(runs):
    """Faint noise is what is left of a whole share; 288 draws know its scale to 4 percent."""
    shares = [sent["cross"][0] for name in ("none", "folds of none") for sent in tables_sent(runs, name)]
    left = np.array([int(each) % 2**FRACTION_BITS for each in np.concatenate(shares).flat]) / 2**FRACTION_BITS
    noise = np.where(left < 0.5, left, left - 1)
    sizes = BinnedRows((BINS, BINS), labelled=True), BinnedRows((BINS, BINS))
    sigma = ContingencyTables(sizes, (0.0, noise_multiplier_for(HOST_EPSILON, 1e-6))).sigma(1)
    assert noise.size == 288 and np.std(noise) * 2**FAINT_BITS == pytest.approx(sigma, rel=0.3)


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
    training, noted = [each for each in runs["predict"][HOST].ledger["entries"] if each["unit"] == "record"]
    assert (training["mechanism"], noted["mechanism"]) == ("Gaussian", "joint scores")


def test_plain_scoring_gives_the_same_scores_and_asks_no_host(runs):
    joint, plain = (runs[name][GUEST].value.set_index("id").loc[NEW[GUEST]["id"]] for name in ("predict", "plain"))
    assert (joint["predict_score"] == plain["predict_score"]).all()
    assert {kind for _, kind, _ in runs["plain"][GUEST].received} == {"preflight"}
    assert {kind for _, kind, _ in runs["plain"][HOST].received} == {"verdict"}
    # Both runs share a home, whose ledger has the lines of the training and of the joint prediction before.
    assert len(runs["plain"][HOST].ledger["entries"]) == len(runs["predict training"][HOST].ledger["entries"])


@pytest.mark.parametrize(
    "name, told",
    [
        ("plain columns", "must have all 4 columns of the scorecard"),
        ("joint without rows", "has no test_data at this party"),
        ("two kinds", "scoring at host 10000 must be joint, as at the guest, got 'plain'."),
    ],
)
def test_rows_that_do_not_fit_the_scoring_are_refused(runs, name, told):
    assert_refused(runs[name], told)


# What costs nothing


@pytest.mark.parametrize("name, base", [("path", "none"), ("noisy path", "record")])
def test_a_ridge_path_has_the_scorecards_of_its_ridges_at_no_further_cost(runs, name, base):
    value, rows = runs[name][GUEST].value, one_hot(VERTICAL, TWO)[0]
    for party in TWO:
        assert len(runs[name][party].ledger["entries"]) == len(runs[base][party].ledger["entries"]) == 1
    path = value["data"]["ridge_path"]
    assert [each["ridge"] / path[0]["ridge"] * PATH[0] for each in path] == pytest.approx(PATH)
    sizes = [np.std(rows @ weights_in(each["scorecard"])) for each in path]
    assert sizes == sorted(sizes, reverse=True) and "ridge_path" not in runs[name][HOST].value["data"]
    if name == "noisy path":
        return
    target = 2.0 * (2 * VERTICAL[GUEST]["y"].to_numpy() - 1)
    for each in path:
        wanted = solve(rows.T @ rows, rows.T @ target, each["ridge"])
        found = weights_in(each["scorecard"])
        assert np.abs(rows @ found - rows @ wanted).max() < 0.02 * np.abs(rows @ wanted).max()


def weights_in(card):
    columns = [*card["columns"], *(each for host in card["hosts"].values() for each in host)]
    return np.concatenate([column["weights"] for column in columns])


def centred(weights):
    """The bins of a column against each other: what all have in common the other columns can take over, at hardly a price."""
    return np.asarray(weights) - np.mean(weights)


def test_merged_bins_have_one_number_of_points_and_others_keep_theirs(runs):
    merged, before = (weights_of(runs[name])[1] for name in ("merged", "none"))
    changed = False
    for now, then in zip(
        merged["columns"] + merged["hosts"]["host 10000"], before["columns"] + before["hosts"]["host 10000"]
    ):
        assert centred(now["weights"]) == pytest.approx(centred(then["weights"]), abs=0.02)
        gaps = np.abs(np.diff(now["points"]))
        assert ((gaps == 0) | (gaps > 9 - 1)).all()
        changed |= now["points"] != then["points"]
    assert changed


def test_the_bin_of_missing_values_is_no_neighbour_of_a_constraint(runs):
    """Code 3 is that bin; the odds rise along the columns, so that 'decreasing' levels the three others alone."""
    weights = np.array(runs["missing bin"][HOST].value["data"]["scorecard"]["columns"][0]["weights"])
    free = np.array(runs["none"][HOST].value["data"]["scorecard"]["columns"][0]["weights"])
    bins = np.bincount(VERTICAL[HOST][FIRST], minlength=BINS)[:3]
    above = [each[3] - np.average(each[:3], weights=bins) for each in (weights, free)]
    assert (np.diff(weights[:3]) <= 1e-9).all() and above[0] == pytest.approx(above[1], abs=0.02)


def test_a_column_of_one_bin_alone_and_more_bins_than_rows_give_finite_scorecards(runs):
    weights, document = weights_of(runs["one bin alone"])
    of_column = document["hosts"]["host 10000"][0]
    # The bins that no record is in say nothing, and the one of all records has the average's points.
    assert np.isfinite(weights).all() and of_column["points"] == [0, 0, 0, 0] or of_column["points"][2] == 0
    assert np.isfinite(weights_of(runs["few rows"])[0]).all()


def test_documents_of_two_trainings_are_refused(runs):
    assert_refused(runs["other model"], "are not of one training")


# Cross-validation


def test_each_fold_is_scored_by_the_model_of_the_others(runs):
    """Without noise the plaintext twin of each fold gives the same log-odds, but for the rounding of points."""
    frames, _ = runs["folds of none"][GUEST].value
    rows, _ = one_hot(VERTICAL, TWO)
    labels = VERTICAL[GUEST]["y"].to_numpy()
    places = [slice(at, at + BINS) for at in range(0, rows.shape[1], BINS)]
    assert sorted(each for frame in frames for each in frame["id"]) == sorted(VERTICAL[GUEST]["id"])
    for frame in frames:
        held_out = VERTICAL[GUEST]["id"].isin(set(frame["id"])).to_numpy()
        known, target = rows[~held_out], 2.0 * (2 * labels[~held_out] - 1)
        weights = solve(known.T @ known, known.T @ target, 1.0)
        found = calibrate(weights, known.T @ known @ weights, known.T @ target, known.sum(axis=0), places)
        wanted = found.slope * (rows[held_out] @ weights) + found.intercept
        scores = frame.set_index("id").loc[VERTICAL[GUEST]["id"][held_out], "predict_score"].astype(float)
        assert np.abs(np.log(scores / (1 - scores)).to_numpy() - wanted).max() < 0.2


def test_every_fold_has_points_of_its_own(runs):
    sent = [value for _, kind, value in runs["folds of record"][HOST].received if kind == "points"]
    assert len(sent) == 3 and len({tuple(each["weights"]) for each in sent}) == 3


def test_every_fold_counts_as_one_scorecard_that_the_host_showed(runs):
    for name in ("folds of none", "folds of record"):
        (line,) = [each for each in runs[name][HOST].ledger["entries"] if each["mechanism"] == "joint scores"]
        assert line["rounds"] == 3


def test_every_fold_has_a_summary_with_its_figures(runs):
    for name in ("folds of none", "folds of record"):
        _, summaries = runs[name][GUEST].value
        assert len(summaries) == 3 and all(any("AUC" in fact for fact in facts) for facts in summaries)
