"""Reports of jobs as JSON: written, read back field by field, and those of several parties joined for an auditor.

A report that is read comes from another party, perhaps through several hands. Every field is checked against the
annotations of the dataclasses, so that nothing half-right is joined, and one sentence says which file is wrong.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path

from fate_dp.components.disclosure.declaration import LEARNS
from fate_dp.privacy.declared import Rules
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.text_tables import INFINITE, json_able
from .job_facts import NEVER_RAN, SCHEMA, JobReport, Learned

MAX_BYTES = 64 * 2**20
WRITTEN = Rules(exact=True)


def document_text(report: JobReport) -> str:
    return json.dumps(json_able(asdict(report)), indent=2, allow_nan=False) + "\n"


def read_report(path: Path) -> JobReport:
    """A report from its file; raises InvalidArgument, one sentence that names the file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidArgument(f"{path} has more than {MAX_BYTES >> 20} MB. Name the report of one job.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}; name the JSON file of a report.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not valid JSON. Name a report that `fate-dp report` wrote.") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise InvalidArgument.of(f"schema of {path}", schema, f"{SCHEMA!r}, that of this version's reports")
    return checked(WRITTEN.checked(JobReport, content, str(path)), path)


def checked(report: JobReport, path: Path) -> JobReport:
    """The same report, where what its fields say of each other holds; raises InvalidArgument."""
    try:
        datetime.fromisoformat(report.created)
    except ValueError as error:
        raise InvalidArgument.of(f"created in {path}", report.created, "a time, ISO 8601") from error
    known: set[str] = set()
    for task in report.tasks:
        if not set(task.reads) <= known:
            raise InvalidArgument(
                f"Task {task.name} in {path} must come after those it reads, {', '.join(task.reads)}."
            )
        known.add(task.name)
    strangers = {party for part in report.parts for party in part.parties} - set(report.parties)
    if strangers or not report.parts or not all(part.parties for part in report.parts):
        raise InvalidArgument(f"The parts in {path} must be of parties of the job, {', '.join(report.parties)}.")
    ledgers = [part.ledger for part in report.parts if part.ledger]
    for part in report.parts:
        lines = [line.entry_id for line in part.ledger.lines] if part.ledger else []
        if [each.entry_id for each in part.noise] not in ([], lines):
            raise InvalidArgument(f"{path} has noise on other lines than its ledger's; it was altered.")
    told = [line.epsilon for ledger in ledgers for line in ledger.lines]
    told += [line.epsilon for ledger in ledgers for line in ledger.by_this_job]
    words = [each.learns for each in report.learned]
    if not set(words) <= set(LEARNS) or any(isinstance(epsilon, str) and epsilon != INFINITE for epsilon in told):
        raise InvalidArgument(f"{path} has an epsilon or a degree of learning that no report has; it was altered.")
    return report


def merged(reports: Sequence[JobReport]) -> JobReport:
    """One report of what several parties of a job know together; InvalidArgument for reports that do not fit. Each
    party appears once: of two reports of one party nobody could say which holds."""
    if len(reports) < 2:
        raise InvalidArgument("One report cannot be joined; name the JSON files of two or more parties.")
    first = reports[0]
    jobs = sorted({report.job_id for report in reports})
    if len(jobs) > 1:
        raise InvalidArgument(
            f"These are reports of several jobs, {', '.join(jobs)}; only those of one job are joined."
        )
    if any((report.tasks, report.parties) != (first.tasks, first.parties) for report in reports):
        raise InvalidArgument(f"The reports of job {first.job_id} have different DAGs; one of them was altered.")
    parts = [part for report in reports for part in report.parts]
    twice = sorted({part.party_id for part in parts if [each.party_id for each in parts].count(part.party_id) > 1})
    if twice:
        raise InvalidArgument(f"Party {twice[0]} has two reports of job {first.job_id}; name one of them.")
    order = {task.name: place for place, task in enumerate(first.tasks)}
    seen: dict[str, Learned] = {repr(each): each for report in reports for each in report.learned}
    unknown = [task.name for task in first.tasks if any(task.name in report.unknown for report in reports)]
    began = {run.task for part in parts for run in part.tasks if run.status not in NEVER_RAN}
    never = {task for report in reports for task in report.never_ran}
    return replace(
        first,
        created=max(report.created for report in reports),
        learned=tuple(sorted(seen.values(), key=lambda each: order.get(each.task, len(order)))),
        unknown=tuple(unknown),
        never_ran=tuple(sorted(never - began)),
        parts=tuple(sorted(parts, key=lambda part: first.parties.index(part.parties[0]))),
    )
