"""Columns of ciphertexts, fixed-point numbers, and products of powers."""
import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fate_dp.crypto.encrypted_column import add_columns, encrypt_column, pack_ciphertexts, unpack_ciphertexts
from fate_dp.crypto.fixed_point import decode_product, encode_features, encode_scores
from fate_dp.crypto.multi_exponentiation import powers_product
from fate_dp.crypto.paillier import keypair_of_any_length

PUBLIC, PRIVATE = keypair_of_any_length(256)
SCORE = st.integers(-(2**60), 2**60)


def signed(plaintext):
    return int(plaintext) - PUBLIC.n if plaintext > PUBLIC.n // 2 else int(plaintext)


def decrypted(column):
    return [signed(PRIVATE.decrypt(ciphertext)) for ciphertext in unpack_ciphertexts(column, PUBLIC)]


def naive_product(ciphertexts, exponents, modulus):
    products = []
    for column in exponents.T.tolist():
        total = mpz(1)
        for ciphertext, exponent in zip(ciphertexts, column):
            total = total * gmpy2.powmod(ciphertext, exponent, modulus) % modulus
        products.append(total)
    return products


@given(st.lists(SCORE, max_size=6))
def test_columns_decrypt_to_their_signed_values(values):
    assert decrypted(encrypt_column(np.array(values, dtype=np.int64), PUBLIC)) == values


@given(st.lists(st.tuples(SCORE, SCORE), max_size=4))
def test_columns_add_row_by_row(pairs):
    first, second = (encrypt_column(np.array([p[at] for p in pairs], dtype=np.int64), PUBLIC) for at in (0, 1))
    assert decrypted(add_columns(first, second, PUBLIC)) == [a + b for a, b in pairs]


def test_equal_values_give_different_ciphertexts_of_one_width_and_no_exponent():
    tiny, huge = 1, 2**59 - 1
    column = encrypt_column(np.array([0] * 50 + [tiny] * 50 + [-huge] * 50), PUBLIC)
    ciphertexts = unpack_ciphertexts(column, PUBLIC)
    assert len(set(ciphertexts)) == 150
    # One width for all and nothing else in the message: no exponent that would tell a large number from a small one.
    assert len(column) == 150 * PUBLIC.ciphertext_bytes
    assert not any((ciphertext - 1) % PUBLIC.n == 0 for ciphertext in ciphertexts)


def test_a_column_under_the_same_key_twice_shares_no_ciphertext():
    values = np.arange(40)
    runs = [set(unpack_ciphertexts(encrypt_column(values, PUBLIC), PUBLIC)) for _ in range(2)]
    assert not runs[0] & runs[1]


@pytest.mark.parametrize("value", [0, PUBLIC.n**2])
def test_values_outside_the_group_are_refused(value):
    with pytest.raises(ValueError, match="not made under this key"):
        unpack_ciphertexts(pack_ciphertexts([mpz(5), mpz(value)], PUBLIC), PUBLIC)


def test_columns_of_wrong_length_are_refused():
    column = encrypt_column(np.arange(3), PUBLIC)
    with pytest.raises(ValueError, match="multiple of"):
        unpack_ciphertexts(column[:-1], PUBLIC)
    with pytest.raises(ValueError, match="lengths must agree"):
        add_columns(column, column[: PUBLIC.ciphertext_bytes], PUBLIC)


exponents = arrays(
    np.int64,
    array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.one_of(st.sampled_from([0, 1, -1, 2**43, -(2**43), 2**43 - 1]), st.integers(-(2**43), 2**43)),
)


@given(exponents, st.randoms(use_true_random=False))
def test_products_of_powers_equal_the_naive_ones(exponents, random):
    ciphertexts = [mpz(random.randrange(1, PUBLIC.n)) for _ in range(len(exponents))]
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
    with pytest.raises(ValueError, match="they must agree"):
        powers_product([mpz(3)], np.ones((2, 1), dtype=np.int64), PUBLIC.modulus_squared)


def test_an_encrypted_matrix_product_is_the_product_of_integers():
    generator = np.random.default_rng(1)
    features = encode_features(generator.normal(size=(30, 4)))
    scores = encode_scores(generator.normal(size=30))
    ciphertexts = unpack_ciphertexts(encrypt_column(scores, PUBLIC), PUBLIC)
    products = powers_product(ciphertexts, features, PUBLIC.modulus_squared)
    expected = (features.astype(object).T @ scores.astype(object)).tolist()
    assert [signed(PRIVATE.decrypt(product)) for product in products] == expected


@pytest.mark.parametrize("encode, unit", [(encode_features, 2.0**-24), (encode_scores, 2.0**-40)])
@given(st.floats(-(2.0**20), 2.0**20, exclude_min=True, exclude_max=True))
def test_encoding_rounds_to_the_nearest_unit(encode, unit, value):
    encoded = encode(np.array([value]))
    assert encoded.dtype == np.int64 and abs(int(encoded[0]) * unit - value) <= unit / 2 + abs(value) * 2**-53


@pytest.mark.parametrize("encode, name", [(encode_features, "Feature values"), (encode_scores, "Scores")])
@pytest.mark.parametrize("value", [2.0**20, -(2.0**20), 1e300, np.inf, -np.inf, np.nan])
def test_what_does_not_fit_is_refused_before_it_is_encrypted(encode, name, value):
    with pytest.raises(ValueError, match=f"{name}.* must be finite"):
        encode(np.array([0.5, value]))


def test_products_decode_to_the_product_of_what_was_encoded():
    feature, score = encode_features(np.array([-1.5]))[0], encode_scores(np.array([0.375]))[0]
    assert decode_product(int(feature) * int(score)) == -1.5 * 0.375
