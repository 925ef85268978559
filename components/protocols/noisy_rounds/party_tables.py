"""What a table, and the parties' tables together, must be like for a training in rounds; and what its rounds promise.

Each party checks its own; what other parties learn is that one of them refuses, not what its rows are like.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...common import frames
from ...common.federation import Document
from ...common.frames import DataFrame
from ...common.preflight import Preflight, PrivateReason, Refusal

logger = logging.getLogger(__name__)
REFUSAL = "The cap that this party's operator set for private steps does not allow this training."


def agree_in_two_steps(tables: Preflight, consent_to: Callable[[Document], Any]) -> Any:
    """The ``agreement`` of the Preflight that ``consent_to`` makes of what was agreed on in ``tables``.

    Each step ends with one verdict for everybody: first what each party brings, after which the guest calibrates the noise;
    then what that costs, which each data party computes anew and holds against its own cap.
    """
    consent = consent_to(tables.agree())
    consent.agree()
    warning = consent.agreement.terms.delta_warning()
    if warning:
        logger.warning(warning)
    return consent.agreement


def check_labelled_rows(frame: DataFrame | None, records: int | None, without: str) -> DataFrame:
    """A table with rows, distinct ids, a label column and no weights, of at most ``records`` rows.

    ``without`` names who trains without a table, for the sentence where this party has none.
    """
    if frame is None:
        raise Refusal(f"The task has no train_data at this party; only {without} trains without rows.")
    frames.require_rows(frame)
    if frame.schema.label_name is None:
        raise Refusal("The training table has no label column; every data party needs its own labels.")
    frames.refuse_weights(frame)
    frames.require_distinct_ids(frame)
    if records is not None and frame.shape[0] > records:
        raise PrivateReason(
            f"records must be the number of all parties' records together, got {records}, and this party alone has "
            f"{frame.shape[0]}.",
            public=f"records must be the number of all parties' records together, got {records}, fewer than that party has.",
        )
    return frame


def check_labels(frame: DataFrame, classes: int) -> None:
    """Labels must be the whole numbers below ``classes``, at least two of them."""
    found_in_blocks = frames.label_blocks(frame).mapValues(partial(_first_unfit, classes=classes)).collect()
    unfit = next((label for _, label in found_in_blocks if label is not None), None)
    if unfit is not None:
        raise ValueError(f"Labels must be whole numbers from 0 to {classes - 1} with classes {classes}, got {unfit}.")
    found = frames.distinct_labels(frame, limit=classes)
    if len(found) < 2:
        raise ValueError(
            f"All labels are {found.pop():g}; a party with one class teaches the model that class only. Take its rows to "
            "another party, or leave the party out."
        )


def check_parameters(own: Mapping, guests: Mapping) -> None:
    """At every party: its parameters against the guest's."""
    differing = next((name for name in own if own[name] != guests.get(name)), None)
    if differing is not None:
        raise Refusal(
            f"{differing} is {own[differing]!r} here and {guests.get(differing)!r} at the guest; every party needs the same."
        )


def check_told(own: Mapping, agreed: Mapping) -> None:
    """What the guest's terms say of this party, or promise to all, must be what this party finds itself.

    The last digits of numbers are left aside, which machines round in ways of their own.
    """
    differing = next((name for name, value in own.items() if not _alike(value, agreed[name])), None)
    if differing is not None:
        raise Refusal(f"The guest's terms have another {differing} than this party finds; it takes no part in them.")


def _alike(own: object, told: object) -> bool:
    if isinstance(own, Mapping) and isinstance(told, Mapping):
        return own.keys() == told.keys() and all(_alike(own[key], told[key]) for key in own)
    if isinstance(own, float) and isinstance(told, float):
        return math.isclose(own, told, rel_tol=ROUNDING - 1)
    return own == told


def check_same_columns(columns: Mapping[str, Sequence[str]]) -> None:
    """At the guest: {data party: names of its columns}, its own first."""
    own, *_ = columns.values()
    for name, theirs in columns.items():
        if theirs != own:
            raise Refusal(_other_columns(name, theirs, own))


def _other_columns(name: str, theirs: Sequence[str], own: Sequence[str]) -> str:
    if len(theirs) != len(own):
        return (
            f"The table of {name} has {len(theirs)} features and the guest's has {len(own)}; all need the same columns."
        )
    place = next(number for number, pair in enumerate(zip(theirs, own)) if pair[0] != pair[1])
    return (
        f"The table of {name} has {theirs[place]!r} as feature {place + 1} and the guest's has {own[place]!r}; all need the "
        "same columns in the same order."
    )


def _first_unfit(labels: np.ndarray, classes: int) -> str | None:
    """A label as text that is no class, or None."""
    with np.errstate(invalid="ignore"):
        wrong = labels[~(np.isin(labels, np.arange(classes)))]
    return f"{wrong[0]:g}" if len(wrong) else None


# Epsilons are sums of roundings here and there; a party recomputes what the guest has calibrated.
ROUNDING = 1 + 1e-9
POOLED = "epsilon if shuffler and server pool what they see"
PLD = "PLD (dp-accounting), privacy.accounting.total"


@dataclass(frozen=True)
class Guarantee:
    """What rounds promise one unit; epsilons in nats at ``delta``, by relation where there is an account under it.

    ``collusion`` is epsilon against shuffler and server who pool what they see, delta 0; None without a shuffler.
    """

    unit: str
    relation: str
    delta: float
    epsilons: Mapping[str, float]
    collusion: float | None
    observers: tuple[str, ...]
    accountant: str = PLD

    def to_json(self) -> Document:
        epsilons = {str(name): "infinity" if math.isinf(value) else value for name, value in self.epsilons.items()}
        return {
            "unit": self.unit,
            "relation": str(self.relation),
            "delta": self.delta,
            "epsilon": epsilons,
            POOLED: self.collusion,
            "observers": list(self.observers),
            "accountant": self.accountant,
        }


def promised_facts(promise: Document, rounds: int) -> Document:
    epsilons = {
        f"epsilon (nats, {in_words(relation)}, all {rounds} rounds)": epsilon
        for relation, epsilon in promise["epsilon"].items()
    }
    return {
        "privacy": promise["unit"],
        "delta": promise["delta"],
        "relation that is charged": in_words(promise["relation"]),
        "accountant": promise["accountant"],
        "observers": ", ".join(promise["observers"]),
        **epsilons,
    }


def in_words(relation: str) -> str:
    """A neighbouring relation as people write it: replace-one, add-or-remove."""
    return relation.replace("_", "-")
