"""fate_client classes of the FATE-DP components: ``LabelFlip``, ``Flipback``, ``DPHeteroLR``, ``Smote``.

Parameters are checked when the object is made, with the same functions that the components use at every party.
"""
from .dp_hetero_lr import DPHeteroLR
from .flipback import FlipbackTask as Flipback
from .label_flip import LabelFlip
from .smote import Smote

__all__ = ["DPHeteroLR", "Flipback", "LabelFlip", "Smote"]
