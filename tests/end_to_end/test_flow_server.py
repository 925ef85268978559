"""The embedded FATE-Flow server with real processes, and one job on it."""

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial

import psutil
import pytest

from fate_dp.data_prep.breast_cancer import write_tables
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import FlowServerError, wait_until
from fate_dp.deploy.flow.server import down, processes_of, processes_where, state_of, status, up
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.clients import DPHeteroLR
from fate_dp.pipelines.jobs import tasks
from fate_dp.pipelines.jobs.flow import FlowUnavailable, resolve_flow
from fate_dp.pipelines.jobs.job import JobFailed, NoOutput, run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import all_ledgers
from fate_dp.pipelines.jobs.ready import prediction_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.validation import InvalidArgument

from .loans import PARTIES, QUICK, flipped_pipeline, loans, tables, upload

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def own_home(tmp_path):
    """A home for the tests that kill and stop; the session's server stays out of it."""
    home = tmp_path / "home"
    yield home
    down(home)


@pytest.fixture
def foreign_server():
    """A server that is none of ours; yields its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


# No task runs there: a fork server would import all of FATE in vain.
started = partial(up, cold=True)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_server_from_up_to_down(own_home, foreign_server):
    assert status(own_home).state == "stopped"
    first = started(own_home)
    running = status(own_home)
    assert (running.state, running.address, running.version) == ("running", first, "2.2.0")
    assert (own_home / "fate_flow_sqlite.db-wal").exists(), "the log of the tasks' states is held open"
    assert resolve_flow(None, own_home) == first == resolve_flow(str(first), "/nowhere")

    assert started(own_home) == first, "a second up starts nothing"
    assert status(own_home).pid == running.pid
    with pytest.raises(FlowServerError, match="already runs on port"):
        started(own_home, http_port=foreign_server)

    task = leftover_task(own_home)
    os.kill(running.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(running.pid)], timeout=60)
    assert status(own_home).state == "stopped"
    with pytest.raises(FlowUnavailable, match=f"No FATE-Flow answers at {first}; start one with `fate-dp up`"):
        resolve_flow(None, own_home)
    assert started(own_home) == first, "the ports of last time"
    assert status(own_home).pid != running.pid
    assert task.poll() is not None, "a task of the killed server must not go on beside the new one"

    assert down(own_home) is True
    assert down(own_home) is False
    assert not listens(first.port) and processes_of(open_home(own_home).root) == []
    assert listens(foreign_server), "down stops no other server"


def leftover_task(home):
    """A process as FATE-Flow starts them for tasks: with the server's environment."""
    server = psutil.Process(status(home).pid)
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=server.environ())


def test_taken_ports(own_home, foreign_server):
    with pytest.raises(FlowServerError, match=f"Port {foreign_server} on 127.0.0.1 is taken by another program"):
        started(own_home, http_port=foreign_server)
    first = started(own_home)
    down(own_home)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", first.port))
        thief.listen()
        assert started(own_home).port != first.port


def test_two_ups_at_once_start_one_server(own_home):
    found = []
    callers = [threading.Thread(target=lambda: found.append(started(own_home))) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 2 and found[0] == found[1]
    servers = [
        each for each in processes_of(open_home(own_home).root) if "fate_dp.deploy.flow.process" in each.cmdline()
    ]
    assert len(servers) == 1


def test_what_is_cleaned_away_is_missed_by_no_model_and_no_ledger(own_home, tmp_path, capsys):
    """A training, `fate-dp clean --older-than 0 --delete`, and a prediction with what was deployed."""
    address, ledgers = up(own_home), open_home(own_home).parties
    guest, host = loans()
    for name, table in (("guest", guest.iloc[:110]), ("guest_new", guest.iloc[110:]), ("host", host)):
        upload(address, own_home, tmp_path, name, table)
    pipeline, flip = flipped_pipeline()
    trained = DPHeteroLR("dp_hetero_lr_0", train_data=flip.outputs["output_data"], **QUICK)
    job = run_job(pipeline.add_tasks([trained]), address, home=own_home).job_id
    spent = all_ledgers(ledgers, 1e-6)
    assert main(["clean", "--home", str(own_home), "--older-than", "0", "--delete"]) == 0
    assert "tables of tasks" in capsys.readouterr().out
    assert not [path for path in own_home.rglob(f"*{job}*") if path.parent.name != "model"]
    with pytest.raises(NoOutput):
        task_output_data(address, job, "guest", PARTIES.guest, "label_flip_0")
    assert all_ledgers(ledgers, 1e-6) == spent
    assert main(["clean", "--home", str(own_home), "--older-than", "0"]) == 0
    assert "Nothing in" in capsys.readouterr().out
    predicting = prediction_pipeline(pipeline, PARTIES, tables("guest_new", "host"))
    scored = run_job(predicting, address, home=own_home).job_id
    found = task_output_data(address, scored, "guest", PARTIES.guest, "dp_hetero_lr_0")["test_output_data"]
    assert set(found["id"]) == set(guest["id"].iloc[110:])
    assert task_output_model(address, job, "guest", PARTIES.guest, "dp_hetero_lr_0")["output_model"]


def test_nobody_answers(foreign_server, tmp_path):
    with pytest.raises(FlowUnavailable, match="No FATE-Flow answers at 127.0.0.1:1; start one with `fate-dp up` or"):
        resolve_flow("127.0.0.1:1", tmp_path)
    with pytest.raises(FlowUnavailable, match=f"No FATE-Flow answers at 127.0.0.1:{foreign_server}"):
        resolve_flow(f"127.0.0.1:{foreign_server}", tmp_path)
    assert not state_of(FlowAddress("127.0.0.1", foreign_server)).runs


@pytest.fixture(scope="module")
def uploaded(flow_home, flow_address, tmp_path_factory):
    """The training tables, uploaded; the guest's twice, because the second shall replace the first."""
    folder = tmp_path_factory.mktemp("breast")
    write_tables(folder)
    half = folder / "half.csv"
    half.write_text("".join((folder / "guest_train.csv").read_text().splitlines(keepends=True)[:200]))
    upload_table(flow_address, half, "breast", "guest", TableMeta(label_name="y"), home=flow_home)
    upload_table(flow_address, folder / "guest_train.csv", "breast", "guest", TableMeta(label_name="y"), home=flow_home)
    upload_table(flow_address, folder / "host_train.csv", "breast", "host", home=flow_home)
    return folder


def intersection_pipeline(host_table="host"):
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import PSI, Reader

    reader = Reader("reader_0", runtime_parties={"guest": "9999", "host": "10000"})
    reader.guest.task_parameters(namespace="breast", name="guest")
    reader.hosts[0].task_parameters(namespace="breast", name=host_table)
    pipeline = FateFlowPipeline().set_parties(guest="9999", host="10000", arbiter="10000")
    return pipeline.add_tasks([reader, PSI("psi_0", input_data=reader.outputs["output_data"])])


def test_job_to_success(flow_home, flow_address, uploaded, capsys):
    import pandas

    seen = []
    result = run_job(intersection_pipeline(), flow_address, lambda *change: seen.append(change[:2]), home=flow_home)
    assert list(result.seconds_per_task()) == ["reader_0", "psi_0"]
    assert all(0 < seconds < 600 for seconds in result.seconds_per_task().values())
    assert seen[-1] == ("psi_0", "success") and ("reader_0", "success") in seen
    assert capsys.readouterr().out == "", "fate_client's chatter stays out of ours"

    ids = [set(pandas.read_csv(uploaded / f"{side}_train.csv")["id"]) for side in ("guest", "host")]
    common = task_output_data(flow_address, result.job_id, "host", "10000", "psi_0")["output_data"]
    assert set(common["id"]) == ids[0] & ids[1], "the second upload has replaced the first"
    summary = task_metrics(flow_address, result.job_id, "guest", "9999", "psi_0")[-1]
    assert summary["data"]["input_count"] == len(ids[0])
    with pytest.raises(NoOutput, match="psi_0 of guest 9999"):
        task_output_model(flow_address, result.job_id, "guest", "9999", "psi_0")


def test_failure_is_told_in_the_words_of_the_party_that_refused(flow_home, flow_address, uploaded):
    with pytest.raises(JobFailed) as failure:
        run_job(intersection_pipeline(host_table="absent"), flow_address, home=flow_home)
    assert str(failure.value) == "No found table: name[absent],namespace[breast]"
    assert (failure.value.record.role, failure.value.record.party_id) == ("host", "10000")


def test_job_is_stopped_at_its_time_limit(flow_home, flow_address, uploaded):
    with pytest.raises(JobFailed, match="was stopped after 1 seconds, its time limit"):
        run_job(intersection_pipeline(), flow_address, timeout=1.0, home=flow_home)


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_party_whose_processes_hang_or_die_is_named_and_leaves_nothing(
    flow_home, flow_address, uploaded, monkeypatch, number
):
    """FATE-Flow would wait for the stopped one for three days."""
    monkeypatch.setattr(tasks, "LOOK_SECONDS", 1.0)
    monkeypatch.setattr(tasks, "STOPPED_SECONDS", 4.0)
    hit = []

    def strike(task, status, seconds):
        while (task, status) == ("psi_0", "running") and not hit:
            hit.extend(at_work(flow_home, "host/10000/psi_0"))
            for process in hit:
                process.send_signal(number)

    with pytest.raises(JobFailed, match="task psi_0 of host 10000") as failure:
        run_job(intersection_pipeline(), flow_address, strike, home=flow_home)
    assert (failure.value.record.task, failure.value.record.role) == ("psi_0", "host")
    assert wait_until(lambda: not at_work(flow_home, failure.value.job_id), lambda: True, 30)
    assert run_job(intersection_pipeline(), flow_address, home=flow_home).tasks


def at_work(home, words):
    """The processes that work in a folder of a job's tasks."""

    def works_there(process):
        return words in process.cwd() and process.cwd().startswith(str(open_home(home).root / "jobs"))

    return processes_where(works_there)


def test_bad_table_is_refused_before_any_upload(uploaded):
    with pytest.raises(InvalidArgument, match="has no label column 'y'"):
        upload_table(FlowAddress("127.0.0.1", 1), uploaded / "host_train.csv", "breast", "x", TableMeta(label_name="y"))
