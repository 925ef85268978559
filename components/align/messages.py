"""What the parties of align send each other: tables of tags, each with what belongs to it."""

from ..common.wire.kinds import Bytes, Int, Messages, Rows
from ..protocols.messages import AGREEMENT, BLOCK

TAG = Bytes(64)
MESSAGES: Messages = {
    **AGREEMENT,
    "records": Rows(BLOCK, keys=TAG),
    "double_tags": Rows(Int(8), keys=TAG),
    "masked": Rows(BLOCK, keys=TAG),
}
