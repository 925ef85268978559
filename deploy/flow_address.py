"""Where a FATE-Flow server listens."""
from __future__ import annotations

from dataclasses import dataclass

API_VERSION = "v2"


@dataclass(frozen=True)
class FlowAddress:
    """Host and HTTP port of a FATE-Flow server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
