"""The commands of whoever runs a server: ``fate-dp up`` to ``down``, ``demo``, ``doctor``, ``provider``, ``backup``, ``board``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.deploy.flow import home_command

from .console import TaskLines, demo_server, parties_folder, show_demo, wide_console

if TYPE_CHECKING:
    from fate_dp.deploy.backup import Backup
    from fate_dp.deploy.doctor.findings import Finding
    from fate_dp.deploy.flow.client import FlowAddress

COLOURS = {"ok": "green", "warning": "yellow", "not seen": "yellow", "problem": "bold red"}
DESCRIPTIONS = Path(__file__).parents[1] / "clients"
NOT_CURRENT = 3


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


def doctor(options: argparse.Namespace) -> int:
    """Show every finding; 1 if there is a problem."""
    from fate_dp.deploy.doctor.examination import findings, has_problem, look

    from ..jobs.flow import parse_address

    flow = parse_address(options.flow) if options.flow else None
    peers = tuple(parse_address(text, "--peer") for text in options.peer or ())
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


def register(options: argparse.Namespace) -> None:
    from fate_dp.deploy.provider import registration
    from fate_dp.privacy.private_files import atomic_write

    address = _address(options)
    prepared = registration.prepare(
        address, options.python or sys.executable, options.version, options.path, options.cold
    )
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


def backup(options: argparse.Namespace) -> None:
    from fate_dp.deploy.backup import back_up

    def tell(done: Backup) -> None:
        print(f"Party {done.party_id}: {', '.join(done.files)} in {done.folder}.", flush=True)

    back_up(parties_folder(options), options.folder, done=tell)


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
