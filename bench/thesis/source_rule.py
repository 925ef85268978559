"""The thesis' own rule of adaptive noise. IT GUARANTEES NOTHING; it is kept for comparison (README.md).

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

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fate_dp.privacy.noise.discrete import discrete_laplace
from fate_dp.privacy.noise.stream import Stream, bernoulli, open_stream
from fate_dp.privacy.validation import positive, whole, within

# Steps of the grid per scale of the noise.
STEPS_PER_SCALE = 2.0**20


@dataclass(frozen=True)
class SourceRule:
    """Settings of the rule, under the source's names; public.

    Attributes:
        epsilon: what the source claims, in nats; a third for each of its three perturbations.
        f: threshold of the contribution's share.
        p: probability that a value below the threshold gets noise.
        batch_size: |D_i^t|, records of a client's batch.
    """

    epsilon: float
    f: float
    p: float
    batch_size: int

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        within("f", self.f, 0, 1)
        within("p", self.p, 0, 1)
        whole("batch_size", self.batch_size, 1)

    @property
    def part(self) -> float:
        """Epsilon of each of the three perturbations, as the source counts it."""
        return self.epsilon / 3


def noisy_contributions(rule: SourceRule, relevances: np.ndarray, rng: Stream | None = None) -> np.ndarray:
    """Mean of signed relevances (n, u) of a client's records plus the source's Laplace noise (3.8, 3.9); NOT PRIVATE."""
    relevances = np.asarray(relevances, dtype=np.float64)
    records, attributes = relevances.shape
    scale = 2 * attributes / records / rule.part
    return relevances.mean(axis=0) + _laplace(scale, attributes, open_stream(rng))


def shares(contributions: np.ndarray) -> np.ndarray:
    """beta_j: each attribute's part of the absolute contributions; equal parts where all are zero."""
    sizes = np.abs(contributions)
    return sizes / sizes.sum() if sizes.sum() > 0 else np.full(len(sizes), 1 / len(sizes))


def perturbed_inputs(
    rule: SourceRule, features: np.ndarray, contributions: np.ndarray, first_layer_units: int, rng: Stream | None = None
) -> np.ndarray:
    """The inputs (n, u) that the source trains on (3.11 to 3.13), raw values among them; NOT PRIVATE.

    Args:
        contributions: the u noisy contributions.
        first_layer_units: |l_1|; for a convolution the number of its filters.
    """
    values, stream = np.array(features, dtype=np.float64), open_stream(rng)
    records, attributes = values.shape
    for attribute, beta in enumerate(shares(contributions)):
        chosen = np.ones(records, dtype=bool) if beta >= rule.f else bernoulli(rule.p, records, stream)
        if beta > 0 and chosen.any():
            # GS_l / epsilon_j: the number of attributes is a factor of both.
            scale = first_layer_units / (beta * rule.part) / rule.batch_size
            values[chosen, attribute] += _laplace(scale, int(chosen.sum()), stream)
    return values


def perturbed_targets(rule: SourceRule, labels: np.ndarray, classes: int, rng: Stream | None = None) -> np.ndarray:
    """One-hot labels (n, classes) plus Laplace noise of scale 2 k / (epsilon / 3) / |batch|: the loss coefficients;
    NOT PRIVATE.
    """
    targets = np.eye(classes)[np.asarray(labels, dtype=np.int64)]
    scale = 2 * classes / rule.part / rule.batch_size
    return targets + _laplace(scale, targets.shape, open_stream(rng))


def clipped_mean(gradients: np.ndarray, clip: float) -> np.ndarray:
    """A client's mean gradient (d,), clipped as a whole after averaging (Algorithm 1, line 19)."""
    return np.asarray(gradients) / max(1.0, float(np.linalg.norm(gradients)) / clip)


def _laplace(scale: float, size: Any, stream: Stream) -> np.ndarray:
    """Laplace noise on a grid of 2^-20 of its scale."""
    return discrete_laplace(STEPS_PER_SCALE, size, stream) * (scale / STEPS_PER_SCALE)
