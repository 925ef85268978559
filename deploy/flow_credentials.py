"""The app id and token with which requests to a FATE-Flow are signed where its client authentication is on."""
from __future__ import annotations

import hashlib
import importlib.util
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

from .flow_address import FlowAddress


@dataclass(frozen=True)
class Credentials:
    """An app's identity at FATE-Flow, as `flow init --app-id --app-token` keeps it."""

    app_id: str
    app_token: str = field(repr=False)

    def headers(self) -> dict[str, str]:
        """FATE-Flow's signature of a request; its MD5 is no protection against who can read the traffic."""
        nonce, timestamp = f"{1000 + secrets.randbelow(9000)}", f"{int(time.time() * 1000)}"
        digest = hashlib.md5(f"{self.app_id}{nonce}{timestamp}".encode()).hexdigest()
        signature = hashlib.md5(f"{digest}{self.app_token}".encode()).hexdigest()
        return {"appId": self.app_id, "userName": "", "Nonce": nonce, "Timestamp": timestamp, "Signature": signature}


def client_settings() -> dict:
    """What `flow init` wrote for this environment: ip, port, app_id, app_token; empty where fate_client is missing."""
    import yaml

    specification = importlib.util.find_spec("fate_client")
    if specification is None or specification.origin is None:
        return {}
    try:
        content = yaml.safe_load((Path(specification.origin).parent / "settings.yaml").read_text(encoding="utf-8"))
        return dict(content["flow_service"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
        return {}


def credentials_for(address: FlowAddress, settings: dict | None = None) -> Credentials | None:
    """The credentials of `flow init`, for the server that they were given for only."""
    settings = client_settings() if settings is None else settings
    if (_host(settings.get("ip")), str(settings.get("port"))) != (_host(address.host), str(address.port)):
        return None
    if not settings.get("app_id") or not settings.get("app_token"):
        return None
    return Credentials(str(settings["app_id"]), str(settings["app_token"]))


def _host(name) -> str:
    return "127.0.0.1" if name == "localhost" else str(name)
