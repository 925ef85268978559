"""The audit with one run: many canaries in one run of a mechanism, each taking part by a fair coin of its own.

Every canary is a unit of its own (a record, or a label) and its coin decides between two neighbouring inputs: present
or absent under add-or-remove, one of two public values under replace-one. From the output of the single run the auditor
guesses some of the coins and abstains on the rest. If the mechanism is (epsilon, delta)-differentially private under
that relation, the number of correct guesses is nearly dominated by Binomial(guesses, e^epsilon / (e^epsilon + 1)); too
many correct guesses refute the claim. So the answer is a *lower* bound on epsilon, wrong with probability at most
1 - confidence over the coins and the mechanism. It says nothing of what a better attack would find: for Gaussian noise
it stays far under the true epsilon, for randomised response with a canary per label it is tight.

Units: epsilon in nats. Reference: T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training run",
NeurIPS 2023 (arXiv 2305.08846): algorithm 1 for the guesses, theorem 5.2 and appendix D for the p-value.
"""
import math

import numpy as np

from fate_dp.privacy.audit.checks import InvalidAudit, check_count, check_number

LARGEST_EPSILON = 700.0
BISECTIONS = 60


def one_run_p_value(canaries, guesses, correct, epsilon, delta=0.0):
    """Bound on the probability of ``correct`` or more correct guesses under every (epsilon, delta)-private mechanism.

    With W ~ Binomial(guesses, 1 / (e^epsilon + 1)) wrong guesses and w = guesses - correct, it is
    P[W <= w] + 2 delta canaries max_i P[w < W <= w + i] / i, at most 1; for delta 0 the binomial tail alone.

    :param canaries: number of coins tossed, including those on which the auditor abstains.
    :param guesses: number of coins guessed, at most ``canaries``.
    :param correct: number of right guesses, at most ``guesses``.
    :raises InvalidAudit: outside those ranges.
    """
    _check_counts(canaries, guesses, correct)
    epsilon = check_number("epsilon", epsilon, 0, LARGEST_EPSILON)
    return _p_value(canaries, guesses, correct, epsilon, check_number("delta", delta, 0, 1))


def one_run_epsilon(canaries, guesses, correct, delta=0.0, confidence=0.95):
    """Lower bound on epsilon, in nats: below it ``one_run_p_value`` is under 1 - confidence. 0 when nothing is refuted.

    Parameters as in ``one_run_p_value``. The bound is rounded down.

    :param confidence: probability, over coins and mechanism, with which the bound is at most the true epsilon.
    """
    _check_counts(canaries, guesses, correct)
    delta = check_number("delta", delta, 0, 1)
    error = 1 - check_number("confidence", confidence, 0, 1, is_open=True)
    refuted, standing = 0.0, LARGEST_EPSILON
    for _ in range(BISECTIONS):
        middle = (refuted + standing) / 2
        if _p_value(canaries, guesses, correct, middle, delta) < error:
            refuted = middle
        else:
            standing = middle
    return refuted


def guess_coins(scores, guessed_heads, guessed_tails):
    """The guesses of algorithm 1: +1 for the highest scores, -1 for the lowest, 0 (abstain) between.

    :param scores: one number per canary, the higher the likelier its coin showed heads (present).
    :param guessed_heads: how many to guess as +1; like ``guessed_tails`` (-1) fixed before the run.
    :raises InvalidAudit: when more guesses are asked for than there are canaries, or a score is not a finite number.
    """
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise InvalidAudit("scores must be a list of finite numbers, one per canary.")
    heads = check_count("guessed_heads", guessed_heads, 0, len(scores))
    tails = check_count("guessed_tails", guessed_tails, 0, len(scores) - heads)
    order = np.argsort(scores, kind="stable")
    guesses = np.zeros(len(scores), dtype=np.int64)
    guesses[order[:tails]] = -1
    guesses[order[len(order) - heads:]] = 1
    return guesses


def audit_guesses(coins, guesses, delta=0.0, confidence=0.95):
    """Lower bound on epsilon (``one_run_epsilon``) from the coins of one run and what the auditor guessed.

    :param coins: +1 or -1 per canary, as tossed before the run.
    :param guesses: +1, -1 or 0 (abstain) per canary.
    :raises InvalidAudit: when the two do not fit.
    """
    coins, guesses = np.asarray(coins), np.asarray(guesses)
    if coins.ndim != 1 or coins.shape != guesses.shape:
        raise InvalidAudit(f"guesses has shape {guesses.shape} but must have one value per coin, {coins.shape}.")
    if not np.isin(coins, (-1, 1)).all() or not np.isin(guesses, (-1, 0, 1)).all():
        raise InvalidAudit("coins must hold -1 and 1 only, guesses -1, 0 and 1.")
    guessed, correct = int((guesses != 0).sum()), int((guesses == coins).sum())
    return one_run_epsilon(len(coins), guessed, correct, delta, confidence)


def _check_counts(canaries, guesses, correct):
    check_count("canaries", canaries, 1, 10**9)
    check_count("guesses", guesses, 0, canaries)
    check_count("correct", correct, 0, guesses)


def _p_value(canaries, guesses, correct, epsilon, delta):
    from scipy.stats import binom

    # In wrong guesses rather than right ones: their probability keeps its digits at large epsilon, where 1 - it is 1.
    wrong, rate = guesses - correct, 1 / (1 + math.exp(epsilon))
    tail = float(binom.cdf(wrong, guesses, rate))
    if delta == 0 or correct == 0:
        return min(tail, 1.0)
    further = np.cumsum(binom.pmf(np.arange(wrong + 1, guesses + 1), guesses, rate))
    steepest = float(np.max(further / np.arange(1, correct + 1)))
    return min(tail + 2 * delta * canaries * steepest, 1.0)
