"""Encrypted scoring: exact to its stated error, blind on both sides, and bounded by construction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fate_dp.crypto import encrypted_scoring
from fate_dp.crypto.encrypted_scoring import encrypt_queries, open_scores, score_queries
from fate_dp.crypto.paillier import PublicKey, column_from_bytes, keypair_of_any_length

PUBLIC, PRIVATE = keypair_of_any_length(384)
ENCRYPTION = PRIVATE.encryption()
BELOW = np.nextafter(2.0**20, 0)
HEADER = 40
NUMBER = st.one_of(st.sampled_from([0.0, BELOW, -BELOW, 2.0**-24, -(2.0**-40)]), st.floats(-BELOW, BELOW))


def scored(features, weights, intercept=0.0):
    answer = score_queries(encrypt_queries(features, ENCRYPTION), weights, PUBLIC, intercept)
    return open_scores(answer, PRIVATE)


@settings(max_examples=40)
@given(st.data(), st.integers(0, 5), st.integers(1, 4), NUMBER)
def test_scores_are_exact_to_the_stated_error_up_to_every_bound(data, rows, columns, intercept):
    features = data.draw(arrays(np.float64, (rows, columns), elements=NUMBER))
    weights = data.draw(arrays(np.float64, columns, elements=NUMBER))
    exact = [sum(int(x * 2**60) * int(w * 2**60) for x, w in zip(row, weights)) / 2**120 for row in features]
    bound = 2.0**-25 * np.abs(weights).sum() + 2.0**-41 * (1 + np.abs(features).sum(axis=1)) + 1e-10
    expected = np.array(exact) + intercept
    assert np.all(np.abs(scored(features, weights, intercept) - expected) <= bound + 1e-14 * np.abs(expected))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_scores_stay_within_their_slots(sign):
    features, weights = np.full((5, 3), BELOW), np.full(3, sign * BELOW)
    np.testing.assert_allclose(scored(features, weights, sign * BELOW), sign * (3 * 2.0**40 + 2.0**20), rtol=1e-9)
    mixed = features * np.array([[1.0], [-1.0], [1.0], [-1.0], [0.0]])
    np.testing.assert_allclose(scored(mixed, weights), sign * 3 * 2.0**40 * np.array([1, -1, 1, -1, 0]), rtol=1e-9)


@settings(max_examples=30)
@given(st.integers(1, 40), st.sampled_from([384, 2048, 3072]))
def test_no_sum_overflows_its_slot_and_no_slot_the_key(columns, key_length):
    largest = (columns * (2**44 - 1) * (2**60 - 1)) + ((2**60 - 1) << 24)
    width = encrypted_scoring._slot_bits(columns)
    slots = encrypted_scoring._slots(columns, PublicKey(1 << (key_length - 1)))
    assert largest < 1 << (width - 1) and 1 << (width * slots + 40) <= 1 << (key_length - 1)


def test_the_answer_has_one_size_whatever_the_weights_and_shows_no_exponent():
    query = encrypt_queries(np.ones((7, 2)), ENCRYPTION)
    answers = [score_queries(query, weights, PUBLIC) for weights in ([0.0, 0.0], [1e-9, 3.0], [-BELOW, BELOW])]
    assert {len(answer) for answer in answers} == {HEADER + 3 * PUBLIC.ciphertext_bytes}
    assert len({answer[:HEADER] for answer in answers}) == 1


def test_answers_to_one_query_share_no_ciphertext_even_for_weights_of_zero():
    query = encrypt_queries(np.ones((7, 2)), ENCRYPTION)
    answers = [score_queries(query, np.zeros(2), PUBLIC)[HEADER:] for _ in range(10)]
    sent = [item.value % PUBLIC.n for answer in answers for item in column_from_bytes(answer, PUBLIC)]
    assert len(set(sent)) == 30


def test_equal_rows_are_encrypted_differently():
    sent = column_from_bytes(encrypt_queries(np.ones((10, 3)), ENCRYPTION)[HEADER:], PUBLIC)
    assert len({item.value % PUBLIC.n for item in sent}) == 30


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0**20, -(2.0**20)])
def test_what_does_not_fit_is_refused_on_both_sides(value):
    with pytest.raises(ValueError, match="Feature values must be finite"):
        encrypt_queries(np.array([[0.0, value]]), ENCRYPTION)
    query = encrypt_queries(np.ones((1, 2)), ENCRYPTION)
    for weights, intercept in (([0.0, value], 0.0), ([0.0, 0.0], value)):
        with pytest.raises(ValueError, match="Weights and intercept must be finite"):
            score_queries(query, weights, PUBLIC, intercept)


@pytest.mark.parametrize("features", [np.ones(3), np.ones((3, 0)), np.ones((1, 1, 1))])
def test_features_that_are_no_rows_are_refused(features):
    with pytest.raises(ValueError, match="must be \\(rows, m\\)"):
        encrypt_queries(features, ENCRYPTION)


def test_messages_that_do_not_fit_are_refused():
    query = encrypt_queries(np.ones((2, 2)), ENCRYPTION)
    answer = score_queries(query, [1.0, 2.0], PUBLIC)
    width = PUBLIC.ciphertext_bytes
    for weights, message in (([1.0], query), ([1.0, 2.0], query[:-width])):
        with pytest.raises(ValueError, match="do not fit each other"):
            score_queries(message, weights, PUBLIC)
    with pytest.raises(ValueError, match="cannot hold 2 scores"):
        open_scores(answer + answer[HEADER:], PRIVATE)
    with pytest.raises(ValueError, match="at least 40"):
        open_scores(answer[:20], PRIVATE)
    with pytest.raises(ValueError, match="must have at least one feature"):
        score_queries(query[:36] + bytes(4), [], PUBLIC)


def test_messages_under_another_key_are_refused():
    other, other_private = keypair_of_any_length(384)
    query = encrypt_queries(np.ones((2, 2)), ENCRYPTION)
    with pytest.raises(ValueError, match="under another public key"):
        score_queries(query, [1.0, 2.0], other)
    answer = score_queries(query, [1.0, 2.0], PUBLIC)
    with pytest.raises(ValueError, match="under another public key"):
        open_scores(answer, other_private)


@settings(max_examples=25)
@given(st.integers(0, 766))
def test_a_changed_answer_is_refused(bit):
    answer = bytearray(score_queries(encrypt_queries(np.ones((2, 2)), ENCRYPTION), [1.0, 2.0], PUBLIC))
    answer[-1 - bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="too large|outside"):
        open_scores(bytes(answer), PRIVATE)


def test_a_key_without_room_for_one_score_is_refused():
    _, small = keypair_of_any_length(128)
    query = encrypt_queries(np.ones((1, 2)), small.encryption())
    with pytest.raises(ValueError, match="holds no score of 2 features"):
        score_queries(query, [1.0, 2.0], small.public_key)
