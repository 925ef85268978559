"""Parameters of components: each is declared once, as a field of a dataclass in the component's ``settings.py``.

    @dataclass(frozen=True)
    class Settings:
        epochs: int = parameter("most epochs", 100, at_least=1)
        solver: str | None = parameter("how training is encrypted; None means as fits", None, check=OneOf(SOLVERS))
        optimizer: dict | None = parameter("steps of the descent", None, check=optimizer)

The check at every party and before submission, FATE's parameter (`entry_point`), the client class with its signature
(`fate_dp.pipelines.clients`), its YAML and the table in docs/parameters.md all come from there. A bad value gets one
sentence that names the field, the value and what is allowed, the same wherever it is caught. No FATE in here.
"""

import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields
from functools import cache, partial
from typing import Any

from fate_dp.privacy.ledger.datasets import is_source
from fate_dp.privacy.validation import is_real, is_whole

from .preflight import Refusal

LARGEST = sys.float_info.max


def number(
    field: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    whole: bool = False,
) -> Any:
    """A finite number within the limits, an int if ``whole`` and a float otherwise."""
    # Comparisons, since math.isfinite cannot take whole numbers that no float holds; NaN fails them.
    if (is_whole if whole else is_real)(value) and -LARGEST <= value <= LARGEST:
        if (above is None or value > above) and (at_least is None or value >= at_least):
            if at_most is None or value <= at_most:
                return int(value) if whole else float(value)
    limits = {"above": above, "at least": at_least, "at most": at_most}
    wanted = " and ".join(f"{words} {limit}" for words, limit in limits.items() if limit is not None)
    kind = "whole" if whole else "finite"
    raise Refusal.of(field, value, f"a {kind} number {wanted}".rstrip())


def choice(field: str, value: object, allowed: Sequence) -> Any:
    if value not in allowed:
        raise Refusal.of(field, value, f"one of {', '.join(map(str, allowed))}")
    # A member of an enum of texts is equal to its text, but no message takes it.
    return str(value) if isinstance(value, str) else value


def name(field: str, value: object, allowed: Sequence) -> Any:
    """The one of ``allowed`` that ``value`` is but for its case, as FATE takes SGD for sgd."""
    return choice(field, value.lower() if isinstance(value, str) else value, allowed)


def flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Refusal.of(field, value, "true or false")
    return value


def mapping(field: str, value: object, defaults: Mapping[str, object]) -> dict[str, Any]:
    """``value`` over ``defaults``; unknown keys are refused."""
    if not isinstance(value, dict):
        raise Refusal.of(field, value, f"a mapping with keys among {', '.join(defaults)}")
    unknown = sorted(set(value) - set(defaults), key=str)
    if unknown:
        raise Refusal.of(f"a key of {field}", unknown[0], f"one of {', '.join(defaults)}")
    _refuse_infinite(field, value)
    return {**deepcopy(dict(defaults)), **value}


def _refuse_infinite(field: str, value: object) -> None:
    """No number in a mapping is NaN or infinite, wherever it stands."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_infinite(f"{field}.{key}", item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _refuse_infinite(field, item)
    elif is_real(value) and not -LARGEST <= value <= LARGEST:
        raise Refusal.of(field, value, "a finite number")


def classes(value: object) -> tuple[float, ...]:
    """Declared label classes: at least two different finite numbers, kept in ascending order."""
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        raise Refusal.of("classes", value, "a list of at least two label values, such as [0, 1]")
    checked = sorted(number("classes", item) for item in value)
    if len(set(checked)) != len(checked):
        raise Refusal.of("classes", value, "different from each other")
    return tuple(checked)


def label_source(value: Any) -> str:
    """``namespace/name/column`` of the table that the labels come from, as the guest's operator declared it."""
    if not is_source(value):
        raise Refusal.of("label_source", value, "namespace/name/column")
    return value


@dataclass(frozen=True)
class OneOf:
    """The check of a parameter that is one of a few words; in any case, as FATE's examples write them, if asked."""

    allowed: Sequence[str]
    any_case: bool = False

    def __call__(self, field: str, value: object) -> Any:
        return (name if self.any_case else choice)(field, value, self.allowed)


@dataclass(frozen=True)
class Parameter:
    """One parameter as declared.

    ``sentence`` says what it is, without a capital or a full stop, and what None means if that is settled later.
    ``kinds`` are what a job may give: some of bool, int, float, str, list and dict. ``default`` is None, a number, a
    word or a tuple, where it is not `needed`. ``check`` returns a value as the component takes it, or raises ValueError
    with one sentence. ``title`` and ``note`` are how FATE's YAML names and describes its type.
    """

    name: str
    sentence: str
    kinds: tuple[type, ...]
    default: Any
    check: Callable[[Any], Any]
    title: str
    note: str

    @property
    def needed(self) -> bool:
        return self.default is MISSING

    @property
    def shown_default(self) -> Any:
        """What FATE sees: a mapping or an object is filled in by the dataclass, so that None stands for it."""
        plain = isinstance(self.default, (bool, int, float, str, tuple))
        return self.default if plain else None


def parameter(
    sentence: str,
    default: object = MISSING,
    *,
    check: OneOf | Callable[[object], object] | None = None,
    note: str = "",
    title: str = "",
    **limits: float,
) -> Any:
    """A dataclass field that is a parameter of a component, as `Parameter` says; without a default it is needed.

    A mapping is copied for every object. ``check`` is None for a flag, or a number within ``limits`` (``above``,
    ``at_least``, ``at_most``). ``note`` is that of the check unless given, ``title`` made from the field's name.
    """
    told = {"parameter": (sentence, check, note, title, limits)}
    if isinstance(default, dict):
        return field(default_factory=partial(deepcopy, default), metadata=told)
    return field(default=default, metadata=told)


def same_as(declaration: type, name: str) -> Any:
    (found,) = (item for item in fields(declaration) if item.name == name)
    return field(default=found.default, default_factory=found.default_factory, metadata=found.metadata)


@cache
def parameters_of(declaration: type) -> Mapping[str, Parameter]:
    """The parameters that a dataclass declares, by name, in the order of its fields."""
    hints = typing.get_type_hints(declaration)
    declared = [item for item in fields(declaration) if "parameter" in item.metadata]
    return types.MappingProxyType({item.name: _read(item, hints[item.name]) for item in declared})


def settings_of(declaration: type, given: Mapping[str, object]) -> Any:
    """The dataclass made from parameters; FATE gives None for one that was not set, which means its default."""
    return declaration(**{name: value for name, value in given.items() if value is not None})


def _read(item: Any, hint: Any) -> Parameter:
    sentence, check, note, title, limits = item.metadata["parameter"]
    parts = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    found = [typing.get_origin(part) or part for part in parts if part is not type(None)]
    # What is no word, number or list is made from a mapping.
    plain: dict[Any, type] = {tuple: list, bool: bool, int: int, float: float, str: str, list: list}
    kinds = tuple(dict.fromkeys(plain.get(part, dict) for part in found))
    about = note or (None if isinstance(check, OneOf) else getattr(check, "__doc__", None))
    if kinds == (bool,) and check is None:
        check = partial(flag, item.name)
    elif check is None:
        check = partial(number, item.name, **limits, whole=kinds == (int,))
    elif isinstance(check, OneOf):
        check = partial(check, item.name)
    title = title or "".join(word.capitalize() for word in item.name.split("_"))
    default = item.default if item.default_factory is MISSING else item.default_factory()
    return Parameter(item.name, sentence, kinds, default, check, title, (about or title).strip().splitlines()[0])
