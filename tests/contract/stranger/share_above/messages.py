"""What the parties of share_above send each other."""

from ..common.wire.kinds import Int, List, Messages
from ..protocols.messages import AGREEMENT, MANY

MESSAGES: Messages = {**AGREEMENT, "above": List(Int(64), MANY)}
