"""Follow labels, features, ids and scores through the DAG of a job, ours or FATE's own, and say who learns what.

A job's tasks are walked in the order of their data. What a table's label column holds (true labels, or flips of label_flip)
goes from output to input as the declarations say; every statement of a task's declaration (`Shown`) becomes one `Sight` for
each observer and owner among the task's parties. What another job did to a table before is not seen: a table that is read
is taken to hold true labels. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fate_dp.privacy.validation import InvalidArgument, is_real

from ..common.federation import Document
from ..common.job_files import JobPlan, data_inputs, outputs_read, producers
from ..common.vocabulary import with_new_names
from .declaration import (
    EVERY,
    FEATURES,
    FLIPPED,
    INPUT,
    LABELS,
    MODEL,
    NO_LABELS,
    ROLES,
    SHUFFLER,
    TRUE,
    ComponentDisclosure,
    Mixing,
    Shown,
    disclosure_of,
    fits,
)

NOT_GIVEN = object()
UNKNOWN_ROWS = Mixing(LABELS, "leave it out; nobody has said what its rows depend on")
HOST = "host"
LOCAL = "local"
"""FATE's name for the party of a task that runs at one party alone."""
NOT_TRAINED_ON = ("validate_data", "test_data")
OUTPUT_OF = "_output_data"
"""FATE's outputs ``train_output_data`` and so on hold the rows of the input ``train_data``."""


@dataclass(frozen=True)
class Party:
    role: str
    party_id: str = ""

    def __str__(self) -> str:
        return f"{self.role} {self.party_id}" if self.party_id else "whoever gets the model"


@dataclass(frozen=True)
class Labels:
    """What a label column holds: ``true`` labels, ``flipped`` ones (epsilon in nats, of which task), or ``none``.

    ``classes`` are those that flips were drawn from as the job lists them: None if it lists none, empty for noisy numbers.
    """

    state: str
    epsilon: float | None = None
    by: str = ""
    classes: tuple[Any, ...] | None = None

    @classmethod
    def worst(cls, found: Iterable[Labels]) -> Labels:
        """True labels if any holds them; of several flips those of the largest epsilon."""
        order = {NO_LABELS: 0, FLIPPED: 1, TRUE: 2}
        return max(found, key=lambda labels: (order[labels.state], labels.epsilon or 0.0), default=NONE)


NONE, TRUE_LABELS = Labels(NO_LABELS), Labels(TRUE)


@dataclass(frozen=True)
class Sight:
    """What one observer learns of one owner's asset in one task; ``labels`` is what the label column held, for labels."""

    task: str
    component: str
    observer: Party
    owner: Party
    shown: Shown
    labels: Labels

    @property
    def leaks(self) -> bool:
        """Whether the observer can compute every true label or every feature of another party."""
        private = self.shown.what == FEATURES or self.shown.what == LABELS and self.labels.state == TRUE
        return self.shown.learns == EVERY and private and self.observer.role != MODEL


@dataclass(frozen=True)
class Unknown:
    """A task whose component nobody knows; ``labels`` is what the label columns that it gets hold."""

    task: str
    component: str
    labels: Labels


@dataclass(frozen=True)
class Disclosure:
    """All sights of a job, in the order of its tasks, and the tasks whose component nobody knows."""

    plan: JobPlan
    sights: tuple[Sight, ...]
    unknown: tuple[Unknown, ...]

    @property
    def leaks(self) -> tuple[Sight, ...]:
        return tuple(sight for sight in self.sights if sight.leaks)


def trace(plan: JobPlan) -> Disclosure:
    """Who learns what in a job; raises InvalidArgument for a DAG that cannot be followed, one sentence."""
    walk = Walk(plan)
    sights: list[Sight] = []
    for name in walk.order:
        sights += walk.sights_of(name)
    unknown = tuple(
        Unknown(name, plan.task(name).component, walk.labels_into(name))
        for name in walk.order
        if not walk.is_known(name)
    )
    return Disclosure(plan, tuple(sights), unknown)


@dataclass(frozen=True)
class Walk:
    """One job as it is followed."""

    plan: JobPlan

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Names of the tasks, each after those whose outputs it reads."""
        tasks = self.plan.dag["tasks"]
        waiting = {name: set(inputs_from(task)) for name, task in tasks.items()}
        for name, needed in waiting.items():
            missing = sorted(needed - set(tasks))
            if missing:
                allowed = f"an output of one of the job's tasks {sorted(tasks)}"
                raise InvalidArgument.of(f"The input of task {name}", missing[0], allowed)
        found: list[str] = []
        while waiting:
            ready = [name for name, needed in waiting.items() if needed <= set(found)]
            if not ready:
                raise InvalidArgument(
                    f"The tasks {sorted(waiting)} wait for each other's outputs in a circle. A DAG has none."
                )
            found += ready
            waiting = {name: needed for name, needed in waiting.items() if name not in ready}
        return tuple(found)

    @cached_property
    def declared(self) -> dict[str, ComponentDisclosure | None]:
        return {name: disclosure_of(task["component_ref"]) for name, task in self.plan.dag["tasks"].items()}

    def is_known(self, name: str) -> bool:
        """Whether somebody has read what a task runs: its component, and the code that its parameters name."""
        declared = self.declared[name]
        return declared is not None and all(
            fits(declared.known, settings) and not names_other_code(settings) for settings in self.settings_of(name)
        )

    @cached_property
    def outputs(self) -> dict[tuple[str, str], Labels]:
        """By task and output key, what was asked for so far; filled in the order of the tasks."""
        found: dict[tuple[str, str], Labels] = {}
        keys_read = {
            (source, key)
            for task in self.plan.dag["tasks"].values()
            for channels in data_inputs(task).values()
            for source, key in sources(channels)
        }
        for name in self.order:
            for source, key in sorted(keys_read):
                if source == name:
                    found[name, key] = self._carried(name, key, found)
        return found

    def _carried(self, name: str, key: str, known: Mapping[tuple[str, str], Labels]) -> Labels:
        """What the label column of one output holds."""
        declared = self.declared[name]
        kind = next((o.labels for o in declared.outputs if key in o.outputs), INPUT) if declared is not None else INPUT
        if kind == TRUE:
            return TRUE_LABELS
        if kind == NO_LABELS:
            return NONE
        if kind == FLIPPED:
            return Labels(FLIPPED, self._epsilon(name), name, self._classes(name))
        inputs = data_inputs(self.plan.dag["tasks"][name])
        if not inputs:
            return TRUE_LABELS
        own = key.partition(OUTPUT_OF)[0] + "_data"
        chosen = {own: inputs[own]} if own in inputs else inputs
        return Labels.worst(self._entering(channels, known) for channels in chosen.values())

    def _entering(self, channels: Document, known: Mapping[tuple[str, str], Labels]) -> Labels:
        found = [known[source] for source in sources(channels)]
        # What is read from a warehouse holds the labels as they were uploaded.
        return Labels.worst(found) if found else TRUE_LABELS

    def _epsilon(self, name: str) -> float | None:
        given = self.settings_of(name)[0].get("epsilon")
        return float(given) if is_real(given) else None

    def _classes(self, name: str) -> tuple[object, ...] | None:
        given = self.settings_of(name)[0]
        if given.get("bounds") is not None:
            return ()
        listed = given.get("classes")
        return tuple(listed) if isinstance(listed, list | tuple) else None

    def labels_into(self, name: str, inputs: tuple[str, ...] = ()) -> Labels:
        """The worst of what the named data inputs hold, by default of those that are trained on."""
        given = data_inputs(self.plan.dag["tasks"][name])
        trained = [key for key in given if key not in NOT_TRAINED_ON]
        chosen = [key for key in inputs if key in given] if inputs else trained or list(given)
        if not given:
            return TRUE_LABELS
        return Labels.worst(self._entering(given[key], self.outputs) for key in chosen)

    def before(self, name: str) -> tuple[str, ...]:
        """Tasks whose data flow into a task, however far, the nearest first."""
        reached = [name]
        for each in reached:
            channels = data_inputs(self.plan.dag["tasks"][each]).values()
            reached += dict.fromkeys(
                source for given in channels for source in producers(given) if source not in reached
            )
        return tuple(reached[1:])

    def mixing_before(self, name: str) -> list[tuple[str, Mixing]]:
        """(task, how) for all tasks before one that mix rows; a component that nobody knows may read everything."""
        found = []
        for each in self.before(name):
            declared = self.declared[each]
            rows = declared.rows if declared is not None and self.is_known(each) else (UNKNOWN_ROWS,)
            found += [(each, how) for how in rows if any(fits(how.when, given) for given in self.settings_of(each))]
        return found

    def settings_of(self, name: str) -> list[dict[str, object]]:
        """Parameters of a task with the component's defaults, once for each variant that some party was given."""
        task = self.plan.dag["tasks"][name]
        common = dict(task.get("parameters") or {})
        own = [
            (party.get("tasks") or {}).get(name, {}).get("parameters")
            for party in (self.plan.dag.get("party_tasks") or {}).values()
        ]
        given = [common, *({**common, **parameters} for parameters in own if parameters)]
        variants = [with_new_names(task["component_ref"], each) for each in given]
        trained = self._training_of(name)
        if trained is not None:
            # What a model was trained with holds for its predictions, whose task is not told again.
            variants = [{**before, **given} for before in self.settings_of(trained) for given in variants]
        declared = self.declared[name]
        defaults = dict(declared.settings) if declared is not None else {}
        return [{**variant, **defaults, **flat(variant, defaults)} for variant in variants]

    def _with_classes(self, name: str, settings: dict[str, object]) -> dict[str, object]:
        """Classes that a task is not told are those of the flips that it reads."""
        flips = self.labels_into(name).classes
        if flips is None or "classes" not in settings or settings["classes"] is not None:
            return settings
        return {**settings, "classes": list(flips)}

    def _training_of(self, name: str) -> str | None:
        """The task of this job that trained the model which a task of the same component is given."""
        tasks = self.plan.dag["tasks"]
        models = ((tasks[name].get("inputs") or {}).get("model") or {}).values()
        found = [source for channels in models for source, _ in sources(channels)]
        return next((each for each in found if tasks[each]["component_ref"] == tasks[name]["component_ref"]), None)

    def stage_of(self, name: str) -> str:
        stage = self.plan.task(name).stage
        declared = self.declared[name]
        return stage if declared is None or stage in declared.stages else declared.stages[0]

    def parties_of(self, name: str, roles: Iterable[str]) -> list[Party]:
        """Parties of a task in some roles; all that get the model are one observer."""
        return [party for role in roles for party in self._parties_in(name, role)]

    def _parties_in(self, name: str, role: str) -> list[Party]:
        if role == MODEL:
            return [Party(MODEL)]
        if role not in (HOST, SHUFFLER):
            return [Party(role, each) for each in self.plan.parties(role, name)]
        shufflers = {str(settings.get(SHUFFLER)) for settings in self.settings_of(name)}
        return [
            Party(HOST, each) for each in self.plan.parties(HOST, name) if (each in shufflers) == (role == SHUFFLER)
        ]

    def sights_of(self, name: str) -> list[Sight]:
        declared = self.declared[name]
        if declared is None:
            return []
        if not self.parties_of(name, (*ROLES, SHUFFLER, LOCAL)):
            raise InvalidArgument(f"Task {name} has no parties. Name the guest and who else takes part.")
        stage, variants = self.stage_of(name), [self._with_classes(name, each) for each in self.settings_of(name)]
        found = []
        for shown in declared.shows:
            happens = not shown.stages or stage in shown.stages
            if not happens or not any(fits(shown.when, settings) for settings in variants):
                continue
            if shown.inputs and not set(shown.inputs) & set(data_inputs(self.plan.dag["tasks"][name])):
                continue
            labels = self.labels_into(name, shown.inputs) if shown.what == LABELS else NONE
            if shown.what == LABELS and labels.state == NO_LABELS:
                continue
            found += [
                Sight(name, declared.component, observer, owner, shown, labels)
                for observer in self.parties_of(name, shown.to)
                for owner in self.parties_of(name, shown.of)
                if observer != owner
            ]
        return found


def flat(parameters: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    """Of nested parameters those that are named, with dots; one that was not given is left out."""
    found: dict[str, Any] = {}
    for name in names:
        value: Any = parameters
        for part in name.split("."):
            value = value.get(part, NOT_GIVEN) if isinstance(value, Mapping) else NOT_GIVEN
        if value is not NOT_GIVEN:
            found[name] = value
    return found


def sources(channels: Mapping[str, object]) -> list[tuple[str, str]]:
    """(task, output) of everything that a data input reads."""
    return [(output["producer_task"], output["output_artifact_key"]) for output in outputs_read(channels)]


def names_other_code(content: object) -> bool:
    """Whether parameters, however deep, name a module that is neither torch's nor FATE's."""
    if isinstance(content, Mapping):
        module = content.get("module_name", "fate")
        if not isinstance(module, str) or module.partition(".")[0] not in ("torch", "fate"):
            return True
        content = tuple(content.values())
    return isinstance(content, list | tuple) and any(map(names_other_code, content))


def inputs_from(task: Mapping[str, Any]) -> list[str]:
    """Tasks of this job whose data or models a task reads."""
    inputs = task.get("inputs") or {}
    channels = [*(inputs.get("data") or {}).values(), *(inputs.get("model") or {}).values()]
    return [source for each in channels for source, _ in sources(each)]
