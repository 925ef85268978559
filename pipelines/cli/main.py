"""The ``fate-dp`` command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from fate_dp.deploy.flow import home_command
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument

from ..jobs.text_tables import cap_table, named, print_ledger, print_table, print_totals
from .attack import add_attack
from .audit import add_audit
from .check import add_check
from .console import (
    Commands,
    Run,
    TaskLines,
    add_command,
    add_flags,
    add_home,
    categories_of,
    demo_server,
    parties_folder,
    running_server,
    show_demo,
    wide_console,
)
from .data import add_prep
from .plan import add_plan
from .report import add_report
from .servers import add_backup, add_board, add_doctor, add_provider
from .try_model import add_try


def main(arguments: list[str] | None = None) -> int:
    """Run the command that the arguments name; the exit status."""
    return run_command(parser(), arguments)


def run_command(commands: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse, run, and turn a refusal into one sentence on standard error and exit status 1."""
    options = commands.parse_args(arguments)
    try:
        status = options.run(options) or 0
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("Interrupted; a job that ran was stopped, and no file was left half-written.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has seen enough; the interpreter would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except refusals() as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except OSError as error:
        # An error of the system names its number; others are bugs and keep their traceback.
        if error.errno is None:
            raise
        print(_of_the_system(error), file=sys.stderr)
        return 1


def _of_the_system(error: OSError) -> str:
    """One sentence for a full disk, a missing permission, a folder where a file should be, and their like."""
    what, reason = error.filename or "A file or a socket", os.strerror(error.errno or 0)
    if isinstance(error, PermissionError):
        return f"{what} is not for this user: {reason}; name another place with --out or --home."
    return f"{what} cannot be used: {reason}."


def refusals() -> tuple:
    """What the user can mend; anything else is a bug and keeps its traceback."""
    from fate_dp.deploy.flow.programs import FlowServerError

    from ..jobs.flow import FlowUnavailable
    from ..jobs.job import JobFailed, NoOutput

    return (ValueError, FlowServerError, FlowUnavailable, JobFailed, NoOutput, InvalidArgument)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="fate-dp",
        description="Differential privacy for FATE 2.2: run jobs on FATE-Flow and see what privacy they really spent.",
        epilog="Keys, ledgers and policies of the parties lie in HOME/parties/party-ID and never leave it.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = add(commands, up, "start the embedded FATE-Flow, or do nothing if it runs")
    command.add_argument("--port", type=int, help="HTTP port of the server; a free one unless given")
    add_flags(command, "cold")
    add(commands, status, "show whether the embedded FATE-Flow runs, and where")
    add(commands, down, "stop the embedded FATE-Flow and its tasks, nothing else")
    text = "train on breast-cancer data with and without label privacy, and compare"
    command = add(commands, demo, text, "flow", "cold")
    command.add_argument("--out", type=Path, default=Path("out/demo"), help="where results go (out/demo)")
    add_try(commands)
    add_upload(commands)
    command = add(commands, ledger, "show what each party's ledger says was spent", "json")
    command.add_argument(
        "--delta", type=float, default=DEFAULT_DELTA, help=f"delta at which totals are composed ({DEFAULT_DELTA:g})"
    )
    text = "write a page of what was spent, and when, to this file instead of printing tables"
    command.add_argument("--html", metavar="FILE", type=Path, help=text)
    add_declare(commands)
    add_declare_table(commands)
    add_cap(commands)
    add_backup(commands)
    add_check(commands)
    add_report(commands)
    add_audit(commands)
    add_attack(commands)
    add_plan(commands)
    add_prep(commands)
    add_doctor(commands)
    add_provider(commands)
    add_board(commands)
    return top


def add(commands: Commands, run: Run, text: str, *flags: str) -> argparse.ArgumentParser:
    """Add a command that is called as its function is, with --home and these of `console.FLAGS`."""
    command = add_command(commands, run.__name__.replace("_", "-"), text, run)
    add_home(command)
    add_flags(command, *flags)
    return command


def add_upload(commands: Commands) -> None:
    text = "check a CSV file and upload it as a table of a party on this server"
    command = add(commands, upload, text, "flow", "id", "label", "population", "categories")
    command.add_argument("csv", type=Path, help="the file; every column but id and label is a feature")
    command.add_argument("table", metavar="NAMESPACE/NAME", help="what the reader will call it")
    text = "int32 for classes, float64 for numbers; found out unless given"
    command.add_argument("--label-type", choices=("int32", "float64"), help=text)
    command.add_argument("--encoding", help="of the file; UTF-8, UTF-16 with its mark and GBK are found out")
    command.add_argument("--delimiter", metavar="CHARACTER", help="of its values; found out")
    command.add_argument("--party", help="whose table it is; the server's party, or all that it plays, unless given")


def add_declare(commands: Commands) -> None:
    command = add(commands, declare, "declare a label source in the policy of a party on this machine", "party")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of an uploaded table")
    command.add_argument("--cap", type=float, help="largest total epsilon (nats) that its labels may spend")
    text = "the features of its table; labels of others are refused"
    command.add_argument("--columns", metavar="NAME,...", help=text)
    command.add_argument("--records", type=int, help="of how many records labels may ever be released under this name")
    text = "the labels in this file need no protection (columns id and COLUMN)"
    command.add_argument("--public", metavar="CSV", type=Path, help=text)
    command.add_argument("--id", default="id", help="name of the id column in that file (id)")


def add_declare_table(commands: Commands) -> None:
    text = "set caps of a party's table before its first job, whatever columns jobs leave"
    command = add(commands, declare_table, text, "party", "id", "label", "population")
    command.add_argument("csv", type=Path, help="the file that is, or will be, uploaded")
    command.add_argument("table", metavar="NAMESPACE/NAME", nargs="?", help="as what it is uploaded")
    command.add_argument("--epsilon", type=float, help="largest total epsilon (nats) of private steps on its records")
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: how many models' joint scores the guest may see")
    command.add_argument("--losses", type=int, help="at a host: of how many trainings the guest may see losses")


def add_cap(commands: Commands) -> None:
    command = add(
        commands, cap, "show or set what a party's table may spend: epsilon, joint scores, labels", "flow", "json"
    )
    text = "a table as it was uploaded; all unless given"
    command.add_argument("table", metavar="NAMESPACE/NAME", nargs="?", help=text)
    command.add_argument("--party", help="party id, where several parties have a table of this name")
    text = "largest total epsilon (nats) of private steps on its records, replace-one"
    command.add_argument("--epsilon", type=float, help=text)
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: of how many models the guest may see joint scores")
    command.add_argument("--losses", type=int, help="at a host: of how many trainings the guest may see losses")
    command.add_argument("--rows", type=int, help="at a host: how many rows it scores for the guest with its weights")
    command.add_argument("--labels", type=float, help="at the guest: largest total epsilon (nats) of its labels")


def up(options: argparse.Namespace) -> None:
    from fate_dp.deploy.flow import server

    address = server.up(
        options.home, options.port, progress=lambda sentence: print(sentence, flush=True), cold=options.cold
    )
    print(f"FATE-Flow: http://{address}  (stop it with `{home_command('down', options.home)}`)")


def status(options: argparse.Namespace) -> int:
    from fate_dp.deploy.flow import server
    from fate_dp.deploy.flow.home import open_home
    from fate_dp.deploy.warm_start import control

    found = server.status(options.home)
    where = f" at {found.address}" if found.address else ""
    print(f"FATE-Flow of {options.home.resolve()}: {found.state}{where}" + (f", pid {found.pid}" if found.pid else ""))
    if found.state == "running":
        print(control.look(open_home(options.home).warm).sentence())
    return 0 if found.state == "running" else 3


def down(options: argparse.Namespace) -> None:
    from fate_dp.deploy.flow import server

    print("FATE-Flow is stopped." if server.down(options.home) else "No FATE-Flow of this home was running.")


def demo(options: argparse.Namespace) -> None:
    from ..demo.run import Site

    def find_sites(lines: TaskLines) -> tuple[Site, Site]:
        address, flow_home = demo_server(options, lines)
        site = Site(address, parties_folder(options), flow_home)
        return site, site

    show_demo(find_sites, options.out)
    if not options.flow:
        print(
            f"FATE-Flow still runs, so that the next job starts at once; `{home_command('down', options.home)}` stops it."
        )


def upload(options: argparse.Namespace) -> None:
    from ..jobs.populations import Owner
    from ..jobs.upload import TableMeta, upload_table

    namespace, name = _namespace_and_name(options.table)
    address, home = running_server(options)
    meta = TableMeta(
        options.id,
        options.label,
        options.label_type,
        delimiter=options.delimiter,
        encoding=options.encoding,
        categories=dict(map(categories_of, options.categories)),
    )
    sentences: list[str] = []
    owner = Owner(options.party, options.population, sentences.append)
    with TaskLines(wide_console()) as lines:
        progress = partial(lines.task, "upload")
        upload_table(address, options.csv, namespace, name, meta, progress=progress, home=home, owner=owner)
    print(f"Uploaded {options.csv} as {options.table}.", *sentences, sep="\n")


def _namespace_and_name(table: str) -> tuple[str, str]:
    namespace, _, name = table.partition("/")
    if not namespace or not name or "/" in name:
        raise InvalidArgument.of("table", table, "NAMESPACE/NAME")
    return namespace, name


def ledger(options: argparse.Namespace) -> int:
    """Show what was spent; 1 where no party has a home."""
    from ..jobs.party_ledgers import all_ledgers

    folder = parties_folder(options)
    if options.html is not None:
        from ..report.ledger_page import write_ledger_page

        write_ledger_page(folder, options.delta, options.html)
        if not options.json:
            print(f"Wrote {options.html}, of the parties in {folder}.")
            return 0
    ledgers = all_ledgers(folder, options.delta)
    if options.json:
        print(json.dumps(ledgers, indent=2))
        return 0 if ledgers else 1
    if not ledgers:
        print(f"No party has a home in {folder}; name the right folder with --home.")
        return 1
    console = wide_console()
    for party, content in ledgers.items():
        print_ledger({party: named(content["entries"], "source", content["tables"])}, console)
        print_totals(party, content, console)
    print(f"These ledgers lie in {folder}.")
    return 0


def declare(options: argparse.Namespace) -> None:
    from ..jobs import party_ledgers

    folder = parties_folder(options)
    columns = None if options.columns is None else [name.strip() for name in options.columns.split(",")]
    if options.public is not None:
        party_ledgers.declare_public(folder, options.party, options.source, options.public, options.id)
    path = party_ledgers.declare(
        folder, options.party, options.source, cap=options.cap, columns=columns, records=options.records
    )
    print(f"Declared {options.source} in {path}.")
    sentence = party_ledgers.why_meaningless(folder, options.party, options.source)
    if sentence is not None:
        print(sentence)


def declare_table(options: argparse.Namespace) -> None:
    from ..jobs.party_ledgers import NewCaps, make_home
    from ..jobs.populations import Named
    from ..jobs.populations import declare_table as declare

    if options.table is None and options.population is not None:
        raise ValueError(
            "A population belongs to a table; name it, as in `fate-dp declare-table loans.csv bank/loans`."
        )
    named = options.table and Named("/".join(_namespace_and_name(options.table)), options.population)
    home = make_home(parties_folder(options), options.party)
    caps = NewCaps(options.epsilon, options.delta, options.scores, options.losses)
    name = declare(home, options.csv, named, id_name=options.id, label=options.label, caps=caps)
    print(f"Declared {name}, the table {options.csv}, in {home}.")


def cap(options: argparse.Namespace) -> None:
    """Show the caps of one table or of all, after setting those that are given."""
    from ..jobs import table_caps
    from ..jobs.party_ledgers import NewCaps

    folder = parties_folder(options)
    caps = NewCaps(options.epsilon, options.delta, options.scores, options.losses, options.rows, options.labels)
    if options.table is not None:
        uploaded = partial(_uploaded_columns, options)
        tables = [table_caps.table_of(folder, options.table, options.party, uploaded)]
    elif caps.are_given:
        raise ValueError("A cap belongs to a table; name it, as in `fate-dp cap bank/loans --epsilon 3`.")
    else:
        tables = table_caps.known_tables(folder, options.party)
    for table in tables if caps.are_given else []:
        table_caps.set_caps(table, caps)
    lines = [{**asdict(line), "left": line.left} for table in tables for line in table_caps.lines_of(table)]
    if options.json:
        print(json.dumps(lines, indent=2))
        return
    if lines:
        title = "Caps of tables; tables with records in common count together"
        print_table(wide_console(), title, cap_table(lines))
    else:
        print("No table is known: no job has read one, and no label source is declared.")
    set_now = [f"Set the caps of {table.table} at party {table.party}." for table in tables if caps.are_given]
    smaller = [table_caps.smaller_cap_elsewhere(table, caps) for table in tables]
    for sentence in filter(None, [*set_now, *smaller, *map(table_caps.counted_together, tables)]):
        print(sentence)


def _uploaded_columns(options: argparse.Namespace, table: str) -> list[str] | None:
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
