"""Parameters of column_mean."""

from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.mechanisms.aggregates import STEPS_OF_RANGE, check_range
from fate_dp.privacy.mechanisms.laplace import laplace_scale

from ..common.parameters import parameter
from ..common.preflight import Refusal


def columns(value: Any) -> tuple[str, ...]:
    """Names of columns that every party has."""
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(each, str) for each in value):
        raise Refusal.of("columns", value, "a list of at least one name of a column")
    return tuple(value)


@dataclass(frozen=True)
class Settings:
    """What is averaged, and how much one record may show."""

    epsilon: float = parameter("privacy loss of one record in nats, replace-one, for all means together", above=0)
    columns: tuple[str, ...] = parameter("names of the columns, at every party", check=columns)
    lower: float = parameter("public lower end of the range of all columns", 0.0)
    upper: float = parameter("public upper end of the range of all columns", 1.0)

    def __post_init__(self) -> None:
        check_range(self.lower, self.upper, ())
        laplace_scale(self.sensitivity, self.epsilon)

    @property
    def sensitivity(self) -> int:
        """l1, in steps of the range: a replaced record moves the sum of each column by all steps at most."""
        return STEPS_OF_RANGE * len(self.columns)
