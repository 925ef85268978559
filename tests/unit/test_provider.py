"""What is checked before FATE-Flow is told of a provider, what it is sent, and what it is never asked to delete."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from doctor_examples import unrecorded_fate
from flow_double import VERSION, flow_double

from fate_dp.deploy.doctor.gathering import examine
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.deploy.provider import registration
from fate_dp.deploy.provider.registration import check_version, prepare, providers, register, remove
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.servers import how_to_choose

NAME = "fate:dp0.2.0@local"


class Rows:
    """FATE-Flow's table of providers."""

    def __init__(self, takes=True):
        self.takes = takes
        self.rows = [
            {
                "provider_name": "fate:2.2.0@local",
                "version": "2.2.0",
                "device": "local",
                "metadata": {"path": "", "venv": "/opt/bin/python"},
            }
        ]

    def answers(self, version="2.2.0"):
        return {
            "server/fateflow": {"flow": {"version": version}},
            "provider/query?name=fate": lambda body: self.rows,
            "provider/register": self.register,
            "provider/delete": self.delete,
        }

    def register(self, body):
        name = f"{body['name']}:{body['version']}@{body['device']}"
        if self.takes:
            self.rows.append({"provider_name": name, **{key: body[key] for key in ("version", "device", "metadata")}})

    def delete(self, body):
        self.rows = [row for row in self.rows if row["provider_name"] != body["provider_name"]]
        return True


def test_register_list_and_remove(tmp_path, capsys):
    file = tmp_path / "provider.json"
    with flow_double(Rows().answers()) as (address, asked):
        assert main(["provider", "register", "--flow", str(address), "--version", "dp0.2.0", "--out", str(file)]) == 0
        shown = capsys.readouterr().out
        assert {each.name for each in providers(address)} == {"fate:2.2.0@local", NAME}
        assert main(["provider", "list", "--flow", str(address)]) == 0
        assert NAME in capsys.readouterr().out
        assert main(["provider", "remove", "dp0.2.0", "--flow", str(address)]) == 0
        assert [each.name for each in providers(address)] == ["fate:2.2.0@local"]
    (sent,) = [body for path, body, _ in asked if path == "provider/register"]
    assert json.loads(file.read_text()) == sent
    assert (sent["name"], sent["version"], sent["device"]) == ("fate", "dp0.2.0", "local")
    assert sent["metadata"]["venv"] == sys.executable and Path(sent["metadata"]["path"]).is_dir()
    assert set(sent["components_description"]) == set(examine().plugin.announces)
    assert sent["components_description"]["label_flip"]["roles"] == ["guest", "host"]
    assert f'pipeline.conf.set("task", {{"provider": "{NAME}"}})' in shown


def test_an_environment_with_a_fate_that_pip_does_not_know(tmp_path):
    python, path = unrecorded_fate(tmp_path)
    with flow_double(Rows().answers()) as (address, _):
        prepared = prepare(address, python, path=path)
    assert prepared.name == NAME and set(prepared.components) == set(examine().plugin.announces)


def test_what_is_shown_is_a_valid_dag_configuration():
    lines = how_to_choose(NAME).split("and a DAG file with\n")[1].split("\nEvery")[0]
    assert yaml.safe_load(lines) == {"dag": {"conf": {"task": {"provider": NAME}}}}


@pytest.mark.parametrize("version", ["2.2.0", "", "dp", "dp0.1@local", "dp:1", "dp" + "0" * 19])
def test_a_version_that_fate_flow_would_misread_or_that_is_fates_own(version):
    with pytest.raises(FlowServerError, match="must be dp and at most 20 letters"):
        check_version(version)


def test_the_longest_version_fits_fate_flows_column():
    check_version("dp" + "0" * 18)


def test_only_a_provider_of_ours_is_removed():
    with flow_double(Rows().answers()) as (address, asked):
        with pytest.raises(FlowServerError, match=f"has no provider {NAME}; it has fate:2.2.0@local"):
            remove(address, "dp0.2.0")
        with pytest.raises(FlowServerError, match="must be dp and"):
            remove(address, "2.2.0")
    assert "provider/delete" not in [path for path, *_ in asked]


def test_nothing_is_sent_where_the_paths_or_the_server_do_not_fit(tmp_path, monkeypatch):
    with flow_double(Rows().answers(version="2.1.0")) as (address, asked):
        for arguments, sentence in (
            ((address, str(tmp_path / "python")), "--python must be the interpreter of an environment"),
            ((address, str(tmp_path)), "does not exist or cannot be executed"),
            (
                (address, sys.executable, None, str(tmp_path / "gone")),
                "--path must be a folder or be left out, got .*, which does not exist",
            ),
            ((address, "/bin/false"), "could not list what is installed: .* Pass --python"),
            ((address, sys.executable), "is 2.1.0, but .* has 2.2.0; .* so install that at the server"),
            ((FlowAddress("192.0.2.1", 9380), sys.executable), "is on another machine. Run this command there"),
        ):
            with pytest.raises(FlowServerError, match=sentence):
                prepare(*arguments)
        assert [path for path, *_ in asked] == ["server/fateflow"]


def test_an_environment_with_a_problem_is_refused_in_the_doctors_words(monkeypatch):
    from dataclasses import replace

    sound = examine()
    numpy = {**sound.distributions, "numpy": [["2.0.0", "/site"]], "pydantic": [["2.0", "/site"]]}
    monkeypatch.setattr(registration, "examine", lambda *arguments: replace(sound, distributions=numpy))
    with flow_double(Rows().answers()) as (address, _), pytest.raises(FlowServerError) as failure:
        prepare(address, sys.executable)
    assert "numpy must be <2, got 2.0.0" in str(failure.value) and str(failure.value).endswith("(1 more: pydantic.)")
    assert f'{sys.executable} -m pip install "numpy<2"' in str(failure.value)


def test_a_server_that_does_not_keep_what_it_was_told_is_told_of():
    with flow_double(Rows(takes=False).answers()) as (address, _):
        with pytest.raises(FlowServerError, match="does not have it with these paths"):
            register(address, prepare(address, sys.executable))


def test_a_server_that_knows_its_clients_asks_for_credentials():
    with flow_double(VERSION, code=5003) as (address, _):
        with pytest.raises(FlowServerError, match="refuses this one .*; run `flow init --ip 127.0.0.1 --port"):
            prepare(address, sys.executable)
    with pytest.raises(FlowServerError, match="No FATE-Flow answers at 127.0.0.1:1 .* start it or correct --flow"):
        providers(FlowAddress("127.0.0.1", 1))
