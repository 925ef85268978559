"""Training with noise on true labels as a job on a real FATE-Flow: the label source pays, and the model predicts.

In `make test` tests/protocol/test_label_noise.py holds this, and `test_jobs` has dp_hetero_lr on FATE-Flow.
"""

import numpy as np
import pandas
import pytest

from examples.pipelines import Federation, StudyTables, training_reader
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import JobFailed, run_job, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, party_ledger
from fate_dp.pipelines.jobs.ready import new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

pytestmark = [pytest.mark.end_to_end, pytest.mark.long]

FEDERATION, TABLES = Federation(hosts=("10000",)), StudyTables("label_noise_test")
SOURCE = "label_noise_test/guest_9999_train/y"
ROWS = 3000
PARTIES = {"guest": "9999", "host": "10000"}


@pytest.fixture(scope="module")
def result(flow_address, flow_home, tmp_path_factory):
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
    return run_job(pipeline(), flow_address, home=flow_home)


def pipeline(**of_the_guest):
    from fate_client.pipeline.components.fate import PSI

    from fate_dp.pipelines.clients import DPHeteroLR

    reader = training_reader(FEDERATION, TABLES)
    psi = PSI("psi_0", runtime_parties=PARTIES, input_data=reader.outputs["output_data"])
    rows = psi.outputs["output_data"]
    model = DPHeteroLR("dp_hetero_lr_0", train_data=rows, label_source=SOURCE, privacy="label", epsilon=1.0)
    if of_the_guest:
        model.guest.task_parameters(**of_the_guest)
    return new_pipeline(FEDERATION).add_tasks([reader, psi, model])


def test_the_model_is_of_use_and_says_what_it_promises(result, flow_address):
    guest, host = (
        task_output_model(flow_address, result.job_id, role, party_id, "dp_hetero_lr_0")["output_model"]
        for role, party_id in (("guest", "9999"), ("host", "10000"))
    )
    assert (guest["meta"]["privacy"]["epsilon"], guest["meta"]["privacy"]["delta"]) == (1.0, 1e-6)
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


def test_an_old_name_that_fate_would_pass_over_stops_the_job(result, flow_address, flow_home):
    before = party_ledger(open_home(flow_home).parties, "9999")
    with pytest.raises(JobFailed, match="noise_epsilon is 0.5; dp_hetero_lr calls it epsilon now, so set that instead"):
        run_job(pipeline(noise_epsilon=0.5), flow_address, home=flow_home)
    assert party_ledger(open_home(flow_home).parties, "9999") == before
