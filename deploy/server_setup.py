"""What makes one FATE-Flow server different from another: its party, its engines, and the ways to other parties."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COMPUTING_PARTITIONS = 4
JOB_CORES = 4


@dataclass(frozen=True)
class ServerSetup:
    """The defaults are the embedded server's: one server that plays all parties, with standalone engines."""

    party_id: str = ""
    proxy: str = "osx"
    """FATE-Flow's name for the kind of router that brings commands to the other parties' servers."""
    engines: Mapping[str, str] = field(
        default_factory=lambda: {"computing": "standalone", "federation": "standalone", "storage": "standalone"}
    )
    service: Mapping[str, dict] = field(default_factory=dict)
    """Further top-level keys of service_conf.yaml."""
    jobs: Mapping[str, object] = field(
        default_factory=lambda: {"computing_partitions": COMPUTING_PARTITIONS, "job_cores": JOB_CORES}
    )
    """What differs from FATE-Flow's own job_default_config.yaml."""
    routes: Mapping[str, dict] = field(default_factory=dict)
    """Where each party's broker is: the content of rabbitmq_route_table.yaml; none for no broker."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the server and its tasks, beside those that every server has."""


EMBEDDED = ServerSetup()
