"""The commands ``fate-dp backup``, ``board`` and ``cluster``: copies, FATE-Board, and a cluster on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.deploy.flow import home_command

from .console import Commands, Run, add_cold, add_command, add_flow, add_home, add_kinds

if TYPE_CHECKING:
    from fate_dp.deploy.backup import Backup

    from ..jobs.demo import Site

DESCRIPTIONS = Path(__file__).parents[1] / "clients"
NOT_CURRENT, NOT_RUNNING = 3, 3
CLUSTER_HOME, DEMO_OUTPUT = Path(".fate-dp-cluster"), Path("out/cluster-demo")


def add_backup(commands: Commands) -> None:
    """Add ``backup`` to the command line."""
    text = "copy the key, the ledger and the policy of every party on this machine, while jobs run"
    command = add_command(commands, "backup", text, backup)
    command.add_argument("folder", type=Path, help="where the copies go, each in a new folder party-ID-TIME")
    add_home(command, "folder of the server and the parties")


def backup(options: argparse.Namespace) -> None:
    from fate_dp.deploy.backup import back_up

    from .console import parties_folder

    def tell(done: Backup) -> None:
        print(f"Party {done.party_id}: {', '.join(done.files)} in {done.folder}.", flush=True)

    back_up(parties_folder(options.home), options.folder, done=tell)


def add_board(commands: Commands) -> None:
    """Add ``board install``, which puts the component descriptions into a FATE-Board, ``board start`` and ``board stop``."""
    kinds = add_kinds(commands, "board", "make FATE-Board draw jobs with our components, or start one", "what to do")
    command = add_command(kinds, "install", "install the component descriptions into the board's dag/ folder", install)
    command.add_argument("dag", metavar="DAG_FOLDER", type=Path, help="dag/ in the working directory of FATE-Board")
    command.add_argument("--check", action="store_true", help="only compare; exit status 3 unless all are current")
    text = "start a FATE-Board of your own for a FATE-Flow, on loopback, with a login and all descriptions"
    command = add_command(kinds, "start", text, start_board)
    command.add_argument("board", metavar="BOARD", type=Path, help="its jar, its unpacked release, or its built source")
    command.add_argument("--port", type=int, help="its port; that of last time, 8080 or a free one unless given")
    command.add_argument("--user", default="admin", help="who may sign in (admin)")
    add_flow(command)
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
    print(f"Sign in as {board.user}; the password stands in {board.password_file}.")
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


def add_cluster(commands: Commands) -> None:
    """Add ``cluster up``, ``cluster status``, ``cluster demo`` and ``cluster down`` to the command line."""
    text = "run a FATE-Flow server for each party, a message broker and a command router on this machine"
    actions = add_kinds(commands, "cluster", text, "actions", "ACTION")

    def add(run: Run, text: str) -> argparse.ArgumentParser:
        command = add_command(actions, run.__name__, text, run)
        add_home(command, "folder of the cluster and its parties", CLUSTER_HOME)
        return command

    start = add(up, "start the cluster, or what of it does not run")
    start.add_argument(
        "--engine", choices=("standalone", "spark"), help="what it computes with; standalone for a new cluster"
    )
    add_cold(start)
    add(status, "show each piece: state, address, process")
    trial = add(demo, "run what `fate-dp demo` does between the servers of guest and host")
    trial.add_argument("--out", type=Path, default=DEMO_OUTPUT, help=f"where results go ({DEMO_OUTPUT})")
    add(down, "stop the cluster and its tasks, nothing else")


def up(options: argparse.Namespace) -> None:
    from fate_dp.deploy.cluster import cluster

    cluster.up(options.home, options.engine, progress=lambda sentence: print(sentence, flush=True), cold=options.cold)
    print_pieces(cluster.status(options.home))
    print(f"Stop it with `fate-dp cluster down --home {options.home}`.")


def status(options: argparse.Namespace) -> int:
    from fate_dp.deploy.cluster import cluster
    from fate_dp.deploy.warm_start import control

    pieces, found = cluster.status(options.home), cluster.find(options.home)
    if not pieces or found is None:
        print(f"No cluster was started in {options.home}; start one with `fate-dp cluster up`.")
        return NOT_RUNNING
    print_pieces(pieces)
    for server in found.servers:
        print(f"{server.name}: {control.look(server.home.warm).sentence()}")
    return 0 if all(piece.state == "running" for piece in pieces) else NOT_RUNNING


def demo(options: argparse.Namespace) -> None:
    from .console import show_demo

    sites = site_of(options.home, "guest"), site_of(options.home, "host")
    show_demo(lambda lines: sites, options.out)


def site_of(home: Path, role: str) -> Site:
    """The server of the first party with that role.

    Raises:
        FlowUnavailable: it does not run.
    """
    from fate_dp.deploy.cluster import cluster
    from fate_dp.deploy.flow.client import FlowAddress
    from fate_dp.deploy.flow.programs import HOST

    from ..jobs.demo import Site
    from ..jobs.flow import FlowUnavailable, answering

    found = cluster.find(home)
    server = next(server for server in found.servers if server.party.role == role) if found else None
    if server is None or server.status().state != "running":
        raise FlowUnavailable(f"No cluster runs in {home}; start one with `fate-dp cluster up --home {home}`.")
    return Site(answering(FlowAddress(HOST, server.http_port)), server.home.parties, server.folder)


def down(options: argparse.Namespace) -> None:
    from fate_dp.deploy.cluster import cluster

    print("The cluster is stopped." if cluster.down(options.home) else "No cluster of this folder was running.")


def print_pieces(pieces: Sequence) -> None:
    """A table of the cluster's pieces."""
    from rich.table import Table

    from .console import wide_console

    table = Table("piece", "state", "address", "pid")
    for piece in pieces:
        table.add_row(piece.name, piece.state, piece.address, str(piece.pid or "-"))
    wide_console().print(table)
