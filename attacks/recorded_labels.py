"""Recorded views of FATE's own tasks as the views that the attacks on labels read, and what these read in them.

A host of ``coordinated_lr``, ``coordinated_linr`` or ``hetero_feature_binning`` receives a number of every row under a Paillier key,
in one message or in one of each epoch: a `CiphertextView`, attacked as `label_ciphertexts` does, whose threat model holds here.

*What they cannot do* beside what is said there: put batches of an epoch together. Messages count that have all rows, which
is FATE's default.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.declaration import FLIPPED
from fate_dp.components.disclosure.tracing import Walk
from fate_dp.privacy.validation import InvalidArgument

from .label_ciphertexts import (
    UNDEFENDED,
    UNREAD,
    CiphertextView,
    LabelDefence,
    fitted_residuals,
    opened,
    opened_labels,
    residual_signs,
)
from .label_ciphertexts import Ciphertext as LabelCiphertext
from .recorded_view import Ciphertexts, RecordedView

Array = NDArray[np.float64]
BINNING = ("hetero_feature_binning",)
REGRESSIONS = ("coordinated_lr", "coordinated_linr")
MESSAGES = {**dict.fromkeys(BINNING, "enc_y"), **dict.fromkeys(REGRESSIONS, "half_d")}
"""The message with a ciphertext of every row, by component."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read of every row.

    Attributes:
        view: that was attacked.
        labels: (rows,) 0 or 1, NaN where nothing was found.
        numbers: (rows,) that the ciphertexts of the first message hold, NaN where they are blinded.
    """

    view: CiphertextView = field(repr=False)
    labels: Array = field(repr=False)
    numbers: Array = field(repr=False)


def encrypted_labels(view: RecordedView) -> Reading:
    """The labels that ``hetero_feature_binning`` sends as they are."""
    found = label_view(view)
    return Reading(found, opened_labels(found), _numbers(found))


def residual_labels(view: RecordedView) -> Reading:
    """Labels from the residuals of a regression: of several epochs by their changes, of one by their signs."""
    found = label_view(view)
    labels = fitted_residuals(found) if len(found.messages) > 1 else residual_signs(found)
    return Reading(found, labels, _numbers(found))


def label_view(view: RecordedView) -> CiphertextView:
    """What a host received of labels; raises InvalidArgument where the view holds none of it, and why."""
    name = MESSAGES[view.task.component]
    vectors = [content for content in view.named(name) if isinstance(content, Ciphertexts)]
    rows = max((len(vector.values) for vector in vectors), default=0)
    if not rows:
        reasons = sorted({message.left_out for message in view.messages if message.name == name} - {""})
        why = f": {reasons[0]}" if reasons else ", so that nothing can be read in it"
        raise InvalidArgument(f"The view of {view.task.name} holds no ciphertexts named {name}{why}.")
    whole = [vector for vector in vectors if len(vector.values) == rows]
    messages = tuple(
        tuple(LabelCiphertext(int(value), int(exponent)) for value, exponent in zip(each.values, each.exponents))
        for each in whole
    )
    return CiphertextView(modulus=whole[0].n, messages=messages, defence=label_defence(view))


def label_defence(view: RecordedView) -> LabelDefence:
    """What the labels of the task were protected by, from the job's DAG as far as the party knew it."""
    if not view.task.plan:
        return UNDEFENDED
    labels = Walk(JobPlan(json.loads(view.task.plan))).labels_into(view.task.name)
    if labels.state != FLIPPED or labels.epsilon is None:
        return UNDEFENDED
    words = f"The labels are flips of {labels.by} at epsilon {labels.epsilon:g}."
    return LabelDefence(f"flips of {labels.by} at epsilon {labels.epsilon:g}", words, labels.epsilon)


def _numbers(view: CiphertextView) -> Array:
    plains = opened(view.messages[0], view.modulus)
    return np.array([UNREAD if plain is None else float(plain) for plain in plains])
