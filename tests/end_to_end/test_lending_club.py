"""From a raw file to a federated model on a real FATE-Flow: prepared, uploaded, trained, tested, deployed, refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.special import expit

from examples.credit_risk.flow import BIAS, fetch_run, run_federated
from examples.credit_risk.homo_lr import HomoLRSettings
from examples.credit_risk.models import class_measures, train
from examples.pipelines import Federation, StudyTables, guest_prediction_pipeline
from examples.synthetic_loans import write_synthetic
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import FEATURES, ID, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import divide
from fate_dp.data_prep.lending_club.written import write
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import Watch, follow_job, run_job, task_output_data
from fate_dp.pipelines.jobs.upload import TableMeta, upload_prepared, upload_table
from fate_dp.privacy.validation import InvalidArgument

pytestmark = [pytest.mark.end_to_end, pytest.mark.long]

DAG_FILE = Path(__file__).parents[2] / "conf" / "lending_club_homo_lr.yaml"
FEDERATION, TWO = Federation(), Federation(hosts=("10000",))
TABLES = StudyTables("lending_club_test")
# The first steps already go through every part of the arithmetic; an epoch costs the most of a job.
SETTINGS = HomoLRSettings(epochs=3)


@pytest.fixture(scope="module")
def tables(flow_address, flow_home, tmp_path_factory):
    """From an invented raw file to uploaded tables of all parties and of the test; their frames, by table name."""
    folder = tmp_path_factory.mktemp("lending_club")
    write_synthetic(folder / "raw.csv.gz", rows=2000)
    # Of balanced classes the bias' first gradient is rounding alone, from which RMSprop makes a step like any other:
    # the model would depend on the order of the rows by some 1e-4, and not agree with the simulation as closely.
    clean_loans, options = clean(folder / "raw.csv.gz"), PrepOptions(units="public", over_sampling="none")
    write(clean_loans, divide(clean_loans, options), options, folder / "prepared")
    uploaded = upload_prepared(flow_address, folder / "prepared", TABLES.namespace, home=flow_home)
    return {name: pd.read_csv(folder / "prepared" / path, dtype={ID: str}) for path, name in uploaded.items()}


@pytest.fixture
def upload(flow_address, flow_home, tmp_path):
    """A function that uploads a frame beside the tables that fit."""

    def upload(name, table):
        path = tmp_path / f"{name}.csv"
        table.to_csv(path, index=False)
        meta = TableMeta(label_name=LABEL if LABEL in table else None)
        upload_table(flow_address, path, TABLES.namespace, name, meta, home=flow_home)

    return upload


@pytest.fixture(scope="module")
def submitted(flow_address, flow_home, tables):
    """The DAG file as `flow job submit` sends it, with the names of these tables and fewer epochs."""
    text = DAG_FILE.read_text(encoding="utf-8").replace("namespace: lending_club", f"namespace: {TABLES.namespace}")
    client = connect(flow_address)
    response = client.job.submit(dag_schema=yaml.safe_load(text.replace("epochs: 20", f"epochs: {SETTINGS.epochs}")))
    assert response["code"] == 0, response
    watch = Watch(timeout=1800, home=flow_home)
    result = follow_job(client, response["job_id"], "guest", FEDERATION.guest, watch)
    return fetch_run(flow_address, FEDERATION, FEATURES, result)


@pytest.fixture(scope="module")
def two_institutions(flow_address, flow_home, tables):
    return run_federated(flow_address, TWO, TABLES, SETTINGS, home=flow_home)


def simulated(federation, tables):
    parties = [tables[TABLES.training(*party)] for party in federation.data_parties()]
    return train([(table[list(FEATURES)], table[LABEL]) for table in parties], SETTINGS)


def weights_of(run):
    return np.array([run.weights[name] for name in (*FEATURES, BIAS)])


def test_the_dag_file_trains_the_model_of_the_simulation(submitted, tables):
    expected = simulated(FEDERATION, tables)
    assert list(submitted.weights) == [BIAS, *FEATURES]
    assert weights_of(submitted) == pytest.approx(np.array([*expected.weights, expected.bias]), abs=1e-5)
    # FATE rounds every party's loss to four decimals before it averages them.
    assert submitted.losses == pytest.approx(expected.losses, abs=6e-5)


def test_the_scores_of_the_common_test_table_are_those_of_the_model(submitted, tables):
    table = tables["test"].sort_values(ID)
    expected = expit(table[list(FEATURES)] @ weights_of(submitted)[:-1] + submitted.weights[BIAS])
    assert submitted.test_table["id"].tolist() == table[ID].tolist()
    assert submitted.test_table["label"].tolist() == table[LABEL].tolist()
    assert submitted.test_table["score"].to_numpy() == pytest.approx(expected.to_numpy(), abs=1e-5)


def test_fates_evaluation_agrees_with_our_measures(submitted):
    measures = class_measures(submitted.test_table["label"], submitted.test_table["score"])
    assert submitted.evaluation["auc"] == pytest.approx(measures["auc"], abs=1e-9)
    # FATE looks at about a hundred cuts only, so that it may miss the largest distance.
    assert measures["ks"] - 0.05 < submitted.evaluation["ks"] <= measures["ks"] + 1e-9
    assert 0.55 < measures["auc"] < 0.75, "an honest model of such loans: above that, a column gives the outcome away"


def test_two_institutions_train_the_model_of_the_simulation(two_institutions, tables):
    expected = simulated(TWO, tables)
    assert weights_of(two_institutions) == pytest.approx(np.array([*expected.weights, expected.bias]), abs=1e-5)
    assert set(two_institutions.seconds_per_task) == {"reader_0", "reader_1", "homo_lr_0", "homo_lr_1", "evaluation_0"}


def test_a_deployed_pipeline_gives_the_same_scores(two_institutions, flow_address, flow_home):
    result = run_job(
        guest_prediction_pipeline(two_institutions.pipeline, "homo_lr_0", TWO, TABLES), flow_address, home=flow_home
    )
    assert {record.role for record in result.tasks} == {"guest"}, "the host neither helps nor sees the rows"
    scored = task_output_data(flow_address, result.job_id, "guest", TWO.guest, "homo_lr_0")["test_output_data"]
    scored = scored.sort_values("id", ignore_index=True)
    expected = two_institutions.test_table
    assert scored["id"].equals(expected["id"])
    assert scored["predict_score"].to_numpy() == pytest.approx(expected["score"].to_numpy(), abs=1e-9)


def test_tables_that_do_not_fit_are_refused(tables, upload, flow_address, flow_home):
    last = tables["host_9998_train"]
    with pytest.raises(InvalidArgument, match=f"has 1 different label in '{LABEL}'; training needs at least 2"):
        upload("host_1_train", last[last[LABEL] == 1])
    with pytest.raises(InvalidArgument, match=r"has no table nowhere/test; upload it first\."):
        run_federated(flow_address, FEDERATION, StudyTables("nowhere"), SETTINGS, home=flow_home)

    upload("host_1_train", last.drop(columns=LABEL))
    upload("host_2_train", last[[ID, *reversed(FEATURES), LABEL]])
    for host, sentence in (
        ("1", f"The table {TABLES.namespace}/host_1_train has no label"),
        ("2", f"has 'purpose_wedding' as feature 1 and it is 'loan_amnt' in {TABLES.namespace}/test"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            run_federated(flow_address, Federation(hosts=(host,)), TABLES, SETTINGS, home=flow_home)
