"""The ``fate-dp`` command."""
from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .backup_command import add_backup
from .board_command import add_board
from .cluster_command import add_cluster
from .doctor_command import add_doctor
from .plan_command import add_plan
from .prep_command import add_prep
from .provider_command import add_provider
from .run_command import add_run

DEFAULT_HOME = ".fate-dp"


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
    from fate_dp.deploy.flow_server_error import FlowServerError

    from .flow import FlowUnavailable
    from .job import JobFailed, NoOutput
    from .upload import UploadRefused

    return (ValueError, FlowServerError, FlowUnavailable, JobFailed, NoOutput, UploadRefused)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="fate-dp",
        description="Differential privacy for FATE 2.2: run jobs on FATE-Flow and see what privacy they really spent.",
        epilog="Keys, ledgers and policies of the parties lie in HOME/parties/party-ID and never leave it.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add(commands, up, "start the embedded FATE-Flow, or do nothing if it runs", port=True)
    add(commands, status, "show whether the embedded FATE-Flow runs, and where")
    add(commands, down, "stop the embedded FATE-Flow and its tasks, nothing else")
    add(commands, demo, "train on breast-cancer data with and without label privacy, and compare", flow=True, out=True)
    add_upload(commands)
    add_ledger(commands)
    add_declare(commands)
    add_backup(commands)
    add_plan(commands)
    add_prep(commands)
    add_run(commands)
    add_doctor(commands)
    add_provider(commands)
    add_board(commands)
    add_cluster(commands)
    return top


def add(commands, run, text: str, *, port=False, flow=False, out=False, json=False) -> argparse.ArgumentParser:
    command = commands.add_parser(run.__name__, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    command.add_argument(
        "--home", type=Path, default=Path(DEFAULT_HOME), help="folder of the embedded server and the parties (.fate-dp)"
    )
    if port:
        command.add_argument("--port", type=int, help="HTTP port of the server; a free one unless given")
    if flow:
        command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    if out:
        command.add_argument("--out", type=Path, default=Path("out/demo"), help="where results go (out/demo)")
    if json:
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return command


def add_upload(commands) -> None:
    command = add(commands, upload, "check a CSV file and upload it as a table of a party on this server", flow=True)
    command.add_argument("csv", type=Path, help="the file; every column but id and label is a feature")
    command.add_argument("table", metavar="NAMESPACE/NAME", help="what the reader will call it")
    command.add_argument("--id", default="id", help="name of the column that the parties join on (id)")
    command.add_argument("--label", help="name of the label column, at the guest only")


def add_ledger(commands) -> None:
    command = add(commands, ledger, "show what each party's ledger says was spent", json=True)
    command.add_argument("--delta", type=float, default=1e-5, help="delta at which totals are composed (1e-5)")


def add_declare(commands) -> None:
    command = add(commands, declare, "declare a label source in the policy of a party on this machine")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of an uploaded table")
    command.add_argument("--party", default="9999", help="party id (9999)")
    command.add_argument("--cap", type=float, help="largest total epsilon (nats) that its labels may spend")
    command.add_argument(
        "--public", metavar="CSV", type=Path, help="the labels in this file need no protection (columns id and COLUMN)"
    )
    command.add_argument("--id", default="id", help="name of the id column in that file (id)")


def up(options) -> None:
    from fate_dp.deploy import flow_server

    address = flow_server.up(options.home, options.port, progress=lambda sentence: print(sentence, flush=True))
    print(f"FATE-Flow: http://{address}  (stop it with `fate-dp down`)")


def status(options) -> int:
    from fate_dp.deploy import flow_server

    found = flow_server.status(options.home)
    where = f" at {found.address}" if found.address else ""
    print(f"FATE-Flow of {options.home.resolve()}: {found.state}{where}" + (f", pid {found.pid}" if found.pid else ""))
    return 0 if found.state == "running" else 3


def down(options) -> None:
    from fate_dp.deploy import flow_server

    print("FATE-Flow is stopped." if flow_server.down(options.home) else "No FATE-Flow of this home was running.")


def demo(options) -> None:
    from fate_dp.privacy import party_files

    from .demo import Site

    def find_sites(lines):
        address, flow_home = demo_server(options, lines)
        # A server that was started otherwise has them where the environment says, if it is on this machine.
        parties = parties_folder(options.home) if flow_home else party_files.parties_folder()
        return (Site(address, parties, flow_home),) * 2

    show_demo(find_sites, options.out)
    if not options.flow:
        print("FATE-Flow still runs, so that the next job starts at once; `fate-dp down` stops it.")


def show_demo(find_sites, output: Path) -> None:
    """Run the demo at the sites of guest and host, and print what it found; `find_sites` may tell its progress."""
    from .demo import Run, run_demo
    from .progress import TaskLines
    from .tables import print_ledger, print_result

    console = wide_console()
    with TaskLines(console) as lines:
        result = run_demo(Run(*find_sites(lines), output, lines.task))
    print_result(result, console)
    print_ledger(result["ledgers"], console)
    console.print(f"Report: {output / 'report.html'}   Result: {output / 'result.json'}")


def demo_server(options, lines):
    """The server named with --flow, else the embedded one, started where needed; and the home of the latter."""
    from fate_dp.deploy import flow_server

    from .flow import resolve_flow

    if options.flow:
        return resolve_flow(options.flow, options.home), None
    return flow_server.up(options.home, progress=lines.sentence), options.home


def upload(options) -> None:
    from .flow import resolve_flow
    from .progress import TaskLines
    from .upload import TableMeta, upload_table

    namespace, _, name = options.table.partition("/")
    if not namespace or not name or "/" in name:
        raise ValueError(f"The table is {options.table!r}; it must read NAMESPACE/NAME.")
    address = resolve_flow(options.flow, options.home)
    meta = TableMeta(id_name=options.id, label_name=options.label)
    with TaskLines(wide_console()) as lines:
        upload_table(
            address, options.csv, namespace, name, meta, progress=lambda *news: lines.task("upload", *news),
            home=None if options.flow else options.home,
        )  # fmt: skip
    print(f"Uploaded {options.csv} as {options.table}.")


def ledger(options) -> None:
    from .party_ledgers import all_ledgers

    ledgers = all_ledgers(parties_folder(options.home), options.delta)
    if options.json:
        print(json.dumps(ledgers, indent=2))
        return
    from .tables import print_budgets, print_ledger, print_totals

    if not ledgers:
        print(f"No party has a home in {parties_folder(options.home)}.")
    console = wide_console()
    for party, content in ledgers.items():
        print_ledger({party: content["entries"]}, console)
        print_totals({party: content["totals"]}, console)
        print_budgets({party: content["budgets"]}, console)


def declare(options) -> None:
    from . import party_ledgers

    folder = parties_folder(options.home)
    path = party_ledgers.declare(folder, options.party, options.source, cap=options.cap)
    if options.public is not None:
        party_ledgers.declare_public(folder, options.party, options.source, options.public, options.id)
    print(f"Declared {options.source} in {path}.")


def wide_console():
    """A console whose tables keep their width in a pipe, where rich would assume 80 columns."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


def parties_folder(home: Path) -> Path:
    """Where the embedded server keeps the parties' homes."""
    from fate_dp.deploy.flow_home import open_home

    return open_home(home).parties
