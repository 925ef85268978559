"""shuffler's parameters: one clear sentence for a bad value; grids."""

import math

import numpy as np
import pytest

from fate_dp.components.shuffler.component import shuffler
from fate_dp.components.shuffler.settings import Request, Settings, requests

AGE = {"column": "age", "kind": "histogram", "low": 20, "high": 80, "bins": 3}
INCOME = {"column": "income", "kind": "mean", "low": -10, "high": 30}
OWN = {"column": "own", "kind": "frequency", "values": [3, 1]}
BAD_REQUESTS = [
    ("age", "requests must be a list of 1 to 100 statistics, got 'age'."),
    ([], "requests must be a list of 1 to 100 statistics, got []."),
    ([AGE, AGE], "requests has the histogram of age more than once; each costs epsilon, so ask once."),
    (["age"], "each of requests must be a mapping with the name of a column, got 'age'."),
    ([{"kind": "mean"}], "each of requests must be a mapping with the name of a column, got {'kind': 'mean'}."),
    (
        [{**AGE, "kind": "median"}],
        "kind of the request for 'age' must be one of mean, histogram, frequency, got 'median'.",
    ),
    ([{"column": "age", "kind": "mean", "low": 1}], "The request for 'age' has no high; a mean needs low, high."),
    ([{**INCOME, "bins": 3}], "The request for 'income' has the key 'bins'; a mean may have low, high, points."),
    ([{**OWN, "low": 0}], "The request for 'own' has the key 'low'; a frequency may have values."),
    ([{**AGE, "low": 80}], "low of the request for 'age' must be below high, 80.0, got 80.0."),
    (
        [{**AGE, "low": math.nan}],
        "low of the request for 'age' must be a finite number at least -1e+150 and at most 1e+150, got nan.",
    ),
    ([{**AGE, "bins": 1}], "bins of the request for 'age' must be a whole number at least 2 and at most 1000, got 1."),
    (
        [{**INCOME, "points": 2.5}],
        "points of the request for 'income' must be a whole number at least 2 and at most 1000, got 2.5.",
    ),
    ([{**OWN, "values": []}], "values of the request for 'own' must be a list of 1 to 999 numbers, got []."),
    ([{**OWN, "values": [1, 1.0]}], "values of the request for 'own' must be different from each other, got [1, 1.0]."),
    (
        [{**OWN, "values": ["a"]}],
        "values of the request for 'own' must be a finite number at least -1e+150 and at most 1e+150, got 'a'.",
    ),
    (
        [{**AGE, "low": 1.0, "high": 1.0 + 2**-52}],
        "low of the request for 'age' must be far enough below high, 1.0000000000000002, to be divided, got 1.0.",
    ),
]
BAD = [
    *[("requests", value, sentence) for value, sentence in BAD_REQUESTS],
    *[
        ("shuffler", value, f"shuffler must be the party id of a host that brings no data, got {value!r}.")
        for value in ("", True, ["10000"])
    ],
    *[
        (
            "min_messages",
            value,
            f"min_messages must be a whole number at least 2 and at most 1000000000, got {value!r}.",
        )
        for value in (1, 2.5, "100", True)
    ],
    *[
        (name, value, f"{name} must be a finite number above 0 and at most 100, got {value!r}.")
        for name in ("epsilon", "epsilon0")
        for value in (0, -1.0, math.inf, math.nan, "1", 101)
    ],
    ("delta", 1.0, "delta must be a finite number above 0 and at most 0.01, got 1.0."),
    ("delta", 0, "delta must be a finite number above 0 and at most 0.01, got 0."),
]


def test_a_bad_value_gives_one_clear_sentence():
    for name, value, sentence in BAD:
        with pytest.raises(ValueError) as refused:
            shuffler.parameters.mapping[name].type.parse(value)
        assert str(refused.value) == sentence


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "epsilon0": 1.0}])
def test_exactly_one_epsilon_is_given(given):
    with pytest.raises(ValueError, match="epsilon and epsilon0 must be given one without the other"):
        Settings(requests([AGE]), "10001", 100, **given)


def test_settings_survive_a_message():
    settings = Settings(requests([AGE, INCOME, OWN]), "10001", 100, epsilon0=1.0)
    assert Settings.from_json(settings.to_json()) == settings
    assert settings.to_json()["requests"][2] == {"column": "own", "kind": "frequency", "values": [3.0, 1.0]}


def test_where_values_lie_on_each_grid():
    mean, histogram, frequency = requests([INCOME, AGE, OWN])
    assert mean.grid.tolist() == [-10, 30] and mean.randomizer == "randomized_response"
    np.testing.assert_array_equal(mean.on_grid([-11, 0, 31, math.nan, math.inf, -math.inf]), [-10, 0, 30, 10, 30, -10])
    assert histogram.grid.tolist() == [0, 1, 2] and histogram.randomizer == "any"
    np.testing.assert_array_equal(
        histogram.on_grid([19, 20, 39.9, 40, 60, 80, 99, math.nan, math.inf]), [0, 0, 0, 1, 2, 2, 2, 1, 2]
    )
    assert frequency.grid.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(frequency.on_grid([1, 3, 2, 0, 9, math.nan, -math.inf]), [1, 0, 2, 2, 2, 2, 2])


def test_a_wide_range_does_not_overflow():
    (mean,) = requests([{**INCOME, "low": -1e150, "high": 1e150, "points": 5}])
    assert np.isfinite(mean.grid).all() and mean.on_grid([math.nan]) == 0 and len(mean.grid) == 5


def test_names_tell_requests_apart():
    assert Request("age", "mean", 0.0, 1.0, points=2).name == "mean of age"
