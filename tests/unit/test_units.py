"""Units of columns: standardised ones stay, any others come to mean squares of about 1, and weights go back without rounding."""

import numpy as np
import pytest

from fate_dp.components.common.preflight import Refusal
from fate_dp.components.common.units import Units
from fate_dp.components.dp_hetero_lr.predict import _digests, columns_by_host, header_digest


def fitted(columns):
    return Units.fitting(columns.mean(axis=0), columns.std(axis=0))


def test_standardised_columns_stay_what_they_are():
    columns = np.random.default_rng(0).normal(size=(500, 12))
    assert fitted(columns).tobytes() == b""
    np.testing.assert_array_equal(fitted(columns).applied(columns), columns)


def test_columns_of_any_unit_come_to_mean_squares_that_no_step_overshoots():
    generator = np.random.default_rng(1)
    spread = 10.0 ** generator.uniform(-9, 9, 60)
    columns = spread * (np.exp(generator.normal(size=(500, 60))) + 10.0 ** generator.uniform(0, 6, 60))
    units = fitted(columns)
    squares = (units.applied(columns) ** 2).mean(axis=0)
    assert squares.min() > 0.3 and squares.max() < 4 / 3 + 1 / 16
    assert np.all(np.frexp(units.scale)[0] == 0.5)
    weights = generator.normal(size=60)
    np.testing.assert_array_equal(weights / units.scale * units.scale, weights)


def test_a_column_of_one_value_has_a_unit():
    assert Units.fitting(np.array([3.0]), np.array([0.0])).scale.tolist() == [1.0]


@pytest.mark.parametrize("scales", [None, [1.0], [1.0, 3.0], [1.0, 0.0], [1.0, -2.0], [1.0, float("inf")]])
def test_scales_of_another_party_are_powers_of_two(scales):
    assert Units.scaled([0.5, 2.0], 2).scale.tolist() == [0.5, 2.0]
    with pytest.raises(Refusal, match="powers of two"):
        Units.scaled(scales, 2)


def test_a_hosts_column_may_be_called_like_one_of_the_guests():
    hosts = {"host 10000": {"features": 2, "header_digest": header_digest(["x0", "z"])}}
    assert header_digest(["x0", "z"]) in _digests("host 10000", ["10000.x0", "10000.z"])
    found = columns_by_host(["x0", "10000.x0", "z"], ["x0"], hosts)
    assert found == {"host 10000": ["10000.x0", "z"]}
    with pytest.raises(ValueError, match="put the host's party id before it, as in 10000.x0"):
        columns_by_host(["x0", "z"], ["x0"], hosts)
