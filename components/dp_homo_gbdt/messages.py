"""What the parties of dp_homo_gbdt send each other."""

from ..common.wire.kinds import Array, Float, Int, List, Messages, Record, Text, optional
from ..protocols.messages import AGREEMENT, MANY, NOISY_ROUNDS

LEAVES = optional(Array(("float64",), dims=2))
ROUNDS = List(Int(64), MANY)
MESSAGES: Messages = {
    **AGREEMENT,
    **NOISY_ROUNDS,
    "round": Record(
        {
            "grown": LEAVES,
            "splits": Record({"columns": Array(("int64",), dims=2), "right": Array(("bool",), dims=3)}),
            "clip": Float(),
        }
    ),
    "outcome": Record(
        {
            "run": ROUNDS,
            "aborted": ROUNDS,
            "lost": ROUNDS,
            "importance": List(Float(), MANY),
            "problem": optional(Text(2000)),
            "grown": LEAVES,
        }
    ),
}
