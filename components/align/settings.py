"""Parameters of align, checked. No FATE in here."""
from dataclasses import asdict, dataclass
from typing import Optional

from fate_dp.components.common import checks

LARGEST_EPSILON = 20.0
DEFAULT_HIDE_SIZE = {"epsilon": 1.0, "delta": 1e-8, "pool": None}
"""Deltas add up over the jobs on a table, and a usual cap has 1e-6 or 1e-5 in all; a small one costs few dummies."""


@dataclass(frozen=True)
class HideSize:
    """How the number of matches is hidden; public.

    Attributes:
        epsilon: nats, of one record's presence, against the other party; replace-one.
        delta: what the event is charged at.
        pool: dummies of each party's pool, even.
    """

    epsilon: float
    delta: float
    pool: int


@dataclass(frozen=True)
class Settings:
    """What the job asks for, as the checks of this module return it."""

    key_length: int = 2048
    hide_size: Optional[HideSize] = None

    def to_json(self) -> dict:
        """Builtins, the same at all parties that were asked for the same."""
        return asdict(self)


def hide_size(value) -> Optional[HideSize]:
    """true, false, or a mapping with epsilon, delta and pool: secret dummies hide the number of matches."""
    from fate_dp.privacy.mechanisms.dummy_count import charged_delta, check_pool, pool_size

    if value is None or value is False:
        return None
    filled = checks.mapping("hide_size", {} if value is True else value, DEFAULT_HIDE_SIZE)
    epsilon = checks.number("hide_size.epsilon", filled["epsilon"], above=0, at_most=LARGEST_EPSILON)
    delta = checks.number("hide_size.delta", filled["delta"], above=0)
    if delta >= 1:
        raise ValueError(f"hide_size.delta is {delta!r}; it must be a finite number above 0 and below 1.")
    least = pool_size(epsilon, delta)
    if filled["pool"] is None:
        return HideSize(epsilon, charged_delta(epsilon, least), least)
    pool = check_pool(filled["pool"])
    if pool < least:
        raise ValueError(
            f"hide_size.pool is {pool}; with epsilon {epsilon:g} and delta {delta:g} it must be at least {least}."
        )
    return HideSize(epsilon, charged_delta(epsilon, pool), pool)


def key_length(value) -> int:
    """Bits of the Paillier keys; a whole number of at least 2048."""
    from fate_dp.crypto.paillier import MINIMUM_KEY_LENGTH

    return checks.number("key_length", value, at_least=MINIMUM_KEY_LENGTH, at_most=8192, whole=True)


def label_source(value) -> str:
    """namespace/name/column that the labels come from, where the guest's operator declared it public."""
    return checks.label_source(value)
