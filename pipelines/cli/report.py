"""``fate-dp report`` and ``attack``: what a party learned in a job that has ended, or could read in it."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from fate_dp.attacks.of_views import Finding, Truth, fitting, read_truth
from fate_dp.attacks.recorded_view import read_view, views_of
from fate_dp.privacy.ledger.policy import load_policy
from fate_dp.privacy.private_files import POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.validation import InvalidArgument

from ..jobs.job_plans import JOB_ID
from ..jobs.text_tables import json_able, print_table
from ..report.attack_page import BOUNDS, Attacked, counted, finding_table, view_table, write_attack_page
from ..report.job_documents import merged, read_report
from ..report.job_facts import JobReport, ReportRequest, gather
from ..report.job_page import write_report
from .console import parties_folder, running_server, wide_console

OUT = Path("out/report")
MERGED = "merged"
SWITCH = "record_views in the policy.yaml of the party whose view is wanted"


def report(options: argparse.Namespace) -> None:
    """Write the page and the JSON, both or none."""
    if (options.job is None) == (options.merge is None):
        raise InvalidArgument("Name either a JOB_ID, or with --merge the JSON files of reports of one job.")
    if options.merge is not None and options.party is not None:
        raise InvalidArgument("--party is for the report of one party; --merge joins all that the files hold.")
    found = merged([read_report(path) for path in options.merge]) if options.merge is not None else own_report(options)
    name = MERGED if options.merge is not None else f"party-{found.parts[0].party_id}"
    page, document = write_report(found, options.out or OUT / found.job_id, name)
    print(f"Report: {page}   JSON: {document}")
    for each in found.leaks:
        print(f"LEAK: {each.sentence}.")


def own_report(options: argparse.Namespace) -> JobReport:
    if not JOB_ID.fullmatch(options.job):
        raise InvalidArgument.of("JOB_ID", options.job, "the id of a job, of twelve digits or more")
    address, home = running_server(options)
    return gather(ReportRequest(address, options.job, parties_folder(options), options.party, home))


def attack(options: argparse.Namespace) -> None:
    if options.truth is not None and options.label is None:
        raise InvalidArgument("--truth needs --label, the name of its column with the labels.")
    truth = None if options.truth is None else read_truth(options.truth, options.id, options.label)
    paths = named_views(options)
    if options.view is None:
        show([Attacked(path, read_view(path)) for path in paths], options.json)
        return
    found = [attacked(path, options.attack, truth) for path in paths]
    if not any(each.findings for each in found):
        raise InvalidArgument(next((each.refused[0] for each in found if each.refused), found[0].unread))
    if options.html is not None:
        write_attack_page(options.html, found)
        if not options.json:
            print(f"Wrote {options.html}.")
            return
    show(found, options.json)


def named_views(options: argparse.Namespace) -> list[Path]:
    """Files of the views that the command names; raises InvalidArgument where there is none, and says why."""
    named = options.view
    if named is not None and (Path(named).exists() or not JOB_ID.fullmatch(named)):
        return [Path(named)]
    folder = parties_folder(options)
    found = views_of(folder, named, options.party)
    if not found:
        raise InvalidArgument(why_no_view(folder, named, options.party))
    return found


def why_no_view(folder: Path, job: str | None, party: str | None) -> str:
    ids = party_ids(folder) if party is None else [party]
    on = [each for each in ids if load_policy(party_folder(folder, each) / POLICY_FILE).record_views]
    wanted = "no view" if job is None else f"no view of the job {job}"
    if not on:
        return f"There is {wanted}: the recorder is off; {SWITCH} switches it on."
    return f"There is {wanted} in {folder}: the recorder of party {', '.join(on)} is on, but kept none."


def attacked(path: Path, name: str | None, truth: Truth | None) -> Attacked:
    """A view with the findings of all attacks that read it, or of the named one."""
    view = read_view(path)
    try:
        attacks = fitting(view, name)
    except InvalidArgument as refusal:
        return Attacked(path, view, unread=str(refusal))
    findings, refused = [], []
    for each in attacks:
        try:
            findings.append(each.run(view, truth))
        except InvalidArgument as refusal:
            refused.append(str(refusal))
    return Attacked(path, view, tuple(findings), refused=tuple(dict.fromkeys(refused)))


def show(found: list[Attacked], as_json: bool) -> None:
    if as_json:
        print(json.dumps(json_able([document(each) for each in found]), indent=2))
        return
    console = wide_console()
    print_table(console, "Recorded views", view_table(found))
    findings = [(each, finding) for each in found for finding in each.findings]
    if findings:
        print_table(console, "What attacks read in the views", finding_table(findings))
        for each, finding in findings:
            print(f"{finding.attack}, {each.view.task.name}: {finding.says}")
        print(BOUNDS)
    for sentence in (sentence for each in found for sentence in (*each.refused, *each.view.problems)):
        print(sentence)


def document(attacked: Attacked) -> dict[str, Any]:
    task = attacked.view.task
    known = {name: getattr(task, name) for name in ("job", "name", "component", "stage", "role", "party")}
    messages, kept = counted(attacked.view)
    return {
        "view": str(attacked.path),
        **known,
        "finished": attacked.view.finished,
        "messages": messages,
        "messages_kept": kept,
        "problems": list(attacked.view.problems),
        "unread": attacked.unread or None,
        "refused": list(attacked.refused),
        "findings": [finding_document(finding) for finding in attacked.findings],
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding without the numbers of single records that it rests on."""
    told = {item.name: getattr(finding, item.name) for item in fields(finding) if item.name != "evidence"}
    interval = finding.interval
    return {**told, "interval": None if interval is None else [interval.low, interval.high]}
