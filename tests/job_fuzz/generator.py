"""Random sequences of uploads, caps and jobs, as plain data."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from .world import CLASSES, COLUMNS, PEOPLE, seeded

Step = dict[str, Any]
PARTIES = ("9999", "10000", "10001")
ARBITER = "10002"
POPULATIONS = ("people", "people", "people", "loans", "numbers-1", "numbers-2")
EPSILONS = (0.1, 0.25, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 4.0)
SOME_CAPS = (1.0, 2.0, 4.0, 8.0)
STEPS = 9
TRUE, FLIPPED, MIXED, DERIVED = "true", "flipped", "mixed", "derived"


@dataclass
class Node:
    """An output of a task that others can read; ``labels`` is what its labels mostly are."""

    task: str
    key: str
    labels: str
    of: str = ""
    bins: bool = False
    scores: tuple[str, str] | None = None
    model: tuple[str, str] | None = None

    @property
    def channel(self) -> list[str]:
        return [self.task, self.key]


@dataclass
class JobDraft:
    """A job that grows task by task."""

    rng: random.Random
    guest: str
    hosts: list[str]
    sources: list[str]
    horizontal: bool = False
    without: frozenset[str] = frozenset()
    shuffler: str | None = None
    column: str = ""
    tasks: list[Step] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def add(self, component: str, inputs: dict[str, Any], parameters: Step | None = None, **more: Any) -> str:
        name = f"{component}_{len(self.tasks)}"
        self.tasks.append(
            {"name": name, "component": component, "inputs": inputs, "parameters": parameters or {}, **more}
        )
        return name

    def node(self, *labels: str, bins: bool | None = None) -> Node | None:
        """One of the outputs, a late one rather; of these labels, with columns of bins or without."""
        fitting = [node for node in self.nodes if not labels or node.labels in labels]
        fitting = [node for node in fitting if bins is None or node.bins == bins]
        if not fitting:
            return None
        return fitting[-1] if self.rng.random() < 0.6 else self.rng.choice(fitting)

    def made(self, node: Node, task: str, key: str = "output_data", **changed: Any) -> None:
        """A new output, which is like ``node`` but for what is ``changed``."""
        new = {"labels": node.labels, "of": node.of, "bins": node.bins, **changed}
        self.nodes.append(Node(task, key, **new))

    def epsilon(self) -> float:
        return self.rng.choice(EPSILONS)

    def source(self, node: Node) -> str:
        """Its own, or where that knows flips of these labels another name for them."""
        own = 0.2 if node.labels == MIXED else 0.8
        return self.sources[0] if self.rng.random() < own else self.rng.choice(self.sources)


def sequence(seed: int, without: frozenset[str] = frozenset()) -> list[Step]:
    """The steps that follow from ``seed``; ``without`` names components, or component and level, that do not occur."""
    rng = seeded("sequence", seed)
    made: list[Step] = []
    uploads: list[Step] = []

    def upload(again: bool = False, of: int | None = None, **fixed: Any) -> None:
        """A new table; or some rows and columns of one that there is ``again``, under another name."""
        if again:
            alike = rng.choice(uploads) if of is None else uploads[of]
            fixed |= {key: alike[key] for key in ("party", "population", "label")}
        step = _upload(rng, len(uploads), **fixed)
        uploads.append(step)
        made.append(step)

    population = rng.choice(POPULATIONS)
    kind = rng.choice("xxb")
    pattern, whole = rng.choice(["halves", "halves", "alike", "alike", ""]), {"first": 0, "last": PEOPLE}
    upload(party=PARTIES[0], population=population, label="y", kind=kind, **(whole if pattern == "halves" else {}))
    upload(party=PARTIES[1], population=population, label=None, kind=kind, **whole)
    planned: list[Step] = []
    if pattern == "halves":
        # They share no record until a job reads the whole, which may come right behind a job on each.
        upload(again=True, of=0, first=0, last=PEOPLE // 2)
        upload(again=True, of=0, first=PEOPLE // 2, last=PEOPLE)
        planned = [*uploads[2:], uploads[0]] if rng.random() < 0.75 else []
    elif pattern == "alike":
        # For trainings of parties that have the same columns.
        upload(party=rng.choice(PARTIES[1:]), label=rng.choice(["y", "z"]), columns=uploads[0]["columns"])
    else:
        upload(again=rng.random() < 0.5)
    # Where it refuses, what shows true labels to a host is refused for that alone.
    made.append({"do": "job_check", "party": PARTIES[0], "job_check": rng.choice(["refuse", "warn"])})
    tries = iter(range(100))
    while len(made) < STEPS and next(tries, None) is not None:
        own = planned.pop(0) if planned else None
        drawn = 1.0 if own else rng.random()
        if drawn < 0.18:
            upload(again=rng.random() < 0.5)
        elif drawn < 0.36:
            made.append(_of_operator(rng, uploads))
        elif drawn < 0.44 and (steps := _again(rng, made)):
            made += steps
        elif (job := _job(rng, uploads, without, own)) is not None:
            made.append(job)
            uploads += _kept(rng, job, uploads, len(made)) if rng.random() < 0.2 else []
    return made


def _again(rng: random.Random, made: list[Step]) -> list[Step]:
    """A job that was submitted before, often once its guest has lost its key; nothing where there is none."""
    jobs = [step for step in made if step["do"] == "job"]
    if not jobs:
        return []
    job = deepcopy(rng.choice(jobs))
    for task in job["tasks"]:
        task.pop("kept", None)
    return [*([{"do": "lose_key", "party": job["guest"]}] if rng.random() < 0.7 else []), job]


def _of_operator(rng: random.Random, uploads: list[Step]) -> Step:
    """A cap of a table, or a key that is lost."""
    if rng.random() < 0.3:
        return {"do": "lose_key", "party": rng.choice(PARTIES)}
    table = rng.choice(uploads)
    return {"do": "cap", "party": table["party"], "columns": table["columns"], "epsilon": rng.choice(SOME_CAPS[:2])}


def _upload(rng: random.Random, number: int, kind: str | None = None, **fixed: Any) -> Step:
    label = rng.choice(["y", "y", "z", "w", None, None])
    kind = kind or rng.choice("xxb")
    columns = [name for name in COLUMNS if name.startswith(kind)]
    first, last = rng.choice(
        [(0, PEOPLE)] * 3 + [(0, PEOPLE - 8), (8, PEOPLE), (0, PEOPLE // 2), (PEOPLE // 2, PEOPLE)]
    )
    step = {
        "do": "upload",
        "party": rng.choice(PARTIES),
        "name": f"{rng.choice(['bank', 'shop'])}/t{number}",
        "population": rng.choice(POPULATIONS),
        "first": first,
        "last": last,
        "columns": columns[: rng.choice([2, 2, 3])],
        "label": label,
        "cap": rng.choice(SOME_CAPS) if rng.random() < 0.2 else None,
        **fixed,
    }
    step["called"] = rng.choice([step["label"], step["label"], "label"]) if step["label"] else None
    step["named"] = step["population"] if step["population"] == "numbers-1" else None
    step["source"] = f"{step['name']}/{step['called']}"
    return step


def _partners(
    rng: random.Random, uploads: list[Step], labelled: list[Step], horizontal: bool, own: Step | None
) -> tuple[Step, dict[str, Step]]:
    """A guest's table, perhaps one that is given, and one that goes with it of every party that has such a one."""
    own = own or rng.choice(labelled[-3:] if rng.random() < 0.5 else labelled)
    if horizontal:
        own = rng.choice([each for each in labelled if each["columns"] == labelled[0]["columns"]])
    alike = [each for each in uploads if each["party"] != own["party"]]
    if horizontal:
        alike = [each for each in alike if each["label"] and each["columns"] == own["columns"]]
    else:
        alike = [each for each in alike if not each["label"] and each["population"] == own["population"]]
        alike = [each for each in alike if each["columns"][0][0] == own["columns"][0][0]]
    return own, {each["party"]: each for each in rng.sample(alike, len(alike))}


def _job(rng: random.Random, uploads: list[Step], without: frozenset[str], planned: Step | None = None) -> Step | None:
    """One job, of the guest's table that is ``planned`` or of any; None where no other party's table goes with it."""
    horizontal = planned is None and rng.random() < 0.25
    labelled = [each for each in uploads if each["label"]]
    own, by_party = _partners(rng, uploads, labelled, horizontal, planned)
    if not by_party:
        return None
    hosts = rng.sample(sorted(by_party), rng.randint(1, len(by_party)) if rng.random() < 0.4 else 1)
    spare = [party for party in PARTIES if party not in (own["party"], *hosts)]
    sources = [each for each in labelled if (each["party"], each["called"]) == (own["party"], own["called"])]
    sources = [own, *(each for each in sources if each["label"] == own["label"] or rng.random() < 0.1)]
    draft = JobDraft(
        rng, own["party"], hosts, list(dict.fromkeys(each["source"] for each in sources)), horizontal, without
    )
    bins = all(each["columns"][0].startswith("b") for each in (own, *(by_party[host] for host in hosts)))
    draft.column = own["columns"][0]
    if horizontal and spare and rng.random() < 0.2:
        # In such a job each task has this host beside those with tables.
        draft.shuffler = spare[0]
    tables = {own["party"]: own["name"], **{host: by_party[host]["name"] for host in hosts}}
    reader = draft.add("reader", {}, tables=tables)
    node = Node(reader, "output_data", TRUE, own["label"], bins)
    if not horizontal:
        node = Node(draft.add("psi", {"input_data": node.channel}), "output_data", TRUE, own["label"], bins)
    draft.nodes.append(node)
    ours, length = 0, rng.choice([1, 1, 1, 2, 2, 3])
    operations = HORIZONTAL if horizontal else VERTICAL
    if draft.shuffler:
        operations = {"shuffler": 1}
    known = {name: weight for name, weight in operations.items() if name not in without}
    drawn = rng.choices([*known], [*known.values()], k=40) if known else []
    derived = rng.random() < 0.4 and not horizontal and known.keys() >= {*CHAIN}
    if not derived and not horizontal and rng.random() < 0.1 and known.keys() >= {*WARM}:
        drawn = [*WARM, *drawn]
        length += len(WARM)
    elif not horizontal and rng.random() < 0.15 and known.keys() >= {*BEHIND_CHOICE}:
        drawn = ["by labels", rng.choice(BEHIND_CHOICE), *drawn]
    if derived:
        # What chance hardly ever brings together.
        drawn = [*CHAIN, *(["mix"] if rng.random() < 0.8 else []), rng.choice([*BEHIND_CHAIN]), *drawn]
        length += len(CHAIN)
    for name in drawn:
        if ours < length and len(draft.tasks) < 16 and OPERATIONS[name](draft):
            ours += name not in MOVING
    last = draft.tasks[-1]
    if not ours:
        return None
    if rng.random() < 0.12:
        last["fault"] = {"party": rng.randrange(3), "write": rng.randint(1, 6), "after": rng.random() < 0.5}
    # What nothing but the files of a job can tell does not occur in jobs without them.
    told = {"data_split", "sample", "feature_scale"} & {task["component"] for task in draft.tasks}
    kept = any(name.startswith("kept/") for name in tables.values())
    blind = not told and not kept and rng.random() < (0.5 if derived else 0.1)
    spare = [party for party in spare if party != draft.shuffler]
    arbiter = rng.choice([ARBITER, *spare])
    return {
        "do": "job",
        "guest": own["party"],
        "hosts": [*hosts, *([draft.shuffler] if draft.shuffler else [])],
        "arbiter": arbiter,
        "horizontal": horizontal,
        "blind": blind,
        "tasks": draft.tasks,
    }


def _kept(rng: random.Random, job: Step, uploads: list[Step], number: int) -> list[Step]:
    """What later jobs may read of a job: the output of one of its tasks, at every party."""
    writing = [task for task in job["tasks"] if task["component"] in ("label_flip", "flipback", "union", "keyed_split")]
    if not writing:
        return []
    task, name = rng.choice(writing), f"kept/t{number}"
    key = "train_output_data" if task["component"] == "keyed_split" else "output_data"
    task["kept"] = {"key": key, "name": name}
    read = job["tasks"][0]["tables"]
    return [{**each, "name": f"{name}-{each['party']}"} for each in uploads if each["name"] in read.values()]


# Each adds tasks to a job; False where nothing fits.


def _flip(draft: JobDraft) -> bool:
    node = draft.node(*((TRUE, MIXED) if draft.rng.random() < 0.9 else (FLIPPED,)))
    if node is None:
        return False
    classes = [float(each) for each in range(CLASSES[node.of])]
    parameters = {"epsilon": draft.epsilon(), "classes": classes, "label_source": draft.source(node)}
    task = draft.add("label_flip", {"input_data": node.channel}, parameters)
    draft.made(node, task, labels=FLIPPED)
    return True


def _train(draft: JobDraft) -> bool:
    node = draft.node(FLIPPED, DERIVED, bins=False)
    if node is None or node.of == "w":
        return False
    scores = draft.rng.random() < 0.8
    models = [each.model for each in draft.nodes if each.model]
    inputs = {"input_data": node.channel}
    if models and draft.rng.random() < 0.7:
        inputs["warm_start_model"] = list(draft.rng.choice(models))
    task = draft.add("dp_hetero_lr", inputs, {"train_scores": scores})
    node.model = (task, "output_model")
    if scores:
        node.scores = (task, "train_output_data")
    return True


def _train_with_noise(level: str) -> Callable[[JobDraft], bool]:
    def train(draft: JobDraft) -> bool:
        node = draft.node(*((TRUE, MIXED) if level == "label" else (FLIPPED, MIXED)), bins=False)
        if node is None or node.of == "w":
            return False
        parameters = {"privacy": level, "epsilon": draft.epsilon()}
        if level == "label":
            parameters["label_source"] = draft.source(node)
        draft.add("dp_hetero_lr", {"input_data": node.channel}, parameters)
        return True

    return train


def _flipback(draft: JobDraft) -> bool:
    scored = [node for node in draft.nodes if node.scores]
    if not scored:
        return False
    node = draft.rng.choice(scored)
    mode = draft.rng.choice(["swap", "posterior", "resample"])
    task = draft.add(
        "flipback", {"input_data": node.channel, "scores": list(node.scores)}, {"mode": mode, "fraction": 0.3}
    )
    draft.made(node, task, labels=DERIVED)
    return True


def _binning(level: str) -> Callable[[JobDraft], bool]:
    def bin_columns(draft: JobDraft) -> bool:
        node = draft.node(FLIPPED, bins=False) if level == "none" else draft.node(bins=False)
        if node is None or node.of == "w":
            return False
        parameters: Step = {"privacy": level} if level != "cut" else {"woe": False}
        if level in ("label", "record"):
            parameters["epsilon"] = draft.epsilon()
        own = {"guest": {"label_source": draft.source(node)}} if level == "label" else {}
        task = draft.add("dp_binning", {"input_data": node.channel}, parameters, own=own)
        draft.made(node, task, bins=True)
        return True

    return bin_columns


def _scorecard(level: str) -> Callable[[JobDraft], bool]:
    def train(draft: JobDraft) -> bool:
        node = draft.node(*((FLIPPED,) if level == "none" else ()), bins=True)
        if node is None or node.of == "w":
            return False
        parameters = {"privacy": level, "epsilon": draft.epsilon()}
        own = {"label": {"label_source": draft.source(node)}, "none": {"epsilon": None}}.get(level)
        own = {"guest": own} if own else {}
        draft.add("dp_scorecard", {"input_data": node.channel}, parameters, own=own)
        return True

    return train


def _count(draft: JobDraft) -> bool:
    node = draft.node()
    assert node is not None
    draft.add("label_count", {"input_data": node.channel}, {"epsilon": draft.epsilon()})
    return True


def _rounds(component: str) -> Callable[[JobDraft], bool]:
    def train(draft: JobDraft) -> bool:
        return _train_in_rounds(draft, component)

    return train


def _train_in_rounds(draft: JobDraft, component: str) -> bool:
    node = draft.node()
    if node is None or node.of == "w":
        return False
    parameters = {
        "records": 400,
        "epsilon": draft.epsilon(),
        "rounds": draft.rng.choice([1, 2, 2]),
        "relation": draft.rng.choice(["add_or_remove", "replace_one"]),
    }
    draft.add(component, {"input_data": node.channel}, parameters)
    return True


def _shuffle(draft: JobDraft) -> bool:
    """A host without a table shuffles; a job whose hosts all have one has no such host."""
    node = draft.node()
    if node is None or draft.shuffler is None:
        return False
    request = {"column": draft.column, "kind": "mean", "low": -4.0, "high": 4.0}
    parameters = {"requests": [request], "epsilon0": draft.epsilon(), "min_messages": 20, "shuffler": draft.shuffler}
    draft.add("shuffler", {"input_data": node.channel}, parameters)
    return True


def _align(draft: JobDraft) -> bool:
    node = draft.node()
    if node is None or len(draft.hosts) != 1:
        return False
    draft.add("align", {"input_data": node.channel}, {"hide_size": {"epsilon": draft.rng.choice([0.5, 1.0])}})
    return True


def _keyed(rng: random.Random) -> Step:
    return {"salt": f"salt {rng.randrange(3)}", "test_share": rng.choice([0.1, 0.3])}


def _split(draft: JobDraft) -> bool:
    node = draft.node()
    assert node is not None
    component = draft.rng.choice(["data_split", "keyed_split", "keyed_split"])
    if component in draft.without:
        return False
    parameters = _keyed(draft.rng)
    if component == "data_split":
        train_size, stratified = draft.rng.choice([0.6, 0.8]), draft.rng.random() < 0.5
        parameters = {"random_state": draft.rng.randrange(3), "train_size": train_size, "stratified": stratified}
    task = draft.add(component, {"input_data": node.channel}, parameters)
    for part in ("test", "train"):
        draft.made(node, task, f"{part}_output_data")
    return True


def _by_labels(draft: JobDraft) -> bool:
    """Rows that their labels had a part in choosing."""
    node = draft.node(TRUE)
    if node is None or not {"data_split", "sample"}.isdisjoint(draft.without):
        return False
    component = draft.rng.choice(["data_split", "sample"])
    given = {"train_size": 0.8, "stratified": True} if component == "data_split" else {"frac": {"0": 1.0, "1": 0.66}}
    task = draft.add(component, {"input_data": node.channel}, {"random_state": draft.rng.randrange(3), **given})
    draft.made(node, task, "train_output_data" if component == "data_split" else "output_data")
    return True


def _mix(draft: JobDraft) -> bool:
    """Some rows of one table, and the others of another one."""
    first, second = draft.node(), draft.node()
    if first is None or second is None or first is second:
        return False
    parameters = _keyed(draft.rng)
    parts = [draft.add("keyed_split", {"input_data": node.channel}, parameters) for node in (first, second)]
    channels = [[parts[0], "train_output_data"], [parts[1], "test_output_data"]]
    task = draft.add("union", {"input_data_list": channels})
    labels = first.labels if first.labels == second.labels else MIXED
    draft.made(first, task, labels=labels, bins=first.bins and second.bins)
    return True


def _sample(draft: JobDraft) -> bool:
    node = draft.node()
    assert node is not None
    frac = {"0": 1.0, "1": 0.66} if draft.rng.random() < 0.5 else 0.7
    parameters = {"random_state": draft.rng.randrange(3), "frac": frac}
    task = draft.add("sample", {"input_data": node.channel}, parameters)
    draft.made(node, task)
    return True


def _one_to_one(component: str, **parameters: Callable[[random.Random], Any]) -> Callable[[JobDraft], bool]:
    def move(draft: JobDraft) -> bool:
        node = draft.node()
        assert node is not None
        given = {name: draw(draft.rng) for name, draw in parameters.items()}
        task = draft.add(component, {"input_data": node.channel}, given)
        draft.made(node, task)
        return True

    return move


OPERATIONS: dict[str, Callable[[JobDraft], bool]] = {
    "label_flip": _flip,
    "dp_hetero_lr none": _train,
    "dp_hetero_lr label": _train_with_noise("label"),
    "dp_hetero_lr record": _train_with_noise("record"),
    "flipback": _flipback,
    "dp_binning none": _binning("none"),
    "dp_binning cut": _binning("cut"),
    "dp_binning label": _binning("label"),
    "dp_binning record": _binning("record"),
    "dp_scorecard none": _scorecard("none"),
    "dp_scorecard label": _scorecard("label"),
    "dp_scorecard record": _scorecard("record"),
    "label_count": _count,
    "align": _align,
    "dp_homo_gbdt": _rounds("dp_homo_gbdt"),
    "dp_homo_nn": _rounds("dp_homo_nn"),
    "shuffler": _shuffle,
    "split": _split,
    "mix": _mix,
    "by labels": _by_labels,
    "sample": _sample,
    "select": _one_to_one("hetero_feature_selection", keep=lambda rng: rng.sample(COLUMNS, 3)),
    "scale": _one_to_one("feature_scale"),
}
CHAIN = ("label_flip", "dp_hetero_lr none", "flipback")
"""Makes derived labels."""
WARM = (*CHAIN[:2], *CHAIN[:2])
"""Goes on from a model of other flips."""
BEHIND_CHAIN = ("dp_binning record", "label_count")
BEHIND_CHOICE = ("label_flip", "dp_binning label", "dp_hetero_lr label")
"""Promises for labels alone, on rows that labels chose."""
MOVING = ("dp_binning cut", "split", "mix", "by labels", "sample", "select", "scale")
HORIZONTAL = {
    "label_count": 3,
    "dp_homo_gbdt": 3,
    "dp_homo_nn": 2,
    "shuffler": 1,
    "split": 0.6,
    "sample": 0.3,
    "select": 0.5,
}
VERTICAL = {
    "label_flip": 5,
    "dp_hetero_lr none": 3,
    "dp_hetero_lr label": 1,
    "dp_hetero_lr record": 1.2,
    "flipback": 2,
    "dp_binning none": 1,
    "dp_binning cut": 1.5,
    "dp_binning label": 1.2,
    "dp_binning record": 1,
    "dp_scorecard none": 0.5,
    "dp_scorecard label": 2,
    "dp_scorecard record": 2,
    "label_count": 0.8,
    "align": 1.2,
    "split": 0.6,
    "mix": 2,
    "sample": 0.3,
    "select": 0.6,
    "scale": 0.2,
}
