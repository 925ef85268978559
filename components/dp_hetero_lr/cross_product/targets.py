"""The guest's target column t of the quadratic loss mean(z^2 / (2 c) - t z) + constant, and when it changes.

- binomial, Taylor: c = 4, t = y - 1/2, constant log 2: the Taylor polynomial of the logistic loss.
- binomial, exact: c = 4, t = z_k / 4 + y - sigmoid(z_k) at the scores z_k of the last correction: the loss is the
  majoriser of Boehning and Lindsay (1988), which touches the logistic loss at z_k and lies above it elsewhere.
- gaussian: c = 1, t = y, constant mean(y^2) / 2: half the mean squared error.
"""
import math
from typing import List, Tuple

import numpy as np

from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS

from ..majorisation import corrected_target
from ..relabelling import Relabelling
from ..scoring import probabilities
from ..settings import TrainSettings


class Targets:
    """The target column and the constants of one training, in global row order on the guest's driver."""

    def __init__(self, settings: TrainSettings, relabelling: Relabelling):
        self._settings, self._relabelling = settings, relabelling
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
            self._constants = _majoriser_constants(scores)
        else:
            self.column, self._constants = self._without_scores(labels)
        return self.column

    def constant(self, bounds: Tuple[int, int]) -> float:
        """The constant of the loss of one batch."""
        return float(np.mean(self._constants[bounds[0] : bounds[1]]))

    def _without_scores(self, labels: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        if self._settings.family == "gaussian":
            return labels, 0.5 * labels**2
        return labels - 0.5, np.full(len(labels), math.log(2.0))


def check_target(column: np.ndarray, batches: List[Tuple[int, int]]) -> None:
    """Refuse a target whose mean square over a batch exceeds what the masks are made for."""
    for first, last in batches:
        if not float(np.mean(column[first:last] ** 2)) <= 2.0**MEAN_SQUARE_BITS * (1 - 1e-6):
            raise ValueError(
                f"The labels have a mean square above {2**MEAN_SQUARE_BITS} in a batch; solver cross_product needs less: "
                "standardise them."
            )


def _majoriser_constants(scores: np.ndarray) -> np.ndarray:
    """log(1 + e^z) - sigmoid(z) z + z^2 / 8: what makes the majoriser touch the logistic loss at z."""
    return np.logaddexp(0.0, scores) - probabilities(scores) * scores + scores**2 / 8
