"""FATE entry point of ``dp_homo_gbdt``: boosted trees over parties with the same columns, private for each record."""

from typing import Any

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.channel import with_plain_messages
from ..common.wire.kinds import Array, Float, Int, List, Messages, Record, Text, optional
from ..protocols.messages import AGREEMENT, MANY, NOISY_ROUNDS
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


@dp_homo_gbdt.train()
@party_stage(MESSAGES, unmade={"given": TrainSettings})
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    given: dict[str, Any],
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
) -> None:
    from .train import train_party

    document, scored = train_party(ctx, given, None if train_data is None else train_data.read())
    output_model.write(document, metadata={})
    if scored is not None:
        train_output_data.write(scored)


@dp_homo_gbdt.predict()
@with_plain_messages(MESSAGES)
def predict(
    ctx: Context,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    from .model import predict_party

    # Every party scores its own rows with a model that all data parties hold; nobody needs another one's help.
    if test_data is not None and not role.is_arbiter:
        test_output_data.write(predict_party(ctx, input_model.read(), test_data.read()))
