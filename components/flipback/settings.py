"""Parameters of flipback. No FATE in here."""

from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.labels.flipback import FlipbackSettings

from ..common.parameters import parameter


def mode(value: Any) -> str:
    return FlipbackSettings(mode=value).mode


def fraction(value: Any) -> float:
    return FlipbackSettings(fraction=value).fraction


@dataclass(frozen=True)
class Settings:
    """Better labels for a second training, from ``scores``, the train_output_data of a first one. Costs no epsilon."""

    mode: str = parameter(
        "how labels are revised: auto, none, posterior, swap or resample",
        FlipbackSettings.mode,
        check=mode,
        title="FlipbackMode",
    )
    fraction: float = parameter(
        "share of records that swap and resample touch",
        FlipbackSettings.fraction,
        check=fraction,
        title="FlipbackFraction",
    )
