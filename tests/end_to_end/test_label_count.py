"""label_count as a job on a real FATE-Flow: one document at all parties, and a line in each ledger."""

import pandas
import pytest

from examples.pipelines import StudyTables, training_reader
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import run_job, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import Federation, new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

pytestmark = pytest.mark.end_to_end

FEDERATION, TABLES = Federation(hosts=("10000",)), StudyTables("label_count_test")
PARTIES = {"guest": "9999", "host": "10000"}
SHARES = {"guest": 300, "host": 100}
"""How many of a party's 400 records have label 1."""


@pytest.fixture(scope="module")
def result(flow_address, flow_home, tmp_path_factory):
    from fate_dp.pipelines.clients import LabelCount

    folder = tmp_path_factory.mktemp("label_count")
    for role, party_id in PARTIES.items():
        ids = [f"{role}-{number}" for number in range(400)]
        rows = pandas.DataFrame({"id": ids, "y": [int(number < SHARES[role]) for number in range(400)], "x": 0.5})
        rows.to_csv(folder / f"{role}.csv", index=False)
        table = f"{role}_{party_id}_train"
        upload_table(
            flow_address, folder / f"{role}.csv", TABLES.namespace, table, TableMeta(label_name="y"), home=flow_home
        )
    reader = training_reader(FEDERATION, TABLES)
    count = LabelCount("label_count_0", runtime_parties=PARTIES, epsilon=4.0, input_data=reader.outputs["output_data"])
    return run_job(new_pipeline(FEDERATION).add_tasks([reader, count]), flow_address, home=flow_home)


def test_all_parties_hold_the_same_noisy_counts(result, flow_address):
    documents = [
        task_output_model(flow_address, result.job_id, role, party_id, "label_count_0")["output_model"]
        for role, party_id in PARTIES.items()
    ]
    assert documents[0] == documents[1]
    # Noise of scale 1/2: beyond 20 once in 10^17 draws.
    for role, counts in zip(PARTIES, documents[0]["counts"].values()):
        assert all(abs(got - true) < 20 for got, true in zip(counts, (400 - SHARES[role], SHARES[role], 0)))
    assert abs(documents[0]["prior"][1] - 0.5) < 0.1


def test_each_ledger_is_charged_once_for_its_own_table(result, flow_home):
    for party_id in PARTIES.values():
        lines = party_ledger(open_home(flow_home).parties, party_id)
        (line,) = [entry for entry in lines if result.job_id in entry["jobs"]]
        assert (line["unit"], line["mechanism"], line["jobs"]) == ("record", "PureDP", [result.job_id])
        # The scale is rounded up to a grid, so that a little less is spent.
        assert 3.99 < float(line["epsilon"]) <= 4
