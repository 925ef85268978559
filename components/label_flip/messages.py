"""What the parties of label_flip send each other."""

from ..common.wire.kinds import Flag, Messages
from ..protocols.messages import AGREEMENT

MESSAGES: Messages = {**AGREEMENT, "asks": Flag()}
