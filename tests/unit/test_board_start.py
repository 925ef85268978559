"""fate-dp board start and stop, with a stand-in for Java that listens where the board's configuration says."""

import os
import re
import stat
import urllib.request

import pytest
from flow_double import VERSION, flow_double
from test_board_command import COMPONENTS, READER

from fate_dp.deploy.board.start import board_folder, find_board, stop
from fate_dp.deploy.flow.programs import FlowServerError, free_port
from fate_dp.pipelines.cli.main import main

# Reads the port from its configuration, as the board does, and serves it; what it was called with stands in its folder.
STAND_IN = """#!/bin/sh
echo "$@" > called
port=$(sed -n 's/^server.port=//p' conf/application.properties)
exec {python} -m http.server --bind 127.0.0.1 "$port"
"""


@pytest.fixture
def release(tmp_path):
    """A board as it is unpacked from its release."""
    folder = tmp_path / "fateboard"
    for name in ("lib", "dag"):
        (folder / name).mkdir(parents=True)
    for name in ("fateboard-2.1.0.jar", "lib/spring.jar"):
        (folder / name).touch()
    (folder / "dag" / "reader.yaml").write_text(READER)
    return folder


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A function that puts a program in Java's place."""
    program = tmp_path / "java-home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(program.parents[1]))

    def become(text):
        program.write_text(text)
        program.chmod(0o755)

    return become


@pytest.fixture
def home(tmp_path):
    yield tmp_path / "home"
    stop(board_folder(tmp_path / "home"))


@pytest.fixture
def start(release, home, java):
    """A function that runs `board start` against a FATE-Flow and returns the exit status."""
    import sys

    java(STAND_IN.format(python=sys.executable))

    def run(*flags, code=0):
        with flow_double(VERSION, code=code) as (address, _):
            return main(["board", "start", str(release), "--flow", str(address), "--home", str(home), *flags])

    return run


def configuration(home):
    text = (home / "board" / "conf" / "application.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_command_starts_a_board_for_loopback_with_a_login_and_all_descriptions(start, home, capsys):
    port = free_port()
    assert start("--port", str(port), "--user", "eve") == 0
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}").status == 200
    told, set_to = capsys.readouterr().out, configuration(home)
    password = (home / "board" / "password").read_text().strip()
    assert set_to.pop("fateflow.url").startswith("http://127.0.0.1:")
    assert set_to == {
        "server.address": "127.0.0.1",
        "server.port": str(port),
        "server.board.login.username": "eve",
        "server.board.login.password": password,
    }
    assert len(password) >= 20 and password not in told and "Sign in as eve" in told
    assert {path.stem for path in (home / "board" / "dag").iterdir()} == COMPONENTS | {"reader"}
    for name in ("password", "conf/application.properties"):
        assert stat.S_IMODE((home / "board" / name).stat().st_mode) == 0o600
    called = (home / "board" / "called").read_text()
    assert "fateboard-2.1.0.jar" in called and called.strip().endswith("Bootstrap") and password not in called


def test_a_second_start_replaces_the_first_and_keeps_port_and_password(start, home, capsys):
    assert start("--port", str(free_port())) == 0
    first = configuration(home)
    capsys.readouterr()
    assert start() == 0
    assert "The board that ran is stopped." in capsys.readouterr().out
    second = configuration(home)
    kept = ("server.port", "server.board.login.password")
    assert [first[name] for name in kept] == [second[name] for name in kept]


def test_stop_ends_the_board_and_nothing_else(start, home, capsys):
    assert start("--port", str(free_port())) == 0
    for sentence in ("FATE-Board is stopped.", "No FATE-Board of this home was running."):
        assert main(["board", "stop", "--home", str(home)]) == 0
        assert sentence in capsys.readouterr().out


def test_the_servers_own_password_file_may_be_the_users(start, home, capsys):
    (home / "board").mkdir(parents=True)
    (home / "board" / "password").write_text("chosen#by=them\n")
    assert start("--port", str(free_port())) == 0
    assert configuration(home)["server.board.login.password"] == "chosen#by=them"
    (home / "board" / "password").write_text("a\\u0041\n")
    assert start() == 1
    assert "must hold one line of printable characters" in capsys.readouterr().err


@pytest.mark.parametrize("user", ["", "a b", "a\\b", "é"])
def test_a_user_that_a_properties_file_would_change_is_refused(start, user, capsys):
    assert start("--user", user) == 1
    assert "The user must be printable characters" in capsys.readouterr().err


def test_a_flow_that_knows_its_clients_is_refused(start, home, monkeypatch, capsys):
    from fate_dp.deploy.flow import server
    from fate_dp.pipelines.jobs import flow

    # The command line itself may have credentials, which the board cannot use.
    monkeypatch.setattr(flow, "state_of", lambda address: server.FlowState(server.ANSWERS))
    assert start(code=5003) == 1
    assert "cannot sign requests" in capsys.readouterr().err
    assert not (home / "board").exists()


def test_a_board_that_ends_at_once_shows_what_it_said_last(start, java, capsys):
    java("#!/bin/sh\necho Unsupported class file\nexit 7\n")
    assert start() == 1
    told = capsys.readouterr().err
    assert "FATE-Board ended with status 7; the end of" in told and "Unsupported class file" in told


def test_a_missing_java_is_named(start, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert start() == 1
    assert re.search(r"JAVA_HOME, .*nowhere, has no bin/java; FATE-Board needs Java 8", capsys.readouterr().err)


def test_a_board_is_found_by_its_jar_its_release_and_its_built_source(release, tmp_path):
    jar = release / "fateboard-2.1.0.jar"
    assert find_board(jar) == find_board(release) and find_board(release).jar == jar
    source = tmp_path / "source"
    (source / "static").mkdir(parents=True)
    os.rename(release / "dag" / "reader.yaml", source / "static" / "reader.yaml")
    os.rename(release, source / "target")
    found = find_board(source)
    assert found == find_board(source / "target") and found.descriptions == source / "static"


def test_what_is_no_board_is_refused_in_one_sentence(release, tmp_path):
    with pytest.raises(FlowServerError, match="nowhere has no FATE-Board; give fateboard-"):
        find_board(tmp_path / "nowhere")
    (release / "lib" / "spring.jar").unlink()
    with pytest.raises(FlowServerError, match="lib has no libraries of FATE-Board"):
        find_board(release / "fateboard-2.1.0.jar")
