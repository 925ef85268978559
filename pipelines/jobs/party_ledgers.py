"""Ledgers and policies of parties whose homes lie on this machine, as the client reads and edits them."""

from __future__ import annotations

import math
import os
import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.components.common.charges import PartyHome, label_cap
from fate_dp.privacy import BudgetCap, InvalidPolicy, LedgerUnavailable
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.ledger.entries import COUNTED_EVENTS
from fate_dp.privacy.ledger.ledger import declare_public_labels
from fate_dp.privacy.ledger.policy import declare_source
from fate_dp.privacy.ledger.totals import EVERYBODY
from fate_dp.privacy.private_files import LEDGER_FILE, POLICY_FILE, AnyPath, make_closed_folder, party_folder, party_ids
from fate_dp.privacy.validation import DEFAULT_DELTA, check_delta_or_zero, check_party_id

if TYPE_CHECKING:
    from .csv_files import TableMeta


@dataclass(frozen=True)
class NewCaps:
    """Caps of a table that are to be set, under the names of the flags of ``fate-dp cap``; None leaves one as it is."""

    epsilon: float | None = None
    delta: float | None = None
    scores: int | None = None
    losses: int | None = None
    rows: int | None = None
    labels: float | None = None

    @property
    def are_given(self) -> bool:
        return any(getattr(self, item.name) is not None for item in fields(self))


def home_at(parties_folder: AnyPath, party_id: str) -> PartyHome:
    """The home of a party among those of this machine."""
    return PartyHome(party_folder(parties_folder, party_id))


def homes_of(parties_folder: AnyPath, party_id: str | None = None) -> dict[str, PartyHome]:
    """Homes by party id: of one party, or of all that have one on this machine."""
    ids = party_ids(parties_folder) if party_id is None else [party_id]
    return {each: home_at(parties_folder, each) for each in ids}


def party_ledger(parties_folder: AnyPath, party_id: str, delta: float = DEFAULT_DELTA) -> list[dict[str, Any]]:
    """Entries of one party's ledger, epsilons at ``delta``; none where the party has no ledger yet."""
    home = home_at(parties_folder, party_id)
    return home.ledger.entries(delta) if has_ledger(home) else []


def all_ledgers(parties_folder: AnyPath, delta: float, with_jobs: bool = True) -> dict[str, dict[str, Any]]:
    """Of every party with a home here its entries, totals and budgets, and the names of each dataset's tables, if known.

    Entries, without the names of all jobs unless ``with_jobs``, and totals are at ``delta``, budgets at the delta of their caps. Raises LedgerUnavailable where a folder or a
    ledger cannot be read: what is not shown might have been spent.
    """
    check_delta_or_zero(delta)
    if _is_there(parties_folder) and not os.access(parties_folder, os.R_OK | os.X_OK):
        raise LedgerUnavailable(f"The path {parties_folder} cannot be read: Permission denied.")
    return {
        f"party {party_id}": _ledger_at(home, delta, with_jobs) for party_id, home in homes_of(parties_folder).items()
    }


def _ledger_at(home: PartyHome, delta: float, with_jobs: bool) -> dict[str, Any]:
    if not has_ledger(home):
        return {"entries": [], "totals": [], "budgets": [], "tables": {}}
    ledger, totals = home.ledger, home.ledger.totals(delta)
    entries, budgets = ledger.entries(delta, with_jobs=with_jobs), _budgets(home, totals)
    return {"entries": entries, "totals": totals, "budgets": budgets, "tables": ledger.tables()}


def _budgets(home: PartyHome, totals: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What everybody together may still see, at the delta of the cap: finite replace-one totals, against which caps are
    checked."""
    budgets, ledger, policy = [], home.ledger, home.policy
    for line in totals:
        if line["relation"] != REPLACE_ONE or line["observer"] != EVERYBODY:
            continue
        dataset = line["dataset"]
        if line["unit"] == "label":
            cap, spent, delta = spent_on_labels(home, dataset)
        else:
            cap = policy.dataset_cap(dataset, ledger.related(dataset))
            delta, spent = cap.delta, ledger.spent_by_steps(dataset, cap.delta)
        shown = {name: value for name, value in line.items() if name != "note"}
        left = max(0.0, cap.epsilon - spent)
        if math.isfinite(spent):
            budgets.append({**shown, "epsilon": spent, "delta": delta, "cap": cap.epsilon, "left": left})
    return budgets


def declare(
    parties_folder: AnyPath,
    party_id: str,
    source: str,
    *,
    cap: float | None = None,
    columns: list[str] | None = None,
    records: int | None = None,
) -> Path:
    """Declare a label source in a party's policy, perhaps for one table only; returns the policy's path."""
    policy = make_home(parties_folder, party_id) / POLICY_FILE
    declare_source(policy, source, cap=cap, columns=columns, records=records)
    return policy


def label_budget(parties_folder: AnyPath, party_id: str, source: str) -> tuple[float, float]:
    """(cap, spent) of a label source, in nats at delta 0, or with noise on sums of labels at that of the caps; ``InvalidPolicy`` where the party has not declared it."""
    home = home_at(parties_folder, party_id)
    policy = home.policy
    if not policy.is_declared(source):
        raise InvalidPolicy(
            f"Party {party_id} has not declared the label source {source}; `fate-dp declare {shlex.quote(source)}` does."
        )
    if not has_ledger(home):
        return policy.label_cap(source), 0.0
    cap, spent, _ = spent_on_labels(home, source)
    return cap.epsilon, spent


def spent_on_labels(home: PartyHome, account: str) -> tuple[BudgetCap, float, float]:
    """(cap, spent, at which delta) of labels; at delta 0 but where noise on sums of them has no epsilon there."""
    cap, exact = label_cap(home, account), home.ledger.spent_of_labels(account)
    if math.isfinite(exact):
        return cap, exact, 0.0
    return cap, home.ledger.spent_of_labels(account, cap.delta), cap.delta


def make_home(parties_folder: AnyPath, party_id: str) -> Path:
    """A party's home, made for its owner's eyes only where it does not exist."""
    home = party_folder(parties_folder, check_party_id(party_id))
    make_closed_folder(home)
    return home


def declare_public(parties_folder: AnyPath, party_id: str, source: str, csv_file: AnyPath, meta: TableMeta) -> None:
    """Declare that the labels of a CSV file need no protection, under the source that its upload will have."""
    from .csv_files import read_csv_file

    label = source.rpartition("/")[2]
    table = read_csv_file(csv_file, replace(meta, label_name=label))
    declare_public_labels(make_home(parties_folder, party_id), source, table.ids, table.frame[label])


def why_meaningless(parties_folder: AnyPath, party_id: str, source: str) -> str | None:
    """One sentence where no job will ask for a declared label source, as far as the ledgers here tell; sources count
    where a party is the guest of a job, and has the table."""
    table, homes = source.rpartition("/")[0], homes_of(parties_folder)
    read = {reader: home.ledger.tables().values() for reader, home in homes.items() if has_ledger(home)}
    readers = [reader for reader, tables in read.items() if any(table in names for names in tables)]
    if readers and party_id not in readers:
        return (
            f"At party {party_id} this has no effect so far: jobs have read {table} at party {readers[0]}; declare a label "
            f"source at the guest, with --party {readers[0]}."
        )
    shown = [entry for entry in party_ledger(parties_folder, party_id) if entry["mechanism"] in COUNTED_EVENTS]
    if shown and not readers:
        return f"Party {party_id} has been a host of jobs; a label source has an effect only in jobs whose guest it is."
    return None


def score_releases(parties_folder: AnyPath, host: str, features: int) -> list[dict[str, Any]]:
    """Of how many models the host showed the guest joint scores of the training rows of each of its tables, and its cap."""
    home = home_at(parties_folder, host)
    ledger, policy = home.ledger, home.policy
    counted = {name: ledger.scores_released(name) for name in sorted(ledger.tables() if has_ledger(home) else ())}
    return [
        {
            "party": f"host {host}",
            "table": ledger.called(name),
            "released": released,
            "cap": policy.score_cap(name, features, ledger.related(name)),
        }
        for name, released in counted.items()
        if released
    ]


def has_ledger(home: PartyHome) -> bool:
    """Whether the party has a ledger; ``LedgerUnavailable`` where nobody can tell."""
    return _is_there(home.path / LEDGER_FILE)


def _is_there(path: AnyPath) -> bool:
    try:
        Path(path).stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise LedgerUnavailable(f"The path {path} cannot be read: {error.strerror}.") from error
    return True
