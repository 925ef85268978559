"""What the scripts in examples/pipeline/ share: their settings in a file, as FATE's examples have them, and a command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.jobs.flow import FlowUnavailable, as_address
from fate_dp.pipelines.jobs.job import JobFailed, NoOutput
from fate_dp.privacy.validation import InvalidArgument, whole

ROLES = ("guest", "host", "arbiter")
LENGTHS = {"epochs": 100, "rounds": 20}
"""Of trainings, where the settings do not say."""


@dataclass(frozen=True)
class ExampleConfig:
    """Who takes part in the examples, the FATE-Flow that they are sent to, and how long they train."""

    guest: str
    hosts: tuple[str, ...]
    arbiter: str
    flow: FlowAddress
    epochs: int
    rounds: int

    @property
    def host(self) -> str:
        """The host of an example that has one."""
        return self.hosts[0]


def load_config(given: object) -> ExampleConfig:
    """The settings that an example was given: a file, ours or FATE's own, or the object that FATE-Test makes of one.

    FATE's name parties alone. Jobs then go where `flow init` sends them, and train as long as ours do.

    Raises:
        InvalidArgument: the file is missing, or names other parties than examples need.
    """
    path, content = _content(given)
    parties = content.get("parties") if isinstance(content, dict) else None
    ids = {role: _ids(path, role, parties) for role in ROLES}
    if len(ids["host"]) < 2:
        raise InvalidArgument(f"The settings {path} name one host; the examples need two, of which most use the first.")
    try:
        flow = as_address(content.get("flow") or _of_the_client())
    except FlowUnavailable as error:
        raise InvalidArgument(f"In the settings {path}, flow is wrong: {error}") from error
    lengths = [content.get(name, usual) for name, usual in LENGTHS.items()]
    for name, value in zip(LENGTHS, lengths):
        whole(f"In the settings {path}, {name}", value, 1)
    return ExampleConfig(ids["guest"][0], tuple(ids["host"]), ids["arbiter"][0], flow, *lengths)


def _content(given: object) -> tuple[str, Any]:
    """What settings are called in a sentence, and what they hold."""
    if not isinstance(given, (str, os.PathLike)):
        parties = getattr(given, "parties", None)
        return "of FATE-Test", {"parties": {role: list(getattr(parties, role, None) or ()) for role in ROLES}}
    try:
        return str(given), yaml.safe_load(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"The settings {given} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"The settings {given} are no YAML.") from error


def _of_the_client() -> str:
    """The FATE-Flow of `flow init`, else the port that FATE's documents use."""
    from fate_client.pipeline.conf.env_config import FlowConfig

    return f"{FlowConfig.IP or '127.0.0.1'}:{FlowConfig.PORT or 9380}"


def _ids(path: str, role: str, parties: object) -> list[str]:
    ids = parties.get(role) if isinstance(parties, dict) else None
    if not isinstance(ids, list) or not ids or not all(isinstance(each, (str, int)) for each in ids):
        raise InvalidArgument(f"The settings {path} have no list of party ids for parties: {role}.")
    return [str(each) for each in ids]


def run_example(main: Callable, arguments: list[str] | None = None) -> int:
    """Run an example from the command line; what a party refuses is printed as its sentence. Returns the exit status."""
    script = Path(sys.modules[main.__module__].__file__ or "")
    about = (sys.modules[main.__module__].__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(script.name, description=about)
    config, text = Path(__file__).with_name("config.yaml"), "parties and FATE-Flow (examples/config.yaml)"
    parser.add_argument("--config", type=Path, default=config, help=text)
    parser.add_argument("--namespace", default="", help="what the namespace of the tables has after its name; nothing")
    options = parser.parse_args(arguments)
    try:
        main(options.config, options.namespace)
    except (InvalidArgument, JobFailed, NoOutput, FlowUnavailable) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0
