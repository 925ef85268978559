"""fate_client classes of the FATE-DP components.

Parameters are checked when the object is made, with the same functions that the components use at every party.
"""

from .tasks import Align, DPHeteroLR, DPHomoNN, Flipback, LabelFlip, ShareLR, Shuffler, Smote

__all__ = ["Align", "DPHeteroLR", "DPHomoNN", "Flipback", "LabelFlip", "ShareLR", "Shuffler", "Smote"]
