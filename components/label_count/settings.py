"""Parameters of label_count. No FATE in here."""

from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.mechanisms.laplace import laplace_scale

from ..common.parameters import classes, parameter

SENSITIVITY = 2
"""A replaced record leaves one count and joins another one."""


def epsilon(value: Any) -> float:
    """A finite number greater than 0, large enough for the noise to be drawn."""
    laplace_scale(SENSITIVITY, value)
    return float(value)


@dataclass(frozen=True)
class Settings:
    """Tells all parties how many labels of each class every party has, with discrete Laplace noise."""

    epsilon: float = parameter(
        "privacy loss of one record in nats, replace-one, for all counts together", check=epsilon
    )
    classes: tuple[float, ...] = parameter(
        "public label values to count, declared and never found in the data", (0.0, 1.0), check=classes
    )
