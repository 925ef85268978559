"""A party's key, ledger and policy, opened from its folder. Nothing in it ever leaves the party."""
import os
from dataclasses import dataclass
from functools import cached_property

from fate_dp.privacy import Ledger
from fate_dp.privacy.party_files import KEY_FILE, LEDGER_FILE, POLICY_FILE, parties_folder, party_folder
from fate_dp.privacy.policy import Policy, load_policy
from fate_dp.privacy.secret_key import load_or_create_key


@dataclass(frozen=True)
class JobReference:
    """Which job and task a ledger line belongs to."""

    job_id: str
    task_id: str


class PartyHome:
    """Paths and open handles of one party's home."""

    def __init__(self, party_id: str):
        self.path = party_folder(parties_folder(), party_id)

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


def home_of(ctx) -> PartyHome:
    """The home of the party that runs this process."""
    return PartyHome(ctx.federation.local_party[1])


def job_of(ctx) -> JobReference:
    """FATE-Flow names the job in the environment and the task in the federation session."""
    return JobReference(os.environ.get("FATE_JOB_ID", "local"), ctx.federation.session_id)
