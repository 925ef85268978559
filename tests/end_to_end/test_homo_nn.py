"""dp_homo_nn on a real FATE-Flow: guest, two hosts, arbiter and a host that shuffles, in each trust model."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from examples.pipelines import Federation, StudyTables, guest_prediction_pipeline, private_training_pipeline
from fate_dp.components.common.charges import columns_name
from fate_dp.components.dp_homo_nn.model import weights_of
from fate_dp.data_prep.breast_cancer import ID, LABEL, load_patients
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import NoOutput, run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import evaluation
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.ledger.policy import declare_caps
from fate_dp.privacy.private_files import POLICY_FILE, party_folder

pytestmark = pytest.mark.end_to_end

PARTIES = Federation(shuffler="9997")
# An upload takes longer than a training: the guest's own rows are scored again in the stage predict.
TABLES = StudyTables("homo_nn_test", test=StudyTables().training("guest", PARTIES.guest))
RECORDS = 450
ROUNDS = 4
COMMON = {"rounds": ROUNDS, "batch_size": 225, "records": RECORDS, "optimizer": {"optimizer_params": {"lr": 1.0}}}
TRAININGS = {
    "dp_homo_nn_0": {"aggregation": "secure_sum", "epsilon": 2.0, **COMMON},
    "dp_homo_nn_1": {"aggregation": "local", "noise_multiplier": 2.0, **COMMON},
    "dp_homo_nn_2": {"aggregation": "shuffle", "epsilon0": 2.0, **COMMON},
}
AGGREGATIONS = {task: parameters["aggregation"] for task, parameters in TRAININGS.items()}


@pytest.fixture(scope="module")
def patients(flow_address, flow_home, tmp_path_factory):
    """Three hospitals with the same columns; returns the guest's table and its features."""
    table, folder = load_patients().sample(frac=1, random_state=3), tmp_path_factory.mktemp("homo_nn")
    features = [name for name in table if name not in (ID, LABEL)]
    # Other tests' tables of these patients have caps of their own, the smallest of which would hold for all.
    table[ID] = "ward-" + table[ID].astype(str)
    # Test code: the statistics are of all rows.
    table[features] = ((table[features] - table[features].mean()) / table[features].std()).clip(-3, 3) / 3
    parts = np.split(table[:RECORDS], [120, 300])
    for _, party in PARTIES.data_parties():
        # All three trainings count together, under replace-one.
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
    """The pipeline and its job: three trainings, and FATE's Evaluation of one of them."""
    pipeline = private_training_pipeline(PARTIES, TABLES, TRAININGS, evaluate=False)
    pipeline.add_tasks([evaluation(PARTIES, pipeline.tasks["dp_homo_nn_0"].outputs["train_output_data"])])
    return pipeline, run_job(pipeline, flow_address, home=flow_home)


def model(address, job, task, role, party):
    return task_output_model(address, job.job_id, role, party, task)["output_model"]


@pytest.mark.parametrize("task", TRAININGS)
def test_all_data_parties_hold_the_same_model_and_nobody_else_holds_one(trained, flow_address, task):
    models = [model(flow_address, trained[1], task, *party) for party in PARTIES.data_parties()]
    assert models[0] == models[1] == models[2] and len(weights_of(models[0])) == 31
    assert model(flow_address, trained[1], task, "arbiter", PARTIES.arbiter)["data"] == {"estimator": None}
    assert models[0]["meta"]["privacy"]["rounds run"] == ROUNDS


def test_the_shuffler_holds_no_rows(trained, flow_address, flow_home):
    """It runs nothing but the shuffled training, which leaves it neither model nor table, neither key nor ledger."""
    task, home = "dp_homo_nn_2", open_home(flow_home)
    assert {record.task for record in trained[1].tasks if record.party_id == PARTIES.shuffler} == {task}
    assert model(flow_address, trained[1], task, "host", PARTIES.shuffler)["data"] == {"estimator": None}
    assert not _tables(flow_address, trained[1], "host", PARTIES.shuffler, task)
    assert _tables(flow_address, trained[1], "host", PARTIES.hosts[0], task)
    assert not party_folder(home.parties, PARTIES.shuffler).exists()
    assert party_folder(home.parties, PARTIES.hosts[0]).exists()
    folder = home.root / "jobs" / trained[1].job_id / "host" / PARTIES.shuffler
    kept = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert kept and not any(b"patient-" in content for content in kept)


def test_the_ledgers_of_all_parties_agree(trained, flow_address, flow_home, patients):
    parties, dataset = open_home(flow_home).parties, columns_name(patients[1])
    kept = ("event", "parameters", "rounds")
    ledgers = [
        [
            {name: entry[name] for name in kept}
            for entry in party_ledger(parties, party_id)
            if entry["source"] == dataset
        ]
        for _, party_id in PARTIES.data_parties()
    ]
    assert ledgers[0] == ledgers[1] == ledgers[2]
    assert {entry["parameters"]["purpose"]: entry["rounds"] for entry in ledgers[0]} == {
        "dp_homo_nn, aggregation secure_sum": ROUNDS,
        "dp_homo_nn, aggregation local": ROUNDS,
        "dp_homo_nn, aggregation shuffle": 2,
    }
    assert not [entry for party_id in (PARTIES.shuffler, PARTIES.arbiter) for entry in party_ledger(parties, party_id)]


def test_each_trust_model_learns_and_the_board_says_what_it_costs(trained, flow_address):
    guest = (flow_address, trained[1].job_id, "guest", PARTIES.guest)
    auc = {}
    for task, trust in AGGREGATIONS.items():
        scored = task_output_data(*guest, task)["train_output_data"]
        auc[task] = roc_auc_score(scored["label"].astype(float), scored["predict_score"].astype(float))
        (summary,) = (record["data"] for record in task_metrics(*guest, task) if record["name"] == "summary")
        assert summary["aggregation"].startswith(trust) and summary["rounds run"] == ROUNDS
    # Noise is fresh in every run. Of simulated trainings the AUC with a noisy sum is 0.988, give or take 0.002; that of
    # shuffled answers, 0.984, falls to 0.95 in one of a thousand. Guessing has 0.5, give or take 0.05.
    least = {task: 0.75 if trust == "shuffle" else 0.9 for task, trust in AGGREGATIONS.items()}
    assert {task: found for task, found in auc.items() if found <= least[task]} == {}
    (measured,) = task_metrics(*guest, "evaluation_0")
    assert abs(_auc(measured["data"]["dp_homo_nn_0"]) - auc["dp_homo_nn_0"]) < 1e-3


def test_the_deployed_model_scores_the_guests_rows_alone(trained, flow_address, flow_home, patients):
    job = run_job(guest_prediction_pipeline(trained[0], "dp_homo_nn_0", PARTIES, TABLES), flow_address, home=flow_home)
    scored = task_output_data(flow_address, job.job_id, "guest", PARTIES.guest, "dp_homo_nn_0")["test_output_data"]
    table, features = patients
    document = model(flow_address, trained[1], "dp_homo_nn_0", "guest", PARTIES.guest)
    weights, rows = weights_of(document), table.set_index(ID).loc[scored["id"]]
    expected = 1 / (1 + np.exp(-(rows[features].to_numpy() @ weights[:-1] + weights[-1])))
    np.testing.assert_allclose(scored["predict_score"], expected, atol=1e-5)
    assert len(scored) == len(table) and (scored["predict_result"] == scored["label"]).mean() > 0.8
    assert {record.party_id for record in job.tasks if record.task == "dp_homo_nn_0"} == {PARTIES.guest}


def _tables(address, job, role, party, task) -> dict:
    """The tables that a task left at a party, none for no output at all."""
    try:
        found = task_output_data(address, job.job_id, role, party, task)
        return {name: table for name, table in found.items() if len(table)}
    except NoOutput:
        return {}


def _auc(measured) -> float:
    entries = [entry for part in measured.values() for entry in part]
    metrics = [metric for entry in entries for metric in (entry if isinstance(entry, list) else [entry])]
    return next(metric["val"] for metric in metrics if metric["metric"] == "auc")
