"""What several commands share: their flags, their console with its progress, and the server that they use.

What a command needs beyond its flags is imported where it begins, here and in the modules of all commands: `fate-dp`
and its help start without arrays, tables, a terminal's drawings or FATE.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fate_dp.deploy.flow import DEFAULT_HOME
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
Commands = argparse._SubParsersAction
"""Where commands are added, each with its own parser."""
Run = Callable[[argparse.Namespace], "int | None"]
"""What a command does with its flags; returns the exit status, None for success."""


def add_command(
    commands: Commands, name: str, text: str, run: Run | None = None, **more: Any
) -> argparse.ArgumentParser:
    """Add a command whose help is `text`; `more` are further settings of its parser."""
    command = commands.add_parser(name, help=text, **{"description": sentence(text), **more})
    if run is not None:
        command.set_defaults(run=run)
    return command


def add_kinds(commands: Commands, name: str, text: str, title: str, metavar: str = "WHAT") -> Commands:
    """Add a command that has commands of its own; returns where these are added."""
    return add_command(commands, name, text).add_subparsers(title=title, metavar=metavar, required=True)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def add_home(
    command: argparse.ArgumentParser,
    text: str = "folder of the embedded server and the parties",
    default: Path = USUAL_HOME,
) -> None:
    command.add_argument("--home", type=Path, default=default, help=f"{text} ({default})")


FLAGS: dict[str, dict[str, Any]] = {
    "flow": {
        "metavar": "HOST:PORT",
        "help": f"use a FATE-Flow that already runs (${FLOW_VARIABLE}, else the embedded one)",
    },
    "cold": {
        "action": "store_true",
        "help": "from now on, start each task's processes anew instead of from the fork server; without it, warm again",
    },
    "json": {"action": "store_true", "help": "print JSON instead of a table"},
    "party": {"default": "9999", "help": "party id (9999)"},
    "id": {"default": "id", "help": "name of the column that the parties join on (id)"},
    "label": {"help": "name of the label column, at the guest only"},
    "population": {
        "metavar": "NAME",
        "help": "whom its ids name: equal ids of one population are one record (records, for all tables)",
    },
    "encoding": {"help": "the file's encoding; UTF-8, UTF-16 with its mark and GBK are detected"},
    "delimiter": {"metavar": "CHARACTER", "help": "between values (detected)"},
    "missing": {"metavar": "CODE,...", "help": "also read as missing, like blanks, NA, NULL and ?"},
    **{
        name: {"metavar": f"COLUMN={form}", "action": "append", "help": text}
        for name, (form, text) in {
            "categories": ("A,B,...", "texts of a column; each becomes its number in this order, from 0"),
            "special": ("CODE,...", "numbers that are codes, such as income=-999,-1; each gets a bin of its own"),
            "range": ("LOW:HIGH", "public limits of a column, such as age=18:100, not taken from its values"),
            "unit": ("UNIT", "unit of a column, for human readers"),
        }.items()
    },
    "over-sampling": {"help": "smotenc, smotenc_parents, smote or none (smotenc)"},
    "neighbours": {"type": int, "help": "nearest loans that a synthetic one may be drawn towards (5)"},
}
"""Flags of several commands."""


TABLE_FLAGS = ("id", "encoding", "delimiter", "missing", "categories", "special", "range", "unit")


def add_flags(command: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        command.add_argument(f"--{name}", **FLAGS[name])
    if "flow" in names:
        command.set_defaults(flow=os.environ.get(FLOW_VARIABLE))


def given(options: argparse.Namespace, kind: type) -> dict[str, Any]:
    """The fields of the dataclass `kind` that the command line gave, so that its defaults stand in one place."""
    values = {item.name: getattr(options, item.name, None) for item in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def table_meta(options: argparse.Namespace, label: str | None = None, label_type: str | None = None) -> TableMeta:
    """How a table in a CSV file is read, and what is known of it: what `TABLE_FLAGS` were given."""
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
