"""What several commands share: their flags, their console with its progress, and the server that they use.

The flags of all commands are in commands.yaml. What a command needs is imported when it runs: `fate-dp` and its help
start without arrays, tables, a terminal's drawings or FATE.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import yaml

from fate_dp.deploy.flow import DEFAULT_HOME
from fate_dp.privacy.declared import YamlReader
from fate_dp.privacy.private_files import HOME_VARIABLE
from fate_dp.privacy.validation import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console

    from fate_dp.deploy.flow.client import FlowAddress
    from fate_dp.privacy.table_facts import TableFacts

    from ..jobs.csv_files import TableMeta

# Set where another FATE-Flow than the embedded one is what all commands mean, as in our containers.
FLOW_VARIABLE = "FATE_DP_FLOW"
USUAL_HOME = Path(DEFAULT_HOME)
"""What --home is unless given; the object itself says that it was not."""


@cache
def declared() -> dict[str, Any]:
    """What commands.yaml says: the arguments that several commands have, and the commands by their groups."""
    return dict(yaml.load(Path(__file__).with_name("commands.yaml").read_text(encoding="utf-8"), YamlReader))


def add_commands(commands: argparse._SubParsersAction, listed: Mapping[str, Any]) -> None:
    """Add commands as commands.yaml has them, those that have kinds with theirs."""
    for name, told in listed.items():
        text, example = told["help"], f"Example: fate-dp {told['example']}" if "example" in told else ""
        described = told.get("description", f"{text[0].upper()}{text[1:]}.")
        epilog = f"{told.get('epilog', '')} {example}"
        command = commands.add_parser(name, help=text, description=described, epilog=epilog)
        add_arguments(command, told.get("arguments", {}))
        if "kinds" in told:
            metavar = told.get("metavar", "WHAT")
            add_commands(command.add_subparsers(title=told["title"], metavar=metavar, required=True), told["kinds"])
        else:
            command.set_defaults(run=partial(run_declared, told["run"]), called=name)


def add_arguments(to: argparse._ActionsContainer, arguments: Mapping[str, Any]) -> None:
    """Add arguments as commands.yaml has them to a parser or a group."""
    # The environment is asked when a parser is made, not when this is loaded.
    defaults = {"--home": USUAL_HOME, "--flow": os.environ.get(FLOW_VARIABLE)}
    for name, settings in arguments.items():
        if name == "either":
            add_arguments(to.add_mutually_exclusive_group(required=True), settings)
        elif settings is None:
            shared = declared()["shared"][name]
            add_arguments(to, {name: shared} if name.startswith("-") else shared)
        else:
            # Two words for the values of one flag come as a tuple.
            plain = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
            read = {"type": TYPES[settings["type"]]} if "type" in settings else {}
            fixed = {"default": defaults[name]} if name in defaults else {}
            to.add_argument(name, **cast(dict[str, Any], {**plain, **read, **fixed}))


def run_declared(where: str, options: argparse.Namespace) -> int | None:
    """Run the function ``MODULE.FUNCTION`` of this folder; the help, and other commands, do without its module."""
    module, _, function = where.partition(".")
    status: int | None = getattr(import_module(f".{module}", __package__), function)(options)
    return status


def given(options: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of the dataclass `kind` that the command line gave, so that its defaults stand in one place."""
    values = {item.name: getattr(options, item.name, None) for item in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def table_meta(options: argparse.Namespace, label: str | None = None, label_type: str | None = None) -> TableMeta:
    """How a table in a CSV file is read, and what is known of it: as its flags say."""
    from ..jobs.csv_files import TableMeta

    facts = table_facts(options)
    return TableMeta(options.id, label, label_type, delimiter=options.delimiter, encoding=options.encoding, facts=facts)


def table_facts(options: argparse.Namespace) -> TableFacts:
    from fate_dp.privacy.table_facts import TableFacts

    return TableFacts(
        population=getattr(options, "population", None),
        units=_by_column("unit", getattr(options, "unit", None), "UNIT", str),
        ranges=_by_column("range", options.range, "LOW:HIGH", _limits),
        categories=_by_column("categories", options.categories, "A,B,...", texts),
        missing=texts(options.missing) if options.missing else (),
        special=_by_column("special", options.special, "CODE,...", _numbers),
    )


Value = TypeVar("Value")


def _by_column(flag: str, given: list[str] | None, form: str, read: Callable[[str], Value]) -> dict[str, Value]:
    found = {}
    for text in given or []:
        column, _, value = text.rpartition("=")
        try:
            if not column or column in found:
                raise ValueError
            found[column] = read(value)
        except ValueError:
            raise InvalidArgument.of(f"--{flag}", text, f"COLUMN={form}, once for each column") from None
    return found


def texts(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(","))


def share(text: str) -> float:
    """A number as people write shares: 0.5 or 2/3."""
    try:
        return float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction such as 0.5 or 2/3") from error


TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "path": Path, "texts": texts, "share": share}
"""How the texts of arguments are read, by the names in commands.yaml."""


def _numbers(text: str, separator: str = ",") -> tuple[float, ...]:
    """Numbers without a point are whole ones."""
    return tuple(int(each) if each.strip(" -").isdecimal() else float(each) for each in text.split(separator))


def _limits(text: str) -> tuple[float, float]:
    low, high = _numbers(text, ":")
    return low, high


class TaskLines:
    """Progress of jobs on a terminal, as a context manager: what runs now, and a line for each task that has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("starting")
        self._since: dict[tuple[str, str], float] = {}

    def __enter__(self) -> TaskLines:
        self._status.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._status.stop()

    def sentence(self, text: str) -> None:
        self._console.print(text, markup=False)

    def task(self, job: str, task: str, status: str, seconds: float) -> None:
        """A task of a job changed its status, ``seconds`` after the job began."""
        if status.startswith("running"):
            self._since.setdefault((job, task), time.monotonic())
            self._status.update(f"{job}: {task} runs{status.removeprefix('running')}")
        elif status not in ("waiting", "ready"):
            spent = time.monotonic() - self._since.get((job, task), time.monotonic())
            self._console.print(f"{job:<28} {task:<18} {status:<8} {spent:6.1f} s", markup=False, highlight=False)


def wide_console() -> Console:
    """A console whose tables keep their width in a pipe, where rich would assume 80 columns."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)


def parties_folder(options: argparse.Namespace) -> Path:
    """Where the parties' homes are: below --home, else where the environment says, else below the usual home."""
    from fate_dp.deploy.flow.home import open_home
    from fate_dp.privacy import private_files

    elsewhere = getattr(options, "flow", None) or (options.home is USUAL_HOME and HOME_VARIABLE in os.environ)
    return private_files.parties_folder() if elsewhere else open_home(options.home).parties


def running_server(options: argparse.Namespace) -> tuple[FlowAddress, Path | None]:
    """The server named with --flow, else the embedded one, which must run; and the home of the latter."""
    from ..jobs.flow import resolve_flow

    return resolve_flow(options.flow, options.home), None if options.flow else options.home


def demo_server(options: argparse.Namespace, lines: TaskLines) -> tuple[FlowAddress, Path | None]:
    """As `running_server`, but the embedded server is started where needed."""
    from fate_dp.deploy.flow import server

    if not options.flow:
        return server.up(options.home, progress=lines.sentence, cold=options.cold), options.home
    # How another FATE-Flow starts its tasks is its operator's to say.
    if options.cold:
        raise ValueError(
            f"--cold is for the embedded FATE-Flow, but --flow names {options.flow}; its operator sets "
            "FATE_DP_WARM_START=off in its environment."
        )
    return running_server(options)


def show_demo(find_sites: Callable[[TaskLines], tuple], output: Path) -> None:
    """Run the demo at the sites of guest and host, and print what it found; `find_sites` may tell its progress."""
    from ..demo.run import Run, run_demo
    from ..jobs.text_tables import print_ledger, print_result

    console = wide_console()
    with TaskLines(console) as lines:
        guest, host = find_sites(lines)
        result = run_demo(Run(guest, host, output, lines.task))
    print_result(result, console)
    print_ledger(result["ledgers"], console)
    console.print(f"Report: {output / 'job-train-private.html'}   Result: {output / 'result.json'}")
