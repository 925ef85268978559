"""fate_client classes of the FATE-DP components.

Parameters are checked when the object is made, with the same functions that the components use at every party.
"""
from .align import Align
from .dp_hetero_lr import DPHeteroLR
from .dp_homo_nn import DPHomoNN
from .flipback import FlipbackTask as Flipback
from .label_flip import LabelFlip
from .share_lr import ShareLR
from .shuffler import Shuffler
from .smote import Smote

__all__ = ["Align", "DPHeteroLR", "DPHomoNN", "Flipback", "LabelFlip", "ShareLR", "Shuffler", "Smote"]
