"""shuffler on a real FATE-Flow: a guest and a host with records, a host that shuffles, an arbiter that analyses."""
import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.deploy.flow_home import open_home
from fate_dp.pipelines.job import run_job, task_metrics, task_output_model
from fate_dp.pipelines.party_ledgers import party_ledger
from fate_dp.pipelines.shuffler import ShuffledParties, statistics_pipeline

from .loans import upload

pytestmark = pytest.mark.end_to_end

PARTIES, NAMESPACE = ShuffledParties(), "loans"
TABLES = {PARTIES.guest: "applicants_of_guest", PARTIES.hosts[0]: "applicants_of_host"}
REQUESTS = [
    {"column": "income", "kind": "mean", "low": 0, "high": 100},
    {"column": "grade", "kind": "frequency", "values": [1, 2]},
]


def applicants(rows, seed) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    return pd.DataFrame({"id": [f"{seed}-{row}" for row in range(rows)], "income": draws.uniform(0, 60, rows),
                         "grade": draws.choice([1, 2, 3], rows, p=[0.5, 0.3, 0.2])})  # fmt: skip


@pytest.fixture(scope="module")
def records(flow_address, flow_home, tmp_path_factory):
    tables = [applicants(600, 1), applicants(500, 2)]
    for name, table in zip(TABLES.values(), tables):
        upload(flow_address, flow_home, tmp_path_factory.mktemp("shuffler"), name, table)
    return pd.concat(tables)


def test_all_parties_records_are_counted_and_every_ledger_says_what_it_cost(flow_address, flow_home, records):
    pipeline = statistics_pipeline(PARTIES, NAMESPACE, TABLES, REQUESTS, epsilon0=2.0, least_messages=400)
    job = run_job(pipeline, flow_address, home=flow_home)

    models = {
        (role, party): task_output_model(flow_address, job.job_id, role, party, "shuffler_0")["output_model"]
        for role, party in (("guest", PARTIES.guest), ("host", PARTIES.hosts[0]), ("host", PARTIES.shuffler))
    }
    at_guest, at_host, at_shuffler = models.values()
    assert at_guest == at_host and at_shuffler["data"] == {"statistics": None}
    mean, frequency = at_guest["data"]["statistics"]
    assert mean["messages"] == 1100
    assert abs(mean["estimate"] - records["income"].mean()) < 6 * mean["standard_error"] < 24
    assert abs(frequency["shares"][0]["estimate"] - (records["grade"] == 1).mean()) < 0.2
    (summary,) = [
        record["data"] for record in task_metrics(flow_address, job.job_id, "guest", PARTIES.guest, "shuffler_0")
        if record["name"] == "summary"
    ]
    assert summary["mean of income"] == mean["estimate"]

    parties, dataset = open_home(flow_home).parties, columns_name(["income", "grade"])
    lines = {party: [entry for entry in party_ledger(parties, party) if entry["source"] == dataset] for party in TABLES}
    for charged in lines.values():
        assert [(line["mechanism"], line["pending"], line["jobs"]) for line in charged] == [
            ("Shuffled", 0, [job.job_id])] * 2  # fmt: skip
    at_guest, at_host = ([line["parameters"] for line in charged] for charged in lines.values())
    assert at_guest == at_host
