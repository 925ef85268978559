"""What one party of a vertical training received that may tell labels, or another party's columns, beside ciphertexts.

As in `fate_dp.attacks.label_ciphertexts`, none of these views holds a private label, and rows of all of them are records in one order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fate_dp.attacks.label_ciphertexts import UNDEFENDED, CiphertextView, LabelDefence
from fate_dp.privacy.validation import InvalidArgument, is_finite

Array = NDArray[np.float64]
View = TypeVar("View")

GUEST, HOST = "guest", "host"
FEWEST_KNOWN = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelView:
    """What all views but those of ciphertexts have.

    Attributes:
        observer: who received it, a role.
        knows: what the observer knows besides, a whole sentence.
        defence: what the labels were protected by.
    """

    observer: str = HOST
    knows: str = "It knows its own columns and no label."
    defence: LabelDefence = UNDEFENDED


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareView(CiphertextView):
    """A number of every record, of which the observer has one additive share and the other one under somebody else's key.

    Attributes:
        shares: the observer's own, modulo 2^64, one tuple for each message.
        columns: the observer's own columns, float64 (rows, k); None where the attack needs none.
    """

    shares: tuple[tuple[int, ...], ...] = field(repr=False)
    columns: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if [len(own) for own in self.shares] != [len(each) for each in self.messages]:
            raise InvalidArgument("shares must be one number for each ciphertext of each message.")
        if self.columns is not None:
            frozen(self, "columns", (self.rows, None))


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
        if not self.sealed:
            raise InvalidArgument.of("sealed", (), "one entry for each record")
        if len(self.guesses) != 2:
            raise InvalidArgument.of("number of guesses", len(self.guesses), "2, the ciphertexts of 0 and 1")


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
        frozen(self, "gradients", (None, None))
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
        frozen(self, "columns", (None, None))
        rows, count = self.columns.shape
        frozen(self, "predictions", (rows,))
        frozen(self, "gradient", (count,))
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
        frozen(self, "scores", (None, None))
        frozen(self, "losses", (len(self.scores),))
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
            raise InvalidArgument.of("leaves", leaves, "whole numbers (rows, trees)")
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
        frozen(self, "outputs", (None, None))
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
        frozen(self, "scores", (None,))
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
        frozen(self, "scores", (None, None))
        frozen(self, "known_columns", (len(self.known), None))
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


def frozen(view: Any, name: str, shape: tuple[int | None, ...]) -> None:
    """Keep an array of finite float64 of this shape, None for any length but 0, that nobody can write."""
    values = np.array(getattr(view, name), dtype=np.float64)
    fits = values.ndim == len(shape) and all(
        (wanted is None and length > 0) or length == wanted for length, wanted in zip(values.shape, shape)
    )
    if not fits or not np.isfinite(values).all():
        wanted = ", ".join("any" if length is None else str(length) for length in shape)
        raise InvalidArgument.of(name, values, f"finite numbers of shape ({wanted})")
    values.flags.writeable = False
    object.__setattr__(view, name, values)


def _known_labels(view: Any, rows: int, fewest: int) -> None:
    known, labels = np.asarray(view.known), np.asarray(view.known_labels)
    if len(known) != len(labels) or len(np.unique(known)) != len(known) or len(known) < fewest:
        allowed = f"{len(labels)}, one for each label, at least {fewest} and all different"
        raise InvalidArgument.of("number of known records", len(known), allowed)
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


def _positive_error(error: float) -> None:
    if not (is_finite(error) and error > 0):
        raise InvalidArgument.of("error", error, "a finite number greater than 0")
