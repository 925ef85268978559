"""The commands ``fate-dp doctor`` and ``fate-dp provider``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.deploy.flow import DEFAULT_HOME

from .console import Commands, Run, add_command, add_flow, add_home, add_kinds, sentence

if TYPE_CHECKING:
    from fate_dp.deploy.doctor.findings import Finding
    from fate_dp.deploy.flow.client import FlowAddress

COLOURS = {"ok": "green", "warning": "yellow", "not seen": "yellow", "problem": "bold red"}
DEFAULT_FILE = Path("fate-dp-provider.json")


def add_doctor(commands: Commands) -> None:
    """Add ``doctor`` to the command line."""
    text = "check the installation, the parties' folders, FATE-Flow and peers, and say what to do"
    command = add_command(
        commands,
        "doctor",
        text,
        doctor,
        description=f"{sentence(text)} Exit status 1 if there is a problem.",
        epilog="Run it as the user who runs FATE-Flow. It changes nothing.",
    )
    command.add_argument(
        "--home",
        type=Path,
        default=Path(DEFAULT_HOME),
        help=f"folder of the embedded server and the parties ({DEFAULT_HOME}); where there is none, "
        "$FATE_DP_HOME or ~/.fate-dp is looked at",
    )
    command.add_argument("--flow", metavar="HOST:PORT", help="the site's FATE-Flow, if not the embedded one")
    command.add_argument(
        "--peer", metavar="HOST:PORT", nargs="+", action="extend", default=[], help="FATE-Flow of another party"
    )
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")


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

    from .console import wide_console

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
    """Add ``provider register``, ``provider list`` and ``provider remove`` to the command line."""
    text = "make an environment with FATE-DP known to a FATE-Flow that runs in another one"
    kinds = add_kinds(commands, "provider", text, "what to do")

    def add(name: str, text: str, run: Run) -> argparse.ArgumentParser:
        command = add_command(kinds, name, text, run)
        add_home(command, "folder of the embedded server")
        add_flow(command)
        return command

    command = add("register", "check an environment, write its JSON, and register it", register)
    command.add_argument(
        "--python",
        default=sys.executable,
        metavar="FILE",
        help="the environment's interpreter (the one that runs this command)",
    )
    command.add_argument("--version", metavar="dpVERSION", help="of the provider (dp and the version of FATE-DP there)")
    command.add_argument(
        "--path",
        metavar="FOLDER",
        help="folder in front of its tasks' module path (that of FATE-DP, by which they start warm)",
    )
    command.add_argument(
        "--cold", action="store_true", help="let its tasks start as FATE-Flow starts them; see also up"
    )
    command.add_argument("--out", type=Path, default=DEFAULT_FILE, help=f"the JSON file to write ({DEFAULT_FILE})")
    add("list", "show the providers of FATE's components and where they are", list_providers)
    command = add("remove", "make FATE-Flow forget a provider; jobs that run in it must have ended", remove)
    command.add_argument("version", metavar="dpVERSION", help="of the provider, for example dp0.2.0")


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
    """The lines by which a job chooses a provider."""
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

    from .console import wide_console

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
