"""Parties with their homes and tables, a job's files as FATE-Flow lays them, and a task played by its parties in one process.

A task is played by threads that take turns, over FATE's tables in memory, with the project's own messages. What a fuzzer
needs beside that is here: a process that ends at a write to its ledger, and files of jobs for every party.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from fate.arch.computing.api import _table
from fate.arch.context import Context
from fate.arch.dataframe import DataFrame, PandasReader
from fate.arch.trace import _profile, _trace

from fate_dp.components.common import charges
from fate_dp.components.common.job_files import JobFiles
from fate_dp.components.common.wire.channel import plain_messages
from fate_dp.privacy.accounting import losses, total
from fate_dp.privacy.ledger import database
from fate_dp.privacy.ledger.ledger import Ledger
from fate_dp.privacy.private_files import HOME_VARIABLE, KEY_FILE, party_folder, publish_if_absent
from fate_dp.testing import Killed, Silence
from fate_dp.testing.engine import Exchange, MemoryFederation, MemorySession

from .oracle import Cell, Content, Secret

PartyId = tuple[str, str]
PEOPLE = 64
"""Of every population."""
CLASSES = {"y": 2, "z": 2, "w": 3}
"""Label columns that a population has, with unlike values, and how many classes each has."""
COLUMNS = ("x0", "x1", "x2", "b0", "b1", "b2")
"""x: continuous; b: whole numbers from 0 to 3."""
BINS = 4
here = threading.local()
"""Of the party that runs in this thread: its job files, and what the ledger was told."""


@dataclass(frozen=True)
class Table:
    """A party's table at one point of a job.

    Attributes:
        content: what it holds, for the oracle.
        frame: the values, with the columns ``sample_id`` and ``id``.
        label: name of its label column.
        writer: (task's id, its name, its component) of the task that wrote it, as FATE-Flow keeps it with a table.
    """

    content: Content
    frame: pd.DataFrame
    label: str | None
    writer: tuple[str, str, str] = ("upload_0", "transformer_0", "dataframe_transformer")
    made: list[Any] = field(default_factory=list, init=False, compare=False)

    @property
    def columns(self) -> list[str]:
        return [name for name in self.frame if name not in ("sample_id", "id", self.label)]

    @property
    def ids(self) -> list[str]:
        return self.frame["id"].tolist()

    def rows(self, places: Sequence[int], decided: str | None = None) -> Table:
        """These rows, in this order; ``decided`` is what else had a part in choosing them."""
        content, labels = self.content, self.content.labels
        chosen = Content(
            tuple(content.records[at] for at in places),
            None if labels is None else tuple(labels[at] for at in places),
            content.decided | ({decided} if decided else set()),
        )
        return replace(self, content=chosen, frame=self.frame.iloc[list(places)].reset_index(drop=True))

    def relabelled(self, values: Mapping[str, float], label: Callable[[Cell], Cell]) -> Table:
        """With other values in its label column, {match id: value}, and what they are."""
        labels = tuple(map(label, self.content.labels or ()))
        frame = self.frame.assign(**{self.label or "": self.frame["id"].map(values)})
        return replace(self, content=replace(self.content, labels=labels), frame=frame)

    def as_fate(self, ctx: Any) -> Any:
        """FATE's DataFrame of it, whose blocks are made once."""
        if not self.made:
            reader = PandasReader(
                sample_id_name="sample_id",
                match_id_name="id",
                label_name=self.label,
                label_type="float64",
                dtype="float64",
                partition=1,
            )
            self.made.append(reader.to_frame(ctx, self.frame))
        (made,) = self.made
        return DataFrame(ctx, made.block_table, made.partition_order_mappings, made.data_manager.duplicate())


@functools.cache
def values_of(party: str, population: str) -> pd.DataFrame:
    """All that a party knows of a population; populations of numbers have the ids 0, 1, 2, ..."""
    seed = hashlib.sha256(f"{party} {population}".encode()).digest()
    generator = np.random.default_rng(list(seed))
    prefix = "" if population.startswith("numbers") else population[:1]
    columns = {"id": [f"{prefix}{at}" for at in range(PEOPLE)]}
    columns |= {name: generator.normal(size=PEOPLE) for name in COLUMNS if name.startswith("x")}
    columns |= {name: generator.integers(0, BINS, PEOPLE).astype(float) for name in COLUMNS if name.startswith("b")}
    columns |= {name: generator.integers(0, classes, PEOPLE).astype(float) for name, classes in CLASSES.items()}
    return pd.DataFrame(columns)


def uploaded(step: Mapping[str, Any]) -> Table:
    """The table of an upload: some rows and columns of a population, perhaps with a label column under another name."""
    party, population, label, called = (step[name] for name in ("party", "population", "label", "called"))
    known = values_of(party, population).iloc[step["first"] : step["last"]].reset_index(drop=True)
    frame = known[["id", *step["columns"]]].copy()
    frame.insert(0, "sample_id", [f"{step['name']} {at}" for at in range(len(frame))])
    records = tuple(Secret(party, population, each) for each in frame["id"])
    labels = None
    if label is not None:
        frame[called] = known[label]
        labels = tuple(Cell(record._replace(column=label)) for record in records)
    return Table(Content(records, labels), frame, called if label else None)


@dataclass
class Job:
    """One job on the way: its parties, and where their files of it lie, which a ``blind`` one's processes do not find."""

    number: int
    guest: str
    hosts: list[str]
    arbiter: str | None
    folder: Path
    blind: bool = False

    @property
    def name(self) -> str:
        return f"job{self.number:04d}"

    @property
    def parties(self) -> list[PartyId]:
        """All of them, the guest first."""
        arbiter = [("arbiter", self.arbiter)] if self.arbiter else []
        return [("guest", self.guest), *(("host", each) for each in self.hosts), *arbiter]

    def write(
        self, party: PartyId, task: str, version: int, document: Mapping[str, Any], writers: Mapping[str, Any]
    ) -> Path:
        """The files of a party's task as FATE-Flow lays them; returns that of its parameters.

        ``writers`` are those of its data inputs' tables, by the inputs' names.
        """
        listed = [{"role": role, "partyid": number} for role, number in self.parties]
        folder = self.folder.joinpath(self.name, *party, task, str(version), "input")
        folder.mkdir(parents=True, exist_ok=True)
        known = {**document, "conf": {"federation": {"metadata": {"parties": {"parties": listed}}}}}
        # JSON is YAML.
        (folder / "preprocess_parameters.yaml").write_text(json.dumps(known))
        made = {
            key: [{"metadata": {"source": dict(zip(("task_id", "task_name", "component"), each))}} for each in of_input]
            for key, of_input in writers.items()
        }
        own = {"parameters": document.get("parameters") or {}, "input_artifacts": made}
        (folder / "task_parameters.yaml").write_text(json.dumps(own))
        return folder / "task_parameters.yaml"


@dataclass
class Fault:
    """A process that ends at its ``write``-th write to its ledger, from 1: before it is on disk, or after it."""

    party: PartyId
    write: int
    after: bool


@dataclass
class Played:
    """What each party's task came to, and under which names its ledger was charged."""

    values: dict[PartyId, Any] = field(default_factory=dict)
    errors: dict[PartyId, BaseException] = field(default_factory=dict)
    names: dict[PartyId, set[str]] = field(default_factory=dict)


def play(
    step: Callable[[Any], Any],
    job: Job,
    session: str,
    files: Mapping[PartyId, Path],
    messages: Mapping[str, Any],
    fault: Fault | None = None,
) -> Played:
    """Let every party that has files of the task do ``step``, one at a time."""
    played, parties = Played(), list(files)
    exchange = Exchange(tuple(parties))

    def party_plays(party: PartyId) -> None:
        here.files, here.names, here.writes = None if job.blind else files[party], set(), 0
        here.fault = fault if fault is not None and fault.party == party else None
        played.names[party] = here.names
        with exchange.turn_of(party):
            ctx = Context(computing=MemorySession(), federation=MemoryFederation(exchange, session, party))
            try:
                with plain_messages(ctx, messages) as plain:
                    played.values[party] = step(plain)
            except (Exception, Killed, Silence) as error:
                played.errors[party] = error

    os.environ["FATE_JOB_ID"] = job.name
    threads = [threading.Thread(target=party_plays, args=(party,), daemon=True) for party in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return played


def prepare(home: Path) -> None:
    """What a process that fuzzes changes once: homes in ``home``, doors to the ledger and to job files, no slow hashes.

    A ledger's writes wait for no disk: no power fails in here.
    """
    os.environ[HOME_VARIABLE] = str(home / "homes")
    # FATE notes call stacks, and looks up its configuration, at every operation on a table.
    _profile._call_stack_strings = list
    _profile._func_annotated_string = lambda *args, **kwargs: ""
    _trace._trace_func = lambda func, args, kwargs, span_name=None: func(*args, **kwargs)
    _table.get_serdes_by_type = functools.cache(_table.get_serdes_by_type)
    yaml.safe_load = functools.partial(yaml.load, Loader=yaml.CSafeLoader)
    charges.load_policy = _by_content(charges.load_policy)
    hashlib.scrypt = lambda password, **_: hashlib.sha256(password).digest()  # type: ignore[assignment]
    JobFiles.of_this_task = classmethod(lambda cls: cls(here.files) if getattr(here, "files", None) else None)  # type: ignore[assignment]
    # A coarser grid of losses is quicker, and never lowers a total.
    losses.GRID_POINTS, losses.SINGLE_POINTS = 1 << 13, 1 << 12
    # A job's files have a path of their own, and are whole before a task reads them.
    JobFiles._of = functools.cache(JobFiles._of)  # type: ignore[method-assign, assignment]
    known, slow = _known(total.total_epsilon), total.total_epsilon
    for module in [*sys.modules.values()]:
        if vars(module).get("total_epsilon") is slow:
            vars(module)["total_epsilon"] = known
    database.transaction = _killing(database.transaction)
    database.sqlite3 = _Hurried()  # type: ignore[assignment]
    for name in ("record_together", "record_flips"):
        setattr(Ledger, name, _noting(getattr(Ledger, name)))


def _known(total_epsilon: Any) -> Any:
    """A pure function, which takes most of a fuzzer's time: the same charges come again and again."""
    known = functools.lru_cache(1 << 16)(
        lambda charges, delta: total_epsilon([charge for charge, times in charges for _ in range(times)], delta)
    )
    return lambda charges, delta: known(frozenset(Counter(charges).items()), delta)


def _by_content(load: Any) -> Any:
    """A function of a file's path alone, which reads again what is not as it was."""
    known = functools.lru_cache(1 << 10)(lambda path, content: load(path))
    return lambda path: known(path, path.read_bytes() if path.exists() else b"")


def _killing(transaction: Any) -> Any:
    @contextmanager
    def watched(connection: Any, mode: str = "IMMEDIATE") -> Iterator[None]:
        fault = getattr(here, "fault", None) if mode == "IMMEDIATE" else None
        if fault is not None:
            here.writes += 1
        reached = fault is not None and here.writes == fault.write
        with transaction(connection, mode):
            yield
            if reached and not fault.after:
                raise Killed("before a write")
        if reached:
            raise Killed("after a write")

    return watched


class _Hurried:
    """SQLite whose writes wait for no disk."""

    def __getattr__(self, name: str) -> Any:
        import sqlite3

        return getattr(sqlite3, name)

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        import sqlite3

        return sqlite3.connect(*args, factory=_Connection, **kwargs)


def _connection() -> type:
    import sqlite3

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *args: Any) -> Any:
            return super().execute(HURRIED.get(statement, statement), *args)

    return Connection


HURRIED = {
    "PRAGMA synchronous = EXTRA": "PRAGMA synchronous = OFF",
    "PRAGMA journal_mode = DELETE": "PRAGMA journal_mode = MEMORY",
    "PRAGMA temp_store = FILE": "PRAGMA temp_store = MEMORY",
}


_Connection = _connection()


def _noting(method: Any) -> Any:
    """The method of a ledger, which tells under which name it charged."""

    @functools.wraps(method)
    def noted(ledger: Any, steps: Any = None, *job: Any, **terms: Any) -> Any:
        result = method(ledger, **terms) if steps is None else method(ledger, steps, *job)
        here.names.update([terms["source"]] if steps is None else [step.dataset for step, _ in steps])
        return result

    return noted


def home_path(home: Path, party: str) -> Path:
    return party_folder(home, party)


def place_key(home: Path, party: str, number: int) -> None:
    """The party's key, in place of the one before, of which its records' tags followed."""
    path = home_path(home, party) / KEY_FILE
    path.unlink(missing_ok=True)
    publish_if_absent(path, hashlib.sha256(f"{party} {number}".encode()).digest())


def seeded(*parts: object) -> random.Random:
    """A generator that follows from the parts."""
    return random.Random(repr(parts))
