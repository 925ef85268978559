"""The ``fate-dp cap`` command: shows and sets the caps of tables by their names."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..jobs.table_caps import CapLine


def add_cap(commands: Any, add: Callable[..., Any]) -> None:
    """Add the command; ``add`` is what the other commands are added with."""
    purpose = "show or set what a party's table may spend: epsilon, joint scores, labels"
    command = add(commands, cap, purpose, flow=True, json=True)
    command.add_argument(
        "table", metavar="NAMESPACE/NAME", nargs="?", help="a table as it was uploaded; all unless given"
    )
    command.add_argument("--party", help="party id, where several parties have a table of this name")
    command.add_argument(
        "--epsilon", type=float, help="largest total epsilon (nats) of private steps on its records, replace-one"
    )
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: of how many models the guest may see joint scores")
    command.add_argument("--rows", type=int, help="at a host: how many rows it scores for the guest with its weights")
    command.add_argument("--labels", type=float, help="at the guest: largest total epsilon (nats) of its labels")


def cap(options: Namespace) -> None:
    """Show the caps of one table or of all, after setting those that are given."""
    from ..jobs import table_caps
    from ..jobs.party_ledgers import NewCaps

    folder = _folder(options)
    caps = NewCaps(options.epsilon, options.delta, options.scores, options.rows, options.labels)
    if options.table is None:
        if caps.are_given:
            raise ValueError("A cap belongs to a table; name it, as in `fate-dp cap bank/loans --epsilon 3`.")
        tables = table_caps.known_tables(folder, options.party)
    else:
        tables = [
            table_caps.table_of(folder, options.table, options.party, lambda name: _uploaded_columns(options, name))
        ]
    for table in tables if caps.are_given else []:
        table_caps.set_caps(table, caps)
    _show([line for table in tables for line in table_caps.lines_of(table)], options)
    if not options.json:
        set_now = [f"Set the caps of {table.table} at party {table.party}." for table in tables if caps.are_given]
        smaller = [table_caps.smaller_cap_elsewhere(table, caps) for table in tables]
        for sentence in filter(None, [*set_now, *smaller, *map(table_caps.counted_together, tables)]):
            print(sentence)


def _show(lines: list[CapLine], options: Namespace) -> None:
    from .console import wide_console
    from .tables import cap_table, print_table

    if options.json:
        print(json.dumps([{**asdict(line), "left": line.left} for line in lines], indent=2))
    elif not lines:
        print("No table is known: no job has read one, and no label source is declared.")
    else:
        print_table(wide_console(), "Caps of tables; tables with records in common count together", cap_table(lines))


def _uploaded_columns(options: Namespace, table: str) -> list[str] | None:
    """Features of an uploaded table as FATE-Flow tells them; None where it has none of this name, or does not run."""
    from ..jobs.flow import FlowUnavailable, connect, resolve_flow

    try:
        client = connect(resolve_flow(options.flow, options.home))
    except FlowUnavailable:
        if options.flow is not None:
            raise
        return None
    namespace, _, name = table.partition("/")
    answer = client.table.query(namespace=namespace, name=name)
    meta = (answer.get("data") or {}).get("meta") or {}
    fields = (meta.get("schema_meta") or {}).get("fields") or []
    return [field["name"] for field in fields if field.get("property") == "column"] or None


def _folder(options: Namespace) -> Path:
    from fate_dp.privacy import private_files

    from .console import parties_folder

    return private_files.parties_folder() if options.flow else parties_folder(options.home)
