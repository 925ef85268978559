"""Logarithms of binomial probabilities with a bound on their rounding error, so that sums of them can be made safe."""
import numpy as np

# In units of the size of the terms: four roundings of 2^-53 each and the library's log-gamma, with room to spare.
RELATIVE_ERROR = 1e-15


def log_binomial(trials, log_success, log_failure):
    """ln P(k successes) for k = 0 .. ``trials``, and an upper bound on the absolute error of every one of them.

    :param trials: whole number of at least 0.
    :param log_success, log_failure: ln of the probability of success and failure of one trial, both finite.
    """
    from scipy.special import gammaln

    successes = np.arange(trials + 1, dtype=float)
    failures = trials - successes
    log_ways = gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(failures + 1.0)
    logarithms = log_ways + successes * log_success + failures * log_failure
    size = 1.0 + 3 * gammaln(trials + 1.0) + trials * (abs(log_success) + abs(log_failure))
    return logarithms, RELATIVE_ERROR * float(size)
