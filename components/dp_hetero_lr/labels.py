"""The labels of a training: the classes that it tells apart, flipback between its epochs, and how noisy the labels are.

Classes are declared and never found in labels. With two there is one model, of P(y = 1). With k > 2 there are k, one for
each class against the rest, as in FATE's CoordinatedLR: model c is trained on the target 1 where the label is c, and 0
elsewhere. All of them share X^T X and the one pass over encrypted rows; only X^T t is one column for each.

Flips among k classes leave (e^epsilon - 1) / (e^epsilon + k - 1) of every target's signal and add the same constant to
all of them, so that the class with the largest score is the same in expectation. No FATE in here.
"""

import math
import secrets
from collections.abc import Mapping, Sequence

import numpy as np

from fate_dp.privacy.labels.flipback import Flipback
from fate_dp.privacy.mechanisms.local_numbers import piecewise_law

from ..common.charges import PartyHome
from ..common.federation import Document
from ..common.frames import DataFrame, distinct_labels
from ..common.preflight import Refusal
from ..common.provenance import LabelPrivacy, find_label_privacy, labels_to_protect
from ..common.vocabulary import LABEL, NONE
from ..protocols.training_terms import BINARY, class_names
from .settings import TrainSettings


def one_vs_rest(labels: np.ndarray, classes: Sequence[float]) -> np.ndarray:
    """float64 (rows, models): labels from 0 to 1 as they are for two classes, else 1 where the label is the class."""
    return labels[:, None] if len(classes) == 2 else (labels[:, None] == np.asarray(classes)).astype(np.float64)


def privacy_and_classes(
    home: PartyHome, frame: DataFrame, settings: TrainSettings
) -> tuple[LabelPrivacy, tuple[float, ...]]:
    """At the guest: what its ledger knows of the labels, and the classes that the training tells apart."""
    if settings.privacy == LABEL:
        return privacy_of_true_labels(home, frame, settings), BINARY
    privacy = find_label_privacy(home, frame, settings.label_source)
    privacy.refuse_numbers(settings.family)
    return privacy, declared_classes(home, settings, privacy)


def privacy_of_true_labels(home: PartyHome, frame: DataFrame, settings: TrainSettings) -> LabelPrivacy:
    """At the guest with privacy label: of the model, whose labels are true ones of a declared source.

    Nothing is asked of a label but whether it lies in its domain, a fact that all neighbours share: the other parties see
    whether the job goes on.
    """
    privacy = labels_to_protect(home, frame, settings)
    if not distinct_labels(frame, limit=2) <= set(BINARY):
        raise ValueError("A label is neither 0 nor 1; privacy label is for two classes.")
    settings.check_classes()
    return privacy


def declared_classes(home: PartyHome, settings: TrainSettings, privacy: LabelPrivacy) -> tuple[float, ...]:
    """At the guest: those of the flips by its ledger, of the parameter for public labels; `BINARY` without either."""
    flipped = None if settings.family != "binomial" else _flipped_among(home, privacy)
    settings.check_classes(flipped)
    if settings.family != "binomial":
        return BINARY
    return flipped or settings.classes or BINARY


def _flipped_among(home: PartyHome, privacy: LabelPrivacy) -> tuple[float, ...] | None:
    """Declared classes of the flips that the labels are, None for public ones, revised ones and numbers."""
    release = privacy.flips
    if release is None or release.bounds is not None:
        return None
    if release.classes == 2:
        return BINARY
    # A ledger that was written by other means than label_flip may name none: then the parameter does.
    return tuple(sorted(map(float, home.ledger.class_labels(release.entry_id)))) or None


def check_hosts_classes(classes: Sequence[float], hosts: Mapping[str, Document]) -> None:
    """At the guest: a host whose own parameter lists other classes would train on no others."""
    for name, facts in hosts.items():
        if facts["classes"] not in (None, list(classes)):
            own, agreed = class_names(facts["classes"]), class_names(classes)
            raise Refusal.of(f"classes at {name}", own, f"those of the training, {agreed}")


class Relabelling:
    """Flipback inside a training: the guest's current labels, and the next ones from joint scores, by post-processing."""

    def __init__(self, settings: TrainSettings, labels: np.ndarray, privacy: LabelPrivacy) -> None:
        self.labels, self._epochs = labels, settings.epochs
        self._flipback: Flipback | None = None
        # Soft labels come from an earlier flipback; only flips as released can be reverted by Bayes' rule.
        flips = privacy.flips
        if settings.family != "binomial" or flips is None or flips.classes != 2 or flips.bounds is not None:
            return
        # With noise, flipback auto means none; other modes are refused.
        if settings.flipback.mode != "none" and settings.privacy == NONE:
            self._flipback = Flipback(
                settings.flipback, labels, flips.epsilon, stream=secrets.SystemRandom(), sigmoid=settings.sigmoid
            )

    @property
    def mode_that_ran(self) -> str:
        """The mode of flipback, none where training ended before its first round."""
        return self._flipback.mode if self._flipback is not None and self._flipback.rounds_done else "none"

    def leave_out(self) -> None:
        """No flipback: a host shows no scores for it."""
        self._flipback = None

    @property
    def rounds(self) -> list[int]:
        """Epochs (from 0) that begin with a round of flipback."""
        if self._flipback is None or self._flipback.mode == "none":
            return []
        return self._flipback.settings.planned_epochs(self._epochs)

    def next_labels(self, scores: np.ndarray) -> np.ndarray:
        """Labels for the epochs to come, from P(y = 1) of every row under the joint model."""
        assert self._flipback is not None, "A round of flipback began in a training without flipback."
        self.labels = self._flipback.relabel(self.labels, scores)
        return self.labels


def equivalent_epsilon(privacy: LabelPrivacy, labels: np.ndarray) -> float:
    """Epsilon (nats) of flips that leave as much noise per signal as the labels have, for `default_optimizer`.

    For flips and public labels it is theirs; true labels, whose sums have the noise, are exact ones. Numbers with noise of
    variance s around labels of variance v, half of which features explain as that rule assumes, have residuals of v / 2 + s
    over a signal of v / 2: the best ridge penalty is 1 + 2 s / v times that of exact labels, where flips have
    1 / tanh^2(epsilon / 2) times it. Both variances follow from the noisy labels and the public law, so that this costs no
    privacy; hosts accept the default penalty of any epsilon.
    """
    flips = privacy.flips
    if privacy.delta:
        return math.inf
    if flips is None or flips.bounds is None:
        return privacy.epsilon
    law = piecewise_law(flips.epsilon, flips.bounds, flips.classes)
    total = float(np.var(labels))
    noise = float(law.variance(np.clip(np.mean(labels), law.low, law.high)))
    # Where noise is nearly all, the difference is known to about this.
    signal = max(total - noise, total / math.sqrt(len(labels)))
    return 2 * math.atanh(1 / math.sqrt(1 + 2 * noise / signal))
