"""Checks of arguments: what counts as a number, which ranges are allowed, and the sentence that refuses the rest.

Numbers are Python's and numpy's, but never a truth value, which would pass as 0 or 1. Every check returns the value in
the type that is computed with, and raises `InvalidArgument` (or its ``error``), naming the argument and its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any, TypeGuard

DEFAULT_DELTA = 1e-6
"""Of every guarantee and every total that names none."""
MIN_SENSITIVITY, MAX_SENSITIVITY = 1e-150, 1e150
PARTY_ID = re.compile(r"[0-9A-Za-z_]{1,64}")
"""What FATE takes as the id of a party, and every file system as a name."""


class InvalidArgument(ValueError):
    """An argument is not what it must be: one sentence that names it, what is allowed and its value, and the cure."""

    @classmethod
    def of(cls, name: str, value: object, allowed: str, cure: str = "") -> InvalidArgument:
        """The error of the argument ``name``, whose ``value`` must be ``allowed``."""
        return cls(refusal(name, value, allowed, cure))


def refusal(name: str, value: Any, allowed: str, cure: str = "") -> str:
    """The sentence that refuses the ``value`` of the argument ``name``, and the one that says what to do."""
    # An array by its kind: its numbers may be records. Of a long value the beginning: others read sentences up to a length.
    is_array = hasattr(value, "dtype") and hasattr(value, "__setitem__")
    got = f"shape {tuple(value.shape)} and type {value.dtype}" if is_array else f"{value!r:.500}"
    return f"{name} must be {allowed}, got {got}. {cure}".rstrip()


def is_real(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a real number; NaN and infinities are."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether ``value`` is of a whole-number type."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_finite(value: object) -> TypeGuard[float]:
    """Whether ``value`` is a real number that a float can hold, to its precision."""
    try:
        return is_real(value) and math.isfinite(value)
    except OverflowError:
        # A whole number or a fraction beyond the range of a float.
        return False


def is_name(value: object) -> bool:
    """Whether ``value`` is a part of the name of a table, or of a label source: one line, no blanks at its ends, no slash."""
    return isinstance(value, str) and value.strip() == value != "" and value.isprintable() and "/" not in value


def check_party_id(party_id: str) -> str:
    """Return ``party_id`` if FATE takes it as the id of a party."""
    if not PARTY_ID.fullmatch(party_id):
        raise InvalidArgument.of("party id", party_id, "up to 64 letters A to z, digits and underscores, as FATE's")
    return party_id


# Each names in `refusal` what it allows; ``allowed`` says it in other words.


def positive(
    name: str, value: object, allowed: str = "a finite number greater than 0", error: type[ValueError] = InvalidArgument
) -> float:
    """Return ``value`` as a float if it is finite and greater than 0."""
    # As a float, which is what is kept: a smaller number of another type may be 0 there.
    if not is_finite(value) or not float(value) > 0:
        raise error(refusal(name, value, allowed))
    return float(value)


def within(
    name: str, value: object, least: float, most: float, allowed: str = "", error: type[ValueError] = InvalidArgument
) -> float:
    """Return ``value`` as a float if it is a number from ``least`` to ``most``."""
    if not is_real(value) or not least <= value <= most:
        raise error(refusal(name, value, allowed or f"a number from {least} to {most}"))
    return float(value)


def strictly_within(name: str, value: object, least: float, most: float, allowed: str = "") -> float:
    """Return ``value`` as a float if it is a number strictly between ``least`` and ``most``."""
    if not is_finite(value) or not least < value < most:
        raise InvalidArgument.of(name, value, allowed or f"a number strictly between {least} and {most}")
    return float(value)


def as_share(name: str, value: object, allowed: str, error: type[ValueError] = InvalidArgument) -> float:
    """Return ``value`` as a float if it is a number greater than 0 and at most 1."""
    positive(name, value, allowed, error)
    return within(name, value, 0, 1, allowed, error)


def whole(
    name: str,
    value: object,
    least: int,
    most: float = math.inf,
    allowed: str = "",
    error: type[ValueError] = InvalidArgument,
) -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``."""
    if not is_whole(value) or not least <= value <= most:
        limit = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise error(refusal(name, value, allowed or f"a whole number {limit}"))
    return int(value)


def one_of(name: str, value: object, words: Collection[str], error: type[ValueError] = InvalidArgument) -> str:
    """Return ``value`` if it is one of ``words``."""
    if not isinstance(value, str) or value not in words:
        raise error(refusal(name, value, f"one of {', '.join(words)}"))
    return value


def check_epsilon(epsilon: object) -> float:
    """Return ``epsilon`` (nats) as a float if it is a finite number greater than 0."""
    return positive("epsilon", epsilon, "a finite number greater than 0 (in nats)")


def check_epsilon_or_zero(epsilon: object) -> float:
    """Return ``epsilon`` (nats) as a float if it is a finite number of at least 0."""
    if not (is_finite(epsilon) and epsilon >= 0):
        raise InvalidArgument.of("epsilon", epsilon, "a finite number of at least 0 (in nats)")
    return float(epsilon)


def check_delta(delta: object) -> float:
    """Return ``delta`` as a float if it is a number strictly between 0 and 1."""
    return strictly_within("delta", delta, 0, 1, "a number greater than 0 and less than 1")


def check_delta_or_zero(delta: object) -> float:
    """Return ``delta`` as a float if it is a number from 0 to less than 1."""
    if not (is_finite(delta) and 0 <= delta < 1):
        raise InvalidArgument.of("delta", delta, "a number of at least 0 and less than 1")
    return float(delta)


def check_target(epsilon: object, delta: object) -> tuple[float, float]:
    """Return a target (epsilon > 0 in nats, 0 < delta < 1) as floats."""
    return check_epsilon(epsilon), check_delta(delta)


def check_classes(classes: object) -> int:
    """Return the number of classes as an int if it is a whole number of at least 2."""
    return whole("classes", classes, 2)


def check_sensitivity(sensitivity: object) -> float:
    """Return it if it is a number from 1e-150 to 1e150, so that neither squares nor grids leave the range of floats."""
    return within("sensitivity", sensitivity, MIN_SENSITIVITY, MAX_SENSITIVITY)
