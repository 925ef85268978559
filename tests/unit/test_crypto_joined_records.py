"""Shares of records: exact, wide enough to hide the value, and never the same twice."""
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto.blinding import FixedBaseBlinding
from fate_dp.crypto.joined_records import (
    SHARE_BITS,
    VALUE_BITS,
    InvalidRecords,
    blind_records,
    draw_masks,
    encode_values,
    encrypt_records,
    flooding,
    open_records,
    record_bytes,
    record_layout,
)
from fate_dp.crypto.paillier import generate_keypair

LARGEST = (1 << VALUE_BITS) - 1


@lru_cache(maxsize=1)
def keys():
    return generate_keypair(2048)


@lru_cache(maxsize=1)
def table():
    return flooding(keys()[0])


def shared(matrix):
    public, private = keys()
    encrypted = encrypt_records(matrix, private.encryption(), len(matrix))
    masks = draw_masks(*matrix.shape)
    blinded = blind_records(encrypted, masks, table())
    return open_records(blinded, matrix.shape[1], private), -masks, encrypted, blinded


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 70), st.integers(0, 3), st.randoms(use_true_random=False))
def test_shares_add_up_exactly(columns, rows, random):
    draws = [[random.choice([-LARGEST, LARGEST, random.randint(-LARGEST, LARGEST)]) for _ in range(columns)]]
    matrix = np.array(draws * rows, dtype=np.int64).reshape(rows, columns)
    own, other, _, _ = shared(matrix)
    assert (own + other == matrix).all()


def test_shares_have_room_and_stay_below_their_bound():
    own, other, _, _ = shared(np.full((4, 30), -LARGEST, dtype=np.int64))
    widths = [int(abs(share)).bit_length() for share in np.concatenate([own, other]).flat]
    assert SHARE_BITS - 12 < max(widths) <= SHARE_BITS


def mean_of_uniform(share):
    """Mean of shares in units of the widest mask: 1/2 with standard deviation 1 / sqrt(12 n)."""
    return float(np.mean((share / (1 << record_layout(keys()[0]).mask_bits)).astype(float)))


def test_a_share_alone_does_not_tell_two_very_different_tables_apart():
    tables = [np.full((30, 29), value, dtype=np.int64) for value in (-LARGEST, LARGEST)]
    error = 5 / np.sqrt(12 * 30 * 29)
    for matrix in tables:
        own, other, _, _ = shared(matrix)
        assert abs(mean_of_uniform(own) - 0.5) < error
        assert abs(mean_of_uniform(-other) - 0.5) < error
    # The control: a mask as narrow as the values would be noticed.
    narrow = [np.random.default_rng(0).integers(0, 1 << VALUE_BITS, (30, 29)) + matrix for matrix in tables]
    assert abs(narrow[0].mean() - narrow[1].mean()) / (1 << VALUE_BITS) > error


def test_low_and_high_bits_of_a_share_are_even():
    own, other, _, _ = shared(np.zeros((30, 29), dtype=np.int64))
    for share in (own, -other):
        for bit in (0, 1, VALUE_BITS, record_layout(keys()[0]).mask_bits - 1):
            ones = float(np.mean(((share >> bit) & 1).astype(float)))
            assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(share.size)


def test_what_comes_back_cannot_be_recognised():
    matrix = np.zeros((3, 2), dtype=np.int64)
    own, other, encrypted, blinded = shared(matrix)
    assert len({*encrypted, *blinded}) == 6
    assert not set(blind_records(encrypted, -other, table())) & set(blinded)
    assert (draw_masks(3, 2) != -other).all()
    assert {len(record) for record in (*encrypted, *blinded)} == {record_bytes(2, keys()[0])}


def test_values_are_rounded_to_the_grid_and_refused_outside_it():
    assert encode_values(np.array([[1.5, -2.0**-21]]), ["a", "b"]).tolist() == [[3 << 19, 0]]
    for bad in (16.0, -16.0, np.nan, np.inf):
        with pytest.raises(InvalidRecords, match="The column 'b' holds a value that is not a number below 16"):
            encode_values(np.array([[1.0, 0.0], [0.0, bad]]), ["a", "b"])


def test_records_of_another_shape_are_refused():
    public, private = keys()
    with pytest.raises(InvalidRecords, match="has 512 bytes; with 40 columns under this key it must have 1024"):
        records = encrypt_records(np.ones((1, 2), dtype=np.int64), private.encryption(), 1)
        blind_records(records, draw_masks(1, 40), table())
    with pytest.raises(InvalidRecords, match=r"must be int64 \(n, c\), c > 0"):
        encrypt_records(np.ones((1, 0), dtype=np.int64), private.encryption(), 1)
    with pytest.raises(InvalidRecords, match="A value reaches"):
        encrypt_records(np.array([[LARGEST + 1]]), private.encryption(), 1)


def test_a_tampered_record_is_refused():
    public, private = keys()
    record = encrypt_records(np.ones((1, 2), dtype=np.int64), private.encryption(), 1)[0]
    tampered = record[:-1] + bytes([record[-1] ^ 1])
    with pytest.raises(ValueError, match="changed or made under another key"):
        open_records([tampered], 2, private)


def test_the_table_fits_the_number_of_records_and_is_made_once():
    public, _ = keys()
    few, many = flooding(public, 100), flooding(public, 3000)
    assert few is flooding(public, 100) and few.exponent_bits == many.exponent_bits == 1024 + 40
    assert len(few._powers._widths) > len(many._powers._widths)


def test_a_table_without_room_for_the_owners_exponents_is_refused():
    public, private = keys()
    record = encrypt_records(np.ones((1, 2), dtype=np.int64), private.encryption(), 1)
    with pytest.raises(ValueError, match="has exponents of 1063 bits; it needs 1064"):
        blind_records(record, draw_masks(1, 2), FixedBaseBlinding(public, 39, 4))
