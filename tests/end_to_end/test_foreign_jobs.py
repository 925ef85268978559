"""A job that names code or files is refused on a real FATE-Flow; tests/processes/test_job_gate.py lets honest networks pass."""

import pytest

from fate_dp.deploy.doctor.gathering import gather
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, Watch, follow_job, reason_of

pytestmark = pytest.mark.end_to_end

GUEST, ARBITER = {"role": "guest", "party_id": ["9999"]}, {"role": "arbiter", "party_id": ["10000"]}
HOST = {"role": "host", "party_id": ["10000"]}
FUNCTION = "loader_load_from_conf"


def submitted(address, component, parameters, parties, at):
    task = {"component_ref": component, "stage": "train", "parameters": parameters, "parties": [at], "outputs": {}}
    dag = {"parties": list(parties), "stage": "train", "tasks": {"task_0": task}}
    return connect(address).job.submit(dag_schema={"dag": dag, "schema_version": "2.2.0"})


def calling(module, item):
    inner = {"conf": {"module_name": module, "item_name": item, "source": None, "kwargs": {}}}
    return {"runner_module": "homo_default_runner", "runner_class": FUNCTION, "runner_conf": inner}


def test_the_doctor_tries_it(flow_home, flow_address):
    assert gather(flow_home, flow_address).refuses_paths is True


@pytest.mark.parametrize("at", [ARBITER, HOST], ids=["arbiter", "host"])
def test_a_job_that_names_a_function_is_refused_when_it_is_submitted(at, flow_address):
    response = submitted(flow_address, "homo_nn", calling("builtins", "print"), (GUEST, at), at)
    assert response["code"] != 0 and "module_name and item_name must be a layer or loss of torch.nn" in reason_of(
        response
    )


def test_a_job_that_names_a_file_of_another_party_is_refused_when_it_is_submitted(flow_address):
    parameters = {"file": "/etc/hostname", "namespace": "n", "name": "t", "meta": {}, "head": False, "partitions": 1}
    response = submitted(flow_address, "upload", parameters, (GUEST, HOST), HOST)
    assert response["code"] != 0 and "Task task_0 runs upload, which reads a file of the server" in reason_of(response)


def test_a_runner_is_refused_in_its_task(flow_home, flow_address):
    """The gate looks at what settings name; FATE makes the runner's module of another parameter."""
    parameters = {"runner_module": "homo_default_runner", "runner_class": FUNCTION, "runner_conf": {}}
    response = submitted(flow_address, "homo_nn", parameters, (GUEST, ARBITER), ARBITER)
    assert response["code"] == 0, response
    with pytest.raises(JobFailed, match="module_name and item_name must be a layer or loss"):
        follow_job(connect(flow_address), response["job_id"], "guest", "9999", Watch(timeout=600, home=flow_home))
