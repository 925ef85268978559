"""What the scripts in examples/ share: their settings in a file, as FATE's examples have them, and a command line."""
from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from fate_dp.deploy.flow_address import FlowAddress

from .flow import FlowUnavailable, as_address
from .job import JobFailed, NoOutput

ROLES = ("guest", "host", "arbiter")


class InvalidConfig(ValueError):
    """The settings of the examples cannot be used; one sentence."""


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


def load_config(path) -> ExampleConfig:
    """Read the file that an example was given.

    :raises InvalidConfig: it is missing, or names other parties than examples need.
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidConfig(f"The settings {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"The settings {path} are no YAML.") from error
    parties = content.get("parties") if isinstance(content, dict) else None
    ids = {role: _ids(path, role, parties) for role in ROLES}
    if len(ids["host"]) < 2:
        raise InvalidConfig(f"The settings {path} name one host; the examples need two, of which most use the first.")
    try:
        flow = as_address(content.get("flow"))
    except FlowUnavailable as error:
        raise InvalidConfig(f"In the settings {path}, flow is wrong: {error}") from error
    lengths = [_length(path, name, content.get(name)) for name in ("epochs", "rounds")]
    return ExampleConfig(ids["guest"][0], tuple(ids["host"]), ids["arbiter"][0], flow, *lengths)


def _ids(path, role: str, parties) -> list[str]:
    ids = parties.get(role) if isinstance(parties, dict) else None
    if not isinstance(ids, list) or not ids or not all(isinstance(each, (str, int)) for each in ids):
        raise InvalidConfig(f"The settings {path} have no list of party ids for parties: {role}.")
    return [str(each) for each in ids]


def _length(path, name: str, value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidConfig(f"In the settings {path}, {name} is {value!r}; it must be a whole number of at least 1.")
    return value


def run_example(main: Callable, arguments: list[str] | None = None) -> int:
    """Run an example from the command line; what a party refuses is printed as its sentence. Returns the exit status."""
    script = Path(sys.modules[main.__module__].__file__)
    parser = argparse.ArgumentParser(script.name, description=(sys.modules[main.__module__].__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--config", type=Path, default=script.parents[2] / "config.yaml", help="parties and FATE-Flow (examples/config.yaml)")
    parser.add_argument("--namespace", default="", help="what the namespace of the tables has after its name; nothing")
    options = parser.parse_args(arguments)
    try:
        main(options.config, options.namespace)
    except (InvalidConfig, JobFailed, NoOutput, FlowUnavailable) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0
