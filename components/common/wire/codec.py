"""Values as bytes and back: plain builtins and numpy arrays of numbers. Bytes in this form can name no class.

What travels: None, bool, int, float, str, bytes, list, tuple, dict (keys: str, bytes, int of 64 bits), numpy arrays of
numbers, and object arrays of integers. Anything else, a subclass too, is refused where it is sent.

A value is one letter and what follows it; counts and lengths are base 128, least digit first. Every value has exactly
one form. Bytes are read by their kind (`kinds`), which is known before they are: it admits nothing but values of that kind,
and no other form of them, so that ``encode(decode(data, kind)) == data`` for whatever it accepts. What a value costs in
memory is counted before it is made: at most `MEMORY_FOR_ONE` bytes for each byte of a message, and `MEMORY_FOR_ANY` for all.

No library does it: msgpack and CBOR make room for whatever a header announces, and know no tuples, arrays or integers
above 64 bits, so that all but text and floats would be an extension of our own; safetensors knows arrays alone.
"""

import struct
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

MEMORY_FOR_ONE, MEMORY_FOR_ANY = 14, 1 << 20
MEMORY_FOR_OWN = 64
"""For each byte of a file of this party's own."""
NUMBER = 32
"""Of an integer or a float, beside the bytes of a long one."""
MAX_LEVELS = 32
"""Of lists, tuples and dicts within each other."""
KEY_BYTES = 8
"""Of an integer that is a key: Python hashes larger ones modulo 2^61 - 1, so that anybody can make many of one hash."""
Put = Callable[[bytes], Any]
MAX_COUNT = 1 << 48
WORD = 8
"""Bytes that the width of a longer integer is a multiple of."""
NONE, TRUE, FALSE, INT, FLOAT, TEXT, BYTES, LIST, TUPLE, DICT, NUMBERS, INTEGERS = b"NTFidsbltmao"
DTYPES = tuple(map(np.dtype, ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")))
DOUBLE = struct.Struct("<d")
_KEYS = (str, int, bytes)
_ENDS = "it ends too early"


class NotPlain(TypeError):
    """Something that this party wanted to send is no plain value."""


class Malformed(ValueError):
    """Bytes of another party are no value of the kind that they should be; the message says why, and quotes nothing of them."""


class Kind(Protocol):
    """What values there can be; see `kinds`."""

    @property
    def memory(self) -> int:
        """What a value costs its holder, beside what follows from its bytes and is charged by `read`."""
        ...

    def read(self, reader: "Reader") -> Any: ...


def encode(value: object) -> bytes:
    """The one form of a plain value; raises NotPlain for anything else."""
    parts: list[bytes] = []
    _write(value, parts.append, MAX_LEVELS)
    return b"".join(parts)


def decode(data: bytes, kind: Kind, start: int = 0, memory_for_one: int = MEMORY_FOR_ONE) -> Any:
    """The value of this kind of which ``data`` is the form from ``start`` on; raises Malformed. Arrays may be written to."""
    value, end = decode_first(data, kind, start, memory_for_one)
    if end != len(data):
        raise Malformed("there are bytes after its end")
    return value


def decode_first(data: bytes, kind: Kind, start: int = 0, memory_for_one: int = MEMORY_FOR_ONE) -> tuple[Any, int]:
    """(first value, where it ends), for what has a header; raises Malformed."""
    reader = Reader(data, start, memory_for_one)
    try:
        reader.charge(kind.memory)
        return kind.read(reader), reader.at
    except IndexError:  # Of ``data``, which readers index.
        raise Malformed(_ENDS) from None


def _write(value: Any, put: Put, levels: int) -> None:
    kind = type(value)
    if value is None or kind is bool:
        put({None: b"N", True: b"T", False: b"F"}[value])
    elif kind is int:
        data = value.to_bytes(width_of(value), "big", signed=True)
        put(b"i" + _count(len(data)) + data)
    elif kind is float:
        put(b"d" + DOUBLE.pack(value))
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
        levels = _deeper(levels)
        for item in value:
            _write(item, put, levels)
    elif kind is dict:
        put(b"m" + _count(len(value)))
        levels = _deeper(levels)
        for key, item in value.items():
            if type(key) not in _KEYS or type(key) is int and width_of(key) > KEY_BYTES:
                raise NotPlain(
                    f"A {type(key).__name__} like this is no key of a dict that can be sent to another party."
                )
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
        width = max(map(width_of, items), default=1)
        put(b"o" + shape + _count(width))
        put(b"".join(item.to_bytes(width, "big", signed=True) for item in items))
        return
    dtype = value.dtype.newbyteorder("<")
    if dtype not in DTYPES:
        raise NotPlain(f"An array of {value.dtype} cannot be sent to another party.")
    put(b"a" + bytes([DTYPES.index(dtype)]) + shape)
    put(value.astype(dtype, copy=False).tobytes())


def width_of(value: int) -> int:
    """Bytes of the shortest two's complement, of more than eight the next multiple of eight; 1 for 0.

    So the size of a message does not tell how many leading bytes of a share or a ciphertext are zero.
    """
    shortest = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return shortest if shortest <= WORD else -(-shortest // WORD) * WORD


def _count(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _deeper(levels: int) -> int:
    if levels == 0:
        raise NotPlain(f"it has more than {MAX_LEVELS} levels of lists, tuples and dicts")
    return levels - 1


class Reader:
    """Where a value is read in ``data``: from ``at`` on, while ``left`` bytes of memory may still be taken.

    Beyond the end of ``data`` it raises IndexError.
    """

    __slots__ = ("at", "data", "left", "values")

    def __init__(self, data: bytes, at: int = 0, memory_for_one: int = MEMORY_FOR_ONE) -> None:
        self.data, self.at = data, at
        self.left = MEMORY_FOR_ANY + memory_for_one * (len(data) - at)
        self.values = 0

    def charge(self, memory: int) -> None:
        """Count memory that is about to be taken; raises Malformed where it is too much for so few bytes."""
        self.left -= memory
        if self.left < 0:
            raise Malformed("what it holds takes too much memory for so few bytes")

    def letter(self, allowed: bytes) -> int:
        """The next letter, one of ``allowed``."""
        letter = self.data[self.at]
        if letter not in allowed:
            raise Malformed("wrong type of value for this message")
        self.at += 1
        return letter

    def count(self, at_most: int) -> int:
        """A count, length or width."""
        number, shift = 0, 0
        while True:
            digit = self.data[self.at]
            self.at += 1
            number |= (digit & 0x7F) << shift
            if digit < 0x80:
                break
            shift += 7
            if shift > 48:
                raise Malformed("a count in it is too large")
        if digit == 0 and shift:
            raise Malformed("a count in it is not in its shortest form")
        if number > at_most:
            raise Malformed(f"something in it is longer or more than {at_most}")
        return number

    def items(self, at_most: int, memory: int) -> int:
        """A count of values that take so much memory each."""
        count = self.count(at_most)
        self.charge(count * memory)
        return count

    def skip(self, count: int) -> int:
        """Pass over so many bytes; where they begin."""
        start = self.at
        if count > len(self.data) - start:
            raise Malformed(_ENDS)
        self.at += count
        return start

    def take(self, count: int) -> bytes:
        return self.data[self.skip(count) : self.at]

    def integers(self, count: int, size: int) -> list[int]:
        """So many integers of at most ``size`` bytes each, for which the holder of them is charged."""
        found = self._integers(count, size)
        if len(found) < count:
            self.letter(b"i")
        return found

    def leading_integers(self, count: int, size: int) -> list[int]:
        """At most so many integers, up to whatever is none."""
        found = self._integers(count, size)
        self.charge(NUMBER * len(found))
        return found

    def _integers(self, count: int, size: int) -> list[int]:
        found: list[int] = []
        data, start, end, at = self.data, self.at, len(self.data), self.at
        append, from_bytes = found.append, int.from_bytes
        for _ in range(count):
            if data[at] != INT:
                break
            width = data[at + 1]
            at += 2
            if width >= 0x80:
                self.at = at - 1
                width, at = self.count(size), self.at
            stop = at + width
            if stop > end or width > size:
                raise Malformed(_ENDS if stop > end else f"an integer in it has more than {size} bytes")
            value = from_bytes(data[at:stop], "big", signed=True)
            shortest = (value if value >= 0 else ~value).bit_length() // 8 + 1
            if width != (shortest if shortest <= WORD else -(-shortest // WORD) * WORD):
                raise Malformed("an integer in it is not in the form that it is sent in")
            append(value)
            at = stop
        self.at = at
        self.charge(at - start)
        return found

    def strings(self, count: int, size: int) -> list[bytes]:
        """So many byte strings of at most ``size`` bytes each."""
        found: list[bytes] = []
        data, start, end, at = self.data, self.at, len(self.data), self.at
        for _ in range(count):
            if data[at] != BYTES:
                raise Malformed("wrong type of value for this message")
            length = data[at + 1]
            at += 2
            if length >= 0x80:
                self.at = at - 1
                length, at = self.count(size), self.at
            stop = at + length
            if stop > end or length > size:
                raise Malformed(_ENDS if stop > end else f"something in it is longer or more than {size}")
            found.append(data[at:stop])
            at = stop
        self.at = at
        self.charge(at - start)
        return found

    def shape(self, dims: int, at_most: int) -> tuple[tuple[int, ...], int]:
        """(lengths, their product) of an array."""
        given = self.data[self.at]
        self.at += 1
        if given > dims:
            raise Malformed(f"an array in it has more than {dims} axes")
        shape, count, room = tuple(self.count(at_most) for _ in range(given)), 1, 1
        for length in shape:
            count, room = count * length, room * max(length, 1)
            if room > at_most:
                raise Malformed(f"something in it is longer or more than {at_most}")
        return shape, count
