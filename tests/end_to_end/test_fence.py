"""FATE's own components run under the fence, and what a hostile guest sends is refused in its host's process."""

import os
import shutil
from pathlib import Path

import pytest

from fate_dp.deploy.doctor import flow_checks
from fate_dp.deploy.doctor.gathering import gather
from fate_dp.deploy.fate_patches.fence import ALLOW
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.server import down, up
from fate_dp.deploy.warm_start import control
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import Watch, follow_job, run_job, task_metrics, task_output_data
from fate_dp.privacy.private_files import POLICY_FILE, party_folder, replace_file
from tests.support.local_parties import set_job_check

from ..fork_servers import serving_at
from . import fate_components

pytestmark = pytest.mark.end_to_end

ENTRY_POINT = "[fate.ext.component_desc]\nhostile = hostile_component:hostile\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home of a server that knows a hostile component beside FATE's, and lets in nothing beside the list."""
    folder = tmp_path_factory.mktemp("fence")
    installed = folder / "hostile"
    record = installed / "hostile-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(ENTRY_POINT)
    shutil.copy(Path(__file__).with_name("hostile_component.py"), installed)
    for party in ("9999", "10000"):
        # That this component runs at all is their operators' will.
        replace_file(party_folder(open_home(folder / "home").parties, party) / POLICY_FILE, b"foreign_jobs: [hostile]")
    before = os.environ.get("PYTHONPATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(installed), before))))
        patch.delenv(ALLOW, raising=False)
        yield folder / "home"
        down(folder / "home")


@pytest.fixture(scope="module")
def address(home):
    """A server whose tasks start warm from the first on."""
    address = up(home)
    serving_at(home)
    return address


def look(home):
    return control.look(open_home(home).warm)


def test_the_doctor_sees_that_it_is_fenced(home, address):
    assert flow_checks.fence(gather(home, address)).state == "ok"


@pytest.fixture(scope="module")
def uploaded(home, address, tmp_path_factory):
    fate_components.upload_tables(tmp_path_factory.mktemp("tables"), address, home)
    # Binning and regression show the host every label, which nobody protects here.
    set_job_check(party_folder(open_home(home).parties, fate_components.GUEST) / POLICY_FILE, "off")


@pytest.mark.long
@pytest.mark.parametrize("name", fate_components.SCORED)
def test_fates_own_components_run_under_it(name, home, address, uploaded):
    """Warm; `test_warm_start` runs one of FATE's jobs cold. tests/protocol/test_fates_components.py plays the same jobs."""
    before = look(home)
    up(home)
    job = run_job(fate_components.pipeline(name), address, home=home, timeout=1800).job_id
    scored = fate_components.SCORED[name]
    for task in scored:
        # Read by the server, which is fenced as well.
        scores = task_output_data(address, job, "guest", fate_components.GUEST, task)["train_output_data"]
        assert len(scores) >= fate_components.ROWS - 10 and scores["predict_score"].astype(float).notna().all()
    if scored:
        (measured,) = task_metrics(address, job, "guest", fate_components.GUEST, "evaluation_0")
        assert set(measured["data"]) == set(scored)
    assert look(home).warm - before.warm >= 8, "the tasks started otherwise than this test means them to"


@pytest.mark.parametrize("cold", [False, pytest.param(True, marks=pytest.mark.long)], ids=["warm", "cold"])
def test_an_attack_is_refused_in_a_task(cold, home, address, tmp_path):
    """A message by a dotted name, one whose numbers are addresses, a table's value, a large message's slice and the whole.

    tests/unit/test_fence_processes.py attacks a cold process in `make test`.
    """
    before = look(home)
    up(home, cold=cold)
    told = attacked(address, home, tmp_path / "marker")
    assert "names 'os.system' in the module fate.arch.config._config" in told.pop("message")
    assert "has a call of numpy.ndarray" in told.pop("array")
    assert set(told) == {"table", "slices", "whole"}
    assert all("names posix.system, which FATE-DP's fence does not let in" in each for each in told.values()), told
    assert not (tmp_path / "marker").exists()
    started = look(home).cold.get("switched-off", 0) if cold else look(home).warm - before.warm
    assert started >= 4, "the tasks started otherwise than this test means them to"


def attacked(address, home, marker):
    """What the host of a hostile job says of each message."""
    client = connect(address)
    parties = [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}]
    task = {"component_ref": "hostile", "parameters": {"marker": str(marker)}, "parties": parties, "stage": "default"}
    dag = {"parties": parties, "stage": "train", "tasks": {"hostile_0": task}}
    response = client.job.submit(dag_schema={"dag": dag, "schema_version": "2.2.0"})
    assert response["code"] == 0, response
    job = follow_job(client, response["job_id"], "guest", "9999", Watch(timeout=1800.0, home=home))
    (summary,) = task_metrics(address, job.job_id, "host", "10000", "hostile_0")
    return summary["data"]
