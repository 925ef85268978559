"""Tables of a party and what they may spend: ``fate-dp upload``, ``declare``, ``declare-table``, ``cap`` and ``ledger``."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from functools import partial

from fate_dp.privacy.private_files import party_ids
from fate_dp.privacy.validation import InvalidArgument, is_name

from ..jobs import party_ledgers, table_caps
from ..jobs.party_ledgers import NewCaps, all_ledgers, make_home
from ..jobs.text_tables import cap_table, named, print_ledger, print_table, print_totals
from .console import TaskLines, given, parties_folder, running_server, table_meta, wide_console


def upload(options: argparse.Namespace) -> None:
    from ..jobs.populations import Owner
    from ..jobs.upload import upload_table

    namespace, name = _namespace_and_name(options.table)
    meta = table_meta(options, options.label, options.label_type)
    address, home = running_server(options)
    sentences: list[str] = []
    owner = Owner(options.party, sentences.append, shlex.join(["fate-dp", *options.words]))
    with TaskLines(wide_console()) as lines:
        progress = partial(lines.task, "upload")
        upload_table(address, options.csv, namespace, name, meta, progress=progress, home=home, owner=owner)
    print(f"Uploaded {options.csv} as {options.table}.", *sentences, sep="\n")


def _namespace_and_name(table: str) -> tuple[str, str]:
    namespace, _, name = table.partition("/")
    if not is_name(namespace) or not is_name(name):
        raise InvalidArgument.of("table", table, "NAMESPACE/NAME")
    return namespace, name


def ledger(options: argparse.Namespace) -> int:
    """Show what was spent; 1 where no party has a home."""
    folder = parties_folder(options)
    if options.html is not None:
        from ..report.ledger_page import write_ledger_page

        write_ledger_page(folder, options.delta, options.html)
        if not options.json:
            print(f"Wrote {options.html} for the parties in {folder}.")
            return 0
    ledgers = all_ledgers(folder, options.delta, options.json)
    if options.json:
        json.dump(ledgers, sys.stdout, indent=2)
        print()
        return 0 if ledgers else 1
    if not ledgers:
        print(f"No party has a home in {folder}; name the right folder with --home.")
        return 1
    console = wide_console()
    for party, content in ledgers.items():
        print_ledger({party: named(content["entries"], "source", content["tables"])}, console)
        print_totals(party, content, console)
    print(f"These ledgers are in {folder}.")
    return 0


def declare(options: argparse.Namespace) -> None:
    folder = parties_folder(options)
    columns = None if options.columns is None else list(options.columns)
    if options.public is not None:
        party_ledgers.declare_public(folder, options.party, options.source, options.public, table_meta(options))
    path = party_ledgers.declare(
        folder, options.party, options.source, cap=options.cap, columns=columns, records=options.records
    )
    print(f"Declared {options.source} in {path}.")
    sentence = party_ledgers.why_meaningless(folder, options.party, options.source)
    if sentence is not None:
        print(sentence)


def declare_table(options: argparse.Namespace) -> None:
    from ..jobs.populations import declare_table as declare

    if options.table is None and options.population is not None:
        raise ValueError(
            "A population belongs to a table; name it, as in `fate-dp declare-table loans.csv bank/loans`."
        )
    table = options.table and "/".join(_namespace_and_name(options.table))
    home = make_home(parties_folder(options), options.party)
    name = declare(home, options.csv, table, table_meta(options, options.label), NewCaps(**given(options, NewCaps)))
    print(f"Declared {name}, the table {options.csv}, in {home}.")


def cap(options: argparse.Namespace) -> int:
    """Show the caps of one table or of all, after setting those that are given; 1 where no party has a home."""
    folder, caps = parties_folder(options), NewCaps(**given(options, NewCaps))
    if options.table is not None:
        tables = [table_caps.table_of(folder, options.table, options.party)]
    elif caps.are_given:
        raise ValueError("A cap belongs to a table; name it, as in `fate-dp cap bank/loans --epsilon 3`.")
    else:
        tables = table_caps.known_tables(folder, options.party)
    for table in tables if caps.are_given else []:
        table_caps.set_caps(table, caps)
    lines = [{**asdict(line), "left": line.left} for table in tables for line in table_caps.lines_of(table)]
    if options.json:
        print(json.dumps(lines, indent=2))
        return 0 if lines or party_ids(folder) else 1
    if lines:
        title = "Caps of tables; tables with records in common count together"
        print_table(wide_console(), title, cap_table(lines))
    else:
        print(f"No table is known to the parties in {folder}: no job has read one, and no label source is declared.")
    set_now = [f"Set the caps of {table.table} at party {table.party}." for table in tables if caps.are_given]
    smaller = [table_caps.smaller_cap_elsewhere(table, caps) for table in tables]
    for sentence in filter(None, [*set_now, *smaller, *map(table_caps.counted_together, tables)]):
        print(sentence)
    return 0 if lines or party_ids(folder) else 1
