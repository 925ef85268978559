"""Arrays and tensors from a checked header and their bytes: numpy's, torch's and what pandas makes of them.

A peer's bytes are numbers here, in memory of this party's own, never addresses, objects or what another library would parse:
kinds come from a table, and a shape is one that its bytes fill exactly.
"""

from __future__ import annotations

import math
import re

if __package__:
    from . import fence_classes as classes
    from .fence_classes import demand, fits, name_of, once, real
    from .fence_reader import NOTHING, Beside, Made, Name, read, refused, shown
else:
    import fence_classes as classes  # type: ignore[no-redef]
    from fence_classes import demand, fits, name_of, once, real  # type: ignore[no-redef]
    from fence_reader import NOTHING, Beside, Made, Name, read, refused, shown  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from .fence_builder import Builder, Makers

MAX_DIMENSIONS, LONGEST, LONGEST_HEADER = 32, 1 << 48, 4096
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


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LONGEST


def is_shape(value: Any) -> bool:
    return type(value) is tuple and len(value) <= MAX_DIMENSIONS and all(map(is_count, value))


def numpy_kind(builder: Builder, made: Made) -> Any:
    """A kind of numbers, of texts or of objects, as numpy writes those without fields; its state must be numpy's own."""
    import numpy

    demand(fits(classes.Row(str, bool, bool), made.arguments), "a numpy.dtype that numpy did not write")
    text, state = made.arguments[0], made.state
    plain = NUMPY_KIND.fullmatch(text) and made.arguments[1:] == (False, True)
    demand(bool(plain), "an array of a kind beside numbers, texts and objects")
    order = state[1] if type(state) is tuple and len(state) == 8 else None
    demand(order in ("<", ">", "|"), "a numpy.dtype with a state that is not numpy's own")
    kind = numpy.dtype(text if order == "|" else order + text)
    demand(state == kind.__reduce__()[2], "a numpy.dtype with a state that is not numpy's own")
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
        len(start) == 3 and name_of(start[0]) == "numpy.ndarray" and start[1:] == ((0,), b"b"),
        "an array that numpy did not write",
    )
    demand(type(state) is tuple and len(state) == 5 and type(state[3]) is bool, "an array that numpy did not write")
    _, shape, kind, by_columns, contents = state
    demand(type(kind) is Made and kind.name == "numpy.dtype" and is_shape(shape), "an array that numpy did not write")
    kind = builder.build(kind)
    count = math.prod(shape)
    order: Literal["F", "C"] = "F" if by_columns else "C"
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
    demand(type(kind) is Made, "a number of numpy that is not one")
    kind = builder.build(kind)
    demand(not kind.hasobject and len(raw) == kind.itemsize, "a number of numpy that is not one")
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
    demand(module == "torch" and name in STORAGES, f"numbers of a tensor that name {shown(f'{module}.{name}')}")
    return Name(name)


def torch_storage(builder: Builder, made: Made) -> Any:
    """The numbers of a tensor as torch pickles them: five pickles, one after the other, then a count and the bytes."""
    (data,) = once(made, "a storage", bytes)
    parts, at = [], 0
    for _ in range(5):
        part, _, at = read(data, storage_name, at)
        parts.append(part)
    magic, protocol, system, reference, keys = parts
    described: Any = reference.identity if type(reference) is Beside else None
    demand(
        fits(classes.Row(str, classes.ANY, str, str, int, None), described) and type(described[1]) is Name,
        "a storage that torch did not write",
    )
    label, name, key, place, count, _ = described
    demand(
        (magic, protocol, system, label, keys) == (TORCH_MAGIC, TORCH_PROTOCOL, TORCH_SYSTEM, "storage", [key]),
        "a storage that torch did not write",
    )
    demand(place == "cpu", f"a tensor on the device {place[:20]!r}; send it from the CPU")
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


def torch_size(builder: Builder, made: Made) -> Any:
    (shape,) = once(made, "a shape", tuple)
    demand(is_shape(shape), "a shape that is not one")
    return real("torch.Size")(shape)


def torch_device(builder: Builder, made: Made) -> Any:
    place = made.arguments
    known = len(place) in (1, 2) and place[0] in ("cpu", "cuda") and all(map(is_count, place[1:]))
    demand(known and max(place[1:], default=0) < 64, "a device that is not one")
    return real("torch.device")(*place)


# Pandas -------------------------------------------------------------------------------------------------------------


def pandas_index(builder: Builder, made: Made) -> Any:
    _, parts = once(made, "an index", "pandas.core.indexes.base.Index", dict)
    demand(parts.keys() == {"data", "name"} and fits(classes.ARRAY, parts["data"]), "an index that is not one")
    demand(fits(classes.LABEL, parts["name"]), "an index of no name")
    data = builder.build(parts["data"])
    demand(data.ndim == 1, "an index of more than one dimension")
    return real("pandas.Index")(data, dtype=data.dtype, name=parts["name"])


def pandas_series(builder: Builder, made: Made) -> Any:
    """A column of values with an index; what pandas keeps beside them is left out."""
    fields = made.state if type(made.state) is dict else {}
    manager, name = fields.get("_mgr"), fields.get("_name")
    state: Any = manager.state if type(manager) is Made else None
    parts = fits(classes.Row([classes.INDEX], [classes.ARRAY], list, dict), state)
    demand(parts and len(state[0]) == len(state[1]) == 1, "a Series that pandas did not write")
    demand(fits(classes.LABEL, name), "a Series that pandas did not write")
    index, values = builder.build(state[0][0]), builder.build(state[1][0])
    demand(values.shape == (len(index),), "a Series whose index is of another length")
    return real("pandas.Series")(values, index=index, name=name)


NUMBERS: Makers = {
    "numpy.dtype": numpy_kind,
    "numpy.core.multiarray._reconstruct": numpy_array,
    "numpy.core.multiarray.scalar": numpy_number,
    "torch._utils._rebuild_tensor_v2": torch_tensor,
    "torch.storage._load_from_bytes": torch_storage,
    classes.TENSOR_BESIDE: safe_tensor,
    classes.ARRAY_BESIDE: safe_array,
    "torch.Size": torch_size,
    "torch.device": torch_device,
    classes.INDEX: pandas_index,
    "pandas.core.series.Series": pandas_series,
}
