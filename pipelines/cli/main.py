"""The ``fate-dp`` command."""

import argparse
import codecs
import io
import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from fate_dp.deploy.flow import home_command
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument, is_name

from ..jobs.text_tables import cap_table, named, print_ledger, print_table, print_totals
from .audit import add_audit
from .check import add_check
from .console import (
    TABLE_FLAGS,
    Commands,
    Run,
    TaskLines,
    add_command,
    add_flags,
    add_home,
    demo_server,
    parties_folder,
    running_server,
    show_demo,
    table_meta,
    texts,
    wide_console,
)
from .data import add_prep
from .plan import add_plan
from .report import add_attack, add_report
from .servers import add_backup, add_board, add_clean, add_doctor, add_identity, add_provider
from .try_model import add_try

AS_GIVEN = "fate_dp.as_given"
FATE_EXTRA = "fate fate_client fate_flow fate_utils imblearn packaging pandas pkg_resources psutil pyarrow sklearn"
EXTRAS = {
    **dict.fromkeys(FATE_EXTRA.split(), "fate"),
    **dict.fromkeys(("jinja2", "markupsafe", "matplotlib"), "report"),
    **dict.fromkeys(("kymatio", "torch"), "nn"),
}
"""Which extra of the package brings a module that the privacy core does without."""
GROUPS = {
    "Begin": ("demo", "try scorecard bank.csv shop.csv --id id --label y --epsilon 1", "up", "status", "down"),
    "Tables": (
        "upload loans.csv bank/loans --label y",
        "prep lending-club --csv loan.csv --out prepared",
        "upload-prepared prepared",
        "canaries loans.csv bank/loans/y --count 1000 --out with_canaries.csv",
    ),
    "Before a job": (
        "plan labels --records 569 --epsilon 2",
        "check job.yaml",
        "declare bank/loans/y --cap 4",
        "declare-table loans.csv bank/loans --epsilon 3",
        "cap bank/payments --epsilon 3",
    ),
    "After a job": ("ledger --html ledger.html", "report JOB_ID", "audit JOB_ID", "attack JOB_ID"),
    "Operate": (
        "stop JOB_ID",
        "doctor --flow 127.0.0.1:9380",
        "backup /srv/backups",
        "identity --party 9999",
        "peers --pin 10000 5f0c...",
        "clean --older-than 90 --delete",
        "provider list",
        "board start /opt/fateboard",
    ),
}
"""An example of each command, as the help shows them."""


def main(arguments: list[str] | None = None) -> int:
    return run_command(parser(), arguments)


def run_command(commands: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Parse, run, and turn a refusal into one sentence on standard error and exit status 1."""
    options = commands.parse_args(arguments)
    options.words = sys.argv[1:] if arguments is None else arguments
    codecs.register_error(AS_GIVEN, _as_given)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=AS_GIVEN)
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
    except (ValueError, FlowServerError) as refusal:
        print(refusal, file=sys.stderr)
        return 1
    except ModuleNotFoundError as missing:
        # What an extra would have brought; any other module that is missing is a bug.
        extra = EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        print(_of_an_extra(missing.name, extra), file=sys.stderr)
        return 1
    except OSError as error:
        # An error of the system names its number; others, but those of copied folders, are bugs and keep their traceback.
        if error.errno is None and not isinstance(error, shutil.Error):
            raise
        print(_of_the_system(error), file=sys.stderr)
        return 1


def _as_given(error: UnicodeError) -> tuple[str | bytes, int]:
    """Of what a terminal cannot show: a path in another encoding byte by byte, so that it can be pasted; else its code."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)


def _of_the_system(error: OSError) -> str:
    """One sentence for a full disk, a missing permission, a folder where a file should be, and their like."""
    if error.errno is None:
        return f"A folder cannot be copied: {error.args[0][0][2]}."
    what, reason = error.filename or "A file or a socket", os.strerror(error.errno or 0)
    if isinstance(error, PermissionError):
        return f"{what} is not accessible to this user: {reason}; name another place with --out or --home."
    return f"{what} cannot be used: {reason}."


def _of_an_extra(package: str | None, extra: str) -> str:
    where = (
        " with Python 3.10 or 3.11, for which FATE is made" if extra == "fate" and sys.version_info >= (3, 12) else ""
    )
    return f'This command needs the package {package}; run `pip install "fate-dp[{extra}]"`{where}.'


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="fate-dp",
        description="Differential privacy for FATE 2.2: run jobs on FATE-Flow and see what privacy they really spent.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    command = add(commands, up, "start the embedded FATE-Flow, or do nothing if it runs")
    command.add_argument("--port", type=int, help="HTTP port of the server (a free one)")
    add_flags(command, "cold")
    add(commands, status, "show whether the embedded FATE-Flow runs, where, and its unfinished jobs")
    command = add(commands, stop, "stop a job that has not ended, and free its cores", "flow")
    command.add_argument("job", metavar="JOB", help="its id, as `fate-dp status` shows it")
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
    add_identity(commands)
    add_clean(commands)
    add_check(commands)
    add_report(commands)
    add_audit(commands)
    add_attack(commands)
    add_plan(commands)
    add_prep(commands)
    add_doctor(commands)
    add_provider(commands)
    add_board(commands)
    top.epilog = f"{in_groups(commands)}Keys, ledgers and policies are in HOME/parties/party-ID and never leave it."
    return top


def in_groups(commands: Commands) -> str:
    """The commands with their examples, which their own help gets as well; the list of all in one goes."""
    told, text = {each.dest: each.help for each in commands._choices_actions}, ""
    commands._choices_actions.clear()
    for title, examples in GROUPS.items():
        text += f"{title}:\n"
        for example in (each for each in examples if each.split()[0] in told):
            name = example.split()[0]
            commands.choices[name].epilog = f"{commands.choices[name].epilog or ''} Example: fate-dp {example}"
            text += f"  {name:<17}{told[name]}\n{'':19}fate-dp {example}\n"
        text += "\n"
    return text


def add(commands: Commands, run: Run, text: str, *flags: str) -> argparse.ArgumentParser:
    """Add a command that is called as its function is, with --home and these of `console.FLAGS`."""
    command = add_command(commands, run.__name__.replace("_", "-"), text, run)
    add_home(command)
    add_flags(command, *flags)
    return command


def add_upload(commands: Commands) -> None:
    text = "check a CSV file and upload it as a table of a party on this server"
    command = add(commands, upload, text, "flow", "label", "population", *TABLE_FLAGS)
    command.add_argument("csv", type=Path, help="the file; every column but id and label is a feature")
    command.add_argument("table", metavar="NAMESPACE/NAME", help="what the reader will call it")
    text = "int32 for classes, float64 for numbers (detected)"
    command.add_argument("--label-type", choices=("int32", "float64"), help=text)
    command.add_argument("--party", help="party that owns the table (the server's party, or every party that it plays)")


def add_declare(commands: Commands) -> None:
    command = add(commands, declare, "declare a label source in the policy of a party on this machine", "party")
    command.add_argument("source", metavar="NAMESPACE/NAME/COLUMN", help="the label column of an uploaded table")
    command.add_argument("--cap", type=float, help="largest total epsilon (nats) that its labels may spend")
    text = "the features of its table; labels of others are refused"
    command.add_argument("--columns", metavar="NAME,...", help=text)
    command.add_argument("--records", type=int, help="how many records may ever have labels released under this name")
    text = "the labels in this file need no protection (columns id and COLUMN)"
    command.add_argument("--public", metavar="CSV", type=Path, help=text)
    add_flags(command, *TABLE_FLAGS)


def add_declare_table(commands: Commands) -> None:
    text = "set caps of a party's table before its first job, whichever columns jobs keep"
    command = add(commands, declare_table, text, "party", "label", "population", *TABLE_FLAGS)
    command.add_argument("csv", type=Path, help="the file that is, or will be, uploaded")
    command.add_argument("table", metavar="NAMESPACE/NAME", nargs="?", help="its name when uploaded")
    add_caps(command)


def add_caps(command: argparse.ArgumentParser) -> None:
    text = "largest total epsilon (nats) of private steps on its records, replace-one"
    command.add_argument("--epsilon", type=float, help=text)
    command.add_argument("--delta", type=float, help="delta at which that total is composed")
    command.add_argument("--scores", type=int, help="at a host: number of models whose joint scores the guest may see")
    command.add_argument("--losses", type=int, help="at a host: number of trainings whose losses the guest may see")


def add_cap(commands: Commands) -> None:
    command = add(
        commands, cap, "show or set what a party's table may spend: epsilon, joint scores, labels", "flow", "json"
    )
    text = "name of an uploaded table (all)"
    command.add_argument("table", metavar="NAMESPACE/NAME", nargs="?", help=text)
    command.add_argument("--party", help="party id, where several parties have a table of this name")
    add_caps(command)
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
    from fate_dp.deploy.flow.unfinished import cores_in_use, settings_of, unfinished_jobs
    from fate_dp.deploy.warm_start import control

    found = server.status(options.home)
    where = f" at {found.address}" if found.address else ""
    print(f"FATE-Flow of {options.home.resolve()}: {found.state}{where}" + (f", pid {found.pid}" if found.pid else ""))
    if found.state == "running" and found.address:
        print(control.look(open_home(options.home).warm).sentence())
        try:
            jobs = unfinished_jobs(found.address)
            print(*jobs or ["No job is unfinished."], cores_in_use(jobs, settings_of(found.address)), sep="\n")
        except server.FlowServerError as refusal:
            print(refusal)
    return 0 if found.state == "running" else 3


def stop(options: argparse.Namespace) -> None:
    from fate_dp.deploy.flow.unfinished import stop_job

    from ..jobs.flow import resolve_flow

    stop_job(resolve_flow(options.flow, options.home), options.job)
    print(f"Job {options.job} is stopped.")


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
            f"FATE-Flow keeps running so that the next job starts at once; `{home_command('down', options.home)}` stops it."
        )


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
    from ..jobs.party_ledgers import all_ledgers

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
    from ..jobs import party_ledgers

    folder = parties_folder(options)
    columns = None if options.columns is None else list(texts(options.columns))
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
    from ..jobs.party_ledgers import NewCaps, make_home
    from ..jobs.populations import declare_table as declare

    if options.table is None and options.population is not None:
        raise ValueError(
            "A population belongs to a table; name it, as in `fate-dp declare-table loans.csv bank/loans`."
        )
    table = options.table and "/".join(_namespace_and_name(options.table))
    home = make_home(parties_folder(options), options.party)
    caps = NewCaps(options.epsilon, options.delta, options.scores, options.losses)
    name = declare(home, options.csv, table, table_meta(options, options.label), caps)
    print(f"Declared {name}, the table {options.csv}, in {home}.")


def cap(options: argparse.Namespace) -> int:
    """Show the caps of one table or of all, after setting those that are given; 1 where no party has a home."""
    from fate_dp.privacy.private_files import party_ids

    from ..jobs import table_caps
    from ..jobs.party_ledgers import NewCaps

    folder = parties_folder(options)
    caps = NewCaps(options.epsilon, options.delta, options.scores, options.losses, options.rows, options.labels)
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
