"""Whom the ids of a table name, as an upload or a declaration tells the policy of its party before the first job."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.components.common.charges import PartyHome, columns_name, spaces_of
from fate_dp.deploy.flow.home import open_home
from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.labels.flips import record_tags
from fate_dp.privacy.ledger.datasets import is_source
from fate_dp.privacy.ledger.policy import RECORDS, declare_caps, declare_population, declare_source
from fate_dp.privacy.private_files import POLICY_FILE, AnyPath, parties_folder, party_ids

from .party_ledgers import NewCaps, has_ledger, home_at, make_home
from .ready import Parties

if TYPE_CHECKING:
    from fate_client.flow_sdk import FlowClient

ROW_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
OWN_POPULATION = (
    "The ids of {table} merely number its rows, so it has a population of its own and counts together with no other table; "
    f"where equal ids elsewhere name the same records, upload it with --population {RECORDS} before its first job."
)


def number_rows(ids: Iterable[str]) -> bool:
    """Whether ids merely number rows: all are whole numbers, and nine in ten of those from 1 to the largest occur."""
    distinct = set(ids)
    if not distinct or not all(map(ROW_NUMBER.fullmatch, distinct)):
        return False
    return 10 * len(distinct - {"0"}) >= 9 * max(map(int, distinct))


@dataclass(frozen=True)
class Named:
    """A table, ``namespace/name``, and the population of its ids where the operator names one."""

    table: str
    population: str | None = None

    def settled(self, home: PartyHome, numbers: bool) -> str:
        """The population at a party: what was said before, else what is named, else by whether the ids ``numbers`` rows.

        The first job settles it, since records must not get away from what was counted of them. A table that was read
        before anybody said whom its ids name counted in the default one.

        Raises:
            InvalidPolicy: Another one is named after the first job, or the ids are row numbers no more.
        """
        table, named = self.table, self.population
        was_read = has_ledger(home) and any(table in tables for tables in home.ledger.tables().values())
        known = home.policy.populations.get(table, RECORDS if was_read else None)
        if known == table and not numbers and named is None:
            if was_read:
                raise InvalidPolicy(
                    f"The ids of {table} numbered its rows when jobs read it, and these do not; upload the file under another "
                    f"name, or with --population {table} if equal ids still name the same records."
                )
            known = None
        if was_read and named not in (None, known):
            raise InvalidPolicy(
                f"--population is {named}, but jobs have read {table} as a table of the population {known}; upload the file "
                "under another name."
            )
        return named or known or (table if numbers else RECORDS)


@dataclass(frozen=True)
class Owner:
    """Whose table an upload is, and whom its ids name (`Named`); ``tell`` is called with each sentence for the operator.

    Without a ``party`` it is the server's, or that of all parties where the server plays several.
    """

    party: str | None = None
    population: str | None = None
    tell: Callable[[str], None] = lambda sentence: None

    def declare(
        self, client: FlowClient, home: str | os.PathLike | None, table: str, label: str | None, ids: Iterable[str]
    ) -> None:
        """Write a table's population into the policies of its parties, and declare its labels, before it is uploaded."""
        folder = parties_folder() if home is None else open_home(home).parties
        usual, numbers = Parties(), number_rows(ids)
        party = self.party or (client.site.info().get("data") or {}).get("party_id")
        parties = [party] if party else {usual.guest, usual.host, *party_ids(folder)}
        named = Named(table, self.population)
        settled = {each: named.settled(home_at(folder, each), numbers) for each in parties}
        for each, population in settled.items():
            declare_population(make_home(folder, each) / POLICY_FILE, table, population)
        if numbers and self.population is None and table in settled.values():
            self.tell(OWN_POPULATION.format(table=table))
        guest, source = home_at(folder, party or usual.guest), f"{table}/{label}"
        if label is not None and is_source(source) and not guest.policy.is_declared(source):
            declare_source(guest.path / POLICY_FILE, source)
            self.tell(f"Declared the label source {source}; `fate-dp declare {source} --cap EPSILON` sets its cap.")


def declare_table(
    home: Path,
    csv_file: AnyPath,
    named: Named | None = None,
    *,
    id_name: str = "id",
    label: str | None = None,
    caps: NewCaps = NewCaps(),
) -> str:
    """Set the caps of a table before its first job: its caps and population in the policy, its records in the ledger.

    A job may leave columns away or take some rows. The ledger knows the table by its records then, as soon as it has
    seen them; here it sees them before anybody can ask for less. ``named`` is what the file is uploaded as, None where its
    ids may name anybody. Returns the dataset's name in the ledger; raises InvalidPolicy or
    InvalidArgument, of the file, before any cap is declared.
    """
    from .csv_files import TableMeta, read_csv_file

    table = read_csv_file(csv_file, TableMeta(id_name, label))
    columns, ids = table.features, table.ids.tolist()
    party, tables = PartyHome(home), [] if named is None else [named.table]
    if named is not None:
        declare_population(home / POLICY_FILE, named.table, named.settled(party, number_rows(ids)))
    spaces = spaces_of(party.policy.populations_of(tables))
    tags = chain.from_iterable(record_tags(ids, party.key, space) for space in spaces)
    # Another table with these columns has their name already; the caps are of these records.
    name = party.ledger.remember_dataset(
        columns_name(columns), columns, records=tags, key_id=party.key_id, tables=tables
    )
    declare_caps(
        home / POLICY_FILE, name, epsilon=caps.epsilon, delta=caps.delta, scores=caps.scores, losses=caps.losses
    )
    return name
