"""Values as bytes and back: plain builtins and numpy arrays of numbers. Bytes in this form can name no class.

What travels: None, bool, int of any size, float, str, bytes, list, tuple, dict (keys: str, int, bytes), numpy arrays of
numbers, and object arrays of integers. Anything else, a subclass too, is refused where it is sent.

A value is one letter and what follows it; counts and lengths are base 128, least digit first. Every value has exactly
one form, and `decode` takes no other, so that ``encode(decode(data)) == data`` for whatever it accepts. Memory is
reserved for what is there and never for what is announced: at most `BYTES_FOR_ONE` for each byte of a message.

No library does it: msgpack and CBOR make room for whatever a header announces, and know no tuples, arrays or integers
above 64 bits, so that all but text and floats would be an extension of our own; safetensors knows arrays alone.
"""
import struct

import numpy as np

BYTES_FOR_ONE = 64
MOST_LEVELS = 32
"""Of lists, tuples and dicts within each other."""
_MOST_COUNT = 1 << 48
_NONE, _TRUE, _FALSE, _INT, _FLOAT, _TEXT, _BYTES, _LIST, _TUPLE, _DICT, _NUMBERS, _INTEGERS = b"NTFidsbltmao"
_DTYPES = tuple(map(np.dtype, ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")))
_KEYS = (str, int, bytes)
_DOUBLE = struct.Struct("<d")


class NotPlain(TypeError):
    """Something that this party wanted to send is no plain value."""


class Malformed(ValueError):
    """Bytes of another party are no plain value; the message says why, and quotes nothing of them."""


def encode(value) -> bytes:
    """The one form of a plain value; raises NotPlain for anything else."""
    parts = []
    _write(value, parts.append, MOST_LEVELS)
    return b"".join(parts)


def decode(data: bytes):
    """The value of which ``data`` is the form; raises Malformed. Arrays are new and may be written to."""
    reader = _Reader(data)
    value = reader.value(MOST_LEVELS)
    if reader.at != len(data):
        raise Malformed("there are bytes after its end")
    return value


def decode_two(data: bytes):
    """(first value, bytes that follow it), for what has a header; raises Malformed."""
    reader = _Reader(data)
    return reader.value(MOST_LEVELS), data[reader.at :]


def _write(value, put, levels) -> None:
    writer = _WRITERS.get(type(value))
    if writer is None:
        raise NotPlain(f"A {type(value).__name__} is no plain value: it cannot be sent to another party.")
    writer(value, put, levels)


def _write_none(value, put, levels):
    put(b"N")


def _write_bool(value, put, levels):
    put(b"T" if value else b"F")


def _write_int(value, put, levels):
    data = value.to_bytes(_width(value), "big", signed=True)
    put(b"i" + _count(len(data)))
    put(data)


def _write_float(value, put, levels):
    put(b"d" + _DOUBLE.pack(value))


def _write_text(value, put, levels):
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError:
        raise NotPlain("A text with half of a surrogate pair cannot be sent to another party.") from None
    put(b"s" + _count(len(data)))
    put(data)


def _write_bytes(value, put, levels):
    put(b"b" + _count(len(value)))
    put(value)


def _write_items(value, put, levels):
    put((b"l" if type(value) is list else b"t") + _count(len(value)))
    levels = _deeper(levels, NotPlain)
    for item in value:
        _write(item, put, levels)


def _write_dict(value, put, levels):
    put(b"m" + _count(len(value)))
    levels = _deeper(levels, NotPlain)
    for key, item in value.items():
        if type(key) not in _KEYS:
            raise NotPlain(f"A {type(key).__name__} is no key of a dict that can be sent to another party.")
        _write(key, put, levels)
        _write(item, put, levels)


def _write_array(value, put, levels):
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


_WRITERS = {
    type(None): _write_none, bool: _write_bool, int: _write_int, float: _write_float, str: _write_text,
    bytes: _write_bytes, list: _write_items, tuple: _write_items, dict: _write_dict, np.ndarray: _write_array,
}  # fmt: skip


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


def _deeper(levels: int, error) -> int:
    if levels == 0:
        raise error(f"it has more than {MOST_LEVELS} levels of lists, tuples and dicts")
    return levels - 1


class _Reader:
    """Reads values of ``data`` from ``at`` on."""

    def __init__(self, data: bytes):
        self._data, self.at = data, 0

    def value(self, levels: int):
        reader = _READERS.get(self._byte())
        if reader is None:
            raise Malformed("something in it is no plain value")
        return reader(self, levels)

    def read_none(self, levels):
        return None

    def read_true(self, levels):
        return True

    def read_false(self, levels):
        return False

    def read_int(self, levels):
        data = self._take(self._count())
        value = int.from_bytes(data, "big", signed=True)
        if len(data) != _width(value):
            raise Malformed("an integer in it is not in its shortest form")
        return value

    def read_float(self, levels):
        return _DOUBLE.unpack(self._take(_DOUBLE.size))[0]

    def read_text(self, levels):
        try:
            return self._take(self._count()).decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("a text in it is not UTF-8") from None

    def read_bytes(self, levels):
        return self._take(self._count())

    def read_list(self, levels):
        count, levels = self._count(least_bytes=1), _deeper(levels, Malformed)
        return [self.value(levels) for _ in range(count)]

    def read_tuple(self, levels):
        return tuple(self.read_list(levels))

    def read_dict(self, levels):
        count, levels, found = self._count(least_bytes=2), _deeper(levels, Malformed), {}
        for _ in range(count):
            key = self.value(levels)
            if type(key) not in _KEYS or key in found:
                raise Malformed("a dict in it has a key twice, or one that is no text, integer or bytes")
            found[key] = self.value(levels)
        return found

    def read_numbers(self, levels):
        kind = self._byte()
        if kind >= len(_DTYPES):
            raise Malformed("an array in it has numbers of no known kind")
        dtype, shape, count = _DTYPES[kind], *self._shape()
        data = self._take(count * dtype.itemsize)
        if kind == 0 and any(data.translate(None, b"\x00\x01")):
            raise Malformed("an array in it has truth values beside 0 and 1")
        return self._shaped(np.frombuffer(data, dtype).copy(), shape)

    def read_integers(self, levels):
        shape, count = self._shape()
        width = self._count(fits=False)
        data = self._take(count * width)
        items = [int.from_bytes(data[at : at + width], "big", signed=True) for at in range(0, len(data), width or 1)]
        if width != max(map(_width, items), default=1):
            raise Malformed("an array in it has integers that are not in their shortest form")
        array = np.empty(count, dtype=object)
        array[:] = items
        return self._shaped(array, shape)

    def _shape(self):
        shape, count = tuple(self._count(fits=False) for _ in range(self._byte())), 1
        for length in shape:
            count *= length
        return shape, count

    def _shaped(self, array, shape):
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
            if number >= _MOST_COUNT or shift > 48:
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


_READERS = {
    _NONE: _Reader.read_none, _TRUE: _Reader.read_true, _FALSE: _Reader.read_false, _INT: _Reader.read_int,
    _FLOAT: _Reader.read_float, _TEXT: _Reader.read_text, _BYTES: _Reader.read_bytes, _LIST: _Reader.read_list,
    _TUPLE: _Reader.read_tuple, _DICT: _Reader.read_dict, _NUMBERS: _Reader.read_numbers, _INTEGERS: _Reader.read_integers,
}  # fmt: skip
