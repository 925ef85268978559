"""Who takes part in the cluster."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterParty:
    """A party with a server of its own; `role` is the one it usually plays."""

    role: str
    party_id: str

    @property
    def name(self) -> str:
        """The name of its home in the cluster's folder."""
        return f"{self.role}-{self.party_id}"


PARTIES = (
    ClusterParty("guest", "9999"),
    ClusterParty("host", "10000"),
    ClusterParty("arbiter", "10001"),
    # The study of three institutions and the pipelines with a shuffler need two hosts.
    ClusterParty("host", "9998"),
)
