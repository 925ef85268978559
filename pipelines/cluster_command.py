"""The ``fate-dp cluster`` command: a FATE cluster of several parties on this machine."""
from __future__ import annotations

from pathlib import Path

CLUSTER_HOME = Path(".fate-dp-cluster")
DEMO_OUTPUT = Path("out/cluster-demo")


def add_cluster(commands) -> None:
    """Add ``cluster up``, ``cluster status``, ``cluster demo`` and ``cluster down`` to the command line."""
    from .cli import add_cold

    text = "run a FATE-Flow server for each party, a message broker and a command router on this machine"
    actions = commands.add_parser("cluster", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        title="actions", metavar="ACTION", required=True
    )
    start = _add(actions, up, "start the cluster, or what of it does not run")
    start.add_argument(
        "--engine", choices=("standalone", "spark"), help="what it computes with; standalone for a new cluster"
    )
    add_cold(start)
    _add(actions, status, "show each piece: state, address, process")
    trial = _add(actions, demo, "run what `fate-dp demo` does between the servers of guest and host")
    trial.add_argument("--out", type=Path, default=DEMO_OUTPUT, help=f"where results go ({DEMO_OUTPUT})")
    _add(actions, down, "stop the cluster and its tasks, nothing else")


def _add(actions, run, text: str):
    command = actions.add_parser(run.__name__, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    command.add_argument(
        "--home", type=Path, default=CLUSTER_HOME, help=f"folder of the cluster and its parties ({CLUSTER_HOME})"
    )
    return command


def up(options) -> None:
    from fate_dp.deploy.cluster import cluster

    cluster.up(
        options.home, options.engine, progress=lambda sentence: print(sentence, flush=True), cold=options.cold)
    print_pieces(cluster.status(options.home))
    print(f"Stop it with `fate-dp cluster down --home {options.home}`.")


def status(options) -> int:
    from fate_dp.deploy.cluster import cluster

    from fate_dp.deploy.warm_start import control

    pieces = cluster.status(options.home)
    if not pieces:
        print(f"No cluster was started in {options.home}; start one with `fate-dp cluster up`.")
        return 3
    print_pieces(pieces)
    for server in cluster.find(options.home).servers:
        print(f"{server.name}: {control.look(server.home.warm).sentence()}")
    return 0 if all(piece.state == "running" for piece in pieces) else 3


def demo(options) -> None:
    from .cli import show_demo

    sites = [site_of(options.home, role) for role in ("guest", "host")]
    show_demo(lambda lines: sites, options.out)


def site_of(home: Path, role: str):
    """The server of the first party with that role.

    :raises FlowUnavailable: it does not run.
    """
    from fate_dp.deploy.cluster import cluster
    from fate_dp.deploy.flow_address import FlowAddress
    from fate_dp.deploy.ports import HOST

    from .demo import Site
    from .flow import FlowUnavailable, answering

    found = cluster.find(home)
    server = found and next(server for server in found.servers if server.party.role == role)
    if server is None or server.status().state != "running":
        raise FlowUnavailable(f"No cluster runs in {home}; start one with `fate-dp cluster up --home {home}`.")
    return Site(answering(FlowAddress(HOST, server.http_port)), server.home.parties, server.folder)


def down(options) -> None:
    from fate_dp.deploy.cluster import cluster

    print("The cluster is stopped." if cluster.down(options.home) else "No cluster of this folder was running.")


def print_pieces(pieces) -> None:
    """A table of the cluster's pieces."""
    from rich.table import Table

    from .cli import wide_console

    table = Table("piece", "state", "address", "pid")
    for piece in pieces:
        table.add_row(piece.name, piece.state, piece.address, str(piece.pid or "-"))
    wide_console().print(table)
