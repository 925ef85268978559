"""From shuffled answers to statistics with a standard error and an interval. No FATE here, no privacy cost.

The estimates are unbiased for values within the declared range (``grid_randomized_response``): a mean is the average
over records of a point that the answer stands for, stretched; a share is that of an indicator. A standard error is the
sample's: exact where the records are themselves a sample, and above the error of the answers alone otherwise. No
answer is rarer than its flips make it, so that few records in a category do not pass for certainty.
"""
from statistics import NormalDist

import numpy as np

from fate_dp.privacy.mechanisms.grid_randomized_response import estimate_histogram, estimate_mean
from fate_dp.privacy.mechanisms.randomized_response import flip_probability, keep_probability

from .requests import HISTOGRAM, MEAN, OTHER

CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def statistic(request, answers, epsilon0) -> dict:
    """The result of one request as builtins: a mean in the unit of the column, or a share per bin or value.

    Shares add up to 1, and may lie below 0 or above 1 within their error.

    :param answers: indices (n,) of the request's grid, n at least 1.
    """
    found = {"column": request.column, "kind": request.kind, "messages": len(answers)}
    likely, stretch = _likely(answers, request, epsilon0), _stretch(request, epsilon0)
    if request.kind == MEAN:
        spread = likely @ request.grid**2 - (likely @ request.grid) ** 2
        return {**found, **_estimate(estimate_mean(answers, request.grid, epsilon0), spread, stretch, len(answers))}
    shares = estimate_histogram(answers, request.grid, epsilon0)
    spreads = likely * (1 - likely)
    return {**found, "shares": [
        {**category, **_estimate(share, spread, stretch, len(answers))}
        for category, share, spread in zip(_categories(request), shares.tolist(), spreads.tolist())
    ]}  # fmt: skip


def _likely(answers, request, epsilon0):
    """Probability of each answer for a record drawn at random, estimated, and at least that of a flip to it."""
    classes = len(request.grid)
    seen = np.bincount(answers, minlength=classes) / len(answers)
    likely = np.maximum(seen, flip_probability(epsilon0, classes) / (classes - 1))
    return likely / likely.sum()


def _stretch(request, epsilon0):
    """By how much an estimate moves when the share of an answer does."""
    classes = len(request.grid)
    return 1 / (keep_probability(epsilon0, classes) - flip_probability(epsilon0, classes) / (classes - 1))


def _estimate(value, spread, stretch, records):
    error = float(stretch * np.sqrt(max(spread, 0.0) / records))
    return {"estimate": value, "standard_error": error,
            "interval": [value - QUANTILE * error, value + QUANTILE * error]}  # fmt: skip


def _categories(request):
    if request.kind == HISTOGRAM:
        edges = request.edges.tolist()
        return [{"from": low, "to": high} for low, high in zip(edges, edges[1:])]
    return [*({"value": value} for value in request.values), {"value": OTHER}]
