"""FATE entry point of ``dp_binning``: columns as numbers of bins, with WOE and IV from private counts."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.channel import with_plain_messages
from ..common.wire.kinds import List, Messages, Rows
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, LONG_INT, MANY, PAILLIER_KEY
from .settings import Settings

MESSAGES: Messages = {
    **AGREEMENT,
    **PAILLIER_KEY,
    "encrypted_rows": Rows(BLOCK),
    "masked": List(CIPHERTEXT, MANY),
    "label_sums": List(LONG_INT, MANY),
}


@cpn.component(roles=[GUEST, HOST], provider="fate")
def dp_binning(ctx: Context, role: Role) -> None:
    """Puts the number of a bin in the place of every value, and computes WOE and IV from private counts by bin."""


@dp_binning.train()
@party_stage(MESSAGES)
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
) -> None:
    from .party import train as stage

    stage(ctx, settings, train_data.read(), train_output_data, output_model)


@dp_binning.predict()
@with_plain_messages(MESSAGES)
def predict(
    ctx: Context,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    from .party import apply_bins

    test_output_data.write(apply_bins(ctx, input_model.read(), test_data.read()))
