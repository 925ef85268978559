"""Jobs whose tasks start from the fork server: the same results as cold, and no process left whatever happens.

In `make test` tests/processes/test_warm_start.py asks the same of small fork servers.
"""

import os
import signal
import time
from functools import partial

import pytest

from fate_dp.attacks.recorded_view import views_of
from fate_dp.data_prep.breast_cancer import write_tables
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.server import down, processes_of, status, up
from fate_dp.deploy.warm_start import control
from fate_dp.pipelines.jobs.job import JobFailed, run_job, task_output_data
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.private_files import POLICY_FILE, party_folder, replace_file

from .. import fork_servers
from ..fork_servers import serving_at

pytestmark = [pytest.mark.end_to_end, pytest.mark.long]

wait_until = partial(fork_servers.wait_until, seconds=300.0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home for a server of this module's own, since its fork servers are killed; its host records what it receives."""
    home = tmp_path_factory.mktemp("warm") / "home"
    replace_file(party_folder(open_home(home).parties, "10000") / POLICY_FILE, b"record_views: [psi]")
    yield home
    down(home)


@pytest.fixture(scope="module")
def address(home, tmp_path_factory):
    """A server that has the tables, and a fork server that is ready."""
    address = up(home)
    folder = tmp_path_factory.mktemp("breast")
    write_tables(folder)
    upload_table(address, folder / "guest_train.csv", "breast", "guest", TableMeta(label_name="y"), home=home)
    upload_table(address, folder / "host_train.csv", "breast", "host", home=home)
    serving_at(home)
    return address


def intersection():
    """psi alone, which reads the tables by itself."""
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import PSI
    from fate_client.pipeline.interface import DataWarehouseChannel

    sides = {"guest": "9999", "host": "10000"}
    tables = [
        DataWarehouseChannel(name=role, namespace="breast", parties={role: [party]}) for role, party in sides.items()
    ]
    return FateFlowPipeline().set_parties(**sides).add_tasks([PSI("psi_0", runtime_parties=sides, input_data=tables)])


def look(home):
    return control.look(open_home(home).warm)


def tasks_left(home):
    """Processes of the home beside FATE-Flow and the fork servers themselves."""
    kept = {status(home).pid, *(each.pid for each in look(home).servers)}
    return [each for each in processes_of(open_home(home).root) if each.pid not in kept]


def common_ids(address, home):
    job = run_job(intersection(), address, home=home).job_id
    assert [path.name for path in views_of(open_home(home).parties, job)] == ["psi_0.host.view"], "however it started"
    return set(task_output_data(address, job, "guest", "9999", "psi_0")["output_data"]["id"])


def test_a_job_gives_warm_what_it_gives_cold(home, address):
    before = look(home)
    warm = common_ids(address, home)
    # Five processes for the task of each party; the last of them when the job has ended.
    wait_until(lambda: look(home).warm >= before.warm + 10)
    assert dict(look(home).cold) == dict(before.cold)
    up(home, cold=True)
    assert common_ids(address, home) == warm
    wait_until(lambda: look(home).cold.get("switched-off", 0) >= 10)
    up(home)
    assert "Tasks start warm" in look(home).sentence()


def test_a_job_that_is_stopped_leaves_nothing(home, address):
    with pytest.raises(JobFailed, match="its time limit"):
        run_job(intersection(), address, timeout=1.0, home=home)
    wait_until(lambda: not tasks_left(home))


def test_a_fork_server_that_is_killed_in_the_middle_of_a_job(home, address):
    killed = serving_at(home).pid

    def kill_it(task, state, seconds):
        # A busy server may answer for the first time when the task has ended already.
        if task == "psi_0" and state != "waiting" and fork_servers.lives(killed):
            time.sleep(0.5)
            os.kill(killed, signal.SIGKILL)

    try:
        run_job(intersection(), address, kill_it, home=home)
    except JobFailed as failure:
        # As where a task itself is killed; it may also have ended before.
        assert "psi_0" in str(failure)
    wait_until(lambda: not fork_servers.lives(killed))
    wait_until(lambda: not tasks_left(home))
    assert common_ids(address, home), "the next job starts cold, and starts another fork server"
    assert serving_at(home).pid != killed


def test_a_fate_flow_that_is_killed_takes_all_along(home, address):
    serving_at(home)
    assert len(processes_of(open_home(home).root)) >= 2
    os.kill(status(home).pid, signal.SIGKILL)
    wait_until(lambda: not processes_of(open_home(home).root))
