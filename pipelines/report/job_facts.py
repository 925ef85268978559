"""What one party may know of a job that has ended: its report, as frozen dataclasses.

Every party knows the DAG and who takes part. Of everything else a report holds what is this party's own: what its tasks
logged, its ledger and its caps, and what it sees or shows. `gather` asks FATE-Flow and the party's home for nothing more,
even where one server plays all parties. A report of several parties (`job_documents.merged`) has a part of each.
"""

import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fate_dp.components.common.channels import inputs_from
from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.declaration import FLIPPED, NO_LABELS
from fate_dp.components.disclosure.tracing import Disclosure, Labels, Sight, Walk, trace
from fate_dp.components.disclosure.verdicts import advice, told
from fate_dp.components.protocols import prediction_frames as lines
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.labels.noisy_metrics import ACCURACY, AUC, KS
from fate_dp.privacy.private_files import AnyPath
from fate_dp.privacy.validation import DEFAULT_DELTA, PARTY_ID, InvalidArgument, is_finite

from ..jobs.flow import connect, fate_version
from ..jobs.job import ENDED, NoOutput, TaskRecord, logged_failure, query_tasks, raised_sentence, task_metrics
from ..jobs.job_plans import plan_of_job
from ..jobs.party_ledgers import has_ledger, home_at
from .job_ledger import PartyLedger, ledger_of
from .job_noise import Noise, noise_of

SCHEMA = "fate-dp/job-report/2"
LOCAL_ROLES = ("guest", "host", "arbiter", "local")
NEVER_RAN = ("waiting", "ready")
CHARGED_AT_GUEST = ("label_flip", "label_count")
"""Components that never end well at a guest without a line in its ledger."""
ROWS = (lines.TRAINING_ROWS, lines.VALIDATION_ROWS, lines.PREDICTED_ROWS, lines.FOLD_ROWS)
LABELS_OF_SUMMARIES = ("flips", "true labels", "revised labels")
SUMMARY, EVALUATION, LOSS = "summary", "evaluation", "loss"


@dataclass(frozen=True)
class Figure:
    """One measure of one model on some rows, ``on`` which labels.

    ``estimate`` is of the measure on true labels, from the known rate of flips; None where there is none. It errs
    upwards by ``most_bias`` at most; None where nobody knows, or where it does not.
    """

    task: str
    rows: str
    measure: str
    on: str
    value: float
    estimate: float | None = None
    standard_error: float | None = None
    most_bias: float | None = None


@dataclass(frozen=True)
class DagTask:
    """One task of the DAG, as every party knows it; ``parties`` read as ``guest 9999``, ``reads`` are names of tasks."""

    name: str
    component: str
    stage: str
    parties: tuple[str, ...]
    reads: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Learned:
    """What one observer learned of one owner's asset in one task, as the declaration of its component says.

    For ``labels``: what their column held, and ``epsilon`` of flips, in nats; empty and None for anything else, or
    where it is unknown. ``instead`` would have avoided it; empty where nothing is known to.
    """

    task: str
    component: str
    observer: str
    owner: str
    what: str
    labels: str
    epsilon: float | None
    form: str
    learns: str
    sentence: str
    message: str
    computes: str
    evidence: tuple[str, ...]
    attack: str
    instead: str
    leaks: bool

    @classmethod
    def of(cls, sight: Sight, disclosure: Disclosure) -> "Learned":
        as_declared = ("what", "form", "learns", "message", "computes", "evidence", "attack")
        return cls(
            **{name: getattr(sight.shown, name) for name in as_declared},
            **{name: getattr(sight, name) for name in ("task", "component", "leaks")},
            observer=str(sight.observer),
            owner=str(sight.owner),
            labels=sight.labels.state if sight.shown.what == "labels" else "",
            epsilon=sight.labels.epsilon,
            sentence=told(sight),
            instead=advice(disclosure, sight) if sight.leaks else "",
        )


@dataclass(frozen=True)
class TaskRun:
    """One task at one party; ``seconds`` is None where it never ended, ``refusal`` empty where it raised no
    sentence."""

    task: str
    role: str
    status: str
    seconds: float | None
    refusal: str
    provider: str
    settings: Mapping[str, Any]
    summary: Mapping[str, Any]
    losses: tuple[float, ...]


@dataclass(frozen=True)
class PartyPart:
    """All that one party alone knows of the job; ``ledger`` is None for a party that keeps none."""

    party_id: str
    parties: tuple[str, ...]
    status: str
    started: str
    seconds: float | None
    tasks: tuple[TaskRun, ...]
    figures: tuple[Figure, ...]
    ledger: PartyLedger | None
    noise: tuple[Noise, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class JobReport:
    """A job as one party may know it, or as several did whose reports were joined.

    The parties of ``parts`` saw or showed what is ``learned``, in the order of the tasks. Nobody knows the components
    of the ``unknown`` tasks; tasks that ``never_ran`` were begun by no party of ``parts``.
    """

    schema: str
    created: str
    fate_dp_version: str
    fate_version: str
    job_id: str
    parties: tuple[str, ...]
    tasks: tuple[DagTask, ...]
    learned: tuple[Learned, ...]
    unknown: tuple[str, ...]
    never_ran: tuple[str, ...]
    parts: tuple[PartyPart, ...]

    @property
    def leaks(self) -> tuple[Learned, ...]:
        return tuple(each for each in self.learned if each.leaks)

    @property
    def others(self) -> tuple[str, ...]:
        """Parties of the job whose own part is not in this report."""
        told_of = {party for part in self.parts for party in part.parties}
        return tuple(party for party in self.parties if party not in told_of)


@dataclass(frozen=True)
class ReportRequest:
    """Which report is wanted, of which party (None: the guest), from whose home; ``flow_home`` is the folder of an
    embedded server, which keeps logs of what FATE-Flow lost."""

    address: FlowAddress
    job_id: str
    parties_folder: AnyPath
    party_id: str | None = None
    flow_home: Path | None = None


def gather(asked: ReportRequest) -> JobReport:
    """All facts of one report; raises InvalidArgument or LedgerUnavailable, one sentence, where there can be none."""
    plan = plan_of_job(asked.address, asked.job_id)
    members = tuple(f"{role} {each}" for role in LOCAL_ROLES for each in plan.parties(role))
    party_id = asked.party_id if asked.party_id is not None else default_party(plan, members)
    own = tuple(party for party in members if party.partition(" ")[2] == party_id)
    if not own or not PARTY_ID.fullmatch(party_id):
        raise InvalidArgument(
            f"Party {party_id} takes no part in job {asked.job_id}; its parties are {', '.join(members) or 'not named'}."
        )
    disclosure = trace(plan)
    part = Gathering(asked, plan, party_id, own).part()
    began = {run.task for run in part.tasks if run.status not in NEVER_RAN}
    never_ran = tuple(sorted({run.task for run in part.tasks} - began))
    sights = [sight for sight in disclosure.sights if party_id in (sight.observer.party_id, sight.owner.party_id)]
    return JobReport(
        schema=SCHEMA,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        fate_dp_version=version("fate-dp"),
        fate_version=fate_version(),
        job_id=asked.job_id,
        parties=members,
        tasks=tuple(dag_task(plan, name) for name in Walk(plan).order),
        learned=tuple(Learned.of(sight, disclosure) for sight in sights if sight.task in began),
        unknown=tuple(unknown.task for unknown in disclosure.unknown),
        never_ran=never_ran,
        parts=(part,),
    )


def default_party(plan: JobPlan, members: tuple[str, ...]) -> str:
    """The guest, or of a job without one, such as an upload, its first party."""
    if not members:
        raise InvalidArgument("The job names no parties with roles; a report is for one party of a job.")
    return next(iter(plan.parties("guest")), members[0].partition(" ")[2])


def dag_task(plan: JobPlan, name: str) -> DagTask:
    task = plan.task(name)
    parties = tuple(f"{role} {each}" for role in LOCAL_ROLES for each in plan.parties(role, name))
    reads = tuple(dict.fromkeys(inputs_from(plan.dag["tasks"][name])))
    return DagTask(name, task.component, task.stage, parties, reads, task.parameters)


@dataclass(frozen=True)
class Gathering:
    """What is asked for one party: of its server as this party, and of its home alone."""

    asked: ReportRequest
    plan: JobPlan
    party_id: str
    parties: tuple[str, ...]

    def part(self) -> PartyPart:
        rows = self._job_rows()
        records = self._records()
        if not rows:
            raise InvalidArgument(
                f"FATE-Flow at {self.asked.address} knows job {self.asked.job_id}, but not what {self.parties[0]} did in it; "
                "ask that party's own server."
            )
        unfinished = [row["status"] for row in rows if row["status"] not in ENDED]
        if unfinished:
            raise InvalidArgument(
                f"Job {self.asked.job_id} has not ended, it is {unfinished[0]}; only ended jobs have reports."
            )
        logged = {(record.task, record.role): self._metrics(record) for record in records}
        runs = tuple(self._run(record, logged[record.task, record.role]) for record in records)
        walk = Walk(self.plan)
        figures = [
            figure
            for (task, _), metrics in logged.items()
            for figure in figures_of(task, metrics, walk.labels_into(task))
        ]
        ledger = self._ledger(runs)
        # FATE-Flow's times are in milliseconds.
        starts = [row["start_time"] for row in rows if row.get("start_time")]
        ends = [row["end_time"] for row in rows if row.get("end_time")]
        started = datetime.fromtimestamp(min(starts) / 1000, timezone.utc) if starts else None
        return PartyPart(
            party_id=self.party_id,
            parties=self.parties,
            status=next((row["status"] for row in rows if row["status"] != "success"), "success"),
            started=started.isoformat(timespec="seconds") if started else "",
            seconds=(max(ends) - min(starts)) / 1000 if starts and ends else None,
            tasks=runs,
            figures=tuple(figures),
            ledger=ledger,
            noise=tuple(noise_of(line, [run.summary for run in runs]) for line in ledger.lines) if ledger else (),
            versions={"fate-dp": version("fate-dp"), "FATE": fate_version(), "Python": platform.python_version()},
        )

    def _job_rows(self) -> list[dict[str, Any]]:
        """What the server keeps of the job at this party, one row for each of its roles."""
        client = connect(self.asked.address)
        found: list[dict[str, Any]] = []
        for party in self.parties:
            role, _, party_id = party.partition(" ")
            response = client.job.query(job_id=self.asked.job_id, role=role, party_id=party_id)
            found += response.get("data") or [] if response.get("code") == 0 else []
        return found

    def _records(self) -> list[TaskRecord]:
        """This party's tasks, of one that was tried again the last attempt."""
        records = query_tasks(connect(self.asked.address), self.asked.job_id)
        own = {
            (record.task, record.role): record
            for record in records
            if f"{record.role} {record.party_id}" in self.parties
        }
        return list(own.values())

    def _metrics(self, record: TaskRecord) -> list[dict[str, Any]]:
        """What the task logged; nothing where it never began, or where FATE-Flow's records of it were cleaned."""
        if record.status in NEVER_RAN:
            return []
        try:
            return task_metrics(self.asked.address, self.asked.job_id, record.role, record.party_id, record.task)
        except NoOutput:
            return []

    def _run(self, record: TaskRecord, metrics: list[dict[str, Any]]) -> TaskRun:
        own = (self.plan.dag.get("party_tasks") or {}).get(f"{record.role}_{record.party_id}") or {}
        settings = ((own.get("tasks") or {}).get(record.task) or {}).get("parameters") or {}
        return TaskRun(
            record.task,
            record.role,
            record.status,
            record.seconds,
            self._refusal(record),
            record.provider,
            settings,
            summary_of(metrics),
            losses_of(metrics),
        )

    def _refusal(self, record: TaskRecord) -> str:
        """The sentence that the task raised, from its log where FATE-Flow lost it and the log is still there."""
        if record.status == "success":
            return ""
        error = record.error or logged_failure(self.asked.job_id, record, self.asked.flow_home) or ""
        sentence = raised_sentence(error) if error else ""
        # A lone word, as FATE-Flow answers itself with, says nothing without what stands around it.
        return sentence if " " in sentence else " ".join(error.split())

    def _ledger(self, runs: tuple[TaskRun, ...]) -> PartyLedger | None:
        home = home_at(self.asked.parties_folder, self.party_id)
        kept = has_ledger(home)
        delta = asked_delta([*(self.plan.task(run.task).parameters for run in runs), *(run.settings for run in runs)])
        ledger = ledger_of(home, self.asked.parties_folder, self.party_id, self.asked.job_id, delta) if kept else None
        components = {run.task: self.plan.task(run.task).component for run in runs}
        charged = [
            run.task
            for run in runs
            if run.role == "guest" and run.status == "success" and components[run.task] in CHARGED_AT_GUEST
        ]
        if charged and (ledger is None or not ledger.lines):
            what = "holds no line of this job" if kept else "is missing"
            raise InvalidArgument(
                f"The ledger of party {self.party_id} in {home.path} {what}, but {charged[0]} was charged to it; name the "
                "home of the server that ran the job."
            )
        return ledger


def asked_delta(settings: Iterable[Mapping[str, Any]]) -> float:
    """The smallest delta that any task was asked for, at whatever depth its settings name it; the usual one where none does."""
    within = list(settings)
    for each in within:
        within += [value for value in each.values() if isinstance(value, Mapping)]
    asked = [number_of(each, "delta") or 0.0 for each in within]
    return min((delta for delta in asked if 0 < delta < 1), default=DEFAULT_DELTA)


# What tasks logged of themselves. A measure on flips looks worse than the model is, so it stands beside its estimate on true
# labels, where there is one; FATE's Evaluation knows nothing of flips, and labels are followed through the DAG.


def summary_of(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The facts that a task told in its summaries, by name; a cross-validation has one for each fold, the last one counts."""
    found: dict[str, Any] = {}
    for record in metrics:
        if record.get("name") == SUMMARY and isinstance(record.get("data"), dict):
            found.update(record["data"])
    return found


def losses_of(metrics: list[dict[str, Any]]) -> tuple[float, ...]:
    logged = [record.get("data") for record in metrics if LOSS in (record.get("type") or "")]
    points = [point for data in logged for point in (data if isinstance(data, list) else [data])]
    values = [point.get("metric") if isinstance(point, dict) else point for point in points]
    return tuple(float(value) for value in values if is_finite(value))


def figures_of(task: str, metrics: list[dict[str, Any]], labels: Labels) -> list[Figure]:
    """All measures that a task logged; ``labels`` is what the label column held that it was given, as the DAG tells."""
    return [*_told_in_summary(task, summary_of(metrics)), *_evaluated(task, metrics, labels)]


def _told_in_summary(task: str, summary: Mapping[str, Any]) -> Iterator[Figure]:
    for rows in ROWS:
        for measure in (ACCURACY, AUC, KS):
            error, bias = (number_of(summary, of(rows, measure)) for of in (lines.standard_error, lines.bias))
            for which in LABELS_OF_SUMMARIES:
                value = number_of(summary, lines.on_labels(rows, measure, which))
                if value is None:
                    continue
                estimate = number_of(summary, lines.estimated(rows, measure)) if which == "flips" else None
                yield Figure(task, rows, measure, which, value, estimate, error, bias)


def number_of(summary: Mapping[str, Any], name: str) -> float | None:
    """A fact as a number; numbers that are too small for the board were logged as text."""
    try:
        found = float(summary[name])
    except (KeyError, TypeError, ValueError):
        return None
    return found if is_finite(found) else None


def _evaluated(task: str, metrics: list[dict[str, Any]], labels: Labels) -> Iterator[Figure]:
    """What FATE's Evaluation logged: numbers within lists within lists, by model and data set."""
    on = "flips" if labels.state == FLIPPED else "no labels" if labels.state == NO_LABELS else "labels as they were"
    for record in metrics:
        if record.get("name") != EVALUATION or not isinstance(record.get("data"), dict):
            continue
        for model, sets in record["data"].items():
            for name, content in sets.items() if isinstance(sets, dict) else ():
                for measure, value in _measures(content):
                    yield Figure(task, f"{model}, {name}", measure, on, value)


def _measures(content: Any) -> Iterator[tuple[str, float]]:
    if isinstance(content, list):
        for item in content:
            yield from _measures(item)
    elif isinstance(content, dict) and isinstance(content.get("metric"), str) and is_finite(content.get("val")):
        yield content["metric"], float(content["val"])
