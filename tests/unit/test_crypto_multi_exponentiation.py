"""Products of powers against the definition, at every size of exponents, and their number of multiplications."""

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fate_dp.crypto import powers
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.crypto.powers import few_bases_products, join, powers_product, split_with_inverses

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, _ = keypair_of_any_length(256)
N, MODULUS = PUBLIC.modulus, PUBLIC.modulus_squared
UNITS = st.integers(1, PUBLIC.n**2 - 1).map(mpz)  # a prime of 128 bits does not divide them


def naive_product(ciphertexts, exponents, modulus):
    products = []
    for column in exponents.T.tolist():
        total = mpz(1)
        for ciphertext, exponent in zip(ciphertexts, column):
            total = total * gmpy2.powmod(ciphertext, exponent, modulus) % modulus
        products.append(total)
    return products


@given(st.lists(UNITS, max_size=5))
def test_split_values_and_inverses_are_the_values_again(values):
    plain, inverse = split_with_inverses(values, N)
    assert all(0 < residue < N for residue in [*plain.residues, *inverse.residues])
    assert [join(*item, N) for item in zip(*plain)] == values
    assert [join(*item, N) for item in zip(*inverse)] == [gmpy2.invert(value, MODULUS) for value in values]


@pytest.mark.parametrize("bases", [1, 3, 20])
def test_the_largest_exponents_of_every_length_keep_their_highest_digit(bases):
    for bits in range(1, 45):
        values, largest = [mpz(3 + at) for at in range(bases)], (1 << bits) - 1
        rows = [[largest] * bases, [-largest] * bases, [1 << bits - 1] * bases, [3 * largest // 4] * bases]
        expected = naive_product(values, np.array(rows, dtype=object).T, MODULUS)
        assert few_bases_products(values, rows, MODULUS) == expected, bits


def test_values_without_inverse_are_refused():
    p = mpz(293)
    with pytest.raises(ValueError, match="not invertible"):
        split_with_inverses([mpz(5), 2 * p], p * 433)


exponents = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.one_of(st.sampled_from([0, 1, -1, 2**43, -(2**43), 2**43 - 1]), st.integers(-(2**43), 2**43)),
)


@settings(max_examples=50)
@given(exponents, st.randoms(use_true_random=False))
def test_products_of_powers_equal_the_naive_ones(exponents, rng):
    ciphertexts = [mpz(rng.randrange(1, PUBLIC.n)) for _ in range(len(exponents))]
    expected = naive_product(ciphertexts, exponents, PUBLIC.modulus_squared)
    assert powers_product(ciphertexts, exponents, PUBLIC.modulus_squared) == expected


@pytest.mark.parametrize("rows", [1, 3, 300])
@pytest.mark.parametrize("value", [0, 1, -1, 2**43, -(2**43)])
def test_products_of_powers_hold_at_the_extremes(rows, value):
    generator = np.random.default_rng(rows)
    ciphertexts = [mpz(int(c)) for c in generator.integers(1, 2**62, size=rows)]
    exponents = np.full((rows, 2), value)
    expected = naive_product(ciphertexts, exponents, PUBLIC.modulus_squared)
    assert powers_product(ciphertexts, exponents, PUBLIC.modulus_squared) == expected


def test_products_over_no_rows_are_one_and_uneven_rows_are_refused():
    assert powers_product([], np.empty((0, 3), dtype=np.int64), PUBLIC.modulus_squared) == [1, 1, 1]
    with pytest.raises(ValueError, match="must be one per ciphertext"):
        powers_product([mpz(3)], np.ones((2, 1), dtype=np.int64), PUBLIC.modulus_squared)


@settings(max_examples=50)
@given(st.lists(st.tuples(UNITS, st.sampled_from([0, 1, -1, 5 * 2**24, -(2**43)])), min_size=8, max_size=40))
def test_rows_that_share_an_exponent_count_as_often_as_they_occur(rows):
    ciphertexts, exponents = [row[0] for row in rows], np.array([[row[1]] for row in rows])
    assert powers_product(ciphertexts, exponents, MODULUS) == naive_product(ciphertexts, exponents, MODULUS)


@pytest.mark.parametrize("value", [2**61, -(2**61), 2**63 - 1, -(2**63)])
def test_exponents_that_could_wrap_around_are_refused(value):
    ciphertexts = [mpz(3), mpz(5)]
    with pytest.raises(ValueError, match="reaches 2"):
        powers_product(ciphertexts, np.array([[1], [value]]), MODULUS)
    largest = np.array([[1], [int(np.sign(value)) * (2**61 - 1)]])
    assert powers_product(ciphertexts, largest, MODULUS) == naive_product(ciphertexts, largest, MODULUS)


@pytest.mark.parametrize(
    "product",
    [lambda m: powers_product([mpz(3)], np.ones((1, 1), int), m), lambda m: few_bases_products([mpz(3)], [[1]], m)],
)
def test_a_modulus_that_is_no_square_is_refused(product):
    with pytest.raises(ValueError, match="no square"):
        product(MODULUS + 1)


EXPONENT = st.one_of(st.sampled_from([0, 1, -1, 2, -(2**95), 2**95 - 1]), st.integers(-(2**130), 2**130))


@settings(max_examples=50)
@given(st.data(), st.lists(UNITS, max_size=4))
def test_few_bases_give_the_naive_products_for_exponents_of_any_size(data, bases):
    exponents = data.draw(st.lists(st.lists(EXPONENT, min_size=len(bases), max_size=len(bases)), max_size=5))
    expected = naive_product(bases, np.array(exponents, dtype=object).reshape(len(exponents), len(bases)).T, MODULUS)
    assert few_bases_products(bases, exponents, MODULUS) == expected


def test_few_bases_refuse_a_row_of_another_length():
    with pytest.raises(ValueError, match="one exponent for each of the 2 bases"):
        few_bases_products([mpz(3), mpz(5)], [[1, 2], [1]], MODULUS)


class Counted:
    """A residue that counts the multiplications by it."""

    made = 0

    def __init__(self, value):
        self.value = value

    def __rmul__(self, other):
        Counted.made += 1
        return other * self.value


def multiplications(monkeypatch, exponents):
    """By entries of the shared tables with gmpy2, for ``exponents`` of 95 bits; tables and squarings are not counted."""
    odd_powers = powers._odd_powers

    def counted(bases, width, n):
        return [
            {digit: (Counted(entry[0]), entry[1]) for digit, entry in table.items()}
            for table in odd_powers(bases, width, n)
        ]

    monkeypatch.setattr(powers, "ring_for", lambda modulus: None)
    monkeypatch.setattr(powers, "_odd_powers", counted)
    Counted.made = 0
    few_bases_products([mpz(base) for base in range(3, 3 + len(exponents[0]))], exponents, MODULUS)
    return Counted.made


def test_31_bases_with_exponents_of_95_bits_take_15_multiplications_for_each_power(monkeypatch):
    generator = np.random.default_rng(5)
    exponents = [[int.from_bytes(generator.bytes(12), "big") >> 1 for _ in range(31)] for _ in range(32)]
    assert 12 * 31 * 32 < multiplications(monkeypatch, exponents) < 15 * 31 * 32


def test_zero_exponents_cost_nothing(monkeypatch):
    assert multiplications(monkeypatch, [[0] * 31, [0, 2**94] + [0] * 29]) == 1
