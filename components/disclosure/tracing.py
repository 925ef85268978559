"""Follow labels, features, ids and scores through the DAG of a job, ours or FATE's own, and say who learns what.

A job's tasks are walked in the order of their data. What a table's label column holds (true labels, or flips of label_flip)
goes from output to input as the declarations say, at each party by itself; every statement of a task's declaration (`Shown`)
becomes one `Sight` for each observer and owner among the task's parties. An observer is a party, whatever roles it plays: it
sees what all of them see, and nobody observes itself. What another job did to a table before is not seen: a table that is read
is taken to hold true labels. Nothing is run.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fate_dp.privacy.validation import InvalidArgument, is_finite

from ..common.channels import ELSEWHERE, MODELS, in_order, inputs, inputs_from, is_among, parties_of, read_at, sources
from ..common.federation import Document, PartyId
from ..common.job_files import JobPlan
from ..common.vocabulary import with_new_names
from .declaration import (
    ANYTHING,
    EVERY,
    FEATURES,
    FLIPPED,
    INPUT,
    LABELS,
    MODEL,
    NO_LABELS,
    PRIVATE,
    ROLES,
    SHUFFLER,
    SOME,
    TRUE,
    ComponentDisclosure,
    Mixing,
    Shown,
    catalogue,
    disclosure_of,
    fits,
    joined_roles,
    roles_played,
)
from .reading import Reading, parameters_of, read
from .running import declared_inputs, names_other_code, not_run

NOT_GIVEN = object()
UNKNOWN_ROWS = Mixing(LABELS, "leave it out; nobody has said what its rows depend on")
HARDLY_FLIPPED = 1e-4
"""Flips that change a smaller share of labels, or noise of a smaller share of the range, leave them true in anybody's eyes."""
LAUNCHERS = (None, "default")
PROVIDER = re.compile(r"\*|fate:(2\.2\.0|dp[A-Za-z0-9._+-]+)@local")
"""Of FATE and of ours (`deploy.provider`); any other names code that the catalogue is not about."""
GUEST, HOST, ARBITER, LOCAL = *ROLES, "local"
"""The last is FATE's name for the party of a task that runs at one party alone."""
NOT_TRAINED_ON = ("validate_data", "test_data")
OUTPUT_OF = "_output_data"
"""FATE's outputs ``train_output_data`` and so on hold the rows of the input ``train_data``."""
PREDICT = "predict"
FLIP_BEHIND = ("psi", "reader")
"""Behind the first of these that a job has, label_flip stands before everything else that reads labels."""


@dataclass(frozen=True)
class Party:
    """An observer or an owner, in the role in which it sees or shows; ``roles`` are all that the same party plays in the task."""

    role: str
    party_id: str = ""
    roles: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return (
            f"{' and '.join(self.roles or (self.role,))} {self.party_id}" if self.party_id else "whoever gets the model"
        )


@dataclass(frozen=True)
class Labels:
    """What a label column holds: ``true`` labels, ``flipped`` ones (epsilon in nats, of which task), or ``none``.

    ``classes`` are those that flips were drawn from: None where nobody can tell, empty for noisy numbers.
    """

    state: str
    epsilon: float | None = None
    by: str = ""
    classes: tuple[Any, ...] | None = None

    @classmethod
    def worst(cls, found: "Iterable[Labels]") -> "Labels":
        """True labels if any holds them; of several flips those of the largest epsilon."""
        order = {NO_LABELS: 0, FLIPPED: 1, TRUE: 2}
        return max(found, key=lambda labels: (order[labels.state], labels.epsilon or 0.0), default=NONE)


Carried = dict[tuple[str, str], dict[PartyId, Labels]]
"""By task and output key, at each party."""
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
    """A task of which nobody can tell what it shows, and why; ``labels`` is what the label columns that it gets hold."""

    task: str
    component: str
    labels: Labels
    why: str


@dataclass(frozen=True)
class Disclosure:
    """All sights of a job, in the order of its tasks, and the tasks of which nobody can tell what they show."""

    plan: JobPlan
    sights: tuple[Sight, ...]
    unknown: tuple[Unknown, ...]
    joined: tuple[str, ...] = ()
    """Why components of ours refuse parties that play several roles."""

    @property
    def leaks(self) -> tuple[Sight, ...]:
        return tuple(sight for sight in self.sights if sight.leaks)

    @cached_property
    def shown_beside(self) -> tuple[Sight, ...]:
        """What tells of single true labels without being a leak, or private."""
        return tuple(
            sight
            for sight in self.sights
            if sight.shown.what == LABELS and sight.labels.state == TRUE and sight.shown.learns == SOME
            if sight.shown.form != PRIVATE and sight.observer.role != MODEL
        )

    @cached_property
    def places_of_flips(self) -> dict[str, str | None]:
        """For each task the one before it that label_flip should stand behind, the nearest of the first kind that there is."""
        tasks = self.plan.dag["tasks"]
        found: dict[str, dict[str, str]] = {}
        for name in in_order(self.plan.dag):
            before = inputs_from(tasks[name])
            own = {tasks[each]["component_ref"]: each for each in reversed(before)}
            inherited = [found[each] for each in reversed(before)]
            found[name] = {kind: each[kind] for each in (*inherited, own) for kind in FLIP_BEHIND if kind in each}
        return {name: next((each[kind] for kind in FLIP_BEHIND if kind in each), None) for name, each in found.items()}


def trace(plan: JobPlan) -> Disclosure:
    """Who learns what in a job; raises InvalidArgument for a DAG that cannot be followed, one sentence."""
    walk = Walk(plan)
    sights: list[Sight] = []
    for name in walk.order:
        sights += walk.sights_of(name)
    unknown = tuple(
        Unknown(name, plan.task(name).component, walk.labels_into(name), walk.unknown[name])
        for name in walk.order
        if walk.unknown[name]
    )
    joined = dict.fromkeys(each for name in walk.order for each in walk.joined_roles(name))
    return Disclosure(plan, tuple(sights), unknown, tuple(joined))


@dataclass(frozen=True)
class Walk:
    """One job as it is followed."""

    plan: JobPlan

    @cached_property
    def order(self) -> tuple[str, ...]:
        return in_order(self.plan.dag)

    @cached_property
    def declared(self) -> dict[str, ComponentDisclosure | None]:
        return {name: disclosure_of(task["component_ref"]) for name, task in self.plan.dag["tasks"].items()}

    @cached_property
    def parties(self) -> dict[str, tuple[PartyId, ...]]:
        """(role, id) of all who take part in each task; somebody without a name where nobody is named."""
        return {name: parties_of(self.plan.dag, name) or (("", ""),) for name in self.plan.dag["tasks"]}

    @cached_property
    def inherited(self) -> frozenset[str]:
        """Tasks that do not run: FATE-Flow takes the outputs of a task of that name in an earlier job."""
        return frozenset(((self.plan.dag.get("conf") or {}).get("inheritance") or {}).get("task_list") or ())

    def inputs_of(self, name: str) -> Document:
        return declared_inputs(self.plan.dag, name)

    @cached_property
    def unknown(self) -> dict[str, str]:
        """Why nobody can tell what a task shows; empty where somebody has read its component, and FATE takes all that it is given."""
        return {name: self._unknown_of(name) for name in self.order}

    def _unknown_of(self, name: str) -> str:
        declared, component = self.declared[name], self.plan.task(name).component
        if declared is None:
            return f"nobody knows what {component}, the component of task {name}, shows"
        if name in self.inherited:
            return (
                f"task {name} takes over what an earlier job's task made, and nobody sees here which component that was"
            )
        if any(not PROVIDER.fullmatch(str(conf.get("provider") or "*")) for conf in self._confs(name)):
            return f"task {name} ({component}) chooses a provider, and nobody has read what that runs under this name"
        if any(conf.get("launcher_name") not in LAUNCHERS for conf in self._confs(name)):
            return f"task {name} ({component}) chooses a launcher that nobody has read"
        unread = dict.fromkeys(each for reading in self.readings(name) for each in reading.unread)
        if unread:
            return f"FATE refuses or passes over what task {name} ({component}) sets: {', '.join(unread)}"
        # What FATE-Flow has started, or one party knows in part, has no such faults where it matters.
        if not self.plan.runs and (found := self._not_run(name)):
            return f"FATE refuses or passes over what task {name} is given: {component} {found}"
        for settings in self.settings_of(name):
            for setting, condition in declared.known.items():
                if settings.get(setting) is ANYTHING or not fits({setting: condition}, settings):
                    return f"nobody has read the code that {setting} of task {name} ({component}) chooses"
            if names_other_code(settings):
                return f"task {name} ({component}) names code of others, and nobody knows what it shows"
        return ""

    def _not_run(self, name: str) -> str:
        """What `not_run` says, or for which roles a task has no party. Which of ours need an arbiter they say themselves."""
        given = [reading.settings for reading in self.readings(name)]
        if found := not_run(self.plan.dag, name, self.parties, given):
            return found
        ours = self.plan.task(name).component not in catalogue()
        for roles in (roles for shown in self._happening(name) for roles in (shown.of, shown.to)):
            if MODEL not in roles and not (ours and ARBITER in roles) and not self.parties_in(name, roles):
                return f"has no party as {' or '.join(roles)}"
        return ""

    def _confs(self, name: str) -> Iterator[Document]:
        """Where a job, a party and a task may choose which code runs."""
        for owner in (self.plan.dag, *(self.plan.dag.get("party_tasks") or {}).values()):
            conf = owner.get("conf") or {}
            yield conf
            yield conf.get("task") or {}
            yield ((owner.get("tasks") or {}).get(name) or {}).get("conf") or {}

    @cached_property
    def outputs(self) -> Carried:
        """By task and output key, what was asked for so far at each party; filled in the order of the tasks."""
        found: Carried = {}
        keys_read: dict[str, set[str]] = {}
        for name in self.order:
            for channels in self.inputs_of(name).values():
                for source, key in sources(channels):
                    keys_read.setdefault(source, set()).add(key)
        for name in self.order:
            for key in sorted(keys_read.get(name, ())):
                found[name, key] = {party: self._carried(name, key, party, found) for party in self.parties[name]}
        return found

    def _carried(self, name: str, key: str, party: PartyId, known: Carried) -> Labels:
        """What the label column of one output holds at one party."""
        declared = self.declared[name]
        kind = next((o.labels for o in declared.outputs if key in o.outputs), INPUT) if declared is not None else INPUT
        if kind == TRUE or name in self.inherited:
            return TRUE_LABELS
        if kind == NO_LABELS:
            return NONE
        if kind == FLIPPED:
            # At the worst settings that some party has.
            return Labels.worst(_flipped(name, each) for each in self.settings_of(name))
        given = self.inputs_of(name)
        own = key.partition(OUTPUT_OF)[0] + "_data"
        return self._entering([given[own]] if own in given else given.values(), party, known) or TRUE_LABELS

    def _entering(self, channels: Iterable[Document], party: PartyId, known: Carried) -> Labels | None:
        """The worst of what these inputs hold at one party; None where it has none of them."""
        found = [source for each in channels for source in read_at(each, party, self.parties.__getitem__)]
        # What is read from a warehouse holds the labels as they were uploaded.
        entering = [TRUE_LABELS if each == ELSEWHERE else known[each].get(party, TRUE_LABELS) for each in found]
        return Labels.worst(entering) if entering else None

    def labels_into(self, name: str, named: tuple[str, ...] = (), party: PartyId | None = None) -> Labels:
        """The worst of what the named data inputs hold, by default of those that are trained on.

        At one party, or at those who hold labels: the guest, or all who have an input where it has none.
        """
        given = self.inputs_of(name)
        trained = [key for key in given if key not in NOT_TRAINED_ON]
        chosen = [key for key in named if key in given] if named else trained or list(given)
        parties = self.parties[name] if party is None else (party,)
        entering = {each: self._entering([given[key] for key in chosen], each, self.outputs) for each in parties}
        found = {each: labels for each, labels in entering.items() if labels is not None}
        guests = [labels for each, labels in found.items() if each[0] == GUEST]
        return Labels.worst(guests or found.values()) if found else TRUE_LABELS

    def before(self, name: str) -> tuple[str, ...]:
        """Tasks whose data flow into a task, however far, the nearest first."""
        reached = {name: None}
        waiting = [name]
        for each in waiting:
            found = dict.fromkeys(source for source in self._read_by(each) if source not in reached)
            reached.update(found)
            waiting += found
        return tuple(waiting[1:])

    def _read_by(self, name: str) -> list[str]:
        channels = inputs(self.plan.dag["tasks"][name]).values()
        return [source for given in channels for source, _ in sources(given)]

    @cached_property
    def mixed_before(self) -> dict[str, dict[str, tuple[str, Mixing]]]:
        """For each task, by what they read, the nearest tasks before it that mix rows; an unknown one may read everything."""
        found: dict[str, dict[str, tuple[str, Mixing]]] = {}
        for name in self.order:
            before = self._read_by(name)
            own = [{how.reads: (each, how) for how in reversed(self._mixing_of(each))} for each in before]
            found[name] = {}
            for known in (*own, *(found[each] for each in before)):
                found[name] = {**known, **found[name]}
        return found

    def _mixing_of(self, name: str) -> list[Mixing]:
        declared = self.declared[name]
        rows = declared.rows if declared is not None and not self.unknown[name] else (UNKNOWN_ROWS,)
        return [how for how in rows if any(fits(how.when, given) for given in self.settings_of(name))]

    def settings_of(self, name: str) -> list[Document]:
        """Parameters of a task as its component gets them, once for each variant that some party has."""
        if name not in self._settings:
            declared = self.declared[name]
            defaults = dict(declared.settings) if declared is not None else {}
            earlier = self._of_earlier_model(name, defaults)
            self._settings[name] = [
                {**reading.settings, **defaults, **flat(reading.settings, defaults), **earlier}
                for reading in self.readings(name)
            ]
        return self._settings[name]

    @cached_property
    def _settings(self) -> dict[str, list[Document]]:
        return {}

    def readings(self, name: str) -> list[Reading]:
        """What FATE makes of a task's parameters, once for each variant that some party has."""
        component = self.plan.task(name).component
        found: list[Reading] = []
        for given in self.given_to[name].values():
            found += [each for one in given if (each := read(component, one)) not in found]
        return found or [read(component, self.plan.task(name).parameters)]

    @cached_property
    def given_to(self) -> dict[str, dict[PartyId, list[Document]]]:
        """By task and party the parameters that FATE-Flow gives it, with those that a model was trained with."""
        tasks = self.plan.dag["tasks"]
        found: dict[str, dict[PartyId, list[Document]]] = {}
        owners = list((self.plan.dag.get("party_tasks") or {}).values())
        for name in self.order:
            given = {party: dict(tasks[name].get("parameters") or {}) for party in self.parties[name]}
            for party, owner in ((each, owner) for each in given for owner in owners):
                if name in (owner.get("tasks") or ()) and (
                    "parties" not in owner or is_among(party, owner["parties"] or ())
                ):
                    given[party].update(owner["tasks"][name].get("parameters") or {})
            component, trained = tasks[name]["component_ref"], self._training_of(name)
            found[name] = {party: [with_new_names(component, each)] for party, each in given.items()}
            if trained is not None:
                for party, (own,) in found[name].items():
                    found[name][party] = self._with_training(name, own, found[trained].get(party, [{}]))
        return found

    def _with_training(self, name: str, own: Document, trained: list[Document]) -> list[Document]:
        """A prediction has its training's parameters but for its own; a training may go on with those of the model that it starts from."""
        known = parameters_of(self.plan.task(name).component)
        if self.stage_of(name) != PREDICT:
            return [own, {**trained[-1], **own}]
        taken = {key for key in own if key not in known or PREDICT in known[key].stages}
        # FATE-Flow hands a prediction nothing that its stage declares itself.
        held = (
            {key: each[key] for key in each if key not in known or PREDICT not in known[key].stages} for each in trained
        )
        return [{**own, **before, **{key: own[key] for key in taken}} for before in held]

    def _of_earlier_model(self, name: str, settings: Iterable[str]) -> dict[str, object]:
        """Settings that a model makes anything: those that a training which goes on may have used up, and all of another job's model."""
        models, declared = inputs(self.plan.dag["tasks"][name], MODELS).values(), self.declared[name]
        if declared is None or not models:
            return {}
        known, predicts = parameters_of(declared.component), self.stage_of(name) == PREDICT
        told = self.parties.__getitem__
        found = {} if predicts else dict.fromkeys(declared.from_start, ANYTHING)
        if any(ELSEWHERE in read_at(each, party, told) for each in models for party in told(name)):
            parameters = [known.get(setting.partition(".")[0]) for setting in settings]
            own = [each is None or PREDICT in each.stages if predicts else not declared.known for each in parameters]
            found |= {setting: ANYTHING for setting, stays in zip(settings, own) if not stays}
        return found

    def _with_classes(self, name: str, settings: dict[str, object]) -> dict[str, object]:
        """Classes that a task is not told are those of the flips that it reads."""
        flips = self.labels_into(name).classes
        if flips is None or "classes" not in settings or settings["classes"] is not None:
            return settings
        return {**settings, "classes": list(flips)}

    def _training_of(self, name: str) -> str | None:
        """The task of this job that trained the model which a task of the same component is given."""
        tasks = self.plan.dag["tasks"]
        found = [source for each in inputs(tasks[name], MODELS).values() for source, _ in sources(each)]
        return next((each for each in found if tasks[each]["component_ref"] == tasks[name]["component_ref"]), None)

    def stage_of(self, name: str) -> str:
        stage = self.plan.task(name).stage
        declared = self.declared[name]
        return stage if declared is None or stage in declared.stages else declared.stages[0]

    def parties_in(self, name: str, roles: Iterable[str]) -> list[Party]:
        """Parties of a task in some roles, each once; all that get the model are one observer."""
        if name not in self._played:
            shufflers = {str(settings.get(SHUFFLER)) for settings in self.settings_of(name)}
            self._played[name] = roles_played(self.parties[name], shufflers)
        played = self._played[name]
        found: dict[str, Party] = {}
        for role in roles:
            for party_id in [""] if role == MODEL else [each for each, plays in played.items() if role in plays]:
                shown = tuple(HOST if each == SHUFFLER else each for each in played.get(party_id, ()))
                found.setdefault(party_id, Party(HOST if role == SHUFFLER else role, party_id, shown))
        return list(found.values())

    @cached_property
    def _played(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Who plays which roles in the tasks that `parties_in` was asked for."""
        return {}

    def joined_roles(self, name: str) -> list[str]:
        """Why the component of a task refuses parties that play several roles in it."""
        declared = self.declared[name]
        if declared is None or not declared.apart:
            return []
        told = (self.parties[name], self.stage_of(name))
        return [found for each in self.settings_of(name) if (found := joined_roles(declared, *told, each)) is not None]

    def _happening(self, name: str) -> list[Shown]:
        """The statements about a task that hold for its stage, settings and inputs."""
        declared, stage, given = self.declared[name], self.stage_of(name), set(self.inputs_of(name))
        variants = [self._with_classes(name, each) for each in self.settings_of(name)]
        return [
            shown
            for shown in (declared.shows if declared is not None else ())
            if (not shown.stages or stage in shown.stages) and (not shown.inputs or given & set(shown.inputs))
            if any(fits(shown.when, settings) for settings in variants)
        ]

    def sights_of(self, name: str) -> list[Sight]:
        declared = self.declared[name]
        if declared is None:
            return []
        if not self.parties_in(name, (*ROLES, SHUFFLER, LOCAL)):
            raise InvalidArgument(f"Task {name} has no parties. Name the guest and who else takes part.")
        found = []
        for shown in self._happening(name):
            for observer in self.parties_in(name, shown.to):
                if not set(shown.also) <= set(observer.roles):
                    continue
                for owner in (Party(each.role, each.party_id) for each in self.parties_in(name, shown.of)):
                    of_labels = shown.what == LABELS and observer.party_id != owner.party_id
                    whose = (owner.role, owner.party_id)
                    labels = self.labels_into(name, shown.inputs, whose) if of_labels else NONE
                    if observer.party_id != owner.party_id and (not of_labels or labels.state != NO_LABELS):
                        found.append(Sight(name, declared.component, observer, owner, shown, labels))
        return found


def _flipped(name: str, given: Mapping[str, object]) -> Labels:
    epsilon, listed = given.get("epsilon"), given.get("classes")
    classes = tuple(listed) if isinstance(listed, list | tuple) else None
    bounded = given.get("bounds") is not None
    nats = float(epsilon) if is_finite(epsilon) else None
    others = max(len(classes or ()) - 1, 1)
    if nats is not None and (math.exp(-nats / 2) if bounded else others * math.exp(-nats)) < HARDLY_FLIPPED:
        return TRUE_LABELS
    return Labels(FLIPPED, nats, name, () if bounded else classes)


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
