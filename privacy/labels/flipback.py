"""Flipback: better training labels out of flipped labels and the scores of a model that was trained on them.

**Privacy.** Flipback reads flipped labels, features and scores only, never a true label. It is post-processing of
randomised response (C. Dwork and A. Roth, "The Algorithmic Foundations of Differential Privacy" (2014), proposition
2.1): epsilon (nats, unit *label*, *replace-one* relation, delta 0) stays what the flips cost, however often it runs.
The source adds epsilon for every run; that would be right only if a run read the true labels again.

**What the guest learns.** Joint scores of the training rows show the guest X_h w_h, the host's part of them, once per
round. Features have no differential privacy here: after as many rounds with different weights w_h as the host has
features, the guest knows X_h up to one square matrix. So ``max_rounds`` is small, and the host's ledger counts rounds.

**Modes.**

- ``swap``: the top ``fraction`` of the records by ``|label - score|`` get the other label. Over the whole run there are
  never more swaps than expected flips, n q with q = 1 / (1 + e^epsilon).
- ``posterior``: each label becomes P(true label = 1 | flipped label, score) by Bayes' rule with the known q, the score
  being the prior: a soft label. Should the scores hold less of the rarer class than the class prior says, they are
  raised to it first, so that a small epsilon never erases a rare class.
- ``resample``: the source's variant, randomised response once more on the top ``fraction``. It draws from a stream of
  its own; the key of the memoised flips must never serve here, since equal draws would undo flips.
- ``none``: labels stay as they are.  ``auto``: ``choose_mode`` decides.
"""

import math
import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mechanisms.randomized_response import estimate_prior, flip_probability, label_posterior
from ..validation import InvalidArgument, as_share, check_epsilon, one_of, whole

WORKING_MODES = ("none", "posterior", "swap", "resample")
MODES = ("auto",) + WORKING_MODES

# Measured with the Taylor gradient (bench/label_dp.py): from here on too few labels are wrong to be worth guessing.
# Scores of the exact sigmoid are better than those of the Taylor one (cross-validated there as well).
HELPFUL_BELOW_EPSILON = {"taylor": 2.0, "exact": 4.0}
# The default rounds may swap 6 % of all records whole: too coarse where that could be most of the rarer class.
RARE_CLASS_SHARE = 0.1
# A prior of exactly 0 or 1 has no finite logit.
SCORE_MARGIN = 1e-6
# What derived labels look like. No class and no measured number ends in these 32 bits, and every choice of rows keeps them.
MARK, MARKED_BITS = np.uint64(0x9E3779B9), np.uint64(0xFFFFFFFF)
EDGE = 2.0**-20
"""How far derived labels stay from the classes 0 and 1."""
Labels = NDArray[np.float64]
Stream = random.Random | np.random.Generator


def marked(labels: ArrayLike) -> Labels:
    """The labels, from 0 to 1, as derived ones: none is 0 or 1, and each carries the mark in its last 32 bits.

    A label moves by at most 2^-20. Flipback computes each label from the records of all parties, so that no later step
    may promise anything to a record; the mark tells derived labels from all others row by row.
    """
    kept = np.clip(np.asarray(labels, dtype=np.float64), EDGE, 1 - EDGE).view(np.uint64) & ~MARKED_BITS
    return (kept | MARK).view(np.float64)


def are_marked(labels: Labels) -> NDArray[np.bool_]:
    """Which of these float64 labels `marked` made."""
    return np.equal(np.ascontiguousarray(labels).view(np.uint64) & MARKED_BITS, MARK)


@dataclass(frozen=True)
class FlipbackSettings:
    """When and how labels are revised; all public, checked when made (`InvalidArgument`).

    ``every`` counts the epochs between two rounds; None divides the training into phases of equal length, the last one
    the shortest, with a round between each two of them. One round of ``swap`` or ``resample`` touches the ``fraction``
    of the records, above 0 up to 1. Each of ``max_rounds`` rounds shows the guest one set of joint scores.
    """

    mode: str = "auto"
    every: int | None = None
    fraction: float = 0.02
    max_rounds: int = 3

    def __post_init__(self) -> None:
        one_of("flipback mode", self.mode, MODES)
        whole("flipback every", 1 if self.every is None else self.every, 1)
        whole("flipback max_rounds", self.max_rounds, 0)
        as_share("flipback fraction", self.fraction, "a number above 0 and at most 1")

    def planned_rounds(self, epochs: int) -> int:
        """Rounds that a training of ``epochs`` epochs will hold: none after the last epoch, when it would be unused."""
        if self.mode == "none":
            return 0
        return min(self.max_rounds, (epochs - 1) // self.distance(epochs))

    def planned_epochs(self, epochs: int) -> list[int]:
        """Epochs, counted from 0, that begin with a round."""
        return [self.distance(epochs) * (number + 1) for number in range(self.planned_rounds(epochs))]

    def distance(self, epochs: int) -> int:
        """Epochs between two rounds of a training of ``epochs`` epochs: `every`, or a phase."""
        return self.every or math.ceil(epochs / (self.max_rounds + 1))


class Flipback:
    """The flipback of one training run: it resolves ``auto`` once and keeps the budget of swaps across rounds."""

    def __init__(
        self,
        settings: FlipbackSettings,
        flipped: ArrayLike,
        epsilon: float,
        stream: Stream | None = None,
        class_prior: float | None = None,
        sigmoid: str = "taylor",
    ) -> None:
        """Resolve the mode.

        Args:
            flipped: Flipped labels, 0 or 1, of shape (n,), in the order of all later labels and scores.
            epsilon: That of the flips, in nats; infinity means that nothing was flipped.
            stream: For ``resample`` only: a random stream of its own.
            class_prior: Share of true labels that are 1 where publicly known; otherwise it is estimated.
            sigmoid: taylor or exact: what the scores come from, for ``auto``.
        """
        self.settings = settings
        self.flipped = _checked_labels("flipped", flipped)
        self.epsilon = epsilon
        self.mode = choose_mode(epsilon, self.flipped, sigmoid) if settings.mode == "auto" else settings.mode
        self.rounds_done = 0
        self.swaps_left = 0 if self.mode == "none" else expected_flips(len(self.flipped), epsilon)
        self._stream = stream
        self._class_prior = class_prior

    def is_due(self, finished_epochs: int, epochs: int) -> bool:
        """Whether a round follows now that ``finished_epochs`` of ``epochs`` epochs are done."""
        if self.mode == "none" or self.rounds_done >= self.settings.max_rounds:
            return False
        return finished_epochs % self.settings.distance(epochs) == 0

    def relabel(self, current: ArrayLike, scores: ArrayLike) -> Labels:
        """One round: return the labels for the next epochs and leave the arguments alone. A record is one position.

        ``current`` labels of the last epochs (n,) are from 0 to 1, for ``swap`` and ``resample`` 0 and 1 only;
        ``scores`` (n,) are the modelled P(label = 1). InvalidArgument for unequal lengths, values out of range, or no
        stream for ``resample``.
        """
        one_of("flipback mode", self.mode, WORKING_MODES)
        current, scores = (np.asarray(values, dtype=np.float64) for values in (current, scores))
        if not current.shape == self.flipped.shape == scores.shape:
            shapes = current.shape, self.flipped.shape, scores.shape
            raise InvalidArgument.of("shapes of current, flipped and scores", shapes, "the same")
        for name, values in (("current", current), ("scores", scores)):
            if not ((values >= 0) & (values <= 1)).all():
                raise InvalidArgument(f"{name} holds a value outside the range from 0 to 1.")
        revised = self._revised(current, scores)
        self.rounds_done += 1
        if self.mode == "swap":
            self.swaps_left -= int(np.count_nonzero(revised != current))
        return revised

    def _revised(self, current: Labels, scores: Labels) -> Labels:
        if self.mode == "none":
            return current.copy()
        if self.mode == "posterior":
            prior = self._class_prior
            if prior is None:
                prior = estimate_prior(self.flipped.mean(), self.epsilon)
            return np.asarray(label_posterior(self.flipped, self.epsilon, keep_rare_class(scores, prior)))
        chosen = most_distant(current, scores, self.settings.fraction)
        if self.mode == "swap":
            return _swapped(current, chosen[: max(self.swaps_left, 0)])
        if self._stream is None:
            raise InvalidArgument.of("flipback stream", None, "a random stream of its own with mode resample")
        flip = flip_probability(self.epsilon)
        return _swapped(current, [position for position in chosen if self._stream.random() < flip])


def choose_mode(epsilon: float, flipped_labels: ArrayLike, sigmoid: str = "taylor") -> str:
    """Choose the mode from epsilon (nats) and the flipped labels alone, so that the choice costs no privacy.

    ``none`` from epsilon 2 on (scores of the Taylor sigmoid) or 4 (the exact one) and where nothing was flipped
    (infinity), since flipback hurts there; ``posterior`` where the rarer class, estimated from flips, is below 10 %
    beyond two standard errors; otherwise ``swap``.
    """
    if epsilon == math.inf or check_epsilon(epsilon) >= HELPFUL_BELOW_EPSILON[sigmoid]:
        return "none"
    flipped = _checked_labels("flipped", flipped_labels)
    share, signal = flipped.mean(), math.tanh(epsilon / 2)
    prior = (share - flip_probability(epsilon)) / signal
    standard_error = math.sqrt(share * (1 - share) / len(flipped)) / signal
    return "posterior" if min(prior, 1 - prior) + 2 * standard_error < RARE_CLASS_SHARE else "swap"


def expected_flips(records: int, epsilon: float) -> int:
    """Expected number of flipped labels among ``records``, rounded down: the swap budget of a whole run."""
    return 0 if epsilon == math.inf else math.floor(records * flip_probability(epsilon))


def most_distant(labels: Labels, scores: Labels, fraction: float) -> NDArray[np.intp]:
    """Positions of the top ``fraction`` of the records by ``|label - score|``, farthest first, ties in record order."""
    return np.argsort(-np.abs(labels - scores), kind="stable")[: math.floor(fraction * len(labels))]


def keep_rare_class(scores: Labels, class_prior: float) -> Labels:
    """Shift all logits alike so that the mean score grants the rarer class at least its prior share.

    Scores that grant as much already are returned unchanged, but for a margin of 1e-6 away from 0 and 1.
    """
    scores = np.clip(scores, SCORE_MARGIN, 1 - SCORE_MARGIN)
    if class_prior > 0.5:
        return 1 - keep_rare_class(1 - scores, 1 - class_prior)
    if scores.mean() >= class_prior:
        return scores
    logits = np.log(scores / (1 - scores))
    low, high = 0.0, -2 * math.log(SCORE_MARGIN)

    def shifted(by: float) -> Labels:
        return np.asarray(1.0 / (1.0 + np.exp(-(logits + by))))

    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if shifted(middle).mean() < class_prior else (low, middle)
    return shifted(high)


def _swapped(labels: Labels, positions: NDArray[np.intp] | list[int]) -> Labels:
    labels = labels.copy()
    labels[positions] = 1 - labels[positions]
    return labels


def _checked_labels(name: str, given: ArrayLike) -> Labels:
    labels = np.asarray(given, dtype=np.float64)
    if labels.ndim != 1 or not labels.size or not np.isin(labels, (0, 1)).all():
        raise InvalidArgument.of(name, labels, "a non-empty vector of the labels 0 and 1")
    return labels
