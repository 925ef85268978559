"""Flipback inside a training: the guest's current labels, and the next ones from joint scores."""
import secrets

import numpy as np

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.privacy.flipback import Flipback

from .settings import TrainSettings


class Relabelling:
    """Keeps the labels of one training; post-processing, so the epsilon of the labels does not change."""

    def __init__(self, settings: TrainSettings, labels: np.ndarray, privacy: LabelPrivacy):
        self.labels = labels
        self._flipback = None
        # Soft labels come from an earlier flipback; only flips as released can be reverted by Bayes' rule.
        flips = privacy.flips
        revertible = settings.family == "binomial" and flips is not None and flips.classes == 2 and flips.bounds is None
        if settings.flipback.mode != "none" and revertible:
            self._flipback = Flipback(
                settings.flipback, labels, flips.epsilon, stream=secrets.SystemRandom(), sigmoid=settings.sigmoid
            )

    @property
    def mode(self) -> str:
        return "none" if self._flipback is None else self._flipback.mode

    @property
    def mode_that_ran(self) -> str:
        """As `mode`, but none where training ended before the first round."""
        return self.mode if self._flipback is not None and self._flipback.rounds_done else "none"

    def leave_out(self) -> None:
        """No flipback: a host shows no scores for it."""
        self._flipback = None

    def epochs(self, epochs: int) -> list:
        """Epochs (from 0) that begin with a round of flipback."""
        return [] if self.mode == "none" else self._flipback.settings.planned_epochs(epochs)

    def next_labels(self, scores: np.ndarray) -> np.ndarray:
        """Labels for the epochs to come, from P(y = 1) of every row under the joint model."""
        self.labels = self._flipback.relabel(self.labels, scores)
        return self.labels
