"""Which table or model each input of a task is at each party, resolved as FATE-Flow 2.2.0 does (``DagParser``).

One input may name several kinds of source. FATE-Flow goes through them in the order of the DAG, and the last that has anything for
a party wins. What comes from a warehouse was made elsewhere.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from fate_dp.privacy.validation import InvalidArgument

from .federation import Document, PartyId

DATA, MODELS = "data", "model"
WAREHOUSES = ("data_warehouse", "model_warehouse")
Source = tuple[str, str]
"""(task, output) of this job."""
ELSEWHERE: Source = ("", "")
"""A table, or a model, of this party's FATE-Flow that no task of this job made."""


def parties_of(dag: Document, name: str) -> tuple[PartyId, ...]:
    """(role, id) of all who take part in a task."""
    named = _last_of_each_role(dag["tasks"][name].get("parties") or ()) or dag.get("parties") or ()
    return tuple(dict.fromkeys((line["role"], str(each)) for line in named for each in line["party_id"]))


def _last_of_each_role(lines: Iterable[Document]) -> list[Document]:
    """Of several lines of one role FATE-Flow takes the last, but for a job's own parties and tables of a warehouse."""
    return list({line["role"]: line for line in lines}.values())


def sources(channels: Mapping[str, object]) -> list[Source]:
    """Everything of this job that an input names, whoever reads it; raises InvalidArgument, one sentence."""
    return [_source(each) for kind, each in channels_of(channels) if kind not in WAREHOUSES]


def inputs_from(task: Document) -> list[str]:
    """Tasks of this job whose data or models a task names."""
    return [source for kind in (DATA, MODELS) for each in inputs(task, kind).values() for source, _ in sources(each)]


def inputs(task: Document, kind: str = DATA) -> Document:
    return (task.get("inputs") or {}).get(kind) or {}


def read_at(channels: Document, party: PartyId, runs: Callable[[str], Collection[PartyId]]) -> list[Source]:
    """What an input is at one party, `ELSEWHERE` for what no task of this job made; nothing where the party has no such input.

    ``runs`` tells the parties of a task.
    """
    found: dict[str, list[Source]] = {}
    for kind, each in channels_of(channels):
        elsewhere = kind in WAREHOUSES
        lines = each.get("parties") or []
        named = lines if elsewhere else _last_of_each_role(lines)
        if is_among(party, named) if named else elsewhere or party in runs(_source(each)[0]):
            found.setdefault(kind, []).append(ELSEWHERE if elsewhere else _source(each))
    return found[list(found)[-1]] if found else []


def is_among(party: PartyId, named: Iterable[Document]) -> bool:
    """Whether lines of a DAG, each a role with ids, name this party."""
    return any(line["role"] == party[0] and party[1] in map(str, line["party_id"]) for line in named)


def channels_of(channels: Mapping[str, object]) -> Iterator[tuple[str, Document]]:
    """Each channel of an input, of which a DAG names one or a list, after its kind."""
    for kind, listed in channels.items():
        for each in listed if isinstance(listed, list) else [listed]:
            if isinstance(each, dict):
                yield kind, each


def _source(channel: Document) -> Source:
    named = channel.get("producer_task"), channel.get("output_artifact_key")
    if not all(isinstance(each, str) and each for each in named):
        raise InvalidArgument.of(
            "A channel under task_output_artifact", dict(channel), "producer_task and output_artifact_key"
        )
    return named  # type: ignore[return-value]


def in_order(dag: Document) -> tuple[str, ...]:
    """Names of the tasks, each after those whose outputs it reads; raises InvalidArgument, one sentence, where there is no such order."""
    tasks = dag["tasks"]
    needed = {name: inputs_from(task) for name, task in tasks.items()}
    for name, source in ((name, each) for name, found in needed.items() for each in found if each not in tasks):
        allowed = f"an output of one of the job's tasks, such as {', '.join(sorted(tasks)[:10])}"
        raise InvalidArgument.of(f"The input of task {name}", source, allowed)
    try:
        return tuple(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = ", ".join(sorted(set(error.args[1]))[:10])
        raise InvalidArgument(f"Tasks wait for each other's outputs in a circle: {circle}. A DAG has none.") from error
