"""FATE's own components that move rows and columns, as plain functions of all parties' tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from .oracle import BY_ALL, BY_FEATURES, BY_FLIPS, BY_LABELS, BY_PLACE, Content
from .world import PartyId, Table, seeded

Inputs = Mapping[PartyId, Mapping[str, Any]]
Outputs = dict[PartyId, dict[str, Any]]


class Unfit(Exception):
    """The job cannot be played: something that it names is not there."""


def psi(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Rows whose ids all parties have, in one order."""
    tables = {party: given["input_data"] for party, given in inputs.items()}
    common = sorted(set.intersection(*(set(table.ids) for table in tables.values())))
    if len(common) < 4:
        raise Unfit("too few common ids")
    made = {}
    for party, table in tables.items():
        places = {each: at for at, each in enumerate(table.ids)}
        rows = table.rows([places[each] for each in common])
        sample_ids = [f"common {at}" for at in range(len(common))]
        made[party] = {"output_data": replace(rows, frame=rows.frame.assign(sample_id=sample_ids))}
    return made


def data_split(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Two parts, drawn by a public seed; perhaps with equal shares of every label."""
    given = task["parameters"]

    def chosen(table: Table) -> tuple[list[int], str]:
        places = list(range(len(table.ids)))
        seeded(given["random_state"]).shuffle(places)
        if given["stratified"] and table.label:
            labels = table.frame[table.label]
            places.sort(key=lambda at: labels[at])
            return [at for number, at in enumerate(places) if number % 4], _by_labels(table)
        return places[: round(len(places) * given["train_size"])], BY_PLACE

    return _divided(inputs, chosen, horizontal)


def keyed_split(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Two parts, where a record's own id says in which it lies."""
    given = task["parameters"]

    def chosen(table: Table) -> tuple[list[int], None]:
        sides = [seeded(given["salt"], each).random() for each in table.ids]
        return [at for at, side in enumerate(sides) if side >= given["test_share"]], None

    return _divided(inputs, chosen, horizontal)


def sample(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Some rows; perhaps fewer of label 1."""
    given = task["parameters"]

    def chosen(table: Table) -> tuple[list[int], str]:
        places = list(range(len(table.ids)))
        seeded(given["random_state"]).shuffle(places)
        if isinstance(given["frac"], dict) and table.label:
            ones = [at for at in places if table.frame[table.label][at] == 1]
            return sorted(set(places) - set(ones[::3])), _by_labels(table)
        return places[: round(len(places) * 0.7)], BY_PLACE

    divided = _divided(inputs, chosen, horizontal)
    return {party: {"output_data": parts["train_output_data"]} for party, parts in divided.items()}


def union(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """All rows of two tables, of the first one where both have an id."""
    made = {}
    for party, given in inputs.items():
        first, second = given["input_data_list"]
        if list(first.frame) != list(second.frame):
            raise Unfit("columns differ")
        known = set(first.ids)
        second = second.rows([at for at, each in enumerate(second.ids) if each not in known])
        labels = None if first.content.labels is None else first.content.labels + second.content.labels
        content = Content(
            first.content.records + second.content.records, labels, first.content.decided | second.content.decided
        )
        frame = pd.concat([first.frame, second.frame], ignore_index=True)
        frame["sample_id"] = [f"united {at}" for at in range(len(frame))]
        made[party] = {"output_data": replace(first, content=content, frame=frame)}
    return made


def hetero_feature_selection(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Some of the columns."""
    made = {}
    for party, given in inputs.items():
        table = given["input_data"]
        kept = [name for name in table.columns if name in task["parameters"]["keep"]] or table.columns[:1]
        dropped = [name for name in table.columns if name not in kept]
        made[party] = {"output_data": replace(table, frame=table.frame.drop(columns=dropped))}
    return made


def feature_scale(inputs: Inputs, task: Mapping[str, Any], horizontal: bool) -> Outputs:
    """Columns in units of what all rows have at most; whole numbers stay as they are."""
    made = {}
    for party, given in inputs.items():
        table = given["input_data"]
        scaled = {name: table.frame[name] / table.frame[name].abs().max() for name in table.columns if name[0] == "x"}
        content = replace(table.content, decided=table.content.decided | {BY_FEATURES})
        made[party] = {"output_data": replace(table, content=content, frame=table.frame.assign(**scaled))}
    return made


def _divided(inputs: Inputs, choose: Callable[[Table], tuple[list[int], str | None]], horizontal: bool) -> Outputs:
    """The rows that are chosen, and the others: by the guest for all parties, or by each of its own."""
    made, of_guest = {}, None
    for party, given in inputs.items():
        table = given["input_data"]
        if horizontal or of_guest is None:
            of_guest = choose(table)
        places, decided = of_guest
        if party[0] == "host" and not horizontal and decided in (BY_LABELS, BY_FLIPS):
            # A host's own record has no part in the guest's labels.
            decided = None
        others = sorted(set(range(len(table.ids))) - set(places))
        if not places or not others:
            raise Unfit("a part has no rows")
        made[party] = {
            "train_output_data": table.rows(sorted(places), decided),
            "test_output_data": table.rows(others, decided),
        }
    return made


def _by_labels(table: Table) -> str:
    cells = table.content.labels or ()
    if any(not cell.draws and not cell.derived for cell in cells):
        return BY_LABELS
    return BY_ALL if any(cell.derived for cell in cells) else BY_FLIPS


Mover = Callable[[Inputs, Mapping[str, Any], bool], Outputs]
MOVERS: dict[str, Mover] = {
    mover.__name__: mover
    for mover in (psi, data_split, keyed_split, sample, union, hetero_feature_selection, feature_scale)
}
