"""Whether FATE 2.2.0 runs a task of a job at all, and reads what the job gives it: by what its components declare.

FATE passes over an input that a stage does not declare, or does not have for a role, and refuses a task that lacks one or is given
several where it takes one. A job in which that happens is not what its writer meant, and nobody has said what it shows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ..common.channels import DATA, ELSEWHERE, MODELS, Source, inputs, is_among, read_at
from ..common.federation import Document, PartyId
from .reading import items, stages_declared

OWN_MODELS = ("input_model", "warm_start_model")
"""FATE's names of inputs for a model that the same component made."""
Parties = Mapping[str, Collection[PartyId]]


def _stage_of(dag: Document, name: str) -> Document | None:
    task = dag["tasks"][name]
    return stages_declared(task["component_ref"]).get(task.get("stage") or dag.get("stage") or "")


def declared_inputs(dag: Document, name: str) -> Document:
    """Of a task's data inputs those that its stage has; all where it has none of them, or nobody can tell."""
    stage, given = _stage_of(dag, name), inputs(dag["tasks"][name])
    return {key: given[key] for key in given if stage and key in stage["inputs"][DATA]} or given


def not_run(dag: Document, name: str, parties: Parties, settings: Iterable[Document]) -> str:
    """What FATE refuses or passes over of a task's stage, parties, inputs and parameters, a clause; empty where it takes all."""
    stage, component = _stage_of(dag, name), dag["tasks"][name]["component_ref"]
    if stage is None:
        return "does not run in this stage" if stages_declared(component) else ""
    missing = (f"needs {each}" for given in settings for each in stage["needs"] if given.get(each) is None)
    found = (_wrong_inputs(dag, name, kind, stage["inputs"][kind], parties) for kind in (DATA, MODELS))
    wrong = (
        *missing,
        *_wrong_parties(dag, name, stage["roles"], parties[name]),
        *(one for each in found for one in each),
    )
    return wrong[0] if wrong else ""


def _wrong_parties(dag: Document, name: str, roles: Collection[str], own: Collection[PartyId]) -> Iterator[str]:
    for party in own:
        if party[0] not in roles or not is_among(party, dag.get("parties") or ()):
            yield f"does not run as {' '.join(party)}"
    if sum(role == "guest" for role, _ in own) > 1:
        yield "takes one guest"
    for owner in (dag.get("party_tasks") or {}).values():
        lines = owner.get("parties") or ()
        named = {(line["role"], str(each)) for line in lines for each in line["party_id"]}
        if name in (owner.get("tasks") or ()) and (not named or not named <= set(own)):
            yield "has parameters of a party that does not run it"


def _wrong_inputs(dag: Document, name: str, kind: str, taken: Document, parties: Parties) -> Iterator[str]:
    given = inputs(dag["tasks"][name], kind)
    yield from (f"has no input {key} in this stage" for key in given if key not in taken)
    for key, (roles, optional, multi) in taken.items():
        for party in parties[name]:
            found = read_at(given.get(key) or {}, party, parties.__getitem__)
            if bool(found) != (party[0] in roles) and not (optional and not found) or len(found) > 1 and not multi:
                yield f"takes {'some' if multi else 'one' if party[0] in roles else 'no'} {key} at {' '.join(party)}, got {len(found)}"
            for source in (each for each in found if each != ELSEWHERE):
                if party not in parties[source[0]] or not _is_made(dag, name, (kind, key), source, party[0]):
                    yield f"can make nothing of {source[1]} of {source[0]} as {key} at {' '.join(party)}"


def _is_made(dag: Document, name: str, given: tuple[str, str], source: Source, role: str) -> bool:
    """Whether a role gets an output of another task and, of a model that a component takes back, of the same component."""
    stage, (kind, key) = _stage_of(dag, source[0]), given
    own = dag["tasks"][name]["component_ref"] == dag["tasks"][source[0]]["component_ref"]
    return (own or key not in OWN_MODELS) and (stage is None or role in stage["outputs"][kind].get(source[1], ()))


def names_other_code(content: object) -> bool:
    """Whether parameters, however deep, name anything but what networks are made of, as FATE's loader takes it."""
    if isinstance(content, Mapping):
        if "module_name" in content or "item_name" in content:
            module, item = content.get("module_name"), content.get("item_name")
            if content.get("source") is not None or not isinstance(module, str) or item not in items().get(module, ()):
                return True
        content = tuple(content.values())
    return isinstance(content, list | tuple) and any(map(names_other_code, content))
