"""The guest's targets t, a column for each model, of the loss mean(z^2 / (2 c) - t z) + constant, and when they change.

- binomial, Taylor: c = 4, t = y - 1/2, constant log 2: the Taylor polynomial of the logistic loss.
- binomial, exact: c = 4, t = z_k / 4 + y - sigmoid(z_k) at the scores z_k of the last correction: the loss is the
  majoriser of Boehning and Lindsay (1988), which touches the logistic loss at z_k and lies above it elsewhere.
- more than two classes, Taylor: for each of them as above, with y = 1 where the label is the class and 0 elsewhere.
- gaussian: c = 1, t = y, constant mean(y^2) / 2: half the mean squared error.
- binomial, Taylor, with noise: c = 4 and the loss z^2 / (2 c) - t z / c with t = 4 (y - 1/2), which is the same loss;
  the products of this larger target are the less disturbed by noise. Its constant log 2 reads no row.
"""
import math
from typing import List, Tuple

import numpy as np

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS

from ..classes import one_vs_rest
from ..majorisation import corrected_target, majoriser_constants
from ..noised.joint_noise import moments_of
from ..noised.rows import clipped_targets
from ..relabelling import Relabelling
from ..scoring import probabilities
from ..settings import TrainSettings


class Targets:
    """The targets (n, models) and the constants (n,) of one training, in global row order on the guest's driver."""

    def __init__(self, settings: TrainSettings, relabelling: Relabelling, terms: dict):
        self._settings, self._relabelling, self._classes = settings, relabelling, terms["classes"]
        self._moments = moments_of(terms["noise"]) if terms["noise"] else None
        self._corrected = False
        self.columns, self._constants = self._without_scores(relabelling.labels)

    def after(self, epoch: int, terms: dict, scores: np.ndarray) -> np.ndarray:
        """The targets of the epochs from ``epoch`` on, given the joint scores z (n,) of the one model as it is."""
        if epoch in terms["flipback_epochs"]:
            self._relabelling.next_labels(probabilities(scores))
        labels = self._relabelling.labels
        if self._corrected or epoch in terms["correction_epochs"]:
            self._corrected = True
            self.columns = corrected_target(labels, scores)[:, None]
            self._constants = majoriser_constants(scores)
        else:
            self.columns, self._constants = self._without_scores(labels)
        return self.columns

    def constant(self, bounds: Tuple[int, int]) -> float:
        """The constant of every model's loss of one batch."""
        return float(np.mean(self._constants[bounds[0] : bounds[1]]))

    def _without_scores(self, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        if self._settings.family == "gaussian":
            return labels[:, None], 0.5 * labels**2
        constants = np.full(len(labels), math.log(2.0))
        if self._moments is not None:
            return clipped_targets(labels, self._moments.bounds[0], self._moments.fraction_bits)[:, None], constants
        return one_vs_rest(labels, self._classes) - 0.5, constants


def check_targets(columns: np.ndarray, batches: List[Tuple[int, int]]) -> None:
    """Refuse labels whose mean square over a batch exceeds what the masks are made for."""
    if not fits(columns, batches):
        raise ValueError(
            f"The labels have a mean square above {2**MEAN_SQUARE_BITS} in a batch; solver cross_product needs less: "
            "standardise them."
        )


def fits(columns: np.ndarray, batches: List[Tuple[int, int]]) -> bool:
    """Whether the mean square of every target over every batch is one that the masks are made for."""
    limit = 2.0**MEAN_SQUARE_BITS * (1 - 1e-6)
    return all(float(np.mean(columns[first:last] ** 2, axis=0).max()) <= limit for first, last in batches)
