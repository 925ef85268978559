"""Configure a party's FATE-Flow and FATE-Board from the container's environment, each time the container starts.

FATE-Flow reads ``local.service_conf.yaml`` beside its ``service_conf.yaml`` and lets it win, key by key of the top
level; the image's own file stays as it is. Secrets come from files, never from variables: FATE-Flow writes the
environment of every task into its log.
"""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fate_dp.privacy.private_files import make_closed_folder, publish_if_absent, replace_file

from ..board.start import kept_password
from ..flow.client import client_file
from ..flow.home import KEY_FILE, installed_flow_package, kept_key, set_settings
from ..flow.programs import FlowServerError

PROJECT, PARTIES = "/data/projects/fate", "/var/lib/fate-dp/parties"
FLOW_HTTP, FLOW_GRPC, BOARD, BROKER = 9380, 9360, 8080, 5672
# A container has an address on each of its networks, and which of them its name stands for first changes from start to
# start; FATE-Flow takes the first only, so that a party was found by the router, or by its published port, by chance.
EVERY_ADDRESS = "0.0.0.0"
# In a folder of its own, which can be a volume: all that FATE-Flow knows of tables, jobs, clients and partners.
DATABASE = Path("fate_flow", "database", "fate_flow_sqlite.db")
# In the folder of the keys: what `flow init` writes, and the board's password where no secret was given.
CLIENT_FILE, BOARD_PASSWORD_FILE = "client.yaml", "board_password"
# What install.sh keeps of the client's settings as fate_client is published, beside the link to that file.
PUBLISHED = "settings.published.yaml"
NO_BOARD = (
    "FATE-Board does not start: FATE_DP_CLIENT_AUTHENTICATION is on, and the board of FATE 2.2.0 cannot sign its requests as "
    "FATE-Flow requires; use fate-dp and flow, or set it to off."
)


@dataclass(frozen=True)
class PartySettings:
    """What the environment says; with no broker the one server plays all parties of a job, as FATE's image does."""

    project: Path
    keys: Path
    party_id: str
    host: str
    broker: str
    broker_password: str
    router: str
    board_password: str
    client_authentication: bool
    site_authentication: bool


def read_settings(environment: Mapping[str, str]) -> PartySettings:
    """The settings of this container; raises FlowServerError where a variable or a secret is not what it must be."""
    broker = environment.get("FATE_DP_BROKER", "")
    party_id = environment.get("FATE_DP_PARTY", "")
    client = switch(environment, "FATE_DP_CLIENT_AUTHENTICATION")
    site = switch(environment, "FATE_DP_SITE_AUTHENTICATION")
    # With authentication on and no party of its own, FATE-Flow ends while it starts.
    if (broker or client or site) and not party_id.isdigit():
        raise FlowServerError(f"FATE_DP_PARTY must be this party's id, a number such as 9999, got {party_id!r}.")
    if broker and not environment.get("FATE_DP_ROUTER"):
        raise FlowServerError("FATE_DP_ROUTER is not set; with a broker it names the router of the command channel.")
    keys = Path(environment.get("FATE_DP_HOME") or PARTIES).parent
    return PartySettings(
        project=Path(environment.get("FATE_PROJECT") or PROJECT),
        keys=keys,
        party_id=party_id,
        host=environment.get("FATE_DP_HOST") or socket.gethostname(),
        broker=broker,
        broker_password=secret(environment, "FATE_DP_BROKER_PASSWORD_FILE") if broker else "",
        router=environment.get("FATE_DP_ROUTER", ""),
        board_password=board_password(environment, keys),
        client_authentication=client,
        site_authentication=site,
    )


def board_password(environment: Mapping[str, str], keys: Path) -> str:
    """The secret that was given, else one that is drawn at the first start and kept."""
    name = "FATE_DP_BOARD_PASSWORD_FILE"
    return secret(environment, name) if environment.get(name) else kept_password(keys / BOARD_PASSWORD_FILE)


def secret(environment: Mapping[str, str], name: str) -> str:
    """The one line of the file that a variable names."""
    path = environment.get(name)
    if not path:
        raise FlowServerError(f"{name} is not set; it names the file with the secret.")
    try:
        value = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise FlowServerError(f"The secret {path} of {name} cannot be read: {error.strerror}.") from error
    if not value or "\n" in value:
        raise FlowServerError(f"The secret {path} of {name} must be one line that is not empty.")
    return value


def switch(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "off")
    if value not in ("on", "off"):
        raise FlowServerError(f"{name} must be on or off, got {value!r}.")
    return value == "on"


def flow_settings(settings: PartySettings) -> dict[str, Any]:
    """The content of local.service_conf.yaml."""
    switches = {"client": settings.client_authentication, "site": settings.site_authentication, "permission": False}
    common = {
        "log_level": 20,
        "authentication": switches,
        "database": {"engine": "sqlite", "sqlite": {"path": str(settings.project / DATABASE)}},
        "party_id": settings.party_id,
    }
    flow = {"host": EVERY_ADDRESS, "http_port": FLOW_HTTP, "grpc_port": FLOW_GRPC}
    if not settings.broker:
        return {**common, "fateflow": {**flow, "proxy_name": "osx"}}
    host, _, port = settings.router.partition(":")
    messages = {
        "host": settings.broker,
        "port": BROKER,
        "mng_port": 15672,
        "user": "fate",
        "password": settings.broker_password,
        "mode": "client",
    }
    return {
        **common,
        "fateflow": {**flow, "proxy_name": "nginx"},
        "default_engines": {"computing": "standalone", "federation": "rabbitmq", "storage": "standalone"},
        "federation": {"rabbitmq": messages, "nginx": {"host": host, "http_port": int(port or 80), "protocol": "http"}},
    }


def board_properties(settings: PartySettings) -> dict[str, str]:
    """What changes in the board's application.properties."""
    return {
        "server.port": str(BOARD),
        "fateflow.url": f"http://{settings.host}:{FLOW_HTTP}",
        "server.board.login.username": "admin",
        "server.board.login.password": settings.board_password,
    }


def with_properties(text: str, changes: Mapping[str, str]) -> str:
    """A Java properties text with some values replaced, and those that it lacks at its end."""
    left = dict(changes)
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name}={left.pop(name)}" if name in left else line)
    return "\n".join([*lines, *(f"{name}={value}" for name, value in left.items())]) + "\n"


def configure(settings: PartySettings, conf: Path) -> None:
    """Write FATE-Flow's and the board's configuration; `conf` is the folder of FATE-Flow's service_conf.yaml."""
    make_closed_folder((settings.project / DATABASE).parent)
    replace_file(conf / "local.service_conf.yaml", yaml.safe_dump(flow_settings(settings)).encode())
    properties = settings.project / "fateboard" / "conf" / "application.properties"
    changed = with_properties(properties.read_text(encoding="utf-8"), board_properties(settings))
    replace_file(properties, changed.encode())


def keep_client_settings(client: Path | None, keys: Path) -> None:
    """Give `flow init` a file to write, this user's alone, so that its tokens outlive the container; in a volume of an
    earlier version install.sh has not linked it yet."""
    if client is not None and client.is_symlink():
        publish_if_absent(keys / CLIENT_FILE, client.with_name(PUBLISHED).read_bytes())


def flow_conf() -> Path:
    """Where the FATE-Flow of this environment looks for its configuration."""
    from fate_flow.utils.conf_utils import conf_realpath

    return Path(conf_realpath("service_conf.yaml")).parent


def main() -> int:
    try:
        settings = read_settings(os.environ)
        configure(settings, flow_conf())
        keep_client_settings(client_file(), settings.keys)
        if settings.client_authentication or settings.site_authentication:
            set_settings(installed_flow_package() / "settings.py", {"ADMIN_KEY": kept_key(settings.keys / KEY_FILE)})
    except FlowServerError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename} could not be written or read: {error.strerror}.", file=sys.stderr)
        return 1
    if settings.client_authentication:
        print(NO_BOARD)
    print(f"Configured party {settings.party_id or 'of every id'} at {settings.host}:{FLOW_HTTP}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
