"""The demo with all our components on a cluster that computes with Spark, against a single server; lost executors."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from fate_dp.components.dp_homo_nn.model import weights_of
from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX
from fate_dp.pipelines.demo.run import NAMESPACE
from fate_dp.pipelines.jobs.flow import connect
from tests.support.cluster.party_server import spark_environment

from .places import GUEST, HOST_ID, SECOND, copy_keys
from .spark_studies import run_horizontal, run_shared, run_statistics, run_vertical
from .studies import PATIENTS, ROUNDS, upload_demo, upload_patients

ENGINE = "spark"
LOST_EXECUTOR_SECONDS = 400


@pytest.fixture(scope="module")
def uploaded(here, work):
    """Both studies' tables on the Spark servers; the names of the patients' features."""
    upload_demo(here, work / "demo")
    return upload_patients(here, work / "patients")


@pytest.fixture(scope="module")
def vertical(uploaded, here):
    return run_vertical(here)


@pytest.fixture(scope="module")
def shared(vertical, here):
    return run_shared(here)


@pytest.fixture(scope="module")
def single(vertical, shared, here, there, work):
    """Both trainings on joined records once more, on one server whose guest has the same key."""
    copy_keys(here, there)
    upload_demo(there, work / "demo")
    return run_vertical(there), run_shared(there)


def test_tables_have_several_partitions(uploaded, here):
    found = connect(here.addresses[GUEST]).table.query(namespace=NAMESPACE, name="guest_train")["data"]
    assert found["engine"] == "file" and len(found["meta"]["partition_order_mappings"]) == 4


@pytest.mark.parametrize("number, task", [(0, "dp_hetero_lr_0"), (1, "share_lr_0")])
def test_flips_and_models_are_those_of_a_single_server(number, task, vertical, shared, single):
    """label_flip's flips exactly; the weights of dp_hetero_lr and of align with share_lr to 1e-5."""
    on_spark = (vertical, shared)[number]
    assert on_spark.flipped.equals(single[number].flipped)
    for party_id in (GUEST, HOST_ID):
        np.testing.assert_allclose(on_spark.weights[party_id], single[number].weights[party_id], atol=1e-5)


def test_both_jobs_flipped_the_same_and_spent_once(vertical, shared, here):
    """The second job reads other rows, in other partitions, of the same source."""
    common = vertical.flipped.index.intersection(shared.flipped.index)
    assert len(common) == len(vertical.flipped) and shared.flipped.loc[common].equals(vertical.flipped)
    (line,) = [entry for entry in here.ledger(GUEST) if entry["mechanism"] == "randomized_response"]
    assert line["pending"] == 0 and {vertical.job.job_id, shared.job.job_id} <= set(line["jobs"])


def test_flipback_gives_every_row_a_posterior(vertical, here):
    revised = here.data(vertical.job, "flipback_0")["output_data"].set_index("id")["y"].astype(float)
    assert set(revised.index) == set(vertical.flipped.index) and ((revised > 0) & (revised < 1)).all()


@pytest.fixture(scope="module")
def horizontal(uploaded, here):
    return run_horizontal(here)


@pytest.mark.parametrize("party_id", [GUEST, HOST_ID])
def test_smote_balances_each_partys_own_rows(party_id, horizontal, here, work):
    role = "guest" if party_id == GUEST else "host"
    own = pd.read_csv(work / "patients" / f"{PATIENTS.training(role, party_id)}.csv")
    table = here.data(horizontal, "smote_0", party_id)["train_output_data"]
    synthetic = table["id"].str.startswith(SYNTHETIC_PREFIX)
    assert set(table["id"][~synthetic]) == set(own["id"]) and synthetic.any()
    assert table["y"].astype(int).value_counts().nunique() == 1


def test_dp_homo_nn_learns_one_model_at_both_parties(horizontal, here):
    models = [here.model(horizontal, "dp_homo_nn_0", party_id) for party_id in (GUEST, HOST_ID)]
    assert models[0] == models[1] and len(weights_of(models[0])) == 31
    assert models[0]["meta"]["privacy"]["rounds run"] == ROUNDS
    scored = here.data(horizontal, "dp_homo_nn_0")["train_output_data"]
    assert roc_auc_score(scored["label"].astype(float), scored["predict_score"].astype(float)) > 0.9


def test_shuffler_counts_both_parties_records(uploaded, here, work):
    column = uploaded[0]
    job = run_statistics(here, column)
    (statistic,) = here.model(job, "shuffler_0")["data"]["statistics"]
    truth = pd.concat([pd.read_csv(path) for path in sorted((work / "patients").glob("*_train.csv"))])[column].mean()
    assert statistic["messages"] == 450 and abs(statistic["estimate"] - truth) < 5 * statistic["standard_error"]
    assert here.model(job, "shuffler_0", SECOND)["data"] == {"statistics": None}


def test_flips_and_shares_survive_lost_executors(engine, work):
    """kill -9 of both executors of a small Spark: what Spark computes again is what was there; a fresh draw is not."""
    folder = work / "lost"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).parent / "lost_executor.py")],
        env={**os.environ, **spark_environment(folder)},
        capture_output=True,
        text=True,
        timeout=LOST_EXECUTOR_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"\n  {report}", end="\n  ")
    assert all(part["lost"] == 2 and part["partitions"] == 4 for part in report.values())
    same = {name: part["same"] for name, part in report.items()}
    assert same == {"flips": True, "shares": True, "fresh draws": False}
