"""Where a FATE-Flow server listens, and whether one answers there."""
from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

API_VERSION = "v2"


@dataclass(frozen=True)
class FlowAddress:
    """Host and HTTP port of a FATE-Flow server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def answering_version(address: FlowAddress, patience: float = 5.0) -> str | None:
    """The version of the FATE-Flow that answers at `address` within `patience` seconds, or None."""
    url = f"http://{address}/{API_VERSION}/server/fateflow"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=patience) as response:
            servers = json.load(response)["data"]
        return next(iter(servers.values()))["version"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
