"""Verdicts of `fate-dp check` beside a table that was made by reading FATE's source, over DAGs made after FATE's examples.

    python -m bench.check

A job agrees where the exit status and all statements about single records (who, of whom, what, every or some of them) are
those of the table, none more and none less. Statements of the table that a recorded transcript also shows are counted
from tests/check/transcripts.yaml, which names the command that recorded each.

Jobs are those of tests/check/dags and their variants, for which `check_variants` says what follows from the table. Settings on which
statements depend are spelled in every way that FATE's classes take; each must have the verdict of its plain spelling.

The last line printed is one JSON object: `jobs`, `agreement` (the share of jobs that agree), `statements`, `shown`, `spellings` (settings
that were spelled in every way), `spellings_agree` (the share of them), `cells` (statements of the catalogue) and `cells_with_evidence`
(the share that cites ``transcript KEY`` or ``test NODE``, which must be there).
"""

import ast
import copy
import json
from dataclasses import dataclass, fields, replace
from functools import cache

import yaml

from bench.check_variants import FOLDER, of_fate, spelled, variants_of
from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.declaration import EVERY, LABELS, MODEL, SOME, catalogue, disclosure_of
from fate_dp.components.disclosure.tracing import Walk, flat, trace
from fate_dp.components.disclosure.verdicts import status, told
from fate_dp.pipelines.jobs.job_plans import plan_of_document, plan_of_file


@dataclass(frozen=True, order=True)
class Statement:
    """One line of the table, or of a verdict, in roles."""

    task: str
    observer: str
    owner: str
    what: str
    learns: str
    state: str = ""

    def __str__(self):
        return f"{self.task}: {self.observer} learns {self.learns} {self.state} {self.what} of {self.owner}"


@dataclass(frozen=True)
class Comparison:
    """One job: what the table says beside what the checker says."""

    name: str
    plan: JobPlan
    read: frozenset
    told: frozenset
    status_read: int
    status_told: int

    @property
    def agrees(self):
        return (self.read, self.status_read) == (self.told, self.status_told)

    @property
    def differences(self):
        lines = [f"only in the table: {each}" for each in sorted(self.read - self.told)]
        lines += [f"only in the verdict: {each}" for each in sorted(self.told - self.read)]
        if self.status_read != self.status_told:
            lines.append(f"exit status {self.status_told}, in the table {self.status_read}")
        return lines


@dataclass(frozen=True)
class Transcript:
    """What a recorded run showed: a component with these settings, and how large a share of rows was read."""

    component: str
    settings: dict
    what: str
    owner: str
    observer: str
    learns: str

    def shows(self, statement, walk):
        """Whether it is about a statement of a job, whose task has the settings that were recorded."""
        ours = (self.what, self.owner, self.observer, self.learns)
        same = ours == (statement.what, statement.owner, statement.observer, statement.learns)
        if not same or self.component != walk.plan.task(statement.task).component:
            return False
        recorded = {
            **walk.declared[statement.task].settings,
            **flat(self.settings, walk.declared[statement.task].settings),
        }
        return any(
            all(given.get(name) == value for name, value in recorded.items())
            for given in walk.settings_of(statement.task)
        )


def comparisons(folder=FOLDER):
    """One for every job of the table."""
    table = yaml.safe_load((folder / "verdicts.yaml").read_text())
    return [
        compare(name, lines, plan_of_file(folder / "dags" / f"{name}.yaml")) for name, lines in sorted(table.items())
    ]


def variant_comparisons(folder=FOLDER):
    """One for every variant of every job of the table."""
    table = yaml.safe_load((folder / "verdicts.yaml").read_text())
    return [
        compare(f"{name}, {kind}", lines, plan_of_document(dag, kind))
        for name in sorted(table)
        for kind, dag, lines in variants_of(plan_of_file(folder / "dags" / f"{name}.yaml").dag, table[name])
    ]


def spelling_comparisons(folder=FOLDER):
    """{component and setting: whether every job of the table with it has, in all spellings, the verdict of the plain one}."""
    plans = [plan_of_file(path) for path in sorted((folder / "dags").glob("*.yaml"))]
    return {
        f"{component} {setting}": all(
            len({verdict(plan, component, given) for given in (plain, *ways)}) == 1
            for plan in plans
            if any(task["component_ref"] == component for task in plan.dag["tasks"].values())
        )
        for component, setting, plain, ways in spelled()
    }


def verdict(plan, component, given):
    """The verdict on a job in which all tasks of a component have these parameters as well."""
    dag = copy.deepcopy(plan.dag)
    for task in of_fate(dag).values():
        if task["component_ref"] == component:
            before = task.get("parameters") or {}
            task["parameters"] = {
                **before,
                **{
                    name: {**before[name], **value} if isinstance(value, dict) and before.get(name) else value
                    for name, value in given.items()
                },
            }
    disclosure = trace(JobPlan(dag))
    return (status(disclosure), *map(told, disclosure.sights))


def evidence_of(shown, folder=FOLDER):
    """Whether a statement cites a recorded transcript, or a test, that is there."""
    keys = {entry["key"] for entry in yaml.safe_load((folder / "transcripts.yaml").read_text())}
    for place in shown.evidence:
        if place.startswith("transcript:") and place.partition(":")[2] in keys:
            return True
        path, _, name = place.partition("::")
        if path.startswith("tests/") and name in names_in(path):
            return True
    return False


@cache
def names_in(path):
    """Names of the functions of a file of this project; none where there is no such file."""
    file = FOLDER.parents[1] / path
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def compare(name, lines, plan):
    disclosure = trace(plan)
    read = frozenset(
        Statement(
            row["task"],
            row["observer"],
            row["owner"],
            row["what"],
            row["learns"],
            row.get("state", "true") if row["what"] == LABELS else "",
        )
        for row in lines["rows"]
    )
    told = strongest(
        Statement(
            sight.task,
            sight.observer.role,
            sight.owner.role,
            sight.shown.what,
            sight.shown.learns,
            sight.labels.state if sight.shown.what == LABELS else "",
        )
        for sight in disclosure.sights
        if sight.shown.learns in (EVERY, SOME) and sight.observer.role != MODEL
    )
    return Comparison(name, plan, read, told, lines["exit"], status(disclosure))


def strongest(statements):
    """Of statements that differ only in how much is learned, that of every record."""
    found = frozenset(statements)
    return frozenset(each for each in found if each.learns == EVERY or replace(each, learns=EVERY) not in found)


def transcripts(folder=FOLDER):
    """All recorded ones."""
    path = folder / "transcripts.yaml"
    names = [item.name for item in fields(Transcript)]
    return [Transcript(**{name: entry[name] for name in names}) for entry in yaml.safe_load(path.read_text())]


def main():
    from rich.console import Console
    from rich.table import Table

    found, recorded = [*comparisons(), *variant_comparisons()], transcripts()
    spellings = spelling_comparisons()
    cells = [(name, shown) for name in catalogue() for shown in disclosure_of(name).shows]
    evident = [shown for _, shown in cells if evidence_of(shown)]
    drawn = Table(title="Jobs: the checker beside the table")
    for heading in ("job", "statements", "shown by a transcript", "exit", "agrees"):
        drawn.add_column(heading)
    shown = 0
    for job in found:
        walk = Walk(job.plan)
        by_transcript = sum(any(each.shows(statement, walk) for each in recorded) for statement in job.read)
        shown += by_transcript
        drawn.add_row(
            job.name, str(len(job.read)), str(by_transcript), str(job.status_told), "yes" if job.agrees else "no"
        )
    console = Console()
    console.print(drawn)
    for job in found:
        for line in job.differences:
            console.print(f"{job.name}: {line}", markup=False)
    for name in (name for name, agrees in spellings.items() if not agrees):
        console.print(f"{name}: another verdict in another spelling", markup=False)
    figures = {
        "jobs": len(found),
        "agreement": round(sum(job.agrees for job in found) / len(found), 4),
        "statements": sum(len(job.read) for job in found),
        "shown": shown,
        "spellings": len(spellings),
        "spellings_agree": round(sum(spellings.values()) / len(spellings), 4),
        "cells": len(cells),
        "cells_with_evidence": round(len(evident) / len(cells), 4),
    }
    print(json.dumps({"bench": "check", "figures": figures}))


if __name__ == "__main__":
    main()
