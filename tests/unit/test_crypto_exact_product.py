"""Exact products of integer matrices against Python integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fate_dp.crypto import cross_product as module
from fate_dp.crypto.cross_product import column_square_sums, exact_product, spans

pytestmark = pytest.mark.arithmetic

LARGEST = 2**40 - 1
LIMB_EDGES = [0, 1, -1, 2**20 - 1, 2**20, -(2**20), -(2**20) - 1, LARGEST, -LARGEST]
ENTRIES = st.one_of(st.sampled_from(LIMB_EDGES), st.integers(-LARGEST, LARGEST))


@st.composite
def pairs(draw):
    rows, left, right = draw(st.tuples(st.integers(0, 7), st.integers(0, 4), st.integers(0, 4)))
    return tuple(draw(arrays(np.int64, (rows, columns), elements=ENTRIES)) for columns in (left, right))


def by_python_integers(left, right):
    return left.astype(object).T @ right.astype(object) if len(left) else np.zeros((left.shape[1], right.shape[1]), int)


@settings(max_examples=40)
@given(pairs())
def test_products_equal_those_of_python_integers(pair):
    product = exact_product(*pair)
    assert product.dtype == object and (product == by_python_integers(*pair)).all()
    assert all(type(value) is int for value in product.flat)


@settings(max_examples=40)
@given(pairs())
def test_sums_of_squares_are_the_diagonal(pair):
    squares = column_square_sums(pair[0])
    assert squares == tuple(by_python_integers(pair[0], pair[0]).diagonal())
    assert all(type(value) is int for value in squares)


@pytest.mark.parametrize("blocks_per_sum", [1, 1 << 9])
def test_long_columns_of_extreme_entries_lose_nothing(monkeypatch, blocks_per_sum):
    monkeypatch.setattr(module, "_BLOCKS_PER_SUM", blocks_per_sum)
    rows = 2 * 8192 + 3
    matrix = np.column_stack([np.full(rows, LARGEST), np.full(rows, -LARGEST), np.full(rows, LARGEST - 2**20)])
    expected = [[rows * a * b for b in matrix[0].tolist()] for a in matrix[0].tolist()]
    assert exact_product(matrix, matrix).tolist() == expected
    assert column_square_sums(matrix) == tuple(expected[at][at] for at in range(3))


def test_blocks_fit_float64_and_their_sums_int64():
    assert module._BLOCK_ROWS << 40 <= 2**53
    assert module._BLOCK_ROWS * module._BLOCKS_PER_SUM << 40 < 2**63


@pytest.mark.parametrize("rows, at_most", [(0, 3), (1, 3), (3, 3), (4, 3), (100, 7)])
def test_spans_cover_every_row_once_and_are_nearly_equal(rows, at_most):
    ranges = list(spans(rows, at_most))
    assert [row for first, last in ranges for row in range(first, last)] == list(range(rows))
    lengths = {last - first for first, last in ranges}
    assert not lengths or (max(lengths) <= at_most and max(lengths) - min(lengths) <= 1)


@pytest.mark.parametrize(
    "wrong, sentence",
    [
        (np.array([[1 << 40]]), "has an entry of 2\\^40 or more"),
        (np.array([[-(1 << 40)]]), "has an entry of 2\\^40 or more"),
        (np.array([[np.iinfo(np.int64).min]]), "has an entry of 2\\^40 or more"),
        (np.array([[1.0]]), "must be int64 with two dimensions, got float64 of shape \\(1, 1\\)"),
        (np.array([1]), "must be int64 with two dimensions, got int64 of shape \\(1,\\)"),
    ],
)
def test_what_cannot_be_exact_is_refused(wrong, sentence):
    fine = np.array([[1]])
    with pytest.raises(ValueError, match=f"left {sentence}"):
        exact_product(wrong, fine)
    with pytest.raises(ValueError, match=f"right {sentence}"):
        exact_product(fine, wrong)
    with pytest.raises(ValueError, match=f"matrix {sentence}"):
        column_square_sums(wrong)


def test_uneven_rows_are_refused():
    with pytest.raises(ValueError, match="right must have as many rows as left, 1, got 2"):
        exact_product(np.ones((1, 1), dtype=np.int64), np.ones((2, 1), dtype=np.int64))
