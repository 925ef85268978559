"""fate_client classes of the components; parameters are checked when an object is made, by the components' own
functions."""

from typing import TYPE_CHECKING

from .definition import DeclaredTask, derived_tasks
from .tasks import (
    Align,
    DPBinning,
    DPHeteroLR,
    DPHomoGBDT,
    DPHomoNN,
    DPScorecard,
    Flipback,
    LabelFlip,
    ShareLR,
    Shuffler,
    Smote,
)

_DERIVED = derived_tasks(__name__)
globals().update(_DERIVED)
__all__ = [
    "Align",
    "DPBinning",
    "DPHeteroLR",
    "DPHomoGBDT",
    "DPHomoNN",
    "DPScorecard",
    "Flipback",
    "LabelFlip",
    "ShareLR",
    "Shuffler",
    "Smote",
    *_DERIVED,
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[DeclaredTask]: ...
