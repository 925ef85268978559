"""The ``fate-dp provider`` command: register, list, remove."""
from __future__ import annotations

import json
import sys
from pathlib import Path

DEFAULT_FILE = Path("fate-dp-provider.json")


def add_provider(commands) -> None:
    """Add ``provider register``, ``provider list`` and ``provider remove`` to the command line."""
    text = "make an environment with FATE-DP known to a FATE-Flow that runs in another one"
    kinds = commands.add_parser("provider", help=text, description=text[0].upper() + text[1:] + ".").add_subparsers(
        title="what to do", metavar="WHAT", required=True
    )
    command = _kind(kinds, "register", "check an environment, write its JSON, and register it", register)
    command.add_argument("--python", default=sys.executable, metavar="FILE",
                         help="the environment's interpreter (the one that runs this command)")  # fmt: skip
    command.add_argument("--version", metavar="dpVERSION", help="of the provider (dp and the version of FATE-DP there)")
    command.add_argument("--path", metavar="FOLDER",
                         help="folder in front of its tasks' module path (that of FATE-DP, by which they start warm)")
    command.add_argument("--cold", action="store_true", help="let its tasks start as FATE-Flow starts them; see also up")
    command.add_argument("--out", type=Path, default=DEFAULT_FILE, help=f"the JSON file to write ({DEFAULT_FILE})")
    _kind(kinds, "list", "show the providers of FATE's components and where they are", list_providers)
    command = _kind(kinds, "remove", "make FATE-Flow forget a provider; jobs that run in it must have ended", remove)
    command.add_argument("version", metavar="dpVERSION", help="of the provider, for example dp0.1.0")


def _kind(kinds, name: str, text: str, run):
    from .cli import DEFAULT_HOME

    command = kinds.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    command.set_defaults(run=run)
    command.add_argument("--home", type=Path, default=Path(DEFAULT_HOME),
                         help=f"folder of the embedded server ({DEFAULT_HOME})")  # fmt: skip
    command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    return command


def register(options) -> None:
    from fate_dp.deploy.provider import registration

    from .whole_file import write_whole

    address = _address(options)
    prepared = registration.prepare(address, options.python, options.version, options.path, options.cold)
    write_whole(options.out, json.dumps(prepared.request(), indent=2) + "\n")
    registration.register(address, prepared)
    print(f"Registered {prepared.name} at {address}, with {', '.join(prepared.components)} ({options.out}).")
    print(how_to_choose(prepared.name))


def how_to_choose(name: str) -> str:
    """The lines by which a job chooses a provider."""
    return "\n".join((
        "A pipeline chooses it with",
        f'    pipeline.conf.set("task", {{"provider": "{name}"}})',
        "and a DAG file with",
        "    dag:",
        "      conf:",
        "        task:",
        f'          provider: "{name}"',
        "Every party looks the name up in its own FATE-Flow, so all of them must have registered it.",
    ))  # fmt: skip


def list_providers(options) -> None:
    from rich.table import Table

    from fate_dp.deploy.provider.registration import providers

    from .cli import wide_console

    table = Table("provider", "Python", "folder in front of its module path")
    for each in sorted(providers(_address(options)), key=lambda each: each.name):
        table.add_row(each.name, each.python, each.path)
    wide_console().print(table)


def remove(options) -> None:
    from fate_dp.deploy.provider import registration

    address = _address(options)
    print(f"Removed {registration.remove(address, options.version)} from {address}.")


def _address(options):
    """Where FATE-Flow is; whether it answers is seen when it is asked, with credentials where it wants some."""
    from .flow import parse_address, resolve_flow

    return parse_address(options.flow) if options.flow else resolve_flow(None, options.home)
