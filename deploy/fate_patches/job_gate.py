"""What a job may do at a party that did not submit it: compute, on tables, with numbers and names of columns.

A FATE-Flow 2.2 runs whatever the DAG of another party's job says: components that read and write files of the server, options of
`spark-submit`, classes by module and name, and names of which it makes folders. Every job comes in at
`JobController.create_job`, one role at a time, before anything of it is written down or run. There it is looked at, as FATE-Flow's
own parser reads it, and a refusal is FATE-Flow's answer to whoever submits the job, so that no party runs any of it.

No DAG can say whose job it is, since whoever sends it wrote it. A job is this party's own while this server's own client submits
the same tasks in this process (`request_create_job`); of its tasks those are own that run as the role `local` or as the party whose
id the server has. Who may ask a server as its client may have files read and written by `data/component/upload` and
`download` anyway, so nothing is given away there. On a server without an id, which plays all parties, only `local` is own.

What is refused to others, a party's operator can allow: `foreign_jobs` in its policy.yaml. What no network is made of
(`model_classes`) and names that are none are refused in everybody's jobs.
"""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import contextmanager

if __package__:
    from .model_classes import check_names, policy_of
else:
    from model_classes import check_names, policy_of  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# FATE's components whose work is with files, addresses or tables by a name of the job's choice. Known ones beside them do none of it:
# docs/foreign_jobs.md has them all, with every parameter that names something.
WORK_ON_FILES = {
    "upload": "reads a file of the server, removes it if told to, and replaces a table",
    "download": "writes a table into a folder of the server",
    "dataframe_transformer": "replaces a table",
}
COMPONENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "components")
COMPONENT_NAME = re.compile(r"[a-z][a-z0-9_]*")
# FATE-Flow makes paths of a DAG's texts: of all but the values of parameters and the names of tables.
PLAIN = re.compile(r"[^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]{0,199}")
NOT_A_NAME = "must be a name without slashes that does not begin with a dot"
TABLE = ("namespace", "name")
# Of `engine_run`, which on Spark becomes options of `spark-submit`.
ENGINE_RUN, LAUNCHER = "engine_run", "launcher_name"
AMOUNTS = (
    *("cores", "task_cores", "task_cores_per_node", "nodes", "num-executors", "executor-cores", "total-executor-cores"),
    *("executor-memory", "driver-memory", "driver-cores"),
)
AMOUNT = re.compile(r"[0-9]{1,6}[kmgt]?b?", re.IGNORECASE)


def check_path_names(content: object, where: str = "the job") -> None:
    """Refuse a text that would lead FATE-Flow out of its folders."""
    if isinstance(content, dict):
        for key, value in content.items():
            check_path_names(key, where)
            if not (key in TABLE and isinstance(value, str)):
                check_path_names(value, str(key))
    elif isinstance(content, (list, tuple)):
        for each in content:
            check_path_names(each, where)
    elif isinstance(content, str) and content and not PLAIN.fullmatch(content):
        raise ValueError(f"{where} {NOT_A_NAME}, got {content!r}.")


def without_values(dag: Any) -> dict:
    """The texts of a DAG of which FATE-Flow makes paths: all but values of parameters and options of engines."""
    whole: dict = dag.dict()
    job, parties = whole.get("conf") or {}, list((whole.get("party_tasks") or {}).values())
    tasks = [*whole["tasks"].values(), *(task for party in parties for task in (party.get("tasks") or {}).values())]
    for task in tasks:
        task.pop("parameters", None)
    job.pop("extra", None)
    for conf in (job.get("task"), *(each.get("conf") for each in (*tasks, *parties))):
        (conf or {}).pop(ENGINE_RUN, None)
    return whole


def check_classes(content: object, party_id: str) -> None:
    """Refuse what FATE's `Loader` would import for these parameters, however deep it stands."""
    if isinstance(content, dict):
        if "module_name" in content or "item_name" in content:
            check_names(content.get("module_name"), content.get("item_name"), party_id)
        content = list(content.values())
    if isinstance(content, (list, tuple)):
        for each in content:
            check_classes(each, party_id)


def is_known(component: object) -> bool:
    """Whether a component is FATE's or ours: whether `fate-dp check` knows what it shows."""
    if not isinstance(component, str) or not COMPONENT_NAME.fullmatch(component):
        return False
    files = (("disclosure", "catalogue", f"{component}.yaml"), (component, "guarantee.yaml"))
    return any(os.path.isfile(os.path.join(COMPONENTS, *each)) for each in files)


def asked_by(component: str, conf: dict) -> Iterator[tuple[str, str]]:
    """What a task asks for that only its party's own jobs may: the word that would allow it, and what it is."""
    if component in WORK_ON_FILES:
        yield component, f"runs {component}, which {WORK_ON_FILES[component]}"
    elif not is_known(component):
        yield component, f"runs {component}, which is neither FATE's nor FATE-DP's"
    for name, value in (conf.get(ENGINE_RUN) or {}).items():
        if name not in AMOUNTS or value is not None and not AMOUNT.fullmatch(str(value)):
            yield ENGINE_RUN, f"has {name!r} in engine_run, which may be more than an amount"
    if conf.get(LAUNCHER, "default") not in (None, "", "default"):
        yield LAUNCHER, f"has the launcher {conf[LAUNCHER]!r}"


def check_task(task: str, node: Any, role: str, party_id: str) -> None:
    """Refuse a task of another party's job that asks for what this party's policy does not allow."""
    asked = list(asked_by(node.component_ref, node.conf or {}))
    policy = policy_of(party_id) if asked else None
    for word, what in asked:
        if policy is None or word not in policy.foreign_jobs:
            raise ValueError(
                f"Task {task} {what}: the jobs of other parties may not do that at {role} {party_id}, unless its operator lists "
                f"{word} under foreign_jobs in policy.yaml."
            )


def dag_of(schema: Any) -> Any:
    """The DAG as FATE-Flow reads it; what is none it would take as it comes."""
    if not hasattr(schema.dag, "tasks"):
        raise ValueError("dag must be one of FATE-Flow 2.2, with parties and tasks.")
    return schema.dag


def content_of(dag: Any) -> str:
    """The part of a DAG that says what runs where; who schedules a job adds to the rest of it."""
    whole = json.loads(json.dumps(dag.dict(), default=str))
    tasks = {
        name: [task.get(part) for part in ("component_ref", "parameters", "conf", "parties")]
        for name, task in whole["tasks"].items()
    }
    run = (whole.get("conf") or {}).get("task")
    return json.dumps([tasks, whole.get("party_tasks"), whole["parties"], run], sort_keys=True)


class Submissions:
    """The jobs that this server's own client submits at the moment."""

    def __init__(self) -> None:
        self._lock, self._jobs = threading.Lock(), list[str]()

    @contextmanager
    def going_on(self, dag: Any) -> Iterator[None]:
        content = content_of(dag)
        with self._lock:
            self._jobs.append(content)
        try:
            yield
        finally:
            with self._lock:
                self._jobs.remove(content)

    def have(self, dag: Any) -> bool:
        with self._lock:
            return content_of(dag) in self._jobs


def guard_jobs(module: Any) -> None:
    """Let FATE-Flow's `JobController` look at a job before it takes it."""
    controller, submissions = module.JobController, Submissions()
    submit, create, start = (
        getattr(controller, name).__func__ for name in ("request_create_job", "create_job", "start_job")
    )

    def request_create_job(cls, schema: Any, *others: Any, **named: Any) -> Any:
        with submissions.going_on(dag_of(schema)):
            return submit(cls, schema, *others, **named)

    def create_job(cls, dag: Any, schema_version: Any, job_id: Any, role: Any, party_id: Any) -> None:
        check_path_names({"job_id": job_id, "role": role, "party_id": party_id})
        schema = module.DAGSchema(dag=dag, schema_version=schema_version)
        read = dag_of(schema)
        check_path_names(without_values(read))
        # Under another id, which its sender can route here, the job would find a new key, an empty ledger and no policy.
        own, among_others = str(module.PARTY_ID), module.ENGINES.get("federated_mode") == "MULTIPLE"
        if among_others and role != "local" and party_id != own:
            raise ValueError(
                f"party_id must be that of this server, {own!r} in its service_conf.yaml, got {party_id!r}."
            )
        is_own = submissions.have(read) and (role == "local" or party_id == (own or None))
        parser = module.JobParser(schema)
        for task in parser.global_topological_sort():
            if not module.job_utils.check_party_in(role, party_id, parser.get_task_runtime_parties(task)):
                continue
            node = parser.get_task_node(role, party_id, task)
            check_classes(node.runtime_parameters, party_id)
            if not is_own:
                check_task(task, node, role, party_id)
        create(cls, dag, schema_version, job_id, role, party_id)

    def start_job(cls, job_id: Any, role: Any, party_id: Any, extra_info: Any = None) -> None:
        # FATE-Flow writes it over the job that was looked at; its own scheduler never sends any.
        if extra_info:
            raise ValueError(f"extra_info must be left out when a job is started, got {sorted(extra_info)}.")
        start(cls, job_id, role, party_id)

    for change in (request_create_job, create_job, start_job):
        setattr(controller, change.__name__, classmethod(change))
