"""``fate-dp upload-examples``: the tables that the jobs in conf/ and the scripts in examples/ read."""
from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def add_upload_examples(commands) -> None:
    """Add ``upload-examples`` to the command line."""
    text = "make and upload the tables that conf/ and examples/ read; tables of the same names are replaced"
    command = commands.add_parser("upload-examples", help=text, description=f"{text[0].upper()}{text[1:]}.")
    command.set_defaults(run=upload_examples)
    command.add_argument(
        "jobs", nargs="*", metavar="JOB",
        help="files of conf/ without .yaml, such as private_homo_nn, or folders of examples/pipeline/, such as dp_hetero_lr; "
             "all unless given")  # fmt: skip
    command.add_argument(
        "--data", type=Path, metavar="FOLDER", help="where default_credit of FATE's examples lies; made up unless given")
    command.add_argument("--flow", metavar="HOST:PORT", help="use a FATE-Flow that already runs")
    command.add_argument("--home", type=Path, default=Path(".fate-dp"), help="folder of the embedded server (.fate-dp)")


def upload_examples(options: argparse.Namespace) -> None:
    """Make the tables in a folder for the time being, upload them, and say what they are called."""
    from fate_dp.deploy.flow_home import open_home
    from fate_dp.privacy import party_files

    from .cli import wide_console
    from .example_tables import Destination, makers_of
    from .flow import resolve_flow
    from .progress import TaskLines

    if options.data is not None and not options.data.is_dir():
        raise ValueError(f"--data {options.data} is not a folder.")
    makers = makers_of(options.jobs)
    address = resolve_flow(options.flow, options.home)
    home = None if options.flow else options.home
    parties = party_files.parties_folder() if options.flow else open_home(options.home).parties
    console = wide_console()
    with TaskLines(console) as lines, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as threads:
        destination = Destination(address, parties, home, lines.task, options.data)
        names = list(threads.map(lambda make: make(destination, Path(folder)), makers))
    console.print(f"Uploaded: {', '.join(sum(names, []))}", markup=False, highlight=False)
