"""``fate-dp report``: what each party learned in a job that has ended, as one party may know it, or several together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from fate_dp.privacy.validation import InvalidArgument

from .console import Commands, add_command, add_flags, add_home, parties_folder, running_server

if TYPE_CHECKING:
    from ..report.job_facts import JobReport

OUT = Path("out/report")
MERGED = "merged"


def add_report(commands: Commands) -> None:
    text = "write what each party learned in a job that has ended, at what epsilon, as one party may know it"
    epilog = "A report is its party's own: it holds that party's figures and ledger. --merge is for an auditor whom all trust."
    command = add_command(commands, "report", text, report, epilog=epilog)
    command.add_argument("job", metavar="JOB_ID", nargs="?", help="id of the job, as FATE-Flow gave it")
    command.add_argument("--party", metavar="ID", help="whose report it is (the guest's)")
    text = "join the JSON files of several parties' reports of one job"
    command.add_argument("--merge", metavar="JSON", nargs="+", type=Path, help=text)
    command.add_argument("--out", metavar="FOLDER", type=Path, help=f"where the files go ({OUT}/JOB_ID)")
    add_home(command)
    add_flags(command, "flow")


def report(options: argparse.Namespace) -> None:
    """Write the page and the JSON, both or none."""
    from ..report.job_page import write_report

    if (options.job is None) == (options.merge is None):
        raise InvalidArgument("Name either a JOB_ID, or with --merge the JSON files of reports of one job.")
    if options.merge is not None and options.party is not None:
        raise InvalidArgument("--party is for the report of one party; --merge joins all that the files hold.")
    found = merged_report(options) if options.merge is not None else own_report(options)
    name = MERGED if options.merge is not None else f"party-{found.parts[0].party_id}"
    page, document = write_report(found, options.out or OUT / found.job_id, name)
    print(f"Report: {page}   JSON: {document}")
    for each in found.leaks:
        print(f"LEAK: {each.sentence}.")


def own_report(options: argparse.Namespace) -> JobReport:
    from ..jobs.job_plans import JOB_ID
    from ..report.job_facts import ReportRequest, gather

    if not JOB_ID.fullmatch(options.job):
        raise InvalidArgument.of("JOB_ID", options.job, "the id of a job, of twelve digits or more")
    address, home = running_server(options)
    return gather(ReportRequest(address, options.job, parties_folder(options), options.party, home))


def merged_report(options: argparse.Namespace) -> JobReport:
    from ..report.job_documents import merged, read_report

    return merged([read_report(path) for path in options.merge])
