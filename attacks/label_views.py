"""What one party of a vertical training received that may tell labels, or another party's columns: what attacks may read.

A view is made of a recorded job, or of a run in one process; none holds a private label, and nothing here knows FATE. Rows
of all views are records in one order, which the observer knows. Labels are 0 and 1. An attack returns a float64 number for
each record: 0, 1, or `UNREAD` where it reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.validation import InvalidArgument, check_epsilon, is_finite, whole

Array = NDArray[np.float64]
View = TypeVar("View", bound="LabelView")

HOST, GUEST = "host", "guest"
UNREAD = float("nan")
FEWEST_KNOWN = 2


class Ciphertext(NamedTuple):
    """A Paillier ciphertext of FATE: its plaintext counts times 16 to ``exponent``."""

    value: int
    exponent: int


@dataclass(frozen=True)
class LabelDefence:
    """What stands between the labels and the observer.

    Attributes:
        name: short, as a row of a table has it.
        words: a whole sentence.
        epsilon: in nats, of each label (pure, replace-one), over all that the observer received; infinite without a guarantee.
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
class LabelView:
    """What all views have.

    Attributes:
        observer: who received it, a role.
        knows: what the observer knows besides, a whole sentence.
        defence: what the labels were protected by.
    """

    observer: str = HOST
    knows: str = "It knows its own columns and no label."
    defence: LabelDefence = UNDEFENDED


@dataclass(frozen=True, eq=False, kw_only=True)
class CiphertextView(LabelView):
    """A number of every record under somebody else's Paillier key, in one message or several.

    Attributes:
        modulus: the n of the public key.
        messages: one tuple for each message, of one ciphertext for each record.
        shares: the observer's own additive shares of the same numbers modulo 2^64, one tuple for each message; None where
            numbers are not shared.
        columns: the observer's own columns, float64 (rows, k); None where the attack needs none.
    """

    modulus: int
    messages: tuple[tuple[Ciphertext, ...], ...] = field(repr=False)
    shares: tuple[tuple[int, ...], ...] | None = field(default=None, repr=False)
    columns: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        whole("modulus", self.modulus, 2)
        _same_length("messages", self.messages)
        if self.shares is not None and [len(own) for own in self.shares] != [len(each) for each in self.messages]:
            raise InvalidArgument("shares must be one number for each ciphertext of each message.")
        if self.columns is not None:
            _frozen(self, "columns", (self.rows, None))

    @property
    def rows(self) -> int:
        """Records of the view."""
        return len(self.messages[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class GuessView(LabelView):
    """Encrypted labels as bytes, and what the observer's own encryptions of both labels look like.

    For any cipher whose public key the observer has: it needs not be told how ciphertexts are made.

    Attributes:
        sealed: one ciphertext for each record.
        guesses: the encryption of 0 and that of 1, made as the guest makes them.
    """

    sealed: tuple[bytes, ...] = field(repr=False)
    guesses: tuple[bytes, bytes] = field(repr=False)

    def __post_init__(self) -> None:
        _some("sealed", self.sealed)
        if len(self.guesses) != 2:
            raise InvalidArgument(f"guesses holds {len(self.guesses)} ciphertexts but must hold those of 0 and 1.")


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordGradientView(LabelView):
    """The gradient of every record's loss by the observer's part of a split network, in the clear.

    Attributes:
        gradients: float64 (rows, units).
        known: places of a few records whose labels the observer knows, and ``known_labels`` these.
        known_labels: int64, one for each of ``known``.
    """

    gradients: Array = field(repr=False)
    known: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    known_labels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    def __post_init__(self) -> None:
        _frozen(self, "gradients", (None, None))
        _known_labels(self, len(self.gradients), 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class SumView(LabelView):
    """The gradient of a logistic regression by the observer's own weights, at scores that the observer knows.

    Attributes:
        columns: the observer's own, float64 (rows, k).
        predictions: float64 (rows,), what the model gave for each record: one half at zero weights.
        gradient: float64 (k,), mean of (prediction - label) times column over all records.
        error: largest error of a number of ``gradient``, greater than 0: rounding, or noise.
    """

    columns: Array = field(repr=False)
    predictions: Array = field(repr=False)
    gradient: Array = field(repr=False)
    error: float

    def __post_init__(self) -> None:
        _frozen(self, "columns", (None, None))
        rows, count = self.columns.shape
        _frozen(self, "predictions", (rows,))
        _frozen(self, "gradient", (count,))
        _positive_error(self.error)


@dataclass(frozen=True, eq=False, kw_only=True)
class LossView(LabelView):
    """Mean log losses of scores that the observer knows, one for each evaluation or epoch.

    Attributes:
        scores: logits, float64 (losses, rows).
        losses: in nats, float64 (losses,): mean of log(1 + e^score) - label x score.
        error: largest error of a loss, greater than 0.
    """

    scores: Array = field(repr=False)
    losses: Array = field(repr=False)
    error: float

    def __post_init__(self) -> None:
        _frozen(self, "scores", (None, None))
        _frozen(self, "losses", (len(self.scores),))
        _positive_error(self.error)


@dataclass(frozen=True, eq=False, kw_only=True)
class LeafView(LabelView):
    """In which leaf of each tree every record lies.

    Attributes:
        leaves: int64 (rows, trees); equal numbers in a column are one leaf.
        known: places of a few records whose labels the observer knows, and ``known_labels`` these.
        known_labels: int64, one for each of ``known``.
    """

    leaves: NDArray[np.int64] = field(repr=False)
    known: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    known_labels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    def __post_init__(self) -> None:
        leaves = np.array(self.leaves)
        if leaves.ndim != 2 or not leaves.size or not np.issubdtype(leaves.dtype, np.integer):
            raise InvalidArgument(
                f"leaves has shape {leaves.shape} and type {leaves.dtype} but must be whole numbers (rows, trees)."
            )
        leaves = leaves.astype(np.int64)
        leaves.flags.writeable = False
        object.__setattr__(self, "leaves", leaves)
        _known_labels(self, len(leaves), 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class BottomView(LabelView):
    """The observer's own part of a model that was trained with the labels: what it gives for each record.

    Attributes:
        outputs: of the trained part, float64 (rows, units).
        known: places of a few records whose labels the observer knows, and ``known_labels`` these.
        known_labels: int64, one for each of ``known``, both labels among them.
    """

    outputs: Array = field(repr=False)
    known: NDArray[np.int64] = field(repr=False)
    known_labels: NDArray[np.int64] = field(repr=False)

    def __post_init__(self) -> None:
        _frozen(self, "outputs", (None, None))
        _known_labels(self, len(self.outputs), FEWEST_KNOWN)


@dataclass(frozen=True, eq=False, kw_only=True)
class JointScoreView(LabelView):
    """Another party's part of the scores of all records, for one model: its columns times its weights.

    Attributes:
        scores: float64 (rows,).
        step: that of the grid that scores lie on, greater than 0.
    """

    scores: Array = field(repr=False)
    step: float
    observer: str = GUEST
    knows: str = "It knows labels and its own columns, and nothing of the other party's columns and weights."

    def __post_init__(self) -> None:
        _frozen(self, "scores", (None,))
        if not (is_finite(self.step) and self.step > 0):
            raise InvalidArgument.of("step", self.step, "a finite number greater than 0")


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreReleasesView(LabelView):
    """Another party's part of the scores of all records, for several models, and its columns of a few records.

    Attributes:
        scores: float64 (rows, releases).
        known: places of records whose columns at the other party the observer knows, and ``known_columns`` these.
        known_columns: float64, (known, columns).
    """

    scores: Array = field(repr=False)
    known: NDArray[np.int64] = field(repr=False)
    known_columns: Array = field(repr=False)
    observer: str = GUEST
    knows: str = "It knows the other party's columns of a few records, and none of its weights."

    def __post_init__(self) -> None:
        _frozen(self, "scores", (None, None))
        _frozen(self, "known_columns", (len(self.known), None))
        _places(self.known, len(self.scores))


def require(view: object, wanted: type[View], attack: str) -> View:
    """The view, if the attack can read it; what is wrong with it is one sentence."""
    if not isinstance(view, wanted):
        raise InvalidArgument(f"{attack} reads a {wanted.__name__} but was given a {type(view).__name__}.")
    return view


def require_known(view: LeafView | BottomView | RecordGradientView, attack: str) -> None:
    """Refuse a view without known labels of both kinds, one sentence."""
    if len(np.unique(view.known_labels)) < 2:
        raise InvalidArgument(
            f"{attack} needs known labels of both kinds but the view has {len(view.known)} known labels of "
            f"{len(np.unique(view.known_labels))} kind(s)."
        )


def share_read(found: Array, labels: NDArray[np.int64]) -> float:
    """The share of all records whose label an attack names rightly; what it leaves unread counts as wrong."""
    return float(np.mean(np.asarray(found) == labels))


def _frozen(view: Any, name: str, shape: tuple[int | None, ...]) -> None:
    """Keep an array of finite float64 of this shape, None for any length but 0, that nobody can write."""
    values = np.array(getattr(view, name), dtype=np.float64)
    fits = values.ndim == len(shape) and all(
        (wanted is None and length > 0) or length == wanted for length, wanted in zip(values.shape, shape)
    )
    if not fits or not np.isfinite(values).all():
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InvalidArgument(f"{name} has shape {values.shape} but must be finite numbers of shape ({wanted}).")
    values.flags.writeable = False
    object.__setattr__(view, name, values)


def _known_labels(view: Any, rows: int, fewest: int) -> None:
    known, labels = np.asarray(view.known), np.asarray(view.known_labels)
    if len(known) != len(labels) or len(np.unique(known)) != len(known) or len(known) < fewest:
        raise InvalidArgument(
            f"known names {len(known)} records for {len(labels)} labels but must name at least {fewest} different ones, one "
            "for each label."
        )
    if not np.isin(labels, (0, 1)).all():
        raise InvalidArgument("known_labels holds a value other than 0 and 1.")
    _places(known, rows)
    object.__setattr__(view, "known", known.astype(np.int64))
    object.__setattr__(view, "known_labels", labels.astype(np.int64))


def _places(known: NDArray[np.int64], rows: int) -> None:
    if len(known) and not (np.min(known) >= 0 and np.max(known) < rows):
        raise InvalidArgument(
            f"known must be places from 0 to {rows - 1} but reaches from {min(known)} to {max(known)}."
        )


def _some(name: str, values: Sequence[object]) -> None:
    if not len(values):
        raise InvalidArgument(f"{name} is empty but must have one entry for each record.")


def _same_length(name: str, values: Sequence[Sequence[object]]) -> None:
    _some(name, values)
    lengths = sorted({len(each) for each in values})
    if len(lengths) != 1 or lengths[0] == 0:
        raise InvalidArgument(f"{name} have {lengths} records but must all have the same number of at least 1.")


def _positive_error(error: float) -> None:
    if not (is_finite(error) and error > 0):
        raise InvalidArgument.of("error", error, "a finite number greater than 0")
