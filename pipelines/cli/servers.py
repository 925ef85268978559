"""The operator's commands ``fate-dp doctor``, ``provider``, ``backup`` and ``board``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.deploy.flow import DEFAULT_HOME, home_command

from .console import (
    USUAL_HOME,
    Commands,
    Run,
    add_command,
    add_flags,
    add_home,
    add_kinds,
    parties_folder,
    sentence,
    wide_console,
)

if TYPE_CHECKING:
    from fate_dp.deploy.backup import Backup
    from fate_dp.deploy.doctor.findings import Finding
    from fate_dp.deploy.flow.client import FlowAddress

COLOURS = {"ok": "green", "warning": "yellow", "not seen": "yellow", "problem": "bold red"}
PROVIDER_FILE = Path("fate-dp-provider.json")
DESCRIPTIONS = Path(__file__).parents[1] / "clients"
NOT_CURRENT = 3


def add_doctor(commands: Commands) -> None:
    text = "check the installation, the parties' folders, FATE-Flow and peers, and say what to do"
    description = f"{sentence(text)} Exit status 1 if there is a problem."
    epilog = "Run it as the user who runs FATE-Flow. It changes nothing."
    command = add_command(commands, "doctor", text, doctor, description=description, epilog=epilog)
    text = f"({DEFAULT_HOME}, or $FATE_DP_HOME or ~/.fate-dp if there is none)"
    text = f"folder of the embedded server and the parties {text}"
    command.add_argument("--home", type=Path, default=USUAL_HOME, help=text)
    add_flags(command, "flow")
    text = "FATE-Flow of another party"
    command.add_argument("--peer", metavar="HOST:PORT", nargs="+", action="extend", default=[], help=text)
    add_flags(command, "json")


def doctor(options: argparse.Namespace) -> int:
    """Show every finding; 1 if there is a problem."""
    from fate_dp.deploy.doctor.examination import findings, has_problem, look

    from ..jobs.flow import parse_address

    flow = parse_address(options.flow) if options.flow else None
    peers = tuple(parse_address(text, "--peer") for text in options.peer)
    results = findings(look(options.home.expanduser().absolute(), flow, peers))
    if options.json:
        print(json.dumps({"sound": not has_problem(results), "findings": [asdict(each) for each in results]}, indent=2))
    else:
        print_findings(results)
    return 1 if has_problem(results) else 0


def print_findings(results: Sequence[Finding]) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    # A path that is cut in the middle cannot be pasted into the cure's command.
    table = Table("check", "state", Column("found, and what to do", overflow="fold"))
    for each in results:
        told = Text(each.said)
        if each.cure:
            told.append(f"\n{each.cure}", style="bold")
        table.add_row(each.check, Text(each.state, style=COLOURS[each.state]), told)
    counted = {state: sum(each.state == state for each in results) for state in COLOURS}
    console = wide_console()
    console.print(table)
    console.print(", ".join(f"{number} {state}" for state, number in counted.items() if number), markup=False)


def add_provider(commands: Commands) -> None:
    text = "register an environment with FATE-DP at a FATE-Flow that runs in another one"
    kinds = add_kinds(commands, "provider", text, "what to do")

    def add(name: str, text: str, run: Run) -> argparse.ArgumentParser:
        command = add_command(kinds, name, text, run)
        add_home(command, "folder of the embedded server")
        add_flags(command, "flow")
        return command

    command = add("register", "check an environment, write its JSON, and register it", register)
    text = "the environment's interpreter (the one that runs this command)"
    command.add_argument("--python", default=sys.executable, metavar="FILE", help=text)
    command.add_argument("--version", metavar="dpVERSION", help="its version (dp and the version of FATE-DP there)")
    text = "folder in front of its tasks' module path (FATE-DP's, which lets them start warm)"
    command.add_argument("--path", metavar="FOLDER", help=text)
    text = "start its tasks as FATE-Flow starts them; see also up"
    command.add_argument("--cold", action="store_true", help=text)
    command.add_argument("--out", type=Path, default=PROVIDER_FILE, help=f"the JSON file to write ({PROVIDER_FILE})")
    add("list", "show the providers of FATE's components and where they are", list_providers)
    command = add("remove", "make FATE-Flow forget a provider; jobs that run in it must have ended", remove)
    command.add_argument("version", metavar="dpVERSION", help="its version, for example dp0.2.0")


def register(options: argparse.Namespace) -> None:
    from fate_dp.deploy.provider import registration
    from fate_dp.privacy.private_files import atomic_write

    address = _address(options)
    prepared = registration.prepare(address, options.python, options.version, options.path, options.cold)
    atomic_write(options.out, json.dumps(prepared.request(), indent=2) + "\n")
    registration.register(address, prepared)
    print(f"Registered {prepared.name} at {address}, with {', '.join(prepared.components)} ({options.out}).")
    print(how_to_choose(prepared.name))


def how_to_choose(name: str) -> str:
    return f"""\
A pipeline chooses it with
    pipeline.conf.set("task", {{"provider": "{name}"}})
and a DAG file with
    dag:
      conf:
        task:
          provider: "{name}"
Every party looks the name up in its own FATE-Flow, so all of them must have registered it."""


def list_providers(options: argparse.Namespace) -> None:
    from rich.table import Table

    from fate_dp.deploy.provider.registration import providers

    table = Table("provider", "Python", "folder in front of its module path")
    for each in sorted(providers(_address(options)), key=lambda each: each.name):
        table.add_row(each.name, each.python, each.path)
    wide_console().print(table)


def remove(options: argparse.Namespace) -> None:
    from fate_dp.deploy.provider import registration

    address = _address(options)
    print(f"Removed {registration.remove(address, options.version)} from {address}.")


def _address(options: argparse.Namespace) -> FlowAddress:
    """Where FATE-Flow is; whether it answers is seen when it is asked, with credentials where it wants some."""
    from ..jobs.flow import parse_address, resolve_flow

    return parse_address(options.flow) if options.flow else resolve_flow(None, options.home)


def add_backup(commands: Commands) -> None:
    text = "copy the key, the ledger and the policy of every party on this machine, while jobs run"
    command = add_command(commands, "backup", text, backup)
    command.add_argument("folder", type=Path, help="where the copies go, each in a new folder party-ID-noNUMBER-TIME")
    add_home(command, "folder of the server and the parties")


def backup(options: argparse.Namespace) -> None:
    from fate_dp.deploy.backup import back_up

    def tell(done: Backup) -> None:
        print(f"Party {done.party_id}: {', '.join(done.files)} in {done.folder}.", flush=True)

    back_up(parties_folder(options), options.folder, done=tell)


def add_identity(commands: Commands) -> None:
    text = "show the public key that other operators pin for this party; the first call makes it"
    command = add_command(commands, "identity", text, identity)
    add_home(command)
    add_flags(command, "party")
    command = add_command(commands, "peers", "show, pin or forget the identities of other parties' operators", peers)
    text = "another party's public key, once its operator has confirmed it over another channel"
    command.add_argument("--pin", nargs=2, metavar=("PARTY_ID", "KEY"), help=text)
    command.add_argument("--forget", metavar="PARTY_ID", help="remove a pin")
    add_home(command)
    add_flags(command, "party")


def identity(options: argparse.Namespace) -> None:
    from fate_dp.components.common.peers import fingerprint, public_key

    from ..jobs.party_ledgers import make_home

    key = public_key(make_home(parties_folder(options), options.party))
    print(f"Public key of party {options.party}: {key}\nFingerprint: {fingerprint(key)}")


def peers(options: argparse.Namespace) -> None:
    from fate_dp.components.common.peers import fingerprint, pin, pins

    from ..jobs.party_ledgers import make_home

    home = make_home(parties_folder(options), options.party)
    for number, key in filter(None, (options.pin, options.forget and (options.forget, None))):
        pin(home, number, key)
    for number, key in pins(home).items():
        print(f"Party {number} is pinned: {key}, fingerprint {fingerprint(key)}")


def add_clean(commands: Commands) -> None:
    text = "show, or delete, what ended jobs left: logs, folders, tables of tasks, drafts"
    epilog = "Keys, ledgers, policies, models, uploaded tables and unfinished jobs stay."
    command = add_command(commands, "clean", text, clean, epilog=epilog)
    text = "age (30), by job numbers and their order, since clocks can be reset; 0: all, if nothing runs"
    command.add_argument("--older-than", metavar="DAYS", type=float, default=30.0, help=text)
    command.add_argument("--delete", action="store_true", help="delete it; without it, only show it")
    add_home(command)


def clean(options: argparse.Namespace) -> None:
    from fate_dp.deploy.flow.cleaning import clean_home
    from fate_dp.deploy.flow.home import open_home

    from ..jobs.text_tables import print_table, table_of_cells

    home = open_home(options.home)
    found = clean_home(home, options.older_than, options.delete)
    if not found:
        print(f"Nothing in {home.root} belongs to jobs that ended more than {options.older_than:g} days ago.")
        return
    cells = [
        {"what": what, "number": f"{len(sizes):,}", "MB": f"{sum(sizes) / 1e6:,.1f}"} for what, sizes in found.items()
    ]
    print_table(wide_console(), "Left by ended jobs", table_of_cells(cells))
    print("All of it is deleted." if options.delete else "Nothing was deleted; --delete does it.")


def add_board(commands: Commands) -> None:
    kinds = add_kinds(commands, "board", "make FATE-Board draw jobs with our components, or start one", "what to do")
    command = add_command(kinds, "install", "install the component descriptions into the board's dag/ folder", install)
    command.add_argument("dag", metavar="DAG_FOLDER", type=Path, help="dag/ in the working directory of FATE-Board")
    command.add_argument("--check", action="store_true", help="only compare; exit status 3 unless all are current")
    text = "start a FATE-Board of your own for a FATE-Flow, on loopback, with a login and all descriptions"
    command = add_command(kinds, "start", text, start_board)
    command.add_argument("board", metavar="BOARD", type=Path, help="its jar, its unpacked release, or its built source")
    command.add_argument("--port", type=int, help="its port (that of last time, else 8080, else a free one)")
    command.add_argument("--user", default="admin", help="who may sign in (admin)")
    add_flags(command, "flow")
    add_home(command, "folder of the embedded server; the board works in board/ there")
    command = add_command(kinds, "stop", "stop the board that `board start` started, nothing else", stop_board)
    add_home(command, "folder of the embedded server")


def start_board(options: argparse.Namespace) -> None:
    from importlib.metadata import version

    from fate_dp.deploy.board import start

    from ..jobs.flow import resolve_flow

    files, flow = start.find_board(options.board), resolve_flow(options.flow, options.home)
    board = start.start(
        files,
        flow,
        start.board_folder(options.home),
        DESCRIPTIONS,
        version("fate-dp"),
        port=options.port,
        user=options.user,
        progress=lambda sentence: print(sentence, flush=True),
    )
    print(f"FATE-Board of FATE-Flow {flow}: {board.url}")
    print(f"Sign in as {board.user}; the password is in {board.password_file}.")
    print(f"Stop it with `{home_command('board stop', options.home)}`.")


def stop_board(options: argparse.Namespace) -> None:
    from fate_dp.deploy.board.start import board_folder, stop

    print("FATE-Board is stopped." if stop(board_folder(options.home)) else "No FATE-Board of this home was running.")


def install(options: argparse.Namespace) -> int:
    from importlib.metadata import version

    from fate_dp.deploy.board.install import CURRENT, MISSING, OTHER_VERSION, compare
    from fate_dp.deploy.board.install import install as install_descriptions

    work = compare if options.check else install_descriptions
    found = work(options.dag, DESCRIPTIONS, version("fate-dp"))
    done = {} if options.check else {MISSING: "installed", OTHER_VERSION: "replaced"}
    for item in found:
        print(f"{item.path.name}: {done.get(item.state, item.state)}")
    changed = sum(item.state != CURRENT for item in found)
    if options.check:
        print(f"{len(found) - changed} of {len(found)} descriptions in {options.dag} are current.")
        return NOT_CURRENT if changed else 0
    print(f"{changed} of {len(found)} descriptions written to {options.dag}.")
    if any(item.state == OTHER_VERSION for item in found):
        print("Browsers keep the ports that they saw until their local storage for the board is cleared.")
    return 0
