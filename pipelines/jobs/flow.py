"""Which FATE-Flow server a command talks to: one named with --flow, or the embedded one."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from fate_dp.deploy.flow import home_command
from fate_dp.deploy.flow.client import API_VERSION, FlowAddress, credentials_for
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.deploy.flow.server import REFUSES, state_of, status, unknown_client

if TYPE_CHECKING:
    from fate_client.flow_sdk import FlowClient
    from requests import PreparedRequest, Response
    from requests.adapters import HTTPAdapter


HIGHEST_PORT = 65535
ANSWER_SECONDS = 10.0


class FlowUnavailable(FlowServerError):
    """No FATE-Flow server can be used; the message is one sentence for the user."""


def resolve_flow(flow: str | None, home: str | os.PathLike) -> FlowAddress:
    """The address of a server that answers: `flow` (HOST:PORT) if given, else the embedded server of `home`."""
    if flow is not None:
        return answering(parse_address(flow))
    embedded = status(home)
    if embedded.address is None:
        raise FlowUnavailable(
            f"No FATE-Flow was started in {home}; start one with `{home_command('up', home)}` or pass --flow HOST:PORT."
        )
    return answering(embedded.address)


def as_address(address: FlowAddress | str) -> FlowAddress:
    """An address, given as such or as text, HOST:PORT."""
    return address if isinstance(address, FlowAddress) else parse_address(address, "address")


def parse_address(text: str, name: str = "--flow") -> FlowAddress:
    """Read HOST:PORT; FlowUnavailable, which calls the text ``name``, where it reads otherwise."""
    match = re.fullmatch(r"([A-Za-z0-9._-]+):([0-9]{1,5})", text.strip()) if isinstance(text, str) else None
    if match is None or not 0 < int(match[2]) <= HIGHEST_PORT:
        raise FlowUnavailable(
            f"{name} {text!r} is not an address; give HOST:PORT with a port from 1 to {HIGHEST_PORT}, "
            "for example 127.0.0.1:9380."
        )
    return FlowAddress(match[1], int(match[2]))


def answering(address: FlowAddress) -> FlowAddress:
    """The same address, refused where no FATE-Flow answers this client."""
    found = state_of(address)
    if found.state == REFUSES:
        raise FlowUnavailable(unknown_client(address, found.reason))
    if not found.runs:
        raise FlowUnavailable(
            f"No FATE-Flow answers at {address}; start one with `fate-dp up` or pass --flow HOST:PORT."
        )
    return address


def connect(address: FlowAddress | str, patience: float = ANSWER_SECONDS) -> FlowClient:
    """A fate_client FlowClient for `address`, which signs what it asks where `flow init` gave credentials for it.

    It waits so many seconds for an answer, and what is no answer of FATE-Flow's is silence: it returns a code other than
    0 and raises nothing. Pipeline objects of this process use the same server from now on, but fate_client does not sign
    for them.
    """
    from fate_client.flow_sdk import FlowClient
    from fate_client.pipeline.conf.env_config import FlowConfig

    address = as_address(address)
    FlowConfig.IP, FlowConfig.PORT, FlowConfig.VERSION = address.host, address.port, API_VERSION
    # A proxy that the environment names is for the outside.
    bypassed = os.environ.get("NO_PROXY", os.environ.get("no_proxy", ""))
    if address.host not in bypassed.split(","):
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = f"{bypassed},{address.host}".lstrip(",")
    credentials = credentials_for(address)
    signed = {} if credentials is None else {"app_id": credentials.app_id, "app_token": credentials.app_token}
    client = FlowClient(ip=address.host, port=address.port, version=API_VERSION, **signed)
    client._http.mount("http://", _answers_only(patience))
    return client


def _answers_only(patience: float) -> HTTPAdapter:
    """Sends requests with a time limit, and takes FATE-Flow's JSON or a file for an answer, no proxy's page."""
    from requests.adapters import HTTPAdapter

    class AnswersOnly(HTTPAdapter):
        def send(self, request: PreparedRequest, **options: Any) -> Response:
            response = super().send(request, **{**options, "timeout": patience})
            # fate_client reads whatever is no file as JSON, outside of its own care for errors.
            if "Content-Disposition" not in response.headers and not isinstance(json_in(response), dict):
                raise ValueError(f"no answer of FATE-Flow's form but HTTP status {response.status_code}")
            return response

    def json_in(response: Response) -> object:
        with suppress(ValueError):
            return response.json()
        return None

    return AnswersOnly()


def fate_version() -> str:
    """FATE's version, also where its modules lie on the path without a record of installation, as in its own image."""
    try:
        return version("pyfate")
    except PackageNotFoundError:
        import fate

        return str(fate.__version__)
