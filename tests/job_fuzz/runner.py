"""Plays a sequence of steps, and holds each ledger against the oracle after every job.

A step is plain data that names tables and tasks; one whose names are not there any more is left out, so that a failing
sequence can be shrunk by taking steps away.
"""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from fate_dp.testing import Killed, Silence

from . import adapters
from .adapters import ADAPTERS, Part
from .movers import MOVERS, Unfit
from .oracle import Secret, Truth, epsilon_of
from .world import Fault, Job, PartyId, Played, Table, place_key, play, uploaded

Step = dict[str, Any]
DELTA = 1e-6

PLAYED = count(1)
SLACK, LEAST = 1.01, 2e-3
"""Relative and in nats: what roundings and grids of noise may take away from a total."""


class Broken(Exception):
    """A task failed by something else than a refusal: the fuzzer, or FATE-DP, has an error."""


@dataclass
class Finding:
    """A ledger that says less than the truth, or a job that went beyond a cap."""

    what: str
    secret: Secret
    truth: float
    told: float
    after: str

    def alike(self, other: Finding) -> bool:
        """Whether both are of one kind."""
        own, its = ((each.what, bool(each.secret.column), math.isinf(each.truth)) for each in (self, other))
        return own == its

    def __str__(self) -> str:
        unit = f"label {self.secret.column}" if self.secret.column else "record"
        return (
            f"{self.what}: {unit} of {self.secret.record} ({self.secret.population}) at {self.secret.party} after {self.after}: "
            f"truth {self.truth:.4g}, told {self.told:.4g}"
        )


@dataclass
class Report:
    """What a sequence came to; ``told`` are the steps in words."""

    jobs: int = 0
    accepted: int = 0
    findings: list[Finding] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class Playing:
    """The state of one sequence."""

    def __init__(self, home: Path, steps: Sequence[Step]) -> None:
        self.home, self.steps = home, steps
        self.truth, self.report = Truth(), Report()
        self.tables: dict[str, Table] = {}
        self.keys: defaultdict[str, int] = defaultdict(int)
        self.caps: defaultdict[Secret, set[tuple[str, ...]]] = defaultdict(set)
        self.earlier: dict[tuple[str, str, str], dict[PartyId, Any]] = {}

    def run(self) -> Report:
        """All steps, up to the first finding."""
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        for number, step in enumerate(self.steps):
            getattr(self, step["do"])(number, step)
            if self.report.findings:
                break
        shutil.rmtree(self.home, ignore_errors=True)
        return self.report

    def upload(self, number: int, step: Step) -> None:
        self._key(step["party"])
        table = uploaded(step)
        adapters.declare(self.home, step, table.ids)
        self.tables[step["name"]] = table

    def cap(self, number: int, step: Step) -> None:
        self._key(step["party"])
        adapters.set_cap(self.home, step["party"], step["columns"], step["epsilon"])

    def job_check(self, number: int, step: Step) -> None:
        adapters.set_job_check(self.home, step["party"], step["job_check"])

    def lose_key(self, number: int, step: Step) -> None:
        self.keys[step["party"]] += 1
        place_key(self.home, step["party"], self.keys[step["party"]])

    def _key(self, party: str) -> None:
        if party not in self.keys:
            self.keys[party] = 0
            place_key(self.home, party, 0)

    def job(self, number: int, step: Step) -> None:
        # A path of its own: a process remembers what it has read of a job.
        folder = self.home / f"jobs of {next(PLAYED)}"
        job = Job(number, step["guest"], step["hosts"], step["arbiter"], folder, step["blind"])
        for _, party in job.parties:
            self._key(party)
        self.report.jobs += 1
        outputs: dict[tuple[str, str], dict[PartyId, Any]] = {}
        for task in step["tasks"]:
            try:
                refusal = self._task(job, task, outputs, step["horizontal"])
            except Unfit as reason:
                # Nobody refused it: it is no job.
                self.report.jobs -= 1
                self.report.told.append(f"{job.name} {task['name']}: {reason}")
                return
            told = f"{job.name} {task['name']} ({task['component']})"
            self.report.told.append(f"{told}: {refusal or 'ok'}")
            if refusal:
                self.report.refusals.append(f"{task['component']}: {refusal}")
            if refusal or self.report.findings:
                return
        self.report.accepted += 1

    def _task(self, job: Job, task: Step, outputs: dict, horizontal: bool) -> str | None:
        """Play a task, again after a fault; returns why it was refused."""
        inputs = self._inputs(job, task, outputs)
        if task["component"] == "reader" or task["component"] in MOVERS:
            for party in inputs:
                self._files(job, task, party, 0, inputs)
            made = inputs if task["component"] == "reader" else MOVERS[task["component"]](inputs, task, horizontal)
            self._keep(job, task, outputs, made)
            return None
        for version in range(2 if task.get("fault") else 1):
            refusal = self._attempt(job, task, outputs, inputs, version)
            if refusal != "killed":
                return refusal
        return refusal

    def _attempt(self, job: Job, task: Step, outputs: dict, inputs: dict, version: int) -> str | None:
        component, fault = task["component"], task.get("fault") if version == 0 else None
        still = not any(
            each.content.moves_with_all
            for of_party in inputs.values()
            for each in of_party.values()
            if isinstance(each, Table)
        )
        parties = [party for party in job.parties if party[0] != "arbiter" or component in adapters.WITH_ARBITER]

        def step(ctx: Any) -> dict[str, Any]:
            own = inputs.get(tuple(ctx.federation.local_party), {})
            return play_part(Part(ctx, _own(task, ctx), {**own, "others stay": still}, self.truth, self.keys, told))

        told: dict[str, Any] = {}
        before = {secret: len(seen.mechanisms) for secret, seen in self.truth.seen.items()}
        self.truth.touched = set()
        play_part = ADAPTERS[component]
        files = {party: self._files(job, task, party, version, inputs) for party in parties}
        played = play(
            step,
            job,
            f"{job.name}_{task['name']}_{version}",
            files,
            adapters.messages_of(component),
            fault and Fault(job.parties[fault["party"] % len(job.parties)], fault["write"], fault["after"]),
        )
        self._note_names(played, inputs)
        refusal = self._refusal(played)
        self._check_ledgers(f"{job.name} {task['name']}", refusal is None, before)
        if refusal is None:
            self._check_model(told, f"{job.name} {task['name']}")
            self._keep(job, task, outputs, played.values)
        return refusal

    def _keep(self, job: Job, task: Step, outputs: dict, made: Mapping[PartyId, Mapping[str, Any]]) -> None:
        """What a task wrote, for those behind it and, under a name of its own at every party, for later jobs."""
        for party, of_party in made.items():
            for key, value in of_party.items():
                if isinstance(value, Table) and task["component"] != "reader":
                    writer = (f"{job.name}_{task['name']}", task["name"], task["component"])
                    value = replace(value, writer=writer)
                    if key == task.get("kept", {}).get("key"):
                        self.tables[f"{task['kept']['name']}-{party[1]}"] = value
                outputs.setdefault((task["name"], key), {})[party] = value

    def _inputs(self, job: Job, task: Step, outputs: dict) -> dict[PartyId, dict[str, Any]]:
        """{party: {input: table, or a list of tables}}."""
        if task["component"] == "reader":
            named = {party: task["tables"].get(party[1]) for party in job.parties if party[0] != "arbiter"}
            if any(name is not None and name not in self.tables for name in named.values()):
                raise Unfit("a table is gone")
            return {party: {"output_data": self.tables[name]} for party, name in named.items() if name}
        found: dict[PartyId, dict[str, Any]] = {}
        for key, channels in task["inputs"].items():
            listed = channels if isinstance(channels[0], list) else [channels]
            for channel in listed:
                if tuple(channel) not in outputs:
                    raise Unfit("an input is gone")
                for party, value in outputs[tuple(channel)].items():
                    own = found.setdefault(party, {})
                    if channels is listed:
                        own.setdefault(key, []).append(value)
                    else:
                        own[key] = value
        return found

    def _files(self, job: Job, task: Step, party: PartyId, version: int, inputs: dict) -> Path:
        def channel(of_task: str, key: str) -> dict[str, str]:
            return {"producer_task": of_task, "output_artifact_key": key}

        data, models = {}, {}
        for key, channels in task["inputs"].items():
            listed = [channel(*each) for each in channels] if isinstance(channels[0], list) else channel(*channels)
            (models if key.endswith("model") else data)[_file_key(task["component"], key)] = listed
        parameters = dict(task["parameters"])
        if task["component"] == "reader" and party[1] in task["tables"]:
            namespace, name = task["tables"][party[1]].split("/")
            parameters = {"namespace": namespace, "name": name}
        stage = "train" if task["component"].startswith("dp_") else "default"
        component = task["component"]
        document = {"component": component, "stage": stage, "parameters": parameters}
        document["input_artifacts"] = {"data": data, "model": models}
        writers = {}
        for key, value in inputs.get(party, {}).items():
            tables = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, Table)]
            if key in task["inputs"] and tables:
                writers[_file_key(task["component"], key)] = [each.writer for each in tables]
        return job.write(party, task["name"], version, document, writers)

    def _note_names(self, played: Played, inputs: dict) -> None:
        for (role, party), names in played.names.items():
            tables = [each for each in inputs.get((role, party), {}).values() if isinstance(each, Table)]
            for secret in self.truth.touched:
                if secret.party == party:
                    self.truth.seen[secret].names |= names
                    self.caps[secret] |= {tuple(table.columns) for table in tables}

    def _refusal(self, played: Played) -> str | None:
        """The first sentence of a party that refused; "killed" after a fault."""
        errors = list(played.errors.values())
        if any(isinstance(error, Killed) for error in errors):
            return "killed"
        for error in errors:
            text = str(error)
            if not isinstance(error, (ValueError, Silence)) or "failed (" in text or "task failed" in text:
                raise Broken("\n".join(self.report.told)) from error
        said = [error for error in errors if not isinstance(error, Silence)] or errors
        return str(said[0]) if said else None

    def _check_ledgers(self, after: str, accepted: bool, before: Mapping[Secret, int]) -> None:
        """Every total that concerns a touched secret is at least the truth, and no accepted task goes beyond a cap."""
        groups = {}
        for secret in self.truth.touched:
            seen = self.truth.seen[secret]
            key = (secret.party, bool(secret.column), frozenset(seen.names), seen.mechanisms)
            grew = len(seen.mechanisms) > before.get(secret, 0)
            groups.setdefault((*key, frozenset(self.caps[secret]), grew), secret)
        for (party, of_label, names, mechanisms, columns, grew), secret in groups.items():
            truth = epsilon_of(mechanisms, DELTA)
            total = adapters.label_total if of_label else adapters.record_total
            told = total(self.home, party, names, DELTA)
            if truth > told * SLACK + LEAST:
                self.report.findings.append(Finding("understated", secret, truth, told, after))
                return
            if not accepted or not grew:
                continue
            if of_label:
                sources = [name for name in names if name.count("/") == 2]
                cap = min((adapters.label_cap(self.home, party, source) for source in sources), default=8.0)
            else:
                cap = min((adapters.record_cap(self.home, party, list(each)) for each in columns), default=8.0)
            if truth > cap * SLACK + LEAST:
                self.report.findings.append(Finding("beyond the cap", secret, truth, cap, after))
                return

    def _check_model(self, told: Mapping[str, Any], after: str) -> None:
        """A model's own epsilon is at least that of all that went into it."""
        if "model" in told:
            epsilon, delta, of_labels = told["model"]
            truth = max((epsilon_of(each, delta) for each in of_labels), default=0.0)
            if truth > epsilon * SLACK + LEAST:
                nobody = Secret("the model", "", "")
                self.report.findings.append(Finding("a model's epsilon", nobody, truth, epsilon, after))


def _own(task: Step, ctx: Any) -> dict[str, Any]:
    """The task's parameters at this party."""
    return {**task["parameters"], **task.get("own", {}).get(ctx.federation.local_party[0], {})}


def _file_key(component: str, key: str) -> str:
    """The name that FATE has for a task's input."""
    training = component in ("dp_hetero_lr", "dp_scorecard", "dp_homo_gbdt", "dp_binning")
    return "train_data" if key == "input_data" and training else key
