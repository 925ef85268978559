"""The guest's target column t of the quadratic loss mean(z^2 / (2 c) - t z) + constant, and when it changes.

- binomial, Taylor: c = 4, t = y - 1/2, constant log 2: the Taylor polynomial of the logistic loss.
- binomial, exact: c = 4, t = z_k / 4 + y - sigmoid(z_k) at the scores z_k of the last correction: the loss is the
  majoriser of Boehning and Lindsay (1988), which touches the logistic loss at z_k and lies above it elsewhere.
- gaussian: c = 1, t = y, constant mean(y^2) / 2: half the mean squared error.
- binomial, Taylor, with noise: c = 4 and the loss z^2 / (2 c) - t z / c with t = 4 (y - 1/2), which is the same loss;
  the products of this larger target are the less disturbed by noise. Its constant log 2 reads no row.
"""
import math
from typing import List, Optional, Tuple

import numpy as np

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS

from ..majorisation import corrected_target, majoriser_constants
from ..noised.joint_noise import moments_of
from ..noised.rows import clipped_targets
from ..relabelling import Relabelling
from ..scoring import probabilities
from ..settings import TrainSettings


class Targets:
    """The target column and the constants of one training, in global row order on the guest's driver."""

    def __init__(self, settings: TrainSettings, relabelling: Relabelling, noise: Optional[dict] = None):
        """``noise`` are the terms of noise, None without."""
        self._settings, self._relabelling = settings, relabelling
        self._moments = moments_of(noise) if noise else None
        self._corrected = False
        self.column, self._constants = self._without_scores(relabelling.labels)

    def after(self, epoch: int, terms: dict, scores: np.ndarray) -> np.ndarray:
        """The target of the epochs from ``epoch`` on, given the joint scores z (n,) under the current weights."""
        if epoch in terms["flipback_epochs"]:
            self._relabelling.next_labels(probabilities(scores))
        labels = self._relabelling.labels
        if self._corrected or epoch in terms["correction_epochs"]:
            self._corrected = True
            self.column = corrected_target(labels, scores)
            self._constants = majoriser_constants(scores)
        else:
            self.column, self._constants = self._without_scores(labels)
        return self.column

    def constant(self, bounds: Tuple[int, int]) -> float:
        """The constant of the loss of one batch."""
        return float(np.mean(self._constants[bounds[0] : bounds[1]]))

    def _without_scores(self, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        if self._settings.family == "gaussian":
            return labels, 0.5 * labels**2
        constants = np.full(len(labels), math.log(2.0))
        if self._moments is not None:
            return clipped_targets(labels, self._moments.bounds[0], self._moments.fraction_bits), constants
        return labels - 0.5, constants


def check_target(column: np.ndarray, batches: List[Tuple[int, int]]) -> None:
    """Refuse labels whose mean square over a batch exceeds what the masks are made for."""
    if not fits(column, batches):
        raise ValueError(
            f"The labels have a mean square above {2**MEAN_SQUARE_BITS} in a batch; solver cross_product needs less: "
            "standardise them."
        )


def fits(column: np.ndarray, batches: List[Tuple[int, int]]) -> bool:
    """Whether the mean square of a target over every batch is one that the masks are made for."""
    limit = 2.0**MEAN_SQUARE_BITS * (1 - 1e-6)
    return all(float(np.mean(column[first:last] ** 2)) <= limit for first, last in batches)
