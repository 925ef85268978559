"""The codec of our messages: a value comes back as it was, and of other bytes comes nothing that its kind does not admit."""

import contextlib
import math
import os
import pickle
import pickletools
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fate_dp.components.common.wire import kinds as of_kinds
from fate_dp.components.common.wire.codec import DTYPES, MAX_LEVELS, Malformed, NotPlain, decode, encode
from fate_dp.components.common.wire.kinds import (
    DOCUMENT,
    OWN_FILE,
    Array,
    Bytes,
    Flag,
    Float,
    Int,
    Integers,
    List,
    Map,
    OneOf,
    Plain,
    Record,
    Text,
    Tuple,
    kind_of,
    optional,
    own_value,
    own_values,
)

NAMES = tuple(dtype.name for dtype in DTYPES)
INTEGERS = st.integers() | st.integers(min_value=-(1 << 5000), max_value=1 << 5000)
NUMBERS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
INTEGER_ARRAYS = arrays.arrays(object, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=INTEGERS)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats() | st.text() | st.binary()
KEYS = st.text() | st.integers(-(1 << 63), (1 << 63) - 1) | st.binary()
VALUES = st.recursive(
    SCALARS | NUMBERS | INTEGER_ARRAYS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)
LEAVES = st.sampled_from(
    [
        Flag(),
        Int(8),
        Int(64),
        Int(1 << 12),
        Float(),
        Text(12),
        Bytes(12),
        Array(NAMES, dims=3, at_most=64),
        Array(("bool",)),
        Integers(1 << 12, dims=2, at_most=64),
        Plain(),
        DOCUMENT,
    ]
)


def optional_of(kind):
    return kind if b"N"[0] in kind.letters else optional(kind)


def joined(kinds):
    """One of the kinds that different letters begin."""
    found = []
    for kind in kinds:
        if not {letter for each in found for letter in each.letters} & set(kind.letters):
            found.append(kind)
    return OneOf(tuple(found))


KINDS = st.recursive(
    LEAVES,
    lambda inner: (
        inner.map(lambda kind: List(kind, 5))
        | st.lists(inner, max_size=3).map(lambda kinds: Tuple(tuple(kinds)))
        | st.tuples(st.dictionaries(st.sampled_from("abc"), inner), st.dictionaries(st.sampled_from("xyz"), inner)).map(
            lambda fields: Record(*fields)
        )
        | st.tuples(st.sampled_from([Int(64), Text(4)]), inner).map(lambda of: Map(*of, 5))
        | inner.map(optional_of)
        | st.lists(inner, min_size=1, max_size=3).map(joined)
    ),
    max_leaves=5,
)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=5,
)


def values_of(kind):
    """Values that a kind admits."""
    if isinstance(kind, Int):
        return st.integers(-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1)
    if isinstance(kind, Text):
        return st.text(max_size=kind.at_most // 4)
    if isinstance(kind, Bytes):
        return st.binary(max_size=kind.at_most)
    if isinstance(kind, (Array, Integers)):
        shapes = arrays.array_shapes(min_dims=0, max_dims=kind.dims, min_side=0, max_side=4)
        if isinstance(kind, Array):
            return st.sampled_from(kind.dtypes).flatmap(lambda name: arrays.arrays(np.dtype(name), shapes))
        return arrays.arrays(object, shapes, elements=values_of(Int(kind.bits)))
    if isinstance(kind, List):
        return st.lists(values_of(kind.of), max_size=kind.at_most)
    if isinstance(kind, Tuple):
        return st.tuples(*map(values_of, kind.of))
    if isinstance(kind, Record):
        fixed = {key: values_of(of) for key, of in kind.fields.items()}
        return st.fixed_dictionaries(fixed, optional={key: values_of(of) for key, of in kind.optional.items()})
    if isinstance(kind, Map):
        return st.dictionaries(values_of(kind.key), values_of(kind.of), max_size=kind.at_most)
    if isinstance(kind, OneOf):
        return st.one_of(*(st.none() if each is None else values_of(each) for each in kind.kinds))
    if isinstance(kind, Plain):
        return JSON if kind == Plain() else st.dictionaries(KEYS, JSON)
    return st.booleans() if isinstance(kind, Flag) else st.floats()


OF_A_KIND = KINDS.flatmap(lambda kind: st.tuples(st.just(kind), values_of(kind)))


def same(first, second) -> bool:
    """Equal in types and values, signs of zero and kinds of arrays included; every NaN is like any other."""
    if type(first) is not type(second):
        return False
    if isinstance(first, float):
        return (
            math.isnan(first)
            and math.isnan(second)
            or (first, math.copysign(1, first)) == (second, math.copysign(1, second))
        )
    if isinstance(first, np.ndarray):
        alike = (first.dtype, first.shape) == (second.dtype, second.shape)
        return (
            alike
            and (first.dtype == object or first.tobytes() == second.tobytes())
            and all(map(same, first.ravel().tolist(), second.ravel().tolist()))
        )
    if isinstance(first, dict):
        return same(list(first.items()), list(second.items()))
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def only_plain(value) -> bool:
    if type(value) is np.ndarray:
        return value.dtype in DTYPES or all(type(item) is int for item in value.ravel().tolist())
    if type(value) is dict:
        return all(type(key) in (str, int, bytes) and only_plain(item) for key, item in value.items())
    plain = (type(None), bool, int, float, str, bytes, list, tuple)
    return type(value) in plain and (type(value) not in (list, tuple) or all(map(only_plain, value)))


@given(OF_A_KIND)
def test_a_value_of_a_kind_comes_back_as_it_was_and_fits_its_size(of_a_kind):
    kind, value = of_a_kind
    message = encode(value)
    assert same(decode(message, kind), value) and len(message) <= kind.size


@given(VALUES)
@example(np.arange(3.0))
@example(np.array([1 << 70], dtype=object))
def test_a_file_of_ones_own_gives_every_plain_value_back(value):
    assert same(own_value(encode(value)), value)


@settings(max_examples=300)
@given(OF_A_KIND, st.data())
def test_of_a_message_that_was_tampered_with_comes_a_value_of_that_form_or_nothing(of_a_kind, data):
    kind, value = of_a_kind
    message = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(message) - 1))
        message[at : at + data.draw(st.integers(0, 1))] = data.draw(
            st.binary(min_size=1, max_size=1) | st.sampled_from([bytes([letter]) for letter in b"NTFidsbltmao"])
        )
    with contextlib.suppress(Malformed):
        found = decode(bytes(message), kind)
        assert only_plain(found) and encode(found) == bytes(message)
        assert same(decode(bytes(message), kind), found)


@given(KINDS, st.binary(max_size=200))
def test_of_any_bytes_too(kind, data):
    with contextlib.suppress(Malformed):
        value = decode(data, kind)
        assert only_plain(value) and encode(value) == data


@given(OF_A_KIND, KINDS)
def test_a_value_is_read_as_another_kind_only_where_that_admits_it(of_a_kind, other):
    _, value = of_a_kind
    with contextlib.suppress(Malformed):
        assert same(decode(encode(value), other), value)


@given(OF_A_KIND, st.data())
def test_a_truncated_message_is_refused(of_a_kind, data):
    kind, value = of_a_kind
    message = encode(value)
    with pytest.raises(Malformed):
        decode(message[: data.draw(st.integers(0, len(message) - 1))], kind)


@given(OF_A_KIND, st.binary(min_size=1, max_size=9))
def test_bytes_after_the_end_are_refused_or_handed_on(of_a_kind, rest):
    kind, value = of_a_kind
    with pytest.raises(Malformed):
        decode(encode(value) + rest, kind)
    assert same(decode(rest + encode(value), kind, start=len(rest)), value)
    first, following = own_values(encode(value) + rest)
    assert same(first, value) and following == rest


@given(VALUES, st.sampled_from(range(pickle.HIGHEST_PROTOCOL + 1)))
def test_no_pickle_is_a_message(value, protocol):
    with pytest.raises(Malformed):
        own_value(pickle.dumps(value, protocol))


class Marked:
    """What would run a command where a pickle of it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("where", [bytes, lambda data: b"b" + bytes([len(data)]) + data, lambda data: b"t\x01" + data])
def test_a_pickle_runs_nothing_and_no_class_comes_to_be(where, tmp_path):
    hostile = pickle.dumps(Marked(tmp_path / "ran"))
    assert any(code.name == "REDUCE" for code, _, _ in pickletools.genops(hostile))
    with contextlib.suppress(Malformed):
        assert own_value(where(hostile)) == hostile
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "value",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(6, dtype=">i4"),
        np.asfortranarray(np.ones((2, 3))),
        np.array(7),
        np.zeros((0, 5)),
        np.array([[1 << 300, -1], [0, -(1 << 299)]], dtype=object),
    ],
)
def test_an_array_comes_back_whatever_its_order_in_memory_and_can_be_changed(value):
    found = decode(encode(value), OneOf((Array(NAMES, dims=2), Integers(1 << 10, dims=2))))
    assert found.shape == value.shape and found.dtype == value.dtype.newbyteorder("=") and np.array_equal(found, value)
    found[...] = 0


class Words(str):
    """Looks like a text, and is more."""


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Words("a"),
        np.float64(1.0),
        np.int64(1),
        True + 0j,
        {1.0: 2},
        {(1,): 2},
        {None: 1},
        {True: 1},
        {1 << 63: 1},
        {1, 2},
        bytearray(b"a"),
        range(3),
        print,
        np.array(["a"]),
        np.array([1 + 2j]),
        np.array([1, "a"], dtype=object),
        np.array([True], dtype=object),
        np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
        np.array(["2026"], "M8[Y]"),
        "\ud800",
        [[object()]],
        np.ma.array([1]),
        np.longdouble(1) + np.zeros(2, dtype=np.longdouble),
    ],
)
def test_nothing_else_is_sent(value):
    with pytest.raises(NotPlain):
        encode(value)


def test_levels_are_bounded_on_both_sides():
    nested, deeper = [], []
    for _ in range(MAX_LEVELS - 1):
        nested = [nested]
    assert decode(encode(nested), OWN_FILE) == nested
    deeper.append(deeper)
    with pytest.raises(NotPlain):
        encode(deeper)
    with pytest.raises(Malformed, match="levels"):
        decode(b"l\x01" * 100_000 + b"N", OWN_FILE)


# The smallest value that a limit refuses, beside the largest that it admits.
LIMITS = [
    (Int(64), (1 << 63) - 1, 1 << 63),
    (Int(64), -(1 << 63), -(1 << 63) - 1),
    (List(Int(16), 9), [1 << 14], [1 << 15]),
    (Text(3), "äb", "äö"),
    (Bytes(3), b"abc", b"abcd"),
    (List(Bytes(200), 2), [bytes(200)], [bytes(201)]),
    (List(Flag(), 2), [True] * 2, [True] * 3),
    (Map(Int(64), Flag(), 2), {1: True, 2: True}, {1: True, 2: True, 3: True}),
    (Map(Int(64), Flag(), 2), {1: True}, {"a": True}),
    (Map(Text(2), Flag(), 2), {"ab": True}, {"abc": True}),
    (Array(("int64",)), np.arange(3), np.arange(3.0)),
    (Array(("int64",)), np.arange(3), np.zeros((1, 3), dtype=int)),
    (Array(("int64",), at_most=3), np.arange(3), np.arange(4)),
    (Integers(16), np.array([1], dtype=object), np.array([1 << 15], dtype=object)),
    (Integers(16, at_most=3), np.array([1] * 3, dtype=object), np.array([1] * 4, dtype=object)),
    (Tuple((Int(8), Int(8))), (1, 2), (1, 2, 3)),
    (Record({"a": Flag()}, {"b": Flag()}), {"a": True, "b": True}, {"b": True}),
    (Record({"a": Flag()}), {"a": True}, {"a": True, "b": True}),
    (optional(Flag()), None, "a"),
    (Plain(levels=1), [1], [[1]]),
    (Plain(values=2), [1, 2], [1, 2, 3]),
    (Plain(values=3), [[1], 2], [[1], 2, [3]]),
    (Plain(bits=16), [1 << 14], [1 << 15]),
    (Plain(size=3), "abc", "abcd"),
    (DOCUMENT, {"a": [None]}, [None]),
    (DOCUMENT, {"a": 1}, {"a": np.arange(2)}),
    (DOCUMENT, {(1 << 63) - 1: 1}, {"a": {"b": True, "c": np.zeros(1)}}),
]


@pytest.mark.parametrize("kind, largest, beyond", LIMITS, ids=range(len(LIMITS)))
def test_a_kind_admits_what_is_within_its_limits_alone(kind, largest, beyond):
    assert same(decode(encode(largest), kind), largest)
    with pytest.raises(Malformed):
        decode(encode(beyond), kind)


def count(number) -> bytes:
    return encode(bytes(number))[1:-number]


COLLIDING = b"m\x02" + b"".join(b"i\x09" + ((1 << 61) - 1 << at).to_bytes(9, "big") + b"N" for at in (8, 9))


def test_keys_are_integers_of_64_bits_of_which_few_share_a_hash():
    """Python's hash of an integer is the rest modulo 2^61 - 1, so that larger keys of one hash are free to make."""
    for kind in (DOCUMENT, OWN_FILE, Map(Int(64), optional(Flag()), 9)):
        with pytest.raises(Malformed, match="has more than 8 bytes"):
            decode(COLLIDING, kind)
    assert len({hash(key) for key in range(-(1 << 63), 1 << 63, (1 << 61) - 1)}) >= 2


N = 1 << 15
HUNGRY = {
    "empty arrays": (List(Array(NAMES), 1 << 20), b"l" + count(N) + b"a\x00\x01\x00" * N),
    "empty arrays of integers": (List(Integers(64), 1 << 20), b"l" + count(N) + b"o\x01\x00\x01" * N),
    "integers of one byte": (Integers(64), b"o\x01" + count(8 * N) + b"\x01" + b"\x80" * 8 * N),
    "integers of two bytes": (Integers(64), b"o\x01" + count(4 * N) + b"\x02" + b"\x7f\x7f" * 4 * N),
    "empty lists": (List(List(Flag(), 1), 1 << 20), b"l" + count(N) + b"l\x00" * N),
    "lists of one": (List(List(Float(), 1), 1 << 20), b"l" + count(N) + (b"l\x01d" + bytes(8)) * N),
    "empty dicts": (List(Map(Int(64), Flag(), 1), 1 << 20), b"l" + count(N) + b"m\x00" * N),
    "records": (List(Record({"a": Flag()}), 1 << 20), b"l" + count(N) + b"m\x01s\x01aT" * N),
    "tuples": (List(Tuple((Flag(),)), 1 << 20), b"l" + count(N) + b"t\x01T" * N),
    "numbers": (Map(Int(64), Flag(), 1 << 20), encode(dict.fromkeys(range(1000, 1000 + N), True))),
    "texts": (List(Text(2), 1 << 20), b"l" + count(2 * N) + b"s\x02\xc4\x80" * 2 * N),
    "bytes": (List(Bytes(2), 1 << 20), b"l" + count(2 * N) + b"b\x02ab" * 2 * N),
    "an array": (Array(("uint8",)), encode(np.ones(4 * N, dtype=np.uint8))),
    "small integers": (List(Int(64), 1 << 20), b"l" + count(4 * N) + b"i\x02\x7f\x7f" * 4 * N),
}
INSIDE = [
    b"N",
    b"l\x00",
    b"t\x00",
    b"m\x00",
    b"m\x01s\x01aN",
    b"i\x02\x7f\x7f",
    b"s\x02\xc4\x80",
    b"b\x02ab",
    b"l\x01N",
]
HUNGRY |= {f"{item} in a document": (DOCUMENT, b"m\x01s\x00l" + count(N) + item * N) for item in INSIDE}
HUNGRY["a dict in a document"] = DOCUMENT, b"m\x01s\x00" + encode(dict.fromkeys(range(1000, 1000 + N), None))


@pytest.fixture
def small_allowance(monkeypatch):
    """So that small messages tell what large ones would take."""
    monkeypatch.setattr(of_kinds.codec, "MEMORY_FOR_ANY", 1 << 14)


@pytest.mark.parametrize("name", HUNGRY)
def test_no_message_takes_much_more_memory_than_it_has_bytes(name, small_allowance):
    kind, message = HUNGRY[name]
    tracemalloc.start()
    try:
        with contextlib.suppress(Malformed):
            decode(message, kind)
        assert tracemalloc.get_traced_memory()[1] <= 16 * len(message) + (1 << 16)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HUNGRY)
def test_what_is_charged_is_what_is_taken(name, monkeypatch):
    """Whatever a value takes in the end was charged for it: less than that would let larger messages take too much."""
    kind, message = HUNGRY[name]
    monkeypatch.setattr(of_kinds.codec, "MEMORY_FOR_ANY", 1 << 40)
    reader = of_kinds.Reader(message)
    tracemalloc.start()
    try:
        before = reader.left
        value = kind.read(reader)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert value is not None and taken <= before - reader.left + (1 << 12)


HUGE = b"\xff\xff\xff\xff\xff\xff\x7f"


@pytest.mark.parametrize(
    "message",
    [
        *(letter + HUGE for letter in (b"l", b"t", b"m", b"b", b"i", b"s")),
        b"l" + HUGE * 20,
        b"a\x0b\x02\x80\x80\x80\x80\x10\x80\x80\x80\x80\x10",
        b"a\x0b\x02\x00" + HUGE,
        b"a\x0b\x03\x00" + (b"\x80" * 6 + b"\x20") * 2,
        b"o\x02\x80\x80\x80\x80\x10\x80\x80\x80\x80\x10\x00",
        b"o\x01\xff\xff\x03\x01",
        b"o\x02\x00" + HUGE + b"\x01",
        b"o\x01\x01" + HUGE,
        b"a\x0b" + b"\xff" * 300,
        b"a\x0b\xff" + b"\x01" * 255 + bytes(8),
    ],
)
def test_memory_is_never_taken_for_what_is_only_announced(message):
    kinds = (OWN_FILE, List(Int(64), 9), Bytes(9), Text(9), Array(NAMES, dims=2), Integers(64, dims=2), DOCUMENT)
    for kind in kinds:
        tracemalloc.start()
        try:
            with contextlib.suppress(Malformed):
                decode(message, kind)
            assert tracemalloc.get_traced_memory()[1] < 1 << 15
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"i\x00",
        b"i\x02\x00\x01",
        b"i\x81\x00\x01",
        b"b\x80\x00",
        b"m\x02i\x01\x01Ni\x01\x01N",
        b"m\x02s\x01aNs\x01aN",
        b"m\x01TN",
        b"m\x01NN",
        b"m\x01d" + bytes(8) + b"N",
        b"a\x0c\x00",
        b"a\x00\x01\x01\x02",
        b"o\x00\x02\x00\x01",
        b"o\x01\x00\x02",
        b"o\x01\x00\x00",
        b"s\x02\xed\xa0",
        b"s\x03\xed\xa0\x80",
        b"d" + bytes(7),
        b"t\x01TT",
        b"\x80\x04N.",
        b"b" + b"\xff" * 12,
    ],
)
def test_what_has_another_form_is_refused(message):
    kinds = (Int(64), Bytes(99), Text(99), Float(), Array(NAMES), Integers(64), Tuple((Flag(), Flag())))
    maps = [Map(key, optional(Flag()), 9) for key in (Int(64), Text())]
    for kind in (OWN_FILE, Record({"a": optional(Flag())}, {"b": Flag()}), *maps, *kinds):
        with pytest.raises(Malformed):
            decode(message, kind)


def test_a_count_has_no_more_digits_than_it_may():
    """However many follow: each costs as much as all before it."""
    with pytest.raises(Malformed, match="a count in it is too large"):
        decode(b"b" + b"\xff" * 99, Bytes(1 << 60))


def test_nothing_but_the_first_letter_tells_kinds_apart():
    with pytest.raises(ValueError, match="same letter"):
        OneOf((List(Int(64), 1), List(Text(), 1)))


@given(st.lists(st.floats()).map(lambda values: np.array(values)))
@example(np.array([np.nan, -0.0]))
def test_an_array_of_floats_costs_its_bytes_and_little_more(values):
    assume(values.ndim == 1)
    assert len(encode(values)) <= values.nbytes + 5


def test_numbered_messages_are_of_one_name():
    messages = {"messages_*": Flag(), "terms": Int(64)}
    assert kind_of(messages, "messages_7") == Flag() and kind_of(messages, "terms") == Int(64)
    for name in ("messages_", "messages_x", "messages_1234567", "messages_\u0663", "messages", "terms_7", "other", ""):
        assert kind_of(messages, name) is None
