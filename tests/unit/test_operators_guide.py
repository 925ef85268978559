"""The operator's guide names nothing that does not exist: commands, files, configuration keys, sections."""

import argparse
import importlib.util
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fate_dp.crypto.kernel import SWITCH
from fate_dp.deploy.docker import configure
from fate_dp.pipelines.cli.main import parser
from fate_dp.privacy import private_files

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
CONF = Path(importlib.util.find_spec("fate_flow").origin).parent / "conf"
FLOW = Path(importlib.util.find_spec("fate_flow").origin).parent


def quoted(text):
    """What stands between backquotes."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def blocks(language, text=GUIDE):
    """The fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text):
    """Every call of fate-dp, in a sentence or in a block, without its comment."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    calls = [line.split("#")[0].strip() for line in [*lines, *quoted(text)]]
    return [call[call.index("fate-dp ") :] for call in calls if re.search(r"(^|\s)fate-dp [a-z]", call)]


def unknown_part(words, command=None):
    """The first word of a call that the parser does not know, None if it knows all."""
    command, words = command or parser(), list(words)
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction) and words and not words[0].startswith("-"):
            return unknown_part(words[1:], action.choices[words[0]]) if words[0] in action.choices else words[0]
    options = {option for action in command._actions for option in action.option_strings}
    return next((word for word in words if word.startswith("--") and word not in options), None)


def keys_of(document, above=""):
    """The dotted names of all keys of a YAML document."""
    for name, value in document.items() if isinstance(document, dict) else ():
        yield f"{above}{name}"
        yield from keys_of(value, f"{above}{name}.")


def known_keys():
    """Of FATE-Flow's service_conf.yaml with its commented parts, and federation.nginx, which only the source names."""
    text = (CONF / "service_conf.yaml").read_text()
    commented = re.sub(r"^#( +\w+:.*)$", r"\1", text, flags=re.MULTILINE)
    nginx = {f"federation.nginx.{name}" for name in ("host", "http_port", "protocol")}
    return set(keys_of(yaml.safe_load(commented))) | nginx | {"federation.nginx"}


def missing_paths(text):
    """Paths of this source tree, named as such, that are not there."""
    named = {name for name in quoted(text) if re.match(r"(deploy|conf|docs)/[\w./-]+$", name.split()[0])}
    return sorted(name for name in named if not (ROOT / name.split()[0]).exists())


def test_every_command_and_option_exists():
    found = commands(GUIDE)
    named = {call.split()[1] for call in found}
    assert {"doctor", "provider", "board", "ledger", "declare", "plan"} <= named
    assert [call for call in found if unknown_part(shlex.split(call)[1:])] == []


@pytest.mark.parametrize(
    "call, unknown",
    [
        ("fate-dp doctors", "doctors"),
        ("fate-dp provider forget dp1", "forget"),
        ("fate-dp ledger --xml", "--xml"),
        ("fate-dp board install DAG --force", "--force"),
        ("fate-dp board install DAG --check", None),
    ],
)
def test_a_command_that_does_not_exist_is_seen(call, unknown):
    assert commands(f"Run `{call}` then.") == [call] and unknown_part(shlex.split(call)[1:]) == unknown


def test_every_path_of_the_source_tree_exists():
    assert missing_paths(GUIDE) == []
    assert missing_paths("see `deploy/nowhere.sh` and `conf/policy.example.yaml`") == ["deploy/nowhere.sh"]


def test_every_key_of_the_configuration_is_one_of_fate_flows():
    (service, routes) = (yaml.safe_load(block) for block in blocks("yaml"))
    assert set(keys_of(service)) <= known_keys()
    assert {"party_id", "federation.rabbitmq.password", "authentication.site"} <= set(keys_of(service))
    known = yaml.safe_load((CONF / "rabbitmq_route_table.yaml").read_text())
    assert {name for route in routes.values() for name in route} == {name for route in known.values() for name in route}
    assert "federation.rabbitmq.passwords" not in known_keys()


def test_the_key_of_nginx_and_the_other_names_are_in_fate_flows_source():
    api, settings = (FLOW / "utils" / "api_utils.py").read_text(), (FLOW / "settings.py").read_text()
    assert "NGINX" in api and '"nginx"' in (FLOW / "entity" / "types" / "_engine.py").read_text()
    assert "ADMIN_KEY" in settings and "ADMIN_KEY" in GUIDE
    assert "dest-party-id" in (FLOW / "utils" / "grpc_utils.py").read_text() and "dest-party-id" in GUIDE
    properties = configure.board_properties(configure.PartySettings(ROOT, ROOT, "", "", "", "", "", "", False, False))
    assert set(re.findall(r"`(server\.[a-z.]+|fateflow\.url)`", GUIDE)) <= set(properties)


def test_every_call_of_flow_is_one_of_fate_clients():
    """Its commands and options, as click knows them."""
    from fate_client.flow_cli.flow import flow_cli

    calls = [line.split("#")[0].split()[1:] for line in GUIDE.splitlines() if line.startswith("    flow ")]
    assert len(calls) >= 6
    for words in calls:
        command = flow_cli
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options


def test_the_lines_for_the_broker_are_those_that_were_tried():
    (shown,) = blocks("ini")
    tried = (ROOT / "deploy" / "docker" / "broker.tls.conf").read_text().replace("/run/secrets/", "/etc/rabbitmq/")
    assert set(shown.splitlines()) <= set(tried.splitlines())


def test_ports_variables_and_file_names_are_those_of_the_code():
    for port in (configure.FLOW_HTTP, configure.FLOW_GRPC, configure.BOARD):
        assert f"| {port}" in GUIDE or f", {port} " in GUIDE
    for name in (
        private_files.KEY_FILE,
        private_files.LEDGER_FILE,
        private_files.POLICY_FILE,
        private_files.HOME_VARIABLE,
    ):
        assert name in GUIDE
    code = "".join(path.read_text() for path in (ROOT / "deploy").rglob("*.py")) + private_files.HOME_VARIABLE + SWITCH
    assert [name for name in set(re.findall(r"FATE_DP_[A-Z_]+", GUIDE)) if name not in code] == []


def test_every_link_leads_to_a_section():
    headings = re.findall(r"^#+ (.*)$", GUIDE, flags=re.MULTILINE)
    titles = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert [link for link in re.findall(r"\]\(#([^)]+)\)", GUIDE) if link not in titles] == []
