"""Cross products of shares: exact, in every shape, and narrow again afterwards."""

import secrets
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto.cross_product import (
    encrypt_shares,
    merge_sums,
    multiply_shares,
    narrow_shares,
    open_sums,
    seal_sums,
    wide_layout,
)
from fate_dp.crypto.joined_records import SHARE_BITS
from fate_dp.crypto.paillier import generate_keypair

LARGEST = (1 << SHARE_BITS) - 1


@lru_cache(maxsize=1)
def keys():
    return generate_keypair(2048)


def crossed(left, right, blocks=1):
    """Both parties' shares of left^T right; rows are cut into ``blocks`` kernels."""
    public, private = keys()
    layout, columns, sums = wide_layout(len(left), public), right.shape[1], None
    for part_left, part_right in zip(np.array_split(left, blocks), np.array_split(right, blocks)):
        encrypted = encrypt_shares(part_right, private.encryption(), layout, len(left))
        products = multiply_shares(part_left, encrypted, columns, layout, public)
        sums = products if sums is None else merge_sums(sums, products, public)
    sealed, other = seal_sums(sums, columns, layout, public)
    return open_sums(sealed, columns, layout, private), other


def shares(rows, columns, largest=LARGEST):
    draws = [secrets.randbelow(2 * largest + 1) - largest for _ in range(rows * columns)]
    matrix = np.empty((rows, columns), dtype=object)
    matrix.flat = draws
    return matrix


@pytest.mark.parametrize("rows, left, right, blocks", [(1, 1, 1, 1), (5, 3, 12, 1), (9, 2, 3, 4)])
def test_shares_add_up_to_the_product(rows, left, right, blocks):
    first, second = shares(rows, left), shares(rows, right)
    own, other = crossed(first, second, blocks)
    assert (own + other == first.T @ second).all()


def test_the_most_extreme_shares_do_not_overflow():
    for signs in ((1, 1), (1, -1), (-1, -1)):
        first, second = (np.full((3, 2), sign * LARGEST, dtype=object) for sign in signs)
        own, other = crossed(first, second)
        assert (own + other == first.T @ second).all()


def test_the_owners_shares_are_wider_than_any_product():
    public, private = keys()
    layout = wide_layout(4, public)
    zeros = np.zeros((4, 1), dtype=object)
    seen = []
    for _ in range(8):
        encrypted = encrypt_shares(zeros, private.encryption(), layout, 4)
        sealed, _ = seal_sums(multiply_shares(zeros, encrypted, 1, layout, public), 1, layout, public)
        seen.append(int(open_sums(sealed, 1, layout, private)[0, 0]))
    assert len(set(seen)) == 8 and max(map(int.bit_length, seen)) > layout.value_bits + 30


def test_too_wide_shares_are_refused():
    public, private = keys()
    wide = np.array([[1 << SHARE_BITS]], dtype=object)
    with pytest.raises(ValueError, match=f"A share reaches 2\\^{SHARE_BITS}"):
        encrypt_shares(wide, private.encryption(), wide_layout(1, public), 1)
    with pytest.raises(ValueError, match="must be an object array"):
        encrypt_shares(np.ones((1, 1)), private.encryption(), wide_layout(1, public), 1)
    with pytest.raises(ValueError, match="rows must be .*, got 0"):
        wide_layout(0, public)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 80), st.data())
def test_narrow_shares_add_up_to_the_same_sums(bits, data):
    total = data.draw(st.integers(-(1 << bits) + 1, (1 << bits) - 1))
    # Uniform as the protocol makes it, away from the ends that occur with chance 2^-41.
    first = (secrets.randbelow(1 << 90) << bits) + (1 << bits + 2)
    one, two = (np.array([value], dtype=object) for value in (first, total - first))
    narrow = narrow_shares(one, bits, True)[0], narrow_shares(two, bits, False)[0]
    modulus = 1 << bits + 42
    assert sum(narrow) in (total, total - modulus, total + modulus)
    if (1 << bits) <= first % modulus < modulus - (1 << bits):
        assert sum(narrow) == total
    assert max(map(abs, narrow)) <= modulus
