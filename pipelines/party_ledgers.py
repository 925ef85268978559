"""Ledgers and policies of parties whose homes lie on this machine, as the client reads and edits them."""
from __future__ import annotations

from pathlib import Path

from fate_dp.privacy import Ledger
from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.party_files import LEDGER_FILE, POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.policy import declare_source, load_policy
from fate_dp.privacy.public_labels import declare_public_labels


def party_ledger(parties_folder, party_id: str) -> list:
    """Entries of one party's ledger; none where the party has no ledger yet."""
    path = party_folder(parties_folder, party_id) / LEDGER_FILE
    return Ledger(path).entries() if path.exists() else []


def all_ledgers(parties_folder, delta: float) -> dict:
    """{"party 9999": {"entries": [...], "totals": [...]}, ...}, at delta, of every party with a home in the folder."""
    check_delta_or_zero(delta)
    homes = {party_id: party_folder(parties_folder, party_id) for party_id in party_ids(parties_folder)}
    return {f"party {party_id}": ledger_at(home / LEDGER_FILE, delta) for party_id, home in homes.items()}


def ledger_at(path: Path, delta: float) -> dict:
    """Entries and totals of one ledger; none where it does not exist."""
    if not path.exists():
        return {"entries": [], "totals": []}
    ledger = Ledger(path)
    return {"entries": ledger.entries(delta), "totals": ledger.totals(delta)}


def declare(parties_folder, party_id: str, source: str, *, cap=None) -> Path:
    """Declare a label source in a party's policy; returns the policy's path."""
    policy = make_home(parties_folder, party_id) / POLICY_FILE
    declare_source(policy, source, cap=cap)
    return policy


def make_home(parties_folder, party_id: str) -> Path:
    """A party's home, made for its owner's eyes only where it does not exist."""
    home = party_folder(parties_folder, party_id)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def declare_public(parties_folder, party_id: str, source: str, csv_file, id_name: str = "id") -> None:
    """Declare that the labels of a CSV file need no protection, under the source that its upload will have."""
    import pandas

    home = make_home(parties_folder, party_id)
    table = pandas.read_csv(csv_file, usecols=[id_name, source.rpartition("/")[2]], dtype=str)
    declare_public_labels(home, source, table[id_name], table[source.rpartition("/")[2]])


def score_releases(parties_folder, host: str, features: int) -> list:
    """How often the host showed the guest joint scores of training rows, and its cap."""
    home = party_folder(parties_folder, host)
    datasets = {entry["source"] for entry in party_ledger(parties_folder, host) if entry["mechanism"] == "joint scores"}
    ledger, policy = Ledger(home / LEDGER_FILE), load_policy(home / POLICY_FILE)
    return [
        {"party": f"host {host}", "released": ledger.scores_released(name), "cap": policy.score_cap(name, features)}
        for name in sorted(datasets)
    ]
