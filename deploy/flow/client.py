"""Questions to a FATE-Flow over HTTP, signed where its client authentication asks for it."""

import base64
import hashlib
import http.client
import importlib.util
import json
import secrets
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

API_VERSION = "v2"


@dataclass(frozen=True)
class FlowAddress:
    """Host and HTTP port of a FATE-Flow server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


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


def client_file() -> Path | None:
    """The file in which `flow init` keeps its word for this environment; None where fate_client is missing."""
    specification = importlib.util.find_spec("fate_client")
    origin = specification and specification.origin
    return Path(origin).parent / "settings.yaml" if origin else None


def client_settings(path: Path | None = None) -> dict[str, Any]:
    """What `flow init` wrote for this environment: ip, port, app_id, app_token; empty where fate_client is missing."""
    path = path or client_file()
    if path is None:
        return {}
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return dict(content["flow_service"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError):
        return {}


def credentials_for(address: FlowAddress, settings: dict[str, Any] | None = None) -> Credentials | None:
    """The credentials of `flow init`, for the server that they were given for only."""
    settings = client_settings() if settings is None else settings
    if (_host(settings.get("ip")), str(settings.get("port"))) != (_host(address.host), str(address.port)):
        return None
    if not settings.get("app_id") or not settings.get("app_token"):
        return None
    return Credentials(str(settings["app_id"]), str(settings["app_token"]))


def _host(name: object) -> str:
    return "127.0.0.1" if name == "localhost" else str(name)


PATIENCE_SECONDS = 5.0


class FlowSilent(Exception):
    """No FATE-Flow answers at the address; the message is the reason, or says what answers instead where `is_foreign`."""

    def __init__(self, reason: str, is_foreign: bool = False) -> None:
        super().__init__(reason)
        self.is_foreign = is_foreign


@dataclass(frozen=True)
class Answer:
    """FATE-Flow's answer; code 0 is success."""

    code: int
    message: str
    data: Any = None


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """FATE-Flow never sends a client elsewhere; whoever does would get the signature with the request."""

    def redirect_request(self, *arguments: object) -> None:
        return None


def opened(request: str | urllib.request.Request, patience: float, *handlers: type) -> Any:
    """The response to a request, which no proxy of the environment sees."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers).open(request, timeout=patience)


def ask_broker(where: str, page: str, user: object, password: object, patience: float) -> Any:
    """What RabbitMQ's management answers a user at a page of its interface, as JSON."""
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(f"http://{where}/api/{page}", headers={"Authorization": f"Basic {login}"})
    with opened(request, patience) as response:
        return json.load(response)


def ask(
    address: FlowAddress,
    path: str,
    body: dict[str, Any] | None = None,
    credentials: Credentials | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Answer:
    """GET `path`, or POST `body` to it; raises FlowSilent where no FATE-Flow answers."""
    request = urllib.request.Request(
        f"http://{address}/{API_VERSION}/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(credentials.headers() if credentials else {})},
    )
    try:
        with opened(request, patience, NoRedirect) as response:
            answer = json.load(response)
        return Answer(int(answer["code"]), str(answer.get("message", "")), answer.get("data"))
    except urllib.error.HTTPError as error:
        raise FlowSilent(f"HTTP status {error.code}", is_foreign=True) from error
    except urllib.error.URLError as error:
        raise FlowSilent(str(getattr(error.reason, "strerror", None) or error.reason)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FlowSilent("no answer of FATE-Flow's form", is_foreign=True) from error
    except OSError as error:
        raise FlowSilent(str(error.strerror or error)) from error
    except http.client.HTTPException as error:
        raise FlowSilent("no HTTP", is_foreign=True) from error


# The broker's port. AMQP 0-9-1: the client's greeting, and how the answer of a broker that speaks it begins (a method
# frame on channel 0).

BROKER_PATIENCE_SECONDS = 3.0
GREETING, FIRST_FRAME = b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"


def speaks_amqp(host: str, port: int) -> bool:
    """Whether what answers there speaks AMQP 0-9-1, as RabbitMQ does; OSError where nothing does, or it hangs up at once."""
    with socket.create_connection((host, port), BROKER_PATIENCE_SECONDS) as connection:
        connection.settimeout(BROKER_PATIENCE_SECONDS)
        connection.sendall(GREETING)
        first = connection.recv(len(FIRST_FRAME))
    if not first:
        raise ConnectionAbortedError("the connection is closed at once, as by a tunnel whose broker is away")
    return first == FIRST_FRAME
