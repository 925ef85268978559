"""Whom the ids of a table name, as an upload or a declaration tells the policy of its party before the first job."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.components.common.charges import PartyHome, columns_name, spaces_of
from fate_dp.components.protocols.score_counts import TRAINING_RECORDS
from fate_dp.deploy.flow import home_command
from fate_dp.deploy.flow.home import open_home
from fate_dp.privacy import InvalidPolicy
from fate_dp.privacy.labels.flips import record_tags
from fate_dp.privacy.ledger.datasets import is_source
from fate_dp.privacy.ledger.policy import RECORDS, declare_caps, declare_facts, declare_source
from fate_dp.privacy.private_files import (
    KEY_FILE,
    POLICY_FILE,
    AnyPath,
    key_id,
    load_or_create_key,
    parties_folder,
    party_ids,
)
from fate_dp.privacy.table_facts import TableFacts

from .csv_files import CsvTable, TableMeta, read_csv_file
from .party_ledgers import NewCaps, has_ledger, home_at, make_home
from .ready import Parties

if TYPE_CHECKING:
    from fate_client.flow_sdk import FlowClient

ROW_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
MERE_NUMBERS = (
    "The ids of {table} merely number its rows. Equal numbers in other tables may be the same records, so they count as "
    "such, and all these tables count together. If they are different records, say so before its first job: `{command}`."
)


def number_rows(ids: Iterable[str]) -> bool:
    """Whether ids merely number rows: all are whole numbers, and nine in ten of those from 1 to the largest occur."""
    distinct = set(ids)
    if not distinct or not all(map(ROW_NUMBER.fullmatch, distinct)):
        return False
    return 10 * len(distinct - {"0"}) >= 9 * max(map(int, distinct))


def settled(home: PartyHome, table: str, named: str | None, numbers: bool) -> str:
    """The population of a table, ``namespace/name``, at a party: what is ``named``, else what was said before, else
    that of all.

    Ids that merely number rows (``numbers``) separate nothing: the same people, saved twice, would have two budgets.
    The first job settles it. A table that was read before anybody said whom its ids name counted in the default one.

    Raises InvalidPolicy where another one is named after the first job, or the ids are row numbers no more.
    """
    was_read = has_ledger(home) and any(table in tables for tables in home.ledger.tables().values())
    known = home.policy.tables.get(table, TableFacts()).population or (RECORDS if was_read else None)
    if known == table and not numbers and named is None:
        if was_read:
            raise InvalidPolicy(
                f"The ids of {table} numbered its rows when jobs read it, and these do not; upload the file under another "
                f"name, or with --population {shlex.quote(table)} if equal ids still name the same records."
            )
        known = None
    if was_read and named not in (None, known):
        raise InvalidPolicy(
            f"--population is {named}, but jobs have read {table} as a table of the population {known}; upload the file under "
            "another name."
        )
    return named or known or RECORDS


@dataclass(frozen=True)
class Owner:
    """Whose table an upload is: that of all parties that the server plays, unless a ``party`` is given. ``tell`` is
    called with each sentence for the operator, ``command`` is what uploaded it."""

    party: str | None = None
    tell: Callable[[str], None] = lambda sentence: None
    command: str = "fate-dp upload FILE NAMESPACE/NAME"

    def declare(self, client: FlowClient, home: str | os.PathLike | None, table: str, csv: CsvTable) -> None:
        """Write what is known of a table into the policies of its parties, and declare its labels, before it is uploaded."""
        folder = parties_folder() if home is None else open_home(home).parties
        usual, numbers, label, facts = Parties(), number_rows(csv.ids), csv.meta.label_name, csv.meta.facts
        party = self.party or (client.site.info().get("data") or {}).get("party_id")
        parties = [party] if party else {usual.guest, usual.host, *party_ids(folder)}
        named = {each: settled(home_at(folder, each), table, facts.population, numbers) for each in parties}
        for each, population in named.items():
            found = replace(facts, population=population, features=tuple(csv.features))
            declare_facts(make_home(folder, each) / POLICY_FILE, table, found)
            keep_blanks(home_at(folder, each), csv.ids, csv.written_ids)
        if numbers and facts.population is None and RECORDS in named.values():
            self.tell(MERE_NUMBERS.format(table=table, command=f"{self.command} --population {shlex.quote(table)}"))
        guest, source = home_at(folder, party or usual.guest), f"{table}/{label}"
        if label is not None and is_source(source) and not guest.policy.is_declared(source):
            declare_source(guest.path / POLICY_FILE, source)
            words = f"declare {shlex.quote(source)} --cap EPSILON"
            command = f"fate-dp {words}" if home is None else home_command(words, home)
            self.tell(f"Declared the label source {source}; `{command}` sets its cap.")


def keep_blanks(home: PartyHome, ids: Collection[str], written_ids: Collection[str]) -> None:
    """Let records that the ledger knows by ids with blanks, of before ids were trimmed, be the same ones without them:
    as the file has them, and with one blank at either end, which somebody may have cut off by hand."""
    if not has_ledger(home) or home.ledger.blanks() is None:
        return
    # Not the key of the home, which is to know what is found here.
    key = load_or_create_key(home.path / KEY_FILE)
    written = {(each, as_written) for each, as_written in zip(ids, written_ids) if each != as_written}
    pairs = [*written, *((each, f" {each}") for each in ids), *((each, f"{each} ") for each in ids)]
    for source in (*home.ledger.sources(key_id(key)), *spaces_of(home.policy.populations_of(None)), TRAINING_RECORDS):
        trimmed, known = (record_tags(each, key, source) for each in zip(*pairs))
        rows = ((*tags, *each.split(own)) for *tags, (own, each) in zip(known, trimmed, pairs))
        home.ledger.keep_blanks(rows, source)


def declare_table(
    home: Path, csv_file: AnyPath, name: str | None = None, meta: TableMeta = TableMeta(), caps: NewCaps = NewCaps()
) -> str:
    """Set the caps of a table before its first job: its caps and population in the policy, its records in the ledger.

    A job may leave columns or rows away; the ledger then knows the table by its records. ``name`` is what the file is
    uploaded as, None where its ids may name anybody. Returns the dataset's name in the ledger; raises InvalidPolicy or
    InvalidArgument before any cap is declared.
    """
    table = read_csv_file(csv_file, meta)
    columns, ids, facts = table.features, table.ids.tolist(), table.meta.facts
    party, tables = PartyHome(home), [] if name is None else [name]
    keep_blanks(party, ids, table.written_ids)
    if name is not None:
        population = settled(party, name, facts.population, number_rows(ids))
        declare_facts(home / POLICY_FILE, name, replace(facts, population=population, features=tuple(columns)))
    spaces = spaces_of(party.policy.populations_of(tables))
    tags = chain.from_iterable(record_tags(ids, party.key, space) for space in spaces)
    # Another table with these columns has their name already; the caps are of these records.
    dataset = party.ledger.remember_dataset(
        columns_name(columns), columns, records=tags, key_id=party.key_id, tables=tables
    )
    path = home / POLICY_FILE
    declare_caps(path, dataset, epsilon=caps.epsilon, delta=caps.delta, scores=caps.scores, losses=caps.losses)
    return dataset
