"""How much audits prove, whether they catch deliberate faults, and how often they accuse what is sound.

    python -m bench.audit_certificate [--quick]

``audit_share``: lower bound over claimed epsilon of a Gaussian sum in nine rounds, epsilon 4, delta 1e-5, 1,000 canaries,
one run, 95 % confidence; the median of 21 such audits. ``mutants_caught``: the share of seven faults, each put into the
product from outside, whose certificate says ``refuted``. ``false_alarms``: certificates of the sound product, 40 of each
mechanism, whose lower bound at confidence 1 - 1e-5 exceeds the claim. The last line printed is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from fate_dp.privacy import label_flips
from fate_dp.privacy.accounting.accountant import Accountant
from fate_dp.privacy.auditing.certificate import REFUTED, Certificate
from fate_dp.privacy.auditing.games import GAMES, audit_mechanism
from fate_dp.privacy.mechanisms import clipping, gaussian
from fate_dp.privacy.noise.discrete import discrete_gaussian
from fate_dp.privacy.noise.stream import ReproducibleStream

EPSILON, DELTA, CANARIES, CONFIDENCE = 4.0, 1e-5, 1000, 0.95
FLIP_EPSILON = 1.0
SHARES, FALSE_ALARM_RUNS, FALSE_ALARM_CANARIES = 21, 200, 300
SUM, FLIPS = "gaussian_mechanism", "flip_labels"

sensitivity_in_steps = clipping.ClippedSum.sensitivity_in_steps
flip_labels, compose = label_flips.flip_labels, Accountant.compose


def _noise_off(sigma, size, rng=None):
    return np.zeros(size, dtype=np.int64)


def _noise_halved(sigma, size, rng=None):
    return discrete_gaussian(sigma / 2, size, rng)


def _clip_off(rows, clip, grid):
    return np.rint(rows / grid).astype(np.int64)


def _fresh_flips(match_ids, labels, epsilon, classes, key, source):
    return flip_labels(match_ids, labels, epsilon, classes, os.urandom(32), source)


def _count_ignored(accountant, event, count=1):
    compose(accountant, event)


def _sensitivity_understated(clipped, relation):
    return sensitivity_in_steps(clipped, relation) / 2


# What is broken: (object, name, replacement), and the mechanism whose audit must notice.
MUTANTS: dict[str, tuple[object, str, Callable, str]] = {
    "noise off": (gaussian, "discrete_gaussian", _noise_off, SUM),
    "noise halved": (gaussian, "discrete_gaussian", _noise_halved, SUM),
    "clip off": (clipping, "_clipped_steps", _clip_off, SUM),
    "fresh flips": (label_flips, "flip_labels", _fresh_flips, FLIPS),
    "fixed seed": (os, "urandom", bytes, SUM),
    "count ignored": (Accountant, "compose", _count_ignored, SUM),
    "sensitivity understated": (clipping.ClippedSum, "sensitivity_in_steps", _sensitivity_understated, SUM),
}


def audit(mechanism: str, seed: int | None, canaries: int = CANARIES) -> Certificate:
    """One audit at the benchmark's settings; ``seed`` None is real entropy."""
    epsilon = EPSILON if mechanism == SUM else FLIP_EPSILON
    rng = None if seed is None else ReproducibleStream(seed)
    return audit_mechanism(mechanism, epsilon, DELTA, canaries, CONFIDENCE, rng)


def audit_of_mutant(name: str) -> Certificate:
    """The certificate of the product with one fault; coins and noise are fresh, but where the fault fixes them."""
    target, attribute, replacement, mechanism = MUTANTS[name]
    with patch.object(target, attribute, replacement):
        return audit(mechanism, None)


def shares(runs: int = SHARES) -> list[float]:
    """Lower bound over claim of so many audits of one run each."""
    certificates = [audit(SUM, seed) for seed in range(runs)]
    return [each.found.epsilon / each.claim.epsilon for each in certificates if each.found is not None]


def false_alarms(runs: int = FALSE_ALARM_RUNS) -> int:
    """How many of so many audits of sound mechanisms, in turn, prove more than is claimed at confidence 1 - 1e-5."""
    names = list(GAMES)
    certificates = [audit(names[run % len(names)], 1000 + run, FALSE_ALARM_CANARIES) for run in range(runs)]
    return sum(each.refuting is not None and each.refuting.epsilon > each.claim.epsilon for each in certificates)


def figures(quick: bool = False) -> tuple[dict[str, float], dict[str, Certificate]]:
    """The three figures, and the certificate of each mutant."""
    mutants = {name: audit_of_mutant(name) for name in MUTANTS}
    caught = sum(each.verdict == REFUTED for each in mutants.values())
    found = {
        "audit_share": round(median(shares(5 if quick else SHARES)), 4),
        "mutants_caught": caught / len(mutants),
        "false_alarms": false_alarms(20 if quick else FALSE_ALARM_RUNS),
    }
    return found, mutants


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few audits, in half a minute")
    found, mutants = figures(parser.parse_args().quick)
    table = Table("fault", "verdict", "reason", title="Deliberate faults")
    for name, certificate in mutants.items():
        table.add_row(name, certificate.verdict, certificate.reason)
    Console().print(table)
    print(json.dumps({"bench": "audit_certificate", "figures": found}))


if __name__ == "__main__":
    main()
