"""What one record pays for its messages, and the epsilon0 of a message that a total allows. No FATE in here.

Unit: record; relation: replace-one; epsilon in nats. Every record sends one message per request, and each request is a
round of its own: messages of two requests are shuffled apart, so that nothing links a record's answers.

Observers: the server, who sees every request's shuffled answers; whoever gets the statistics, which are computed from
them; and another data party, who besides knows its own answers. For the latter only messages of the others hide a
record, hence ``min_messages`` counts those. The shuffler sees ciphertexts alone. Shuffler and server together see who
sent what: against both, a record pays epsilon0 for each request.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from fate_dp.privacy.accounting.calibration import least_enough
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, Shuffled
from fate_dp.privacy.mechanisms.randomized_response import (
    estimate_histogram,
    estimate_mean,
    flip_probability,
    keep_probability,
)

from ..common.federation import Document
from .settings import HISTOGRAM, MEAN, OTHER, Request, Settings

OBSERVERS = ("server", "client", "model")
MAX_EPSILON0 = 20.0
# Relative: how far below the largest epsilon0 that is allowed the result may lie.
TOLERANCE = 1e-3


def events_of(requests: Sequence[Request], epsilon0: float, min_messages: int) -> list:
    """[(purpose, event)], one per request."""
    shuffled = [(request, Shuffled(epsilon0, min_messages, request.randomizer)) for request in requests]
    return [
        (f"shuffler: {request.name}", Event(process, "record", REPLACE_ONE, OBSERVERS)) for request, process in shuffled
    ]


def epsilon_of(requests: Sequence[Request], epsilon0: float, min_messages: int, delta: float) -> float:
    """Epsilon (nats) at ``delta`` of one record over all requests, an upper bound; privacy.accounting.total."""
    return total_epsilon([(event, 1) for _, event in events_of(requests, epsilon0, min_messages)], delta)


def calibrated_epsilon0(requests: Sequence[Request], epsilon: float, delta: float, min_messages: int) -> float:
    """Largest epsilon0 (nats), within 0.1 %, for which `epsilon_of` is at most ``epsilon``."""

    def excess(log_inverse: float) -> float:
        return math.log(epsilon_of(requests, 1 / math.exp(log_inverse), min_messages, delta) / epsilon)

    # Without any amplification the epsilons add up, so this much fits always.
    enough, too_much = epsilon / len(requests) * (1 - 2**-40), max(MAX_EPSILON0, epsilon)
    if epsilon_of(requests, too_much, min_messages, delta) <= epsilon:
        return too_much
    found = least_enough(excess, 1 / too_much, 1e12, TOLERANCE)
    return enough if found is None else 1 / found


CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def statistic(request: Request, answers: np.ndarray, epsilon0: float) -> Document:
    """The result of one request as builtins: a mean in the unit of the column, or a share per bin or value.

    Answers are indices (n,) of the request's grid. The estimates are unbiased for values within the declared range
    (``grid_randomized_response``): a mean is the average over records of a point that the answer stands for, stretched; a
    share is that of an indicator. Shares add up to 1, and may lie below 0 or above 1 within their error. A standard error
    is the sample's: exact where the records are themselves a sample, and above the error of the answers alone otherwise.
    No answer is rarer than its flips make it, so that few records in a category do not pass for certainty.
    """
    found = {"column": request.column, "kind": request.kind, "messages": len(answers)}
    likely, classes = _likely(answers, request, epsilon0), len(request.grid)
    # By how much an estimate moves when the share of an answer does.
    stretch = 1 / (keep_probability(epsilon0, classes) - flip_probability(epsilon0, classes) / (classes - 1))
    if request.kind == MEAN:
        spread = likely @ request.grid**2 - (likely @ request.grid) ** 2
        return {**found, **_estimate(estimate_mean(answers, request.grid, epsilon0), spread, stretch, len(answers))}
    shares = estimate_histogram(answers, request.grid, epsilon0)
    spreads = likely * (1 - likely)
    return {
        **found,
        "shares": [
            {**category, **_estimate(share, spread, stretch, len(answers))}
            for category, share, spread in zip(_categories(request), shares.tolist(), spreads.tolist())
        ],
    }


def _likely(answers: np.ndarray, request: Request, epsilon0: float) -> np.ndarray:
    """Probability of each answer for a record drawn at random, estimated, and at least that of a flip to it."""
    classes = len(request.grid)
    seen = np.bincount(answers, minlength=classes) / len(answers)
    likely = np.maximum(seen, flip_probability(epsilon0, classes) / (classes - 1))
    return likely / likely.sum()


def _estimate(value: float, spread: float, stretch: float, records: int) -> Document:
    error = float(stretch * np.sqrt(max(spread, 0.0) / records))
    interval = [value - QUANTILE * error, value + QUANTILE * error]
    return {"estimate": value, "standard_error": error, "interval": interval}


def _categories(request: Request) -> list[Document]:
    if request.kind == HISTOGRAM:
        edges = request.edges.tolist()
        return [{"from": low, "to": high} for low, high in zip(edges, edges[1:])]
    return [*({"value": value} for value in request.values), {"value": OTHER}]


POOLED = "epsilon if shuffler and server pool what they see"
"""Nats, delta 0, of one record."""
# Relative: from here on a reader may ask why epsilon is not what was asked for.
NOTICEABLE = 0.02
WHY_LESS = (
    "bounds for shuffling are proved up to epsilon0 = ln(messages / (16 ln(4 / delta))) only, where epsilon is this; with a "
    "larger epsilon0 a record would pay all of it"
)


def document(terms: Document, statistics: list[Document] | None) -> Document:
    """The model document; ``statistics`` is None at the shuffler, which gets none."""
    settings, epsilon0 = Settings.from_json(terms["settings"]), terms["epsilon0"]
    privacy = {
        "unit": "record",
        "relation": "replace_one",
        "observers": list(OBSERVERS),
        "epsilon": terms["epsilon"],
        "delta": settings.delta,
        "epsilon0": epsilon0,
        POOLED: len(settings.requests) * epsilon0,
    }
    meta = {**terms["settings"], "privacy": privacy, "confidence": CONFIDENCE}
    return {"meta": meta, "data": {"statistics": statistics}}


def summary(result: Document, records: int) -> Document:
    """Flat scalars for FATE-Board, of a document with statistics."""
    meta, privacy = result["meta"], result["meta"]["privacy"]
    facts = {
        "mechanism": "randomised response on the values of columns, one shuffled message per record and request",
        "epsilon (nats, unit record, replace-one)": privacy["epsilon"],
        "delta": privacy["delta"],
        "observers": ", ".join(privacy["observers"]),
        "epsilon0 of one message (nats)": privacy["epsilon0"],
        POOLED: privacy[POOLED],
        "min_messages": meta["min_messages"],
        "records of this party": records,
        "records of all parties": result["data"]["statistics"][0]["messages"],
    }
    asked = meta["epsilon"]
    if asked is not None and privacy["epsilon"] < asked * (1 - NOTICEABLE):
        facts[f"why less than epsilon {asked:g}"] = WHY_LESS
    for item in result["data"]["statistics"]:
        facts.update(_lines(item))
    return facts


def _lines(item: Document) -> Document:
    if item["kind"] == MEAN:
        found = {f"mean of {item['column']}": item}
    else:
        found = {f"share of {item['column']} {_place(share)}": share for share in item["shares"]}
    lines: dict[str, float] = {}
    for name, each in found.items():
        lines |= {name: each["estimate"], f"{name}, standard error": each["standard_error"]}
    return lines


def _place(share: Document) -> str:
    return f"= {share['value']}" if "value" in share else f"from {share['from']:g} to {share['to']:g}"
