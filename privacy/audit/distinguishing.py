"""The distinguishing game: many runs on two neighbouring inputs, and how well an observer tells them apart.

The observer reduces every run to one number, the score. A set of scores (one side of a threshold) is chosen on the
first half of the runs; on the second half, Clopper-Pearson intervals bound its probability P under one input from below
and its probability Q under the other from above. (epsilon, delta)-differential privacy means P <= e^epsilon Q + delta
for every set and both orders of the inputs, so ln((P - delta) / Q) is a *lower* bound on epsilon, wrong with
probability at most 1 - confidence over the runs. Choosing on one half and measuring on the other is what makes the
bound hold for any number of candidate sets. The relation is that in which the caller's two inputs are neighbours.

Units: epsilon in nats; mu without unit. References: M. Jagielski, J. Ullman and A. Oprea, "Auditing differentially
private machine learning: how private is private SGD?", NeurIPS 2020, for the game; M. Nasr et al., "Tight auditing of
differentially private machine learning", USENIX Security 2023, for the bound on mu; J. Dong, A. Roth and W. J. Su,
"Gaussian differential privacy", JRSS B 84 (2022), for mu itself.
"""
import numpy as np

from fate_dp.privacy.audit.checks import InvalidAudit, check_number

MOST_THRESHOLDS = 100


def epsilon_lower_bound(first, second, delta=0.0, confidence=0.95):
    """Lower bound on epsilon, in nats, of a mechanism from scores of independent runs on two neighbouring inputs.

    n runs per input can prove at most about ln(n / (2 ln(2 / (1 - confidence)))). 0 when nothing is refuted.

    :param first: scores on one input, at least 4 finite numbers; no run may depend on another.
    :param second: scores on the other input.
    :param delta: the delta at which epsilon is bounded, from 0 to 1.
    :param confidence: probability with which the bound is at most the true epsilon.
    :raises InvalidAudit: outside those ranges.
    """
    delta = check_number("delta", delta, 0, 1)

    def gain(likely, unlikely):
        return np.log(np.maximum(likely - delta, 1e-300) / unlikely)

    return _lower_bound(first, second, gain, confidence)


def mu_lower_bound(first, second, confidence=0.95):
    """Lower bound on mu of a mechanism that is claimed to be mu-Gaussian differentially private.

    Under mu-GDP no set has Phi^-1(P) - Phi^-1(Q) above mu. The unsampled Gaussian mechanism is exactly
    1 / noise multiplier-GDP, and a bound on mu needs far fewer runs than one on epsilon, whose sets are rare.
    Sampled Gaussians are not GDP with that mu. Parameters as in ``epsilon_lower_bound``.
    """
    from scipy.special import ndtri

    return _lower_bound(first, second, lambda likely, unlikely: ndtri(likely) - ndtri(unlikely), confidence)


def clopper_pearson(successes, trials, error):
    """Lower and upper bound on a probability, each wrong with probability at most ``error``; vectorised in successes.

    Reference: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", Biometrika 26 (1934).
    """
    from scipy.stats import beta

    successes = np.asarray(successes)
    with np.errstate(invalid="ignore"):
        lower = np.where(successes > 0, beta.ppf(error, successes, trials - successes + 1), 0.0)
        upper = np.where(successes < trials, beta.isf(error, successes + 1, trials - successes), 1.0)
    return lower, upper


def _lower_bound(first, second, gain, confidence):
    """``gain`` of the set that looked best on the first half, at the Clopper-Pearson bounds of the second half."""
    error = (1 - check_number("confidence", confidence, 0, 1, is_open=True)) / 2
    (first, first_held), (second, second_held) = _halves("first", first), _halves("second", second)
    thresholds = _thresholds(np.concatenate([first, second]))
    promised = _gains(first, second, thresholds, gain, error)
    order, position = np.unravel_index(np.argmax(promised), promised.shape)
    kept = _gains(first_held, second_held, thresholds[position : position + 1], gain, error)
    return max(float(kept[order, 0]), 0.0)


def _gains(first, second, thresholds, gain, error):
    """Gain of every candidate set: a row per side of the threshold and order of the inputs, a column per threshold."""
    above = [np.searchsorted(np.sort(-scores), -thresholds, side="right") for scores in (first, second)]
    below = [len(scores) - count for scores, count in zip((first, second), above)]
    rows = []
    for in_first, in_second in (above, below):
        first_low, first_high = clopper_pearson(in_first, len(first), error)
        second_low, second_high = clopper_pearson(in_second, len(second), error)
        rows += [gain(first_low, second_high), gain(second_low, first_high)]
    return np.array(rows)


def _halves(name, scores):
    scores = np.asarray(scores, dtype=float)
    if scores.ndim != 1 or len(scores) < 4 or not np.isfinite(scores).all():
        raise InvalidAudit(f"{name} must hold the scores of at least 4 runs, finite numbers.")
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def _thresholds(scores):
    values = np.unique(scores)
    return values[np.unique(np.linspace(0, len(values) - 1, MOST_THRESHOLDS).astype(int))]
