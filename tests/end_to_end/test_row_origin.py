"""On a real FATE-Flow: a step asks how its rows came about, in this job and in earlier ones; keyed_split is what bears it."""

import pytest
import yaml

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.clients import KeyedSplit, LabelCount
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, Watch, follow_job, run_job, task_output_data
from fate_dp.pipelines.jobs.party_ledgers import party_ledger
from fate_dp.pipelines.jobs.ready import joined_tables, new_pipeline

from .loans import NAMESPACE, PARTIES, loans, tables, upload

pytestmark = pytest.mark.end_to_end

SIDES = (("guest", PARTIES.guest), ("host", PARTIES.host))


@pytest.fixture(scope="module")
def reader_and_psi(flow_address, flow_home, tmp_path_factory):
    names = ("origin_guest", "origin_host")
    for name, table in zip(names, loans(160, seed=31)):
        own = table.assign(id="origin-" + table["id"]).rename(
            columns=lambda each: each.replace("x", "o").replace("z", "p")
        )
        upload(flow_address, flow_home, tmp_path_factory.mktemp(name), name, own)
    return lambda: joined_tables(PARTIES, tables(*names))


def counted(rows):
    return LabelCount("label_count_0", runtime_parties=PARTIES.data_parties(), epsilon=0.2, input_data=rows)


@pytest.fixture(scope="module")
def split_job(flow_address, flow_home, reader_and_psi):
    reader, psi = reader_and_psi()
    split = KeyedSplit(
        "keyed_split_0",
        runtime_parties=PARTIES.data_parties(),
        salt="spring",
        test_share=0.3,
        input_data=psi.outputs["output_data"],
    )
    tasks = [reader, psi, split, counted(split.outputs["train_output_data"])]
    return run_job(new_pipeline(PARTIES).add_tasks(tasks), flow_address, home=flow_home).job_id


def test_both_parties_have_the_same_rows_for_training_and_others_for_testing(split_job, flow_address):
    parts = [task_output_data(flow_address, split_job, *side, "keyed_split_0") for side in SIDES]
    for key in ("train_output_data", "test_output_data"):
        assert list(parts[0][key]["id"]) == list(parts[1][key]["id"])
    train, test = (set(parts[0][key]["id"]) for key in ("train_output_data", "test_output_data"))
    assert not train & test and len(train | test) == 160 and 25 < len(test) < 75
    assert set(parts[0]) == {"train_output_data", "test_output_data"}


def refusal(tasks, address, home):
    """What the job's parties say to a job that was submitted past `run_job`; nothing is charged."""
    before = [party_ledger(open_home(home).parties, party_id) for _, party_id in SIDES]
    client = connect(address)
    dag = new_pipeline(PARTIES).add_tasks(tasks).compile().get_dag()
    submitted = client.job.submit(dag_schema=yaml.safe_load(dag))["job_id"]
    with pytest.raises(JobFailed) as refused:
        follow_job(client, submitted, "guest", PARTIES.guest, Watch(home=home))
    assert before == [party_ledger(open_home(home).parties, party_id) for _, party_id in SIDES]
    return str(refused.value)


@pytest.mark.long
def test_rows_that_other_records_chose_are_refused_by_the_step_itself(flow_address, flow_home, reader_and_psi):
    """tests/unit/test_row_origin.py has these rows and many others."""
    from fate_client.pipeline.components.fate import DataSplit

    reader, psi = reader_and_psi()
    split = DataSplit("split_0", train_size=0.7, test_size=0.3, random_state=1, input_data=psi.outputs["output_data"])
    tasks = [reader, psi, split, counted(split.outputs["train_output_data"])]
    told = "The rows of label_count_0 must each depend on one uploaded row alone, got those of split_0 (data_split)"
    found = refusal(tasks, flow_address, flow_home)
    assert told in found and "Put keyed_split in its place" in found


def test_a_table_that_an_earlier_job_wrote_is_not_one_that_was_uploaded(split_job, flow_address, flow_home):
    from fate_client.pipeline.components.fate import Reader

    reader = Reader("reader_0", runtime_parties=PARTIES.data_parties())
    client = connect(flow_address)
    for number, (role, party_id) in enumerate(SIDES):
        (written,) = client.output.data_table(split_job, role, party_id, "keyed_split_0")["train_output_data"]
        (reader.guest if number == 0 else reader.hosts[0]).task_parameters(
            namespace=written["namespace"], name=written["name"]
        )
        assert written["namespace"] != NAMESPACE
    told = refusal([reader, counted(reader.outputs["output_data"])], flow_address, flow_home)
    assert "got a table that task keyed_split_0 (keyed_split) of an earlier job wrote" in told
