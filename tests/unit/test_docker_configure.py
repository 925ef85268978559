"""The container's configuration: what FATE-Flow and FATE-Board then read, private files, refusals in one sentence."""

import importlib.util
import shutil
from pathlib import Path

import pytest
import yaml
from flow_double import speaking

from fate_dp.deploy.docker import configure as module
from fate_dp.deploy.docker.configure import configure, read_settings, with_properties
from fate_dp.deploy.flow.programs import FlowServerError

PROPERTIES = "#port\nserver.port=9999\nfateflow.url=http://localhost:9380\nserver.board.login.username=\nother=kept\n"


@pytest.fixture
def environment(tmp_path):
    """Of a party with broker and router, over a folder laid out like the image's."""
    (tmp_path / "fateboard" / "conf").mkdir(parents=True)
    (tmp_path / "fateboard" / "conf" / "application.properties").write_text(PROPERTIES)
    for name in ("broker", "board"):
        (tmp_path / name).write_text(f"secret of {name}\n")
    return {
        "FATE_PROJECT": str(tmp_path),
        "FATE_DP_PARTY": "9999",
        "FATE_DP_HOST": "guest",
        "FATE_DP_BROKER": "broker",
        "FATE_DP_ROUTER": "router:9300",
        "FATE_DP_BROKER_PASSWORD_FILE": str(tmp_path / "broker"),
        "FATE_DP_BOARD_PASSWORD_FILE": str(tmp_path / "board"),
        "FATE_DP_CLIENT_AUTHENTICATION": "on",
    }


@pytest.fixture
def conf(tmp_path):
    """A copy of FATE-Flow's own configuration folder."""
    package = Path(importlib.util.find_spec("fate_flow").origin).parent
    shutil.copytree(package / "conf", tmp_path / "conf")
    return tmp_path / "conf"


def test_every_key_that_is_written_is_one_of_fate_flows(environment, conf):
    configure(read_settings(environment), conf)
    written = yaml.safe_load((conf / "local.service_conf.yaml").read_text())
    text = (conf / "service_conf.yaml").read_text()
    known = yaml.safe_load(text)
    assert set(written) <= set(known) and set(written["authentication"]) == set(known["authentication"])
    # rabbitmq stands there as a comment; nginx is read by fate_flow.utils.api_utils all the same.
    comments = "\n".join(line[1:] for line in text.splitlines() if line.startswith("#"))
    rabbitmq = yaml.safe_load(comments.split("rabbitmq:")[1])
    assert set(written["federation"]["rabbitmq"]) <= set(rabbitmq)
    assert written["party_id"] == "9999" and written["fateflow"]["host"] == "0.0.0.0"
    assert written["authentication"] == {"client": True, "site": False, "permission": False}
    assert written["federation"]["rabbitmq"]["password"] == "secret of broker"
    assert (conf / "service_conf.yaml").read_text() == text


def test_fate_flow_reads_what_was_written(environment, conf, monkeypatch):
    from fate_flow.utils import conf_utils

    monkeypatch.setattr(conf_utils, "DEFAULT_SERVER_CONF_PATH", str(conf))
    configure(read_settings(environment), conf)
    nginx = conf_utils.get_base_config("federation")["nginx"]
    assert nginx == {"host": "router", "http_port": 9300, "protocol": "http"}
    assert conf_utils.get_base_config("computing")["standalone"]["cores"] == 32
    assert module.flow_conf() == conf


def test_fate_flow_keeps_its_database_where_a_volume_is(environment, conf, monkeypatch):
    """Left to itself it puts the file beside its own code, which goes with the container."""
    import peewee
    from fate_flow.hub.database.sqlite import get_database_connection
    from fate_flow.utils import conf_utils

    monkeypatch.setattr(peewee.Insert, "on_conflict", peewee.Insert.on_conflict)
    monkeypatch.setattr(conf_utils, "DEFAULT_SERVER_CONF_PATH", str(conf))
    configure(read_settings(environment), conf)
    settings = conf_utils.get_base_config("database")
    database = get_database_connection(settings[settings["engine"]], settings.get("decrypt_key"))
    folder = Path(environment["FATE_PROJECT"]) / "fate_flow" / "database"
    assert database.database == str(folder / "fate_flow_sqlite.db") and folder.stat().st_mode & 0o777 == 0o700


def test_the_boards_properties_change_and_nothing_else(environment, conf):
    configure(read_settings(environment), conf)
    path = Path(environment["FATE_PROJECT"]) / "fateboard" / "conf" / "application.properties"
    assert path.read_text().splitlines() == [
        "#port",
        "server.port=8080",
        "fateflow.url=http://guest:9380",
        "server.board.login.username=admin",
        "other=kept",
        "server.board.login.password=secret of board",
    ]


def test_files_with_secrets_are_private_and_a_second_start_writes_the_same(environment, conf):
    board = Path(environment["FATE_PROJECT"]) / "fateboard" / "conf"
    files = [conf / "local.service_conf.yaml", board / "application.properties"]
    configure(read_settings(environment), conf)
    first = [path.read_bytes() for path in files]
    configure(read_settings(environment), conf)
    assert [path.read_bytes() for path in files] == first
    assert [path.stat().st_mode & 0o777 for path in files] == [0o600, 0o600]


def test_without_a_broker_the_one_server_plays_all_parties(environment, conf):
    for name in ("FATE_DP_BROKER", "FATE_DP_ROUTER", "FATE_DP_PARTY", "FATE_DP_BROKER_PASSWORD_FILE"):
        del environment[name]
    with pytest.raises(FlowServerError, match="FATE_DP_PARTY must be .*, got ''"):
        read_settings(environment)
    environment["FATE_DP_CLIENT_AUTHENTICATION"] = "off"
    configure(read_settings(environment), conf)
    written = yaml.safe_load((conf / "local.service_conf.yaml").read_text())
    assert written["party_id"] == "" and "federation" not in written and "default_engines" not in written


@pytest.mark.parametrize(
    "change, told",
    [
        ({"FATE_DP_PARTY": ""}, "FATE_DP_PARTY must be this party's id, a number such as 9999, got ''"),
        ({"FATE_DP_PARTY": "guest"}, "FATE_DP_PARTY must be this party's id, a number such as 9999, got 'guest'"),
        ({"FATE_DP_ROUTER": ""}, "FATE_DP_ROUTER is not set"),
        ({"FATE_DP_BROKER_PASSWORD_FILE": ""}, "FATE_DP_BROKER_PASSWORD_FILE is not set"),
        (
            {"FATE_DP_BOARD_PASSWORD_FILE": "/nowhere"},
            "The secret /nowhere of FATE_DP_BOARD_PASSWORD_FILE cannot be read",
        ),
        ({"FATE_DP_BOARD_PASSWORD_FILE": "/dev/null"}, "must be one line that is not empty"),
        ({"FATE_DP_SITE_AUTHENTICATION": "yes"}, "FATE_DP_SITE_AUTHENTICATION must be on or off, got 'yes'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_missing_or_wrong_is_named_in_one_sentence(environment, change, told):
    with pytest.raises(FlowServerError) as refusal:
        read_settings({**environment, **change})
    assert told in str(refusal.value) and "\n" not in str(refusal.value)


def test_the_program_ends_with_the_sentence(monkeypatch, capsys, environment):
    monkeypatch.setattr(module.os, "environ", {**environment, "FATE_DP_PARTY": "x"})
    assert module.main() == 1
    assert capsys.readouterr().err.startswith("FATE_DP_PARTY must be this party's id")


@pytest.mark.parametrize("switched", ["on", "off"])
def test_with_authentication_the_administrator_has_a_key_of_this_partys_own_and_no_board(
    switched, monkeypatch, environment, conf, capsys
):
    keys = conf.parent / "keys"
    environment |= {"FATE_DP_CLIENT_AUTHENTICATION": switched, "FATE_DP_HOME": str(keys / "parties")}
    settings = conf.parent / "settings.py"
    shutil.copy(module.installed_flow_package() / "settings.py", settings)
    monkeypatch.setattr(module.os, "environ", environment)
    monkeypatch.setattr(module, "flow_conf", lambda: conf)
    monkeypatch.setattr(module, "installed_flow_package", lambda: conf.parent)
    assert module.main() == 0
    assert ("FATE-Board does not start" in capsys.readouterr().out) == (switched == "on")
    assert (keys / "administrator.key").is_file() == (switched == "on")
    assert ("fate_flow_admin" in settings.read_text()) == (switched == "off")


def test_properties_with_spaces_and_without_values_are_recognised():
    assert with_properties("a = 1\nb\n#a=2\n", {"a": "3"}) == "a=3\nb\n#a=2\n"


def test_without_a_secret_the_board_has_a_password_of_its_own_that_is_kept(environment, tmp_path):
    environment |= {"FATE_DP_BOARD_PASSWORD_FILE": "", "FATE_DP_HOME": str(tmp_path / "keys" / "parties")}
    password = read_settings(environment).board_password
    assert len(password) >= 24 and read_settings(environment).board_password == password
    assert (tmp_path / "keys" / "board_password").stat().st_mode & 0o777 == 0o600


def test_what_flow_init_writes_is_beside_the_keys_also_in_a_volume_of_an_earlier_version(tmp_path):
    package, keys = tmp_path / "fate_client", tmp_path / "keys"
    package.mkdir()
    (package / module.PUBLISHED).write_text("flow_service: {}\n")
    settings = package / "settings.yaml"
    settings.symlink_to(keys / module.CLIENT_FILE)
    module.keep_client_settings(settings, keys)
    assert settings.read_text() == "flow_service: {}\n" and settings.stat().st_mode & 0o777 == 0o600
    settings.write_text("flow_service: {app_id: a}\n")
    module.keep_client_settings(settings, keys)
    assert "app_id" in (keys / module.CLIENT_FILE).read_text()


def test_a_client_that_is_no_containers_is_left_alone(tmp_path):
    (tmp_path / "settings.yaml").write_text("flow_service: {}\n")
    module.keep_client_settings(tmp_path / "settings.yaml", tmp_path / "keys")
    module.keep_client_settings(None, tmp_path / "keys")
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    "flow, broker, arguments, healthy",
    [
        ("answers", b"\x01\x00\x00\x00", [], True),
        ("answers", b"", [], False),
        ("answers", b"HTTP/1.1", [], False),
        ("answers", b"", ["server"], True),
        ("silent", b"\x01\x00\x00\x00", [], False),
    ],
    ids=["both", "broker away", "no broker", "server alone", "no server"],
)
def test_a_container_is_healthy_with_its_broker_only(flow, broker, arguments, healthy, monkeypatch, capsys):
    """But only a FATE-Flow that does not answer ends the container."""
    from fate_dp.deploy.docker import health
    from fate_dp.deploy.flow.server import FlowState

    monkeypatch.setattr(health, "state_of", lambda address: FlowState(flow))
    with speaking(broker) as port:
        monkeypatch.setattr(health, "BROKER", port)
        monkeypatch.setenv("FATE_DP_BROKER", "127.0.0.1")
        assert health.main(arguments) == (0 if healthy else 1)
    assert healthy == (capsys.readouterr().out == "")
