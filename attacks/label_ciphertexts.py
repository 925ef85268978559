"""Labels out of ciphertexts, by arithmetic with public numbers: no key is broken, and none is needed.

*Where it comes from:* the cipher is [Paillier1999]; that FATE 2.2.0 sends it without blinding was found by reading what its
hosts receive (docs/upstream.md). A Paillier ciphertext without blinding is c = 1 + m n modulo n^2, so that m = (c - 1) / n.
What a guest encrypts of a record in a regression is moreover a public number times the label and, added to it, a linear
function of features, of which the host gets one for each epoch: their differences are linear in the same features and have
no label in them, so that what remains of the first, when their span is taken out, has two values, one for each label.

*Threat model* of all attacks here: a host that keeps to the protocol, knows its own columns, public keys and no label, and
reads what came. *Cost:* a division for each ciphertext, and for regressions singular values of a matrix (rows, epochs).

*What they cannot do:* read blinded ciphertexts, which are not of that form, nor values other than 0 and 1. Where
``label_flip`` stood before the task they read the flips, all of them, and nothing of a label that its flip does not tell.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.disclosure.declaration import FLIPPED
from fate_dp.components.disclosure.tracing import Walk
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.validation import InvalidArgument, check_epsilon, whole

from .recorded_view import Ciphertexts, RecordedView

Array = NDArray[np.float64]

UNREAD = float("nan")
"""In place of a label, 0 or 1, that an attack does not read."""
EXPONENT_BASE = 16
ROUNDS = 50
NOISE = 3.0
"""Directions in which the rows move by less than so many units of the last digit a row are rounding."""
SINGLE = float(np.finfo(np.float32).eps)
"""Rounding of a residual that FATE computes in float32."""


class Ciphertext(NamedTuple):
    """A Paillier ciphertext of FATE: its plaintext counts times 16 to ``exponent``."""

    value: int
    exponent: int


@dataclass(frozen=True)
class LabelDefence:
    """What stands between the labels and the observer: its ``name``, short, and ``words``, a whole sentence.

    ``epsilon`` is in nats, of each label (pure, replace-one), over all that the observer received; infinite without a
    guarantee.
    """

    name: str
    words: str
    epsilon: float = math.inf

    def __post_init__(self) -> None:
        if self.epsilon != math.inf:
            check_epsilon(self.epsilon)

    def bound(self, priors: Array) -> float:
        """The largest expected share of labels that anybody names, who knew before that a label is 1 with its prior.

        ``priors``, float64 (n,), are of the true law of labels that are independent given what the observer knows; 0.5 for
        fair coins, for which the bound is e^epsilon / (1 + e^epsilon). For two values every mechanism of epsilon is
        randomised response followed by something that does not see the label [Kairouz2016]. Who sees its answer, right with
        probability p, names best either the answer or the likelier label: the share is max(p, prior, 1 - prior).
        """
        if math.isinf(self.epsilon):
            return 1.0
        sure = np.maximum(priors, 1 - np.asarray(priors))
        return float(np.maximum(keep_probability(self.epsilon), sure).mean())


UNDEFENDED = LabelDefence("none", "Nothing stands between the labels and the observer.")


@dataclass(frozen=True, eq=False, kw_only=True)
class CiphertextView:
    """A number of every record under somebody else's Paillier key, in one message or several, and the labels'
    ``defence``.

    Rows are records in one order, which the observer knows; no private label is in here. ``modulus`` is the n of the
    public key; each of ``messages`` has one ciphertext for each record.
    """

    modulus: int
    messages: tuple[tuple[Ciphertext, ...], ...] = field(repr=False)
    defence: LabelDefence = UNDEFENDED

    def __post_init__(self) -> None:
        whole("modulus", self.modulus, 2)
        if not self.messages:
            raise InvalidArgument.of("number of messages", 0, "that of the records, at least 1")
        lengths = sorted(set(map(len, self.messages)))
        if len(lengths) != 1 or lengths[0] == 0:
            raise InvalidArgument.of("records of messages", lengths, "the same number of at least 1")

    @property
    def rows(self) -> int:
        """Records of the view."""
        return len(self.messages[0])


class Plain(NamedTuple):
    """A number without blinding: ``mantissa`` times 16 to ``exponent``."""

    mantissa: int
    exponent: int

    def __float__(self) -> float:
        return float(self.mantissa) * float(EXPONENT_BASE) ** self.exponent


def opened(ciphertexts: Sequence[Ciphertext], modulus: int) -> list[Plain | None]:
    """What ciphertexts hold, None where they are blinded."""
    found: list[Plain | None] = []
    for value, exponent in ciphertexts:
        multiple, remainder = divmod(value - 1, modulus)
        plaintext = multiple % modulus
        signed = plaintext - modulus if 2 * plaintext > modulus else plaintext
        found.append(None if remainder else Plain(signed, exponent))
    return found


def in_first(view: CiphertextView, read: Callable[[Plain], float]) -> Array:
    """What is read of each number in the first message, (rows,); `UNREAD` where it is blinded."""
    plains = opened(view.messages[0], view.modulus)
    return np.array([UNREAD if plain is None else float(read(plain)) for plain in plains])


def opened_labels(view: CiphertextView) -> Array:
    """Labels (rows,) that were sent as they are: 1 for any number above 0.

    For the labels that ``hetero_feature_binning`` sends to hosts.
    """
    return in_first(view, lambda plain: plain.mantissa > 0)


def residual_signs(view: CiphertextView) -> Array:
    """Labels (rows,) by the signs of the residuals in the first message, which are negative for label 1.

    For what ``coordinated_lr`` sends in the first epoch, 0.25 x w - 0.5 y with y 1 or -1; for gradients 0.5 - y of the first
    tree of ``hetero_secureboost`` with ``gh_pack: false``. Right for all records from zero weights, and for those whose first
    score is small from others.
    """
    return in_first(view, lambda plain: plain.mantissa < 0)


def fitted_residuals(view: CiphertextView, step: float = 1.0) -> Array:
    """Labels (rows,) by what ``coordinated_lr`` and ``coordinated_linr`` send in all epochs; a residual is ``step``
    lower for label 1."""
    several(view, "Fitting residuals")
    epochs = [opened(message, view.modulus) for message in view.messages]
    if any(plain is None for epoch in epochs for plain in epoch):
        return np.full(view.rows, UNREAD)
    residuals = np.array([[float(plain) for plain in epoch if plain is not None] for epoch in epochs])
    return two_valued(residuals, np.ones((view.rows, 1)), step, rounding=SINGLE)


def several(view: CiphertextView, attack: str) -> None:
    if len(view.messages) < 2:
        raise InvalidArgument(
            f"{attack} reads at least 2 messages, one an epoch, but the view has {len(view.messages)}."
        )


def two_valued(residuals: Array, known: Array, step: float, rounding: float) -> Array:
    """Labels 0 and 1 from residuals (epochs, rows) that are linear in unseen features, less ``step`` where the label is
    1.

    The span of ``known`` columns (rows, k) and of the residuals' differences is taken out of the first epoch's; which
    rows then lie low is where the labels are 1, up to the part of the labels that went out with it. Fitting the span
    again to residuals with these labels put back brings that part in, until no label changes. `UNREAD` where residuals,
    each with an error of ``rounding``, are not finite.
    """
    if not np.isfinite(residuals).all():
        return np.full(residuals.shape[1], UNREAD)
    first, moved = residuals[0], (residuals[1:] - residuals[0]).T
    directions, lengths, _ = np.linalg.svd(moved, full_matrices=False)
    noise = NOISE * rounding * np.sqrt(len(first))
    basis = np.column_stack([known, directions[:, lengths > noise]])
    labels = np.zeros(len(first), dtype=bool)
    for _ in range(ROUNDS):
        fitted = basis @ np.linalg.lstsq(basis, first + step * labels, rcond=None)[0]
        rest = first - fitted
        found = rest < (rest.max() + rest.min()) / 2 if not labels.any() else rest < -step / 2
        if (found == labels).all():
            break
        labels = found
    return labels.astype(np.float64)


# Recorded views of FATE's own tasks, and what the attacks above read in them.
#
# A host of ``coordinated_lr``, ``coordinated_linr`` or ``hetero_feature_binning`` receives a number of every row under a Paillier key,
# in one message or in one of each epoch. Batches of an epoch are not put together: messages count that have all rows, which is
# FATE's default.

BINNING = ("hetero_feature_binning",)
REGRESSIONS = ("coordinated_lr", "coordinated_linr")
MESSAGES = {**dict.fromkeys(BINNING, "enc_y"), **dict.fromkeys(REGRESSIONS, "half_d")}
"""The message with a ciphertext of every row, by component."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read of every row: ``labels`` (rows,) 0 or 1, and ``numbers`` (rows,) that the first message's
    ciphertexts hold, NaN for none."""

    view: CiphertextView = field(repr=False)
    labels: Array = field(repr=False)
    numbers: Array = field(repr=False)


def encrypted_labels(view: RecordedView) -> Reading:
    """The labels that ``hetero_feature_binning`` sends as they are."""
    found = label_view(view)
    return Reading(found, opened_labels(found), in_first(found, float))


def residual_labels(view: RecordedView) -> Reading:
    """Labels from the residuals of a regression: of several epochs by their changes, of one by their signs."""
    found = label_view(view)
    labels = fitted_residuals(found) if len(found.messages) > 1 else residual_signs(found)
    return Reading(found, labels, in_first(found, float))


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
        tuple(Ciphertext(int(value), int(exponent)) for value, exponent in zip(each.values, each.exponents))
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
