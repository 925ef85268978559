"""Checks of job parameters: one sentence naming the field, the value and what is allowed. No FATE in here.

The same functions guard the client's component classes (before submission) and the components' parameters (at every
party, before any work), so a bad value gets the same sentence wherever it is caught.
"""
import sys
from numbers import Integral, Real
from typing import Sequence

from fate_dp.privacy.policy import is_source


def number(field: str, value, *, above=None, at_least=None, at_most=None, whole=False):
    """A finite number within the limits; a whole one if ``whole``."""
    kind = Integral if whole else Real
    # Comparisons, since math.isfinite cannot take whole numbers that no float holds; NaN fails them.
    sound = isinstance(value, kind) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if sound and (above is None or value > above) and (at_least is None or value >= at_least):
        if at_most is None or value <= at_most:
            return int(value) if whole else float(value)
    limits = [f"above {above}" if above is not None else "", f"at least {at_least}" if at_least is not None else ""]
    limits.append(f"at most {at_most}" if at_most is not None else "")
    wanted = " and ".join(limit for limit in limits if limit)
    raise ValueError(f"{field} is {value!r}; it must be a {'whole' if whole else 'finite'} number {wanted}.".replace(" .", "."))


def choice(field: str, value, allowed: Sequence):
    if value not in allowed:
        raise ValueError(f"{field} is {value!r}; it must be one of {', '.join(map(str, allowed))}.")
    return value


def name(field: str, value, allowed: Sequence) -> str:
    """The one of ``allowed`` that ``value`` is but for its case, as FATE takes SGD for sgd."""
    return choice(field, value.lower() if isinstance(value, str) else value, allowed)


def flag(field: str, value) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{field} is {value!r}; it must be true or false.")
    return value


def mapping(field: str, value, defaults: dict) -> dict:
    """``value`` over ``defaults``; unknown keys are refused."""
    if not isinstance(value, dict):
        raise ValueError(f"{field} is {value!r}; it must be a mapping with keys among {', '.join(defaults)}.")
    unknown = sorted(set(value) - set(defaults), key=str)
    if unknown:
        raise ValueError(f"{field} has the unknown key {unknown[0]!r}; allowed are {', '.join(defaults)}.")
    return {**defaults, **value}


def classes(value) -> tuple:
    """Declared label classes: at least two different finite numbers, kept in ascending order."""
    if not isinstance(value, (list, tuple)) or len(value) < 2:
        raise ValueError(f"classes is {value!r}; it must list at least two label values, for example [0, 1].")
    checked = sorted(number("classes", item) for item in value)
    if len(set(checked)) != len(checked):
        raise ValueError(f"classes is {value!r}; each label value may be listed once.")
    return tuple(checked)


def label_source(value) -> str:
    """``namespace/name/column`` of the table that the labels come from, as the guest's operator declared it."""
    if not is_source(value):
        raise ValueError(f"label_source is {value!r}; it must read namespace/name/column.")
    return value
