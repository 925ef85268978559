"""The ``fate-dp doctor`` command."""
from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

COLOURS = {"ok": "green", "warning": "yellow", "not seen": "yellow", "problem": "bold red"}


def add_doctor(commands) -> None:
    """Add ``doctor`` to the command line."""
    from .cli import DEFAULT_HOME

    text = "check the installation, the parties' folders, FATE-Flow and peers, and say what to do"
    command = commands.add_parser(
        "doctor", help=text, description=text[0].upper() + text[1:] + ". Exit status 1 if there is a problem.",
        epilog="Run it as the user who runs FATE-Flow. It changes nothing.",
    )  # fmt: skip
    command.set_defaults(run=doctor)
    command.add_argument("--home", type=Path, default=Path(DEFAULT_HOME),
                         help=f"folder of the embedded server and the parties ({DEFAULT_HOME}); where there is none, "
                              "$FATE_DP_HOME or ~/.fate-dp is looked at")  # fmt: skip
    command.add_argument("--flow", metavar="HOST:PORT", help="the site's FATE-Flow, if not the embedded one")
    command.add_argument("--peer", metavar="HOST:PORT", nargs="+", action="extend", default=[],
                         help="FATE-Flow of another party")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print JSON instead of a table")


def doctor(options) -> int:
    """Show every finding; 1 if there is a problem."""
    from fate_dp.deploy.doctor.examination import findings, has_problem, look

    from .flow import parse_address

    flow = parse_address(options.flow) if options.flow else None
    peers = tuple(peer_address(text) for text in options.peer)
    results = findings(look(options.home.expanduser().absolute(), flow, peers))
    if options.json:
        print(json.dumps({"sound": not has_problem(results), "findings": [asdict(each) for each in results]}, indent=2))
    else:
        print_findings(results)
    return 1 if has_problem(results) else 0


def peer_address(text: str):
    """Read HOST:PORT of --peer."""
    from .flow import FlowUnavailable, parse_address

    try:
        return parse_address(text)
    except FlowUnavailable as error:
        raise FlowUnavailable(str(error).replace("--flow", "--peer", 1)) from None


def print_findings(results) -> None:
    from rich.table import Column, Table
    from rich.text import Text

    from .cli import wide_console

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
