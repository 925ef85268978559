"""The ``fate-dp`` command."""
from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from fate_dp.deploy.home_command import DEFAULT_HOME, home_command

from .backup_command import add_backup
from .board_command import add_board
from .cap_command import add_cap
from .cluster_command import add_cluster
from .doctor_command import add_doctor
from .examples_command import add_upload_examples
from .plan_command import add_plan
from .prep_command import add_prep
from .provider_command import add_provider
from .run_command import add_run


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


def add(commands, run, text: str, *, port=False, flow=False, cold=False, out=False, json=False) -> argparse.ArgumentParser:
    command = commands.add_parser(run.__name__.replace("_", "-"), help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    command.add_argument(
        "--home", type=Path, default=Path(DEFAULT_HOME), help="folder of the embedded server and the parties (.fate-dp)"
    )
    if port:
        command.add_argument("--port", type=int, help="HTTP port of the server; a free one unless given")
    if flow:
        command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    if cold:
        add_cold(command)
    if out:
        command.add_argument("--out", type=Path, default=Path("out/demo"), help="where results go (out/demo)")
    if json:
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return command


def add_cold(command: argparse.ArgumentParser) -> None:
    """Add the switch of the commands that start a server."""
    command.add_argument(
        "--cold", action="store_true",
        help="from now on, start each task's processes anew instead of from the fork server; without it, warm again",
    )  # fmt: skip


def add_upload(commands) -> None:
    command = add(commands, upload, "check a CSV file and upload it as a table of a party on this server", flow=True)
    command.add_argument("csv", type=Path, help="the file; every column but id and label is a feature")
    command.add_argument("table", metavar="NAMESPACE/NAME", help="what the reader will call it")
    command.add_argument("--id", default="id", help="name of the column that the parties join on (id)")
    command.add_argument("--label", help="name of the label column, at the guest only")
    command.add_argument(
        "--label-type", choices=("int32", "float64"), help="int32 for classes, float64 for numbers; found out unless given"
    )


def add_ledger(commands) -> None:
    command = add(commands, ledger, "show what each party's ledger says was spent", json=True)
    command.add_argument("--delta", type=float, default=1e-5, help="delta at which totals are composed (1e-5)")


def add_declare(commands) -> None:
    command = add(commands, declare, "declare a label source in the policy of a party on this machine")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of an uploaded table")
    command.add_argument("--party", default="9999", help="party id (9999)")
    command.add_argument("--cap", type=float, help="largest total epsilon (nats) that its labels may spend")
    command.add_argument("--columns", metavar="NAME,...", help="the features of its table; labels of others are refused")
    command.add_argument("--records", type=int, help="of how many records labels may ever be released under this name")
    command.add_argument(
        "--public", metavar="CSV", type=Path, help="the labels in this file need no protection (columns id and COLUMN)"
    )
    command.add_argument("--id", default="id", help="name of the id column in that file (id)")


def add_declare_table(commands) -> None:
    command = add(commands, declare_table, "set caps of a party's table before its first job, whatever columns jobs leave")
    command.add_argument("csv", type=Path, help="the file that is, or will be, uploaded")
    command.add_argument("--party", default="9999", help="party id (9999)")
    command.add_argument("--id", default="id", help="name of the column that the parties join on (id)")
    command.add_argument("--label", help="name of the label column, at the guest only")
    command.add_argument("--epsilon", type=float, help="largest total epsilon (nats) of private steps on its records")
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: how many models' joint scores the guest may see")


def up(options) -> None:
    from fate_dp.deploy import flow_server

    address = flow_server.up(
        options.home, options.port, progress=lambda sentence: print(sentence, flush=True), cold=options.cold)
    print(f"FATE-Flow: http://{address}  (stop it with `{home_command('down', options.home)}`)")


def status(options) -> int:
    from fate_dp.deploy import flow_server
    from fate_dp.deploy.flow_home import open_home
    from fate_dp.deploy.warm_start import control

    found = flow_server.status(options.home)
    where = f" at {found.address}" if found.address else ""
    print(f"FATE-Flow of {options.home.resolve()}: {found.state}{where}" + (f", pid {found.pid}" if found.pid else ""))
    if found.state == "running":
        print(control.look(open_home(options.home).warm).sentence())
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
        print(f"FATE-Flow still runs, so that the next job starts at once; `{home_command('down', options.home)}` stops it.")


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
        refuse_cold_elsewhere(options)
        return resolve_flow(options.flow, options.home), None
    return flow_server.up(options.home, progress=lines.sentence, cold=options.cold), options.home


def refuse_cold_elsewhere(options) -> None:
    """How another FATE-Flow starts its tasks is its operator's to say."""
    if options.cold:
        raise ValueError(
            f"--cold is for the embedded FATE-Flow, but --flow names {options.flow}; its operator sets "
            "FATE_DP_WARM_START=off in its environment."
        )


def upload(options) -> None:
    from .flow import resolve_flow
    from .progress import TaskLines
    from .upload import NUMBER_TYPE, TableMeta, found_label_type, upload_table

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
    from .tables import named, print_budgets, print_ledger, print_totals

    if not ledgers:
        print(f"No party has a home in {parties_folder(options.home)}.")
    console = wide_console()
    for party, content in ledgers.items():
        print_ledger({party: named(content["entries"], "source", content["tables"])}, console)
        print_totals({party: named(content["totals"], "dataset", content["tables"])}, console)
        print_budgets({party: named(content["budgets"], "dataset", content["tables"])}, console)


def declare(options) -> None:
    from . import party_ledgers

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


def declare_table(options) -> None:
    from . import declared_tables, party_ledgers

    home = party_ledgers.make_home(parties_folder(options.home), options.party)
    name = declared_tables.declare_table(
        home, options.csv, id_name=options.id, label=options.label, epsilon=options.epsilon, delta=options.delta,
        scores=options.scores,
    )  # fmt: skip
    print(f"Declared {name}, the table {options.csv}, in {home}.")


def wide_console():
    """A console whose tables keep their width in a pipe, where rich would assume 80 columns."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


def parties_folder(home: Path) -> Path:
    """Where the embedded server keeps the parties' homes."""
    from fate_dp.deploy.flow_home import open_home

    return open_home(home).parties
