"""Means over repeated runs with Student-t confidence intervals."""
from __future__ import annotations

import math
from statistics import fmean, stdev

from fate_dp.privacy.number_kinds import is_finite


class NoInterval(ValueError):
    """Values of which no mean or interval can be given."""


def interval(values, confidence: float = 0.95) -> dict:
    """``mean``, the ends ``low`` and ``high`` of its confidence interval, and the ``values`` themselves.

    The ends are mean -+ t * s / sqrt(n), with the quantile of Student's t at n - 1 degrees of freedom. A single value
    says nothing about spread: both ends are None. The interval has its confidence for independent, normal values;
    repeated splits of the same rows share most of them, so that theirs is somewhat too narrow for new rows.
    """
    from scipy.stats import t

    values = [_finite(value) for value in values]
    if not is_finite(confidence) or not 0 < confidence < 1:
        raise NoInterval(f"The confidence is {confidence!r}; it must be a number between 0 and 1.")
    if not values:
        raise NoInterval("An interval needs at least one value; there is none.")
    mean, count = fmean(values), len(values)
    if count == 1:
        return {"mean": mean, "low": None, "high": None, "values": values}
    reach = float(t.ppf((1 + confidence) / 2, count - 1)) * stdev(values) / math.sqrt(count)
    return {"mean": mean, "low": mean - reach, "high": mean + reach, "values": values}


def paired_difference(first: dict, second: dict, confidence: float = 0.95) -> dict:
    """The interval of ``first`` minus ``second``, two results of `interval` whose values belong together one by one."""
    if len(first["values"]) != len(second["values"]):
        raise NoInterval(
            f"A paired difference needs as many values on both sides; there are {len(first['values'])} "
            f"and {len(second['values'])}."
        )
    return interval([one - other for one, other in zip(first["values"], second["values"])], confidence)


def _finite(value) -> float:
    if not is_finite(value):
        raise NoInterval(f"The value {value!r} is among those of an interval; finite numbers are allowed.")
    return float(value)
