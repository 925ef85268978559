"""Dataclasses read from the mappings of YAML and JSON files, checked field by field.

A file holds one instance of a dataclass, whose annotations say what is allowed: text, numbers, truth values, mappings,
tuples, other such dataclasses, None or one of several of these. An unknown field must not be there, and one without a
default must. A page or a verdict that rests on declarations must not be complete by chance.
"""

import math
import re
import types
import typing
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from .validation import InvalidArgument

Declared = TypeVar("Declared")


class YamlReader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The faster safe reader, eight times so, for what a program wrote; its sentences about an error are others than `read` gives.

    It reads 1e-06, which FATE-Flow writes, as a number, as YAML 1.2 does; PyYAML alone takes it for a text. A key that
    stands twice is an error, where PyYAML keeps the last.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        merges = any(key.tag.endswith(":merge") for key, _ in node.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(found) < len(node.value) and not merges:
            raise yaml.constructor.ConstructorError(None, None, "a key stands twice in one mapping", node.start_mark)
        return found


class YamlWriter(yaml.SafeDumper):
    """For files of `YamlReader`: it quotes a text such as 1e5, which it would read as a number."""


NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
for each in (YamlReader, YamlWriter):
    each.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+0123456789"))
SORTS: Mapping[type, str] = {str: "text", bool: "true or false", list: "a list", dict: "a mapping from names"}


def read(path: Path) -> tuple[Any, str]:
    """The content of a YAML file, and how a sentence calls it; raises InvalidArgument where there is none to read."""
    where = f"{path.parent.name}/{path.name}"
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")), where
    except OSError as error:
        raise InvalidArgument(f"{where} declares what is guaranteed and cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "it is no text"
        place = where if mark is None else f"{where}:{mark.line + 1}"
        raise InvalidArgument(f"{place}: invalid YAML: {problem}.") from error


def plain(value: Any) -> Any:
    """``value`` as YAML writes it: numbers of NumPy, fractions and decimals as Python's own, arrays as lists."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if hasattr(value, "dtype"):
        return value.tolist()
    return float(value) if isinstance(value, (Fraction, Decimal)) else value


@dataclass(frozen=True)
class Rules:
    """What the annotations do not say, by the names of fields in every dataclass: the ``words`` that a text may hold,
    and which lists, mappings and texts ``may_be_empty``. With ``exact`` every field must be there and may be empty:
    a program wrote the file."""

    words: Mapping[str, Collection[str]] = field(default_factory=dict)
    may_be_empty: Collection[str] = ()
    exact: bool = False

    def checked(self, kind: type[Declared], content: Any, where: str) -> Declared:
        """``content`` as an instance of the dataclass ``kind``; raises InvalidArgument, which names the field."""
        given = content if isinstance(content, dict) else {}
        names = [
            item.name
            for item in fields(cast(Any, kind))
            if self.exact or item.default is item.default_factory is MISSING or item.name in given
        ]
        if not isinstance(content, dict) or set(content) != set(names):
            found = sorted(map(str, content)) if isinstance(content, dict) else type(content).__name__
            raise InvalidArgument.of(f"fields of {where}", found, f"{', '.join(names)}, each once")
        hints = typing.get_type_hints(kind)
        return kind(**{name: self._value(hints[name], name, content[name], where) for name in names})

    def _value(self, kind: Any, name: str, value: Any, where: str) -> Any:
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is types.UnionType:
            return self._one_of(inner, name, value, where)
        if is_dataclass(kind):
            return self.checked(cast(Any, kind), value, f"{name} in {where}" if self.exact else where)
        if kind is Any or kind is float and _is_number(value):
            return value
        expected = {tuple: list, Mapping: dict}.get(cast(Any, origin), origin or kind)
        if self.exact and type(value) is not expected:
            raise InvalidArgument.of(f"type of {name} in {where}", type(value).__name__, expected.__name__)
        if type(value) is not expected or not (self.exact or value or name in self.may_be_empty or kind is bool):
            raise InvalidArgument.of(f"{name} in {where}", value, f"{SORTS.get(expected, expected)} that is not empty")
        if kind is str:
            return value if self.exact else self._word(name, value, where)
        if origin is tuple:
            return tuple(self._value(inner[0], name, item, where) for item in value)
        if origin is Mapping:
            return {
                self._value(str, name, key, where): self._value(inner[1], name, item, where)
                for key, item in value.items()
            }
        return value

    def _one_of(self, kinds: tuple[Any, ...], name: str, value: Any, where: str) -> Any:
        if value is None and type(None) in kinds:
            return None
        first, *more = (each for each in kinds if each is not type(None))
        return self._value(next((each for each in more if isinstance(value, each)), first), name, value, where)

    def _word(self, name: str, value: str, where: str) -> str:
        if not (value.strip() or name in self.may_be_empty):
            raise InvalidArgument.of(f"{name} in {where}", value, "text that is not empty")
        if name in self.words and value not in self.words[name]:
            raise InvalidArgument.of(f"{name} in {where}", value, f"one of {', '.join(self.words[name])}")
        return value.strip()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
