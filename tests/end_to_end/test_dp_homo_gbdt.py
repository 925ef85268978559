"""dp_homo_gbdt on a real FATE-Flow: guest, two hosts and arbiter train, evaluate, deploy and predict."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from fate_dp.components.common.charges import columns_name
from fate_dp.components.dp_homo_gbdt.boosting import scores_of
from fate_dp.components.dp_homo_gbdt.model import model_of
from fate_dp.data_prep.breast_cancer import ID, LABEL, load_patients
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.clients import DPHomoGBDT
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import (
    Federation,
    StudyTables,
    evaluation,
    guest_prediction_pipeline,
    new_pipeline,
    training_reader,
)
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.policy import declare_caps
from fate_dp.privacy.private_files import POLICY_FILE, party_folder

pytestmark = pytest.mark.end_to_end

PARTIES = Federation()
# The guest's own rows are scored again in the stage predict.
TABLES = StudyTables("homo_gbdt_test", test=StudyTables().training("guest", PARTIES.guest))
TASK, RECORDS, ROUNDS = "dp_homo_gbdt_0", 450, 4


@pytest.fixture(scope="module")
def patients(flow_address, flow_home, tmp_path_factory):
    """Three hospitals with the same standardised columns; returns the guest's table and its features."""
    table, folder = load_patients().sample(frac=1, random_state=4), tmp_path_factory.mktemp("homo_gbdt")
    # Other tests' tables of these patients have caps of their own, the smallest of which would hold for all, and a cap that
    # is declared for columns is that of the first table with them.
    table = table.rename(columns={name: f"grove_{name}" for name in table if name not in (ID, LABEL)})
    features = [name for name in table if name not in (ID, LABEL)]
    table[ID] = "grove-" + table[ID].astype(str)
    # Test code: the statistics are of all rows.
    table[features] = (table[features] - table[features].mean()) / table[features].std()
    parts = np.split(table[:RECORDS], [120, 300])
    for _, party in PARTIES.data_parties():
        declare_caps(
            party_folder(open_home(flow_home).parties, party) / POLICY_FILE, columns_name(features), epsilon=20.0
        )
    for name, part in zip((TABLES.training(*party) for party in PARTIES.data_parties()), parts):
        part.to_csv(folder / f"{name}.csv", index=False)
        meta = TableMeta(label_name=LABEL)
        upload_table(flow_address, folder / f"{name}.csv", TABLES.namespace, name, meta, home=flow_home)
    return parts[0], features


@pytest.fixture(scope="module")
def trained(flow_address, flow_home, patients):
    """The pipeline and its job: reader, dp_homo_gbdt, and FATE's Evaluation of the guest's rows."""
    reader = training_reader(PARTIES, TABLES)
    trees = DPHomoGBDT(
        TASK,
        runtime_parties=PARTIES.at_training("secure_sum"),
        train_data=reader.outputs["output_data"],
        records=RECORDS,
        epsilon=4.0,
        trees=40,
        rounds=ROUNDS,
        depth=3,
    )
    pipeline = new_pipeline(PARTIES).add_tasks([reader, trees])
    pipeline.add_tasks([evaluation(PARTIES, trees.outputs["train_output_data"])])
    return pipeline, run_job(pipeline, flow_address, home=flow_home)


def model(address, job, role, party):
    return task_output_model(address, job.job_id, role, party, TASK)["output_model"]


def test_all_data_parties_hold_the_same_model_and_the_arbiter_none(trained, flow_address):
    models = [model(flow_address, trained[1], *party) for party in PARTIES.data_parties()]
    assert models[0] == models[1] == models[2] and len(model_of(models[0])[1]) == ROUNDS
    assert model(flow_address, trained[1], "arbiter", PARTIES.arbiter)["data"] == {"estimator": None}


def test_the_ledgers_of_all_parties_agree(trained, flow_home, patients):
    parties, dataset = open_home(flow_home).parties, columns_name(patients[1])
    ledgers = [
        [(entry["event"], entry["rounds"]) for entry in party_ledger(parties, party_id) if entry["source"] == dataset]
        for _, party_id in PARTIES.data_parties()
    ]
    assert ledgers[0] and ledgers[0] == ledgers[1] == ledgers[2] and ledgers[0][-1][1] == ROUNDS


def test_the_model_learns_and_the_board_says_what_it_costs(trained, flow_address):
    guest = (flow_address, trained[1].job_id, "guest", PARTIES.guest)
    scored = task_output_data(*guest, TASK)["train_output_data"]
    # Guessing has 0.5, give or take 0.05.
    assert roc_auc_score(scored["label"].astype(float), scored["predict_score"].astype(float)) > 0.75
    (summary,) = (record["data"] for record in task_metrics(*guest, TASK) if record["name"] == "summary")
    assert summary["rounds run"] == ROUNDS and 3.9 < float(summary["epsilon (nats, add-or-remove, all 4 rounds)"]) <= 4
    assert task_metrics(*guest, "evaluation_0")


def test_the_deployed_model_scores_the_guests_rows_alone(trained, flow_address, flow_home, patients):
    job = run_job(guest_prediction_pipeline(trained[0], TASK, PARTIES, TABLES), flow_address, home=flow_home)
    scored = task_output_data(flow_address, job.job_id, "guest", PARTIES.guest, TASK)["test_output_data"]
    table, features = patients
    bins, batches = model_of(model(flow_address, trained[1], "guest", PARTIES.guest))
    rows = table.set_index(ID).loc[scored["id"], features].to_numpy()
    np.testing.assert_allclose(
        scored["predict_score"].astype(float), expit(scores_of(batches, bins.codes(rows))), atol=1e-6
    )
    assert len(scored) == len(table)
    assert {record.party_id for record in job.tasks if record.task == TASK} == {PARTIES.guest}
