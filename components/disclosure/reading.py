"""What FATE makes of a task's parameters, before anybody says what a setting does.

FATE lowers choices, takes "no" for false and "5" for a number, and fills groups of settings. So its own declarations are called
here, and ours. A client without FATE reads what ``tests/pages/fate_parameters.py`` wrote of them into `GENERATED`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ..common.federation import Document
from .declaration import COMPONENTS

GENERATED = Path(__file__).parent / "fate_parameters.json"
WORDS = {False: ("0", "off", "f", "false", "n", "no"), True: ("1", "on", "t", "true", "y", "yes")}
TRUTH = {word: value for value, words in WORDS.items() for word in words}


@dataclass(frozen=True)
class ReadParameter:
    """One parameter of a component.

    Attributes:
        read: a given value as the component gets it; raises for one that FATE refuses.
        default: what the component gets where nothing, or null, is given.
        stages: that take it.
        members: of a group, the names that it knows; None for anything else.
    """

    read: Callable[[object], object]
    default: object
    stages: tuple[str, ...]
    members: tuple[str, ...] | None = None


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
        members = known[name].members
        unread += (
            [f"{name}.{key}" for key in value if key not in members] if members and isinstance(value, dict) else []
        )
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
            members = getattr(each.type, "__fields__", None)
            taken = (*(found[name].stages if name in found else ()), stage)
            default = None if each.default is ... else _plain(each.default)
            found[name] = ReadParameter(each.apply, default, taken, members and tuple(members))
    return found


def _plain(value: Any) -> object:
    """Groups as mappings, whatever class holds them."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value.dict() if hasattr(value, "dict") else value


@cache
def generated() -> dict[str, dict[str, ReadParameter]]:
    """FATE 2.2.0's parameters without FATE; values are read where some statement depends on them, and others left as they are."""
    return {
        component: {
            name: ReadParameter(partial(_taken, kind), default, tuple(stages), members and tuple(members))
            for name, (kind, default, stages, members) in parameters.items()
        }
        for component, parameters in json.loads(GENERATED.read_text(encoding="utf-8")).items()
    }


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
