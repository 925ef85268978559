"""What FATE makes of a task's parameters and inputs, before anybody says what a setting does.

FATE lowers choices, takes "no" for false and "5" for a number, and fills groups of settings. So its own declarations are called
here, and ours. What they say of inputs, outputs and roles, and on a client without FATE all of it, is read from `GENERATED`, which
``tests/pages/fate_parameters.py`` writes and a test holds to them.
"""

import importlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ..common.federation import Document
from .declaration import COMPONENTS

GENERATED = Path(__file__).parent / "fate_parameters.json"
WORDS = {False: ("0", "off", "f", "false", "n", "no"), True: ("1", "on", "t", "true", "y", "yes")}
TRUTH = {word: value for value, words in WORDS.items() for word in words}
NUMBERS, TEXTS, TRUTHS = "numbers", "words", "truth"
"""Of a member of a group, what it may be: no text; no more than a word either; true or false and nothing like it."""
ANY_OF = "any of"
WORD = re.compile(r"\w[\w .+-]{0,99}")


@dataclass(frozen=True)
class ReadParameter:
    """One parameter of a component, and the stages that take it.

    ``read`` gives a given value as the component gets it, and raises for one that FATE refuses; where nothing, or null, is
    given the component gets ``default``.
    """

    read: Callable[[object], object]
    default: object
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """Settings as the component gets them, and names of those given that FATE refuses, or passes over, not knowing them."""

    settings: Document
    unread: tuple[str, ...] = ()


def read(component: str, given: Document) -> Reading:
    """A task's parameters, which travel as JSON, as its component gets them."""
    return _read(component, json.dumps(given, default=str, skipkeys=True))


@lru_cache(maxsize=4096)
def _read(component: str, text: str) -> Reading:
    given, known = json.loads(text), parameters_of(component)
    members = _generated()["components"].get(component, {}).get("parameters", {})
    if not known:
        return Reading(given)
    found: Document = {name: each.default for name, each in known.items()}
    unread = [name for name in given if name not in known]
    for name, value in given.items():
        if name not in known or value is None:
            continue
        try:
            found[name] = _plain(known[name].read(value))
        except Exception:  # FATE ends the task, whatever a check raises.
            found[name] = value
            unread.append(name)
        unread += [each for each in strange(name, value, members.get(name, [None])[-1]) if each not in unread]
    for resolve in _resolvers(component):
        try:
            found |= resolve(found)
        except (ValueError, TypeError):
            # Settings that do not go together, or are not all there: the component refuses them.
            continue
    return Reading(found, tuple(unread))


@cache
def parameters_of(component: str) -> Mapping[str, ReadParameter]:
    """The parameters of all stages of a component; none where nobody can tell, as of FATE-Flow's own components."""
    try:
        return declared_by(stages_of(component))
    except ImportError:
        return generated().get(component, {})


def stages_of(component: str) -> Document:
    """What FATE made of each stage of a component, ours or its own; raises ImportError without FATE."""
    if (COMPONENTS / component / "component.py").is_file():
        found = getattr(importlib.import_module(f"fate_dp.components.{component}.component"), component)
    else:
        from fate.components.components import LazyBuildInComponentsLoader

        loader = LazyBuildInComponentsLoader()
        if not loader.contains(component):
            return {}
        found = loader.load_cpn(component)
    return {stage.name: stage for stage in found.stage_components} or {"default": found}


@cache
def _resolvers(component: str) -> list[Callable[[Document], Document]]:
    """Of our components: what settings come to that are left to others (`entry_point.with_parameters`)."""
    try:
        return [each.callback.resolve for each in stages_of(component).values() if hasattr(each.callback, "resolve")]
    except ImportError:
        return []


def declared_by(stages: Document) -> dict[str, ReadParameter]:
    """The parameters of a component from what FATE made of its stages."""
    found: dict[str, ReadParameter] = {}
    for stage, declared in stages.items():
        for name, each in declared.parameters.mapping.items():
            taken = (*(found[name].stages if name in found else ()), stage)
            default = None if each.default is ... else _plain(each.default)
            found[name] = ReadParameter(each.apply, default, taken)
    return found


def _plain(value: Any) -> object:
    """Groups as mappings, whatever class holds them."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value.dict() if hasattr(value, "dict") else value


@cache
def _generated() -> Document:
    return json.loads(GENERATED.read_text(encoding="utf-8"))


def items() -> Mapping[str, list[str]]:
    """By module what networks are made of; `fate_patches.model_classes` lets no job import anything else."""
    return _generated()["items"]


def stages_declared(component: str) -> Document:
    """What each stage of a component declares, as ``tests/pages/fate_parameters.py`` says; none where nobody can tell."""
    return _generated()["components"].get(component, {}).get("stages", {})


@cache
def generated() -> dict[str, dict[str, ReadParameter]]:
    """FATE 2.2.0's parameters and ours without FATE; values are read where some statement depends on them, and others left as they are."""
    return {
        component: {
            name: ReadParameter(partial(_taken, kind), default, tuple(stages))
            for name, (kind, default, stages, _) in each["parameters"].items()
        }
        for component, each in _generated()["components"].items()
    }


def strange(name: str, value: object, kind: object) -> Iterator[str]:
    """Members of a group, however deep, that FATE does not know, refuses, or takes for files, code or addresses."""
    if value is None or kind in (None, "any"):
        return
    if isinstance(kind, dict) and isinstance(value, dict):
        for key, each in value.items():
            yield from strange(f"{name}.{key}", each, kind[key]) if key in kind else [f"{name}.{key}"]
    elif isinstance(kind, list) and kind[0] == ANY_OF:
        yield from min((list(strange(name, value, each)) for each in kind[1:]), key=len)
    elif kind == TRUTHS:
        yield from [] if isinstance(value, bool) else [name]
    elif kind in (NUMBERS, TEXTS):
        yield from [] if all(kind == TEXTS and WORD.fullmatch(text) for text in _texts(value)) else [name]
    elif not isinstance(kind, list) or value not in kind:
        yield name


def _texts(value: object) -> list[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in _texts(each)]


def _taken(kind: Any, value: Any) -> object:
    """A value as FATE takes it for a parameter of this kind; raises whatever a value of another kind raises."""
    match kind:
        case "bool":
            return TRUTH[str(value).lower()]
        case "int":
            return int(value)
        case ["choice", *allowed]:
            return allowed[allowed.index(value.lower())]
        case ["list", item]:
            return [_taken(item, each) for each in (value if isinstance(value, list) else [value])]
    if isinstance(kind, dict):
        read = {name: _taken(inner, value[name]) for name, (inner, _) in kind.items() if name in {**value}}
        return {name: read[name] if name in read else default[0] for name, (_, default) in kind.items()}
    return value
