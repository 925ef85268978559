"""Reads a pickle without running it: what comes out is plain data and inert notes of what the pickle asks for.

Python's own unpickler calls what a pickle names. This one follows the instructions that Python's pickler writes in protocols
2 to 5 for the values that FATE sends, and notes each call as a `Made`: a name and its arguments. `fence_builder` makes values
of those that it knows. An instruction that no honest value needs is refused, and so are keys of dictionaries and sets that
could be chosen to be slow, for numbers hash alike everywhere.
"""

from __future__ import annotations

import pickle
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What needs no looking at again.
ATOMS = frozenset((str, bytes, int, float, bool, type(None)))
TEXTS = frozenset((str, bytes))
# Keys of a dictionary or set in which not all are texts. Python's hash of a number is public, so that a peer can choose
# numbers that take a time in proportion to the square of how many they are: some seconds for this many.
MAX_NUMBERS = 1 << 16
MAX_KEY = 1 << 63
MAX_NESTED, HIGHEST_PROTOCOL = 100, 5
NOTHING: Any = object()


class FencedOff(pickle.UnpicklingError):
    """A pickle names, or does, what is not let in."""


def refused(what: str) -> FencedOff:
    return FencedOff(f"FATE-DP's fence refuses a peer's message or a table's value, which {what}.")


def shown(name: str) -> str:
    """A peer's name as a log may have it: short, and in one line."""
    return name[:200] if name.replace(".", "").isidentifier() else ascii(name[:200])


class Name:
    """A name in a pickle that is let in: of a class, a function or a constant."""

    __slots__ = ("full",)

    def __init__(self, full: str) -> None:
        self.full = full


class Made:
    """What a pickle wants made: the name that it calls, with which arguments, and what it fills the result with."""

    __slots__ = ("name", "arguments", "state", "items")

    def __init__(self, name: str, arguments: tuple) -> None:
        self.name, self.arguments, self.state = name, arguments, NOTHING
        self.items: list = []


class Beside:
    """What a pickle refers to that came beside it: a table, a tensor, the numbers of a tensor."""

    __slots__ = ("identity",)

    def __init__(self, identity: Any) -> None:
        self.identity = identity


def read(data: bytes, admit: Callable[[str, str], Name], position: int = 0) -> tuple[Any, bool, int]:
    """The value of the pickle that begins at a position, whether it is to be built, and where the pickle ends;
    FencedOff for what `admit` refuses, and for what Python's pickler does not write."""
    try:
        reading = Reading(data, admit, position)
        reading.run()
        (value,) = reading.stack
    except FencedOff:
        raise
    except (IndexError, ValueError, TypeError, struct.error, MemoryError) as error:
        raise refused(f"is no sound pickle ({type(error).__name__})") from error
    return value, reading.containers > MAX_NESTED or reading.to_build, reading.position


int32, uint32, uint64, float64 = (struct.Struct(layout).unpack_from for layout in ("<i", "<I", "<Q", ">d"))


class Reading:
    def __init__(self, data: bytes, admit: Callable[[str, str], Name], position: int) -> None:
        self.data, self.admit, self.position = data, admit, position
        self.stack: list = []
        self.memo: list = []
        self.marks: list[int] = []
        # No value is nested deeper than there are containers in it.
        self.containers, self.to_build = 0, False

    def run(self) -> None:
        """Up to the end of the pickle. What values consist of most is read here, the rest by `INSTRUCTIONS`."""
        data, stack, memo, position = self.data, self.stack, self.memo, self.position
        push, pop, remember, marks, others = stack.append, stack.pop, memo.append, self.marks, INSTRUCTIONS
        if data[position : position + 3] == b"\x80\x04\x95":
            # As nearly all begin: with their protocol and a frame.
            position += 11
        while True:
            code = data[position]
            if code == 0x8C:  # SHORT_BINUNICODE
                end = position + 2 + data[position + 1]
                if data[end] == 0x94:
                    if data[end + 1] == 0x8C and data[end + 2] == data[position + 1]:
                        position = many_texts(data, position, stack, memo)
                        continue
                    push(str(data[position + 2 : end], "utf-8", "surrogatepass"))
                    remember(stack[-1])
                    position = end + 1
                else:
                    push(str(data[position + 2 : end], "utf-8", "surrogatepass"))
                    position = end
            elif code == 0x94:  # MEMOIZE
                remember(stack[-1])
                position += 1
            elif code == 0x4B:  # BININT1
                if data[position + 2] == 0x4B and data[position + 4] == 0x4B:
                    position = many(data, position, stack, BYTES)
                else:
                    push(data[position + 1])
                    position += 2
            elif code == 0x4D:  # BININT2
                if data[position + 3] == 0x4D and data[position + 6] == 0x4D:
                    position = many(data, position, stack, SHORTS)
                else:
                    push(data[position + 1] | data[position + 2] << 8)
                    position += 3
            elif code == 0x47:  # BINFLOAT
                if data[position + 9] == 0x47 and data[position + 18] == 0x47:
                    position = many(data, position, stack, FLOATS)
                else:
                    push(*float64(data, position + 1))
                    position += 9
            elif code == 0x86:  # TUPLE2
                second = pop()
                stack[-1] = stack[-1], second
                self.containers += 1
                position += 1
            elif code == 0x28:  # MARK
                marks.append(len(stack))
                position += 1
            elif code == 0x2E:  # STOP
                self.position = position + 1
                return
            else:
                position = others[code](self, position + 1)

    def since_mark(self) -> list:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def put(self, value: Any, at: int) -> int:
        """A value onto the stack; the next instruction stands at a place."""
        self.stack.append(value)
        self.containers += type(value) not in ATOMS
        return at

    def counted(self, convert: Callable[[bytes], Any], start: int, length: int) -> int:
        return self.put(convert(self.data[start : start + length]), start + length)


# Rows of values of one kind and width come in one step, as in the states of FATE's Rust objects and in identifiers: codes,
# how wide a value is with its code, its layout.
BYTES, SHORTS, FLOATS = (b"K", 2, ">xB"), (b"M", 3, "<xH"), (b"G", 9, ">xd")
SHORT_ROW, LONG_ROW = 32, 1000


def row_of(data: bytes, position: int, width: int, codes: tuple[tuple[int, bytes], ...]) -> bytes:
    """The values from a position on that have the same codes at the same places, up to 1000."""
    for most in (SHORT_ROW, LONG_ROW):
        window = data[position : position + most * width]
        count = len(window) // width
        for place, code in codes:
            found = window[place::width]
            count = min(count, len(found) - len(found.lstrip(code)))
        if count < most:
            break
    return window[: count * width]


def many(data: bytes, position: int, stack: list, kind: tuple[bytes, int, str]) -> int:
    code, width, layout = kind
    row = row_of(data, position, width, ((0, code),))
    stack.extend(row[1::2] if width == 2 else [each for (each,) in struct.iter_unpack(layout, row)])
    return position + len(row)


def many_texts(data: bytes, position: int, stack: list, memo: list) -> int:
    """A row of texts of one length, each of which is remembered."""
    length = data[position + 1]
    row = row_of(data, position, length + 3, ((0, b"\x8c"), (1, bytes((length,))), (length + 2, b"\x94")))
    texts = [each.decode("utf-8", "surrogatepass") for (each,) in struct.iter_unpack(f"2x{length}sx", row)]
    stack.extend(texts)
    memo.extend(texts)
    return position + len(row)


# Keys and members ---------------------------------------------------------------------------------------------------


def key_fits(key: Any, inside: bool = False) -> bool:
    """Whether a dictionary or a set may have this key; what is yet to be made is looked at again then."""
    kind = type(key)
    if kind is int:
        return -MAX_KEY <= key < MAX_KEY
    if kind is tuple:
        return not inside and all(key_fits(each, True) for each in key)
    return kind in ATOMS or (kind is Made and not inside)


def check_keys(keys: list, size: int) -> None:
    """Refuse keys of which all others could be made to wait."""
    if TEXTS.issuperset(map(type, keys)):
        return
    if size > MAX_NUMBERS:
        raise refused(f"has a dictionary or set of more than {MAX_NUMBERS} keys that are not all texts")
    if not all(map(key_fits, keys)):
        raise refused("has a key that is neither a text, a number of 64 bits, nor a tuple of these")


def add_items(reading: Reading, items: list) -> None:
    """Keys and values, one after the other, into a dictionary or into what is to become one."""
    target, keys, values = reading.stack[-1], items[::2], items[1::2]
    if type(target) is dict:
        check_keys(keys, len(target) + len(keys))
        target.update(zip(keys, values, strict=True))
    elif type(target) is not Made:
        raise refused("adds an item to what is not a dictionary")
    else:
        check_keys(keys, len(target.items) + len(keys))
        target.items.extend(zip(keys, values, strict=True))


# Instructions: each takes the place behind its code and gives that of the next one -----------------------------------


def protocol(reading: Reading, at: int) -> int:
    if reading.data[at] > HIGHEST_PROTOCOL:
        raise ValueError
    return at + 1


def tuple_of(count: int) -> Callable[[Reading, int], int]:
    def instruction(reading: Reading, at: int) -> int:
        items = tuple(reading.stack[-count:])
        del reading.stack[-count:]
        return reading.put(items, at)

    return instruction


def marked(use: Callable[[Reading, list], object]) -> Callable[[Reading, int], int]:
    def instruction(reading: Reading, at: int) -> int:
        use(reading, reading.since_mark())
        return at

    return instruction


def freeze(reading: Reading, members: list) -> None:
    check_keys(members, len(members))
    reading.put(frozenset(members), 0)


def append(reading: Reading, at: int) -> int:
    value = reading.stack.pop()
    extend(reading, [value])
    return at


def extend(reading: Reading, items: list) -> None:
    if type(reading.stack[-1]) is not list:
        raise refused("appends to what is not a list")
    reading.stack[-1].extend(items)


def set_item(reading: Reading, at: int) -> int:
    items = reading.stack[-2:]
    del reading.stack[-2:]
    add_items(reading, items)
    return at


def add_members(reading: Reading, members: list) -> None:
    found = reading.stack[-1]
    if type(found) is not set:
        raise refused("adds a member to what is not a set")
    check_keys(members, len(found) + len(members))
    found.update(members)


def remember(reading: Reading, number: int, at: int) -> int:
    """Remember under a number, which is always the next: one of a peer's choice could claim all memory."""
    if number != len(reading.memo):
        raise refused("remembers under a number that is not the next")
    reading.memo.append(reading.stack[-1])
    return at


def recall(reading: Reading, number: int, at: int) -> int:
    found = reading.memo[number]
    # A container could be put into itself.
    reading.to_build |= type(found) not in ATOMS
    return reading.put(found, at)


def named(reading: Reading, at: int) -> int:
    name, module = reading.stack.pop(), reading.stack.pop()
    return look_up(reading, module, name, at)


def named_by_lines(reading: Reading, at: int) -> int:
    end = reading.data.index(b"\n", reading.data.index(b"\n", at) + 1)
    module, name = str(reading.data[at:end], "utf-8").split("\n")
    return look_up(reading, module, name, end + 1)


def look_up(reading: Reading, module: Any, name: Any, at: int) -> int:
    if type(module) is not str or type(name) is not str:
        raise TypeError
    reading.stack.append(reading.admit(module, name))
    reading.to_build = True
    return at


def call(reading: Reading, at: int) -> int:
    arguments, name = reading.stack.pop(), reading.stack.pop()
    if type(name) is not Name or type(arguments) is not tuple:
        raise refused("calls what is not a name")
    return reading.put(Made(name.full, arguments), at)


def fill(reading: Reading, at: int) -> int:
    state, made = reading.stack.pop(), reading.stack[-1]
    if type(made) is not Made:
        raise refused("changes what it did not make")
    if made.state is not NOTHING:
        raise refused("fills a value twice")
    made.state = state
    return at


def refer(reading: Reading, at: int) -> int:
    reading.to_build = True
    return reading.put(Beside(reading.stack.pop()), at)


def refuse(code: int) -> Callable[[Reading, int], int]:
    def instruction(reading: Reading, at: int) -> int:
        raise refused(f"has the instruction {bytes([code])!r}, which no value of FATE needs")

    return instruction


def text(data: bytes) -> str:
    return str(data, "utf-8", "surrogatepass")


def little(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


INSTRUCTIONS = [refuse(code) for code in range(256)]
for _code, _instruction in {
    pickle.PROTO: protocol,
    pickle.FRAME: lambda reading, at: at + 8,
    pickle.NONE: lambda reading, at: reading.put(None, at),
    pickle.NEWTRUE: lambda reading, at: reading.put(True, at),
    pickle.NEWFALSE: lambda reading, at: reading.put(False, at),
    pickle.BININT: lambda reading, at: reading.put(int32(reading.data, at)[0], at + 4),
    pickle.LONG1: lambda reading, at: reading.counted(little, at + 1, reading.data[at]),
    pickle.LONG4: lambda reading, at: reading.counted(little, at + 4, *uint32(reading.data, at)),
    pickle.BINUNICODE: lambda reading, at: reading.counted(text, at + 4, *uint32(reading.data, at)),
    pickle.BINUNICODE8: lambda reading, at: reading.counted(text, at + 8, *uint64(reading.data, at)),
    pickle.SHORT_BINBYTES: lambda reading, at: reading.counted(bytes, at + 1, reading.data[at]),
    pickle.BINBYTES: lambda reading, at: reading.counted(bytes, at + 4, *uint32(reading.data, at)),
    pickle.BINBYTES8: lambda reading, at: reading.counted(bytes, at + 8, *uint64(reading.data, at)),
    pickle.EMPTY_TUPLE: lambda reading, at: reading.put((), at),
    pickle.TUPLE1: tuple_of(1),
    pickle.TUPLE3: tuple_of(3),
    pickle.TUPLE: marked(lambda reading, items: reading.put(tuple(items), 0)),
    pickle.EMPTY_LIST: lambda reading, at: reading.put([], at),
    pickle.APPEND: append,
    pickle.APPENDS: marked(extend),
    pickle.EMPTY_DICT: lambda reading, at: reading.put({}, at),
    pickle.SETITEM: set_item,
    pickle.SETITEMS: marked(add_items),
    pickle.EMPTY_SET: lambda reading, at: reading.put(set(), at),
    pickle.ADDITEMS: marked(add_members),
    pickle.FROZENSET: marked(freeze),
    pickle.BINPUT: lambda reading, at: remember(reading, reading.data[at], at + 1),
    pickle.LONG_BINPUT: lambda reading, at: remember(reading, uint32(reading.data, at)[0], at + 4),
    pickle.BINGET: lambda reading, at: recall(reading, reading.data[at], at + 1),
    pickle.LONG_BINGET: lambda reading, at: recall(reading, uint32(reading.data, at)[0], at + 4),
    pickle.GLOBAL: named_by_lines,
    pickle.STACK_GLOBAL: named,
    pickle.REDUCE: call,
    pickle.NEWOBJ: call,
    pickle.BUILD: fill,
    pickle.BINPERSID: refer,
}.items():
    INSTRUCTIONS[_code[0]] = _instruction
