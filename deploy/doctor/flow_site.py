"""The FATE-Flow server of this site: what it answers, how it is set up, which providers it has, where it listens."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from fate_dp.deploy.flow_address import FlowAddress
from fate_dp.deploy.flow_credentials import Credentials, client_settings, credentials_for
from fate_dp.deploy.flow_requests import FlowSilent, NotFateFlow, ask
from fate_dp.deploy.flow_state import ANSWERS, REFUSES, SILENT, state_of
from fate_dp.deploy.server_record import read_record
from fate_dp.deploy.site.fence import ALLOW

from .flow_provider import provider_from
from .published_key import takes_published_key
from .this_machine import is_here, listeners

SERVICE_CONF = "service_conf.yaml"
# Of the server's environment, which may hold secrets, nothing else is kept.
SEEN_VARIABLES = ("PYTHONPATH", ALLOW)


@dataclass(frozen=True)
class FlowSite:
    """What is known about the site's server; `settings` are those of service_conf.yaml, empty where nobody told."""

    address: FlowAddress | None
    state: str = SILENT
    reason: str = ""
    version: str | None = None
    is_here: bool = True
    settings: dict = field(default_factory=dict)
    providers: tuple | None = None
    listeners: tuple = ()
    settings_trouble: str = ""
    unreadable: str = ""
    """Which file of the home is closed to this user."""
    takes_the_known_key: bool = False
    variables: dict | None = None
    """Those of `SEEN_VARIABLES` that the running server was started with; None where they cannot be seen."""

    @property
    def runs(self) -> bool:
        """Whether a FATE-Flow is there, be it one that does not know this client."""
        return self.state in (ANSWERS, REFUSES)

    def ports(self) -> dict[str, int]:
        """The ports that are the server's own."""
        flow = self.section("fateflow")
        ports = {"HTTP": self.address.port if self.address else flow.get("http_port"), "gRPC": flow.get("grpc_port")}
        return {name: port for name, port in ports.items() if port}

    def section(self, name: str) -> dict:
        """One part of the settings; empty where it is not set."""
        return section_of(self.settings, name)

    @property
    def default_provider(self) -> str:
        """Name of the provider of tasks that choose none; parts that are not set are FATE's own."""
        chosen = self.section("default_provider")
        version = chosen.get("version") or self.version
        return f"{chosen.get('name') or 'fate'}:{version}@{chosen.get('device') or 'local'}"


def gather(home: Path, flow: FlowAddress | None = None) -> FlowSite:
    """Ask the server at `flow`, else that of the embedded home, else the one that `flow init` names."""
    settings, trouble, unreadable = {}, "", ""
    address = flow
    try:
        settings, trouble = _settings_of(home)
        address = flow or _known_address(home, settings)
    except PermissionError as error:
        unreadable = f"{error.filename or home} cannot be read: {error.strerror}."
    site = FlowSite(address, settings=settings, settings_trouble=trouble, unreadable=unreadable)
    return _asked(site) if address else site


def _asked(site: FlowSite) -> FlowSite:
    """The same site with what its server answers."""
    address, settings = site.address, site.settings
    here, credentials = is_here(address.host), credentials_for(address)
    found = state_of(address)
    site = replace(site, state=found.state, reason=found.reason, version=found.version, is_here=here)
    if found.state == ANSWERS:
        live = _live_settings(address, credentials) or settings
        site = replace(site, settings=live, providers=_providers(address, credentials, here))
    listening = listeners(tuple(site.ports().values())) if here else ()
    known = takes_published_key(address, site.state, site.section("authentication"))
    variables = _variables(listening, address.port) if site.runs else None
    return replace(site, listeners=listening, takes_the_known_key=known, variables=variables)


def _variables(listening: tuple, port: int) -> dict | None:
    """What the process that listens on the server's port was started with, where this user may know."""
    import psutil

    for each in listening:
        if each.port == port and each.pid is not None:
            try:
                environment = psutil.Process(each.pid).environ()
            except (psutil.Error, OSError):
                return None
            return {name: environment[name] for name in SEEN_VARIABLES if name in environment}
    return None


def _known_address(home: Path, settings: dict) -> FlowAddress | None:
    record = read_record(home / "server.json")
    if record is not None:
        return FlowAddress("127.0.0.1", record.http_port)
    told = section_of(settings, "fateflow")
    host, port = told.get("host"), told.get("http_port")
    if not settings:
        client = client_settings()
        host, port = client.get("ip"), client.get("port")
    try:
        return FlowAddress("127.0.0.1" if host == "0.0.0.0" else str(host), int(port)) if host and port else None
    except ValueError:
        return None


def section_of(settings: dict, name: str) -> dict:
    """One part of service_conf.yaml; empty where it is not set."""
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _settings_of(home: Path) -> tuple[dict, str]:
    """service_conf.yaml of the home, with the local changes that FATE-Flow puts over it, and what is wrong there."""
    import yaml

    settings: dict = {}
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
            return settings, f"{path} is no mapping in YAML, so that FATE-Flow cannot start with it."
    return settings, ""


def _live_settings(address: FlowAddress, credentials: Credentials | None) -> dict:
    """The settings with which the running server started, where it tells; the file may have changed since."""
    told = _told(address, "server/query/all", credentials)
    return {key.lower(): value for key, value in told.items()} if isinstance(told, dict) else {}


def _providers(address: FlowAddress, credentials: Credentials | None, here: bool) -> tuple | None:
    """The providers of FATE's components, those on this machine with what is installed there."""
    rows = _told(address, "provider/query?name=fate", credentials)
    return None if rows is None else tuple(provider_from(row, here) for row in rows)


def _told(address: FlowAddress, path: str, credentials: Credentials | None):
    """What a server that has just answered tells more; None where it does not."""
    try:
        answer = ask(address, path, credentials=credentials)
    except (FlowSilent, NotFateFlow):
        return None
    return answer.data if answer.code == 0 else None
