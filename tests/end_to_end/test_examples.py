"""Every script in examples/, run as a user runs it, on the tables that `python -m examples.tables` makes for it.

default_credit is the real one where it lies on this machine. What a script shows is held against the tables. `make test`
runs those whose components no other file runs on FATE-Flow, and plays the others up to their jobs.
"""

import runpy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from examples.pipelines import Federation, StudyTables, guest_prediction_pipeline, joined_prediction_pipeline
from examples.tables import (
    CREDIT_OF_A_BANK,
    FOLDERS,
    HOST_CREDIT_COLUMNS,
    JOINED_CREDIT,
    MOTOR_RECORDS,
    SEED,
    VEHICLE_RECORDS,
    credit_records,
    main,
    motors,
    vehicles,
)
from fate_dp.components.common.charges import columns_name
from fate_dp.components.dp_homo_gbdt.boosting import scores_of
from fate_dp.components.dp_homo_gbdt.model import model_of as trees_of
from fate_dp.components.dp_homo_nn.model import weights_of
from fate_dp.data_prep.breast_cancer import party_tables
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import Parties, Tables
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.mechanisms.randomized_response import true_probability

from .. import real_data
from ..protocol.joined_rows import plain_training
from ..protocol.joined_rows import weights_of as weights_on_shares

pytestmark = pytest.mark.end_to_end

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = {path.stem.removeprefix("test_"): path for path in sorted(EXAMPLES.glob("pipeline/*/test_*.py"))}
DATA = real_data.FOLDER if real_data.FOLDER.is_dir() else None
GUEST, HOST, BANK, ARBITER = ("guest", "9999"), ("host", "10000"), ("host", "9998"), ("arbiter", "10001")
ROUNDS = 10
QUICK = ("secureboost", "align_share_lr", "homo_gbdt", "shuffler")
AT_ONCE = 3
"""Jobs that run beside each other: much of a task's time is spent in waiting for its peers."""


@pytest.fixture(scope="module")
def returned(request, flow_address, flow_home, tmp_path_factory):
    """What the `main` of each script returned, by the script's name; a job that fails raises its sentence here."""
    asked = {item.get_closest_marker("long") is None for item in request.session.items if item.path == request.path}
    scripts = {name: script for name, script in SCRIPTS.items() if (name in QUICK) in asked}
    config = yaml.safe_load((EXAMPLES / "config.yaml").read_text(encoding="utf-8"))
    path = tmp_path_factory.mktemp("examples") / "config.yaml"
    path.write_text(
        yaml.safe_dump({**config, "flow": str(flow_address), "epochs": 10, "rounds": ROUNDS}), encoding="utf-8"
    )
    data = [] if DATA is None else ["--data", str(DATA)]
    folders = sorted({script.parent.name for script in scripts.values()})
    assert set(folders) <= set(FOLDERS) and main([*folders, *data, "--home", str(flow_home)]) == 0
    with ThreadPoolExecutor(AT_ONCE) as threads:
        run = {name: threads.submit(runpy.run_path(str(script))["main"], path) for name, script in scripts.items()}
        return {name: job.result() for name, job in run.items()}


@pytest.fixture
def at(flow_address):
    """A function of a pipeline, a party and a task: the arguments that ask the server for the task's outputs."""
    return lambda pipeline, party, task: (flow_address, pipeline.model_info.job_id, *party, task)


@pytest.fixture
def ledger(flow_home):
    """A function of a party and a source: the entries of its ledger."""
    parties = open_home(flow_home).parties
    return lambda party, source: [entry for entry in party_ledger(parties, party[1]) if entry["source"] == source]


def weights(where) -> tuple:
    """A vertical model's weights by column, and its intercept."""
    estimator = task_output_model(*where)["output_model"]["data"]["estimator"]
    param = estimator["param"]
    return pd.Series(np.ravel(param["coef_"]), estimator["header"]), np.sum(param["intercept_"] or 0.0)


def joint_scores(at, pipeline, guest, host, task="dp_hetero_lr_0"):
    """The sums that a vertical model makes of rows of both sides, which have the same ids as their index."""
    (own, intercept), (others, _) = (weights(at(pipeline, party, task)) for party in (GUEST, HOST))
    return guest[own.index] @ own + host.loc[guest.index, others.index] @ others + intercept


def summary_of(where) -> dict:
    return next(record["data"] for record in task_metrics(*where) if record["name"] == "summary")


def flips(ledger, source) -> list:
    return [
        entry["epsilon"]
        for entry in ledger(GUEST, source)
        if entry["mechanism"].startswith(("randomized", "piecewise"))
    ]


def patients(part="train"):
    """Guest's and host's breast-cancer rows that both have, by id."""
    tables = party_tables()
    guest, host = (tables[f"{side}_{part}"].set_index("id") for side in ("guest", "host"))
    return guest[guest.index.isin(host.index)], host


def credit():
    """default_credit as both sides have it, by id, columns called as theirs."""
    table = credit_records(DATA, JOINED_CREDIT).set_index("id")
    names = [f"x{number}" for number in range(table.shape[1] - 1)]
    guest = table[["y", *names[HOST_CREDIT_COLUMNS:]]].set_axis(
        ["y", *names[: len(names) - HOST_CREDIT_COLUMNS]], axis=1
    )
    return guest, table[names[:HOST_CREDIT_COLUMNS]]


@pytest.mark.long
def test_private_labels_train_a_model_of_the_true_ones(returned, at, ledger):
    pipeline, (guest, host) = returned["binary"], credit()
    assert roc_auc_score(guest["y"], joint_scores(at, pipeline, guest, host)) > 0.65
    assert flips(ledger, "experiment/default_credit_hetero_guest/y") == [2.0]
    assert summary_of(at(pipeline, GUEST, "dp_hetero_lr_0"))["joint scores of training rows"] == "not asked for"


@pytest.mark.long
def test_private_numbers_train_a_regression_of_the_true_ones(returned, at, ledger):
    table = motors(MOTOR_RECORDS, SEED)
    columns = [name for name in table if name.startswith("x")]
    exact = np.linalg.lstsq(table[columns].to_numpy(), table["motor_speed"].to_numpy(), rcond=None)[0]
    (own, _), (others, _) = (weights(at(returned["regression"], party, "dp_hetero_lr_0")) for party in (GUEST, HOST))
    np.testing.assert_allclose([*own, *others], exact, atol=0.15)
    assert len(flips(ledger, "experiment/motor_hetero_guest/motor_speed")) == 1


@pytest.mark.long
def test_four_private_classes_are_told_apart(returned, at, ledger):
    pipeline, truth = returned["multi_class"], vehicles(VEHICLE_RECORDS, SEED).set_index("id")["y"]
    document = task_output_model(*at(pipeline, GUEST, "dp_hetero_lr_0"))["output_model"]
    assert document["meta"]["labels"] == [0, 1, 2, 3] and sorted(document["data"]["estimator"]) == ["0", "1", "2", "3"]
    scored = task_output_data(*at(pipeline, GUEST, "dp_hetero_lr_0"))["train_output_data"].set_index("id")
    found, flipped = (
        (scored[column].astype(int) == truth.loc[scored.index]).mean() for column in ("predict_result", "label")
    )
    # 0.82 and 0.71 on average of the coins, each within 0.02 for two in three of them; guessing has a quarter.
    assert found > 0.66 and 0.58 < flipped < 0.84
    assert flips(ledger, "experiment/vehicle_scale_hetero_guest/y") == [2.0]
    assert task_metrics(*at(pipeline, GUEST, "evaluation_0"))


@pytest.mark.long
def test_the_second_training_goes_on_where_the_first_one_ended(returned, at):
    first, second = (
        [
            point["metric"]
            for record in task_metrics(*at(returned["warm_start"], GUEST, task))
            if record["type"] == "loss"
            for point in record["data"]
        ]
        for task in ("dp_hetero_lr_0", "dp_hetero_lr_1")
    )
    assert len(first) == len(second) == 3 and first[0] > first[-1] > second[0] > second[-1]


@pytest.mark.long
def test_every_record_is_scored_in_one_fold(returned, at):
    folds = task_output_data(*at(returned["cross_validation"], GUEST, "dp_hetero_lr_0"))["cv_output_datas"]
    ids = [row for fold in folds for row in fold["id"]]
    guest, _ = patients()
    assert len(folds) == 3 and sorted(ids) == sorted(guest.index)
    scored = pd.concat(folds).set_index("id")
    assert roc_auc_score(guest.loc[scored.index, "y"], scored["predict_score"]) > 0.95


@pytest.mark.long
def test_a_host_without_a_table_scores_rows_that_it_does_not_see(returned, at, ledger):
    trained, prediction = returned["encrypted_scoring"]
    scored = task_output_data(*at(prediction, GUEST, "dp_hetero_lr_0"))["test_output_data"].set_index("id")
    guest, host = patients("test")
    expected = joint_scores(at, trained, guest.loc[scored.index], host)
    np.testing.assert_allclose(scored["predict_score"], 1 / (1 + np.exp(-expected)), atol=1e-6)
    counted = ledger(HOST, f"weights of {columns_name(host.columns)}")
    assert [(entry["rounds"], entry["parameters"]) for entry in counted] == [(5, {"purpose": "encrypted scoring"})]


@pytest.mark.long
def test_flipback_knows_more_than_the_flips(returned, at, ledger):
    pipeline, truth = returned["flipback"], patients()[0]["y"]
    flipped, revised = (
        task_output_data(*at(pipeline, GUEST, task))["output_data"].set_index("id")["y"].astype(float).loc[truth.index]
        for task in ("label_flip_0", "flipback_0")
    )
    assert roc_auc_score(truth, revised) > roc_auc_score(truth, flipped) + 0.05
    assert roc_auc_score(truth, joint_scores(at, pipeline, *patients(), "second")) > 0.95
    assert flips(ledger, "fate_dp_demo/guest_train/y") == [2.0]


def test_boosted_trees_of_flips_say_how_likely_true_labels_are(returned, at, ledger):
    pipeline, truth = returned["secureboost"], patients()[0]["y"]
    raw, corrected = (
        task_output_data(*at(pipeline, GUEST, task))[output]
        .set_index("id")["predict_score"]
        .astype(float)
        .loc[truth.index]
        for task, output in (("secureboost_0", "train_output_data"), ("score_correction_0", "output_data"))
    )
    np.testing.assert_allclose(corrected, true_probability(raw, 2.0), atol=1e-9)
    assert roc_auc_score(truth, corrected) > 0.9
    assert ((corrected - truth) ** 2).mean() < ((raw - truth) ** 2).mean()
    assert flips(ledger, "fate_dp_demo/guest_train/y") == [2.0]


def on_shares(guest, host):
    """Both sides' features, the guest's label and ones, as align joins them: in multiples of 2^-20, row by row of the guest."""
    columns = [guest.drop(columns="y"), host.loc[guest.index], guest["y"], np.ones(len(guest))]
    return np.rint(np.column_stack(columns) * 2.0**20) / 2.0**20


def test_shares_of_unknown_records_train_a_model_of_the_flips_for_the_guest_alone(returned, at):
    pipeline, (guest, host) = returned["align_share_lr"], patients()
    document = task_output_model(*at(pipeline, GUEST, "share_lr_0"))["output_model"]
    flipped = task_output_data(*at(pipeline, GUEST, "label_flip_0"))["output_data"].set_index("id")["y"].astype(float)
    joined = on_shares(guest.assign(y=flipped.loc[guest.index]), host)
    made = {"columns": joined, "guest": guest.shape[1] - 1, "host": host.shape[1]}
    found = weights_on_shares(document)
    np.testing.assert_allclose(found, plain_training(made, 10, document["meta"]["optimizer_param"]), atol=1e-5)
    assert roc_auc_score(guest["y"], joined[:, :-2] @ found[:-1] + found[-1]) > 0.95
    assert task_output_model(*at(pipeline, HOST, "share_lr_0"))["output_model"]["data"]["estimator"]["param"] is None


def test_no_output_of_align_shows_an_id_or_a_value(returned, at):
    for party in (GUEST, HOST):
        shares = task_output_data(*at(returned["align_share_lr"], party, "align_0"))["output_data"]
        assert sorted(shares["id"].astype(int)) == list(range(len(shares)))
        highs = shares[[name for name in shares if name.endswith(".high")]].astype(float).abs()
        assert highs.to_numpy().mean() > 2**29 and not any("patient" in str(value) for value in shares.iloc[0])


def test_new_patients_are_scored_on_shares_with_the_deployed_model(returned, at, flow_address, flow_home, tmp_path):
    pipeline = returned["align_share_lr"]
    weights = weights_on_shares(task_output_model(*at(pipeline, GUEST, "share_lr_0"))["output_model"])
    for side, label in (("guest", "y"), ("host", None)):
        party_tables()[f"{side}_test"].to_csv(tmp_path / side, index=False)
        upload_table(flow_address, tmp_path / side, "new_shares", side, TableMeta(label_name=label), home=flow_home)
    prediction = joined_prediction_pipeline(pipeline, Parties(), Tables("new_shares", "guest", "host"))
    run_job(prediction, flow_address, home=flow_home)
    found = task_output_data(*at(prediction, GUEST, "share_lr_0"))["test_output_data"]
    joined = on_shares(*patients("test"))
    expected = expit(joined[:, :-2] @ weights[:-1] + weights[-1])
    for label in (0.0, 1.0):
        of_class = found["predict_score"][found["label"].astype(float) == label].astype(float)
        # Scores come with 12 fraction bits, in an order that tells nothing.
        np.testing.assert_allclose(np.sort(of_class), np.sort(expected[joined[:, -2] == label]), atol=2.0**-13)


@pytest.mark.long
def test_banks_train_one_model_of_their_records(returned, at, ledger):
    pipeline = returned["homo_lr"]
    models = [task_output_model(*at(pipeline, party, "dp_homo_nn_0"))["output_model"] for party in (GUEST, HOST, BANK)]
    assert models[0] == models[1] == models[2]
    rows = credit_records(DATA, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK).iloc[JOINED_CREDIT:]
    features, learned = rows.drop(columns=["id", "y"]), weights_of(models[0])
    assert roc_auc_score(rows["y"], features.to_numpy() @ learned[:-1]) > 0.6
    charged = [entry for entry in ledger(GUEST, columns_name(features.columns)) if entry["rounds"] == ROUNDS]
    assert len(charged) == 1 and charged[0]["parameters"]["purpose"] == "dp_homo_nn, aggregation secure_sum"


def test_banks_grow_the_same_trees_of_their_records(returned, at, ledger):
    pipeline = returned["homo_gbdt"]
    models = [
        task_output_model(*at(pipeline, party, "dp_homo_gbdt_0"))["output_model"] for party in (GUEST, HOST, BANK)
    ]
    assert models[0] == models[1] == models[2]
    assert task_output_model(*at(pipeline, ARBITER, "dp_homo_gbdt_0"))["output_model"]["data"] == {"estimator": None}
    rows = credit_records(DATA, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK).iloc[JOINED_CREDIT:]
    features, (bins, batches) = rows.drop(columns=["id", "y"]), trees_of(models[0])
    assert roc_auc_score(rows["y"], scores_of(batches, bins.codes(features.to_numpy(float)))) > 0.6
    charged = [
        [
            (entry["event"], entry["rounds"])
            for entry in ledger(party, columns_name(features.columns))
            if entry["parameters"]["purpose"].startswith("dp_homo_gbdt")
        ]
        for party in (GUEST, HOST, BANK)
    ]
    assert charged[0] == charged[1] == charged[2] and [rounds for _, rounds in charged[0]] == [len(batches)] == [4]


def test_deployed_trees_score_the_guests_rows_alone(returned, at, flow_address, flow_home):
    pipeline = returned["homo_gbdt"]
    # The guest's own rows are scored again in the stage predict.
    tables = StudyTables("experiment", test="default_credit_homo_guest")
    prediction = guest_prediction_pipeline(pipeline, "dp_homo_gbdt_0", Federation(), tables)
    job = run_job(prediction, flow_address, home=flow_home)
    scored = task_output_data(*at(prediction, GUEST, "dp_homo_gbdt_0"))["test_output_data"]
    bins, batches = trees_of(task_output_model(*at(pipeline, GUEST, "dp_homo_gbdt_0"))["output_model"])
    rows = credit_records(DATA, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK).iloc[JOINED_CREDIT:][:CREDIT_OF_A_BANK]
    codes = bins.codes(rows.set_index("id").drop(columns="y").loc[scored["id"]].to_numpy(float))
    np.testing.assert_allclose(scored["predict_score"].astype(float), expit(scores_of(batches, codes)), atol=1e-6)
    assert len(scored) == len(rows)
    assert {record.party_id for record in job.tasks if record.task == "dp_homo_gbdt_0"} == {GUEST[1]}


def test_shuffled_statistics_are_those_of_both_banks(returned, at, ledger):
    pipeline = returned["shuffler"]
    models = [task_output_model(*at(pipeline, party, "shuffler_0"))["output_model"] for party in (GUEST, BANK, HOST)]
    assert models[0] == models[1] and models[2]["data"] == {"statistics": None}
    mean, histogram = models[0]["data"]["statistics"]
    rows = credit_records(DATA, JOINED_CREDIT + 3 * CREDIT_OF_A_BANK).iloc[JOINED_CREDIT:]
    rows = pd.concat([rows[:CREDIT_OF_A_BANK], rows[2 * CREDIT_OF_A_BANK :]])
    assert (
        mean["messages"] == len(rows)
        and summary_of(at(pipeline, GUEST, "shuffler_0"))["mean of x0"] == mean["estimate"]
    )
    assert abs(mean["estimate"] - rows["x0"].clip(-2, 4).mean()) < 6 * mean["standard_error"]
    below = histogram["shares"][0]
    assert abs(below["estimate"] - (rows["x4"] < 0).mean()) < 6 * below["standard_error"]
    lines = [
        [
            entry
            for entry in ledger(party, columns_name(["x0", "x4"])) + ledger(party, columns_name(rows.columns[2:]))
            if entry["mechanism"] == "Shuffled"
        ]
        for party in (GUEST, BANK)
    ]
    assert [line["jobs"] for line in lines[0]] == [[pipeline.model_info.job_id]] * 2
    assert [line["parameters"] for line in lines[0]] == [line["parameters"] for line in lines[1]]
