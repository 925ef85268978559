"""align and share_lr on a real FATE-Flow: flipped labels, records joined as shares, trained, evaluated, predicted."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fate_dp.data_prep.breast_cancer import party_tables
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.pipelines.jobs.ready import (
    Parties,
    Tables,
    TrainingPlan,
    joined_prediction_pipeline,
    joined_training_pipeline,
)
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

from ..protocol.joined_rows import plain_training, weights_of
from ..real_data import LENDING_CLUB, needs_lending_club

pytestmark = pytest.mark.end_to_end

PARTIES, NAMESPACE = Parties(), "joined"
UNIT = 2.0**20
"""Values are joined as multiples of 2^-20."""


def upload(address, home, folder, name, table):
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    meta = TableMeta(label_name="y" if "y" in table else None)
    upload_table(address, path, NAMESPACE, name, meta, home=home)


def joined(guest, host, labels) -> dict:
    """Both sides' features, the label and a membership of ones, by id, as `plain_training` takes them."""
    rows = guest.drop(columns="y").merge(host, on="id").set_index("id")
    columns = [rows.to_numpy(), labels.loc[rows.index].to_numpy(float)[:, None], np.ones((len(rows), 1))]
    values = np.rint(np.hstack(columns) * UNIT) / UNIT
    return {"columns": values, "guest": guest.shape[1] - 2, "host": host.shape[1] - 1}


def outputs(address, job, task, role="guest"):
    party = PARTIES.guest if role == "guest" else PARTIES.host
    return task_output_data(address, job.job_id, role, party, task)


def model_at(address, job, role, party):
    return task_output_model(address, job.job_id, role, party, "share_lr_0")["output_model"]


def flipped_labels(address, job):
    return outputs(address, job, "label_flip_0")["output_data"].set_index("id")["y"].astype(float)


@pytest.fixture(scope="module")
def cancer(flow_address, flow_home, tmp_path_factory):
    """(tables, training pipeline, its job): one patient in ten is at one hospital only."""
    tables, folder = party_tables(), tmp_path_factory.mktemp("cancer")
    for name, table in tables.items():
        # Ids of their own: other tests on this server release labels of the same patients under another source.
        table["id"] = "shared " + table["id"].astype(str)
        upload(flow_address, flow_home, folder, name, table)
    declare(open_home(flow_home).parties, PARTIES.guest, f"{NAMESPACE}/guest_train/y", cap=4.0)
    plan = TrainingPlan(
        PARTIES, Tables(NAMESPACE, "guest_train", "host_train"), 4.0, training={"epochs": 5, "train_scores": True}
    )
    pipeline = joined_training_pipeline(plan)
    return tables, pipeline, run_job(pipeline, flow_address, home=flow_home)


def test_a_model_of_flipped_labels_is_trained_on_shares_of_the_common_patients(cancer, flow_address, flow_home):
    tables, _, job = cancer
    model = model_at(flow_address, job, "guest", PARTIES.guest)
    assert model["meta"]["privacy"]["epsilon"] == 4.0
    made = joined(tables["guest_train"], tables["host_train"], flipped_labels(flow_address, job))
    plain = plain_training(made, 5, model["meta"]["optimizer_param"])
    np.testing.assert_allclose(weights_of(model), plain, atol=1e-5)
    assert weights_of(model_at(flow_address, job, "host", PARTIES.host)).tolist() == weights_of(model).tolist()
    metrics = task_metrics(flow_address, job.job_id, "guest", PARTIES.guest, "evaluation_0")
    assert metrics[0]["name"] == "evaluation" and "share_lr_0" in metrics[0]["data"]
    losses = [
        record
        for record in task_metrics(flow_address, job.job_id, "guest", PARTIES.guest, "share_lr_0")
        if record["type"] == "loss"
    ]
    assert len(losses) == model["data"]["estimator"]["end_epoch"]
    source = f"{NAMESPACE}/guest_train/y"
    lines = [line for line in party_ledger(open_home(flow_home).parties, PARTIES.guest) if line["source"] == source]
    assert [line["mechanism"] for line in lines] == ["randomized_response"]


def test_no_output_of_align_shows_an_id_or_a_value(cancer, flow_address):
    tables, _, job = cancer
    for role in ("guest", "host"):
        shares = outputs(flow_address, job, "align_0", role)["output_data"]
        assert sorted(shares["id"].astype(int)) == list(range(len(shares)))
        highs = shares[[name for name in shares if name.endswith(".high")]].astype(float).abs()
        assert highs.to_numpy().mean() > 2**29 and not any("patient" in str(value) for value in shares.iloc[0])


def test_new_patients_are_scored_on_shares_with_the_deployed_model(cancer, flow_address, flow_home):
    tables, trained, job = cancer
    weights = weights_of(model_at(flow_address, job, "guest", PARTIES.guest))
    pipeline = joined_prediction_pipeline(trained, PARTIES, Tables(NAMESPACE, "guest_test", "host_test"))
    scored = outputs(flow_address, run_job(pipeline, flow_address, home=flow_home), "share_lr_0")["test_output_data"]
    truth = joined(tables["guest_test"], tables["host_test"], tables["guest_test"].set_index("id")["y"])["columns"]
    expected = 1 / (1 + np.exp(-truth[:, :-2] @ weights[:-1] - weights[-1]))
    found = scored.astype({"label": float, "predict_score": float})
    for label in (0.0, 1.0):
        of_class = np.sort(expected[truth[:, -2] == label])
        # Scores come with 12 fraction bits.
        np.testing.assert_allclose(np.sort(found["predict_score"][found["label"] == label]), of_class, atol=2.0**-13)
    assert roc_auc_score(found["label"], found["predict_score"]) > 0.97


@needs_lending_club
def test_loans_split_vertically_are_trained_on_shares(flow_address, flow_home, tmp_path):
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.columns import ID, LABEL, NUMERIC

    loans = clean(LENDING_CLUB).frame.sample(400, random_state=1)
    numbers = loans[[name for name in NUMERIC if loans[name].nunique() > 10]].iloc[:, :12].astype(float)
    numbers = ((numbers - numbers.mean()) / numbers.std()).clip(-5, 5)
    table = pd.DataFrame({"id": "loan-" + loans[ID].astype(str), "y": loans[LABEL].astype(int)}).join(numbers)
    names = list(numbers)
    guest, host = table[["id", *names[:4], "y"]], table[["id", *names[4:]]]
    guest, host = guest.iloc[:350], host.iloc[50:].sample(frac=1, random_state=2)
    for name, side in (("loans_of_guest", guest), ("loans_of_host", host)):
        upload(flow_address, flow_home, tmp_path, name, side)
    declare(open_home(flow_home).parties, PARTIES.guest, f"{NAMESPACE}/loans_of_guest/y", cap=3.0)
    plan = TrainingPlan(
        PARTIES,
        Tables(NAMESPACE, "loans_of_guest", "loans_of_host"),
        3.0,
        training={"epochs": 4, "reveal": "guest", "train_scores": True},
    )
    job = run_job(joined_training_pipeline(plan), flow_address, home=flow_home)

    model = model_at(flow_address, job, "guest", PARTIES.guest)
    made = joined(guest, host, flipped_labels(flow_address, job))
    assert len(made["columns"]) == 300
    plain = plain_training(made, 4, model["meta"]["optimizer_param"])
    np.testing.assert_allclose(weights_of(model), plain, atol=1e-5)
    assert model_at(flow_address, job, "host", PARTIES.host)["data"]["estimator"]["param"] is None
