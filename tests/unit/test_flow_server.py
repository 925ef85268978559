"""The parts of the embedded server and of its client that need no server."""

import logging
import os
import socket
import subprocess
import sys

import pytest

from fate_dp.components.common.entry_point import FATE_EXECUTES
from fate_dp.components.common.preflight import Refused
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import (
    CHOSEN_FROM,
    FlowServerError,
    ServerRecord,
    check_requested_port,
    free_port,
    is_free,
    read_record,
    wait_until,
    write_record,
)
from fate_dp.deploy.flow.server import MARK, PROGRAM, choose_ports, down, is_alive, server_environment, status
from fate_dp.pipelines.jobs.flow import FlowUnavailable, parse_address, resolve_flow
from fate_dp.pipelines.jobs.job import TaskRecord, common_status, explain, raised_sentence, reason_of
from fate_dp.privacy.validation import InvalidArgument


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_ports(taken_port):
    port = free_port()
    assert port in CHOSEN_FROM and is_free(port) and not is_free(taken_port)


def test_requested_port(taken_port):
    with pytest.raises(FlowServerError, match=f"Port {taken_port} .* is taken .* pass a free one with --port"):
        check_requested_port(taken_port)
    for port in (0, 80, 65536):
        with pytest.raises(FlowServerError, match="The port must be from 1024 to 65535, got"):
            check_requested_port(port)


def test_ports_are_kept_where_they_are_free(taken_port):
    http_port = free_port()
    last = ServerRecord(http_port, free_port(besides=(http_port,)))
    assert choose_ports(last, None) == last
    moved = choose_ports(ServerRecord(taken_port, last.grpc_port), None)
    assert moved.http_port != taken_port and moved.grpc_port == last.grpc_port
    assert choose_ports(None, http_port).http_port == http_port
    assert choose_ports(ServerRecord(taken_port, http_port), http_port).grpc_port != http_port


def test_record_survives_a_round_trip_and_a_crash(tmp_path):
    path = tmp_path / "server.json"
    assert read_record(path) is None
    record = ServerRecord(20001, 20002, 4711)
    write_record(path, record)
    assert read_record(path) == record
    path.write_text('{"http_port": 20001, "grpc_port": 20002, "pid": 4711, "started": 12345.5}')
    assert read_record(path) == record, "as an earlier version wrote it"
    for torn in ("", '{"http_port": 2', "[]", '{"other": 1}'):
        path.write_text(torn)
        assert read_record(path) is None


def test_recycled_process_id_is_not_ours(tmp_path):
    own = ServerRecord(1, 2, os.getpid())
    assert not is_alive(own, tmp_path)
    assert not is_alive(ServerRecord(1, 2), tmp_path) and not is_alive(None, tmp_path)


def test_a_server_lives_until_it_ends_whatever_the_clock_says(tmp_path):
    """Its program and its home are what it is known by; a zombie answers nobody."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, MARK: str(tmp_path)}) as child:
        record = ServerRecord(1, 2, child.pid)
        assert wait_until(lambda: is_alive(record, tmp_path), lambda: True, 10)
        assert not is_alive(record, tmp_path / "other")
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(record, tmp_path)


def test_down_does_not_touch_a_recycled_process_id(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        write_record(tmp_path / "server.json", ServerRecord(20001, 20002, bystander.pid))
        assert status(tmp_path).state == "stopped"
        assert down(tmp_path) is False
        assert bystander.poll() is None
        bystander.kill()


def test_down_makes_no_home(tmp_path):
    assert down(tmp_path / "absent") is False and not (tmp_path / "absent").exists()


def test_home_inside_the_environment_is_refused():
    with pytest.raises(FlowServerError, match="choose a folder outside it"):
        open_home(os.path.join(sys.prefix, "flow"))


def test_tasks_get_their_home_but_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    home = open_home(tmp_path)
    environment = server_environment(home)
    assert "hush" not in environment.values()
    assert environment["FATE_DP_HOME"] == str(tmp_path / "parties")
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path / "python")
    assert environment["OMP_NUM_THREADS"] == "1" and environment["PYTHONUTF8"] == "1"


def test_tasks_get_settings_for_reproducible_sums_unless_the_operator_has_others(tmp_path, monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    assert server_environment(open_home(tmp_path))["MKL_CBWR"] == "AVX2"
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert server_environment(open_home(tmp_path))["MKL_CBWR"] == "COMPATIBLE"


def test_address():
    assert str(parse_address("localhost:9380")) == "localhost:9380"
    for text in ("9380", "localhost", "localhost:", ":9380", "a:b", "h:0", "h:70000", "http://h:9380", "h:9380/x"):
        with pytest.raises(FlowUnavailable, match="is not an address; give HOST:PORT"):
            parse_address(text)


def test_no_server_was_ever_started(tmp_path):
    with pytest.raises(FlowUnavailable, match="start one with `fate-dp up --home .*` or pass --flow HOST:PORT"):
        resolve_flow(None, tmp_path)


TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n    raise ValueError("Note: a")\n'


@pytest.mark.parametrize(
    "report, sentence",
    [
        (TRACEBACK + "ValueError: Epsilon must be above 0, got 0.", "Epsilon must be above 0, got 0."),
        (TRACEBACK + "fate_dp.privacy.x.BudgetSpent: The budget: 4 of 4.\n", "The budget: 4 of 4."),
        (TRACEBACK + "ValueError: inner\n\nDuring handling:\n\n" + TRACEBACK + "TypeError: outer one", "outer one"),
        (TRACEBACK + "KeyError: 'label'", "KeyError: 'label'"),
        (TRACEBACK + "AssertionError", "AssertionError"),
        ('Check failed[{"code":7001,"message":"No found \\"t\\""}\n]', 'No found "t"'),
        ("download failed", "download failed"),
    ],
)
def test_sentence_of_an_error_report(report, sentence):
    assert raised_sentence(report) == sentence


def test_a_traceback_in_an_answer_is_told_as_a_sentence():
    """As where a partner does not know this site: FATE-Flow sends its whole traceback."""
    told = {"code": 100, "message": TRACEBACK + "Exception: ('create job failed', 'No found appid')\n"}
    assert reason_of(told) == "('create job failed', 'No found appid')"
    assert reason_of({"retmsg": "Connection refused."}) == "Connection refused"


def test_the_party_that_speaks_is_heard():
    tasks = (
        TaskRecord("flip_0", "guest", "9999", "failed", 1.0),
        TaskRecord("flip_0", "host", "10000", "failed", 1.0, TRACEBACK + "ValueError: The label is missing."),
        TaskRecord("flip_0", "arbiter", "10000", "failed", 1.0, "No found task output."),
    )
    failure = explain("job", "failed", tasks, None)
    assert str(failure) == "The label is missing." and failure.record.role == "host"


def test_silent_failure_shows_the_log(tmp_path):
    record = TaskRecord("flip_0", "guest", "9999", "failed", 1.0, "No found task output.")
    assert "look into the server's logs" in str(explain("job", "failed", (record,), None))
    log = tmp_path / "logs" / "job" / "guest" / "9999" / "flip_0" / "stdout" / "task_execute"
    log.parent.mkdir(parents=True)
    log.write_text("Segmentation fault\n")
    assert str(explain("job", "failed", (record,), tmp_path)).endswith("Segmentation fault")
    stopped = TaskRecord("flip_0", "host", "10000", "failed", 1.0, "")
    killed = explain("job", "failed", (stopped, record), tmp_path)
    assert "process of task flip_0 of guest 9999 ended without a result" in str(killed) and killed.record == record
    assert "perhaps because another party's did" in str(explain("job", "failed", (stopped,), tmp_path))
    ended = str(explain("job", "canceled", (record,), tmp_path))
    assert "'canceled' without a message" in ended and ended.endswith(f"{tmp_path}/logs/job/fate_flow_schedule.log.")
    assert str(explain("job", "failed", (), None)).endswith("run it again.")


def test_a_report_that_flow_lost_is_read_from_the_log(tmp_path):
    records = [TaskRecord("flip_0", role, "9999", "failed", 1.0, "") for role in ("host", "guest")]
    log = tmp_path / "logs" / "job" / "guest" / "9999" / "flip_0" / "component" / "ERROR"
    log.parent.mkdir(parents=True)
    log.write_text(
        f"[ERROR][now]: first\n{TRACEBACK}KeyError: 'a'\n[ERROR][now]: disk full\n{TRACEBACK}"
        "OSError: No space left for the ledger.\n[ERROR][now]: the end\n"
    )
    failure = explain("job", "failed", tuple(records), tmp_path)
    assert str(failure) == "No space left for the ledger." and failure.record.role == "guest"


def test_a_refusal_stands_in_the_log_as_its_sentence_alone_and_is_read_from_there(tmp_path):
    """Only what nobody foresaw shows a traceback, also where FATE raises an error of its own from a parameter's."""
    log = tmp_path / "logs" / "job" / "guest" / "9999" / "flip_0" / "component" / "ERROR"
    log.parent.mkdir(parents=True)
    handler = logging.FileHandler(log)
    form = "[%(levelname)s][%(asctime)-8s][1][execute_cli.execute_component_from_config][line:9]: %(message)s"
    handler.setFormatter(logging.Formatter(form))
    logger = logging.getLogger(FATE_EXECUTES)
    logger.addHandler(handler)
    record = TaskRecord("flip_0", "guest", "9999", "failed", 1.0, "")

    def told(error, cause=None):
        log.write_text("")
        try:
            raise error from cause
        except Exception as caught:
            logger.error(caught, exc_info=True)
        return log.read_text(), str(explain("job", "failed", (record,), tmp_path))

    try:
        refusals = (Refused("The cap is 2."), None), (TypeError("not applied"), InvalidArgument("The cap is 2."))
        for error, cause in refusals:
            text, said = told(error, cause)
            assert text.endswith("]: The cap is 2.\n") and text.count("\n") == 1 and said == "The cap is 2."
        text, said = told(ValueError("invalid literal"))
        assert TRACEBACK.partition("\n")[0] in text and said == "invalid literal"
    finally:
        logger.removeHandler(handler)


def test_component_that_does_not_import():
    record = TaskRecord("flip_0", "guest", "9999", "failed", 1.0, "'NoneType' object has no attribute 'inputs'")
    assert "could not be loaded in the server's Python" in str(explain("job", "failed", (record,), None))


def test_common_status():
    assert common_status(["success", "success"]) == "success"
    assert common_status(["success", "waiting"]) == "running"
    assert common_status(["running", "failed"]) == "failed"
    assert common_status(["waiting", "waiting"]) == "waiting"
