"""The part of a composition that is one Gaussian mechanism: unsampled Gaussian releases add up exactly.

Releases with mu_i = sensitivity / sigma compose, adaptively and without loss, to the Gaussian mechanism of
mu = sqrt(sum mu_i^2) (Dong, Roth and Su, "Gaussian differential privacy", JRSS B 2022, corollary 3.3). A sampled sum in
which every unit always takes part is unsampled: its sensitivity is one clip under add-or-remove, two under replace-one.
"""
import math

from fate_dp.privacy import events

# Relative: more than the rounding of a sum of a few hundred squares, and of its root.
LAST_BITS = 1e-13
# Squares of smaller numbers would be lost to underflow.
LEAST_MU = 1e-140


def squared_mu(process, relation):
    """mu^2 of one release if it is an unsampled Gaussian mechanism under ``relation``, else None."""
    of_kind = SQUARED_MU.get(type(process))
    return of_kind(process, relation) if of_kind else None


def split_gaussian(counts, relation):
    """(mu, rest): mu of all Gaussian releases in ``counts`` together, rounded up (0.0 if none), and the other counts.

    :param counts: dictionary from processes to how often each ran.
    """
    squares = {process: squared_mu(process, relation) for process in counts}
    rest = {process: count for process, count in counts.items() if squares[process] is None}
    if len(rest) == len(counts):
        return 0.0, rest
    total = sum(count * squares[process] for process, count in counts.items() if process not in rest)
    return max(math.sqrt(total) * (1 + LAST_BITS), LEAST_MU), rest


def _poisson(process, relation):
    mu = events.clips_moved(relation) / process.noise_multiplier
    return mu * mu if process.sampling_probability == 1 else None


def _fixed_size(process, relation):
    mu = events.clips_moved(relation) / process.noise_multiplier
    return mu * mu if process.batch_size == process.records else None


def _grouped(process, _):
    mus = [change / sigma for change, sigma in zip(process.sensitivities, process.sigmas)]
    return sum(mu * mu for mu in mus)


def _gaussian(process, _):
    mu = 1 / process.noise_multiplier
    return mu * mu


SQUARED_MU = {
    events.Gaussian: _gaussian,
    events.GroupedGaussian: _grouped,
    events.PoissonSampledGaussian: _poisson,
    events.FixedSizeSampledGaussian: _fixed_size,
}
