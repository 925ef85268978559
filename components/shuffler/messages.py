"""What the parties of shuffler send each other."""

from ..common.wire.kinds import AnyKind, Bytes, Float, Int, List, Messages, OneOf, Record, Text
from ..protocols.messages import AGREEMENT, BLOCK, MANY

ESTIMATE: dict[str, AnyKind] = {"estimate": Float(), "standard_error": Float(), "interval": List(Float(), 2)}
VALUE = OneOf((Int(64), Float(), Text()))
SHARE = Record(ESTIMATE, {"from": VALUE, "to": VALUE, "value": VALUE})
MESSAGES: Messages = {
    **AGREEMENT,
    "records": Int(64),
    "server_key": Bytes(32),
    # One for every statistic.
    "messages_*": BLOCK,
    "statistics": List(
        Record(
            {"column": Text(1 << 12), "kind": Text(100), "messages": Int(64)}, {**ESTIMATE, "shares": List(SHARE, MANY)}
        ),
        1 << 14,
    ),
}
