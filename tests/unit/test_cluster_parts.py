"""The parts of the cluster that need no server: ports, files, configurations, what is missing, what runs."""

import http.client
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from flow_double import flow_double

from fate_dp.deploy.flow import server
from fate_dp.deploy.flow.home import FlowHome, service_settings
from fate_dp.deploy.flow.programs import FlowServerError, ServerRecord, free_port, write_record
from fate_dp.deploy.flow.server import MARK
from fate_dp.privacy.private_files import replace_file
from tests.support.cluster import cluster, programs
from tests.support.cluster.__main__ import main
from tests.support.cluster.party_server import party_setup
from tests.support.cluster.programs import (
    PARTIES,
    Broker,
    BrokerPorts,
    ClusterRecord,
    PieceStatus,
    Router,
    kept_secret,
    make_private_folder,
    new_record,
    read_record,
    taken_port,
)

RECORD = ClusterRecord(
    "standalone",
    20001,
    BrokerPorts(20002, 20003, 20004, 20005),
    {party.party_id: [20010 + number, 20020 + number] for number, party in enumerate(PARTIES)},
)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_all_ports_of_a_new_cluster_differ():
    record = new_record("spark")
    ports = list(record.all_ports())
    assert len(ports) == len(set(ports)) == 5 + 2 * len(PARTIES) and record.engine == "spark"


def test_a_record_survives_a_round_trip_and_a_crash(tmp_path):
    path = tmp_path / "cluster.json"
    assert read_record(path) is None
    write_record(path, RECORD)
    assert read_record(path) == RECORD and mode(path) == 0o600
    for torn in ("", '{"engine": "st', "[]", '{"engine": "standalone"}', '{"engine": 1, "router": 2, "broker": {}}'):
        path.write_text(torn)
        assert read_record(path) is None


def test_a_port_that_another_program_took_is_noticed():
    import socket

    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        taken = thief.getsockname()[1]
        assert taken_port(ClusterRecord("standalone", taken, RECORD.broker, RECORD.servers)) == taken


def test_secrets_are_for_the_owners_eyes_and_stay(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    make_private_folder(folder)
    secret = kept_secret(folder / "password")
    assert len(secret) > 30 and kept_secret(folder / "password") == secret != kept_secret(folder / "other")
    assert mode(folder) == 0o700 and mode(folder / "password") == 0o600
    open_to_all = folder / "file"
    open_to_all.write_text("old")
    open_to_all.chmod(0o644)
    replace_file(open_to_all, b"new")
    assert mode(open_to_all) == 0o600 and open_to_all.read_text() == "new"


def test_pieces_that_ask_for_a_secret_at_once_get_the_same(tmp_path):
    """Broker and servers start side by side; one with a password of its own would be refused in the middle of a job."""
    for number in range(20):
        together = threading.Barrier(4)

        def ask(path=tmp_path / f"password-{number}", together=together):
            together.wait()
            return kept_secret(path)

        with ThreadPoolExecutor(4) as threads:
            assert len({future.result() for future in [threads.submit(ask) for _ in range(4)]}) == 1


@pytest.mark.parametrize(
    "program, sentence",
    [
        ("broker", "RabbitMQ, .* run `apt-get install rabbitmq-server`"),
        ("router", "nginx, .* run `apt-get install nginx-light`"),
        ("fate_flow", "FATE-Flow is not installed; run .*fate-dp\\[fate,cluster\\]"),
        ("pika", "package pika, .*fate-dp\\[fate,cluster\\]"),
        ("pyspark", "package pyspark is not installed"),
        ("java", "Java, .* run `apt-get install default-jre-headless`"),
    ],
)
def test_what_is_missing_is_named_with_its_package(program, sentence, monkeypatch, tmp_path):
    everything_there(monkeypatch, tmp_path)
    assert programs.missing("spark") is None
    hide(program, monkeypatch, tmp_path)
    with pytest.raises(FlowServerError, match=sentence):
        programs.check_engine("spark")
    assert (programs.missing("standalone") is None) == (program in ("pyspark", "java"))


def everything_there(monkeypatch, folder):
    (folder / "rabbitmq-server").touch()
    monkeypatch.setattr(programs, "BROKER_PROGRAMS", folder)
    monkeypatch.setattr(programs, "router_program", lambda: "/usr/sbin/nginx")
    monkeypatch.setattr(programs, "java_program", lambda: "/usr/bin/java")
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: name)


def hide(program, monkeypatch, folder):
    if program == "broker":
        (folder / "rabbitmq-server").unlink()
    elif program in ("router", "java"):
        monkeypatch.setattr(programs, f"{program}_program", lambda: None)
    else:
        monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None if name == program else name)


def test_an_unknown_engine_is_refused():
    with pytest.raises(FlowServerError, match="The engine must be standalone or spark, got 'eggroll'"):
        programs.check_engine("eggroll")


def test_every_server_gets_its_own_party_and_the_same_broker_and_router(tmp_path):
    broker = Broker(tmp_path / "broker", RECORD.broker)
    settings = {}
    for party in PARTIES:
        setup = party_setup(RECORD, party, broker, tmp_path / party.name)
        settings[party.party_id] = service_settings(ServerRecord(*RECORD.servers[party.party_id]), setup)
    assert {name: made["party_id"] for name, made in settings.items()} == {party: party for party in settings}
    assert len({made["fateflow"]["http_port"] for made in settings.values()}) == len(PARTIES)
    for made in settings.values():
        assert made["fateflow"]["proxy_name"] == "nginx" and made["fateflow"]["host"] == "127.0.0.1"
        assert made["federation"]["nginx"] == {"host": "127.0.0.1", "protocol": "http", "http_port": 20001}
        rabbitmq = made["federation"]["rabbitmq"]
        assert (rabbitmq["host"], rabbitmq["port"], rabbitmq["mng_port"]) == ("127.0.0.1", 20002, 20003)
        assert rabbitmq["password"] == broker.password() and rabbitmq["mode"] == "client"
        yaml.safe_dump(made)


def test_spark_is_told_to_stay_on_loopback(tmp_path):
    record = ClusterRecord("spark", RECORD.router, RECORD.broker, RECORD.servers)
    setup = party_setup(record, PARTIES[0], Broker(tmp_path / "broker", record.broker), tmp_path / "home")
    defaults = (tmp_path / "home" / "spark" / "spark-defaults.conf").read_text()
    assert setup.service["default_engines"] == {"computing": "spark", "federation": "rabbitmq", "storage": "file"}
    for line in ("spark.driver.bindAddress 127.0.0.1", "spark.driver.host 127.0.0.1", "spark.ui.enabled false"):
        assert line in defaults.splitlines()
    assert setup.environment["SPARK_CONF_DIR"] == str(tmp_path / "home" / "spark")


def test_the_router_knows_the_parties_and_refuses_others(tmp_path):
    configuration = Router(tmp_path, 20001, {"9999": 20010, "10000": 20011})._configuration()
    assert '"9999" 127.0.0.1:20010;' in configuration and '"10000" 127.0.0.1:20011;' in configuration
    assert "listen 127.0.0.1:20001;" in configuration and "The cluster has no party" in configuration
    assert all("127.0.0.1" in line for line in configuration.splitlines() if "listen " in line)


def test_a_folder_keeps_its_engine(tmp_path, monkeypatch):
    everything_there(monkeypatch, tmp_path)
    write_record(tmp_path / "cluster.json", RECORD)
    assert cluster.settled_record(FlowHome(tmp_path), None) == RECORD
    with pytest.raises(FlowServerError, match="computes with standalone.*choose another folder with --home"):
        cluster.settled_record(FlowHome(tmp_path), "spark")


def sleeping_process(environment):
    """A process that has begun, which it says: before that the kernel shows it without its environment."""
    program = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]
    process = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"here\n"
    return process


def test_down_stops_marked_processes_and_no_others_also_without_a_record(tmp_path):
    folder = tmp_path / PARTIES[0].name
    folder.mkdir()
    own = sleeping_process({**os.environ, MARK: str(folder)})
    stranger = sleeping_process({**os.environ, MARK: str(tmp_path / "elsewhere")})
    try:
        assert cluster.down(tmp_path) is True and own.wait(60) is not None
        assert cluster.down(tmp_path) is False and stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_piece_that_fails_takes_the_others_down(tmp_path, monkeypatch):
    """The sentence is that of the piece; nothing goes on half."""
    stopped = []
    monkeypatch.setattr(cluster, "stop_all", lambda failed: stopped.append(failed) or 0)

    class Piece:
        def __init__(self, name, failure=None):
            self.name, self.failure = name, failure

        def start(self, progress):
            if self.failure:
                raise self.failure

    whole = cluster.Cluster(tmp_path, RECORD)
    with pytest.raises(FlowServerError, match="The router did not answer"):
        pieces = [Piece("broker"), Piece("router", FlowServerError("The router did not answer"))]
        cluster.start_all(whole, pieces, lambda sentence: None)
    assert stopped == [tmp_path]


def test_a_busy_piece_is_given_time_and_a_stopped_one_is_not(monkeypatch):
    """`up` must not restart a server, and end its tasks, because it was slow to answer once."""
    monkeypatch.setattr(cluster, "BUSY_SECONDS", 0.5)
    asked = []

    class Piece:
        def __init__(self, *states):
            self.states = list(states)

        def status(self):
            asked.append(self.states[0])
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return PieceStatus("guest 9999", state, "127.0.0.1:1")

    assert not cluster.runs(Piece("not answering"))
    # Time enough for a third question also where the machine is busy.
    monkeypatch.setattr(cluster, "BUSY_SECONDS", 60.0)
    assert cluster.runs(Piece("not answering", "not answering", "running"))
    asked.clear()
    assert not cluster.runs(Piece("stopped")) and len(asked) == 1


def test_status_writes_nothing_that_a_running_task_reads(tmp_path):
    record = ClusterRecord("spark", RECORD.router, RECORD.broker, RECORD.servers)
    write_record(tmp_path / "cluster.json", record)
    assert {piece.state for piece in cluster.status(tmp_path)} == {"stopped"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.json"]


def test_status_and_down_where_no_cluster_was_started(tmp_path, capsys):
    home = tmp_path / "absent"
    assert main(["status", "--home", str(home)]) == 3
    assert main(["down", "--home", str(home)]) == 0
    told = capsys.readouterr().out
    assert "No cluster was started in" in told and "No cluster of this folder was running." in told
    assert main(["demo", "--home", str(home), "--out", str(tmp_path / "out")]) == 1
    assert (
        "start one with `python -m tests.support.cluster up" in capsys.readouterr().err
        and not (tmp_path / "out").exists()
    )
    assert not home.exists()


def test_down_ends_what_outlived_a_deleted_folder(tmp_path):
    """Somebody removed the cluster's folder while it ran: its processes are still known by the mark they carry."""
    gone = tmp_path / "gone"
    for folder, down in ((gone / PARTIES[0].name, cluster.down), (gone, server.down)):
        left = sleeping_process({MARK: str(folder)})
        assert down(gone) and left.poll() is not None and not gone.exists()
        assert not down(gone)


@pytest.mark.skipif(programs.router_program() is None, reason="needs nginx")
def test_the_router_hands_on_what_parties_ask_each_other_and_nothing_else(tmp_path):
    """A FATE-Flow asks nobody for a signature at /v2/worker/, so no other party may get there."""
    port = free_port()
    with flow_double({"partner/job/create": "done", "scheduler/task/report": "done"}) as (address, asked):
        router = Router(tmp_path / "router", port, {"9999": address.port})
        router.start(lambda sentence: None)
        try:
            answers = {
                path: router_status(port, path)
                for path in (
                    "/v2/partner/job/create",
                    "/v2/scheduler/task/report",
                    "/v2/worker/model/download",
                    "/v2/partner/../worker/model/download",
                    "/v2/partner/%2e%2e/worker/task/status",
                    "/v2/server/query/all",
                )
            }
        finally:
            router.stop()
    assert list(answers.values()) == [200, 200, 403, 403, 403, 403]
    assert [path for path, _, _ in asked] == ["partner/job/create", "scheduler/task/report"]


def router_status(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body="{}", headers={"dest-party-id": "9999"})
        return connection.getresponse().status
    finally:
        connection.close()
