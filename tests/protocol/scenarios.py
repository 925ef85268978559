"""Plays many scenarios in one set of party processes: starting those costs more than most scenarios do.

A scenario is one function called as every party that takes part, over a federation of its own and, unless it names
another one, with a home of its own.

Every home has a key that is the same in every run. Flips, noisy numbers, start weights and the rounding of scores follow
from it, so that they are drawn once and for all, and no test fails by chance because of them. Masks, ciphertexts and all
other noise are fresh in every run.
"""

import hashlib
import importlib
import os
import queue
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.common.wire import channel
from fate_dp.crypto.shared_descent import LOSS_DEVIATION
from tests.support import local_parties
from tests.support.local_parties import Artifact

from .messages import parts_of_steps, plain_form

GUEST, HOST, SECOND_HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("host", "10001"), ("arbiter", "10002")
EVERYONE = (GUEST, HOST, SECOND_HOST, ARBITER)
SOURCE = "experiment/train/y"
COMPONENTS = Path(channel.__file__).parents[2]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
FURTHEST_LOSS = 2 * 6.1 * LOSS_DEVIATION
"""From a loss, what the guest sees of it: parts of two hosts are no larger."""


@dataclass(frozen=True)
class Scenario:
    """``function(ctx, earlier, **arguments)`` as each of ``parties``; ``earlier`` are this party's outcomes so far.

    Messages are our components' own, plain values, unless ``of_fate`` says that FATE's components are played.
    """

    function: Callable
    arguments: dict = field(default_factory=dict)
    parties: tuple = (GUEST, HOST, ARBITER)
    home: str | None = None
    of_fate: bool = False


@dataclass
class Outcome:
    """What became of a scenario at one party: a value or the sentence of a ValueError, messages, and the ledger after."""

    value: Any = None
    error: str | None = None
    received: list = field(default_factory=list)
    ledger: dict = field(default_factory=dict)


def play(scenarios: dict, folder, parties=EVERYONE, timeout=1800, environments=MappingProxyType({})) -> dict:
    """{scenario: {party: Outcome}}; an error other than ValueError fails here with its traceback.

    ``environments`` are further variables of single parties' processes, which libraries see as they are loaded.
    """
    try:
        results = local_parties.run_parties(
            _play_all,
            parties,
            environment=ONE_THREAD,
            timeout=timeout,
            record=False,
            environments=environments,
            forked=not environments,
            scenarios=scenarios,
            folder=str(folder),
            session=uuid.uuid4().hex,
        )
    except queue.Empty:
        waiting = {path.name: path.read_text() for path in Path(folder).glob("at-*")}
        raise TimeoutError(
            f"Some party waits for a message that never comes; the last scenarios are {waiting}."
        ) from None
    broken = {party: result.error for party, result in results.items() if result.error}
    assert not broken, "\n".join(f"{party}: {error}" for party, error in broken.items())
    return {
        name: {party: results[party].value[name] for party in scenario.parties if party in results}
        for name, scenario in scenarios.items()
    }


def _play_all(ctx, scenarios, folder, session):
    me, outcomes = tuple(ctx.federation.local_party), {}
    for name, scenario in scenarios.items():
        if me in scenario.parties:
            Path(folder, f"at-{me[0]}-{me[1]}").write_text(name)
            os.environ["FATE_DP_HOME"] = os.path.join(folder, scenario.home or name)
            _place_key(me[1], scenario.home or name)
            own = context_of(ctx, f"{session}-{name}".replace(" ", "-"), me, scenario.parties)
            outcomes[name] = _play_one(own, scenario, outcomes)
    # Otherwise the process waits at its end for workers that wait for work, until it is killed 5 seconds later.
    ctx.computing.get_standalone_session()._pool.shutdown()
    return outcomes


class DeclaredByTheCaller(Mapping):
    """The messages of the component whose code sends or receives: what it does not declare in its own folder fails here.

    What a test itself sends is any component's.
    """

    def __getitem__(self, name):
        caller = self._component()
        return next(_declared(each)[name] for each in ([caller] if caller else _declaring()) if name in _declared(each))

    def get(self, name, default=None):
        try:
            return self[name]
        except StopIteration:
            return default

    def __iter__(self):
        return iter({name for each in _declaring() for name in _declared(each)})

    def __len__(self):
        return len(set(self))

    @staticmethod
    def _component():
        frame, found = sys._getframe(), None
        while frame is not None:
            frame, found = frame.f_back, _component_of(frame.f_code.co_filename) or found
        return found


@cache
def _component_of(file):
    path = Path(file)
    name = path.relative_to(COMPONENTS).parts[0] if path.is_relative_to(COMPONENTS) else None
    return name if name in _declaring() else None


@cache
def _declaring():
    return sorted(path.parent.name for path in COMPONENTS.glob("*/component.py"))


@cache
def _declared(component):
    entry = getattr(importlib.import_module(f"fate_dp.components.{component}.component"), component)
    return (entry.stage_components or [entry])[0].callback.messages


def _place_key(party_id, home):
    """Give this party its key of a home that it enters for the first time; one that is lost later stays lost."""
    from fate_dp.privacy.private_files import KEY_FILE, parties_folder, party_folder, publish_if_absent

    path = party_folder(parties_folder(), party_id)
    if not path.exists():
        publish_if_absent(path / KEY_FILE, hashlib.sha256(f"{home} of {party_id}".encode()).digest())


def context_of(ctx, session, me, parties):
    from fate.arch.context import Context
    from fate.arch.federation import FederationBuilder

    builder = FederationBuilder(federation_session_id=session, party=me, parties=list(parties))
    return Context(computing=ctx.computing, federation=builder.build_standalone(ctx.computing))


def _play_one(ctx, scenario, earlier):
    outcome = Outcome()
    try:
        with local_parties.recorded_messages(outcome.received):
            with nullcontext(ctx) if scenario.of_fate else channel.plain_messages(ctx, DeclaredByTheCaller()) as played:
                outcome.value = scenario.function(played, earlier, **scenario.arguments)
    except ValueError as error:
        outcome.error = str(error)
    outcome.received = parts_of_steps((sender, name, plain_form(value)) for sender, name, value in outcome.received)
    outcome.ledger = ledger(ctx)
    return outcome


def role_of(ctx) -> str:
    return ctx.federation.local_party[0]


def frame_at(ctx, tables: dict, partitions=2, label_type="int32"):
    """The FATE frame of this party, None at the arbiter; a column named ``y`` is the label."""
    from fate.arch.dataframe import PandasReader

    table = tables.get(tuple(ctx.federation.local_party))
    if not isinstance(table, pd.DataFrame):
        return table
    if table.empty:
        # FATE's reader takes no empty table; this is what its psi makes of parties without a common id.
        return frame_at(ctx, tables_of_one_row(), partitions, label_type).empty_frame()
    reader = PandasReader(
        sample_id_name="sample_id",
        match_id_name="id",
        label_name="y" if "y" in table else None,
        label_type=label_type,
        dtype="float64",
        partition=partitions,
    )
    return reader.to_frame(ctx, table)


def tables(rows=120, guest=3, hosts=(4,), seed=0, ids=None) -> dict:
    """{party: pandas table} of synthetic standard normal features; the guest's labels depend on all of them."""
    generator = np.random.default_rng(seed)
    ids = [f"person {row:04d}" for row in range(rows)] if ids is None else ids
    columns = generator.normal(size=(rows, guest + sum(hosts)))
    labels = (columns @ generator.normal(size=columns.shape[1]) + generator.normal(size=rows) > 0).astype(int)
    base = pd.DataFrame({"sample_id": [f"sid {at}" for at in range(rows)], "id": ids})
    edges, made = np.cumsum([0, guest, *hosts]), {}
    for party, (first, last) in zip((GUEST, HOST, SECOND_HOST), zip(edges, edges[1:])):
        made[party] = base.assign(**{f"x{column}": columns[:, column] for column in range(first, last)})
    made[GUEST] = made[GUEST].assign(y=labels)
    return made


def tables_of_one_row() -> dict:
    return {party: table.head(1) for party, table in tables(rows=2, hosts=(1, 1)).items()}


def features_of(table) -> np.ndarray:
    return table[[name for name in table if name not in ("sample_id", "id", "y")]].to_numpy(dtype=float)


@dataclass(frozen=True)
class KnownJob:
    """In place of `JobFiles`: label_flip with parameters of its own, then a training with these parameters.

    `beside` is a component that reads the labels as they were before, `besides` one that reads the flips, too; `through` and
    `then` stand between the two tasks.
    """

    parameters: dict
    stage: str = "train"
    arbiters: int = 1
    through: str | None = None
    then: str | None = None
    beside: str | None = None
    besides: str | None = None
    task: str = "flip"
    flip: dict = field(default_factory=dict)

    def plan(self):
        from fate_dp.components.common.job_files import JobPlan

        return JobPlan(dag_of(self, self.flip), runs=True)


def dag_of(job, flip=MappingProxyType({})) -> dict:
    """A DAG of label_flip, perhaps another step, and dp_hetero_lr."""

    def after(task, key):
        return {"data": {key: {"task_output_artifact": {"producer_task": task, "output_artifact_key": "output_data"}}}}

    roles = {"guest": ["9999"], "host": ["10000"], "arbiter": [f"{10002 + at}" for at in range(job.arbiters)]}
    given = {"epsilon": 1.0, "label_source": SOURCE, **flip}
    tasks = {
        job.task: {"component_ref": "label_flip", "parameters": given, "stage": "default"},
        "model": {
            "component_ref": "dp_hetero_lr",
            "parameters": job.parameters,
            "stage": job.stage,
            "inputs": after(
                job.then or job.through or job.task, "cv_data" if job.stage == "cross_validation" else "train_data"
            ),
        },
    }
    if job.through is not None:
        tasks[job.through] = {"component_ref": job.through, "inputs": after(job.task, "input_data")}
    if job.then is not None:
        tasks[job.then] = {"component_ref": job.then, "inputs": after(job.through, "train_data")}
    if job.besides is not None:
        tasks["besides"] = {"component_ref": job.besides, "inputs": after(job.task, "train_data"), "stage": "train"}
    if job.beside is not None:
        tasks[job.beside] = {"component_ref": job.beside}
    return {"parties": [{"role": role, "party_id": ids} for role, ids in roles.items() if ids], "tasks": tasks}


def flip(
    ctx,
    earlier,
    tables,
    epsilon=1.0,
    classes=(0.0, 1.0),
    source=SOURCE,
    partitions=2,
    label_type="int32",
    before=None,
    declared=True,
    job=None,
    **numbers,
):
    """label_flip at every party; returns the written table and what the party's ledger says afterwards."""
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings

    if before is not None:
        before(ctx)
    if declared and role_of(ctx) == "guest":
        declare(ctx, source)
    source_data, written = Artifact(frame_at(ctx, tables, partitions, label_type)), Artifact()
    if role_of(ctx) == "guest":
        settings = Settings(epsilon=epsilon, classes=classes, label_source=source, **numbers)
        guest.flip(ctx, settings, source_data, written, job)
    else:
        guest.pass_on(ctx, source_data, written)
    frame = written.frame
    return {"table": frame.as_pd_df(), "label": frame.schema.label_name, "label_type": label_type_of(frame)}


def label_type_of(frame):
    manager, name = frame.data_manager, frame.schema.label_name
    return None if name is None else str(manager.get_block(manager.loc_block(name)[0]).block_type)


def ledger(ctx, source=SOURCE) -> dict:
    """What this party's ledger holds, without making one; ``labels`` are lines of steps on records that read labels."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.ledger.datasets import LABELS

    home = home_of(ctx)
    if not (home.path / "ledger.sqlite").exists():
        return {"entries": [], "labels": [], "spent": 0.0}
    entries = home.ledger.entries()
    labels = [entry for entry in entries if entry["source"].startswith(LABELS)]
    others = [entry for entry in entries if entry not in labels]
    return {"entries": others, "labels": labels, "spent": home.ledger.spent(source)}


def score_lines(outcome) -> list:
    """Lines of the party's ledger on joint scores; those on losses of trainings stand beside them."""
    return [entry for entry in outcome.ledger["entries"] if entry["mechanism"] == "joint scores"]


def train(
    ctx,
    earlier,
    tables,
    partitions=2,
    public=False,
    warm_start=None,
    labels_of=None,
    score_cap=None,
    before=None,
    label_type="int32",
    validation=None,
    **settings,
):
    """dp_hetero_lr's train stage; returns the model as FATE stores it, and the guest's prediction table.

    ``labels_of`` and ``warm_start`` name an earlier scenario; ``public`` declares the labels public first.
    """
    import json

    from fate_dp.components.common.frames import match_id_blocks
    from fate_dp.components.dp_hetero_lr import train as stage
    from fate_dp.components.dp_hetero_lr.model import estimators_of
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings, flipback

    if before is not None:
        before(ctx)
    if public:
        declare_public(ctx, tables)
        settings["label_source"] = SOURCE
    if "flipback" in settings:
        settings["flipback"] = flipback(settings["flipback"])
    settings = TrainSettings(**settings)
    if score_cap is not None and role_of(ctx) == "host":
        raise_score_cap(ctx, tables, score_cap)
    start = json.loads(json.dumps(earlier[warm_start].value["model"])) if warm_start else None
    if labels_of is not None and role_of(ctx) == "guest":
        tables = {**tables, GUEST: earlier[labels_of].value["table"]}
        # Derived labels are no whole numbers.
        label_type = label_type if (tables[GUEST]["y"] % 1 == 0).all() else "float64"
    frame, valid = (
        frame_at(ctx, tables, partitions, label_type),
        frame_at(ctx, validation or {}, partitions, label_type),
    )
    scored, begun, at_mean = None, [], stage.start_at_mean

    def noted(model, labels):
        at_mean(model, labels)
        begun.append(model.columns)

    if role_of(ctx) == "guest":
        with mock.patch.object(stage, "start_at_mean", noted):
            model, scored = stage.train_guest(ctx, settings, frame, valid, start)
    elif role_of(ctx) == "host":
        model = stage.train_host(ctx, settings, frame, valid, start)
    else:
        model = stage.train_arbiter(ctx, settings)
    if frame is not None and not begun:
        begun = [[start_weights(ctx, frame, settings.init_param, at) for at in range(len(estimators_of(model)))]]
    return {
        "start": begun[0][0] if begun else None,
        "starts": begun[0] if begun else None,
        "model": model,
        "scored": None if scored is None else scored.as_pd_df(),
        "summary": summary(ctx),
        "order": None
        if frame is None
        else [match_id for _, ids in sorted(match_id_blocks(frame).collect()) for match_id in ids],
    }


def summary(ctx) -> dict:
    """The last one that this party showed; empty where it has shown none."""
    shown = [record["data"] for record in ctx.metrics.handler.get_metrics() if record["name"] == "summary"]
    return shown[-1] if shown else {}


def declare(ctx, source):
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.ledger.policy import declare_source

    declare_source(home_of(ctx).path / "policy.yaml", source)


def declare_public(ctx, tables):
    """The guest's operator declares every label there is public, as far as it is one."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.ledger.ledger import declare_public_labels

    if role_of(ctx) == "guest":
        table = tables.get(tuple(ctx.federation.local_party), tables[GUEST])
        known = table.drop_duplicates("id").dropna(subset=["y"]) if "y" in table else table.head(0).assign(y=0)
        declare_public_labels(home_of(ctx).path, SOURCE, known["id"], known["y"])


def start_weights(ctx, frame, init_param, model=0):
    """What this party begins with: its own to know, since the stream is keyed with its secret."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.dp_hetero_lr.model import initial_weights

    with_intercept = role_of(ctx) == "guest" and init_param["fit_intercept"]
    return initial_weights(init_param, len(frame.schema.columns), home_of(ctx).key, with_intercept, model)


def raise_score_cap(ctx, tables, cap):
    from fate_dp.components.common.charges import columns_name, home_of
    from fate_dp.privacy.private_files import replace_file

    name = columns_name(frame_at(ctx, tables).schema.columns)
    replace_file(home_of(ctx).path / "policy.yaml", f"score_caps:\n  {name!r}: {cap}\n".encode())


def weights(outcomes: dict, party) -> np.ndarray:
    from fate_dp.components.dp_hetero_lr.model import columns_of

    (weights,) = columns_of(outcomes[party].value["model"])
    return weights


def assert_refused(outcomes: dict, sentence: str, told: str | None = None) -> None:
    """The party at fault got a sentence that holds ``sentence``; all others the same one, which may tell them less.

    They got ``told`` where it is given, else ``sentence``, or that nothing is told.
    """
    errors = {" ".join(party): outcome.error for party, outcome in outcomes.items()}
    assert all(message is not None and "\n" not in message for message in errors.values()), errors
    (at_fault,) = {message.partition(": ")[0] for message in errors.values()}
    others = {message for name, message in errors.items() if name != at_fault}
    assert sentence in errors.get(at_fault, sentence), errors
    assert all((told or sentence) in message or (not told and UNTOLD in message) for message in others), errors
    assert len(others) <= 1, errors
