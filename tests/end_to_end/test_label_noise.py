"""Training with noise on true labels as a job on a real FATE-Flow: the label source pays, and the model predicts."""

import numpy as np
import pandas
import pytest

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import run_job, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.pipelines.jobs.ready import Federation, StudyTables, new_pipeline, training_reader
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

pytestmark = pytest.mark.end_to_end

FEDERATION, TABLES = Federation(hosts=("10000",)), StudyTables("label_noise_test")
SOURCE = "label_noise_test/guest_9999_train/y"
ROWS = 3000
PARTIES = {"guest": "9999", "host": "10000"}


@pytest.fixture(scope="module")
def result(flow_address, flow_home, tmp_path_factory):
    from fate_client.pipeline.components.fate import PSI

    from fate_dp.pipelines.clients import DPHeteroLR

    folder, generator = tmp_path_factory.mktemp("label_noise"), np.random.default_rng(1)
    columns = generator.normal(size=(ROWS, 4))
    base = pandas.DataFrame({"id": [f"person {at}" for at in range(ROWS)]})
    guest = base.assign(y=(columns[:, 0] + columns[:, 2] > 0).astype(int), x0=columns[:, 0], x1=columns[:, 1])
    tables = {
        ("guest", "9999"): (guest, "y"),
        ("host", "10000"): (base.assign(x2=columns[:, 2], x3=columns[:, 3]), None),
    }
    for (role, party_id), (table, label) in tables.items():
        table.to_csv(folder / f"{role}.csv", index=False)
        name, meta = f"{role}_{party_id}_train", TableMeta(label_name=label)
        upload_table(flow_address, folder / f"{role}.csv", TABLES.namespace, name, meta, home=flow_home)
    declare(open_home(flow_home).parties, "9999", SOURCE, cap=2.0)
    reader = training_reader(FEDERATION, TABLES)
    psi = PSI("psi_0", runtime_parties=PARTIES, input_data=reader.outputs["output_data"])
    model = DPHeteroLR(
        "dp_hetero_lr_0",
        train_data=psi.outputs["output_data"],
        label_source=SOURCE,
        noise="label",
        noise_epsilon=1.0,
        noise_delta=1e-5,
    )
    return run_job(new_pipeline(FEDERATION).add_tasks([reader, psi, model]), flow_address, home=flow_home)


def test_the_model_is_of_use_and_says_what_it_promises(result, flow_address):
    guest, host = (
        task_output_model(flow_address, result.job_id, role, party_id, "dp_hetero_lr_0")["output_model"]
        for role, party_id in (("guest", "9999"), ("host", "10000"))
    )
    assert (guest["meta"]["privacy"]["epsilon"], guest["meta"]["privacy"]["delta"]) == (1.0, 1e-5)
    weights = [np.ravel(model["data"]["estimator"]["param"]["coef_"]) for model in (guest, host)]
    # The columns that decide labels stand out from the noise, whose part of a weight is about a fifteenth of theirs.
    assert weights[0][0] > 3 * abs(weights[0][1]) and weights[1][0] > 3 * abs(weights[1][1])


def test_the_label_source_pays_and_no_host_does(result, flow_home):
    parties = open_home(flow_home).parties
    (line,) = [entry for entry in party_ledger(parties, "9999") if result.job_id in entry["jobs"]]
    assert (line["unit"], line["mechanism"], line["source"]) == ("label", "Gaussian", SOURCE)
    assert 0.99 < float(line["epsilon"]) <= 1.001
    of_host = [entry for entry in party_ledger(parties, "10000") if result.job_id in entry["jobs"]]
    assert not [entry for entry in of_host if entry["mechanism"] == "Gaussian"]
