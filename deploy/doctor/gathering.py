"""What the checks look at: an environment, addresses of this machine, providers, and the FATE-Flow of this site."""

import ipaddress
import json
import os
import socket
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import yaml

from fate_dp.deploy import FATE_VERSION
from fate_dp.privacy.validation import InvalidArgument

from ..fate_patches.fence import ALLOW
from ..fate_patches.job_gate import NOT_A_NAME
from ..flow.client import (
    Answer,
    Credentials,
    FlowAddress,
    FlowSilent,
    ask,
    client_file,
    client_settings,
    credentials_for,
)
from ..flow.programs import FlowServerError, read_record
from ..flow.server import ANSWERS, REFUSES, SILENT, state_of
from ..flow.unfinished import UnfinishedJob, settings_of, unfinished_jobs
from .findings import Finding, unseen
from .probe import VERSION

# As in the settings.py that FATE-Flow 2.2 is published with.
ADMINISTRATOR = ("admin", "fate_flow_admin")
# A command between sites: FATE-Flow asks for the signature first, then for the fields, without which it does nothing.
CREATE_JOB_FAILED = 1002
SITE_COMMAND, WITHOUT_FIELDS = "scheduler/task/report", Answer(5001, "Invalid request.")


class SiteCredentials(Credentials):
    """Between sites, the signature covers the party that begins the job; FATE-Flow fails where it is not sent."""

    def headers(self) -> dict[str, str]:
        return {**super().headers(), "initiatorPartyId": ""}


def takes_published_key(address: FlowAddress, state: str, authentication: dict[str, Any]) -> bool:
    """Whether authentication is on, but the published key passes it; `authentication` is that part of the settings."""
    try:
        if state == REFUSES or (state == ANSWERS and authentication.get("client")):
            answer = ask(address, "server/fateflow", credentials=Credentials(*ADMINISTRATOR))
            return answer.code == 0 and bool(answer.data)
        if state == ANSWERS and authentication.get("site"):
            answer = ask(address, SITE_COMMAND, {}, SiteCredentials(*ADMINISTRATOR))
            return (answer.code, answer.message) == (WITHOUT_FIELDS.code, WITHOUT_FIELDS.message)
    except FlowSilent:
        pass
    return False


PROBE = Path(__file__).with_name("probe.py")
PROBE_SECONDS = 60


@dataclass(frozen=True)
class Plugin:
    """One installation of FATE-DP; `source` is the folder of an editable one."""

    version: str
    location: str
    source: str | None
    requires: list
    announces: list


@dataclass(frozen=True)
class Environment:
    """What the probe reports; `lookup` has each entry point's [component, why it does not load], or an error.

    `unrecorded` names those of FATE's distributions whose packages lie on the path without a record of installation;
    `kernel` says whether the native kernel is in use and why, and is None where FATE-DP cannot be imported.
    """

    executable: str
    python: list
    distributions: dict[str, Any]
    plugins: list[Plugin]
    folders: dict[str, Any]
    lookup: dict[str, Any]
    unrecorded: list
    kernel: list | None = None

    def version(self, name: str) -> str | None:
        """The version of the distribution that is used; None where it is not installed."""
        found = self.distributions.get(name)
        return found[0][0] if found else None

    @property
    def plugin(self) -> Plugin | None:
        """The installation of FATE-DP that is used."""
        return self.plugins[0] if self.plugins else None

    def pip_install(self, *requirements: str) -> str:
        """The command that installs something here."""
        return f"`{self.executable} -m pip install " + " ".join(f'"{each}"' for each in requirements) + "`"

    def install_plugin(self) -> str:
        """The command that installs FATE-DP here, anew where it is; pip knows no index that has it."""
        options = "--force-reinstall --no-deps " if self.plugins else ""
        return (
            f"`{self.executable} -m pip install {options}WHEEL`, WHEEL being the file fate_dp-*.whl, "
            "or -e and a checkout"
        )


@cache
def examine(python: str = sys.executable, path: str = "") -> Environment:
    """Run the probe in an interpreter, with the folder `path` in front of its module path as FATE-Flow puts it there."""
    variables = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    if path:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
    try:
        done = subprocess.run(
            [python, str(PROBE)], env=variables, cwd="/", capture_output=True, text=True, timeout=PROBE_SECONDS
        )
    except OSError as error:
        raise InvalidArgument(f"The Python {python} cannot be run: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise InvalidArgument(f"The Python {python} did not answer within {PROBE_SECONDS} seconds.") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise InvalidArgument(f"The Python {python} could not list what is installed: {reason}.")
    return environment_from(json.loads(lines[-1]))


def environment_from(report: dict[str, Any]) -> Environment:
    """The environment that a probe's report describes."""
    return Environment(**{**report, "plugins": [Plugin(**each) for each in report["plugins"]]})


LOOPBACK = ("127.", "::1", "::ffff:127.")


@dataclass(frozen=True)
class Listener:
    """A socket that waits for connections; `program` is None where another user's."""

    ip: str
    port: int
    pid: int | None = None
    program: str | None = None

    @property
    def is_local(self) -> bool:
        return self.ip.startswith(LOOPBACK)


def is_here(host: str) -> bool:
    """Whether an address is this machine's own."""
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    ips = addresses_of(host, socket.AF_UNSPEC)
    return bool(ips) and all(ip.startswith(LOOPBACK) or ip in own for ip in ips)


def addresses_of(host: str, family: int = socket.AF_INET) -> tuple[str, ...]:
    """The addresses that a name stands for, IPv4 unless said otherwise; empty where nobody knows it."""
    try:
        return tuple(sorted({str(entry[4][0]) for entry in socket.getaddrinfo(host, None, family)}))
    except OSError:
        return ()


def is_beside(host: str) -> bool:
    """Whether an address is on a network to which this machine, or container, is attached itself."""
    ips = {ipaddress.ip_address(address) for address in addresses_of(host)}
    own = [
        ipaddress.ip_interface(f"{each.address}/{each.netmask}").network
        for addresses in psutil.net_if_addrs().values()
        for each in addresses
        if each.family == socket.AF_INET and each.netmask
    ]
    return bool(ips) and all(any(ip in network for network in own) for ip in ips)


def listeners(ports: tuple) -> tuple[Listener, ...]:
    """Who listens on these ports of this machine, on which addresses."""
    found = []
    for each in psutil.net_connections("tcp"):
        if each.status == psutil.CONN_LISTEN and each.laddr.port in ports:
            program = None
            with suppress(psutil.Error):
                program = psutil.Process(each.pid).name() if each.pid else None
            found.append(Listener(each.laddr.ip, each.laddr.port, each.pid, program))
    return tuple(found)


def is_trusted(path: str) -> bool:
    """Whether a file and all folders above it, links on the way included, are this user's or the administrator's."""
    lexical = Path(os.path.abspath(path))
    for each in {lexical, *lexical.parents, lexical.resolve(), *lexical.resolve().parents}:
        status = each.lstat()
        open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()) or (open_to_all and not stat.S_ISLNK(status.st_mode)):
            return False
    return True


@dataclass(frozen=True)
class Provider:
    """One that FATE-Flow has; without an `environment`, `trouble` says what is wrong or `unseen` why nobody looked."""

    name: str
    version: str
    path: str
    python: str
    environment: Environment | None = None
    trouble: str = ""
    unseen: str = ""


def provider_from(row: dict[str, Any], examined: bool) -> Provider:
    """A provider as FATE-Flow describes it, one of this machine with what is installed there."""
    metadata = row.get("metadata") or {}
    path, python = metadata.get("path") or "", metadata.get("venv") or ""
    provider = Provider(row["provider_name"], row["version"], path, python)
    if not examined or row.get("device") != "local":
        return replace(provider, unseen="it is on another machine or in a container")
    try:
        if path and not Path(path).is_dir():
            return replace(provider, trouble=f"its folder {path} is gone")
        if not Path(python).is_file():
            return replace(provider, trouble=f"its Python {python} is gone")
        if not all(map(is_trusted, filter(None, (path, python)))):
            # Whoever has the port while FATE-Flow is down could name any program to run.
            return replace(provider, unseen="another user could have put its files there, so they are not run")
        return replace(provider, environment=examine(python, path))
    except InvalidArgument as error:
        return replace(provider, trouble=f"its Python does not answer: {str(error).rstrip('.')}")
    except PermissionError as error:
        return replace(provider, unseen=f"{error.filename or python} cannot be examined ({error.strerror})")


SERVICE_CONF = "service_conf.yaml"
# Of the server's environment, which may hold secrets, nothing else is kept.
TUNNEL = "FATE_DP_BROKER_TUNNEL"
SEEN_VARIABLES = ("PYTHONPATH", ALLOW, TUNNEL)


@dataclass(frozen=True)
class FlowSite:
    """What is known about the site's server; `settings` are those of service_conf.yaml, empty where nobody told."""

    address: FlowAddress | None
    state: str = SILENT
    reason: str = ""
    version: str | None = None
    is_here: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    providers: tuple | None = None
    listeners: tuple = ()
    addresses: tuple[str, ...] = ()
    """What the name stands for by which FATE-Flow was asked."""
    settings_trouble: str = ""
    unreadable: str = ""
    """Which file of the home is closed to this user."""
    takes_the_known_key: bool = False
    variables: dict[str, Any] | None = None
    """Those of `SEEN_VARIABLES` that the running server was started with; None where they cannot be seen."""
    refuses_paths: bool | None = None
    """Whether the server refused a job that the gate must refuse; None where it does not talk to this client as to a party."""
    modules_version: str | None = None
    """What the modules from which it runs say of themselves, where that can be seen."""
    jobs: tuple[UnfinishedJob, ...] | None = None
    """Those that have not ended; None where the server does not tell."""
    client: Path | None = None
    """Where `flow init` keeps the credentials of this Python's client."""

    @property
    def runs(self) -> bool:
        """Whether a FATE-Flow is there, be it one that does not know this client."""
        return self.state in (ANSWERS, REFUSES)

    def ports(self) -> dict[str, int]:
        """The ports that are the server's own."""
        flow = self.section("fateflow")
        ports = {"HTTP": self.address.port if self.address else flow.get("http_port"), "gRPC": flow.get("grpc_port")}
        return {name: port for name, port in ports.items() if port}

    def section(self, name: str) -> dict[str, Any]:
        """One part of service_conf.yaml; empty where it is not set."""
        section = self.settings.get(name)
        return section if isinstance(section, dict) else {}

    @property
    def default_provider(self) -> str:
        """Name of the provider of tasks that choose none; parts that are not set are FATE's own."""
        chosen = self.section("default_provider")
        version = chosen.get("version") or self.version
        return f"{chosen.get('name') or 'fate'}:{version}@{chosen.get('device') or 'local'}"


def gather(home: Path, flow: FlowAddress | None = None) -> FlowSite:
    """Ask the server at `flow`, else that of the embedded home, else the one that `flow init` names."""
    site = FlowSite(flow, client=client_file())
    try:
        settings, trouble = _settings_of(home)
        site = replace(site, settings=settings, settings_trouble=trouble)
        site = replace(site, address=flow or _known_address(home, site))
    except PermissionError as error:
        site = replace(site, unreadable=f"{error.filename or home} cannot be read: {error.strerror}.")
    return _asked(site, site.address) if site.address else site


def _asked(site: FlowSite, address: FlowAddress) -> FlowSite:
    """The same site with what its server answers."""
    here, credentials = is_here(address.host), credentials_for(address)
    found = state_of(address)
    site = replace(site, state=found.state, reason=found.reason, version=found.version, is_here=here)
    site = replace(site, addresses=addresses_of(address.host))
    if found.state == ANSWERS:
        # The settings with which it started, where it tells them; the file may have changed since.
        live, jobs = {}, None
        with suppress(FlowServerError):
            live = settings_of(address)
            jobs = unfinished_jobs(address)
        rows = answer_of(address, "provider/query?name=fate", credentials)
        providers = None if rows is None else tuple(provider_from(row, here) for row in rows)
        site = replace(site, settings=live or site.settings, providers=providers, jobs=jobs)
    site = replace(site, refuses_paths=refuses_paths(address, credentials) if site.runs else None)
    listening = listeners(tuple(site.ports().values())) if here else ()
    known = takes_published_key(address, site.state, site.section("authentication"))
    site = replace(site, listeners=listening, takes_the_known_key=known)
    pid = next((each.pid for each in listening if each.port == address.port and each.pid), None)
    if not site.runs or pid is None:
        return site
    try:
        process = psutil.Process(pid)
        environment = process.environ()
        variables = {name: environment[name] for name in SEEN_VARIABLES if name in environment}
        return replace(site, variables=variables, modules_version=_modules_version(process))
    except (psutil.Error, OSError):
        return site


def refuses_paths(address: FlowAddress, credentials: Credentials | None) -> bool | None:
    """Try it: a job whose name is a path, without a DAG, of which a FATE-Flow without the gate makes no job either."""
    body = {"dag": {}, "schema_version": FATE_VERSION, "job_id": "fate_dp/doctor", "role": "local", "party_id": "0"}
    try:
        answer = ask(address, "partner/job/create", body, credentials)
    except FlowSilent:
        return None
    if NOT_A_NAME in answer.message:
        return True
    return False if answer.code == CREATE_JOB_FAILED else None


def _modules_version(process: psutil.Process) -> str | None:
    """What stands beside the program of a server that is run as a file, as FATE-Flow's own script does it."""
    programs = [Path(word) for word in process.cmdline() if word.endswith("fate_flow_server.py")]
    if not programs or not programs[0].with_name("_info.py").is_file():
        return None
    told = VERSION.search(programs[0].with_name("_info.py").read_text(encoding="utf-8", errors="replace"))
    return told.group(1) if told else None


def _known_address(home: Path, site: FlowSite) -> FlowAddress | None:
    record = read_record(home / "server.json")
    if record is not None:
        return FlowAddress("127.0.0.1", record.http_port)
    told, client = site.section("fateflow"), {} if site.settings else client_settings()
    host, port = told.get("host") or client.get("ip"), told.get("http_port") or client.get("port")
    try:
        return FlowAddress("127.0.0.1" if host == "0.0.0.0" else str(host), int(port)) if host and port else None
    except ValueError:
        return None


def _settings_of(home: Path) -> tuple[dict[str, Any], str]:
    """service_conf.yaml of the home, with the local changes that FATE-Flow puts over it, and what is wrong there."""
    settings: dict[str, Any] = {}
    for path in (home / "conf" / SERVICE_CONF, home / "conf" / f"local.{SERVICE_CONF}"):
        try:
            settings.update(yaml.safe_load(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            continue
        except PermissionError:
            raise
        except OSError as error:
            return settings, f"{path} cannot be read: {error.strerror}."
        except (UnicodeDecodeError, yaml.YAMLError, TypeError, ValueError):
            return settings, f"{path} is not a mapping in YAML, so FATE-Flow cannot start with it."
    return settings, ""


def answer_of(address: FlowAddress, path: str, credentials: Credentials | None) -> Any:
    """What a server that has just answered tells more; None where it does not."""
    try:
        answer = ask(address, path, credentials=credentials)
    except FlowSilent:
        return None
    return answer.data if answer.code == 0 else None


def unseen_settings(site: FlowSite, what: str) -> Finding:
    """Neither the server nor its service_conf.yaml tells `what`."""
    named = "with --home naming the folder that holds its conf/service_conf.yaml"
    if site.state == ANSWERS:
        return unseen(
            f"{what} cannot be seen: FATE-Flow does not show its settings.",
            f"Run the doctor on the server's machine, {named}.",
        )
    return unseen(
        f"{what} cannot be seen: the settings of FATE-Flow are not known here.",
        f"Fix the line about FATE-Flow first, or run the doctor on the server's machine, {named}.",
    )
