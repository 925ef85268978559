"""fate_client classes of the FATE-DP components: ``LabelFlip``, ``Flipback``, ``DPHeteroLR``, ``DPHomoNN``, ``Shuffler``, ``Smote``.

Parameters are checked when the object is made, with the same functions that the components use at every party.
"""
from .dp_hetero_lr import DPHeteroLR
from .dp_homo_nn import DPHomoNN
from .flipback import FlipbackTask as Flipback
from .label_flip import LabelFlip
from .shuffler import Shuffler
from .smote import Smote

__all__ = ["DPHeteroLR", "DPHomoNN", "Flipback", "LabelFlip", "Shuffler", "Smote"]
