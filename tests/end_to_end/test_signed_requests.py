"""A FATE-Flow with client authentication: its start, its refusal of strangers, and a client that `flow init` names."""

import pytest

from fate_dp.deploy.flow import client
from fate_dp.deploy.flow.client import Credentials, ask
from fate_dp.deploy.flow.home import KEY_FILE, open_home
from fate_dp.deploy.flow.server import down, status, up
from fate_dp.pipelines.jobs.flow import FlowUnavailable, resolve_flow
from fate_dp.pipelines.jobs.job import run_job, task_output_data

from ..fork_servers import imported_at
from .loans import NAMESPACE, PARTIES, loans, upload

pytestmark = pytest.mark.end_to_end

AUTHENTICATION = f'party_id: "{PARTIES.guest}"\nauthentication: {{client: true, site: false, permission: false}}\n'


@pytest.fixture(scope="module")
def asking_home(tmp_path_factory):
    home = tmp_path_factory.mktemp("asking") / "home"
    conf = open_home(home).conf
    conf.mkdir(mode=0o700, parents=True)
    (conf / "local.service_conf.yaml").write_text(AUTHENTICATION)
    yield home
    down(home)


@pytest.fixture(scope="module")
def asking(asking_home):
    address = up(asking_home)
    imported_at(asking_home)
    return address


@pytest.fixture
def known(asking, asking_home, monkeypatch):
    """This environment after the administrator made an app with a client's rights, and `flow init` was told of it."""
    administrator = Credentials("admin", (open_home(asking_home).conf / KEY_FILE).read_text())
    made = ask(asking, "app/client/create", {"app_name": "user"}, administrator).data
    assert ask(asking, "permission/grant", {"app_id": made["app_id"], "role": "client"}, administrator).code == 0
    settings = {"ip": asking.host, "port": asking.port, **{key: made[key] for key in ("app_id", "app_token")}}
    monkeypatch.setattr(client, "client_settings", lambda: settings)
    return asking


def test_the_server_runs_and_asks_who_is_there(asking, asking_home):
    """A server that refuses to answer strangers is a healthy one."""
    found = status(asking_home)
    assert (found.state, found.address, found.version) == ("running", asking, None)
    assert up(asking_home) == asking and status(asking_home).pid == found.pid
    with pytest.raises(FlowUnavailable, match=rf"refuses this one .* --ip {asking.host} --port {asking.port} "):
        resolve_flow(None, asking_home)
    published = ask(asking, "server/fateflow", credentials=Credentials("admin", "fate_flow_admin"))
    assert published.code != 0 and not published.data


def test_what_a_known_client_does_is_signed(known, asking_home, tmp_path):
    """Upload, job and the tables of its tasks."""
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import Reader

    assert resolve_flow(None, asking_home) == known and status(asking_home).version == "2.2.0"
    upload(known, asking_home, tmp_path, "signed", loans(40)[0])
    pipeline = FateFlowPipeline().set_parties(guest=PARTIES.guest)
    pipeline.add_tasks([Reader("reader_0", namespace=NAMESPACE, name="signed")])
    job = run_job(pipeline, known, home=asking_home)
    assert len(task_output_data(known, job.job_id, "guest", PARTIES.guest, "reader_0")["output_data"]) == 40
