"""Makes values of what `fence_reader` has read: arrays and tensors from a checked header and bytes, FATE's objects field by field.

No argument of a peer reaches a constructor or a function of numpy, pandas, torch or FATE before it has been found to be what
FATE itself sends: kinds of numbers from a table, shapes that their bytes fill exactly, fields of `fence_classes` alone.
"""

from __future__ import annotations

import importlib
import math
import re

if __package__:
    from . import fence_classes as classes
    from .fence_reader import ATOMS, MOST_NESTED, NOTHING, Beside, Made, Name, refused
    from .fence_reader import read as read_pickle
else:
    import fence_classes as classes  # type: ignore[no-redef]
    from fence_reader import ATOMS, MOST_NESTED, NOTHING, Beside, Made, Name, refused  # type: ignore[no-redef]
    from fence_reader import read as read_pickle  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# For each byte of a pickle so many bytes of numbers may be made of it: the same bytes can be named again and again.
MEMORY_PER_BYTE, MEMORY_TO_BEGIN_WITH = 64, 1 << 16
MOST_DIMENSIONS, LONGEST, LONGEST_HEADER = 32, 1 << 48, 4096
BEGUN = object()

# As numpy writes the kinds of arrays that have neither fields nor units of time, and as safetensors writes them.
NUMPY_KIND = re.compile(r"b1|[iu][1248]|f[248]|c8|c16|O8|[SU][1-9][0-9]{0,5}")
SAFE_KIND = re.compile(r"BOOL|[UI](?:8|16|32|64)|F(?:16|32|64)")
# The numbers of tensors, as torch names them in a pickle: their kind and width.
STORAGES = {
    "BoolStorage": ("bool", 1),
    "ByteStorage": ("uint8", 1),
    "CharStorage": ("int8", 1),
    "ShortStorage": ("int16", 2),
    "IntStorage": ("int32", 4),
    "LongStorage": ("int64", 8),
    "HalfStorage": ("float16", 2),
    "FloatStorage": ("float32", 4),
    "DoubleStorage": ("float64", 8),
}
TORCH_MAGIC, TORCH_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
TORCH_SYSTEM = {
    "protocol_version": TORCH_PROTOCOL,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}


def demand(fits: bool, what: str) -> None:
    if not fits:
        raise refused(f"has {what}")


def real(full: str) -> Any:
    """What a listed name stands for."""
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LONGEST


def is_shape(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MOST_DIMENSIONS and all(map(is_count, value))


# Kinds --------------------------------------------------------------------------------------------------------------


def fits(kind: Any, value: Any) -> bool:
    """Whether what was read is of a kind, as `fence_classes` has them."""
    if kind is classes.ANY:
        return True
    if kind is None:
        return value is None
    if type(kind) is str:
        return name_of(value) == kind
    if type(kind) is tuple:
        return any(fits(each, value) for each in kind)
    if type(kind) is list:
        return type(value) is list and all_fit(kind[0], value)
    if type(kind) is dict:
        ((of_keys, of_values),) = kind.items()
        return type(value) is dict and all_fit(of_keys, value) and all_fit(of_values, value.values())
    if type(kind) is classes.Row:
        if type(value) is tuple and kind.kinds[1:] == (...,):
            return all_fit(kind.kinds[0], value)
        return type(value) is tuple and len(value) == len(kind.kinds) and all(map(fits, kind.kinds, value))
    return type(value) is kind


def all_fit(kind: Any, values: Iterable) -> bool:
    return {kind}.issuperset(map(type, values)) if isinstance(kind, type) else all(fits(kind, each) for each in values)


def name_of(value: Any) -> str | None:
    """The name that something has, or by which it is made."""
    if type(value) is Beside:
        value = value.identity
    if type(value) is Made:
        return value.name
    return value.full if type(value) is Name else None


def check_fields(name: str, fields: dict, found: dict) -> None:
    for field, value in found.items():
        demand(type(field) is str and field in fields, f"an object of {name} with a field that FATE does not give it")
        demand(fits(fields[field], value), f"an object of {name} whose field {field} is not what FATE puts there")


# Building -----------------------------------------------------------------------------------------------------------


class Builder:
    """Makes the values of one pickle; what stands in it twice is made once."""

    def __init__(self, size: int, beside: Callable[[str, dict], Any] | None = None, allowed: frozenset = frozenset()):
        self.memory = MEMORY_PER_BYTE * size + MEMORY_TO_BEGIN_WITH
        self.beside, self.allowed, self.depth = beside, allowed, 0
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
        demand(self.depth <= MOST_NESTED, f"a value that is nested deeper than {MOST_NESTED} levels")
        made = PARTS[kind](self, value)
        self.depth -= 1
        self.done[id(value)] = made
        return made

    def spend(self, bytes_made: int) -> None:
        self.memory -= bytes_made
        demand(self.memory >= 0, f"more than {MEMORY_PER_BYTE} bytes of numbers for each byte of its own")

    def of_list(self, value: list) -> list:
        return value if ATOMS.issuperset(map(type, value)) else list(map(self.build, value))

    def of_tuple(self, value: tuple) -> tuple:
        return value if ATOMS.issuperset(map(type, value)) else tuple(map(self.build, value))

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
        made = value.identity
        demand(
            self.beside is not None and type(made) is Made and made.name in BESIDE and not made.arguments,
            "a reference to what is neither table, tensor nor context",
        )
        if made.name in BUILDERS:
            return self.of_library(BUILDERS[made.name], made)
        return self.beside(made.name, self.fields_of(made))

    def of_made(self, made: Made) -> Any:
        name = made.name
        self.spend(MEMORY_PER_BYTE)
        demand(name not in BESIDE, "what stands beside a message, without a reference to it")
        if name in BUILDERS:
            return self.of_library(BUILDERS[name], made)
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
                made.state is NOTHING and not made.items and fits(classes.Row(*kinds), made.arguments),
                f"a {name} that is not as our components make it",
            )
            return tuple.__new__(real(name), map(self.build, made.arguments))
        if name in classes.RUST_STATES:
            return self.of_library(rust_object, made)
        demand(name in self.allowed, f"a call of {name}")
        return self.of_operator(made)

    def of_library(self, maker: Callable[[Builder, Made], Any], made: Made) -> Any:
        try:
            return maker(self, made)
        except (ValueError, TypeError, OverflowError) as error:
            raise refused(f"has a {made.name} that cannot be made ({type(error).__name__})") from error

    def fields_of(self, made: Made) -> dict[str, Any]:
        state = made.state
        demand(type(state) is dict, f"an object of {made.name} without fields")
        check_fields(made.name, classes.FIELDS[made.name], state)
        return {field: self.build(value) for field, value in state.items()}

    def fill(self, made: Made, fields: dict[str, Any]) -> Any:
        """An object with these fields; neither its constructor runs nor any method of it."""
        demand(
            not made.arguments and not made.items, f"an object of {made.name} that was made otherwise than FATE's are"
        )
        found = object.__new__(real(made.name))
        found.__dict__.update(fields)
        return found

    def of_operator(self, made: Made) -> Any:
        """An object of a class that this server's operator lets in: of plain Python, with whatever can be built."""
        kind, state = real(made.name), made.state
        demand(
            isinstance(kind, type) and kind.__new__ is object.__new__ and kind.__basicsize__ == Plain.__basicsize__,
            f"an object of {made.name}, which is no class of plain Python",
        )
        fits_state = state is NOTHING or (type(state) is dict and all_fit(str, state))
        demand(fits_state, f"an object of {made.name} without fields")
        return self.fill(made, {} if state is NOTHING else self.build(state))


class Plain:
    """As large as objects of plain Python are."""


BESIDE = (classes.TABLE, classes.CONTEXT, classes.TENSOR_BESIDE, classes.ARRAY_BESIDE)
PARTS: dict[type, Callable[[Builder, Any], Any]] = {
    list: Builder.of_list,
    tuple: Builder.of_tuple,
    dict: Builder.of_dict,
    set: Builder.of_set,
    frozenset: Builder.of_set,
    Name: Builder.of_name,
    Beside: Builder.of_beside,
    Made: Builder.of_made,
}


def once(made: Made, what: str, *kinds: Any) -> tuple:
    """The arguments of what is called and not filled."""
    demand(
        made.state is NOTHING and not made.items and fits(classes.Row(*kinds), made.arguments), f"{what} that is none"
    )
    return made.arguments


# Numbers of numpy ---------------------------------------------------------------------------------------------------


def numpy_kind(builder: Builder, made: Made) -> Any:
    """A kind of numbers, of texts or of objects, as numpy writes those without fields; its state must be numpy's own."""
    import numpy

    demand(
        fits(classes.Row(str, bool, bool), made.arguments) and not made.items, "a numpy.dtype that numpy did not write"
    )
    text, state = made.arguments[0], made.state
    plain = NUMPY_KIND.fullmatch(text) and made.arguments[1:] == (False, True)
    demand(bool(plain), "an array of a kind beside numbers, texts and objects")
    order = state[1] if type(state) is tuple and len(state) == 8 else None
    demand(order in ("<", ">", "|"), "a numpy.dtype with a state that is none of numpy's own")
    kind = numpy.dtype(text if order == "|" else order + text)
    demand(state == kind.__reduce__()[2], "a numpy.dtype with a state that is none of numpy's own")
    return kind


def check_numbers(raw: Any, kind: Any) -> None:
    """Truth values beside 0 and 1, and texts of what is no character, mislead numpy's own reading of them."""
    import numpy

    if kind.kind == "b" and raw:
        demand(numpy.frombuffer(raw, "u1").max() <= 1, "a truth value that is neither true nor false")
    if kind.kind == "U" and raw:
        demand(numpy.frombuffer(raw, kind.byteorder + "u4").max() <= 0x10FFFF, "a text of no characters")


def numpy_array(builder: Builder, made: Made) -> Any:
    import numpy

    start, state = made.arguments, made.state
    demand(
        len(start) == 3 and name_of(start[0]) == "numpy.ndarray" and start[1:] == ((0,), b"b") and not made.items,
        "an array that numpy did not write",
    )
    demand(type(state) is tuple and len(state) == 5 and type(state[3]) is bool, "an array that numpy did not write")
    _, shape, kind, by_columns, contents = state
    demand(type(kind) is Made and kind.name == "numpy.dtype" and is_shape(shape), "an array that numpy did not write")
    kind = builder.build(kind)
    count, order = math.prod(shape), "F" if by_columns else "C"
    builder.spend(count * kind.itemsize)
    if kind.hasobject:
        demand(type(contents) is list and len(contents) == count, "an array whose shape its objects do not fill")
        return numpy.fromiter(builder.build(contents), kind, count).reshape(shape, order=order)
    demand(
        type(contents) is bytes and len(contents) == count * kind.itemsize, "an array whose shape its bytes do not fill"
    )
    check_numbers(contents, kind)
    if not count:
        return numpy.empty(shape, kind, order)
    return numpy.frombuffer(bytearray(contents), kind).reshape(shape, order=order)


def numpy_number(builder: Builder, made: Made) -> Any:
    import numpy

    kind, raw = once(made, "a number of numpy", "numpy.dtype", bytes)
    demand(type(kind) is Made, "a number of numpy that is none")
    kind = builder.build(kind)
    demand(not kind.hasobject and len(raw) == kind.itemsize, "a number of numpy that is none")
    check_numbers(raw, kind)
    return numpy.frombuffer(raw, kind)[0]


# Tensors ------------------------------------------------------------------------------------------------------------


def flat_tensor(raw: Any, kind: str) -> Any:
    """Numbers of one kind in a row, in memory of their own."""
    import torch

    if not raw:
        return torch.empty(0, dtype=getattr(torch, kind))
    if kind == "bool":
        check_numbers(raw, real("numpy.dtype")("?"))
    return torch.frombuffer(bytearray(raw), dtype=getattr(torch, kind))


def storage_name(module: str, name: str) -> Name:
    demand(module == "torch" and name in STORAGES, f"numbers of a tensor that name {module}.{name}")
    return Name(name)


def torch_storage(builder: Builder, made: Made) -> Any:
    """The numbers of a tensor as torch pickles them: five pickles, one after the other, then a count and the bytes."""
    (data,) = once(made, "a storage", bytes)
    parts, at = [], 0
    for _ in range(5):
        part, _, at = read_pickle(data, storage_name, at)
        parts.append(part)
    magic, protocol, system, reference, keys = parts
    described = reference.identity if type(reference) is Beside else None
    demand(
        fits(classes.Row(str, classes.ANY, str, str, int, None), described) and type(described[1]) is Name,
        "a storage that torch did not write",
    )
    label, name, key, place, count, _ = described
    demand(
        (magic, protocol, system, label, keys) == (TORCH_MAGIC, TORCH_PROTOCOL, TORCH_SYSTEM, "storage", [key]),
        "a storage that torch did not write",
    )
    demand(place == "cpu", f"a tensor that lies on the device {place[:20]!r}; send it from the CPU")
    kind, width = STORAGES[name.full]
    demand(
        int.from_bytes(data[at : at + 8], "little") == count >= 0 and len(data) == at + 8 + count * width,
        "a storage whose bytes are not as many as it says",
    )
    builder.spend(count * width)
    return flat_tensor(memoryview(data)[at + 8 :], kind)


def torch_tensor(builder: Builder, made: Made) -> Any:
    """A tensor over a storage, of which it may leave out numbers, but in which it shows none twice."""
    import torch

    storage, offset, shape, strides, trained, hooks = once(
        made, "a tensor", "torch.storage._load_from_bytes", int, tuple, tuple, bool, "collections.OrderedDict"
    )
    flat = builder.build(storage)
    demand(not hooks.items and hooks.state is NOTHING, "a tensor with hooks")
    demand(
        is_shape(shape) and is_shape(strides) and len(shape) == len(strides) and is_count(offset),
        "a tensor of no shape",
    )
    count = math.prod(shape)
    reach = offset + (1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if count else 0)
    demand(reach <= len(flat) and count <= len(flat), "a tensor that is larger than its storage")
    made_of = torch.empty(0, dtype=flat.dtype).set_(flat.untyped_storage(), offset, shape, strides)
    return made_of.requires_grad_(trained) if trained and flat.is_floating_point() else made_of


def safe_array(builder: Builder, made: Made) -> Any:
    """What safetensors wrote, as an array: the length of a header, the header, and the bytes of one tensor."""
    import json

    import numpy

    data = builder.fields_of(made)["bytes"]
    start = 8 + int.from_bytes(data[:8], "little")
    demand(8 < start <= min(len(data), LONGEST_HEADER), "a tensor that safetensors did not write")
    try:
        (entry,) = json.loads(data[8:start]).values()
        kind, shape, (begin, end) = entry.pop("dtype"), tuple(entry.pop("shape")), entry.pop("data_offsets")
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise refused("has a tensor that safetensors did not write") from None
    known = type(kind) is str and SAFE_KIND.fullmatch(kind) and is_shape(shape)
    demand(bool(known), "a tensor of a kind that FATE does not send")
    raw = memoryview(data)[start:]
    found = numpy.dtype("?" if kind == "BOOL" else f"{kind[0].lower()}{int(kind[1:]) // 8}")
    demand(
        begin == 0 and end == len(raw) == math.prod(shape) * found.itemsize and not entry,
        "a tensor whose shape its bytes do not fill",
    )
    check_numbers(raw, found)
    builder.spend(len(raw))
    return numpy.frombuffer(bytearray(raw), found).reshape(shape) if raw else numpy.empty(shape, found)


def safe_tensor(builder: Builder, made: Made) -> Any:
    import torch

    return torch.from_numpy(safe_array(builder, made))


# The rest -----------------------------------------------------------------------------------------------------------


def torch_size(builder: Builder, made: Made) -> Any:
    (shape,) = once(made, "a shape", tuple)
    demand(is_shape(shape), "a shape that is none")
    return real("torch.Size")(shape)


def torch_device(builder: Builder, made: Made) -> Any:
    demand(made.state is NOTHING and not made.items, "a device that is none")
    place = made.arguments
    known = len(place) in (1, 2) and type(place[0]) is str and place[0] in ("cpu", "cuda")
    demand(known and all(is_count(each) and each < 64 for each in place[1:]), "a device that is none")
    return real("torch.device")(*place)


def plain_slice(builder: Builder, made: Made) -> slice:
    bound = (int, None)
    return slice(*once(made, "a slice", bound, bound, bound))


def ordered(builder: Builder, made: Made) -> Any:
    """A dictionary; what torch notes beside a model's state is left out."""
    demand(not made.arguments and made.state is NOTHING, "an OrderedDict that is none")
    return real("collections.OrderedDict")((builder.key(key), builder.build(each)) for key, each in made.items)


def member(builder: Builder, made: Made) -> Any:
    """A member of an enumeration, by its value or by its name."""
    if made.name == classes.GETATTR:
        kind, name = once(made, "an attribute", classes.ENUMERATIONS, str)
        members: Any = real(kind.full).__members__
    else:
        (name,) = once(made, "a member of an enumeration", (str, classes.Row(str, int)))
        members = real(made.name)._value2member_map_
    demand(name in members, "what is no member of an enumeration")
    return members[name]


def pandas_index(builder: Builder, made: Made) -> Any:
    _, parts = once(made, "an index", "pandas.core.indexes.base.Index", dict)
    demand(parts.keys() == {"data", "name"} and fits(classes.ARRAY, parts["data"]), "an index that is none")
    demand(fits((*ATOMS - {bytes, type(None)}, None), parts["name"]), "an index of no name")
    data = builder.build(parts["data"])
    demand(data.ndim == 1, "an index of more than one dimension")
    return real("pandas.Index")(data, dtype=data.dtype, name=parts["name"])


def pandas_series(builder: Builder, made: Made) -> Any:
    """A column of values with an index; what pandas keeps beside them is left out."""
    demand(not made.arguments and not made.items and type(made.state) is dict, "a Series that pandas did not write")
    manager, name = made.state.get("_mgr"), made.state.get("_name")
    demand(
        name_of(manager) == "pandas.core.internals.managers.SingleBlockManager" and type(manager) is Made,
        "a Series that pandas did not write",
    )
    state = manager.state
    demand(fits(classes.Row([classes.INDEX], [classes.ARRAY], list, dict), state), "a Series that pandas did not write")
    demand(
        len(state[0]) == len(state[1]) == 1 and fits((*ATOMS - {bytes, type(None)}, None), name),
        "a Series that is none",
    )
    index, values = builder.build(state[0][0]), builder.build(state[1][0])
    demand(values.shape == (len(index),), "a Series whose index is of another length")
    return real("pandas.Series")(values, index=index, name=name)


def rust_object(builder: Builder, made: Made) -> Any:
    """An object of FATE's Rust, which reads its own state: bytes of a form that is checked here first."""
    state = made.state
    if type(state) is list:
        state = bytes(state)
    demand(type(state) is bytes and not made.arguments and not made.items, f"an object of {made.name} without a state")
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


# By their base, which comes first.
DIGITS = {b"\x0a\0\0\0": re.compile(rb"-?[0-9]+"), b"\x10\0\0\0": re.compile(rb"-?[0-9a-f]+")}


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
            at += 4
            continue
        digits, end = DIGITS.get(state[at : at + 4]), at + 12 + int.from_bytes(state[at + 4 : at + 12], "little")
        if digits is None or end > len(state) or not digits.fullmatch(state, at + 12, end):
            return False
        at = end
    return at == len(state)


BUILDERS: dict[str, Callable[[Builder, Made], Any]] = {
    "numpy.dtype": numpy_kind,
    "numpy.core.multiarray._reconstruct": numpy_array,
    "numpy.core.multiarray.scalar": numpy_number,
    "torch._utils._rebuild_tensor_v2": torch_tensor,
    "torch.storage._load_from_bytes": torch_storage,
    classes.TENSOR_BESIDE: safe_tensor,
    classes.ARRAY_BESIDE: safe_array,
    "torch.Size": torch_size,
    "torch.device": torch_device,
    "builtins.slice": plain_slice,
    "collections.OrderedDict": ordered,
    **dict.fromkeys((*classes.ENUMERATIONS, classes.GETATTR), member),
    classes.INDEX: pandas_index,
    "pandas.core.series.Series": pandas_series,
}
