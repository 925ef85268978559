"""The home of a server of our own, made from a FATE-Flow package that serves an operator already."""

import importlib.util
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from fate_dp.deploy.flow import home as flow_home
from fate_dp.deploy.flow.home import install_server, make_home, open_home
from fate_dp.deploy.flow.programs import FlowServerError, ServerRecord

THEIRS = "/srv/production"
PUBLISHED = Path(importlib.util.find_spec("fate_flow").origin).parent


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The parts of the package that are configured, after `fate_flow init --home` and an operator's editing."""
    from fate_flow.commands import server_cli

    package = tmp_path / "site-packages" / "fate_flow"
    shutil.copytree(PUBLISHED / "conf", package / "conf")
    for name in ("settings.py", "fateflow.env"):
        shutil.copy(PUBLISHED / name, package)
    (package / "service.sh").write_text("")
    monkeypatch.setattr(server_cli, "SETTING_PATH", str(package / "settings.py"))
    monkeypatch.setattr(server_cli, "SERVICE_SH", str(package / "service.sh"))
    server_cli.replace_settings(THEIRS, f"{THEIRS}/upload")
    conf = package / "conf" / "service_conf.yaml"
    settings = yaml.safe_load(conf.read_text())
    conf.write_text(yaml.safe_dump({**_with_theirs_everywhere(settings), "further": {"password": THEIRS}}))
    for kept in ("data", "jobs", "logs", "model", "localfs", "temps"):
        (package / kept / "x").mkdir(parents=True)
        (package / kept / "x" / "table").write_text(THEIRS)
    (package / "fate_flow_sqlite.db").write_text(THEIRS)
    (package / "fate_flow_sqlite.db-journal").write_text(THEIRS)
    (package / "hub" / "data").mkdir(parents=True)
    (package / "hub" / "data" / "module.py").write_text("")
    (package / "conf" / "local.service_conf.yaml").write_text(f"party_id: {THEIRS}\n")
    (package / "conf" / "private_key.pem").write_text(THEIRS)
    monkeypatch.setattr(flow_home, "installed_flow_package", lambda: package)
    return package


def _with_theirs_everywhere(value):
    if isinstance(value, dict):
        return {name: _with_theirs_everywhere(part) for name, part in value.items()}
    return THEIRS


def installed(folder):
    home = open_home(folder)
    make_home(home)
    install_server(home, ServerRecord(23456, 23457))
    return home


def test_nothing_of_the_operators_server_comes_along(package, tmp_path):
    """A copy that kept its folders or its database would schedule that server's jobs."""
    assert THEIRS in (package / "settings.py").read_text()
    home = installed(tmp_path / "home")
    files = [path for path in home.root.rglob("*") if path.is_file()]
    assert [path for path in files if THEIRS in path.read_text()] == []
    assert home.python / "fate_flow" / "hub" / "data" / "module.py" in files
    settings = yaml.safe_load((home.conf / "service_conf.yaml").read_text())
    assert settings["fateflow"]["http_port"] == 23456 and settings["database"]["engine"] == "sqlite"


def test_no_step_of_the_clock_makes_a_task_too_old(package, tmp_path):
    from fate_flow.utils.job_utils import check_task_is_timeout

    jobs = yaml.safe_load((installed(tmp_path / "home").conf / "job_default_config.yaml").read_text())
    assert not check_task_is_timeout(SimpleNamespace(f_start_time=1, f_timeout=jobs["task_timeout"]))


def test_what_the_operator_wrote_into_the_home_stays(package, tmp_path):
    """`local.service_conf.yaml` of the home itself is how authentication is switched on there."""
    home = installed(tmp_path / "home")
    (home.conf / "local.service_conf.yaml").write_text("party_id: own\n")
    key = (home.conf / "administrator.key").read_text()
    install_server(home, ServerRecord(23456, 23457))
    assert (home.conf / "local.service_conf.yaml").read_text() == "party_id: own\n"
    assert (home.conf / "administrator.key").read_text() == key


def test_a_package_of_another_form_is_refused(package, tmp_path):
    (package / "settings.py").write_text("LOG_DIR = ''\n")
    with pytest.raises(FlowServerError, match="sets DATA_DIR 0 times; FATE-Flow 2.2.0 sets it once"):
        installed(tmp_path / "home")


def test_folders_above_a_home_are_made_for_its_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        make_home(open_home(tmp_path / "above" / "home"))
    finally:
        os.umask(before)
    assert (tmp_path / "above").stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(FlowServerError, match="file cannot be created"):
        make_home(open_home(tmp_path / "file"))
