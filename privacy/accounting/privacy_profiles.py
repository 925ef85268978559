"""Privacy profiles: the smallest delta at every epsilon of one release, from which a PLD accountant composes.

A profile is epsilon -> H(epsilon) = sup over events S of P(S) - e^epsilon Q(S), where (P, Q) is a pair that dominates
the mechanism: no neighbouring inputs are easier to tell apart at any real epsilon (nats, negative ones included).
Composing dominating pairs dominates the adaptive composition (Zhu, Dong and Wang, "Optimal accounting of differential
privacy via characteristic function", AISTATS 2022, theorem 10). Where two pairs are needed (a record added, a record
removed) each is composed on its own and the worse answer counts; which of the two it is stays the same throughout.

Why the pairs dominate. The clip is 1, s the noise multiplier, q the sampling rate, phi_v the density of N(v, s^2 I).

- *Randomised response, pure DP*: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy", ICML
  2015: randomised response itself; binary randomised response of the same epsilon for any pure mechanism.
- *Exponential mechanism*: epsilon-bounded range (Durfee and Rogers, NeurIPS 2019) puts the loss into [t - epsilon, t]
  for some t. At given t the worst loss takes the two ends only, since the hockey stick is convex in e^-loss; maximising
  over t gives H(x) = (e^(epsilon/2) - e^(x/2))^2 / (e^epsilon - 1) on [-epsilon, epsilon].
- *Laplace, also on vectors*: min(f(y), a f(y - v)) is log-concave in (y, v) for log-concave f, so 1 - H is log-concave
  in the shift v (Prekopa) and H is largest at a corner of the l1 ball: one coordinate moves by the whole sensitivity.
- *Gaussian*: Balle and Wang, ICML 2018, theorem 8.
- *Poisson sampling, add-or-remove*: Zhu, Dong and Wang, theorem 11; or as follows, with x or x' = 0.
- *Poisson sampling, replace-one*: given the other sampled records, P = (1 - q) N(0) + q N(x) and
  Q = (1 - q) N(0) + q N(x') with |x|, |x'| <= 1; mixing over the others only lowers H. With a = e^epsilon >= 1 and
  c = (1 - q)(a - 1) / q, H = q int [phi_0 - a phi_u - c phi_v]_+ where v = -x and u = x' - x. The integrand is a convex
  function of a sum of two exponentials of correlated normals, so with |u|, |v| fixed H grows with their covariance
  <u, v> (Slepian; Price) and is largest when u and v point the same way. On a line the best event is a half-line
  {y < y*}, whose value Phi(y*) - a Phi(y* - |u|) - c Phi(y* - |v|), in units of s, grows with |u| and with |v|. Hence
  |v| = 1, |u| = 2: the pair x = -1, x' = 1, which dp-accounting uses without a proof. For a < 1 swap P and Q: the pair
  is its own mirror image. ``tests/unit/test_accountant.py`` tries vectors in the plane against it.
- *Fixed size, replace-one*: given the other m - 1 records of the batch and the one that would stand in, the same with
  |u|, |v| <= 2. So removing under sensitivity 2 for a >= 1, adding for a < 1. Each is the larger of the two where it
  counts, so the profile is their maximum. It has to be composed as one profile: composing the two directions apart
  would be too low (Lebeda, Regehr, Kamath and Steinke, "Avoiding pitfalls for privacy accounting of subsampled
  mechanisms under composition", 2024).
- *Shuffled*: ``hiding_among_clones``.

Every function below is vectorised over epsilon, and its rounding errors are small beside the sampling rate, not beside
1. The tails left out by ``lowest`` and ``highest`` weigh less than 1e-22.
"""
import math
from dataclasses import dataclass
from typing import Callable

import numpy as np
from scipy.special import log_ndtr, ndtr

from fate_dp.privacy import events

TAIL = 10.0
# Losses of more than this squared are beyond every grid; beyond it, squares would overflow.
LARGEST_MU = 1e100
# A smaller mu, and a smaller product of sampling rate and mu, are rounded up, which never lowers a delta.
LEAST_LOSS = 1e-15
LEAST_MU = 1e-12


@dataclass(frozen=True)
class PrivacyProfile:
    """``delta(epsilon array)`` of one dominating pair, and the range outside of which its loss hardly ever lies."""

    delta: Callable
    lowest: float
    highest: float


def profiles(process, relation):
    """The profiles of one release of ``process``: one where it is symmetric, else (remove, add).

    :raises KeyError: when no dominating pair is known; ask ``HAS_PROFILE`` first.
    """
    return HAS_PROFILE[type(process)](process, relation)


def gaussian_profile(mu):
    """Profile of N(mu, 1) against N(0, 1)."""

    def delta(epsilon):
        return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))

    reach = mu**2 / 2 + TAIL * mu
    return PrivacyProfile(delta, -reach, reach)


def _randomized_response(process, _):
    epsilon, others = process.epsilon, process.classes - 2
    keep = 1 / (1 + (process.classes - 1) * math.exp(-epsilon))
    third = others * math.exp(-epsilon) * keep
    return (
        _bounded(
            epsilon,
            lambda loss: keep * -np.expm1(np.minimum(loss - epsilon, 0)) + third * -np.expm1(np.minimum(loss, 0)),
        ),
    )


def _pure(process, relation):
    return _randomized_response(events.RandomizedResponse(process.epsilon, 2), relation)


def _exponential_mechanism(process, _):
    epsilon = process.epsilon

    def delta(loss):
        shrunk = np.expm1(np.minimum(loss - epsilon, 0) / 2)
        return shrunk**2 / -math.expm1(-epsilon)

    return (_bounded(epsilon, delta),)


def _laplace(process, _):
    epsilon = 1 / process.noise_multiplier
    return (_bounded(epsilon, lambda loss: -np.expm1(np.minimum(loss - epsilon, 0) / 2)),)


def _bounded(epsilon, delta):
    """Profile of a pure mechanism: ``delta`` on [-epsilon, epsilon], 1 - e^loss below."""
    return PrivacyProfile(
        lambda loss: np.where(loss < -epsilon, -np.expm1(np.minimum(loss, 0)), delta(loss)), -epsilon, epsilon
    )


def _poisson(process, relation):
    make = {events.ADD_OR_REMOVE: _poisson_add_or_remove, events.REPLACE_ONE: _poisson_replace_one}[relation]
    return make(*_within_reach(process.sampling_probability, 1 / process.noise_multiplier))


def _within_reach(rate, mu):
    """``rate`` and ``mu``, of which no product is smaller than ``LEAST_LOSS`` and no mu beyond what can be squared."""
    mu = min(max(mu, LEAST_MU), LARGEST_MU)
    return max(rate, LEAST_LOSS / mu), mu


def _poisson_add_or_remove(rate, mu):
    return (_removed(rate, mu), _added(rate, mu))


def _removed(rate, mu):
    """(1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1)."""

    def delta(epsilon):
        ratio = _log_ratio(epsilon, rate)
        inside = np.isfinite(ratio)
        cut = (np.where(inside, ratio, 0.0) + mu**2 / 2) / mu
        difference = ndtr(mu - cut) - np.exp(ratio + log_ndtr(-cut))
        return np.where(inside, rate * difference, -np.expm1(np.minimum(epsilon, 0)))

    return PrivacyProfile(delta, _sampled_loss(rate, mu, -TAIL), _sampled_loss(rate, mu, mu + TAIL))


def _added(rate, mu):
    """N(0, 1) against (1 - rate) N(0, 1) + rate N(mu, 1)."""

    def delta(epsilon):
        ratio = _log_ratio(-epsilon, rate)
        inside = np.isfinite(ratio)
        cut = (np.where(inside, ratio, 0.0) + mu**2 / 2) / mu
        difference = _excess_over_unsampled(epsilon, rate) * ndtr(cut) - rate * np.exp(epsilon + log_ndtr(cut - mu))
        return np.where(inside, difference, 0.0)

    return PrivacyProfile(delta, -_sampled_loss(rate, mu, mu + TAIL), -_sampled_loss(rate, mu, -TAIL))


def _log_ratio(epsilon, rate):
    """ln((e^epsilon - 1 + rate) / rate), the loss of the sampled part where the mixture's is epsilon; -inf if none."""
    falling = np.minimum(epsilon, 0)
    with np.errstate(divide="ignore"):
        below = np.log(np.maximum(np.expm1(falling) + rate, 0))
    above = epsilon + np.log1p(-(1 - rate) * np.exp(-np.maximum(epsilon, 0)))
    return np.where(epsilon < 0, below, above) - math.log(rate)


def _excess_over_unsampled(epsilon, rate):
    """1 - (1 - rate) e^epsilon, by sums that cancel no more than the result does."""
    falling, rising = np.minimum(epsilon, 0), np.maximum(epsilon, 0)
    return np.where(
        epsilon > 0,
        np.exp(np.minimum(rising, 700.0)) * (np.expm1(-rising) + rate),
        rate * np.exp(falling) - np.expm1(falling),
    )


def _sampled_loss(rate, mu, place):
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + mu * place - mu**2 / 2))


def _poisson_replace_one(rate, mu):
    """(1 - rate) N(0, 1) + rate N(-mu, 1) against (1 - rate) N(0, 1) + rate N(mu, 1)."""
    log_steepness = math.log1p(-rate) - math.log(rate) + mu**2 / 2

    def delta(epsilon):
        half = np.maximum(np.abs(epsilon) / 2, 1e-300)
        log_argument = log_steepness + half + np.log(-np.expm1(-2 * half)) - math.log(2)
        cut = -(epsilon / 2 + np.sign(epsilon) * _asinh_of_exp(log_argument)) / mu
        sampled = ndtr(cut + mu) - np.exp(epsilon + log_ndtr(cut - mu))
        return rate * sampled - (1 - rate) * _expm1_times_ndtr(epsilon, cut)

    reach = _sampled_loss(rate, mu, mu + TAIL) - _sampled_loss(rate, mu, -mu - TAIL)
    return (PrivacyProfile(delta, -reach, reach),)


def _expm1_times_ndtr(epsilon, cut):
    above = np.exp(epsilon + log_ndtr(cut)) * -np.expm1(-np.maximum(epsilon, 0))
    return np.where(epsilon > 0, above, np.expm1(np.minimum(epsilon, 0)) * ndtr(cut))


def _asinh_of_exp(exponent):
    """asinh(e^exponent): of a small number as such, since the logarithmic form cancels there, else free of overflow."""
    logarithmic = np.logaddexp(exponent, np.logaddexp(0, 2 * exponent) / 2)
    return np.where(exponent < 0, np.arcsinh(np.exp(np.minimum(exponent, 0))), logarithmic)


def _fixed_size_replace_one(process, _):
    rate, mu = _within_reach(process.batch_size / process.records, 2 / process.noise_multiplier)
    remove, add = _removed(rate, mu), _added(rate, mu)
    return (
        PrivacyProfile(
            lambda epsilon: np.maximum(remove.delta(epsilon), add.delta(epsilon)),
            min(remove.lowest, add.lowest),
            max(remove.highest, add.highest),
        ),
    )


def _shuffled(process, relation):
    from fate_dp.privacy.accounting.hiding_among_clones import shuffled_profile

    return shuffled_profile(process, relation)


HAS_PROFILE = {
    events.RandomizedResponse: _randomized_response,
    events.PureDP: _pure,
    events.ExponentialMechanism: _exponential_mechanism,
    events.Laplace: _laplace,
    events.PoissonSampledGaussian: _poisson,
    events.FixedSizeSampledGaussian: _fixed_size_replace_one,
    events.Shuffled: _shuffled,
}
