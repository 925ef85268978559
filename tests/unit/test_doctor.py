"""Each seeded misconfiguration is found by the check that is about it, with a cure that says what to run or change."""

import os
import shutil
import socket
import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from doctor_examples import (
    sound_site,
    with_environment,
    with_plugin,
    with_provider,
    with_settings,
    with_site,
    with_versions,
)

from fate_dp.deploy.doctor import flow_checks, gathering, limits, own_checks
from fate_dp.deploy.doctor.examination import findings, has_problem, parties_of
from fate_dp.deploy.doctor.findings import Finding
from fate_dp.deploy.doctor.gathering import Listener, Provider
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.deploy.flow.server import FATE_PATCHES, FOREIGN, REFUSES, SILENT, check_limits, up
from fate_dp.deploy.flow.unfinished import UnfinishedJob
from fate_dp.pipelines.cli.servers import print_findings


@pytest.fixture
def sound(tmp_path):
    return sound_site(tmp_path)


def alarms(examined):
    """What is not in order: {check: finding}."""
    return {each.check: each for each in findings(examined) if each.state in ("problem", "warning")}


def test_what_a_recorder_and_an_audit_keep_is_no_problem(sound):
    assert not alarms(recorded(sound))


def test_a_sound_site_has_no_problem_and_nothing_to_do(sound):
    results = findings(sound)
    assert {each.state for each in results} == {"ok"} and not any(each.cure for each in results)
    assert len(results) > 15 and len({each.check for each in results}) == len(results)


# Installation -------------------------------------------------------------------------------------------------------


def old_python(site):
    return with_environment(site, python=(3, 8, 18))


def other_fate(site):
    return with_versions(site, pyfate="2.1.0", fate_flow=None)


def other_fate_that_pip_does_not_know(site):
    return with_environment(with_versions(site, pyfate="2.1.0", fate_flow=None), unrecorded=("pyfate",))


def no_client_beside_a_fate_that_pip_does_not_know(site):
    return with_environment(with_versions(site, fate_client=None), unrecorded=("pyfate", "fate-flow"))


def new_numpy(site):
    return with_versions(site, numpy="2.1.0")


def new_pydantic(site):
    return with_versions(site, pydantic="2.8.0")


def new_setuptools(site):
    return with_versions(site, setuptools="82.0.0")


def no_pkg_resources(site):
    return with_environment(site, lookup={"error": "No module named 'pkg_resources'"})


def missing_requirement(site):
    return with_versions(site, scipy="1.9.0")


def moved_pins(site):
    return with_versions(site, typing_extensions="4.16.0")


def not_installed(site):
    return with_environment(site, plugins=(), lookup={"found": {}}, folders={"components": None, "pipelines": None})


def installed_twice(site):
    first = site.environment.plugin
    return with_environment(site, plugins=(first, replace(first, version="0.0.9", location="/usr/lib/site")))


def source_gone(site):
    return with_plugin(site, source="/gone/checkout")


def imported_from_elsewhere(site):
    return with_plugin(site, location="/usr/lib/site")


def not_announced(site):
    return with_environment(site, lookup={"found": {"flipback": ["flipback", None]}})


def does_not_import(site):
    return with_environment(
        site, lookup={"found": {"flipback": ["flipback", None], "label_flip": [None, "ImportError: no torch"]}}
    )


def description_gone(site):
    (Path(site.environment.folders["pipelines"]) / "clients" / "label_flip.yaml").unlink()
    return site


def description_damaged(site):
    (Path(site.environment.folders["pipelines"]) / "clients" / "label_flip.yaml").write_text("component: [")
    return site


INSTALLATION = [
    (old_python, "Python", "is Python 3.8.18, but FATE-DP runs on 3.10 and 3.11", "python3.11 -m venv"),
    (other_fate, "FATE", "pyfate 2.1.0, fate-flow missing", 'pip install "fate_client[fate,fate_flow]==2.2.0"'),
    (other_fate_that_pip_does_not_know, "FATE", "pyfate 2.1.0, fate-flow missing", "Replace what is in /site"),
    (no_client_beside_a_fate_that_pip_does_not_know, "FATE", "fate-client missing", 'install "fate-client==2.2.0"'),
    (new_numpy, "numpy", "numpy must be <2, got 2.1.0", 'pip install "numpy<2"'),
    (new_pydantic, "pydantic", "pydantic must be >=1.10,<2, got 2.8.0", 'pip install "pydantic>=1.10,<2"'),
    (new_setuptools, "setuptools", "setuptools must be <81, got 82.0.0", 'pip install "setuptools<81"'),
    (no_pkg_resources, "setuptools", "pkg_resources cannot be imported", '"--force-reinstall" "setuptools<81"'),
    (missing_requirement, "requirements", "scipy is 1.9.0", 'pip install "scipy>=1.10"'),
    (moved_pins, "FATE's pins", "typing-extensions is 4.16.0 and not 4.8.0", '"typing-extensions==4.8.0"'),
    (not_installed, "FATE-DP", "FATE-DP is not installed for /opt/fate/bin/python", "python -m pip install"),
    (installed_twice, "FATE-DP", "is installed 2 times", "python -m pip uninstall fate-dp"),
    (source_gone, "FATE-DP", "editable installation of /gone/checkout, which is gone", "Bring that folder back"),
    (imported_from_elsewhere, "FATE-DP", "recorded in /usr/lib/site, but is imported from", "off PYTHONPATH"),
    (not_announced, "components", "FATE does not find label_flip", "writes the entry points anew"),
    (does_not_import, "components", "1 of 2 components cannot be imported; label_flip: ImportError: no", "install"),
    (description_gone, "descriptions", "label_flip.yaml of a component cannot be read: No such", "--force-reinstall"),
    (description_damaged, "descriptions", "does not describe the component label_flip", "--force-reinstall"),
]


# The parties' folders -----------------------------------------------------------------------------------------------


def home_of(site):
    return site.parties / "party-9999"


def open_folder(site):
    home_of(site).chmod(0o755)
    return site


def open_parties_folder(site):
    site.parties.chmod(0o750)
    return site


def open_policy(site):
    (home_of(site) / "policy.yaml").chmod(0o644)
    return site


def linked_file(site):
    (home_of(site) / "other.key").symlink_to("flip.key")
    return site


def recorded(site, mode=0o600):
    """A view that the party's recorder kept, and coins of an audit."""
    for place in ("views/job-1/task.host.view", "canaries/bank.loans.json"):
        path = home_of(site) / place
        for folder in (path.parent.parent, path.parent)[place.startswith("canaries") :]:
            folder.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=mode)
    return site


def open_view(site):
    return recorded(site, 0o644)


def folder_of_a_stranger(site):
    (home_of(site) / "others").mkdir(mode=0o700)
    return site


def short_key(site):
    (home_of(site) / "flip.key").write_bytes(b"short")
    return site


def damaged_ledger(site):
    path = home_of(site) / "ledger.sqlite"
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 5000)
    return site


def newer_ledger(site):
    with sqlite3.connect(home_of(site) / "ledger.sqlite") as database:
        database.execute("UPDATE ledger_version SET version = 99")
    return site


def bad_policy(site):
    path = home_of(site) / "policy.yaml"
    path.write_text("default_label_cap: -1\n")
    return site


def no_place_for_the_folder(site):
    file = site.parties / "a-file"
    file.touch()
    return replace(site, parties=file / "parties")


PARTIES = [
    (open_folder, "folder of party 9999", "party-9999 has mode 0755, open to group or others", "`chmod 700 "),
    (open_parties_folder, "parties' folder", "parties has mode 0750", "`chmod 700 "),
    (open_policy, "files of party 9999", "policy.yaml has mode 0644", "`chmod 600 "),
    (linked_file, "files of party 9999", "other.key is not a regular file", "move it out of"),
    (open_view, "files of party 9999", "bank.loans.json has mode 0644", "`chmod 600 "),
    (folder_of_a_stranger, "files of party 9999", "others is not a regular file", "move it out of"),
    (short_key, "key of party 9999", "must be 32 bytes, got 5", "restore"),
    (damaged_ledger, "ledger of party 9999", "ledger.sqlite cannot be used", "restore the last backup"),
    (newer_ledger, "ledger of party 9999", "has version 99, but this FATE-DP reads", "Install the FATE-DP"),
    (
        bad_policy,
        "policy of party 9999",
        "default_label_cap must be a finite number greater than 0",
        "conf/policy.example.yaml",
    ),
    (no_place_for_the_folder, "parties' folder", "does not exist and cannot be made in", "install -d -m 700"),
]


# FATE-Flow ----------------------------------------------------------------------------------------------------------


def server_down(site):
    return with_site(site, state=SILENT, reason="Connection refused", version=None, listeners=(), providers=None)


def other_server_version(site):
    return with_site(site, version="1.11.0")


def told_by_an_old_server_whose_modules_are_old_as_well(site):
    return with_site(site, version="2.1.0", modules_version="2.1.0")


def client_with_token(site, mode):
    path = site.parties.parent / "settings.yaml"
    path.write_text("flow_service:\n  app_id: a\n  app_token: b\n")
    path.chmod(mode)
    return with_site(site, client=path)


def token_for_everybody(site):
    return client_with_token(site, 0o644)


def broker_away(site):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    rabbitmq = {"host": "127.0.0.1", "port": port, "mng_port": port, "user": "fate", "password": "x"}
    return with_settings(site, default_engines={"federation": "rabbitmq"}, federation={"rabbitmq": rabbitmq})


def provider_without_a_client_of_the_broker(site):
    bare = replace(site.environment, distributions={**site.environment.distributions, "pika": []})
    return with_provider(broker_away(site), environment=bare)


def port_taken(site):
    site = with_site(site, state=FOREIGN, reason="no answer of FATE-Flow's form", version=None, providers=None)
    return with_site(site, listeners=(Listener("127.0.0.1", 9380, 4711, "jupyter"),))


def found_by_one_of_two_addresses(site):
    """As a container on two networks, whose FATE-Flow took the first address of its name."""
    return with_site(
        site,
        address=FlowAddress("guest", 9380),
        addresses=("172.31.3.3", "172.31.4.5"),
        listeners=(Listener("172.31.3.3", 9380, os.getpid(), "python"),),
    )


def grpc_port_taken(site):
    return with_site(server_down(site), listeners=(Listener("0.0.0.0", 9360, None, None),))


def open_to_the_network(site):
    return with_site(site, listeners=(Listener("0.0.0.0", 9380, 4711, "python"),))


def half_authenticated(site):
    return with_settings(open_to_the_network(site), authentication={"client": True, "site": False})


def authenticated_and_open(site):
    return with_settings(open_to_the_network(site), authentication={"client": True, "site": True})


def published_key(site):
    return with_site(with_settings(site, authentication={"client": True, "site": True}), takes_the_known_key=True)


def authentication_without_party(site):
    return with_settings(server_down(site), authentication={"client": True, "site": True}, party_id="")


def provider_python_gone(site):
    return with_provider(site, trouble="its Python /gone/bin/python is gone", environment=None)


def provider_without_plugin(site):
    bare = replace(site.environment, plugins=())
    return with_provider(site, environment=bare)


def provider_with_other_version(site):
    other = replace(site.environment, plugins=(replace(site.environment.plugin, version="0.0.9"),))
    return with_provider(site, environment=other)


def provider_that_cannot_run_components(site):
    return with_provider(site, environment=with_versions(site, numpy="2.0.0").environment)


def no_default_provider(site):
    return with_settings(site, default_provider={"name": "fate", "version": "2.3", "device": "local"})


def plugin_in_another_provider(site):
    ours = Provider("fate:dp0.2.0@local", "dp0.2.0", "/opt", "/opt/bin/python", site.environment)
    site = provider_without_plugin(site)
    return with_site(site, providers=(*site.site.providers, ours))


def stale_plugin_provider(site):
    ours = Provider("fate:dp0.0.9@local", "dp0.0.9", "/opt", "/opt/bin/python", trouble="its folder /opt is gone")
    return with_site(site, providers=(*site.site.providers, ours))


def unseen_provider_before_a_stale_one(site):
    unseen = Provider("fate:dp0.2.0@docker", "dp0.2.0", "/opt", "/opt/bin/python", unseen="it is in a container")
    site = stale_plugin_provider(site)
    return with_site(site, providers=(unseen, *site.site.providers))


def old_plugin_provider(site):
    old = replace(site.environment, plugins=(replace(site.environment.plugin, version="0.0.9"),))
    ours = (
        Provider("fate:dp0.0.9@local", "dp0.0.9", "/old", "/old/bin/python", old),
        Provider("fate:dp0.2.0@local", "dp0.2.0", "/opt", "/opt/bin/python", site.environment),
    )
    return with_site(site, providers=(*site.site.providers, *ours))


def held_by_a_job(site):
    return with_site(site, jobs=(UnfinishedJob("7", "running", 8, 90.0),))


FLOW = [
    (
        held_by_a_job,
        "jobs",
        "Job 7 is running for 90 s and holds 8 cores. 8 of 32 cores are in use.",
        "`fate-dp stop JOB`",
    ),
    (server_down, "FATE-Flow", "No FATE-Flow answers at 127.0.0.1:9380: Connection refused", "`fate-dp up`"),
    (other_server_version, "FATE-Flow", "FATE-Flow 1.11.0 answers", "Install FATE-Flow 2.2.0"),
    (told_by_an_old_server_whose_modules_are_old_as_well, "FATE-Flow", "FATE-Flow 2.1.0 answers", "Install FATE-Flow"),
    (token_for_everybody, "client's token", "settings.yaml holds the token of an app and has mode 0644", "`chmod 600 "),
    (broker_away, "broker", "RabbitMQ does not answer at 127.0.0.1", "`docker compose up --detach`"),
    (provider_without_a_client_of_the_broker, "broker's client", "fate:2.2.0@local lacks pika", 'pip install "pika"'),
    (port_taken, "ports", "Port 9380, meant for FATE-Flow, is taken by jupyter (process 4711)", "--port PORT"),
    (
        found_by_one_of_two_addresses,
        "ports",
        "guest is also 172.31.4.5, but FATE-Flow listens at 172.31.3.3 only",
        "0.0",
    ),
    (grpc_port_taken, "ports", "Port 9360, meant for FATE-Flow, is taken by a program of", "grpc_port"),
    (open_to_the_network, "reach", "listens on 0.0.0.0:9380, and authentication is on for nobody", "client"),
    (half_authenticated, "reach", "authentication is on for clients: whoever reaches the port can run", "on.site to"),
    (authenticated_and_open, "reach", "for clients and sites: whoever reaches the port can fetch", "/v2/partner"),
    (published_key, "authentication", "accepts the administrator's key of its", "Set ADMIN_KEY"),
    (authentication_without_party, "authentication", "party_id is empty", "Set party_id in service_conf.yaml"),
    (provider_python_gone, "default provider", "its Python /gone/bin/python is gone", "provider register --python"),
    (provider_without_plugin, "default provider", "fate:2.2.0@local has no FATE-DP", "fate-dp provider register"),
    (provider_with_other_version, "default provider", "has FATE-DP 0.0.9, but 0.2.0 is installed", "of version 0.2.0"),
    (
        provider_that_cannot_run_components,
        "default provider",
        "cannot run the components. numpy must be <2, got 2.0.0",
        '"numpy<2"',
    ),
    (no_default_provider, "default provider", "FATE-Flow has no provider fate:2.3@local", "default_provider"),
    (plugin_in_another_provider, "default provider", "Only jobs that choose fate:dp0.2.0@local", "pipeline.conf.set("),
    (stale_plugin_provider, "providers of FATE-DP", "its folder /opt is gone", "fate-dp provider remove dp0.0.9"),
    (unseen_provider_before_a_stale_one, "providers of FATE-DP", "dp0.0.9@local cannot run: its folder", "remove dp0."),
    (old_plugin_provider, "providers of FATE-DP", "has FATE-DP 0.0.9, but 0.2.0", "fate-dp provider remove dp0.0.9"),
]


SEEDS = [*INSTALLATION, *PARTIES, *FLOW]
# What cannot be in order, either, where that is wrong.
CONSEQUENCES = {
    no_pkg_resources: {"components"},
    not_installed: {"components", "descriptions"},
    description_gone: {"default provider"},
    description_damaged: {"default provider"},
    other_server_version: {"default provider"},
    told_by_an_old_server_whose_modules_are_old_as_well: {"default provider"},
    broker_away: {"broker's user"},
    provider_without_a_client_of_the_broker: {"broker", "broker's user"},
    authentication_without_party: {"FATE-Flow"},
    port_taken: {"FATE-Flow"},
    grpc_port_taken: {"FATE-Flow"},
    found_by_one_of_two_addresses: {"reach"},
}


@pytest.mark.parametrize("seed, check, said, cure", SEEDS, ids=[seed.__name__ for seed, *_ in SEEDS])
def test_a_seeded_misconfiguration_is_found_and_its_cure_named(seed, check, said, cure, sound):
    found = alarms(seed(sound))
    assert check in found, found
    assert said in found[check].said and cure in found[check].cure
    assert "\n" not in found[check].said + found[check].cure and found[check].said.endswith(".")
    assert set(found) == {check} | CONSEQUENCES.get(seed, set())


def test_the_parties_of_a_servers_home_else_those_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path / "own"))
    (tmp_path / "home").mkdir()
    assert parties_of(tmp_path / "home") == tmp_path / "own"
    (tmp_path / "home" / "server.json").touch()
    assert parties_of(tmp_path / "home") == tmp_path / "home" / "parties"


def test_warnings_alone_are_no_problem(sound):
    assert not has_problem(findings(open_to_the_network(sound)))
    assert not has_problem(findings(authenticated_and_open(sound))), "nor is it in order: nobody signs for /v2/worker"
    assert not has_problem(findings(old_plugin_provider(sound))), "an upgrade leaves it beside the new one"
    old_is_the_default = with_settings(old_plugin_provider(sound), default_provider={"version": "dp0.0.9"})
    assert alarms(old_is_the_default)["providers of FATE-DP"].state == "problem"
    assert has_problem(findings(server_down(sound)))


def test_what_cannot_be_seen_is_said_to_be_unseen(sound):
    unknown = findings(with_site(sound, address=None, providers=None, listeners=(), settings={}))
    refusing = findings(with_site(sound, state=REFUSES, reason="appId is missing", version=None, providers=None))
    for results in (unknown, refusing):
        assert not {each.check for each in results if each.said == "None is registered, and none is needed."}
        seen = {each.check: each for each in results if each.state == "not seen"}
        assert {"FATE-Flow", "default provider"} <= set(seen) and all(each.cure for each in seen.values())
    assert "flow init --ip 127.0.0.1 --port 9380 --app-id" in seen["FATE-Flow"].cure


OF_SETTINGS = {"reach", "authentication", "broker", "broker's user", "broker's reach"}


def unseen(examined):
    return {each.check: each for each in findings(examined) if each.state == "not seen"}


@pytest.mark.parametrize(
    "state, seen",
    [
        ({"state": SILENT, "listeners": (), "version": None, "providers": None}, set()),
        ({"state": REFUSES, "version": None, "providers": None}, {"authentication"}),
        ({}, set()),
        ({"state": SILENT, "listeners": (), "is_here": False, "version": None, "providers": None}, set()),
    ],
    ids=["down", "refuses", "does not tell", "elsewhere and down"],
)
def test_nothing_is_said_of_settings_that_nobody_told(state, seen, sound):
    found = unseen(with_site(sound, settings={}, **state))
    assert OF_SETTINGS & set(found) == OF_SETTINGS - seen
    assert all("service_conf.yaml" in found[each].cure for each in OF_SETTINGS - seen)
    assert ("providers of FATE-DP" in found) == ("providers" in state)


def test_what_shows_without_settings_is_said_without_them(sound):
    refusing = with_site(sound, state=REFUSES, version=None, providers=None, settings={})
    told = {each.check: each for each in findings(refusing)}
    assert told["authentication"].said == "Authentication is on for clients; for sites it cannot be seen."
    assert "Only this machine reaches FATE-Flow, but" in told["reach"].said
    beyond = {each.check: each for each in findings(open_to_the_network(refusing))}["reach"]
    assert beyond.state == "warning" and "on for clients at least: whoever reaches the port can fetch" in beyond.said
    stopped = {each.check: each for each in findings(with_site(server_down(sound), settings={}))}
    assert "Who can reach FATE-Flow cannot be seen" in stopped["reach"].said


def test_a_key_that_could_not_be_tried_is_not_called_a_secret(sound):
    stopped = with_settings(server_down(sound), authentication={"client": True, "site": True}, party_id="9999")
    assert "shows only while it runs" in unseen(stopped)["authentication"].said


def test_files_and_folders_of_another_user(sound, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    found = alarms(sound)
    assert {"parties' folder", "folder of party 9999", "files of party 9999", "key of party 9999"} == set(found)
    assert "chown" in found["folder of party 9999"].cure and "this is user 4711" in found["files of party 9999"].said


@pytest.mark.parametrize(
    "state, said, cure",
    [
        ({"f_flag": os.ST_RDONLY}, "mounted read-only", "findmnt -T"),
        ({"f_bavail": 10}, "0 MiB left, less than 64", "df -h"),
        ({"f_favail": 0}, "no inode left", "df -i"),
    ],
    ids=["read-only", "full", "no inode"],
)
def test_a_disk_that_takes_no_ledger(state, said, cure, sound, monkeypatch):
    healthy = {"f_flag": 0, "f_bavail": 2**30, "f_frsize": 4096, "f_files": 100, "f_favail": 50}
    monkeypatch.setattr(own_checks.os, "statvfs", lambda path: SimpleNamespace(**{**healthy, **state}))
    found = alarms(sound)
    assert list(found) == ["disk"] and said in found["disk"].said and cure in found["disk"].cure


def few_open_files(monkeypatch):
    monkeypatch.setattr(limits.resource, "getrlimit", lambda kind: (64, 4096))


def little_memory(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 400_000_000)


@pytest.mark.parametrize(
    "change, check, said, cure",
    [
        (few_open_files, "open files", "may open 64 files, fewer than the 256", "`ulimit -n 1024`"),
        (little_memory, "memory", "400 MB of memory are available, less than 1,000 MB", "ps aux"),
    ],
)
def test_limits_below_what_tasks_need_are_told_by_the_doctor_and_before_a_server_starts(
    change, check, said, cure, sound, monkeypatch, tmp_path
):
    change(monkeypatch)
    found = alarms(sound)
    assert list(found) == [check] and said in found[check].said and cure in found[check].cure
    told = []
    if found[check].state == "warning":
        check_limits(tmp_path, told.append)
    else:
        with pytest.raises(FlowServerError) as refusal:
            up(tmp_path / "home")
        told.append(str(refusal.value))
    assert said in told[0] and cure in told[0]


def test_a_ledger_that_a_job_writes_is_looked_at_later(sound, monkeypatch):
    monkeypatch.setattr(own_checks, "BUSY_SECONDS", 0.01)
    with sqlite3.connect(home_of(sound) / "ledger.sqlite", isolation_level=None) as job:
        job.execute("BEGIN EXCLUSIVE")
        (found,) = [each for each in findings(sound) if each.check == "ledger of party 9999"]
    assert found.state == "not seen" and "is being written" in found.said and "when the job" in found.cure


def test_the_doctor_changes_nothing(sound, tmp_path):
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    findings(sound)
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


def test_parties_without_key_ledger_and_policy_are_in_order(sound):
    home = home_of(sound)
    shutil.rmtree(home)
    home.mkdir(mode=0o700)
    assert alarms(sound) == {}


@pytest.mark.parametrize("left", [True, False], ids=["empty", "absent"])
def test_a_doctor_that_finds_no_party_says_how_to_name_them(left, sound):
    shutil.rmtree(sound.parties)
    if left:
        sound.parties.mkdir(mode=0o700)
    found = alarms(sound)
    assert set(found) == {"parties' folder"} and not has_problem(findings(sound)), "or nothing has run here yet"
    assert "no party's key and ledger were checked" in found["parties' folder"].said
    assert "--home FOLDER" in found["parties' folder"].cure and "FATE_DP_HOME" in found["parties' folder"].cure


# The broker ---------------------------------------------------------------------------------------------------------


def with_broker(site, **broker):
    return with_settings(
        site,
        default_engines={"federation": "rabbitmq"},
        federation={"rabbitmq": {"host": "127.0.0.1", "user": "fate", "password": "x", **broker}},
    )


def test_a_broker_that_is_down(sound):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        found = alarms(with_broker(sound, port=port, mng_port=port))
    assert set(found) == {"broker", "broker's user"}
    assert f"RabbitMQ does not answer at 127.0.0.1:{port}" in found["broker"].said
    assert "federation.rabbitmq.host" in found["broker"].cure
    assert "rabbitmq-plugins enable rabbitmq_management" in found["broker's user"].cure


def reached(examined):
    return flow_checks.broker_reach(examined.site)


def test_a_broker_beyond_loopback_is_a_problem(sound):
    """FATE's client speaks no TLS, so that whatever leaves the machine leaves it in clear."""
    far = reached(with_broker(sound, host="broker.bank", port=5672))
    assert far.state == "problem" and "RabbitMQ at broker.bank:5672 is reached over the network without TLS" in far.said
    assert "tunnel on 127.0.0.1" in far.cure
    known = reached(with_broker(sound, host="10.0.0.7", port=5672, password="guest"))
    assert known.said.endswith("Its user 'fate' has no password of its own.")


def test_a_broker_of_this_machine_alone_is_none(sound):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        near = reached(with_broker(sound, port=listener.getsockname()[1]))
    assert near.state == "ok" and "only this machine reaches" in near.said


def test_a_broker_that_listens_to_the_network_is_one_although_fate_goes_by_loopback(sound):
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        port = listener.getsockname()[1]
        found = reached(with_broker(sound, port=port))
    assert found.state == "problem" and f"RabbitMQ at 0.0.0.0:{port} is reached over the network" in found.said


# The fence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variables, state",
    [
        ({"LANG": "en_US.UTF-8"}, "ok"),
        ({"LC_ALL": "zh_CN.utf8", "LANG": "zh_CN.GBK"}, "ok"),
        ({"LC_ALL": "zh_CN.GBK", "PYTHONUTF8": "1"}, "ok"),
        ({"LC_ALL": "", "LANG": "C"}, "ok"),
        ({}, "ok"),
        ({"LC_ALL": "zh_CN.GBK", "LANG": "en_US.UTF-8"}, "problem"),
        ({"LC_CTYPE": "zh_CN.GB18030"}, "problem"),
        ({"LANG": "zh_CN"}, "problem"),
        ({"LANG": "C", "PYTHONUTF8": "0"}, "problem"),
    ],
)
def test_a_server_that_reads_text_in_another_encoding_than_utf_8_is_a_problem_with_a_cure(sound, variables, state):
    found = flow_checks.text(with_site(sound, variables=variables).site)
    assert found.state == state and ("PYTHONUTF8=1" in (found.cure or "")) == (state == "problem")


def fenced(examined, path=FATE_PATCHES, **variables):
    return flow_checks.fence(with_site(examined, variables={"PYTHONPATH": str(path), **variables}).site)


def test_a_server_is_fenced_or_not(sound, tmp_path):
    assert fenced(sound).state == "ok"
    bare = fenced(sound, tmp_path)
    assert bare.state == "problem" and bare.said.startswith("FATE-Flow is not fenced: every other party")
    assert f"export PYTHONPATH={FATE_PATCHES}" in bare.cure
    (tmp_path / "sitecustomize.py").touch()
    assert fenced(sound, f"{tmp_path}{os.pathsep}{FATE_PATCHES}").state == "problem", (
        "another customisation comes first"
    )
    assert fenced(sound, f"{FATE_PATCHES}{os.pathsep}{tmp_path}").state == "ok"


def test_a_provider_with_a_customisation_of_its_own_is_not_fenced(sound, tmp_path):
    (tmp_path / "sitecustomize.py").touch()
    found = fenced(with_provider(sound, path=str(tmp_path)))
    assert found.state == "problem" and f"because {tmp_path} has a sitecustomize.py of its own" in found.said


def test_what_an_operator_lets_in_is_told(sound):
    found = fenced(sound, FATE_DP_FENCE_ALLOW="bank.codes.Code, bank.Rate")
    assert found.state == "warning" and "may also send bank.codes.Code, bank.Rate" in found.said
    wrong = fenced(sound, FATE_DP_FENCE_ALLOW="decimal.*")
    assert wrong.state == "problem" and "FATE_DP_FENCE_ALLOW has 'decimal.*'" in wrong.said


def test_whether_a_server_is_fenced_is_not_seen_from_elsewhere(sound):
    found = unseen(with_site(sound, variables=None))["fence"]
    assert found.state == "not seen" and "as the user who runs FATE-Flow" in found.cure


def test_a_server_that_takes_any_job_is_told(sound):
    def said(refuses):
        return flow_checks.parameters(with_site(sound, refuses_paths=refuses).site)

    assert said(True).state == "ok"
    assert said(False).state == "problem" and f"export PYTHONPATH={FATE_PATCHES}" in said(False).cure
    assert said(None).state == "not seen"


def test_a_broker_without_a_management_port(sound):
    found = flow_checks.broker_user(with_broker(sound, port=5672).site)
    assert found.state == "problem" and "does not answer at 127.0.0.1:None" in found.said


def test_a_long_path_is_printed_whole(capsys):
    """A cure that names half a folder cannot be followed."""
    print_findings([Finding("problem", "It is there.", "/" + "x" * 300, "disk")])
    assert capsys.readouterr().out.count("x") == 300


# Containers ---------------------------------------------------------------------------------------------------------


def test_the_sources_of_fate_flow_that_tell_another_version_are_known_by_their_modules(sound):
    """Its tag v2.2.0 has 2.1.0 in fateflow.env, and 2.2.0 in its modules."""
    site = with_site(sound, version="2.1.0", modules_version="2.2.0").site
    finding = flow_checks.answers(site)
    assert finding.state == "ok" and "FATE-Flow 2.2.0 answers" in finding.said and "says 2.1.0" in finding.said


def test_a_token_that_is_its_users_alone_is_no_matter(sound):
    assert alarms(client_with_token(sound, 0o600)) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_where_clients_sign_their_settings_must_be_writable(sound):
    site = with_settings(client_with_token(sound, 0o400), authentication={"client": True, "site": True})
    found = alarms(site)
    assert "`flow init` of this user" in found["client's token"].said and "chown" in found["client's token"].cure


def tunnelled(site, word, host):
    rabbitmq = {"host": host, "port": 5672, "mng_port": 15672, "user": "fate", "password": "own"}
    site = with_settings(site, default_engines={"federation": "rabbitmq"}, federation={"rabbitmq": rabbitmq})
    return with_site(site, variables={**site.site.variables, "FATE_DP_BROKER_TUNNEL": word}).site


def test_messages_in_clear_may_go_to_a_tunnel_that_is_named_so_and_is_beside(sound, monkeypatch):
    """The word alone is not believed: what lies behind a router is not the party's own tunnel."""
    addresses = {"lo": [SimpleNamespace(family=socket.AF_INET, address="172.20.0.2", netmask="255.255.255.0")]}
    monkeypatch.setattr(gathering.psutil, "net_if_addrs", lambda: addresses)
    assert flow_checks.broker_reach(tunnelled(sound, "on", "172.20.0.3")).state == "ok"
    for word, host in (("off", "172.20.0.3"), ("on", "172.21.0.3")):
        finding = flow_checks.broker_reach(tunnelled(sound, word, host))
        assert finding.state == "problem" and "over the network without TLS" in finding.said
