"""The ``fate-dp`` command."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.deploy.flow import home_command
from fate_dp.privacy.validation import InvalidArgument

from .caps import add_cap
from .console import (
    Commands,
    Run,
    TaskLines,
    add_cold,
    add_command,
    add_flow,
    add_home,
    demo_server,
    parties_folder,
    show_demo,
    wide_console,
)
from .plan import add_plan
from .prep import add_prep
from .providers import add_doctor, add_provider
from .run import add_run, add_upload_examples
from .servers import add_backup, add_board, add_cluster

if TYPE_CHECKING:
    from ..jobs.demo import Site


def main(arguments: list | None = None) -> int:
    """Parse, run, and turn a refusal into one sentence on standard error and exit status 1."""
    options = parser().parse_args(arguments)
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
    add(commands, up, "start the embedded FATE-Flow, or do nothing if it runs", port=True, cold=True)
    add(commands, status, "show whether the embedded FATE-Flow runs, and where")
    add(commands, down, "stop the embedded FATE-Flow and its tasks, nothing else")
    text = "train on breast-cancer data with and without label privacy, and compare"
    add(commands, demo, text, flow=True, cold=True, out=True)
    add_upload(commands)
    add_ledger(commands)
    add_declare(commands)
    add_declare_table(commands)
    add_cap(commands, add)
    add_backup(commands)
    add_plan(commands)
    add_prep(commands)
    add_upload_examples(commands)
    add_run(commands)
    add_doctor(commands)
    add_provider(commands)
    add_board(commands)
    add_cluster(commands)
    return top


def add(commands: Commands, run: Run, text: str, **wanted: bool) -> argparse.ArgumentParser:
    """Add a command that is called as its function is, with --home and the `wanted` ones of the flags below."""
    command = add_command(commands, run.__name__.replace("_", "-"), text, run)
    add_home(command, "folder of the embedded server and the parties")
    if wanted.get("port"):
        command.add_argument("--port", type=int, help="HTTP port of the server; a free one unless given")
    if wanted.get("flow"):
        add_flow(command)
    if wanted.get("cold"):
        add_cold(command)
    if wanted.get("out"):
        command.add_argument("--out", type=Path, default=Path("out/demo"), help="where results go (out/demo)")
    if wanted.get("json"):
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return command


def add_upload(commands: Commands) -> None:
    command = add(commands, upload, "check a CSV file and upload it as a table of a party on this server", flow=True)
    command.add_argument("csv", type=Path, help="the file; every column but id and label is a feature")
    command.add_argument("table", metavar="NAMESPACE/NAME", help="what the reader will call it")
    command.add_argument("--id", default="id", help="name of the column that the parties join on (id)")
    command.add_argument("--label", help="name of the label column, at the guest only")
    command.add_argument(
        "--label-type",
        choices=("int32", "float64"),
        help="int32 for classes, float64 for numbers; found out unless given",
    )


def add_ledger(commands: Commands) -> None:
    command = add(commands, ledger, "show what each party's ledger says was spent", json=True)
    command.add_argument("--delta", type=float, default=1e-5, help="delta at which totals are composed (1e-5)")


def add_declare(commands: Commands) -> None:
    command = add(commands, declare, "declare a label source in the policy of a party on this machine")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of an uploaded table")
    command.add_argument("--party", default="9999", help="party id (9999)")
    command.add_argument("--cap", type=float, help="largest total epsilon (nats) that its labels may spend")
    command.add_argument(
        "--columns", metavar="NAME,...", help="the features of its table; labels of others are refused"
    )
    command.add_argument("--records", type=int, help="of how many records labels may ever be released under this name")
    command.add_argument(
        "--public", metavar="CSV", type=Path, help="the labels in this file need no protection (columns id and COLUMN)"
    )
    command.add_argument("--id", default="id", help="name of the id column in that file (id)")


def add_declare_table(commands: Commands) -> None:
    command = add(
        commands, declare_table, "set caps of a party's table before its first job, whatever columns jobs leave"
    )
    command.add_argument("csv", type=Path, help="the file that is, or will be, uploaded")
    command.add_argument("--party", default="9999", help="party id (9999)")
    command.add_argument("--id", default="id", help="name of the column that the parties join on (id)")
    command.add_argument("--label", help="name of the label column, at the guest only")
    command.add_argument("--epsilon", type=float, help="largest total epsilon (nats) of private steps on its records")
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: how many models' joint scores the guest may see")


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
    from fate_dp.privacy import private_files

    from ..jobs.demo import Site

    def find_sites(lines: TaskLines) -> tuple[Site, Site]:
        address, flow_home = demo_server(options, lines)
        # A server that was started otherwise has them where the environment says, if it is on this machine.
        parties = parties_folder(options.home) if flow_home else private_files.parties_folder()
        site = Site(address, parties, flow_home)
        return site, site

    show_demo(find_sites, options.out)
    if not options.flow:
        print(
            f"FATE-Flow still runs, so that the next job starts at once; `{home_command('down', options.home)}` stops it."
        )


def upload(options: argparse.Namespace) -> None:
    from ..jobs.flow import resolve_flow
    from ..jobs.upload import NUMBER_TYPE, TableMeta, found_label_type, upload_table

    namespace, _, name = options.table.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"The table is {options.table!r}; it must read NAMESPACE/NAME.")
    address = resolve_flow(options.flow, options.home)
    meta = TableMeta(id_name=options.id, label_name=options.label)
    if options.label is not None:
        meta = replace(meta, label_type=options.label_type or found_label_type(options.csv, meta))
        if meta.label_type == NUMBER_TYPE:
            print(
                f"The labels {options.label} are uploaded as numbers ({NUMBER_TYPE}); label_flip needs bounds for them, and "
                "dp_hetero_lr family gaussian."
            )
    with TaskLines(wide_console()) as lines:
        upload_table(
            address,
            options.csv,
            namespace,
            name,
            meta,
            progress=lambda task, status, seconds: lines.task("upload", task, status, seconds),
            home=None if options.flow else options.home,
        )
    print(f"Uploaded {options.csv} as {options.table}.")


def ledger(options: argparse.Namespace) -> None:
    from ..jobs.party_ledgers import all_ledgers

    ledgers = all_ledgers(parties_folder(options.home), options.delta)
    if options.json:
        print(json.dumps(ledgers, indent=2))
        return
    from .tables import named, print_budgets, print_ledger, print_totals

    if not ledgers:
        print(f"No party has a home in {parties_folder(options.home)}.")
    console = wide_console()
    for party, content in ledgers.items():
        print_ledger({party: named(content["entries"], "source", content["tables"])}, console)
        print_totals({party: named(content["totals"], "dataset", content["tables"])}, console)
        print_budgets({party: named(content["budgets"], "dataset", content["tables"])}, console)


def declare(options: argparse.Namespace) -> None:
    from ..jobs import party_ledgers

    folder = parties_folder(options.home)
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
    from ..jobs import party_ledgers

    home = party_ledgers.make_home(parties_folder(options.home), options.party)
    caps = party_ledgers.NewCaps(options.epsilon, options.delta, options.scores)
    name = party_ledgers.declare_table(home, options.csv, id_name=options.id, label=options.label, caps=caps)
    print(f"Declared {name}, the table {options.csv}, in {home}.")
