"""FATE entry point of ``dp_homo_nn``: horizontal training with record-level or client-level differential privacy."""

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.federation import Context
from ..common.wire.kinds import Array, Float, Int, List, Messages, Record, Text, optional
from ..protocols.messages import AGREEMENT, MANY, NOISY_ROUNDS
from ..protocols.noisy_rounds.stages import add_stages
from .settings import TrainSettings

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


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_homo_nn(ctx: Context, role: Role) -> None:
    """Stages train and predict."""


add_stages(dp_homo_nn, MESSAGES, TrainSettings)
