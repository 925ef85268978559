"""Ledgers and policies of parties whose homes lie on this machine, as the client reads and edits them."""
from __future__ import annotations

import os
from pathlib import Path

from fate_dp.privacy import BudgetCap, InvalidPolicy, Ledger, LedgerUnavailable
from fate_dp.privacy.accounting.privacy_parameters import check_delta_or_zero
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.ledger.entry import JOINT_SCORES
from fate_dp.privacy.party_files import LEDGER_FILE, POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.policy import Policy, declare_source, load_policy
from fate_dp.privacy.public_labels import declare_public_labels


def party_ledger(parties_folder, party_id: str) -> list:
    """Entries of one party's ledger; none where the party has no ledger yet."""
    path = party_folder(parties_folder, party_id) / LEDGER_FILE
    return Ledger(path).entries() if _is_there(path) else []


def all_ledgers(parties_folder, delta: float) -> dict:
    """{"party 9999": {"entries": [...], "totals": [...], "budgets": [...], "tables": {...}}, ...} of every party with a
    home here.

    Entries and totals are at ``delta``, budgets at the delta of their caps; ``tables`` are the names of the tables that
    each dataset was read from, where that is known.

    :raises LedgerUnavailable: when a folder or a ledger cannot be read; what is not shown might have been spent.
    """
    check_delta_or_zero(delta)
    if _is_there(parties_folder) and not os.access(parties_folder, os.R_OK | os.X_OK):
        raise LedgerUnavailable(f"The path {parties_folder} cannot be read: Permission denied.")
    homes = {party_id: party_folder(parties_folder, party_id) for party_id in party_ids(parties_folder)}
    return {f"party {party_id}": _ledger_at(home, delta) for party_id, home in homes.items()}


def _ledger_at(home: Path, delta: float) -> dict:
    if not _is_there(home / LEDGER_FILE):
        return {"entries": [], "totals": [], "budgets": [], "tables": {}}
    ledger, policy = Ledger(home / LEDGER_FILE), load_policy(home / POLICY_FILE)
    totals = ledger.totals(delta)
    budgets = _budgets(ledger, policy, totals)
    return {"entries": ledger.entries(delta), "totals": totals, "budgets": budgets, "tables": ledger.tables()}


def _budgets(ledger: Ledger, policy: Policy, totals: list) -> list:
    """What may still be spent where something was: totals at the delta of their cap; infinite ones are outside caps.

    Replace-one totals only: all events count there, and caps are checked against them.
    """
    caps = [(line, _cap_of(ledger, policy, line)) for line in totals if line["relation"] == REPLACE_ONE]
    deltas = {cap.delta for _, cap in caps}
    spent_at = {delta: {_view(line): line["epsilon"] for line in ledger.totals(delta)} for delta in deltas}
    budgets = [_budget(line, spent_at[cap.delta][_view(line)], cap) for line, cap in caps]
    return [line for line in budgets if line["epsilon"] != "infinity"]


def _cap_of(ledger: Ledger, policy: Policy, line: dict) -> BudgetCap:
    if line["unit"] == "label":
        return BudgetCap(policy.label_cap(line["dataset"]), 0.0)
    return policy.dataset_cap(line["dataset"], ledger.related(line["dataset"]))


def _budget(line: dict, spent, cap: BudgetCap) -> dict:
    left = max(0.0, cap.epsilon - float(spent))
    shown = {name: value for name, value in line.items() if name != "note"}
    return {**shown, "epsilon": spent, "delta": cap.delta, "cap": cap.epsilon, "left": left}


def _view(line: dict) -> tuple:
    return line["dataset"], line["unit"], line["relation"], line["observer"]


def declare(parties_folder, party_id: str, source: str, *, cap=None, columns=None, records=None) -> Path:
    """Declare a label source in a party's policy, perhaps for one table only; returns the policy's path."""
    policy = make_home(parties_folder, party_id) / POLICY_FILE
    declare_source(policy, source, cap=cap, columns=columns, records=records)
    return policy


def label_budget(parties_folder, party_id: str, source: str) -> tuple[float, float]:
    """(cap, spent) of a declared label source, in nats at delta 0.

    :raises InvalidPolicy: the party has not declared it.
    """
    home = party_folder(parties_folder, party_id)
    policy = load_policy(home / POLICY_FILE)
    if not policy.is_declared(source):
        raise InvalidPolicy(f"Party {party_id} has not declared the label source {source}; `fate-dp declare {source}` does.")
    spent = Ledger(home / LEDGER_FILE).spent_of_labels(source) if _is_there(home / LEDGER_FILE) else 0.0
    return policy.label_cap(source), spent


def make_home(parties_folder, party_id: str) -> Path:
    """A party's home, made for its owner's eyes only where it does not exist."""
    home = party_folder(parties_folder, party_id)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


def declare_public(parties_folder, party_id: str, source: str, csv_file, id_name: str = "id") -> None:
    """Declare that the labels of a CSV file need no protection, under the source that its upload will have."""
    import pandas

    label = source.rpartition("/")[2]
    table = pandas.read_csv(csv_file, dtype=str)
    if id_name not in table:
        raise InvalidPolicy(f"The file {csv_file} has no id column {id_name!r}; name it with --id: {_listed(table)}.")
    if label not in table:
        raise InvalidPolicy(f"The file {csv_file} has no label column {label!r}, with which {source} ends: {_listed(table)}.")
    declare_public_labels(make_home(parties_folder, party_id), source, table[id_name], table[label])


def _listed(table) -> str:
    return f"its columns are {', '.join(map(str, table.columns[:8]))}{', ...' if len(table.columns) > 8 else ''}"


def why_meaningless(parties_folder, party_id: str, source: str) -> str | None:
    """One sentence where a declared label source will be asked for by no job, as far as the ledgers here tell.

    Sources count where a party is the guest of a job, and has the table.
    """
    table = source.rpartition("/")[0]
    readers = [reader for reader in party_ids(parties_folder) if table in _tables_of(party_folder(parties_folder, reader))]
    if readers and party_id not in readers:
        return (f"At party {party_id} this means nothing so far: jobs have read {table} at party {readers[0]}; a label source is "
                f"declared where the guest is, with --party {readers[0]}.")  # fmt: skip
    shown = [entry for entry in party_ledger(parties_folder, party_id) if entry["mechanism"] == JOINT_SCORES]
    if shown and not readers:
        return f"Party {party_id} has been a host of jobs; a label source means nothing but in jobs of which it is the guest."
    return None


def _tables_of(home: Path) -> set:
    """Names of the tables that jobs read at a party."""
    if not _is_there(home / LEDGER_FILE):
        return set()
    return {table for tables in Ledger(home / LEDGER_FILE).tables().values() for table in tables}


def score_releases(parties_folder, host: str, features: int) -> list:
    """How often the host showed the guest joint scores of training rows, and its cap."""
    home = party_folder(parties_folder, host)
    datasets = {entry["source"] for entry in party_ledger(parties_folder, host) if entry["mechanism"] == "joint scores"}
    ledger, policy = Ledger(home / LEDGER_FILE), load_policy(home / POLICY_FILE)
    caps = {name: policy.score_cap(name, features, ledger.related(name)) for name in sorted(datasets)}
    return [
        {"party": f"host {host}", "released": ledger.scores_released(name), "cap": cap} for name, cap in caps.items()
    ]


def _is_there(path) -> bool:
    try:
        Path(path).stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerUnavailable(f"The path {path} cannot be read: {error.strerror}.") from error
    return True
