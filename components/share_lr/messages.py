"""What the parties of share_lr send each other."""

from ..common.wire.kinds import Array, Integers, List, Messages, OneOf, Rows, Text
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, LONG_INT, MANY, SHARED_DESCENT

SHARES = OneOf((Array(("int64",), dims=2), Integers(1 << 10, dims=2)))
MESSAGES: Messages = {
    **AGREEMENT,
    **SHARED_DESCENT,
    "training_state": Text(20),
    "encrypted_rows": Rows(BLOCK),
    "masked_products": List(CIPHERTEXT, MANY),
    "label_excess": LONG_INT,
    "encrypted_columns": Rows(BLOCK),
    "masked_scores": Rows(List(CIPHERTEXT, MANY)),
    "score_shares": Rows(SHARES),
    "label_shares": Rows(SHARES),
}
