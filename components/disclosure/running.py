"""Whether FATE 2.2.0 runs a task of a job at all, and reads what the job gives it: by what its components declare.

FATE passes over an input that a stage does not declare, or does not have for a role, and refuses a task that lacks one or is given
several where it takes one. A job in which that happens is not what its writer meant, and nobody has said what it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from ..common.channels import DATA, ELSEWHERE, MODELS, Source, inputs, read_at
from ..common.federation import Document, PartyId
from .reading import Stage, Taken, items, stages_declared

OWN_MODELS = ("input_model", "warm_start_model")
"""FATE's names of inputs for a model that the same component made."""
Parties = Callable[[str], Collection[PartyId]]


def stage_given(dag: Document, name: str) -> str:
    """The stage in which FATE-Flow starts a task; FATE has no stage of no name."""
    return dag["tasks"][name].get("stage") or dag.get("stage") or ""


def declared_inputs(dag: Document, name: str) -> Document:
    """Of a task's data inputs those that its stage has; all where it has none of them, or nobody can tell."""
    stage, given = _stage_of(dag, name), inputs(dag["tasks"][name])
    return {key: given[key] for key in given if stage is not None and key in stage.inputs[DATA]} or given


def _stage_of(dag: Document, name: str) -> Stage | None:
    return stages_declared(dag["tasks"][name]["component_ref"]).get(stage_given(dag, name))


def not_run(dag: Document, name: str, parties: Parties) -> str:
    """What FATE refuses or passes over of a task's stage, roles and inputs, a clause; empty where it takes all."""
    component, stage = dag["tasks"][name]["component_ref"], _stage_of(dag, name)
    if not stages_declared(component):
        return ""
    if stage is None:
        return f"has no stage {stage_given(dag, name) or 'at all'}"
    for role, _ in parties(name):
        if role not in stage.roles:
            return f"does not run as {role}"
    return next(
        (found for kind in (DATA, MODELS) for found in _wrong_inputs(dag, name, kind, stage.inputs[kind], parties)), ""
    )


def _wrong_inputs(dag: Document, name: str, kind: str, taken: Mapping[str, Taken], parties: Parties) -> Iterator[str]:
    given = inputs(dag["tasks"][name], kind)
    yield from (f"has no input {key} in this stage" for key in given if key not in taken)
    for key, declared in taken.items():
        for party in parties(name):
            found = read_at(given.get(key) or {}, party, parties)
            if found and party[0] not in declared.roles:
                yield f"has no input {key} as {party[0]}"
            elif not found and not declared.optional and party[0] in declared.roles:
                yield f"needs the input {key} at {' '.join(party)}"
            elif len(found) > 1 and not declared.multi:
                yield f"takes one table or model as {key}"
            yield from (
                f"is given {key} by {source[0]}, which makes no {source[1]} at {' '.join(party)}"
                for source in found
                if not _is_made(dag, name, (kind, key), source, party)
            )


def _is_made(dag: Document, name: str, input_: tuple[str, str], source: Source, party: PartyId) -> bool:
    """Whether a task has this output at a party and, of a model that a component takes back, is one of that component."""
    if source == ELSEWHERE:
        return True
    component, stage = dag["tasks"][source[0]]["component_ref"], _stage_of(dag, source[0])
    if input_[1] in OWN_MODELS and component != dag["tasks"][name]["component_ref"]:
        return False
    return stage is None or party[0] in stage.outputs[input_[0]].get(source[1], ())


def names_other_code(content: object) -> bool:
    """Whether parameters, however deep, name anything but what networks are made of, as FATE's loader takes it."""
    if isinstance(content, Mapping):
        if "module_name" in content or "item_name" in content:
            module, item = content.get("module_name"), content.get("item_name")
            known = isinstance(module, str) and isinstance(item, str) and item in items().get(module, ())
            if not known or content.get("source") is not None:
                return True
        content = tuple(content.values())
    return isinstance(content, list | tuple) and any(map(names_other_code, content))
