"""The tasks of a job and how data flow between them, read from its DAG as fate_client writes it and FATE-Flow keeps it."""

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fate_dp.privacy.declared import YamlReader

from .channels import DATA, MODELS, WAREHOUSES, inputs, sources
from .federation import Document


@dataclass(frozen=True)
class PlannedTask:
    """One task of a job; ``parameters`` are those for all parties, ``model_inputs`` names of the models that it is given."""

    name: str
    component: str
    stage: str
    parameters: Document
    model_inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobPlan:
    """A job's DAG: what stands under ``dag`` in its file; ``runs`` where FATE-Flow has started it, be it in part."""

    dag: Document
    runs: bool = False

    def task(self, name: str) -> PlannedTask:
        """The task of this name; raises KeyError where the job has none."""
        task = self.dag["tasks"][name]
        stage = task.get("stage") or self.dag.get("stage") or "train"
        models = tuple((task.get("inputs") or {}).get("model") or ())
        return PlannedTask(name, task["component_ref"], stage, dict(task.get("parameters") or {}), models)

    def tasks_of(self, component: str) -> list[PlannedTask]:
        """All tasks that run a component, in the order of their names."""
        return [task for task in map(self.task, sorted(self.dag["tasks"])) if task.component == component]

    def receivers(self, source: str) -> list[tuple[str, str]]:
        """(task, data input) of everything that data of ``source`` flow into, however far."""
        found: list[tuple[str, str]] = []
        reached = [source]
        for producer in reached:
            read = self.readers(producer)
            found += read
            reached += [name for name in dict(read) if name not in reached]
        return found

    def readers(self, source: str) -> list[tuple[str, str]]:
        """(task, data input) of everything that reads data of ``source``, with no task between them."""
        return [
            (name, key)
            for name, task in self.dag["tasks"].items()
            for key, given in inputs(task).items()
            if source in dict(sources(given))
        ]

    def reads_directly(self, name: str, source: str, keys: Sequence[str]) -> bool:
        """Whether one of these data inputs of the task is an output of ``source``, with no task between them."""
        return any(reader == name and key in keys for reader, key in self.readers(source))

    def has_input(self, name: str, key: str) -> bool:
        return bool(inputs(self.dag["tasks"][name]).get(key))

    def parties(self, role: str, task: str | None = None) -> list[str]:
        """Ids of the parties that play a role in the job, or in one task of it."""
        named = (self.dag["tasks"][task].get("parties") if task is not None else None) or self.dag.get("parties") or []
        return [str(party_id) for line in named if line["role"] == role for party_id in line["party_id"]]


# What FATE-Flow keeps of a job on this machine: which tables the data of a task come from, and the job's DAG.
#
# FATE-Flow starts a task's process with ``--config JOBS/job/role/party/task/version/input/task_parameters.yaml``. What it
# made that from lies beside it, as for the party's earlier tasks, and where the job was submitted here,
# ``JOBS/job/dag.yaml``. A process that was started otherwise, as a test's is, finds nothing, and nothing is refused for that.
#
# Names of tables tell an operator which table a line or a refusal is about, and whom its ids name; what FATE-Flow's files do
# not tell may be anybody's.

logger = logging.getLogger(__name__)

PARAMETERS, BEFORE_INPUTS, DAG = "task_parameters.yaml", "preprocess_parameters.yaml", "dag.yaml"
LEVELS = 6
"""Folders from a task's parameters up to that of its job."""
READER, UPLOADER = "reader", "dataframe_transformer"
MAX_STEPS = 1000
UNKNOWN = ""
"""In place of a task, or of a table, where FATE-Flow's files do not tell."""


@dataclass(frozen=True)
class JobFiles:
    """The files of the job that a task belongs to; ``parameters`` is the task's own file."""

    parameters: Path

    @classmethod
    def of_this_task(cls) -> "JobFiles | None":
        """Those of the task that runs in this process, None where FATE-Flow did not start it."""
        given = dict(zip(sys.argv, sys.argv[1:])).get("--config")
        if not given:
            return None
        path = Path(given)
        known = path.name == PARAMETERS and len(path.parents) > LEVELS and path.is_file()
        return cls(path) if known else None

    @property
    def task(self) -> str:
        return self.parameters.parents[2].name

    def given(self) -> Document:
        """The task's parameters at this party, those among them that its component does not know."""
        return _content(self.parameters).get("parameters") or {}

    def plan(self) -> JobPlan | None:
        """The job's DAG; None at a party where the job was not submitted."""
        content = _content(self.parameters.parents[LEVELS - 1] / DAG)
        dag = content.get("dag")
        return JobPlan(dag, runs=True) if isinstance(dag, dict) and isinstance(dag.get("tasks"), dict) else None

    def so_far(self) -> JobPlan:
        """What this party was to do in the job until now, where the whole DAG is known to another party only.

        Tasks of other parties alone, and those that come later, are not among them.
        """
        tasks: dict[str, Document] = {}
        for folder in sorted(self.parameters.parents[3].iterdir()):
            content = self._of(folder.name)
            if not content.get("component"):
                continue
            roles: dict[str, list[str]] = {}
            named = content.get("conf", {}).get("federation", {}).get("metadata", {}).get("parties", {}).get("parties")
            for party in named or ():
                roles.setdefault(party["role"], []).append(party["partyid"])
            tasks[folder.name] = {
                "component_ref": content["component"],
                "stage": content.get("stage"),
                "parameters": content.get("parameters") or {},
                "inputs": content.get("input_artifacts") or {},
                "parties": [{"role": role, "party_id": ids} for role, ids in roles.items()],
            }
        everybody: dict[str, set[str]] = {}
        for task in tasks.values():
            for line in task["parties"]:
                everybody.setdefault(line["role"], set()).update(line["party_id"])
            given, task["inputs"] = task["inputs"], {DATA: {}, MODELS: {}}
            for kind, elsewhere in zip((DATA, MODELS), WAREHOUSES):
                for key, value in (given.get(kind) or {}).items():
                    own = [one for one in _listed(value) if _producer(one) in tasks]
                    others = [one for one in _listed(value) if one not in own]
                    task["inputs"][kind][key] = {"task_output_artifact": own, elsewhere: others}
        parties = [{"role": role, "party_id": sorted(ids)} for role, ids in sorted(everybody.items())]
        return JobPlan({"tasks": tasks, "parties": parties, "stage": "default"}, runs=True)

    def tables(self, key: str | None = None) -> tuple[str, ...]:
        """``namespace/name`` of the tables that the data input ``key``, or any, was given, perhaps through other tasks."""
        return tuple(sorted(set(self._sources(key)) - {UNKNOWN}))

    def origin(self, key: str | None = None) -> tuple[str, ...] | None:
        """`tables` where all rows come from these; None where some may come from elsewhere, such as an earlier job."""
        found = set(self._sources(key))
        return None if UNKNOWN in found or not found else tuple(sorted(found))

    def _sources(self, key: str | None) -> Iterator[str]:
        """Where rows of a data input come from, as far as FATE-Flow's files tell."""
        waiting = _producers(self._of(self.task), key)
        seen: set[str] = set()
        while waiting:
            task = waiting.pop()
            if task in seen:
                continue
            if not _is_task(task) or len(seen) == MAX_STEPS:
                yield UNKNOWN if _is_task(task) else task
                continue
            seen.add(task)
            content = self._of(task)
            if content.get("component") == READER:
                given = content.get("parameters") or {}
                yield f"{given.get('namespace')}/{given.get('name')}"
            else:
                waiting += _producers(content, None) or [UNKNOWN]

    def foreign_writers(self, task: str) -> list[str]:
        """Who wrote the tables that a task of this party reads, where it was neither an upload nor a task of this job.

        FATE-Flow 2.2.0 keeps with each table the task that wrote it, and tells it as ``source`` of an input in `PARAMETERS`.
        A reader writes none, so that behind it stands the last component of an upload, or the task of an earlier job whose
        output it was given (named by chance: the task's id, and a UUID). So do tasks that a job inherits, and inputs from
        ``data_warehouse``. Where a file tells no source, the tasks that are read must be the job's own.
        """
        content, made = self._of(task), self._of(task, PARAMETERS).get("input_artifacts") or {}
        named = [name for name in _producers(content, None) if _is_task(name)]
        own = [name for name in named if self._of(name)]
        found = [f"task {name} of an earlier job" for name in named if name not in own]
        for key, channels in ((content.get("input_artifacts") or {}).get(DATA) or {}).items():
            artifacts = _listed(made.get(key))
            if not artifacts and not all(map(_is_task, map(_producer, _listed(channels)))):
                found.append("a task that FATE-Flow does not tell")
            for artifact in artifacts:
                source = (artifact.get("metadata") or {}).get("source") or {}
                job = self.parameters.parents[LEVELS - 1].name
                ours = source.get("task_id") in [f"{job}_{name}" for name in own]
                if source and not ours and source.get("component") != UPLOADER:
                    found.append(f"task {source.get('task_name')} ({source.get('component')}) of an earlier job")
        return found

    def _of(self, task: str, file: str = BEFORE_INPUTS) -> Document:
        """What a task of this party was to do, in its last attempt."""

        def attempt(path: Path) -> int:
            number = path.parents[1].name
            return int(number) if number.isdigit() else -1

        attempts = sorted((self.parameters.parents[3] / task).glob(f"*/input/{file}"), key=attempt)
        return _content(attempts[-1]) if attempts else {}


def tables_of_this_task(key: str | None = None) -> tuple[str, ...]:
    """See `JobFiles.tables`; nothing where FATE-Flow's files are out of reach."""
    files = JobFiles.of_this_task()
    return () if files is None else files.tables(key)


def origin_of_this_task(key: str | None = None) -> tuple[str, ...] | None:
    """See `JobFiles.origin`; None, too, where FATE-Flow's files are out of reach."""
    files = JobFiles.of_this_task()
    return None if files is None else files.origin(key)


def _producers(content: Document, key: str | None) -> list[str]:
    """Names of this job's tasks whose output a task reads, and of stored tables; `UNKNOWN` for what else it reads."""
    given = (content.get("input_artifacts") or {}).get(DATA) or {}
    chosen = given.values() if key is None else [given.get(key)]
    return [_producer(channel) for value in chosen for channel in _listed(value)]


def _producer(channel: Document) -> str:
    task, namespace, name = (channel.get(word) for word in ("producer_task", "namespace", "name"))
    kept = channel.get("job_id") or channel.get("dataset_id") or channel.get("model_id")
    if namespace and name and not (task or kept):
        return f"{namespace}/{name}"
    elsewhere = kept or namespace or name
    return UNKNOWN if elsewhere or not isinstance(task, str) or Path(task).name != task else task


def _is_task(name: str) -> bool:
    """Whether it is that of a task, as `_producer` tells it."""
    return name != UNKNOWN and "/" not in name


def _listed(value: object) -> list[Document]:
    """The channels of one input, of which FATE-Flow writes one, a list or none."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _content(path: Path) -> Document:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), YamlReader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        logger.info("%s tells nothing: %s", path, error)
        return {}
    return content if isinstance(content, dict) else {}
