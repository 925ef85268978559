"""An environment registered as a provider, and a job that chooses it."""

import subprocess
import sys

import pytest

from fate_dp.deploy.doctor.examination import findings, look
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.deploy.provider.registration import prepare, providers, register, remove
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, run_job

from .loans import NAMESPACE, PARTIES, loans, upload

pytestmark = pytest.mark.end_to_end

VERSION = "dp0.test"
NAME = f"fate:{VERSION}@local"


@pytest.fixture(scope="module")
def uploaded(flow_address, flow_home, tmp_path_factory):
    upload(flow_address, flow_home, tmp_path_factory.mktemp("provider"), "provider", loans(40)[0])


@pytest.fixture
def registered(flow_address, tmp_path):
    """This environment under a name of its own; the marked folder tells its tasks from all others."""
    mark = tmp_path / "in-front-of-the-path"
    mark.mkdir()
    register(flow_address, prepare(flow_address, sys.executable, VERSION, str(mark)))
    yield mark
    if NAME in names(flow_address):
        remove(flow_address, VERSION)


def names(address):
    return [provider.name for provider in providers(address)]


def pipeline_of_one_party():
    """The guest over-samples its own table: the smallest job with a component of ours."""
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import Reader

    from fate_dp.pipelines.clients import Smote

    alone = {"guest": PARTIES.guest}
    reader = Reader("reader_0", runtime_parties=alone, namespace=NAMESPACE, name="provider")
    smote = Smote(
        "smote_0", runtime_parties=alone, dataset=f"{NAMESPACE}/provider", train_data=reader.outputs["output_data"]
    )
    pipeline = FateFlowPipeline().set_parties(guest=PARTIES.guest).add_tasks([reader, smote])
    pipeline.conf.set("task", {"provider": NAME})
    return pipeline


def test_a_job_runs_in_the_provider_that_it_chose(uploaded, registered, flow_address, flow_home):
    result = run_job(pipeline_of_one_party(), flow_address, home=flow_home)
    tasks = connect(flow_address).task.query(job_id=result.job_id)["data"]
    assert {task["task_name"]: task["provider_name"] for task in tasks} == {"reader_0": NAME, "smote_0": NAME}
    logs = (open_home(flow_home).logs / result.job_id).rglob("*")
    assert any(f'"PYTHONPATH": "{registered}:' in read(log) for log in logs if log.is_file())

    assert said(flow_home, "providers of FATE-DP") == [f"{NAME}."]
    remove(flow_address, VERSION)
    assert NAME not in names(flow_address) and len(names(flow_address)) == 1, "FATE's own stays"
    with pytest.raises(FlowServerError, match=f"has no provider {NAME}; it has fate:2.2.0@local"):
        remove(flow_address, VERSION)
    with pytest.raises(JobFailed, match="Not found provider"):
        run_job(pipeline_of_one_party(), flow_address, home=flow_home)


def said(home, check):
    return [each.said for each in findings(look(open_home(home).root, None, ())) if each.check == check]


def read(log):
    return log.read_text(encoding="utf-8", errors="replace")


def test_what_cannot_run_the_components_is_not_registered(flow_address, tmp_path):
    before = names(flow_address)
    with pytest.raises(FlowServerError, match="--python must be the interpreter of an environment"):
        prepare(flow_address, str(tmp_path / "bin" / "python"))
    with pytest.raises(FlowServerError, match=f"--path must be a folder or be left out, got {tmp_path}/gone"):
        prepare(flow_address, sys.executable, path=str(tmp_path / "gone"))
    with pytest.raises(FlowServerError, match="version must be dp and at most 20 letters.*, got '2.2.0'"):
        prepare(flow_address, sys.executable, "2.2.0")
    with pytest.raises(FlowServerError, match="Nothing was registered, because .* cannot run the components"):
        prepare(flow_address, bare_python(tmp_path))
    assert names(flow_address) == before


def bare_python(folder):
    """The interpreter of an environment without any package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "bare")], check=True)
    return str(folder / "bare" / "bin" / "python")


def test_a_sound_installation_has_no_problem(flow_address, flow_home):
    results = findings(look(open_home(flow_home).root, None, (flow_address,)))
    assert [each for each in results if each.state in ("problem", "warning")] == []
