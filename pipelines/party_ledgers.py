"""Ledgers and policies of parties whose homes lie on this machine, as the client reads and edits them."""
from __future__ import annotations

import os
from pathlib import Path

from fate_dp.privacy import BudgetCap, Ledger, LedgerUnavailable
from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.party_files import LEDGER_FILE, POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.policy import Policy, declare_source, load_policy
from fate_dp.privacy.public_labels import declare_public_labels


def party_ledger(parties_folder, party_id: str) -> list:
    """Entries of one party's ledger; none where the party has no ledger yet."""
    path = party_folder(parties_folder, party_id) / LEDGER_FILE
    return Ledger(path).entries() if _is_there(path) else []


def all_ledgers(parties_folder, delta: float) -> dict:
    """{"party 9999": {"entries": [...], "totals": [...], "budgets": [...]}, ...} of every party with a home here.

    Entries and totals are at ``delta``, budgets at the delta of their caps.


    :raises LedgerUnavailable: when a folder or a ledger cannot be read; what is not shown might have been spent.
    """
    check_delta_or_zero(delta)
    if _is_there(parties_folder) and not os.access(parties_folder, os.R_OK | os.X_OK):
        raise LedgerUnavailable(f"The path {parties_folder} cannot be read: Permission denied.")
    homes = {party_id: party_folder(parties_folder, party_id) for party_id in party_ids(parties_folder)}
    return {f"party {party_id}": _ledger_at(home, delta) for party_id, home in homes.items()}


def _ledger_at(home: Path, delta: float) -> dict:
    if not _is_there(home / LEDGER_FILE):
        return {"entries": [], "totals": [], "budgets": []}
    ledger, policy = Ledger(home / LEDGER_FILE), load_policy(home / POLICY_FILE)
    totals = ledger.totals(delta)
    return {"entries": ledger.entries(delta), "totals": totals, "budgets": _budgets(ledger, policy, totals)}


def _budgets(ledger: Ledger, policy: Policy, totals: list) -> list:
    """What may still be spent where something was: totals at the delta of their cap; infinite ones are outside caps."""
    caps = [(line, _cap_of(policy, line)) for line in totals]
    deltas = {cap.delta for _, cap in caps}
    spent_at = {delta: {_view(line): line["epsilon"] for line in ledger.totals(delta)} for delta in deltas}
    budgets = [_budget(line, spent_at[cap.delta][_view(line)], cap) for line, cap in caps]
    return [line for line in budgets if line["epsilon"] != "infinity"]


def _cap_of(policy: Policy, line: dict) -> BudgetCap:
    if line["unit"] == "label":
        return BudgetCap(policy.label_cap(line["dataset"]), 0.0)
    return policy.dataset_cap(line["dataset"])


def _budget(line: dict, spent, cap: BudgetCap) -> dict:
    left = max(0.0, cap.epsilon - float(spent))
    return {**line, "epsilon": spent, "delta": cap.delta, "cap": cap.epsilon, "left": left}


def _view(line: dict) -> tuple:
    return line["dataset"], line["unit"], line["relation"], line["observer"]


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


def _is_there(path) -> bool:
    try:
        Path(path).stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerUnavailable(f"The path {path} cannot be read: {error.strerror}.") from error
    return True
