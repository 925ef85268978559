"""Kinds of values: what a message of a name may hold, how much of it, and how that is read.

A component declares its messages in its own folder, as ``{name: kind}``; a name that ends with ``_*`` stands for all with a
number in that place. A kind is read without a look at what it does not admit: each refuses the first letter, count or
length that it does not know. `Rows` is a table, which has its own way (`tables`).

Limits are finite and generous, so that no honest message meets them. Bytes of memory are what CPython 3.11 takes, rounded
up, growth of lists and dicts included; a list is charged for all its values at once, before the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from . import codec
from .codec import Malformed, Reader

SLOT, NUMBER, STRING, CHARACTERS = 9, codec.NUMBER, 48, 64
SEQUENCE, MAPPING, ENTRY, ARRAY = 104, 240, 120, 256
_OTHER_THAN_ASCII, _TALL = 24, 4
"""Further bytes of a text that is not all ASCII, and bytes of a character in it."""
_OPENING = 8
"""Letter and length of a value, at most."""
_NAMES = tuple(dtype.name for dtype in codec.DTYPES)
_CONSTANTS = {codec.NONE: None, codec.TRUE: True, codec.FALSE: False}


@dataclass(frozen=True)
class Flag:
    """True or false."""

    letters, memory, size = b"TF", SLOT, 1

    def read(self, reader: Reader) -> bool:
        return reader.letter(self.letters) == codec.TRUE


@dataclass(frozen=True)
class Int:
    """An integer of so many bits in two's complement, a multiple of 8."""

    bits: int = 64
    letters, memory = b"i", SLOT + NUMBER

    @property
    def size(self) -> int:
        return _OPENING + self.bits // 8

    def read(self, reader: Reader) -> int:
        return reader.integers(1, self.bits // 8)[0]

    def read_many(self, reader: Reader, count: int) -> list[int]:
        return reader.integers(count, self.bits // 8)


@dataclass(frozen=True)
class Float:
    """A double."""

    letters, memory, size = b"d", SLOT + NUMBER, 1 + codec.DOUBLE.size

    def read(self, reader: Reader) -> float:
        reader.letter(self.letters)
        value: float = codec.DOUBLE.unpack(reader.take(codec.DOUBLE.size))[0]
        return value


@dataclass(frozen=True)
class Text:
    """A text of at most so many bytes of UTF-8."""

    at_most: int = 1000
    letters, memory = b"s", SLOT + CHARACTERS

    @property
    def size(self) -> int:
        return _OPENING + self.at_most

    def read(self, reader: Reader) -> str:
        reader.letter(self.letters)
        data = reader.take(reader.count(self.at_most))
        reader.charge(len(data) if data.isascii() else _OTHER_THAN_ASCII + _TALL * len(data))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("a text in it is not UTF-8") from None


@dataclass(frozen=True)
class Bytes:
    """At most so many bytes."""

    at_most: int
    letters, memory = b"b", SLOT + STRING

    @property
    def size(self) -> int:
        return _OPENING + self.at_most

    def read(self, reader: Reader) -> bytes:
        return reader.strings(1, self.at_most)[0]

    def read_many(self, reader: Reader, count: int) -> list[bytes]:
        return reader.strings(count, self.at_most)


@dataclass(frozen=True)
class Array:
    """A numpy array of one of these kinds of numbers, with at most so many axes and numbers."""

    dtypes: tuple[str, ...]
    dims: int = 1
    at_most: int = 1 << 28
    letters, memory = b"a", SLOT + ARRAY

    @property
    def size(self) -> int:
        return _OPENING * (1 + self.dims) + self.at_most * max(np.dtype(name).itemsize for name in self.dtypes)

    def read(self, reader: Reader) -> np.ndarray:
        reader.letter(self.letters)
        number = reader.data[reader.at]
        reader.at += 1
        if number >= len(_NAMES) or _NAMES[number] not in self.dtypes:
            raise Malformed("an array in it has numbers of another kind")
        dtype, (shape, count) = codec.DTYPES[number], reader.shape(self.dims, self.at_most)
        reader.charge(count * dtype.itemsize)
        first = reader.skip(count * dtype.itemsize)
        if number == 0 and count and np.frombuffer(reader.data, np.uint8, count, first).max() > 1:
            raise Malformed("an array in it has truth values beside 0 and 1")
        return np.frombuffer(reader.data, dtype, count, first).reshape(shape).copy()


@dataclass(frozen=True)
class Integers:
    """An object array of integers of so many bits in two's complement, with at most so many axes and integers."""

    bits: int
    dims: int = 1
    at_most: int = 1 << 24
    letters, memory = b"o", SLOT + ARRAY

    @property
    def size(self) -> int:
        return _OPENING * (2 + self.dims) + self.at_most * self.bits // 8

    def read(self, reader: Reader) -> np.ndarray:
        reader.letter(self.letters)
        shape, count = reader.shape(self.dims, self.at_most)
        width = reader.count(self.bits // 8)
        data = reader.take(count * width)
        # The integers are in a list, too, before they are in the array.
        reader.charge(count * (2 * SLOT + NUMBER + width))
        items = [int.from_bytes(data[at : at + width], "big", signed=True) for at in range(0, len(data), width or 1)]
        if width != max(map(codec.width_of, items), default=1):
            raise Malformed("an array in it has integers that are not in their shortest form")
        array = np.empty(count, dtype=object)
        array[:] = items
        return array.reshape(shape)


@dataclass(frozen=True)
class List:
    """A list of at most so many values of one kind."""

    of: AnyKind
    at_most: int
    letters, memory = b"l", SLOT + SEQUENCE

    @property
    def size(self) -> int:
        return _OPENING + self.at_most * self.of.size

    def read(self, reader: Reader) -> list:
        reader.letter(self.letters)
        count = reader.items(self.at_most, self.of.memory)
        if isinstance(self.of, (Int, Bytes)):
            return self.of.read_many(reader, count)
        read = self.of.read
        return [read(reader) for _ in range(count)]


@dataclass(frozen=True)
class Tuple:
    """A tuple of values of these kinds."""

    of: tuple[AnyKind, ...]
    letters = b"t"

    @property
    def memory(self) -> int:
        return SLOT + SEQUENCE + sum(kind.memory for kind in self.of)

    @property
    def size(self) -> int:
        return _OPENING + sum(kind.size for kind in self.of)

    def read(self, reader: Reader) -> tuple:
        reader.letter(self.letters)
        if reader.count(len(self.of)) != len(self.of):
            raise Malformed("a tuple in it has another length")
        return tuple(kind.read(reader) for kind in self.of)


_KEY = Text(100)


@dataclass(frozen=True)
class Record:
    """A dict with these keys, and perhaps those of ``optional``, each with its kind."""

    fields: Mapping[str, AnyKind]
    optional: Mapping[str, AnyKind] = field(default_factory=dict)
    letters = b"m"

    @cached_property
    def _known(self) -> dict[str, AnyKind]:
        return {**self.fields, **self.optional}

    @cached_property
    def memory(self) -> int:
        return SLOT + MAPPING + sum(ENTRY + CHARACTERS + len(key) + kind.memory for key, kind in self._known.items())

    @cached_property
    def size(self) -> int:
        return _OPENING + sum(_OPENING + len(key) + kind.size for key, kind in self._known.items())

    def read(self, reader: Reader) -> dict:
        reader.letter(self.letters)
        known, found = self._known, {}
        for _ in range(reader.count(len(known))):
            key = _KEY.read(reader)
            if key not in known or key in found:
                raise Malformed("a dict in it has a key twice, or one that no message of this name has")
            found[key] = known[key].read(reader)
        if not self.fields.keys() <= found.keys():
            raise Malformed("a dict in it lacks a key")
        return found


@dataclass(frozen=True)
class Map:
    """A dict of at most so many keys of one kind, an `Int` of 64 bits or a `Text`, to values of one kind."""

    key: Int | Text
    of: AnyKind
    at_most: int
    letters, memory = b"m", SLOT + MAPPING

    @property
    def size(self) -> int:
        return _OPENING + self.at_most * (self.key.size + self.of.size)

    def read(self, reader: Reader) -> dict:
        reader.letter(self.letters)
        found: dict = {}
        for _ in range(reader.items(self.at_most, ENTRY + self.key.memory + self.of.memory)):
            key = self.key.read(reader)
            if key in found:
                raise Malformed("a dict in it has a key twice")
            found[key] = self.of.read(reader)
        return found


@dataclass(frozen=True)
class OneOf:
    """A value of one of these kinds, which its first letter tells apart; None is a kind, too."""

    kinds: tuple[AnyKind | None, ...]

    def __post_init__(self) -> None:
        if len(set(self.letters)) != len(self.letters):
            raise ValueError("Two of these kinds begin with the same letter, so that nothing tells them apart.")

    @cached_property
    def letters(self) -> bytes:
        return b"".join(b"N" if kind is None else kind.letters for kind in self.kinds)

    @cached_property
    def memory(self) -> int:
        return max(SLOT if kind is None else kind.memory for kind in self.kinds)

    @cached_property
    def size(self) -> int:
        return max(1 if kind is None else kind.size for kind in self.kinds)

    def read(self, reader: Reader) -> Any:
        letter = reader.letter(self.letters)
        if letter == codec.NONE:
            return None
        reader.at -= 1
        return next(kind for kind in self.kinds if kind is not None and letter in kind.letters).read(reader)


def optional(kind: AnyKind) -> OneOf:
    """None, or a value of this kind."""
    return OneOf((None, kind))


@dataclass(frozen=True)
class Plain:
    """What a JSON document can hold, and tuples and bytes: facts and terms, whose readers look at every part.

    Attributes:
        levels: of lists, tuples and dicts within each other.
        values: of all of it.
        size: bytes of a message.
        bits: of an integer; of a key 64 at most.
        letters: with which it may begin; numpy arrays are among its values where ``ao`` are among these.
    """

    levels: int = 12
    values: int = 1 << 20
    size: int = 1 << 24
    bits: int = 1 << 15
    letters: bytes = b"NTFidsbltm"
    memory = SLOT

    def read(self, reader: Reader) -> Any:
        reader.letter(self.letters)
        reader.at, reader.values = reader.at - 1, self.values
        return self._value(reader, self.levels)

    @cached_property
    def _leaves(self) -> dict[int, AnyKind]:
        arrays = (
            Array(_NAMES, codec.MAX_LEVELS, codec.MAX_COUNT),
            Integers(self.bits, codec.MAX_LEVELS, codec.MAX_COUNT),
        )
        kinds = (Int(self.bits), Float(), Text(self.size), Bytes(self.size), *(arrays if b"ao" in self.letters else ()))
        return {kind.letters[0]: kind for kind in kinds}

    def _value(self, reader: Reader, levels: int) -> Any:
        letter = reader.data[reader.at]
        if letter in _CONSTANTS:
            reader.at += 1
            return _CONSTANTS[letter]
        if letter in b"ltm":
            reader.at += 1
            return self._several(reader, letter, levels)
        kind = self._leaves.get(letter)
        if kind is None:
            raise Malformed("something in it is no plain value")
        # Whoever holds the value was charged for the place that it takes.
        reader.charge(kind.memory - SLOT)
        return kind.read(reader)

    def _several(self, reader: Reader, letter: int, levels: int) -> Any:
        count = reader.count(reader.values)
        reader.values -= count
        if levels == 0:
            raise Malformed(f"it has more than {self.levels} levels of lists, tuples and dicts")
        if letter == codec.DICT:
            return self._dict(reader, count, levels - 1)
        reader.charge(SEQUENCE + 2 * SLOT * count if letter == codec.TUPLE else SEQUENCE + SLOT * count)
        items: list = []
        while len(items) < count:
            if reader.data[reader.at] == codec.INT:
                items += reader.leading_integers(count - len(items), self.bits // 8)
            else:
                items.append(self._value(reader, levels - 1))
        return items if letter == codec.LIST else tuple(items)

    def _dict(self, reader: Reader, count: int, levels: int) -> dict:
        reader.charge(MAPPING + (ENTRY + SLOT) * count)
        found: dict = {}
        for _ in range(count):
            letter = reader.data[reader.at]
            if letter == codec.INT:
                key: Any = reader.leading_integers(1, codec.KEY_BYTES)[0]
            elif letter in b"sb":
                key = self._value(reader, levels)
            else:
                raise Malformed("a dict in it has a key that is not text, an integer or bytes")
            if key in found:
                raise Malformed("a dict in it has a key twice")
            found[key] = self._value(reader, levels)
        return found


AnyKind = Flag | Int | Float | Text | Bytes | Array | Integers | List | Tuple | Record | Map | OneOf | Plain
BLOCK_NUMBER = Int(64)


@dataclass(frozen=True)
class Rows:
    """A table whose values are of this kind, and so are its keys, numbers of blocks where nothing else is said."""

    values: AnyKind
    keys: AnyKind = BLOCK_NUMBER


Messages = Mapping[str, AnyKind | Rows]
"""{name: kind of the messages of that name}."""
DOCUMENT = Plain(letters=b"m")
"""A dict of such."""
OWN_FILE = Plain(codec.MAX_LEVELS, codec.MAX_COUNT, codec.MAX_COUNT, 1 << 20, b"NTFidsbltmao")
"""Of a file that this party wrote, whose size is its own affair."""


def own_value(data: bytes) -> Any:
    """The value in a file of this party's own; raises `codec.Malformed`."""
    return codec.decode(data, OWN_FILE, memory_for_one=codec.MEMORY_FOR_OWN)


def own_values(data: bytes) -> tuple[Any, bytes]:
    """(first value, bytes of those that follow), for a file with a heading; raises `codec.Malformed`."""
    value, end = codec.decode_first(data, OWN_FILE, memory_for_one=codec.MEMORY_FOR_OWN)
    return value, data[end:]


def kind_of(messages: Messages, name: str) -> AnyKind | Rows | None:
    """The kind under a name, None where no message has it."""
    stem, _, number = name.rpartition("_")
    numbered = number.isascii() and number.isdecimal() and len(number) <= 6
    return messages.get(name) or (messages.get(f"{stem}_*") if numbered else None)
