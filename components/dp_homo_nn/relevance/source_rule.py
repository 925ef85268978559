"""``noise: source_rule``, the thesis' own rule of adaptive noise. IT GUARANTEES NOTHING; it is kept for comparison.

Algorithm 1 and equations 3.8 to 3.13 of the thesis, with section 5.4's division of epsilon into three equal parts:

1. *contributions*: the mean relevance of each of u attributes, plus Lap(GS_c / (epsilon / 3)), GS_c = 2 u / |D| (3.8,
   3.9). They are not normalised per record, so GS_c bounds nothing: a relevance is as large as a logit;
2. *inputs*: with beta_j the share of attribute j in the absolute noisy contributions and epsilon_j = u beta_j epsilon /
   3, x_ij + Lap(GS_l / epsilon_j) / |batch|, GS_l = units of the first layer times u (3.13, 3.18), where beta_j is at
   least the threshold f; else that with probability p, and the *raw value with probability 1 - p* (3.11, 3.12). That
   alone has delta >= 1 - p. Noise that is divided by |batch| suits a mean, not every single value;
3. *loss coefficients* at epsilon / 3: the thesis names them and prints no formula. Taken here, by analogy with 3.9, as
   the numbers by which the label enters the cross-entropy, its one-hot vector of k classes, plus Lap(2 k / (epsilon /
   3)) / |batch|.

Gradients of the perturbed rows are averaged over a client's batch, and only then clipped as a whole (Algorithm 1, line
19: noise first, clip afterwards), so the clip bounds no record's share. Inputs and coefficients are perturbed once,
before training (section 5.6).
"""
from dataclasses import dataclass

import numpy as np

from fate_dp.privacy.events import ADD_OR_REMOVE, Event, NotPrivate
from fate_dp.privacy.noise.discrete_laplace import discrete_laplace
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.uniform import bernoulli
from fate_dp.privacy.number_kinds import is_finite, is_whole

# Steps of the grid per scale of the noise.
STEPS_PER_SCALE = 2.0**20
REASON = (
    "The source's rule releases raw values of low-contribution attributes with probability 1 - p, scales noise by "
    "contributions whose sensitivity it does not bound, divides the noise on each value by the batch size, and clips "
    "after the noise: delta is at least {raw:g}, and no epsilon holds."
)


class InvalidSourceRule(ValueError):
    """A setting of the source's rule is outside its range: one sentence."""


@dataclass(frozen=True)
class SourceRule:
    """Settings of the rule, under the source's names; public.

    :param epsilon: what the source claims, in nats; a third for each of its three perturbations.
    :param f: threshold of the contribution's share, from 0 to 1.
    :param p: probability that a value below the threshold gets noise, from 0 to 1.
    :param batch_size: |D_i^t|, records of a client's batch.
    """

    epsilon: float
    f: float
    p: float
    batch_size: int

    def __post_init__(self):
        if not is_finite(self.epsilon) or self.epsilon <= 0:
            raise InvalidSourceRule(f"epsilon is {self.epsilon!r} but must be a finite number greater than 0.")
        for name in ("f", "p"):
            value = getattr(self, name)
            if not is_finite(value) or not 0 <= value <= 1:
                raise InvalidSourceRule(f"{name} is {value!r} but must be a number from 0 to 1.")
        if not is_whole(self.batch_size) or self.batch_size < 1:
            raise InvalidSourceRule(f"batch_size is {self.batch_size!r} but must be a whole number of at least 1.")

    @property
    def part(self):
        """Epsilon of each of the three perturbations, as the source counts it."""
        return self.epsilon / 3

    def event(self, observers, unit="record", relation=ADD_OR_REMOVE):
        """The ledger's event: ``NotPrivate`` with the reason, whatever f and p, under any relation."""
        raw = 1 - self.p if self.f > 0 else 0.0
        return Event(NotPrivate(REASON.format(raw=raw)), unit, relation, observers)


def noisy_contributions(rule, relevances, random=None):
    """Mean relevance of each attribute plus the source's Laplace noise (3.8, 3.9); NOT PRIVATE.

    :param relevances: array (n, u), signed, of all records of the client.
    :returns: float64 array (u,).
    """
    relevances = np.asarray(relevances, dtype=np.float64)
    records, attributes = relevances.shape
    scale = 2 * attributes / records / rule.part
    return relevances.mean(axis=0) + _laplace(scale, attributes, open_stream(random))


def shares(contributions):
    """beta_j: each attribute's part of the absolute contributions; equal parts where all are zero."""
    sizes = np.abs(contributions)
    return sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(sizes), 1 / len(sizes))


def perturbed_inputs(rule, features, contributions, first_layer_units, random=None):
    """The inputs that the source trains on (3.11 to 3.13), raw values among them; NOT PRIVATE.

    :param features: array (n, u).
    :param contributions: the u noisy contributions.
    :param first_layer_units: |l_1|; for a convolution the number of its filters.
    :returns: float64 array (n, u).
    """
    values, stream = np.array(features, dtype=np.float64), open_stream(random)
    records, attributes = values.shape
    for attribute, beta in enumerate(shares(contributions)):
        chosen = np.ones(records, dtype=bool) if beta >= rule.f else bernoulli(rule.p, records, stream)
        if beta > 0 and chosen.any():
            # GS_l / epsilon_j: the number of attributes is a factor of both.
            scale = first_layer_units / (beta * rule.part) / rule.batch_size
            values[chosen, attribute] += _laplace(scale, int(chosen.sum()), stream)
    return values


def perturbed_targets(rule, labels, classes, random=None):
    """One-hot labels plus Laplace noise of scale 2 k / (epsilon / 3) / |batch|: the loss coefficients; NOT PRIVATE.

    :param labels: class numbers (n,) from 0 to classes - 1.
    :returns: float64 array (n, classes), targets of the cross-entropy.
    """
    targets = np.eye(classes)[np.asarray(labels, dtype=np.int64)]
    scale = 2 * classes / rule.part / rule.batch_size
    return targets + _laplace(scale, targets.shape, open_stream(random))


def clipped_mean(gradients, clip):
    """A client's mean gradient, clipped as a whole after averaging (Algorithm 1, line 19): float64 (d,).

    :param gradients: mean gradient (d,) of the perturbed batch.
    """
    return np.asarray(gradients) / max(1.0, float(np.linalg.norm(gradients)) / clip)


def _laplace(scale, size, stream):
    """Laplace noise on a grid of 2^-20 of its scale."""
    return discrete_laplace(STEPS_PER_SCALE, size, stream) * (scale / STEPS_PER_SCALE)
