"""FATE entry point of ``dp_homo_gbdt``: boosted trees over parties with the same columns, private for each record."""

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.federation import Context
from ..common.wire.kinds import Array, Float, Int, List, Messages, Record, Text, optional
from ..protocols.messages import AGREEMENT, MANY, NOISY_ROUNDS
from ..protocols.noisy_rounds.stages import add_stages
from .settings import TrainSettings

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


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_homo_gbdt(ctx: Context, role: Role) -> None:
    """Boosted trees over parties that hold records of the same columns; stages train and predict."""


add_stages(dp_homo_gbdt, MESSAGES, TrainSettings)
