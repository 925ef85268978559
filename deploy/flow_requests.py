"""Questions to a FATE-Flow over HTTP, signed where its client authentication asks for it."""
from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from .flow_address import API_VERSION, FlowAddress
from .flow_credentials import Credentials

PATIENCE_SECONDS = 5.0


class FlowSilent(Exception):
    """Nothing answers at the address; the message is the reason."""


class NotFateFlow(Exception):
    """Something answers that is no FATE-Flow; the message says what."""


@dataclass(frozen=True)
class Answer:
    """FATE-Flow's answer; code 0 is success."""

    code: int
    message: str
    data: object = None


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """FATE-Flow never sends a client elsewhere; whoever does would get the signature with the request."""

    def redirect_request(self, *arguments):
        return None


def ask(
    address: FlowAddress,
    path: str,
    body: dict | None = None,
    credentials: Credentials | None = None,
    patience: float = PATIENCE_SECONDS,
) -> Answer:
    """GET `path`, or POST `body` to it.

    :raises FlowSilent, NotFateFlow: where no FATE-Flow answers.
    """
    request = urllib.request.Request(
        f"http://{address}/{API_VERSION}/{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **(credentials.headers() if credentials else {})},
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), NoRedirect)
    try:
        with direct.open(request, timeout=patience) as response:
            answer = json.load(response)
        return Answer(int(answer["code"]), str(answer.get("message", "")), answer.get("data"))
    except urllib.error.HTTPError as error:
        raise NotFateFlow(f"HTTP status {error.code}") from error
    except urllib.error.URLError as error:
        raise FlowSilent(str(getattr(error.reason, "strerror", None) or error.reason)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotFateFlow("no answer of FATE-Flow's form") from error
    except OSError as error:
        raise FlowSilent(str(error.strerror or error)) from error
    except http.client.HTTPException as error:
        raise NotFateFlow("no HTTP") from error
