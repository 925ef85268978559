"""FATE entry point of ``share_lr``: logistic and linear regression on what align left, shares of all columns."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import Array, Integers, List, Messages, OneOf, Rows, Text
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, LONG_INT, MANY, SHARED_DESCENT
from .settings import Prediction, ShareSettings

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


@cpn.component(roles=[GUEST, HOST], provider="fate")
def share_lr(ctx: Context, role: Role) -> None:
    """Stages train and predict."""


@share_lr.train()
@party_stage(MESSAGES)
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    alignment: cpn.json_model_input(roles=[GUEST, HOST]),
    settings: ShareSettings,
    train_output_data: cpn.dataframe_output(roles=[GUEST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
) -> None:
    from . import train as stage

    if role.is_host:
        output_model.write(stage.train_host(ctx, settings, train_data.read(), alignment.read()), metadata={})
        return
    document, scored = stage.train_guest(ctx, settings, train_data.read(), alignment.read())
    output_model.write(document, metadata={})
    if scored is not None:
        train_output_data.write(scored)


@share_lr.predict()
@party_stage(MESSAGES)
def predict(
    ctx: Context,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    alignment: cpn.json_model_input(roles=[GUEST, HOST]),
    # fate_client's deploy gives the trained model to the last model input: this one.
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    asked: Prediction,
    test_output_data: cpn.dataframe_output(roles=[GUEST]),
) -> None:
    from . import predict as stage

    given = ctx, asked, input_model.read(), test_data.read(), alignment.read()
    if role.is_host:
        stage.predict_host(*given)
    else:
        test_output_data.write(stage.predict_guest(*given))
