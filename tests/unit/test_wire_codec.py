"""The codec of our messages: plain values come back as they were, and nothing that another party sends makes more."""

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

from fate_dp.components.common.wire.codec import (
    _DTYPES,
    BYTES_FOR_ONE,
    MAX_LEVELS,
    Malformed,
    NotPlain,
    decode,
    decode_two,
    encode,
)

INTEGERS = st.integers() | st.integers(min_value=-(1 << 5000), max_value=1 << 5000)
NUMBERS = st.sampled_from(_DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
INTEGER_ARRAYS = arrays.arrays(object, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0), elements=INTEGERS)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats() | st.text() | st.binary()
KEYS = st.text() | INTEGERS | st.binary()
VALUES = st.recursive(
    SCALARS | NUMBERS | INTEGER_ARRAYS,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)
PLAIN = (type(None), bool, int, float, str, bytes, list, tuple, dict, np.ndarray)


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
        return value.dtype in _DTYPES or all(type(item) is int for item in value.ravel().tolist())
    if type(value) is dict:
        return all(type(key) in (str, int, bytes) and only_plain(item) for key, item in value.items())
    return type(value) in PLAIN and (type(value) not in (list, tuple) or all(map(only_plain, value)))


@given(VALUES)
def test_a_plain_value_comes_back_as_it_was(value):
    assert same(decode(encode(value)), value)


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
    found = decode(encode(value))
    assert found.shape == value.shape and found.dtype == value.dtype.newbyteorder("=") and np.array_equal(found, value)
    found[...] = 0


@given(st.binary(max_size=200))
def test_of_any_bytes_the_codec_makes_a_plain_value_of_that_form_or_nothing(data):
    try:
        value = decode(data)
    except Malformed:
        return
    assert only_plain(value) and encode(value) == data


@settings(max_examples=300)
@given(st.data())
def test_of_a_message_that_was_tampered_with_too(data):
    message = bytearray(encode(data.draw(VALUES)))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = decode(bytes(message))
    except Malformed:
        return
    assert only_plain(value) and encode(value) == bytes(message)


@given(VALUES, st.data())
def test_a_truncated_message_is_refused(value, data):
    message = encode(value)
    with pytest.raises(Malformed):
        decode(message[: data.draw(st.integers(0, len(message) - 1))])


@given(VALUES, st.binary(min_size=1, max_size=9))
def test_bytes_after_the_end_are_refused_or_handed_on(value, rest):
    message = encode(value)
    with pytest.raises(Malformed):
        decode(message + rest)
    first, following = decode_two(message + rest)
    assert same(first, value) and following == rest


@given(VALUES, st.sampled_from(range(pickle.HIGHEST_PROTOCOL + 1)))
def test_no_pickle_is_a_message(value, protocol):
    with pytest.raises(Malformed):
        decode(pickle.dumps(value, protocol))


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
        assert decode(where(hostile)) == hostile
    assert not (tmp_path / "ran").exists()


class Text(str):
    """Looks like a text, and is more."""


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Text("a"),
        np.float64(1.0),
        np.int64(1),
        True + 0j,
        {1.0: 2},
        {(1,): 2},
        {None: 1},
        {True: 1},
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
    assert decode(encode(nested)) == nested
    deeper.append(deeper)
    with pytest.raises(NotPlain):
        encode(deeper)
    with pytest.raises(Malformed):
        decode(b"l\x01" * 100_000 + b"N")


HOSTILE = [
    b"l\xff\xff\xff\xff\xff\x07" * 20,
    b"t\xff\xff\xff\xff\xff\x07",
    b"m\xff\xff\xff\xff\xff\x07",
    b"b\xff\xff\xff\xff\xff\x07",
    b"i\xff\xff\xff\xff\xff\x07",
    b"s\xff\xff\xff\xff\xff\x07",
    b"a\x0b\x02\x80\x80\x80\x80\x10\x80\x80\x80\x80\x10",
    b"a\x0b\x02\x00\xff\xff\xff\xff\xff\x07",
    b"o\x02\x80\x80\x80\x80\x10\x80\x80\x80\x80\x10\x00",
    b"o\x01\xff\xff\x03\x01",
    b"o\x02\x00\xff\xff\xff\xff\xff\x07\x01",
    b"a\x0b" + b"\xff" * 300,
    b"a\x0b\xff" + b"\x01" * 255 + bytes(8),
    b"l\x80\x80\x01" + b"N" * (1 << 14),
    b"l\x80\x80\x01" + b"l\x00" * (1 << 14),
    b"l\x80\x80\x01" + b"m\x00" * (1 << 14),
    b"l\x80\x80\x01" + b"a\x05\x00\x00" * (1 << 14),
    b"o\x01\x80\x80\x01\x01" + b"\x80" * (1 << 14),
    b"l\x80\x80\x01" + b"i\x02\x7f\x7f" * (1 << 14),
    b"l\x80\x80\x01" + b"s\x02\xc4\x80" * (1 << 14),
]


@pytest.mark.parametrize("message", HOSTILE, ids=range(len(HOSTILE)))
def test_no_message_takes_much_more_memory_than_it_has_bytes(message):
    tracemalloc.start()
    try:
        with contextlib.suppress(Malformed):
            decode(message)
        assert tracemalloc.get_traced_memory()[1] <= BYTES_FOR_ONE * len(message) + 20_000
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
        b"\x80\x04N.",
        b"b" + b"\xff" * 12,
    ],
)
def test_what_has_another_form_is_refused(message):
    with pytest.raises(Malformed):
        decode(message)


@given(st.lists(st.floats()).map(lambda values: np.array(values)))
@example(np.array([np.nan, -0.0]))
def test_an_array_of_floats_costs_its_bytes_and_little_more(values):
    assume(values.ndim == 1)
    assert len(encode(values)) <= values.nbytes + 5
