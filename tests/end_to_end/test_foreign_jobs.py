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
    assert response["code"] != 0 and "module_name must be one of torch.nn, " in reason_of(response)


def test_a_job_that_names_a_file_of_another_party_is_refused_when_it_is_submitted(flow_address):
    parameters = {"file": "/etc/hostname", "namespace": "n", "name": "t", "meta": {}, "head": False, "partitions": 1}
    response = submitted(flow_address, "upload", parameters, (GUEST, HOST), HOST)
    assert response["code"] != 0 and "Task task_0 runs upload, which reads a file of the server" in reason_of(response)


@pytest.mark.parametrize("name", ["runner_conf", "runner_class"])
def test_what_only_a_task_can_see_is_refused_there(name, flow_home, flow_address):
    """Names of which the first is a module of networks, and the second no class of its own."""
    parameters = calling("torch.nn.init", "ones_")
    if name == "runner_conf":
        parameters["runner_conf"]["conf"].update(module_name="torch.nn.modules.module", item_name="functools")
    response = submitted(flow_address, "homo_nn", parameters, (GUEST, ARBITER), ARBITER)
    assert response["code"] == 0, response
    with pytest.raises(JobFailed, match="item_name must be a class of networks, optimizers, datasets or runners"):
        follow_job(connect(flow_address), response["job_id"], "guest", "9999", Watch(timeout=600, home=flow_home))
