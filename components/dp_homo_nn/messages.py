"""What the parties of dp_homo_nn send each other."""

from ..common.wire.kinds import Array, Float, Int, List, Messages, Record, Text, optional
from ..protocols.messages import AGREEMENT, MANY, NOISY_ROUNDS

WEIGHTS = Array(("float64", "float32"))
ROUNDS, PROBLEM = List(Int(64), MANY), optional(Text(2000))
MESSAGES: Messages = {
    **AGREEMENT,
    **NOISY_ROUNDS,
    "start_weights": WEIGHTS,
    # The shuffler gets no weights, and before adaptive noise there is nothing but weights.
    "round": Record({}, {"problem": PROBLEM, "weights": WEIGHTS, "clip": Float()}),
    "contributions": optional(WEIGHTS),
    "scales": List(Float(), MANY),
    "outcome": Record(
        {"run": ROUNDS, "aborted": ROUNDS, "lost": ROUNDS, "contributions": Text(20), "problem": PROBLEM},
        {"weights": WEIGHTS},
    ),
}
