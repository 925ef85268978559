"""What the parties of dp_hetero_lr send each other."""

from ..common.wire.kinds import DOCUMENT, Array, Float, Int, List, Messages, Rows, Text
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, FOLDS, MANY, SHARED_DESCENT

MESSAGES: Messages = {
    **AGREEMENT,
    **SHARED_DESCENT,
    **FOLDS,
    # Of every fold, which agrees on terms of its own.
    "terms": DOCUMENT,
    "mean_square_bits": Int(64),
    "encrypted_rows": Rows(BLOCK),
    "masked_products": List(List(CIPHERTEXT, MANY), MANY),
    "training_state": Text(20),
    "scores": Rows(Array(("int8", "int16", "int32", "int64", "float64"))),
    # Solver per_epoch.
    "encrypted_scores": Rows(BLOCK),
    "masked": List(CIPHERTEXT, MANY),
    "decrypted": List(CIPHERTEXT, MANY),
    "weight_change": Float(),
    "loss_part": CIPHERTEXT,
    # Encrypted prediction.
    "queries": Rows(BLOCK),
    "answers": Rows(BLOCK),
}
