"""A component as one step of a play: its tables and models come and go in memory, in place of FATE's artifacts."""

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
from fate.arch.context import Context
from fate.arch.dataframe import PandasReader
from fate.arch.trace import _profile
from fate.components.core.essential import Role

from fate_dp.components.common.federation import PartyId, own_party
from fate_dp.components.common.wire.channel import plain_messages
from fate_dp.components.common.wire.kinds import Messages
from fate_dp.privacy.private_files import HOME_VARIABLE, KEY_FILE, party_folder, publish_if_absent

from .doors import Doors, Killed, note_output
from .engine import Exchange, MemoryFederation, MemorySession, Silence
from .timeline import Timeline

ID_COLUMNS = ("sample_id", "id")
LABEL = "y"


@dataclass
class Artifact:
    """Stands for one of FATE's tables or models: what it holds, or what a component wrote into it."""

    content: Any = None
    name: str = ""
    written: list[Any] = field(default_factory=list)

    def read(self) -> Any:
        return self.content

    def write(self, content: Any = None, metadata: Any = None, df: Any = None) -> None:
        plain = content if df is None else df
        self.content = plain.as_pd_df() if hasattr(plain, "as_pd_df") else plain
        note_output(self.name, self.content)
        self.written.append(self.content)

    def __next__(self) -> "Artifact":
        return self


def frame_at(ctx: Any, table: Any, partitions: int = 2, label_type: str = "float64") -> Any:
    """A pandas table with the columns ``sample_id`` and ``id``, and the label ``y``, as FATE's DataFrame; others as they are."""
    if not isinstance(table, pd.DataFrame):
        return table
    reader = PandasReader(
        sample_id_name=ID_COLUMNS[0],
        match_id_name=ID_COLUMNS[1],
        label_name=LABEL if LABEL in table else None,
        label_type=label_type,
        dtype="float64",
        partition=partitions,
    )
    return reader.to_frame(ctx, table)


@dataclass(frozen=True)
class ComponentStep:
    """What every party does: enter a component's stage as FATE's executor does.

    Attributes:
        component: as FATE knows it, the object that its decorator made.
        parameters: as a user gives them; ``own``, {party: parameters}, differ there.
        tables: {name of a data input: {party: pandas table, or FATE's DataFrame}}; a party without one comes without a table.
        models: {name of a model input: {party: document}}.
        stage: ``train``, ``predict``, ``cross_validation``, or None where the component has one function.
    """

    component: Any
    parameters: Mapping[str, Any]
    tables: Mapping[str, Mapping[PartyId, Any]]
    models: Mapping[str, Mapping[PartyId, Any]] = field(default_factory=dict)
    stage: str | None = None
    own: Mapping[PartyId, Mapping[str, Any]] = field(default_factory=dict)
    partitions: int = 2
    output: Callable[[str], Artifact] = field(default=lambda name: Artifact(name=name))

    def __call__(self, ctx: Any) -> dict[str, Any]:
        me, entry = own_party(ctx), self.entry
        given = {**self.parameters, **self.own.get(me, {})}
        types = entry.parameters.mapping
        arguments: dict[str, Any] = {n: v if v is None else types[n].type.parse(v) for n, v in given.items()}
        for name in entry.artifacts.data_inputs:
            frame = frame_at(ctx, self.tables.get(name, {}).get(me), self.partitions)
            arguments[name] = None if frame is None else Artifact(frame)
        for name in entry.artifacts.model_inputs:
            model = self.models.get(name, {}).get(me)
            arguments[name] = None if model is None else Artifact(model)
        outputs = {name: self.output(name) for name in (*entry.artifacts.data_outputs, *entry.artifacts.model_outputs)}
        arguments |= outputs
        entry.execute(ctx, Role.from_str(me[0]), **arguments)
        return {
            name: each.written if len(each.written) > 1 else each.written[0] if each.written else None
            for name, each in outputs.items()
        }

    @property
    def messages(self) -> Messages:
        return self.entry.callback.messages

    @property
    def entry(self) -> Any:
        if self.stage is None:
            return self.component
        return next(each for each in self.component.stage_components if each.name == self.stage)


Step = Callable[[Any], Any]
"""What each party does: a function of its FATE context."""


@dataclass
class Played:
    """What a play came to, by party: ``values`` that the step returned, none of a party that failed; ``errors`` that
    ended it; ``metrics`` that it showed on the board. ``home`` is the folder of all parties' keys, ledgers and
    policies."""

    timeline: Timeline
    home: Path
    values: dict[PartyId, Any] = field(default_factory=dict)
    errors: dict[PartyId, BaseException] = field(default_factory=dict)
    metrics: dict[PartyId, list] = field(default_factory=dict)

    def check(self) -> "Played":
        for error in self.errors.values():
            raise error
        return self


def play(
    step: Step,
    parties: Sequence[PartyId],
    home: Path,
    *,
    messages: Messages | None = None,
    task: str = "task",
    doors: Doors | None = None,
) -> Played:
    """Let every party do ``step`` in one process, one at a time, with recorders at their doors.

    ``breakpoint()`` stops at any place; the other parties wait meanwhile. Randomness follows from ``doors.secret``,
    keys of the parties from the name of ``home`` alone, so that the same play gives the same values. ``parties`` are
    (role, party id) of all, ``home`` is where their folders are made, or found; they may send each other ``messages``,
    None for those that the component of a `ComponentStep` declares. FATE calls the ``task`` a federation session.
    """
    recorders = doors or Doors(Timeline())
    own = step.messages if isinstance(step, ComponentStep) else {}
    known = own if messages is None else messages
    exchange, played = Exchange(tuple(parties)), Played(recorders.timeline, home)

    def play_party(party: PartyId) -> None:
        with exchange.turn_of(party), recorders.of(party):
            ctx = Context(computing=MemorySession(), federation=MemoryFederation(exchange, task, party))
            try:
                with plain_messages(ctx, known) as plain:
                    played.values[party] = step(plain)
            except (Exception, Killed, Silence) as error:
                played.errors[party] = error
            played.metrics[party] = list(ctx.metrics.handler.get_metrics())

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {HOME_VARIABLE: str(home)}))
        # FATE notes the whole call stack at every operation on a table, which takes most of a play's time.
        stack.enter_context(mock.patch.object(_profile, "_call_stack_strings", list))
        for _, number in parties:
            place_key(home, number)
        stack.enter_context(recorders.set_up())
        threads = [threading.Thread(target=play_party, args=(party,), daemon=True) for party in parties]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return played


def place_key(home: Path, number: str) -> None:
    """A party's key, which follows from the home's name, unless it has one."""
    path = party_folder(home, number) / KEY_FILE
    if not path.exists():
        publish_if_absent(path, hashlib.sha256(f"{home.name} of {number}".encode()).digest())
