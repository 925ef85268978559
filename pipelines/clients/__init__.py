"""fate_client classes of the components; parameters are checked when an object is made, by the components' own
functions."""

from typing import TYPE_CHECKING

from .definition import DeclaredTask, derived_tasks
from .tasks import DPHeteroLR, DPHomoGBDT, DPHomoNN, ShareLR

_DERIVED = derived_tasks(__name__)
globals().update(_DERIVED)
__all__ = ["DPHeteroLR", "DPHomoGBDT", "DPHomoNN", "ShareLR", *_DERIVED]

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[DeclaredTask]: ...
