"""Every name that a message of ours can have, and what comes under it; anything else is refused before it is looked at.

A kind is a type, None, ``[kind]`` (a list of such), ``{key: kind}`` (a dict with these keys), or `Rows`. Several kinds
under one name are different components' messages. Shapes, lengths and values are checked by whoever reads a message.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True)
class Rows:
    """A table whose values are of this kind."""

    values: object


KINDS = {
    # Before a task, and between its steps.
    "asks": (bool,),
    "preflight": ({"facts": (dict, None), "problem": (str, None), "plugin": str},),
    "verdict": ({"problem": (str, None), "terms": (dict, None)},),
    # dp_hetero_lr, align, share_lr.
    "public_key": (dict, bytes),
    "terms": (dict,),
    "mean_square_bits": (int,),
    "training_state": (str,),
    "training_rows": (Rows(tuple),),
    "held_out_rows": (Rows(tuple),),
    "encrypted_rows": (Rows(bytes),),
    "masked_products": ([[bytes]], [bytes]),
    "masks": ([dict],),
    "products": ([dict],),
    "step": ({"hidden_weights": [int], "hidden_losses": [[int]], "loss_shares": [int], "training_state": (str, None)},),
    "leading_bits": ([int],),
    "weight_shares": ([int],),
    "scores": (Rows(np.ndarray),),
    "consent": (bool,),
    "all_consent": (bool,),
    "encrypted_scores": (Rows(bytes),),
    "decrypted": ([bytes],),
    "weight_change": (float,),
    "loss_part": (bytes,),
    "queries": (Rows(bytes),),
    "answers": (Rows(bytes),),
    "records": (Rows(bytes), int),
    "double_tags": (Rows(int),),
    "masked": (Rows(bytes), [bytes]),
    "label_excess": (int,),
    "encrypted_columns": (Rows(bytes),),
    "masked_scores": (Rows([bytes]),),
    "score_shares": (Rows(np.ndarray),),
    "label_shares": (Rows(np.ndarray),),
    # dp_binning.
    "label_sums": ([int],),
    # dp_scorecard.
    "contingency_tables": ({"own": np.ndarray, "cross": dict},),
    "points": ({"weights": [float], "points": [int], "base": int, "slope": float, "intercept": float},),
    # dp_homo_nn, shuffler.
    "start_weights": (np.ndarray,),
    "round": (dict,),
    "ready": (bool,),
    "present": ([str],),
    "message": (bytes,),
    "contributions": (np.ndarray, None),
    "scales": ([float],),
    "outcome": (dict,),
    "shuffled": (bytes,),
    "server_key": (bytes,),
    "messages": (bytes,),
    "statistics": (list, dict),
}


def kinds_of(name: str) -> tuple | None:
    """The kinds under a name, None where it is no name of ours; ``messages_7`` is one of the messages."""
    return KINDS.get(name, KINDS.get(_NUMBERED.sub("", name)))


def is_one_of(value: Any, kinds: tuple) -> bool:
    """Whether a plain value is of one of these kinds."""
    return any(_is(value, kind) for kind in kinds)


def rows_of(kinds: tuple) -> tuple:
    """Kinds that the values of a table can have, none where no table is among ``kinds``."""
    return tuple(kind.values for kind in kinds if isinstance(kind, Rows))


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return is_one_of(value, kind)
    if isinstance(kind, list):
        return type(value) is list and all(_is(item, kind[0]) for item in value)
    if isinstance(kind, dict):
        return type(value) is dict and value.keys() == kind.keys() and all(_is(value[key], kind[key]) for key in kind)
    if kind is None:
        return value is None
    return type(value) is kind


# Values as bytes and back: plain builtins and numpy arrays of numbers. Bytes in this form can name no class.
#
# What travels: None, bool, int of any size, float, str, bytes, list, tuple, dict (keys: str, int, bytes), numpy arrays of
# numbers, and object arrays of integers. Anything else, a subclass too, is refused where it is sent.
#
# A value is one letter and what follows it; counts and lengths are base 128, least digit first. Every value has exactly
# one form, and `decode` takes no other, so that ``encode(decode(data)) == data`` for whatever it accepts. Memory is
# reserved for what is there and never for what is announced: at most `BYTES_FOR_ONE` for each byte of a message.
#
# No library does it: msgpack and CBOR make room for whatever a header announces, and know no tuples, arrays or integers
# above 64 bits, so that all but text and floats would be an extension of our own; safetensors knows arrays alone.

BYTES_FOR_ONE = 64
MAX_LEVELS = 32
"""Of lists, tuples and dicts within each other."""
Put = Callable[[bytes], Any]
_MAX_COUNT = 1 << 48
_NONE, _TRUE, _FALSE, _INT, _FLOAT, _TEXT, _BYTES, _LIST, _TUPLE, _DICT, _NUMBERS, _INTEGERS = b"NTFidsbltmao"
_CONSTANTS = {_NONE: None, _TRUE: True, _FALSE: False}
_DTYPES = tuple(map(np.dtype, ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")))
_KEYS = (str, int, bytes)
_DOUBLE = struct.Struct("<d")


class NotPlain(TypeError):
    """Something that this party wanted to send is no plain value."""


class Malformed(ValueError):
    """Bytes of another party are no plain value; the message says why, and quotes nothing of them."""


def encode(value: Any) -> bytes:
    """The one form of a plain value; raises NotPlain for anything else."""
    parts: list[bytes] = []
    _write(value, parts.append, MAX_LEVELS)
    return b"".join(parts)


def decode(data: bytes) -> Any:
    """The value of which ``data`` is the form; raises Malformed. Arrays are new and may be written to."""
    reader = _Reader(data)
    value = reader.value(MAX_LEVELS)
    if reader.at != len(data):
        raise Malformed("there are bytes after its end")
    return value


def decode_two(data: bytes) -> tuple[Any, bytes]:
    """(first value, bytes that follow it), for what has a header; raises Malformed."""
    reader = _Reader(data)
    return reader.value(MAX_LEVELS), data[reader.at :]


def _write(value: Any, put: Put, levels: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        put({None: b"N", True: b"T", False: b"F"}[value])
    elif kind is int:
        data = value.to_bytes(_width(value), "big", signed=True)
        put(b"i" + _count(len(data)) + data)
    elif kind is float:
        put(b"d" + _DOUBLE.pack(value))
    elif kind is str:
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError:
            raise NotPlain("A text with half of a surrogate pair cannot be sent to another party.") from None
        put(b"s" + _count(len(data)) + data)
    elif kind is bytes:
        put(b"b" + _count(len(value)))
        put(value)
    elif kind in (list, tuple):
        put((b"l" if kind is list else b"t") + _count(len(value)))
        levels = _deeper(levels, NotPlain)
        for item in value:
            _write(item, put, levels)
    elif kind is dict:
        put(b"m" + _count(len(value)))
        levels = _deeper(levels, NotPlain)
        for key, item in value.items():
            if type(key) not in _KEYS:
                raise NotPlain(f"A {type(key).__name__} is no key of a dict that can be sent to another party.")
            _write(key, put, levels)
            _write(item, put, levels)
    elif kind is np.ndarray:
        _write_array(value, put)
    else:
        raise NotPlain(f"A {kind.__name__} is no plain value: it cannot be sent to another party.")


def _write_array(value: np.ndarray, put: Put) -> None:
    shape = bytes([value.ndim]) + b"".join(map(_count, value.shape))
    if value.dtype == object:
        items = value.ravel().tolist()
        if any(type(item) is not int for item in items):
            raise NotPlain("An array of objects that are not all integers cannot be sent to another party.")
        width = max(map(_width, items), default=1)
        put(b"o" + shape + _count(width))
        put(b"".join(item.to_bytes(width, "big", signed=True) for item in items))
        return
    dtype = value.dtype.newbyteorder("<")
    if dtype not in _DTYPES:
        raise NotPlain(f"An array of {value.dtype} cannot be sent to another party.")
    put(b"a" + bytes([_DTYPES.index(dtype)]) + shape)
    put(value.astype(dtype, copy=False).tobytes())


def _width(value: int) -> int:
    """Bytes of the shortest two's complement; 1 for 0."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


def _count(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _deeper(levels: int, error: type[Exception]) -> int:
    if levels == 0:
        raise error(f"it has more than {MAX_LEVELS} levels of lists, tuples and dicts")
    return levels - 1


class _Reader:
    """Reads values of ``data`` from ``at`` on."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def value(self, levels: int) -> Any:
        letter = self._byte()
        if letter in _CONSTANTS:
            return _CONSTANTS[letter]
        if letter == _INT:
            return self._int()
        if letter == _FLOAT:
            return _DOUBLE.unpack(self._take(_DOUBLE.size))[0]
        if letter == _BYTES:
            return self._take(self._count())
        if letter == _TEXT:
            try:
                return self._take(self._count()).decode("utf-8")
            except UnicodeDecodeError:
                raise Malformed("a text in it is not UTF-8") from None
        if letter in (_LIST, _TUPLE):
            count, levels = self._count(least_bytes=1), _deeper(levels, Malformed)
            items = [self.value(levels) for _ in range(count)]
            return items if letter == _LIST else tuple(items)
        if letter == _DICT:
            return self._dict(levels)
        if letter == _NUMBERS:
            return self._numbers()
        if letter == _INTEGERS:
            return self._integers()
        raise Malformed("something in it is no plain value")

    def _int(self) -> int:
        data = self._take(self._count())
        value = int.from_bytes(data, "big", signed=True)
        if len(data) != _width(value):
            raise Malformed("an integer in it is not in its shortest form")
        return value

    def _dict(self, levels: int) -> dict:
        count, levels, found = self._count(least_bytes=2), _deeper(levels, Malformed), {}
        for _ in range(count):
            key = self.value(levels)
            if type(key) not in _KEYS or key in found:
                raise Malformed("a dict in it has a key twice, or one that is no text, integer or bytes")
            found[key] = self.value(levels)
        return found

    def _numbers(self) -> np.ndarray:
        kind = self._byte()
        if kind >= len(_DTYPES):
            raise Malformed("an array in it has numbers of no known kind")
        dtype, shape, count = _DTYPES[kind], *self._shape()
        data = self._take(count * dtype.itemsize)
        if kind == 0 and any(data.translate(None, b"\x00\x01")):
            raise Malformed("an array in it has truth values beside 0 and 1")
        return self._shaped(np.frombuffer(data, dtype).copy(), shape)

    def _integers(self) -> np.ndarray:
        shape, count = self._shape()
        width = self._count(fits=False)
        data = self._take(count * width)
        items = [int.from_bytes(data[at : at + width], "big", signed=True) for at in range(0, len(data), width or 1)]
        if width != max(map(_width, items), default=1):
            raise Malformed("an array in it has integers that are not in their shortest form")
        array = np.empty(count, dtype=object)
        array[:] = items
        return self._shaped(array, shape)

    def _shape(self) -> tuple[tuple[int, ...], int]:
        shape, count = tuple(self._count(fits=False) for _ in range(self._byte())), 1
        for length in shape:
            count *= length
        return shape, count

    def _shaped(self, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        try:
            return array.reshape(shape)
        except ValueError:
            raise Malformed("an array in it has a shape that no array can have") from None

    def _byte(self) -> int:
        return self._take(1)[0]

    def _count(self, least_bytes: int = 1, fits: bool = True) -> int:
        """A count; where it ``fits``, of things of at least so many bytes each, which must still be there."""
        number, shift = 0, 0
        while True:
            digit = self._byte()
            number |= (digit & 0x7F) << shift
            if digit < 0x80:
                break
            shift += 7
            if number >= _MAX_COUNT or shift > 48:
                raise Malformed("a count in it is too large")
        if digit == 0 and shift:
            raise Malformed("a count in it is not in its shortest form")
        if fits and number * least_bytes > len(self._data) - self.at:
            raise Malformed("it ends too early")
        return number

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self._data):
            raise Malformed("it ends too early")
        taken, self.at = self._data[self.at : end], end
        return taken
