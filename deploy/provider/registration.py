"""Make an environment known to FATE-Flow as `fate:dp<version>@local`, show what is known, and forget it again.

FATE-Flow runs no provider whose name is not `fate`, so ours differs from FATE's own in the version only. The
components are named in the registration itself: left to find them, FATE-Flow 2.2 answers with a TypeError, because it
takes the list of third-party components for a list of names, which it is not.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fate_dp.privacy.validation import InvalidArgument

from ..doctor.findings import ENVIRONMENT, PROBLEM, run_checks
from ..doctor.flow_checks import PLUGIN_PREFIX
from ..doctor.gathering import Environment, Provider, examine, is_here, provider_from
from ..doctor.own_checks import FATE_VERSION, component_names
from ..flow.client import Answer, FlowAddress, FlowSilent, ask, credentials_for
from ..flow.programs import FlowServerError
from ..flow.server import refusal_in, refuses_client, unknown_client, version_in

NAME, DEVICE = "fate", "local"
# FATE-Flow cuts the name at colon and at-sign, and its column for versions is 20 characters wide.
VERSION = re.compile(rf"{PLUGIN_PREFIX}[A-Za-z0-9][A-Za-z0-9._+-]{{0,17}}")


@dataclass(frozen=True)
class Registration:
    """A provider to be: the interpreter of its tasks, and the folder in front of their module path."""

    version: str
    python: str
    path: str
    components: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{NAME}:{self.version}@{DEVICE}"

    def request(self) -> dict[str, Any]:
        """What FATE-Flow is sent, also from a file by `flow provider register -c`."""
        return {
            "name": NAME,
            "device": DEVICE,
            "version": self.version,
            "metadata": {"path": self.path, "venv": self.python},
            "components_description": self.components,
        }


def prepare(
    address: FlowAddress, python: str, version: str | None = None, path: str | None = None, cold: bool = False
) -> Registration:
    """Check everything that FATE-Flow does not, before it is told anything; raises at what keeps tasks from running.
    Without a `path`, tasks start warm, from a fork server that the first of them starts, unless `cold`."""
    if not is_here(address.host):
        raise FlowServerError(
            f"FATE-Flow at {address} is on another machine. Run this command there, since the provider's Python is checked "
            "where its tasks will run."
        )
    # Not resolved: the interpreter of a virtual environment is a link, and only by the link's name is it that one's.
    python = os.path.abspath(os.path.expanduser(python))
    # FATE-Flow wants a folder that exists; that of the interpreter's environment shadows no module.
    folder = os.path.abspath(os.path.expanduser(path)) if path else str(Path(python).parent.parent)
    if not (os.path.isfile(python) and os.access(python, os.X_OK)):
        raise FlowServerError(
            f"--python must be the interpreter of an environment, such as /opt/fate-dp/bin/python, got {python}, which does "
            "not exist or cannot be executed."
        )
    if not os.path.isdir(folder):
        raise FlowServerError(f"--path must be a folder or be left out, got {folder}, which does not exist.")
    try:
        environment = examine(python, folder)
    except InvalidArgument as error:
        raise FlowServerError(f"{error} Pass --python with the interpreter of one that has FATE-DP.") from error
    check_environment(address, environment)
    version = version or f"{PLUGIN_PREFIX}{environment.plugin and environment.plugin.version}"
    check_version(version)
    if not path and not cold:
        folder = str(Path(environment.folders["deploy"]) / "fate_patches")
    return Registration(version, python, folder, described(environment))


def register(address: FlowAddress, registration: Registration) -> None:
    """Tell FATE-Flow, and see that it took it."""
    answer = request(address, "provider/register", registration.request())
    if answer.code != 0:
        raise FlowServerError(f"FATE-Flow at {address} did not register {registration.name}: {answer.message}.")
    found = next((each for each in providers(address) if each.name == registration.name), None)
    if found is None or (found.path, found.python) != (registration.path, registration.python):
        raise FlowServerError(
            f"FATE-Flow at {address} answered that {registration.name} is registered, but does not have it with these "
            "paths; look into its log fate_flow/fate_flow_stat.log."
        )


def providers(address: FlowAddress) -> tuple[Provider, ...]:
    """All providers of FATE's components; without a name, FATE-Flow answers with none."""
    answer = request(address, f"provider/query?name={NAME}")
    if answer.code != 0:
        raise FlowServerError(f"FATE-Flow at {address} did not list its providers: {answer.message}.")
    return tuple(provider_from(row, examined=False) for row in answer.data or [])


def remove(address: FlowAddress, version: str) -> str:
    """Forget a provider of ours; returns its name. Asked to delete without a name, FATE-Flow itself would delete all."""
    check_version(version)
    name = f"{NAME}:{version}@{DEVICE}"
    known = [each.name for each in providers(address)]
    if name not in known:
        raise FlowServerError(f"FATE-Flow at {address} has no provider {name}; it has {', '.join(sorted(known))}.")
    answer = request(address, "provider/delete", {"provider_name": name})
    if answer.code != 0 or answer.data is not True:
        raise FlowServerError(f"FATE-Flow at {address} did not remove {name}: {answer.message}.")
    return name


def check_version(version: str) -> None:
    if not VERSION.fullmatch(version):
        raise FlowServerError(
            f"The provider's version must be {PLUGIN_PREFIX} and at most 20 letters, digits and the signs . _ + - after it, "
            f"got {version!r}. Use a version such as dp0.2.0."
        )


def check_environment(address: FlowAddress, environment: Environment) -> None:
    """All that the doctor checks of it, and that it has the server's FATE-Flow, whose program its tasks run."""
    problems = [each for each in run_checks(ENVIRONMENT, environment) if each.state == PROBLEM]
    if problems:
        more = f" ({len(problems) - 1} more: {', '.join(each.check for each in problems[1:])}.)" if problems[1:] else ""
        raise FlowServerError(
            f"Nothing was registered, because {environment.executable} cannot run the components. "
            f"{problems[0].said} {problems[0].cure}{more}"
        )
    version, own = version_in(request(address, "server/fateflow")), environment.version("fate-flow")
    if own != version:
        raise FlowServerError(
            f"FATE-Flow at {address} is {version}, but {environment.executable} has {own}; FATE-DP is made for "
            f"{FATE_VERSION}, so install that at the server."
        )


def described(environment: Environment) -> dict[str, Any]:
    """The description of each component, by name; parameters are left to the files that clients read."""
    folder = Path(environment.folders["pipelines"]) / "clients"
    whole = {
        name: yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))["component"]
        for name in component_names(environment)
    }
    kept = ("name", "description", "provider", "version", "labels", "roles")
    return {name: {key: component[key] for key in kept if key in component} for name, component in whole.items()}


def request(address: FlowAddress, path: str, body: dict[str, Any] | None = None) -> Answer:
    """Ask FATE-Flow, with the credentials of `flow init` where there are some."""
    try:
        answer = ask(address, path, body, credentials_for(address))
    except FlowSilent as error:
        raise FlowServerError(f"No FATE-Flow answers at {address} ({error}); start it or correct --flow.") from error
    if refuses_client(answer):
        raise FlowServerError(unknown_client(address, refusal_in(answer)))
    return answer
