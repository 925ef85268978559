"""What one party of a vertical training received that may tell labels, or another party's columns: what attacks may read.

A view is made of a recorded job, or of a run in one process; none holds a private label, and nothing here knows FATE. Rows
of all views are records in one order, which the observer knows. Labels are 0 and 1. An attack returns a float64 number for
each record: 0, 1, or `UNREAD` where it reads nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.validation import InvalidArgument, check_epsilon, whole

Array = NDArray[np.float64]
View = TypeVar("View", bound="LabelView")

HOST = "host"
UNREAD = float("nan")


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
    """

    modulus: int
    messages: tuple[tuple[Ciphertext, ...], ...] = field(repr=False)

    def __post_init__(self) -> None:
        whole("modulus", self.modulus, 2)
        _same_length("messages", self.messages)

    @property
    def rows(self) -> int:
        """Records of the view."""
        return len(self.messages[0])


def require(view: object, wanted: type[View], attack: str) -> View:
    """The view, if the attack can read it; what is wrong with it is one sentence."""
    if not isinstance(view, wanted):
        raise InvalidArgument(f"{attack} reads a {wanted.__name__} but was given a {type(view).__name__}.")
    return view


def _same_length(name: str, values: Sequence[Sequence[object]]) -> None:
    if not len(values):
        raise InvalidArgument.of(f"number of {name}", 0, "that of the records, at least 1")
    lengths = sorted({len(each) for each in values})
    if len(lengths) != 1 or lengths[0] == 0:
        raise InvalidArgument.of(f"records of {name}", lengths, "the same number of at least 1")
