"""Where a party keeps what never leaves it: one folder per party id, with key, ledger and policy.

The folders lie in ``$FATE_DP_HOME`` (default ``~/.fate-dp``), one per party id, because FATE's standalone mode runs all
parties on one machine.
"""
import os
from pathlib import Path

HOME_VARIABLE = "FATE_DP_HOME"
KEY_FILE, LEDGER_FILE, POLICY_FILE = "flip.key", "ledger.sqlite", "policy.yaml"
PARTY_PREFIX = "party-"


def parties_folder() -> Path:
    """The folder of all parties of this machine, as the environment says."""
    return Path(os.environ.get(HOME_VARIABLE) or Path.home() / ".fate-dp")


def party_folder(folder, party_id) -> Path:
    """The folder of one party within that of all."""
    return Path(folder) / f"{PARTY_PREFIX}{party_id}"


def party_ids(folder) -> list:
    """Ids of the parties that have a folder, in order."""
    return sorted(path.name.removeprefix(PARTY_PREFIX) for path in Path(folder).glob(f"{PARTY_PREFIX}*"))
