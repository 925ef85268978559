"""A job is followed with patience, stopped on purpose alone, and ended where its server died."""

import json
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.deploy.flow.unfinished import end_unfinished, stop_job, unfinished_jobs
from fate_dp.pipelines.jobs import flow, job, tasks
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import JobFailed, TaskRecord, Watch, explain, follow_job
from fate_dp.pipelines.jobs.tasks import LocalTasks

PAGE = b"<html><h1>502 Bad Gateway</h1></html>"
HANGS = object()


class Server:
    """A FATE-Flow of one job, `answers` to whose status are given in turn, the last one for ever."""

    def __init__(self):
        self.answers, self.stops, self.rows, self.tasks = [row("running")], [], [], []
        self.takes_stops, self.refuses, self.over = True, False, threading.Event()

    def reply(self, page, body):
        if page == "job/stop":
            self.stops.append(json.loads(body)["job_id"])
            self.rows = [] if self.takes_stops else self.rows
            return {"code": 0, "message": "success"} if self.takes_stops else HANGS
        if page.startswith("job/query?status") and self.refuses:
            return {"code": 5002, "message": "No found appid."}
        if page.startswith("job/query?status"):
            found = [each for each in self.rows if page.endswith(each["status"])]
            return {"code": 0, "message": "", "data": found} if found else {"code": 1001, "message": "No found job"}
        if page.startswith("table/query?") and "name=loans" in page:
            return {"code": 0, "data": {"count": 300000}}
        if page.startswith("job/task/query"):
            return {"code": 0, "data": self.tasks}
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def row(status):
    return {"code": 0, "data": [{"status": status}]}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(job, "POLL_SECONDS", 0.01)
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = told.reply(self.path.removeprefix("/v2/"), body)
            if answer is HANGS:
                told.over.wait(60)
                return
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(502 if content == PAGE else 200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    web.daemon_threads = True
    threading.Thread(target=web.serve_forever, daemon=True).start()
    told.address = FlowAddress("127.0.0.1", web.server_address[1])
    yield told
    told.over.set()
    web.shutdown()
    web.server_close()


def followed(server, patience=0.5, **watch):
    return follow_job(connect(server.address, patience), "7", "guest", "9999", Watch(**watch))


@pytest.mark.parametrize("bad", [PAGE, b'{"code": 0, "da', [1, 2], HANGS], ids=["page", "torn", "list", "hangs"])
def test_a_bad_answer_is_silence_and_the_job_goes_on(server, bad):
    server.answers = [row("running"), bad, row("running"), row("success")]
    assert followed(server).job_id == "7" and not server.stops


@pytest.mark.parametrize("bad", [PAGE, HANGS], ids=["page", "hangs"])
def test_silence_for_too_long_is_told_and_stops_nothing(server, monkeypatch, bad):
    monkeypatch.setattr(job, "SILENCE_SECONDS", 0.4)
    server.answers = [bad]
    with pytest.raises(JobFailed, match="has not answered for .* while job 7 ran .* `fate-dp status`"):
        followed(server, patience=0.2)
    assert not server.stops


def test_a_full_disk_is_told_by_name(server, monkeypatch, tmp_path):
    monkeypatch.setattr(job, "SILENCE_SECONDS", 0.2)
    monkeypatch.setattr(job, "FULL_BYTES", 1 << 62)
    with pytest.raises(JobFailed, match=f"The disk of {tmp_path} is full, and job 7 cannot go on; .* `fate-dp stop 7`"):
        followed(server, home=tmp_path)


HOST = TaskRecord("psi_0", "host", "10000", "running", None)


@pytest.fixture
def process(server, monkeypatch, tmp_path):
    """A process in the folder of the host's running task of job 7, beside a task of the guest's on another machine."""
    for name, seconds in {"LOOK": 0.05, "GONE": 0.4, "STOPPED": 0.4}.items():
        monkeypatch.setattr(tasks, f"{name}_SECONDS", seconds)
    task = {"task_name": "psi_0", "party_status": "running", "start_time": None}
    server.tasks = [{**task, "role": role, "party_id": party} for role, party in (("guest", "9999"), ("host", "10000"))]
    folder = tmp_path / "jobs" / "7" / HOST.folder / "0"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"], cwd=folder) as started:
        yield started
        started.kill()


@pytest.mark.parametrize(
    "number, why",
    [
        (signal.SIGSTOP, "one of its processes has been stopped, as by kill -STOP,"),
        (signal.SIGKILL, "its processes have been gone"),
    ],
)
def test_a_party_that_hangs_or_vanished_is_named_and_its_job_ended(server, process, tmp_path, number, why):
    threading.Timer(0.5, process.send_signal, (number,)).start()
    begun = time.monotonic()
    with pytest.raises(JobFailed, match=f"Job 7 was stopped because {HOST} cannot go on: {why} for") as failure:
        followed(server, home=tmp_path, timeout=30)
    assert failure.value.record == HOST and server.stops == ["7"]
    assert time.monotonic() - begun > 0.5 + 0.4, "one look is none"


def test_who_never_seen_or_only_paused_is_not_called_gone(process, tmp_path):
    local, elsewhere = LocalTasks(tmp_path, "7"), LocalTasks(tmp_path, "8")
    process.send_signal(signal.SIGSTOP)
    for now in (0.0, 0.1, 0.2, 9.0, 9.1):
        assert local.is_due(now) and local.fault([HOST], now) is None, "the client itself was away for a while"
        assert elsewhere.is_due(now) and elsewhere.fault([HOST], now) is None
    process.send_signal(signal.SIGCONT)
    while "T" in local._states()[HOST.folder]:
        time.sleep(0.01)
    for now in (9.2, 9.3, 9.4, 9.5, 9.6):
        assert local.is_due(now) and local.fault([HOST], now) is None


def test_a_running_task_says_how_far_it_is_and_how_long_it_may_take(server, monkeypatch, process, tmp_path):
    log = tmp_path / "logs" / "7" / HOST.folder / "root" / "INFO"
    log.parent.mkdir(parents=True)
    log.write_text("[INFO] progress: 1 of 4 iterations, 5 of 10 batches\n[INFO] something else\n")
    local = LocalTasks(tmp_path, "7")
    assert local.fault([HOST], 100.0) is None
    assert local.told([HOST], 130.0) == {"psi_0": "1 of 4 iterations, 5 of 10 batches"}
    with log.open("a") as file:
        file.write("[INFO] progress: 2 of 4 iterations, 5 of 10 batches\n")
    assert local.told([HOST], 190.0) == {"psi_0": "2 of 4 iterations, 5 of 10 batches, some 90 s left"}
    log.write_text("")
    assert local.told([HOST], 180.0) == {"psi_0": "for 80 s"}, "as FATE's psi, which tells nothing"
    log.write_text("[INFO] progress: 2 of 4 iterations, 5 of 10 batches\n")
    news = []
    channel = {"data_warehouse": {"namespace": "bank", "name": "loans"}}
    dag = {"tasks": {"psi_0": {"inputs": {"data": {"input_data": channel}}}}}
    server.answers = [{"code": 0, "data": [{"status": "running", "dag": {"dag": dag}}]}] * 20 + [row("success")]
    followed(server, home=tmp_path, progress=lambda *change: news.append(change[:2]))
    assert ("psi_0", "running on 300000 rows, 2 of 4 iterations, 5 of 10 batches") in news


def test_the_party_whose_process_ended_is_named_not_the_first_that_fell_with_it(tmp_path):
    """FATE-Flow fails all parties of the task, the guest first, and tells the reason to its log alone."""
    tasks = tuple(TaskRecord("lr_0", role, party, "failed", 1.0) for role, party in (("guest", "9"), ("host", "10")))
    log = tmp_path / "logs" / "7" / "fate_flow_detect.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "[INFO] task 7_lr_0 0 on host 10 with running process 4711 does not exist\n"
        "[INFO] task 7_lr_0 0 on host 10 party status has been checked twice, try to stop job\n"
        "[INFO] task 7_lr_0 0 on guest 9 with running process 4712 does not exist\n"
    )
    failure = explain("7", "failed", tasks, tmp_path)
    assert failure.record == tasks[1]
    assert str(failure).startswith("The process of task lr_0 of host 10 ended without a result or a message")


def test_the_time_limit_holds_against_a_server_that_hangs(server):
    server.answers, server.takes_stops = [row("running"), HANGS], False
    begun = time.monotonic()
    with pytest.raises(JobFailed, match="should stop after .* its time limit, .* `fate-dp stop 7` when it answers"):
        followed(server, patience=0.2, timeout=0.5)
    assert time.monotonic() - begun < 5 and server.stops == ["7"]


def test_a_job_is_stopped_at_its_time_limit_on_ctrl_c_and_at_its_callers_wish(server):
    with pytest.raises(JobFailed, match="Job 7 was stopped after .* its time limit, in no task"):
        followed(server, timeout=0.1)
    wish = threading.Event()
    wish.set()
    with pytest.raises(JobFailed, match="Job 7 was stopped because another job that it belongs with did not succeed"):
        followed(server, stop=wish)
    assert server.stops == ["7", "7"]


@pytest.mark.parametrize("error, stops", [(KeyboardInterrupt, ["7"]), (ValueError, [])])
def test_an_error_of_the_caller_stops_no_job(server, monkeypatch, error, stops):
    def report(*_):
        raise error

    monkeypatch.setattr(job, "report_changes", report)
    with pytest.raises(error):
        followed(server)
    assert server.stops == stops


def test_jobs_whose_server_died_are_listed_and_ended(server):
    now = time.time() * 1000
    parties = (
        {"job_id": "7", "status": "running", "cores": 4, "resource_in_use": True, "create_time": now - 9000},
    ) * 2
    queued = {"job_id": "8", "status": "waiting", "cores": 4, "resource_in_use": False, "create_time": now + 9000}
    server.rows = [*parties, queued]
    running, waiting = unfinished_jobs(server.address)
    assert str(running) == "Job 7 is running for 9 s and holds 8 cores."
    assert str(waiting) == "Job 8 is waiting for 0 s and holds 0 cores.", "the clock was set back"
    assert [each.job_id for each in end_unfinished(server.address)] == ["7", "8"] == server.stops
    assert not end_unfinished(server.address)


def test_a_server_that_does_not_list_its_jobs_to_this_client_says_why(server):
    server.refuses = True
    with pytest.raises(FlowServerError, match="FATE-Flow at .* refuses job/query.*: No found appid[.]"):
        end_unfinished(server.address)
    with pytest.raises(FlowServerError, match="FATE-Flow at 127.0.0.1:9 does not answer job/query"):
        unfinished_jobs(FlowAddress("127.0.0.1", 9))


def test_a_job_that_has_ended_is_not_stopped_again(server):
    with pytest.raises(FlowServerError, match="JOB must be one that has not ended, got 9"):
        stop_job(server.address, "9")
    assert not server.stops and flow.ANSWER_SECONDS > 0
