"""The public number about the size of a party's columns: the least power of two above every mean square, up to 2^8."""

import pytest

from fate_dp.components.dp_hetero_lr.cross_product.statistics import _bits

pytestmark = pytest.mark.arithmetic

ONE = 2**48


@pytest.mark.parametrize(
    "total, rows, bits",
    [
        (0, 3, 0),
        (3 * ONE, 3, 0),
        (3 * ONE + 1, 3, 1),
        (6 * ONE, 3, 1),
        (6 * ONE + 1, 3, 2),
        (3 * 256 * ONE, 3, 8),
        (3 * 256 * ONE + 1, 3, 9),
        (1, 1, 0),
        (ONE, 2**30, 0),
    ],
)
def test_bits_change_from_the_first_unit_above_a_power_of_two(total, rows, bits):
    assert _bits(total, rows) == bits
    assert total <= rows * 2 ** (48 + bits)
    assert bits == 0 or total > rows * 2 ** (48 + bits - 1)
