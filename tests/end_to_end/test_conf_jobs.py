"""Every job in conf/, sent as it stands, on tables that `python -m examples.tables` makes: all at once, each to its end.

`make test` holds each file to its ready-made pipeline, and runs those of the same components in test_jobs and test_examples.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
import yaml

from examples.tables import EXAMPLES, PATIENTS, PEOPLE, PEOPLE_SEED, main, people
from fate_dp.components.dp_homo_nn.model import weights_of
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import Watch, follow_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import party_ledger

pytestmark = [pytest.mark.end_to_end, pytest.mark.long]

CONF, GUEST = Path(__file__).parents[2] / "conf", "9999"


@pytest.fixture(scope="module")
def ended(flow_address, flow_home):
    """{job's file: its `JobResult`}; a job that fails raises the sentence of its component here."""
    assert main([*EXAMPLES, "--home", str(flow_home)]) == 0

    def submit(name):
        # As `flow job submit -c` sends it.
        client, dag = connect(flow_address), yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
        response = client.job.submit(dag_schema=dag)
        assert response["code"] == 0, response
        return follow_job(client, response["job_id"], "guest", GUEST, Watch(timeout=1800, home=flow_home))

    with ThreadPoolExecutor(len(EXAMPLES)) as threads:
        return dict(zip(EXAMPLES, threads.map(submit, EXAMPLES)))


@pytest.fixture
def outputs(flow_address, ended):
    """A function of a job's file and a task: the guest's output tables, models and summary of it."""

    def read(name, task):
        where = (flow_address, ended[name].job_id, "guest", GUEST, task)
        summary = [record["data"] for record in task_metrics(*where) if record["name"] == "summary"]
        return task_output_data, task_output_model, where, summary[0] if summary else None

    return read


def auc(records) -> float:
    """The only AUC among the records of FATE's Evaluation of one table."""
    if isinstance(records, dict):
        return records["val"] if records.get("metric") == "auc" else auc(list(records.values()))
    return (
        next((found for found in map(auc, records) if found is not None), None) if isinstance(records, list) else None
    )


def test_every_job_in_conf_is_sent(ended):
    jobs = {path.stem for path in CONF.glob("*.yaml")} - {"policy.example"}
    assert jobs == set(EXAMPLES) == set(ended)


@pytest.mark.parametrize(
    "name",
    ["label_private_hetero_lr", "joined_shares_lr", "private_homo_nn", "private_homo_gbdt", "lending_club_homo_lr"],
)
def test_its_evaluation_is_there(name, ended, flow_address):
    found = auc(
        [record["data"] for record in task_metrics(flow_address, ended[name].job_id, "guest", GUEST, "evaluation_0")]
    )
    assert 0.55 < found <= 1


def test_label_private_jobs_share_their_flips(ended, flow_home):
    lines = [
        line
        for line in party_ledger(open_home(flow_home).parties, GUEST)
        if line["source"] == PATIENTS.label_source() and line["mechanism"] == "randomized_response"
    ]
    assert len({line["epsilon"] for line in lines}) == len(lines) and 2.0 in {line["epsilon"] for line in lines}


def test_the_private_model_of_loans_weights_its_rare_class_and_finds_it(outputs):
    tables, models, where, summary = outputs("private_homo_nn", "dp_homo_nn_0")
    scored = tables(*where)["train_output_data"]
    assert summary["factors of the classes, before the clip"].startswith("1, 0.17") and summary["rounds run"] == 50
    rare = scored["label"] == 0
    # Without weights hardly any is found; how many are with them depends on the noise, about two in five.
    assert rare.mean() < 0.3 and (scored["predict_result"][rare] == 0).mean() > 0.1
    assert len(weights_of(models(*where)["output_model"])) == 38


def test_shuffled_statistics_are_those_of_the_people(outputs):
    _, models, where, _ = outputs("shuffled_statistics", "shuffler_0")
    mean, _, frequency = models(*where)["output_model"]["data"]["statistics"]
    everybody = pd.concat([people(rows, PEOPLE_SEED + place) for place, (_, rows) in enumerate(PEOPLE.values())])
    assert mean["messages"] == len(everybody)
    # Chance exceeds six standard errors in one run of five hundred million.
    assert abs(mean["estimate"] - everybody["income"].clip(0, 200000).mean()) < 6 * mean["standard_error"]
    owners = next(share for share in frequency["shares"] if share["value"] == 1)
    assert abs(owners["estimate"] - everybody["owns_house"].mean()) < 6 * owners["standard_error"]
