"""Makes a failing sequence small: steps, tasks and extras that it fails without are taken away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Step = dict[str, Any]
Fails = Callable[[list[Step]], bool]


def shrunk(steps: list[Step], fails: Fails, patience: int = 200) -> list[Step]:
    """The smallest sequence that is found in so many tries and still fails."""
    tries = 0

    def still(candidate: list[Step]) -> bool:
        nonlocal tries
        tries += 1
        return tries <= patience and fails(candidate)

    again = True
    while again and tries < patience:
        again = False
        for candidate in _smaller(steps):
            if still(candidate):
                steps, again = candidate, True
                break
    return steps


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    for size in (len(steps) // 2, len(steps) // 4, 1):
        for first in range(len(steps) - size, -1, -max(size, 1)):
            if size:
                yield [*steps[:first], *steps[first + size :]]
    for at, step in enumerate(steps):
        if step["do"] == "job":
            for smaller in _smaller_jobs(step):
                yield [*steps[:at], smaller, *steps[at + 1 :]]
        elif step.get("cap") is not None and step["do"] == "upload":
            yield [*steps[:at], {**step, "cap": None}, *steps[at + 1 :]]


def _smaller_jobs(job: Step) -> Iterator[Step]:
    tasks = job["tasks"]
    for at in range(len(tasks) - 1, 0, -1):
        # Whoever read this task's output reads its input.
        own = tasks[at]
        yield {**job, "tasks": tasks[:at] + tasks[at + 1 :]}
        inputs = [each for key, each in own["inputs"].items() if key.startswith("input_data")]
        passed = inputs[0] if inputs and not isinstance(inputs[0][0], list) else inputs and inputs[0][0]
        if passed:
            later = [_reading(task, own["name"], list(passed)) for task in tasks[at + 1 :]]
            yield {**job, "tasks": tasks[:at] + later}
    if any("fault" in task for task in tasks):
        yield {**job, "tasks": [{key: each for key, each in task.items() if key != "fault"} for task in tasks]}
    if len(job["hosts"]) > 1:
        yield {**job, "hosts": job["hosts"][:1]}


def _reading(task: Step, gone: str, instead: list[str]) -> Step:
    """The task, with ``instead`` in place of all outputs of the one that is gone."""
    changed = deepcopy(task)
    for key, channels in changed["inputs"].items():
        if isinstance(channels[0], list):
            changed["inputs"][key] = [instead if each[0] == gone else each for each in channels]
        elif channels[0] == gone:
            changed["inputs"][key] = instead
    return changed


def script(steps: list[Step]) -> str:
    """The sequence for people, and as `python -m tests.job_fuzz --replay FILE` reads it."""
    lines = []
    for step in steps:
        if step["do"] == "upload":
            label = f", label {step['label']} as {step['called']}" if step["label"] else ""
            cap = f", cap {step['cap']:g}" if step["cap"] else ""
            rows = f"{step['population']} {step['first']}-{step['last'] - 1}"
            lines.append(f"{step['party']} uploads {step['name']}: {rows}, {', '.join(step['columns'])}{label}{cap}")
        elif step["do"] == "job":
            lines.append(f"job, guest {step['guest']}, hosts {', '.join(step['hosts'])}, arbiter {step['arbiter']}")
            for task in step["tasks"]:
                given = task.get("tables") or {**task["parameters"], **task.get("own", {}).get("guest", {})}
                inputs = ", ".join(f"{key} {_channel(each)}" for key, each in task["inputs"].items())
                fault = f", killed at {task['fault']}" if task.get("fault") else ""
                kept = f", kept as {task['kept']['name']}" if task.get("kept") else ""
                lines.append(f"    {task['name']} {given} {inputs}{fault}{kept}")
        else:
            lines.append(" ".join(f"{key} {value}" for key, value in step.items()))
    return "\n".join(lines)


def _channel(channels: list) -> str:
    return " + ".join(map(_channel, channels)) if isinstance(channels[0], list) else "/".join(channels)
