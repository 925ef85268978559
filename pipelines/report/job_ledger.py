"""What a party's ledger says of one job: its lines, what observers were told by it and in all, and caps with what is left."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_dp.components.common.charges import PartyHome
from fate_dp.privacy.ledger.ledger import Ledger
from fate_dp.privacy.ledger.totals import EVERYBODY
from fate_dp.privacy.private_files import AnyPath

from ..jobs.table_caps import known_tables, lines_of
from ..jobs.text_tables import INFINITE, named


@dataclass(frozen=True)
class LedgerLine:
    """One line of a party's ledger as this job used it; epsilon in nats, or the text ``infinity``."""

    entry_id: int
    source: str
    mechanism: str
    unit: str
    relation: str
    observer: str
    epsilon: float | str
    delta: float | None
    rounds: int
    records: int
    uses: int
    pending: int
    counted: bool
    parameters: Mapping[str, Any]
    note: str


@dataclass(frozen=True)
class Told:
    """An upper bound on what one observer was told of a dataset."""

    dataset: str
    unit: str
    relation: str
    observer: str
    epsilon: float | str
    delta: float
    note: str


@dataclass(frozen=True)
class Cap:
    """What may still be spent of a table that the job used."""

    table: str
    kind: str
    spent: float
    cap: float
    left: float
    delta: float | None
    origin: str


@dataclass(frozen=True)
class PartyLedger:
    """The lines of this job, what they tell each observer alone and with all other jobs, and what is left."""

    lines: tuple[LedgerLine, ...]
    by_this_job: tuple[Told, ...]
    by_all_jobs: tuple[Told, ...]
    caps: tuple[Cap, ...]


def ledger_of(home: PartyHome, parties_folder: AnyPath, party_id: str, job_id: str, delta: float) -> PartyLedger:
    """What a party's ledger says of a job at ``delta``, with names of tables in place of those of datasets."""
    ledger, tables_of = home.ledger, home.ledger.tables()
    entries = ledger.entries(delta, job_id)
    touched = {entry["source"] for entry in entries}
    tables = [
        table
        for table in known_tables(parties_folder, party_id)
        if touched & {*table.datasets, *table.sources, table.table}
    ]
    caps = dict.fromkeys(
        Cap(line.table, line.kind, line.spent, line.cap, line.left, line.delta, line.origin)
        for table in tables
        for line in lines_of(table)
    )
    all_jobs = [line for line in told_to_observers(ledger, delta) if line["dataset"] in touched]
    return PartyLedger(
        tuple(map(ledger_line, named(entries, "source", tables_of))),
        tuple(Told(**line) for line in named(told_to_observers(ledger, delta, job_id), "dataset", tables_of)),
        tuple(Told(**line) for line in named(all_jobs, "dataset", tables_of)),
        tuple(caps),
    )


def told_to_observers(ledger: Ledger, delta: float, job_id: str | None = None) -> list[dict[str, Any]]:
    """Totals of a job, or of all: of labels at delta 0 where they have one, as flips do, of anything else at ``delta``."""
    names = ("dataset", "unit", "relation", "observer")
    pure = {
        tuple(line[name] for name in names): line
        for line in ledger.totals(0.0, job_id)
        if line["unit"] == "label" and line["epsilon"] != INFINITE
    }
    found = (pure.get(tuple(line[name] for name in names), line) for line in ledger.totals(delta, job_id))
    return [line for line in found if line["observer"] != EVERYBODY]


def ledger_line(entry: Mapping[str, Any]) -> LedgerLine:
    """Of an entry as the ledger displays it; what names its keys, records and other jobs stays in the ledger."""
    parameters = {name: value for name, value in entry["parameters"].items() if name != "key_id"}
    kept = {name: entry[name] for name in LedgerLine.__dataclass_fields__}
    return LedgerLine(**{**kept, "parameters": parameters})
