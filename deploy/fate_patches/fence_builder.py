"""Makes values of what `fence_reader` has read: FATE's objects field by field, numbers by `fence_numbers`.

No argument of a peer reaches a constructor or a function of a library or of FATE before it has been found to be what FATE
itself sends; no method of an object runs while it is filled. What FATE's Rust reads is the one exception.
"""

from __future__ import annotations

import re

if __package__:
    from . import fence_classes as classes
    from .fence_classes import check_fields, demand, fits, once, real
    from .fence_reader import ATOMS, MAX_NESTED, NOTHING, Beside, Made, Name, refused
else:
    import fence_classes as classes  # type: ignore[no-redef]
    from fence_classes import check_fields, demand, fits, once, real  # type: ignore[no-redef]
    from fence_reader import ATOMS, MAX_NESTED, NOTHING, Beside, Made, Name, refused  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Makers = dict[str, Callable[["Builder", Made], Any]]

# For each byte of a pickle so many bytes may be made of it, since the same part can be named again and again; and what
# an object counts beside its numbers.
MEMORY_PER_BYTE, MEMORY_TO_BEGIN_WITH, OBJECT = 64, 1 << 20, 512
TOO_LARGE = f"more than {MEMORY_PER_BYTE} bytes of numbers for each byte of its own"
TOO_DEEP = f"a value that is nested deeper than {MAX_NESTED} levels"
BEGUN = object()


class Builder:
    """Makes the values of one pickle, calls by `makers`; what stands in it twice is made once."""

    def __init__(self, size: int, makers: Makers, beside: Callable[[str, dict], Any] | None):
        self.memory = MEMORY_PER_BYTE * size + MEMORY_TO_BEGIN_WITH
        self.makers, self.beside, self.depth = makers, beside, 0
        self.done: dict[int, Any] = {}

    def build(self, value: Any) -> Any:
        """A value in which nothing is left to make; as it is where it is plain."""
        kind = type(value)
        if kind in ATOMS:
            return value
        found = self.done.get(id(value), NOTHING)
        if found is not NOTHING:
            demand(found is not BEGUN, "a value that contains itself")
            return found
        self.done[id(value)] = BEGUN
        self.depth += 1
        demand(self.depth <= MAX_NESTED, TOO_DEEP)
        made = PARTS[kind](self, value)
        self.depth -= 1
        self.done[id(value)] = made
        return made

    def spend(self, bytes_made: int) -> None:
        self.memory -= bytes_made
        demand(self.memory >= 0, TOO_LARGE)

    def of_row(self, value: list | tuple) -> list | tuple:
        return value if ATOMS.issuperset(map(type, value)) else type(value)(map(self.build, value))

    def of_dict(self, value: dict) -> dict:
        return {self.key(key): self.build(each) for key, each in value.items()}

    def of_set(self, value: set | frozenset) -> set | frozenset:
        return type(value)(map(self.key, value))

    def key(self, key: Any) -> Any:
        """A key; numbers of numpy and members of enumerations are the only ones that are made."""
        if type(key) is Made:
            demand(key.name in ("numpy.core.multiarray.scalar", *classes.ENUMERATIONS), f"a key made by {key.name}")
        return self.build(key)

    def of_name(self, value: Name) -> Any:
        full = value.full
        demand(full in classes.TORCH_TYPES or full in classes.EVALUATORS, f"{full} where a value belongs")
        return real(full)

    def of_beside(self, value: Beside) -> Any:
        made, beside = value.identity, self.beside
        if beside is None or type(made) is not Made or made.name not in BESIDE:
            raise refused("has a reference to what is neither table, tensor nor context")
        if made.name in self.makers:
            return self.of_library(made)
        return beside(made.name, self.fields_of(made))

    def of_made(self, made: Made) -> Any:
        name = made.name
        self.spend(OBJECT)
        demand(name not in BESIDE, "what stands beside a message, without a reference to it")
        demand(not made.items or name == "collections.OrderedDict", "an item in what is not a dictionary")
        if name in self.makers:
            return self.of_library(made)
        if name in classes.FIELDS:
            return self.fill(made, self.fields_of(made))
        if name in classes.IN_ORDER:
            fields, state = classes.IN_ORDER[name], made.state
            demand(
                type(state) is tuple and len(state) == len(fields), f"an object of {name} with another number of fields"
            )
            check_fields(name, fields, dict(zip(fields, state)))
            return self.fill(made, dict(zip(fields, map(self.build, state))))
        if name in classes.NAMED_TUPLES:
            kinds = classes.NAMED_TUPLES[name]
            demand(
                made.state is NOTHING and fits(classes.Row(*kinds), made.arguments),
                f"a {name} that is not as our components make it",
            )
            return tuple.__new__(real(name), map(self.build, made.arguments))
        demand(name not in classes.LISTED, f"a call of {name}")
        return self.of_operator(made)

    def of_library(self, made: Made) -> Any:
        try:
            return self.makers[made.name](self, made)
        except (ValueError, TypeError, OverflowError, NotImplementedError) as error:
            raise refused(f"has a {made.name} that cannot be made ({type(error).__name__})") from error

    def fields_of(self, made: Made) -> dict[str, Any]:
        state = made.state
        demand(type(state) is dict, f"an object of {made.name} without fields")
        check_fields(made.name, classes.FIELDS[made.name], state)
        return {field: self.build(value) for field, value in state.items()}

    def fill(self, made: Made, fields: dict[str, Any]) -> Any:
        """An object with these fields; neither its constructor runs nor any method of it."""
        demand(not made.arguments, f"an object of {made.name} that was made otherwise than FATE's are")
        found = object.__new__(real(made.name))
        found.__dict__.update(fields)
        return found

    def of_operator(self, made: Made) -> Any:
        """An object of a class that this server's operator lets in: of plain Python, with whatever can be built."""
        kind, state = real(made.name), {} if made.state is NOTHING else made.state
        demand(
            isinstance(kind, type) and kind.__new__ is object.__new__ and kind.__dictoffset__ != 0,
            f"an object of {made.name}, which is not a class of plain Python",
        )
        plain = type(state) is dict and all(type(each) is str and not each.startswith("__") for each in state)
        demand(plain, f"an object of {made.name} without fields, or with one that Python itself looks for")
        return self.fill(made, self.of_dict(state))


BESIDE = (classes.TABLE, classes.CONTEXT, classes.TENSOR_BESIDE, classes.ARRAY_BESIDE)
PARTS: dict[type, Callable[[Builder, Any], Any]] = {
    list: Builder.of_row,
    tuple: Builder.of_row,
    dict: Builder.of_dict,
    set: Builder.of_set,
    frozenset: Builder.of_set,
    Name: Builder.of_name,
    Beside: Builder.of_beside,
    Made: Builder.of_made,
}


def plain_slice(builder: Builder, made: Made) -> slice:
    bound = (int, None)
    return slice(*once(made, "a slice", bound, bound, bound))


def ordered(builder: Builder, made: Made) -> Any:
    """A dictionary; what torch notes beside a model's state is left out."""
    demand(not made.arguments and made.state is NOTHING, "an OrderedDict that is not one")
    return real("collections.OrderedDict")((builder.key(key), builder.build(each)) for key, each in made.items)


def member(builder: Builder, made: Made) -> Any:
    """A member of an enumeration, by its value or by its name."""
    if made.name == classes.GETATTR:
        kind, name = once(made, "an attribute", classes.ENUMERATIONS, str)
        members: Any = real(kind.full).__members__
    else:
        (name,) = once(made, "a member of an enumeration", (str, classes.Row(str, int)))
        members = real(made.name)._value2member_map_
    demand(name in members, "what is not a member of an enumeration")
    return members[name]


def rust_object(builder: Builder, made: Made) -> Any:
    """An object of FATE's Rust, which reads its own state: bytes of a form that is checked here first."""
    state = made.state
    if type(state) is list:
        state = bytes(state)
    demand(type(state) is bytes, f"an object of {made.name} without a state")
    demand(has_form(state, classes.RUST_STATES[made.name]), f"an object of {made.name} whose state is of another form")
    builder.spend(len(state))
    found = real(made.name)()
    try:
        found.__setstate__(list(state) if type(made.state) is list else state)
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise refused(f"has an object of {made.name} that FATE's Rust does not read") from None
    return found


# Big numbers by their base, which comes first: those of keys and others.
BASES = {b"\x0a\0\0\0": b"0-9", b"\x10\0\0\0": b"0-9a-f"}
DIGITS = {
    "n": {base: re.compile(b"(?!0)[" + digits + b"]+") for base, digits in BASES.items()},
    "b": {base: re.compile(b"-?[" + digits + b"]+") for base, digits in BASES.items()},
}
# An exponent is one of 16, and a number of that many digits.
MAX_EXPONENT = 1 << 16


def has_form(state: bytes, form: str) -> bool:
    """Whether FATE's Rust has written a state: big numbers by base, length and digits, exponents, counts."""
    if form == "summary":
        count = int.from_bytes(state[1:9], "little")
        return state[:1] in (b"\0", b"\1") and len(state) == 25 + 24 * count
    at = 0
    if form[:1] == "*":
        count = int.from_bytes(state[:8], "little")
        # Each has 16 bytes beside its digits.
        if 16 * count > len(state):
            return False
        form, at = form[1:] * count, 8
    for part in form:
        if part == "e":
            exponent, at = int.from_bytes(state[at : at + 4], "little", signed=True), at + 4
            if abs(exponent) > MAX_EXPONENT:
                return False
            continue
        digits, end = DIGITS[part].get(state[at : at + 4]), at + 12 + int.from_bytes(state[at + 4 : at + 12], "little")
        if digits is None or end > len(state) or not digits.fullmatch(state, at + 12, end):
            return False
        at = end
    return at == len(state)


OTHERS: Makers = {
    "builtins.slice": plain_slice,
    "collections.OrderedDict": ordered,
    **dict.fromkeys((*classes.ENUMERATIONS, classes.GETATTR), member),
    **dict.fromkeys(classes.RUST_STATES, rust_object),
}
