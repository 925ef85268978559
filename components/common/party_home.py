"""The folder of one party on its own machine: key, ledger and policy. Nothing in it ever leaves the party.

``$FATE_DP_HOME`` (default ``~/.fate-dp``) holds one folder per party id, because FATE's standalone mode runs all
parties on one machine.
"""
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fate_dp.privacy import Ledger
from fate_dp.privacy.policy import Policy, load_policy
from fate_dp.privacy.public_labels import KEY_FILE, LEDGER_FILE, POLICY_FILE
from fate_dp.privacy.secret_key import load_or_create_key

HOME_VARIABLE = "FATE_DP_HOME"


@dataclass(frozen=True)
class JobReference:
    """Which job and task a ledger line belongs to."""

    job_id: str
    task_id: str


class PartyHome:
    """Paths and open handles of one party's home."""

    def __init__(self, party_id: str):
        self.path = default_home() / f"party-{party_id}"

    @cached_property
    def key(self) -> bytes:
        """The flip key, made on first use (mode 0600)."""
        return load_or_create_key(self.path / KEY_FILE)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.path / LEDGER_FILE)

    @property
    def policy(self) -> Policy:
        return load_policy(self.path / POLICY_FILE)


def default_home() -> Path:
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".fate-dp")


def home_of(ctx) -> PartyHome:
    """The home of the party that runs this process."""
    return PartyHome(ctx.federation.local_party[1])


def job_of(ctx) -> JobReference:
    """FATE-Flow names the job in the environment and the task in the federation session."""
    return JobReference(os.environ.get("FATE_JOB_ID", "local"), ctx.federation.session_id)
