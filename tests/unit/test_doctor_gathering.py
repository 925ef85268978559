"""What the doctor gathers: real interpreters, and servers that answer as FATE-Flow, RabbitMQ or something else does."""

import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from doctor_examples import package, party, report, unrecorded_fate
from flow_double import GUARDED, NO_JOBS, VERSION, flow_double, speaking

from fate_dp.deploy.doctor import flow_checks, gathering, own_checks
from fate_dp.deploy.doctor.examination import findings, look
from fate_dp.deploy.doctor.findings import ENVIRONMENT, run_checks
from fate_dp.deploy.doctor.gathering import environment_from, examine, gather, provider_from
from fate_dp.deploy.flow.client import Answer, Credentials, FlowAddress, FlowSilent, ask, credentials_for
from fate_dp.deploy.flow.server import ANSWERS, FATE_PATCHES, FOREIGN, REFUSES, SILENT, FlowState
from fate_dp.pipelines.cli.main import main
from fate_dp.privacy.validation import InvalidArgument

NOWHERE = FlowAddress("127.0.0.1", 1)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """On a busy machine an interpreter that imports everything takes long, and so may an answer."""
    monkeypatch.setattr(gathering, "PROBE_SECONDS", 600)
    monkeypatch.setattr(flow_checks, "PATIENCE_SECONDS", 60.0)


def distribution(folder, **texts):
    """A folder on the path that claims to hold FATE-DP 9.9.9."""
    info = folder / "fate_dp-9.9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fate_dp\nVersion: 9.9.9\n")
    for name, text in texts.items():
        (info / name.replace("_dot_", ".")).write_text(text)
    return str(folder)


def test_this_environment_is_sound():
    assert [each for each in run_checks(ENVIRONMENT, examine()) if each.state != "ok"] == []


def test_two_installations_and_a_component_that_does_not_import(tmp_path):
    path = distribution(
        tmp_path,
        entry_points_dot_txt="[fate.ext.component_desc]\nbroken = nowhere_at_all:thing\n",
        direct_url_dot_json=json.dumps({"url": f"file://{tmp_path}/gone%20away", "dir_info": {"editable": True}}),
    )
    environment = examine(sys.executable, path)
    first, second = environment.plugins
    assert (first.version, first.location, first.source) == ("9.9.9", path, f"{tmp_path}/gone away")
    assert second.announces == examine().plugin.announces
    assert "is installed 2 times" in own_checks.installed_once(environment).said
    finding = own_checks.components_found(environment)
    assert "cannot be imported; broken: ModuleNotFoundError: No module named 'nowhere_at_all'" in finding.said


def test_a_fate_that_pip_does_not_know_is_there_all_the_same(tmp_path):
    environment = examine(*unrecorded_fate(tmp_path))
    assert environment.unrecorded == ["fate-client", "fate-flow", "pyfate"]
    assert own_checks.fate(environment).said == "FATE, FATE-Flow and fate_client 2.2.0."
    assert [each for each in run_checks(ENVIRONMENT, environment) if each.state != "ok"] == []


def test_a_package_of_fate_is_read_and_not_run(tmp_path):
    python, _ = unrecorded_fate(tmp_path)
    path = tmp_path / "path"
    for name, text in {"fate": "__version__ = '2.1.0'\n", "fate_flow": "__provider__ = 'fate_flow'\n"}.items():
        (path / name).mkdir(parents=True)
        (path / name / "__init__.py").write_text("raise SystemExit('it was run')\n")
        (path / name / "_info.py").write_text(text)
    finding = own_checks.fate(examine(python, str(path)))
    assert "pyfate 2.1.0, fate-flow unknown, fate-client missing" in finding.said
    assert finding.cure == f"Replace what is in {path}, which pip did not install, by FATE 2.2.0."


def test_setuptools_without_pkg_resources(tmp_path):
    (tmp_path / "pkg_resources.py").write_text("raise ImportError('dropped in setuptools 81')\n")
    environment = examine(sys.executable, str(tmp_path))
    finding = own_checks.setuptools(environment)
    assert "pkg_resources cannot be imported (dropped in setuptools 81)" in finding.said and finding.state == "problem"
    assert own_checks.components_found(environment).state == "problem"


@pytest.mark.parametrize(
    "python, sentence",
    [
        ("/nowhere/python", "The Python /nowhere/python cannot be run: No such file or directory."),
        ("/bin/false", "The Python /bin/false could not list what is installed: it printed nothing."),
    ],
    ids=["absent", "fails"],
)
def test_an_interpreter_that_is_none(python, sentence):
    with pytest.raises(InvalidArgument) as failure:
        examine(python)
    assert str(failure.value) == sentence


SETTINGS = {
    "FATEFLOW": {"host": "127.0.0.1", "http_port": 1, "grpc_port": 2},
    "AUTHENTICATION": {"client": True},
    "DEFAULT_PROVIDER": {"name": "fate", "version": None, "device": "local"},
}


def provider_row(version="2.2.0", path="", python="/nowhere/python", device="local"):
    return {
        "provider_name": f"fate:{version}@{device}",
        "version": version,
        "device": device,
        "metadata": {"path": path, "venv": python},
    }


def test_the_site_of_a_running_server(tmp_path):
    answers = {**VERSION, "server/query/all": SETTINGS, "provider/query?name=fate": [provider_row()]}
    with flow_double(answers) as (address, _):
        site = gather(tmp_path, address)
    assert (site.state, site.version, site.address, site.is_here) == (ANSWERS, "2.2.0", address, True)
    assert site.section("authentication") == {"client": True}, "as the running server tells"
    assert [(each.ip, each.port, each.pid) for each in site.listeners] == [("127.0.0.1", address.port, os.getpid())]
    finding = flow_checks.default_provider(site, None)
    assert "fate:2.2.0@local cannot run: its Python /nowhere/python is gone" in finding.said
    assert flow_checks.answers(site).state == flow_checks.ports(site).state == flow_checks.reach(site).state == "ok"
    assert site.takes_the_known_key, "it took whatever key it was asked with"


def test_of_a_servers_environment_nothing_is_kept_but_what_tells_of_the_fence(tmp_path, monkeypatch):
    there = {"PYTHONPATH": str(FATE_PATCHES), "FATE_DP_FENCE_ALLOW": "a.B", "SECRET": "of this server"}
    monkeypatch.setattr(psutil.Process, "environ", lambda process: there)
    with flow_double({**VERSION, "server/query/all": SETTINGS, "provider/query?name=fate": []}) as (address, _):
        site = gather(tmp_path, address)
        assert site.variables == {"PYTHONPATH": str(FATE_PATCHES), "FATE_DP_FENCE_ALLOW": "a.B"}

        def not_allowed(process):
            raise psutil.AccessDenied()

        monkeypatch.setattr(psutil.Process, "environ", not_allowed)
        assert gather(tmp_path, address).variables is None


def test_a_stopped_servers_home_tells_its_address_and_its_settings(tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "service_conf.yaml").write_text("fateflow: {host: 127.0.0.1, http_port: 1, grpc_port: 2}\n")
    (tmp_path / "conf" / "local.service_conf.yaml").write_text("authentication: {client: true, site: true}\n")
    site = gather(tmp_path)
    assert (site.state, site.address, site.providers) == (SILENT, NOWHERE, None)
    assert site.section("authentication") == {"client": True, "site": True} and site.ports() == {"HTTP": 1, "gRPC": 2}
    assert "No FATE-Flow answers at 127.0.0.1:1: Connection refused" in flow_checks.answers(site).said
    (tmp_path / "conf" / "local.service_conf.yaml").write_text("- a list\n")
    finding = flow_checks.configuration(gather(tmp_path))
    assert "local.service_conf.yaml is not a mapping in YAML" in finding.said and "Correct it" in finding.cure
    (tmp_path / "server.json").write_text('{"http_port": 7, "grpc_port": 8}')
    assert gather(tmp_path).address == FlowAddress("127.0.0.1", 7)


def test_a_server_that_knows_its_clients(tmp_path):
    with flow_double({"server/fateflow": None}, code=5003) as (address, _):
        site = gather(tmp_path, address)
    assert site.state == REFUSES and not site.takes_the_known_key
    assert "refuses to answer" in flow_checks.answers(site).said


@pytest.mark.parametrize(
    "answer, taken",
    [
        ({"code": 5001, "message": "Invalid request.", "data": {"json": {"job_id": ["Missing"]}}}, True),
        ({"code": 5003, "message": "varify failed!"}, False),
        ({"code": 5001, "message": "invalid parameter: appId"}, False),
    ],
    ids=["asked for fields", "refused", "unsigned"],
)
def test_the_published_key_is_tried_where_sites_alone_must_sign(answer, taken):
    text = json.dumps(answer).encode()
    with speaking(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)) as port:
        address = FlowAddress("127.0.0.1", port)
        assert gathering.takes_published_key(address, ANSWERS, {"client": False, "site": True}) == taken
        assert not gathering.takes_published_key(address, ANSWERS, {"client": False, "site": False})


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (GUARDED, True),
        (
            {"partner/job/create": Answer(1002, "Create job failed: detail['dict' object has no attribute 'conf']")},
            False,
        ),
        ({"partner/job/create": Answer(5003, "Authentication failed")}, None),
    ],
    ids=["guarded", "open", "knows no such party"],
)
def test_whether_a_server_looks_at_jobs_is_asked_by_one_of_which_no_server_makes_a_job(answer, found, tmp_path):
    with flow_double({**VERSION, **answer}) as (address, asked):
        assert gather(tmp_path, address).refuses_paths is found
    ((_, body, _),) = [each for each in asked if each[0] == "partner/job/create"]
    assert body["dag"] == {} and "/" in body["job_id"]


def test_a_sites_command_with_the_published_key_orders_nothing(tmp_path):
    settings = {**SETTINGS, "AUTHENTICATION": {"client": False, "site": True}}
    with flow_double({**VERSION, "server/query/all": settings}) as (address, asked):
        gather(tmp_path, address)
    ((_, body, headers),) = [each for each in asked if each[0].startswith("scheduler/")]
    assert body == {}, "without its fields FATE-Flow does nothing"
    assert headers["Initiatorpartyid"] == "", "FATE-Flow puts it into what is signed"
    inner = hashlib.md5(("admin" + headers["Nonce"] + headers["Timestamp"]).encode()).hexdigest()
    assert headers["Signature"] == hashlib.md5((inner + "fate_flow_admin").encode()).hexdigest()


@pytest.fixture
def close(monkeypatch):
    """Close a folder to this user, also where that is the administrator."""

    def closed(folder):
        def guarded(name):
            original = getattr(Path, name)

            def guard(path, *arguments, **options):
                if folder in path.parents:
                    raise PermissionError(13, "Permission denied", str(path))
                return original(path, *arguments, **options)

            monkeypatch.setattr(Path, name, guard)

        for name in ("stat", "lstat", "open"):
            guarded(name)

    return closed


def test_the_home_of_another_user_is_told_of(tmp_path, close):
    home = tmp_path / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "service_conf.yaml").write_text("fateflow: {host: 127.0.0.1, http_port: 1}\n")
    close(home)
    found = {each.check: each for each in findings(look(home, None, ()))}
    for check in ("parties' folder", "service_conf.yaml"):
        assert found[check].state == "problem" and "Permission denied" in found[check].said
        assert str(home) in found[check].said and found[check].cure == "Run the doctor as the user who runs FATE-Flow."
    assert found["FATE-Flow"].said == "No FATE-Flow is known here.", "the home's is not known, and no other is meant"
    with flow_double(VERSION) as (address, _):
        assert gather(home, address).state == ANSWERS


def test_settings_of_another_user_are_told_of(tmp_path, close):
    close(tmp_path / "conf")
    finding = flow_checks.configuration(gather(tmp_path))
    assert "service_conf.yaml cannot be read: Permission denied" in finding.said
    assert finding.cure == "Run the doctor as the user who runs FATE-Flow."


def test_a_provider_of_another_user_is_not_seen(tmp_path, close):
    close(tmp_path)
    for row in (provider_row(path=f"{tmp_path}/site"), provider_row(python=f"{tmp_path}/bin/python")):
        finding = flow_checks.holds_plugin(provider_from(row, examined=True), None)
        assert finding.state == "not seen" and "Permission denied" in finding.said
        assert "as the user who runs FATE-Flow" in finding.cure


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    ],
    ids=["silence", "ssh", "other http", "other json"],
)
def test_what_is_no_fate_flow_is_told_from_silence(greeting, tmp_path):
    with speaking(greeting) as port:
        with pytest.raises(FlowSilent) as failure:
            ask(FlowAddress("127.0.0.1", port), "server/fateflow", patience=60.0)
        assert failure.value.is_foreign or not greeting
        state = gather(tmp_path, FlowAddress("127.0.0.1", port)).state
        assert state == FOREIGN or (state == SILENT and not greeting)
    with pytest.raises(FlowSilent, match="Connection refused") as failure:
        ask(NOWHERE, "server/fateflow")
    assert not failure.value.is_foreign


def test_requests_are_signed_for_the_server_of_flow_init_only():
    settings = {"ip": "127.0.0.1", "port": 9380, "app_id": "app", "app_token": "secret"}
    assert credentials_for(NOWHERE, settings) is None
    credentials = credentials_for(FlowAddress("127.0.0.1", 9380), settings)
    headers = credentials.headers()
    inner = hashlib.md5(("app" + headers["Nonce"] + headers["Timestamp"]).encode()).hexdigest()
    assert headers["Signature"] == hashlib.md5((inner + "secret").encode()).hexdigest()
    assert len(headers["Nonce"]) == 4 and "secret" not in repr(credentials)
    assert credentials_for(FlowAddress("127.0.0.1", 9380), {**settings, "app_token": None}) is None
    otherwise_written = {**settings, "ip": "localhost", "port": "9380"}
    assert credentials_for(FlowAddress("127.0.0.1", 9380), otherwise_written) == credentials
    with flow_double(VERSION) as (address, asked):
        ask(address, "server/fateflow", credentials=Credentials("app", "secret"))
    assert asked[0][2]["Appid"] == "app"


def test_a_provider_elsewhere_is_not_looked_for_here():
    for provider in (provider_from(provider_row(), examined=False), provider_from(provider_row(device="docker"), True)):
        assert provider.trouble == "" and "on another machine" in provider.unseen
    assert provider_from(provider_row(path="/gone"), examined=True).trouble == "its folder /gone is gone"


def test_what_others_could_have_put_there_is_not_run(tmp_path):
    for folder in ("closed", "open"):
        program = tmp_path / folder / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/{folder}-was-run\n")
        program.chmod(0o755)
    (tmp_path / "open").chmod(0o777)
    closed = provider_from(provider_row(python=f"{tmp_path}/closed/bin/python"), examined=True)
    assert "does not answer" in closed.trouble
    for row in (
        provider_row(python=f"{tmp_path}/open/bin/python"),
        provider_row(path=f"{tmp_path}/open", python=sys.executable),
    ):
        provider = provider_from(row, examined=True)
        assert provider.environment is None and "another user could have put" in provider.unseen
        assert flow_checks.holds_plugin(provider, None).state == "not seen"
    assert (tmp_path / "closed-was-run").exists() and not (tmp_path / "open-was-run").exists()


# Peers --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path):
    package(tmp_path / "fate_dp")
    return environment_from(report(tmp_path))


@pytest.mark.parametrize(
    "versions, state, said",
    [
        (["2.2.0", "dp0.2.0"], "ok", "has registered dp0.2.0"),
        (["2.2.0", "dp0.0.9"], "problem", "has registered dp0.0.9, but FATE-DP here is 0.2.0"),
        (["2.2.0"], "not seen", "cannot be seen: FATE-Flow lists no packages"),
        (["2.2.0", "dp-prod"], "not seen", "no provider there names its version"),
        (["2.2.0", "dp-prod", "dp0.2"], "ok", "has registered dp0.2;"),
    ],
    ids=["same", "other", "unknown", "a name of their own", "beside another"],
)
def test_a_peers_plugin_is_seen_where_a_provider_names_it(versions, state, said, own):
    rows = [provider_row(each) for each in versions]
    with flow_double({**VERSION, "provider/query?name=fate": rows}) as (address, _):
        assert flow_checks.peer_answers(address, own).state == "ok"
        finding = flow_checks.peer_plugin(address, own)
    assert finding.state == state and said in finding.said
    assert state == "ok" or "Install one version at all parties" in finding.cure or "Ask its operator" in finding.cure


@pytest.mark.parametrize(
    "host, state, cure",
    [
        ("192.0.2.1", "not seen", "reached through a router only"),
        ("no-such-host.invalid", "problem", "Correct the name no-such-host.invalid"),
    ],
    ids=["closed or down", "no such name"],
)
def test_a_peer_elsewhere_that_keeps_its_port_to_itself(host, state, cure, own, monkeypatch):
    def silent(address):
        return FlowState(SILENT, "Connection refused")

    monkeypatch.setattr(flow_checks, "state_of", silent)
    finding = flow_checks.peer_answers(FlowAddress(host, 9380), own)
    assert finding.state == state and cure in finding.cure
    assert f"No FATE-Flow answers at {host}:9380: Connection refused" in finding.said
    assert state == "problem" or "Compare --peer with the host and port" in finding.cure


def test_a_peer_that_does_not_answer_and_one_of_another_version(own):
    finding = flow_checks.peer_answers(NOWHERE, own)
    assert finding.state == "problem" and "No FATE-Flow answers at 127.0.0.1:1" in finding.said
    assert flow_checks.peer_plugin(NOWHERE, own).state == "not seen"
    with flow_double({"server/fateflow": {"flow": {"version": "2.1.0"}}}) as (address, _):
        finding = flow_checks.peer_answers(address, own)
    assert finding.state == "problem" and "FATE-Flow 2.1.0 answers" in finding.said and "2.2.0" in finding.cure


# The broker ---------------------------------------------------------------------------------------------------------


def site_with_broker(port, management, **user):
    from fate_dp.deploy.doctor.gathering import FlowSite

    rabbitmq = {"host": "127.0.0.1", "port": port, "mng_port": management, "user": "fate", "password": "x", **user}
    engines = {"federation": "rabbitmq"}
    return FlowSite(NOWHERE, settings={"default_engines": engines, "federation": {"rabbitmq": rabbitmq}})


@pytest.mark.parametrize(
    "answer, state",
    [(b"\x01\x00\x00\x00\x00\x02", "ok"), (b"HTTP/1.1 400 Bad\r\n\r\n", "problem")],
    ids=["amqp", "http"],
)
def test_a_brokers_port_speaks_amqp(answer, state):
    with speaking(answer) as port:
        finding = flow_checks.broker(site_with_broker(port, 1))
    assert finding.state == state and ("does not speak AMQP" in finding.said) == (state == "problem")


@pytest.mark.parametrize(
    "answer, said, cure",
    [
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{"name": "fate", "tags": "administrator"}',
            "lets 'fate' in",
            "",
        ),
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 28\r\n\r\n{"name": "fate", "tags": []}',
            "not an administrator",
            "set_user_tags",
        ),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "refuses user 'fate'", "rabbitmqctl add_user fate"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "HTTP status 404", "rabbitmq-plugins enable"),
    ],
    ids=["in", "not an administrator", "refused", "other"],
)
def test_fates_user_at_the_broker(answer, said, cure):
    with speaking(answer) as port:
        finding = flow_checks.broker_user(site_with_broker(1, port))
    assert said in finding.said and cure in finding.cure and finding.state == ("problem" if cure else "ok")


# The command --------------------------------------------------------------------------------------------------------


def test_the_command_tells_by_its_exit_status(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path / "parties"))
    # The double runs in this process, which was started without our folder.
    monkeypatch.setattr(psutil.Process, "environ", lambda process: {"PYTHONPATH": str(FATE_PATCHES)})
    party(tmp_path / "parties")
    (tmp_path / "parties").chmod(0o700)
    settings = {key: told for key, told in SETTINGS.items() if key != "AUTHENTICATION"}
    answers = {
        **VERSION,
        **GUARDED,
        **NO_JOBS,
        "server/query/all": settings,
        "provider/query?name=fate": [provider_row(python=sys.executable)],
    }
    with flow_double(answers) as (address, _):
        flow = ["--home", str(tmp_path / "no-home"), "--flow", str(address)]
        assert main(["doctor", *flow, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["sound"] and {each["state"] for each in told["findings"]} == {"ok"}
        assert main(["doctor", *flow, "--peer", str(NOWHERE), str(address)]) == 1
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "No FATE-Flow answers at 127.0.0.1:1" in shown and "1 problem" in shown and "leave --peer out" in shown
    assert main(["doctor", "--peer", "nowhere"]) == 1
    assert capsys.readouterr().err.startswith("--peer 'nowhere' is not an address")


# What FATE requires in one version ----------------------------------------------------------------------------------


def test_the_pins_are_those_of_fates_own_records():
    """The image has no such records, so that they stand in the probe."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    from fate_dp.deploy.doctor.probe import FATE_PINS

    required = [Requirement(text) for name in ("pyfate", "fate_flow") for text in requires(name)]
    pins = {
        canonicalize_name(each.name): str(each.specifier).removeprefix("==")
        for each in required
        if each.marker is None and str(each.specifier).startswith("==")
    }
    assert pins == FATE_PINS


def test_a_server_that_closes_at_once_is_a_tunnel_without_its_broker():
    with speaking(b"") as port:
        finding = flow_checks.broker(site_with_broker(port, 1))
    assert finding.state == "problem" and "as by a tunnel whose broker is away" in finding.said


def test_what_the_modules_of_a_server_say_is_read_beside_its_program(tmp_path):
    from fate_dp.deploy.doctor.gathering import _modules_version

    (tmp_path / "_info.py").write_text('__version__ = "2.2.0"\n')
    program = SimpleNamespace(cmdline=lambda: ["python", str(tmp_path / "fate_flow_server.py")])
    assert _modules_version(program) == "2.2.0"
    assert _modules_version(SimpleNamespace(cmdline=lambda: ["python", "-m", "x"])) is None


def test_the_addresses_of_a_name_are_told_and_nobody_knows_a_name_without_any():
    assert gathering.addresses_of("127.0.0.1") == ("127.0.0.1",)
    assert "127.0.0.1" in gathering.addresses_of("localhost")
    assert gathering.addresses_of("nowhere.invalid") == ()
