"""What the parties of dp_scorecard send each other."""

from ..common.wire.kinds import Array, Float, Int, Integers, List, Map, Messages, OneOf, Record, Rows
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, FOLDS, MANY, PAILLIER_KEY

COUNTS = OneOf((Array(("int64",), dims=2), Integers(1 << 10, dims=2)))
MESSAGES: Messages = {
    **AGREEMENT,
    **PAILLIER_KEY,
    **FOLDS,
    "encrypted_rows": Rows(BLOCK),
    "masked_products": List(CIPHERTEXT, MANY),
    # By the position of the other party.
    "contingency_tables": Record({"own": COUNTS, "cross": Map(Int(64), COUNTS, 1 << 10)}),
    "points": Record(
        {
            "weights": List(Float(), MANY),
            "points": List(Int(64), MANY),
            "base": Int(64),
            "slope": Float(),
            "intercept": Float(),
        }
    ),
    "scores": Rows(Array(("int64",))),
}
