"""Audits that can fail: beside every claim stands a control, the same without privacy, which the attack must break.

An attack too weak to see a leak finds none anywhere. So ``audit_claim`` runs it on the control as well, and an audit whose
control was not broken is void, whatever it found. Both attacks give *lower* bounds, wrong with probability at most
1 - confidence: the distinguishing game over many runs on two neighbouring inputs (Jagielski et al. 2020, Nasr et al. 2023),
and guesses of many canaries' coins in one run (`privacy.auditing.bounds`). Epsilons in nats; mu without unit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from fate_dp.privacy.auditing.bounds import MAX_EPSILON, Array, _p_value, check_counts, clopper_pearson, one_run_epsilon
from fate_dp.privacy.validation import InvalidArgument, strictly_within, within

MAX_THRESHOLDS = 100


Gain = Callable[[Array, Array], Array]


Mechanism = TypeVar("Mechanism")


@dataclass(frozen=True)
class Audit:
    """What an attack found, all in its unit (epsilon in nats, or mu).

    ``claimed`` is the upper bound that was claimed, ``found`` and ``control`` lower bounds on mechanism and control.
    """

    claimed: float
    found: float
    control: float

    @property
    def refutes(self) -> bool:
        """Whether the mechanism leaks more than claimed, at the confidence of the attack."""
        return self.found > self.claimed


def audit_claim(
    attack: Callable[[Mechanism], float], mechanism: Mechanism, control: Mechanism, claimed: float
) -> Audit:
    """Audit a claimed upper bound, in the unit of what ``attack`` returns of a mechanism: a lower bound.

    ``control`` is the mechanism without privacy. Raises `RuntimeError` where the audit is void: the bound on the
    control does not exceed the claim, or that on the mechanism is NaN.
    """
    broken = attack(control)
    if not broken > claimed:
        raise RuntimeError(
            f"The audit is void: on the control without privacy the attack proves no more than {broken:.4g}, "
            f"which does not exceed the claim of {claimed:.4g}."
        )
    found = attack(mechanism)
    if math.isnan(found):
        raise RuntimeError(
            "The audit is void: on the mechanism the attack gives NaN, which refutes nothing whatever leaks."
        )
    return Audit(claimed=claimed, found=found, control=broken)


def epsilon_lower_bound(first: ArrayLike, second: ArrayLike, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on epsilon, in nats, of a mechanism from scores of independent runs on two neighbouring inputs.

    n runs per input can prove at most about ln(n / (2 ln(2 / (1 - confidence)))). 0 when nothing is refuted.

    Args:
        first, second: Scores on either input, at least 4 finite numbers; no run may depend on another.
        delta: The delta at which epsilon is bounded, from 0 to 1.
        confidence: Probability with which the bound is at most the true epsilon.
    """
    delta = within("delta", delta, 0, 1)

    def gain(likely: Array, unlikely: Array) -> Array:
        return np.asarray(np.log(np.maximum(likely - delta, 1e-300) / unlikely))

    return _lower_bound(first, second, gain, confidence)


def mu_lower_bound(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> float:
    """Lower bound on mu of a mechanism that is claimed to be mu-Gaussian differentially private.

    Under mu-GDP no set has Phi^-1(P) - Phi^-1(Q) above mu. The unsampled Gaussian mechanism is exactly
    1 / noise multiplier-GDP, and a bound on mu needs far fewer runs than one on epsilon, whose sets are rare.
    Sampled Gaussians are not GDP with that mu. Parameters as in ``epsilon_lower_bound``.
    """
    from scipy.special import ndtri

    return _lower_bound(first, second, lambda likely, unlikely: ndtri(likely) - ndtri(unlikely), confidence)


def _lower_bound(first: ArrayLike, second: ArrayLike, gain: Gain, confidence: float) -> float:
    """``gain`` of the set that looked best on the first half, at the Clopper-Pearson bounds of the second half."""
    error = (1 - strictly_within("confidence", confidence, 0, 1)) / 2
    (chosen, held), (other_chosen, other_held) = _halves("first", first), _halves("second", second)
    values = np.unique(np.concatenate([chosen, other_chosen]))
    thresholds = values[np.unique(np.linspace(0, len(values) - 1, MAX_THRESHOLDS).astype(int))]
    promised = _gains(chosen, other_chosen, thresholds, gain, error)
    order, position = np.unravel_index(np.argmax(promised), promised.shape)
    kept = _gains(held, other_held, thresholds[position : position + 1], gain, error)
    return max(float(kept[order, 0]), 0.0)


def _gains(first: Array, second: Array, thresholds: Array, gain: Gain, error: float) -> Array:
    """Gain of every candidate set: a row per side of the threshold and order of the inputs, a column per threshold."""
    above = [np.searchsorted(np.sort(-scores), -thresholds, side="right") for scores in (first, second)]
    below = [len(scores) - count for scores, count in zip((first, second), above)]
    rows = []
    for in_first, in_second in (above, below):
        first_low, first_high = clopper_pearson(in_first, len(first), error)
        second_low, second_high = clopper_pearson(in_second, len(second), error)
        rows += [gain(first_low, second_high), gain(second_low, first_high)]
    return np.array(rows)


def _halves(name: str, given: ArrayLike) -> tuple[Array, Array]:
    scores = np.asarray(given, dtype=float)
    if scores.ndim != 1 or len(scores) < 4 or not np.isfinite(scores).all():
        raise InvalidArgument(f"{name} must hold the scores of at least 4 runs, finite numbers.")
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float = 0.0) -> float:
    """Bound on the probability of ``correct`` or more correct guesses under every (epsilon, delta)-private mechanism.

    With W ~ Binomial(guesses, 1 / (e^epsilon + 1)) wrong guesses and w = guesses - correct, it is P[W <= w] + 2 delta
    canaries max_i P[w < W <= w + i] / i, at most 1; for delta 0 the binomial tail alone. ``canaries`` are all coins
    that were tossed, those on which the auditor abstains among them.
    """
    check_counts(canaries, guesses, correct)
    epsilon = within("epsilon", epsilon, 0, MAX_EPSILON)
    return _p_value(canaries, guesses, correct, epsilon, within("delta", delta, 0, 1))


def audit_guesses(coins: ArrayLike, guesses: ArrayLike, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Lower bound on epsilon (``one_run_epsilon``) from the coins of one run and what the auditor guessed.

    ``coins`` holds +1 or -1 per canary, as tossed before the run, ``guesses`` +1, -1 or 0 (abstain).
    """
    coins, guesses = np.asarray(coins), np.asarray(guesses)
    if coins.ndim != 1 or coins.shape != guesses.shape:
        raise InvalidArgument.of("guesses", guesses, f"one per coin, shape {coins.shape}")
    if not np.isin(coins, (-1, 1)).all() or not np.isin(guesses, (-1, 0, 1)).all():
        raise InvalidArgument("coins must hold -1 and 1 only, guesses -1, 0 and 1.")
    guessed, correct = int((guesses != 0).sum()), int((guesses == coins).sum())
    return one_run_epsilon(len(coins), guessed, correct, delta, confidence)
