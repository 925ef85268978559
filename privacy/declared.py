"""Declarations in YAML as frozen dataclasses, checked field by field.

A file holds one instance of a dataclass, whose annotations say what is allowed: text, truth values, mappings from text to
anything, tuples of text, other such dataclasses, and tuples of those. A field without a default must be there, an unknown
one must not, and nothing is empty but what the caller names. A page or a verdict that rests on declarations must not be
complete by chance.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from .validation import InvalidArgument

Declared = TypeVar("Declared")


def read(path: Path) -> tuple[Any, str]:
    """The content of a YAML file, and how a sentence calls it; raises InvalidArgument where there is none to read."""
    where = f"{path.parent.name}/{path.name}"
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")), where
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = where if mark is None else f"{where}, line {mark.line + 1},"
        raise InvalidArgument(f"{place} is missing or no valid YAML but must declare what is guaranteed.") from error


@dataclass(frozen=True)
class Rules:
    """What the annotations do not say.

    Attributes:
        words: for a field of text, the words that it may hold; names are those of fields, in every dataclass.
        may_be_empty: names of fields that may be an empty list, mapping or text.
    """

    words: Mapping[str, Collection[str]]
    may_be_empty: Collection[str] = ()

    def checked(self, kind: type[Declared], content: Any, where: str) -> Declared:
        """``content`` as an instance of the dataclass ``kind``; raises InvalidArgument, which names the field."""
        optional = {item.name for item in fields(cast(Any, kind)) if item.default is not MISSING}
        optional |= {item.name for item in fields(cast(Any, kind)) if item.default_factory is not MISSING}
        names = [
            item.name for item in fields(cast(Any, kind)) if item.name not in optional or item.name in (content or ())
        ]
        if not isinstance(content, dict) or set(content) != set(names):
            given = sorted(map(str, content)) if isinstance(content, dict) else content
            raise InvalidArgument(f"{where} has the fields {given} but {kind.__name__} must have {names}, each once.")
        types = typing.get_type_hints(kind)
        return kind(**{name: self._value(types[name], name, content[name], where) for name in names})

    def _value(self, kind: Any, name: str, value: Any, where: str) -> Any:
        if kind is str:
            return self._text(name, value, where)
        if is_dataclass(kind):
            return self.checked(cast(Any, kind), value, where)
        if typing.get_origin(kind) is Mapping or typing.get_origin(kind) is dict:
            return self._mapping(name, value, where)
        if not isinstance(value, list) or not (value or name in self.may_be_empty):
            raise InvalidArgument(f"{name} in {where} is {value!r} but must be a list that is not empty.")
        (item_kind, _) = typing.get_args(kind)
        if item_kind is str:
            return tuple(self._text(name, item, where) for item in value)
        return tuple(self.checked(item_kind, item, where) for item in value)

    def _mapping(self, name: str, value: Any, where: str) -> dict[str, Any]:
        fits = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        if not fits or not (value or name in self.may_be_empty):
            raise InvalidArgument(f"{name} in {where} is {value!r} but must be a mapping from names that is not empty.")
        return dict(value)

    def _text(self, name: str, value: Any, where: str) -> str:
        if not isinstance(value, str) or not (value.strip() or name in self.may_be_empty):
            raise InvalidArgument(f"{name} in {where} is {value!r} but must be text that is not empty.")
        if name in self.words and value not in self.words[name]:
            raise InvalidArgument(f"{name} in {where} is {value!r} but must be one of {', '.join(self.words[name])}.")
        return value.strip()
