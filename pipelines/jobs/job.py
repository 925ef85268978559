"""Run a pipeline on FATE-Flow, tell how far it is, and say why it failed in the words of the party that refused.

What a later task would refuse, or nobody, is refused before the job is submitted: a synthetic row of smote lies between
two training records. Split afterwards, its neighbours come to lie on the other side, and a model is praised for what it
has seen; tested on it, it is judged on records that do not exist.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from fate_dp.components.common.channels import channels_of, inputs
from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.tracing import trace
from fate_dp.components.disclosure.verdicts import enforce, refusal
from fate_dp.components.label_flip.chain import refusal_of_plan
from fate_dp.deploy.flow import DEFAULT_HOME
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import FlowServerError
from fate_dp.privacy.ledger.policy import Policy, load_policy
from fate_dp.privacy.private_files import POLICY_FILE, parties_folder, party_folder
from fate_dp.privacy.validation import InvalidArgument

from .flow import as_address, connect, resolve_flow
from .job_plans import read_dag
from .tasks import LocalTasks, TaskRecord

if TYPE_CHECKING:
    import pandas
    from fate_client.flow_sdk import FlowClient
    from fate_client.pipeline import FateFlowPipeline


BY_COMPONENT = {
    "data_split": "{task} would split rows that {smote} has over-sampled; put data_split before smote.",
    "keyed_split": "{task} would split rows that {smote} has over-sampled; put keyed_split before smote.",
    "label_flip": "{task} would flip labels after {smote} has made rows from the true ones; put label_flip before smote.",
    "smote": "{task} would over-sample rows that {smote} has over-sampled; one of the two is enough.",
}
NOT_FOR_TESTS = "{task} takes rows that {smote} has over-sampled as {key}; models are tested on real rows only."
FOLD_FIRST = "{task} would cross-validate over rows that {smote} has over-sampled; cross-validate on real rows only."
BY_INPUT = {"validate_data": NOT_FOR_TESTS, "test_data": NOT_FOR_TESTS, "cv_data": FOLD_FIRST}

Progress = Callable[[str, str, float], None]
"""Called with a task's name, its status and the seconds since the job began, whenever the status changes.

A status that begins with "running" and goes on says how far a task is.
"""


def print_progress(task: str, status: str, seconds: float) -> None:
    """One line for each task that begins or ends."""
    if status not in ("waiting", "ready"):
        print(f"{seconds:7.1f} s  {task:<24} {status}", flush=True)


POLL_SECONDS = 0.3
SILENCE_SECONDS = 30.0
# FATE-Flow asks all parties before it takes a job; what it was not told whether it took cannot be stopped.
SUBMIT_SECONDS = 60.0
FULL_BYTES = 1 << 20
LOG_LINES_SHOWN = 10
ENDED = ("success", "failed", "canceled", "timeout")
TRACEBACK = "Traceback (most recent call last):"
EXECUTED = "[execute_cli.execute_component_from_config]"
"""Where FATE says in a task's log with what the task ended."""
# What FATE-Flow writes where a task's process ended and left nothing behind.
NO_RESULT = "No found task output."
LOST = re.compile(r"task (\S+) \d+ on (\w+) (\S+) party status has been checked twice")
NOT_LOADED = "'NoneType' object has no attribute 'inputs'"


@dataclass(frozen=True)
class JobResult:
    """A job that ended well."""

    job_id: str
    seconds: float
    tasks: tuple[TaskRecord, ...]

    def seconds_per_task(self) -> dict[str, float]:
        """For each task the time of its slowest party, in the order in which tasks were started."""
        longest: dict[str, float] = {}
        for record in self.tasks:
            longest[record.task] = max(longest.get(record.task, 0.0), record.seconds or 0.0)
        return longest


@dataclass(frozen=True)
class Watch:
    """How a job is followed: who hears of its progress, for how many seconds at most, and what stops it before.

    `home` is the folder of the embedded server, where it is that one: a task that died silently is then explained by
    the end of its log. `stop` is set where another of several jobs that run at once fails.
    """

    progress: Progress = lambda task, status, seconds: None
    timeout: float = 3600.0
    home: str | os.PathLike | None = None
    stop: Event = field(default_factory=Event)


class JobFailed(FlowServerError):
    """A job did not succeed; the message is the sentence that a component raised, at whichever party."""

    def __init__(self, message: str, job_id: str | None = None, record: TaskRecord | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.record = record


class NoOutput(FlowServerError):
    """A task has no output of the kind that was asked for."""


def run_job(
    pipeline: FateFlowPipeline,
    address: FlowAddress | str | None = None,
    progress: Progress = print_progress,
    timeout: float = 3600.0,
    home: str | os.PathLike | None = None,
    stop: Event | None = None,
) -> JobResult:
    """Compile a fate_client pipeline, training or prediction, run it and wait for its end.

    `address` is HOST:PORT of the FATE-Flow server, as `fate-dp status` shows it, by default of the embedded one; what
    follows it is as in `Watch`.
    Afterwards `pipeline.deploy` and `pipeline.get_task_info` work as after `fit`.
    """
    from fate_client.pipeline.entity.model_info import FateFlowModelInfo

    check_parties(pipeline)
    home = home or (DEFAULT_HOME if address is None else None)
    address = resolve_flow(None, home or DEFAULT_HOME) if address is None else as_address(address)
    pipeline.compile()
    dag_schema = read_dag(pipeline.get_dag())
    check_over_sampling(dag_schema)
    check_chain(dag_schema)
    guest = parties_of(pipeline, "guest")[0]
    check_disclosure(dag_schema, guest_policy(home, guest).job_check)
    response = connect(address, patience=max(timeout, SUBMIT_SECONDS)).job.submit(dag_schema=dag_schema)
    if response.get("code") != 0:
        raise JobFailed(f"FATE-Flow at {address} refused the job: {reason_of(response)}.")
    job_id, model = response["job_id"], response["data"]
    result = follow_job(connect(address), job_id, "guest", guest, Watch(progress, timeout, home, stop or Event()))
    pipeline.model_info = FateFlowModelInfo(job_id, "guest", guest, model["model_id"], model["model_version"])
    return result


def check_parties(pipeline: FateFlowPipeline) -> None:
    """Refuse what a later task would refuse only after label_flip has spent: other numbers of guests or arbiters."""
    guests, arbiters = (len(parties_of(pipeline, role)) for role in ("guest", "arbiter"))
    if guests != 1:
        raise JobFailed(f"The pipeline names {guests} guests; exactly one party holds the labels.")
    tasks = pipeline.tasks.values() if pipeline.stage == "train" else ()
    trainings = [task for task in tasks if task.component_ref == "dp_hetero_lr"]
    if trainings and arbiters > 1:
        raise JobFailed(f"The pipeline names {arbiters} arbiters; dp_hetero_lr takes at most one.")
    if any(task.needs_arbiter for task in trainings) and arbiters != 1:
        raise JobFailed("The pipeline names no arbiter; dp_hetero_lr with solver per_epoch needs exactly one.")


def check_over_sampling(dag_schema: dict[str, Any]) -> None:
    """Refuse a job that would split or test on rows that smote made, directly or after other tasks.

    No component can see that by itself. Models carry no rows, and are not followed.
    """
    tasks = dag_schema["dag"]["tasks"]
    for smote in (name for name, task in tasks.items() if task["component_ref"] == "smote"):
        for name, key in JobPlan(dag_schema["dag"]).receivers(smote):
            sentence = BY_COMPONENT.get(tasks[name]["component_ref"]) or BY_INPUT.get(key)
            if sentence is not None:
                raise JobFailed(sentence.format(task=f"Task {name}", smote=smote, key=key))


def check_chain(dag_schema: dict[str, Any]) -> None:
    """Refuse a training that could not read the flips before it, for which label_flip would have been charged."""
    sentence = refusal_of_plan(JobPlan(dag_schema["dag"]))
    if sentence is not None:
        raise JobFailed(sentence)


def check_disclosure(dag_schema: dict[str, Any], job_check: str) -> None:
    """Refuse a job in which a party could compute every label or feature of another one, as the guest's policy says."""
    try:
        enforce(job_check, refusal(trace(JobPlan(dag_schema["dag"]))))
    except InvalidArgument as leak:
        raise JobFailed(str(leak)) from leak


def guest_policy(home: str | os.PathLike | None, guest: str) -> Policy:
    """That of the guest where its folder is on this machine, the default elsewhere."""
    folder = parties_folder() if home is None else open_home(home).parties
    return load_policy(party_folder(folder, guest) / POLICY_FILE)


def parties_of(pipeline: FateFlowPipeline, role: str) -> list:
    """Party ids of a role, none where the pipeline does not name it."""
    return next((list(ids) for name, ids in pipeline.parties if name == role), [])


def follow_job(client: FlowClient, job_id: str, role: str, party_id: str, watch: Watch) -> JobResult:
    """Wait for the end of a submitted job.

    It is stopped on Ctrl-C, at its time limit or at its caller's wish. No error of the way to the server stops it.
    """
    begin = time.monotonic()
    try:
        status = wait_for_end(client, job_id, role, party_id, watch)
    except (KeyboardInterrupt, SystemExit):
        client.job.stop(job_id=job_id)
        raise
    tasks = query_tasks(client, job_id)
    if status != "success":
        raise explain(job_id, status, tasks, watch.home)
    return JobResult(job_id, time.monotonic() - begin, tasks)


def wait_for_end(client: FlowClient, job_id: str, role: str, party_id: str, watch: Watch) -> str:
    """Poll the job until it ends; returns its last status."""
    begin = last_answer = last_room = time.monotonic()
    shown: dict[str, str] = {}
    rows: dict[str, str] | None = None
    local = LocalTasks(Path(os.path.realpath(watch.home or os.devnull)), job_id)
    while True:
        response = client.job.query(job_id=job_id, role=role, party_id=party_id)
        now = time.monotonic()
        if response.get("code") == 0:
            last_answer = now
            tasks = query_tasks(client, job_id)
            report_changes(tasks, shown, watch.progress, now - begin)
            if response["data"][0]["status"] in ENDED:
                return response["data"][0]["status"]
            if local.is_due(now):
                if fault := local.fault(tasks, now):
                    failure = stopped(client, job_id, f"because {fault[0]} cannot go on: {fault[1]}", "; run it again")
                    raise JobFailed(str(failure), job_id, fault[0])
                rows = input_rows(client, response["data"][0]) if rows is None else rows
                for task, told in local.told(tasks, now).items():
                    watch.progress(task, f"running{rows.get(task, '')}, {told}", now - begin)
        elif now - last_answer > SILENCE_SECONDS:
            raise JobFailed(
                f"FATE-Flow has not answered for {now - last_answer:.0f} seconds while job {job_id} ran "
                f"({reason_of(response)}); look at it with `fate-dp status`, and run the job again if it has ended.",
                job_id,
            )
        if not is_full(watch.home):
            last_room = now
        elif now - last_room > SILENCE_SECONDS:
            raise JobFailed(
                f"The disk of {watch.home} is full, and job {job_id} cannot go on; make room, "
                f"run `fate-dp stop {job_id}` and then the job again.",
                job_id,
            )
        if now > begin + watch.timeout:
            unfinished = ", ".join(task for task, status in shown.items() if status != "success") or "no task"
            why = f"after {now - begin:.0f} seconds, its time limit, in {unfinished}"
            raise stopped(client, job_id, why, "; allow more time or look into the log of that task")
        if watch.stop.wait(POLL_SECONDS):
            raise stopped(client, job_id, "because another job that it belongs with did not succeed")


def is_full(home: str | os.PathLike | None) -> bool:
    """Whether the disk of the embedded server has no room left, so that its tasks die and it cannot note their end."""
    return home is not None and shutil.disk_usage(home).free < FULL_BYTES


def stopped(client: FlowClient, job_id: str, why: str, cure: str = "") -> JobFailed:
    """Stop a job; returns the exception that says so, or that FATE-Flow did not take it."""
    response = client.job.stop(job_id=job_id)
    if response.get("code") == 0:
        return JobFailed(f"Job {job_id} was stopped {why}{cure}.", job_id)
    return JobFailed(
        f"Job {job_id} should stop {why}, but FATE-Flow does not stop it ({reason_of(response)}); run `fate-dp stop {job_id}` "
        "when it answers.",
        job_id,
    )


def report_changes(tasks: tuple[TaskRecord, ...], shown: dict[str, str], progress: Progress, seconds: float) -> None:
    """Tell `progress` which tasks changed their status since the last look; `shown` remembers."""
    parties: dict[str, list[str]] = {}
    for record in tasks:
        parties.setdefault(record.task, []).append(record.status)
    for task, statuses in parties.items():
        status = common_status(statuses)
        if shown.get(task) != status:
            shown[task] = status
            progress(task, status, seconds)


def input_rows(client: FlowClient, job: dict[str, Any]) -> dict[str, str]:
    """By task the rows of uploaded tables that it reads, of those that this server has; FATE's own psi tells nothing else."""
    found: dict[str, list[str]] = {}
    for task, planned in ((job.get("dag") or {}).get("dag") or {}).get("tasks", {}).items():
        for kind, each in (channel for given in inputs(planned).values() for channel in channels_of(given)):
            table = client.table.query(**{key: each.get(key) for key in ("namespace", "name")})
            if kind == "data_warehouse" and table.get("code") == 0:
                found.setdefault(task, []).append(str(table["data"]["count"]))
    return {task: f" on {' and '.join(rows)} rows" for task, rows in found.items()}


def common_status(statuses: list[str]) -> str:
    """The status of a task over all its parties: the worst that happened, else what still goes on."""
    for status in ("failed", "timeout", "canceled", "running"):
        if status in statuses:
            return status
    if all(status == "success" for status in statuses):
        return "success"
    return "running" if "success" in statuses else "waiting"


def query_tasks(client: FlowClient, job_id: str) -> tuple[TaskRecord, ...]:
    """All tasks of all parties that the server knows, in the order of their start."""
    response = client.task.query(job_id=job_id)
    if response.get("code") != 0:
        return ()
    rows, records = sorted(response["data"], key=lambda row: (row["start_time"] is None, row["start_time"] or 0)), []
    for row in rows:
        start, end = row.get("start_time"), row.get("end_time")
        # In milliseconds.
        seconds = (end - start) / 1000 if start and end else None
        status, error = row["party_status"] or "waiting", (row.get("error_report") or "").strip()
        provider = row.get("provider_name") or ""
        records.append(TaskRecord(row["task_name"], row["role"], row["party_id"], status, seconds, error, provider))
    return tuple(records)


def explain(job_id: str, status: str, tasks: tuple[TaskRecord, ...], home: str | os.PathLike | None) -> JobFailed:
    """The exception for a job that ended badly."""
    told = [record for record in tasks if record.error not in ("", NO_RESULT)]
    if told:
        record = max(told, key=lambda record: len(raised_sentence(record.error)))
        sentence = raised_sentence(record.error)
        if NOT_LOADED in record.error:
            sentence = (
                f"The component of {record} could not be loaded in the server's Python; "
                "the reason is in the task's log stdout/component_define."
            )
        return JobFailed(sentence, job_id, record)
    lost = lost_task(job_id, tasks, home)
    broken = [lost] if lost else [record for record in tasks if record.status in ("failed", "timeout")]
    if status == "canceled" or not broken:
        log = f"; FATE-Flow's log of it is {Path(home) / 'logs' / job_id / 'fate_flow_schedule.log'}" if home else ""
        return JobFailed(
            f"Job {job_id} ended as '{status}' without a message from any party, as when it is stopped, or its servers "
            f"restart or are out of reach; run it again{log}.",
            job_id,
        )
    for record in broken:
        logged = logged_failure(job_id, record, home)
        if logged is not None:
            return JobFailed(raised_sentence(logged), job_id, record)
    record = next((record for record in broken if record.error == NO_RESULT), broken[0])
    if lost or record.error == NO_RESULT:
        sentence = (
            f"The process of {record} ended without a result or a message, as if killed, for example for lack of memory; look "
            "there, and run the job again."
        )
    else:
        sentence = (
            f"The {record} failed without a message, perhaps because another party's did; ask the operators of parties with "
            "servers of their own."
        )
    return JobFailed(f"{sentence} Here, {log_end(job_id, record, home)}", job_id, record)


def lost_task(job_id: str, tasks: tuple[TaskRecord, ...], home: str | os.PathLike | None) -> TaskRecord | None:
    """The task whose process FATE-Flow missed, by the log of the job; it fails the others for its sake, and says so nowhere."""
    log = Path(home or "", "logs", job_id, "fate_flow_detect.log")
    if home is None or not log.is_file():
        return None
    missed = LOST.findall(log.read_text(encoding="utf-8", errors="replace"))
    return next(
        (record for record in tasks if (f"{job_id}_{record.task}", record.role, record.party_id) in missed), None
    )


def logged_failure(job_id: str, record: TaskRecord, home: str | os.PathLike | None) -> str | None:
    """The last traceback or refusal in a task's own log: FATE-Flow loses reports of tasks that it ends for another party's sake."""
    if home is None:
        return None
    log = Path(home, "logs", job_id) / record.folder / "component" / "ERROR"
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    entries = re.split(r"^(?=\[[A-Z]+\]\[)", text, flags=re.M)
    told = [each for each in entries if TRACEBACK in each or EXECUTED in each.partition("\n")[0]]
    if not told:
        return None
    _, found, report = told[-1].rpartition(TRACEBACK)
    return found + report if found else told[-1].partition("]: ")[2].strip()


def raised_sentence(report: str) -> str:
    """The message of the last exception in a traceback, without the exception's class.

    What FATE-Flow itself has to say is no traceback but a line that may hold a server's JSON answer: its message then.
    """
    lines = report.strip().splitlines()
    if TRACEBACK not in report:
        told = re.search(r'"message": ?("(?:[^"\\]|\\.)*")', report)
        return json.loads(told[1]) if told else " ".join(line.strip() for line in lines)
    heads = [number for number, line in enumerate(lines) if re.match(r"(\w+\.)*[A-Za-z_]\w*(: |$)", line)]
    if not heads:
        return lines[-1].strip()
    raised = "\n".join(lines[heads[-1] :]).strip()
    message = raised.partition(": ")[2]
    # A lone word, such as the missing key of a KeyError, says nothing without the class.
    return message if " " in message else raised


def log_end(job_id: str, record: TaskRecord, home: str | os.PathLike | None) -> str:
    """Where the log of a task is, and its last lines where it lies on this machine."""
    if home is None:
        return f"look into the server's logs of job {job_id}."
    folder = Path(home, "logs", job_id) / record.folder
    for log in (folder / "stdout" / "task_execute", folder / "root" / "ERROR", folder / "stdout" / "task_entrypoint"):
        if log.is_file() and log.stat().st_size:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            return f"the end of {log}:\n" + "\n".join(lines)
    return f"its logs are in {folder}."


def task_metrics(address: FlowAddress | str, job_id: str, role: str, party_id: str, task: str) -> list[dict[str, Any]]:
    """The metric records of a task at a party, in the order in which they were logged."""
    response = connect(address).output.query_metric(job_id=job_id, role=role, party_id=party_id, task_name=task)
    return output_of(response, "metrics", job_id, role, party_id, task) or []


def task_output_model(address: FlowAddress | str, job_id: str, role: str, party_id: str, task: str) -> dict[str, Any]:
    """The model of a task at a party, by output key."""
    response = connect(address).output.query_model(job_id=job_id, role=role, party_id=party_id, task_name=task)
    model = output_of(response, "model", job_id, role, party_id, task)
    if not model:
        raise NoOutput(f"Task {task} of {role} {party_id} in job {job_id} has no model output.")
    return model


def task_output_data(address: FlowAddress | str, job_id: str, role: str, party_id: str, task: str) -> dict[str, Any]:
    """The tables of a task at a party as pandas frames, by output key; a list where an output has several."""
    from fate_client.pipeline.utils.fateflow.fate_flow_job_invoker import FATEFlowJobInvoker

    invoker = FATEFlowJobInvoker()
    # Its own client signs nothing.
    invoker._client = connect(address)
    try:
        frames = invoker.get_output_data(job_id, role, party_id, task) or {}
    except (ValueError, IndexError, OSError) as error:
        raise NoOutput(f"Task {task} of {role} {party_id} in job {job_id} has no data output.") from error
    # FATE-Flow has the tables of a multiple output in a dictionary.
    return {
        key: [with_numbers(tables[file]) for file in sorted(tables, key=len)]
        if isinstance(tables, dict)
        else with_numbers(tables)
        for key, tables in frames.items()
    }


def with_numbers(frame: pandas.DataFrame) -> pandas.DataFrame:
    """fate_client reads prediction frames as text; labels and scores are numbers again here."""
    import pandas

    for column in {"label", "predict_result", "predict_score"} & set(frame.columns):
        frame[column] = pandas.to_numeric(frame[column])
    return frame


def output_of(response: dict[str, Any], kind: str, job_id: str, role: str, party_id: str, task: str) -> Any:
    """The data of FATE-Flow's answer about an output."""
    if response.get("code") != 0:
        raise NoOutput(f"Task {task} of {role} {party_id} in job {job_id} has no {kind}: {reason_of(response)}.")
    return response.get("data")


def reason_of(response: dict[str, Any]) -> str:
    """What FATE-Flow, or fate_client where no server answered, says went wrong."""
    told = str(response.get("message") or response.get("retmsg") or response)
    return (raised_sentence(told) if TRACEBACK in told else told).rstrip(".")
