"""A component as one step of a play: its tables and models come and go in memory, in place of FATE's artifacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from fate.components.core.essential import Role

from fate_dp.components.common.federation import PartyId, own_party
from fate_dp.components.common.wire.kinds import Messages

from .doors import note_output

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

    def __next__(self) -> Artifact:
        return self


def frame_at(ctx: Any, table: Any, partitions: int = 2, label_type: str = "float64") -> Any:
    """A pandas table with the columns ``sample_id`` and ``id``, and the label ``y``, as FATE's DataFrame; others as they are."""
    from fate.arch.dataframe import PandasReader

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
        parameters: as a user gives them.
        tables: {name of a data input: {party: pandas table, or FATE's DataFrame}}; a party without one comes without a table.
        models: {name of a model input: {party: document}}.
        stage: ``train``, ``predict``, ``cross_validation``, or None where the component has one function.
        own: {party: parameters that differ there}.
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
        """What the component declares."""
        return self.entry.callback.messages

    @property
    def entry(self) -> Any:
        """The function that FATE enters."""
        if self.stage is None:
            return self.component
        return next(each for each in self.component.stage_components if each.name == self.stage)
