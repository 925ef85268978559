"""Parameters of share_above."""

from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.mechanisms.laplace import laplace_scale

from ..common.parameters import parameter
from ..common.preflight import Refusal


def columns(value: Any) -> tuple[str, ...]:
    """Names of columns of the hosts."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(each, str) for each in value):
        raise Refusal.of("columns", value, "a list of names of columns")
    return tuple(value)


def epsilon(value: Any) -> float:
    """A finite number greater than 0."""
    laplace_scale(1, value)
    return float(value)


@dataclass(frozen=True)
class Settings:
    epsilon: float = parameter("privacy loss of one record in nats, replace-one, of each column", check=epsilon)
    columns: tuple[str, ...] = parameter("columns of the hosts that are counted", check=columns)
    threshold: float = parameter("above which a value is counted", 0.0)
