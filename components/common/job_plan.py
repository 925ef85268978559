"""The tasks of a job and how data flow between them, read from its DAG as fate_client writes it and FATE-Flow keeps it."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedTask:
    """One task of a job.

    Attributes:
        name: in the job.
        component: which component it runs.
        stage: ``train``, ``predict``, ``cross_validation`` or ``default``.
        parameters: for all parties; those of single parties are not among them.
        model_inputs: names of the models that it is given.
    """

    name: str
    component: str
    stage: str
    parameters: dict
    model_inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobPlan:
    """A job's DAG.

    :param dag: what stands under ``dag`` in a job's DAG file.
    """

    dag: dict

    def task(self, name: str) -> PlannedTask:
        """
        :raises KeyError: for a task that the job does not have.
        """
        task = self.dag["tasks"][name]
        stage = task.get("stage") or self.dag.get("stage") or "train"
        models = tuple((task.get("inputs") or {}).get("model") or ())
        return PlannedTask(name, task["component_ref"], stage, dict(task.get("parameters") or {}), models)

    def tasks_of(self, component: str) -> list[PlannedTask]:
        """All tasks that run a component, in the order of their names."""
        return [self.task(name) for name in sorted(self.dag["tasks"]) if self.dag["tasks"][name]["component_ref"] == component]

    def receivers(self, source: str) -> list[tuple[str, str]]:
        """(task, data input) of everything that data of ``source`` flow into, however far."""
        return receivers(self.dag["tasks"], source)

    def reads_directly(self, name: str, source: str, keys: Sequence[str]) -> bool:
        """Whether one of these data inputs of the task is an output of ``source``, with no task between them."""
        inputs = data_inputs(self.dag["tasks"][name])
        return any(source in producers(channels) for key, channels in inputs.items() if key in keys)

    def has_input(self, name: str, key: str) -> bool:
        """Whether the task is given a table under this key."""
        return bool(data_inputs(self.dag["tasks"][name]).get(key))

    def parties(self, role: str, task: str | None = None) -> list[str]:
        """Ids of the parties that play a role in the job, or in one task of it."""
        named = (self.dag["tasks"][task].get("parties") if task is not None else None) or self.dag.get("parties") or []
        return [str(party_id) for line in named if line["role"] == role for party_id in line["party_id"]]


def receivers(tasks: dict, source: str) -> list[tuple[str, str]]:
    """(task, data input) of everything that data of `source` flows into, however far."""
    found, reached = [], [source]
    for producer in reached:
        for name, task in tasks.items():
            keys = [key for key, channels in data_inputs(task).items() if producer in producers(channels)]
            found += [(name, key) for key in keys]
            if keys and name not in reached:
                reached.append(name)
    return found


def data_inputs(task: dict) -> dict:
    """The data inputs of a task by key."""
    return (task.get("inputs") or {}).get("data") or {}


def producers(channels: dict) -> list[str]:
    """The tasks whose output an input reads; rows of a table that was uploaded have none."""
    outputs = channels.get("task_output_artifact") or []
    return [output["producer_task"] for output in (outputs if isinstance(outputs, list) else [outputs])]
