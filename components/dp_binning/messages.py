"""What the parties of dp_binning send each other."""

from ..common.wire.kinds import List, Messages, Rows
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, LONG_INT, MANY, PAILLIER_KEY

MESSAGES: Messages = {
    **AGREEMENT,
    **PAILLIER_KEY,
    "encrypted_rows": Rows(BLOCK),
    "masked": List(CIPHERTEXT, MANY),
    "label_sums": List(LONG_INT, MANY),
}
