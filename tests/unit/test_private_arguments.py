"""A mechanism that cannot use a private value tells its own party why, and others one fixed sentence."""

import numpy as np
import pytest

from fate_dp.components.protocols.preflight import _attempt
from fate_dp.privacy.bins import ColumnBins
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.label_flips import canonical_label, flip_labels
from fate_dp.privacy.mechanisms.exponential import exponential_mechanism
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism, laplace_mechanism
from fate_dp.privacy.mechanisms.local_numbers import piecewise_mechanism
from fate_dp.privacy.mechanisms.quantiles import private_quantiles
from fate_dp.privacy.mechanisms.randomized_response import flip_indices

STATED = {"relation": REPLACE_ONE, "observers": "host"}
REFUSED = {
    "laplace": lambda: laplace_mechanism(np.nan, 1.0, 1.0, **STATED),
    "counts": lambda: geometric_mechanism(1.5, 1, 1.0, **STATED),
    "scores": lambda: exponential_mechanism([1.0, np.inf], 1.0, 1.0),
    "indices": lambda: flip_indices([0, 2], 1.0, 2),
    "bounded number": lambda: piecewise_mechanism([3.0], (0.0, 1.0), 1.0, observers="host"),
    "cells": lambda: private_quantiles([3, -1], 1, 1.0),
    "label": lambda: canonical_label(np.nan),
    "label index": lambda: flip_labels(["a"], [2], 1.0, 2, b"k" * 32, "a/b/y"),
    "match id": lambda: flip_labels([1.5], [1], 1.0, 2, b"k" * 32, "a/b/y"),
    "bin": lambda: ColumnBins("income", cuts=(0.5,), missing=False).codes(np.array([np.nan])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_get_one_sentence_whatever_the_private_value_is(name):
    class Host:
        class federation:
            local_party = ("host", "10000")

    attempt = _attempt(Host, REFUSED[name])
    assert attempt.problem == "host 10000: A private value cannot be used; that party's log says why."
    assert attempt.detail != attempt.problem
