"""Columns of encrypted scores, fixed-point numbers, and the matrix product under encryption."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.crypto.paillier import column_from_bytes, encrypt_column, keypair_of_any_length, sum_of_columns
from fate_dp.crypto.powers import powers_product
from fate_dp.crypto.slots import decode_product, encode_features, encode_scores
from tests.support.paillier import signed

PUBLIC, PRIVATE = keypair_of_any_length(256)
SCORE = st.integers(-(2**60), 2**60)


def encrypted(values):
    return encrypt_column(np.array(values, dtype=np.int64), PUBLIC)


def decrypted(column):
    return [signed(PRIVATE, ciphertext) for ciphertext in column_from_bytes(column, PUBLIC)]


@given(st.lists(SCORE, max_size=6))
def test_columns_decrypt_to_their_signed_values(values):
    assert decrypted(encrypted(values)) == values


@given(st.lists(st.tuples(SCORE, SCORE, SCORE), min_size=1, max_size=4), st.integers(1, 3))
def test_columns_add_row_by_row(rows, columns):
    sums = sum_of_columns([encrypted(column) for column in list(zip(*rows))[:columns]], PUBLIC)
    assert [signed(PRIVATE, total) for total in sums] == [sum(row[:columns]) for row in rows]


def test_equal_values_give_different_ciphertexts_of_one_width_and_no_exponent():
    tiny, huge = 1, 2**59 - 1
    column = encrypted([0] * 50 + [tiny] * 50 + [-huge] * 50)
    ciphertexts = column_from_bytes(column, PUBLIC)
    assert len(set(ciphertexts)) == 150
    # One width for all and nothing else in the message: no exponent that would tell a large number from a small one.
    assert len(column) == 150 * PUBLIC.ciphertext_bytes
    assert not any((ciphertext.value - 1) % PUBLIC.n == 0 for ciphertext in ciphertexts)


def test_a_column_under_the_same_key_twice_shares_no_ciphertext():
    runs = [set(column_from_bytes(encrypted(range(40)), PUBLIC)) for _ in range(2)]
    assert not runs[0] & runs[1]


def test_columns_of_different_lengths_are_refused():
    column = encrypted(range(3))
    with pytest.raises(ValueError, match="must be of one length to be added"):
        sum_of_columns([column, column[: PUBLIC.ciphertext_bytes]], PUBLIC)


def test_an_encrypted_matrix_product_is_the_product_of_integers():
    generator = np.random.default_rng(1)
    features = encode_features(generator.normal(size=(30, 4)))
    scores = encode_scores(generator.normal(size=30))
    ciphertexts = sum_of_columns([encrypted(scores)], PUBLIC)
    products = powers_product(ciphertexts, features, PUBLIC.modulus_squared)
    expected = (features.astype(object).T @ scores.astype(object)).tolist()
    assert [signed(PRIVATE, product) for product in products] == expected


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
