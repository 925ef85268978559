"""Shares of records: exact, wide enough to hide the value, and never the same twice."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto.joined_records import (
    SHARE_BITS,
    VALUE_BITS,
    blind_records,
    draw_masks,
    encode_values,
    encrypt_records,
    join_shares,
    kept_shares,
    open_records,
    record_bytes,
    record_layout,
    split_shares,
)
from fate_dp.crypto.paillier import FixedBaseBlinding, PublicKey, drawn_blinding, generate_keypair

LARGEST = (1 << VALUE_BITS) - 1


@lru_cache(maxsize=1)
def keys():
    return generate_keypair(2048)


@lru_cache(maxsize=1)
def table():
    return drawn_blinding(keys()[0], 100)


def shared(matrix):
    public, private = keys()
    encrypted = encrypt_records(matrix, private.encryption(), len(matrix))
    masks = draw_masks(*matrix.shape, public)
    blinded = blind_records(encrypted, masks, table())
    kept = join_shares(kept_shares(masks, matrix.shape[1], public))
    return join_shares(open_records(blinded, matrix.shape[1], private)), kept, encrypted, blinded


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 70), st.integers(0, 3), st.randoms(use_true_random=False))
def test_shares_add_up_exactly(columns, rows, rng):
    draws = [[rng.choice([-LARGEST, LARGEST, rng.randint(-LARGEST, LARGEST)]) for _ in range(columns)]]
    matrix = np.array(draws * rows, dtype=np.int64).reshape(rows, columns)
    own, other, _, _ = shared(matrix)
    assert (own + other == matrix).all()


def test_halves_are_those_of_the_slots_as_whole_numbers():
    """Digits are cut out of words for all records at once; here they are taken one by one."""
    public, _ = keys()
    for columns in (1, 31, 32, 65):
        layout = record_layout(public)
        masks = [[0] * layout.plaintexts(columns), *draw_masks(2, columns, public)]
        expected = [
            [-digit for mask, used in zip(row, layout.slots_used(columns)) for digit in layout.digits(mask, used)]
            for row in masks
        ]
        kept = kept_shares(masks, columns, public)
        assert join_shares(kept).tolist() == expected
        assert (kept == split_shares(np.array(expected, dtype=object))).all()


def test_shares_have_room_and_stay_below_their_bound():
    own, other, _, _ = shared(np.full((4, 30), -LARGEST, dtype=np.int64))
    widths = [int(abs(share)).bit_length() for share in np.concatenate([own, other]).flat]
    assert SHARE_BITS - 12 < max(widths) <= SHARE_BITS


def mean_of_uniform(share):
    """Mean of shares in units of the widest mask: 1/2 with standard deviation 1 / sqrt(12 n)."""
    return float(np.mean((share / (1 << SHARE_BITS)).astype(float)))


def test_a_share_alone_does_not_tell_two_very_different_tables_apart():
    tables = [np.full((30, 29), value, dtype=np.int64) for value in (-LARGEST, LARGEST)]
    error = 7 / np.sqrt(12 * 30 * 29)
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
        for bit in (0, 1, VALUE_BITS, SHARE_BITS - 1):
            ones = float(np.mean(((share >> bit) & 1).astype(float)))
            assert abs(ones - 0.5) < 7 * 0.5 / np.sqrt(share.size)


def test_what_comes_back_cannot_be_recognised():
    matrix = np.zeros((3, 2), dtype=np.int64)
    own, other, encrypted, blinded = shared(matrix)
    assert len({*encrypted, *blinded}) == 6
    masks = draw_masks(3, 2, keys()[0])
    again, at_once_more = (blind_records(encrypted, masks, table()) for _ in range(2))
    assert len({*again, *at_once_more, *blinded}) == 9
    assert (join_shares(kept_shares(masks, 2, keys()[0])) != other).all()
    assert {len(record) for record in (*encrypted, *blinded)} == {record_bytes(2, keys()[0])}


def test_values_are_rounded_to_the_grid_and_refused_outside_it():
    assert encode_values(np.array([[1.5, -(2.0**-21)]]), ["a", "b"]).tolist() == [[3 << 19, 0]]
    for bad in (16.0, -16.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="The column 'b' holds a value that is not a number below 16"):
            encode_values(np.array([[1.0, 0.0], [0.0, bad]]), ["a", "b"])


def test_records_of_another_shape_are_refused():
    public, private = keys()
    with pytest.raises(ValueError, match="must have 1024 bytes with its columns under this key, got 512"):
        records = encrypt_records(np.ones((1, 2), dtype=np.int64), private.encryption(), 1)
        blind_records(records, draw_masks(1, 40, public), table())
    with pytest.raises(ValueError, match=r"must be int64 \(n, c\), c > 0"):
        encrypt_records(np.ones((1, 0), dtype=np.int64), private.encryption(), 1)
    with pytest.raises(ValueError, match="A value reaches"):
        encrypt_records(np.array([[LARGEST + 1]]), private.encryption(), 1)


def test_what_is_no_ciphertext_is_refused():
    public, private = keys()
    with pytest.raises(ValueError, match="outside \\(0, n\\^2\\)"):
        open_records([b"\xff" * public.ciphertext_bytes], 2, private)
    with pytest.raises(ValueError, match="must have 512 bytes .*, got 511"):
        open_records([bytes(public.ciphertext_bytes - 1)], 2, private)


def test_bases_are_drawn_once_and_the_table_fits_the_number_of_records():
    public, _ = keys()
    few, many = table(), drawn_blinding(public, 3000)
    assert few is drawn_blinding(public, 100) and few.exponent_bits == many.exponent_bits >= 2048 + 80 + 40
    assert len(few._powers._widths) > len(many._powers._widths)


def named_by_their_owner(blind, public, private):
    """The owner publishes a base of order 2 and compares the randomness of what comes back with its records' own."""
    p, q = map(int, private._primes)
    n = public.n
    base = pow(1 + p * pow(p, -1, q) * -2, n, n * n)
    encrypted = encrypt_records(np.ones((20, 2), dtype=np.int64), private.encryption(), 20)
    back = blind(PublicKey(n, base), [encrypted[at] for at in (3, 17, 11)])
    own = {
        int.from_bytes(record, "big") * factor % n: at for at, record in enumerate(encrypted) for factor in (1, base)
    }
    return [own.get(int.from_bytes(record, "big") % n) for record in back]


def with_own_bases(published, records):
    return blind_records(records, draw_masks(3, 2, published), drawn_blinding(published, 10))


def with_the_owners_base(published, records):
    return blind_records(records, draw_masks(3, 2, published), FixedBaseBlinding(published))


def test_an_owner_with_a_bad_base_cannot_tell_which_of_its_records_came_back():
    assert named_by_their_owner(with_own_bases, *keys()) == [None] * 3
    # The control: blinding that rests on the owner's base shows it.
    assert named_by_their_owner(with_the_owners_base, *keys()) == [3, 17, 11]


def test_an_owner_that_numbers_its_records_beyond_their_slots_reads_no_number():
    public, private = keys()
    top = record_layout(public).slot_bits * 2
    numbered = [
        item.to_bytes() for item in private.encryption().encrypt([number << top + 60 for number in range(1, 5)], 4)
    ]
    masks = draw_masks(4, 2, public)
    assert not numbers_in(blind_records(numbered, masks, table()), top) & {1, 2, 3, 4}
    # The control: masks of the slots alone, as they were once.
    narrow = [[mask % (1 << top)] for (mask,) in masks]
    assert numbers_in(blind_records(numbered, narrow, table()), top) == {1, 2, 3, 4}


def numbers_in(records, top):
    public, private = keys()
    return {int(private.decrypt(int.from_bytes(record, "big"))) >> top + 60 for record in records}
