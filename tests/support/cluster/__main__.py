"""``python -m tests.support.cluster``: a FATE-Flow server for each party, a message broker and a command router here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.programs import HOST
from fate_dp.deploy.warm_start import control
from fate_dp.pipelines.cli.console import add_arguments, show_demo, wide_console
from fate_dp.pipelines.cli.main import run_command
from fate_dp.pipelines.demo.run import Site
from fate_dp.pipelines.jobs.flow import FlowUnavailable, answering

from . import cluster
from .programs import ENGINES

COMMAND = "python -m tests.support.cluster"
HOME, DEMO_OUTPUT = Path(".fate-dp-cluster"), Path("out/cluster-demo")
NOT_RUNNING = 3


def main(arguments: list[str] | None = None) -> int:
    """The exit status; a refusal is one sentence on standard error and status 1."""
    return run_command(parser(), arguments)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog=COMMAND, description="A cluster of four parties' servers on this machine.")
    actions = top.add_subparsers(title="actions", metavar="ACTION", required=True)

    def add(run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        command = actions.add_parser(run.__name__, help=text, description=f"{text.capitalize()}.")
        command.set_defaults(run=run)
        command.add_argument("--home", type=Path, default=HOME, help=f"folder of the cluster and its parties ({HOME})")
        return command

    start = add(up, "start the cluster, or what of it does not run")
    start.add_argument("--engine", choices=ENGINES, help="what it computes with; standalone for a new cluster")
    add_arguments(start, {"--cold": None})
    add(status, "show each piece: state, address, process")
    trial = add(demo, "run what `fate-dp demo` does between the servers of guest and host")
    trial.add_argument("--out", type=Path, default=DEMO_OUTPUT, help=f"where results go ({DEMO_OUTPUT})")
    add(down, "stop the cluster and its tasks, nothing else")
    return top


def up(options: argparse.Namespace) -> None:
    cluster.up(options.home, options.engine, progress=lambda sentence: print(sentence, flush=True), cold=options.cold)
    print_pieces(cluster.status(options.home))
    print(f"Stop it with `{COMMAND} down --home {options.home}`.")


def status(options: argparse.Namespace) -> int:
    pieces, found = cluster.status(options.home), cluster.find(options.home)
    if not pieces or found is None:
        print(f"No cluster was started in {options.home}; start one with `{COMMAND} up`.")
        return NOT_RUNNING
    print_pieces(pieces)
    for server in found.servers:
        print(f"{server.name}: {control.look(server.home.warm).sentence()}")
    return 0 if all(piece.state == "running" for piece in pieces) else NOT_RUNNING


def demo(options: argparse.Namespace) -> None:
    sites = site_of(options.home, "guest"), site_of(options.home, "host")
    show_demo(lambda lines: sites, options.out)


def site_of(home: Path, role: str) -> Site:
    """The server of the first party with that role; raises FlowUnavailable where it does not run."""
    found = cluster.find(home)
    server = next(server for server in found.servers if server.party.role == role) if found else None
    if server is None or server.status().state != "running":
        raise FlowUnavailable(f"No cluster runs in {home}; start one with `{COMMAND} up --home {home}`.")
    return Site(answering(FlowAddress(HOST, server.http_port)), server.home.parties, server.folder)


def down(options: argparse.Namespace) -> None:
    print("The cluster is stopped." if cluster.down(options.home) else "No cluster of this folder was running.")


def print_pieces(pieces: Sequence) -> None:
    table = Table("piece", "state", "address", "pid")
    for piece in pieces:
        table.add_row(piece.name, piece.state, piece.address, str(piece.pid or "-"))
    wide_console().print(table)


if __name__ == "__main__":
    sys.exit(main())
