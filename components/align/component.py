"""FATE entry point of ``align``: the records of guest and host, joined as additive shares."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import Bytes, Int, Messages, Rows
from ..protocols.messages import AGREEMENT, BLOCK
from .settings import Settings

TAG = Bytes(64)
MESSAGES: Messages = {
    **AGREEMENT,
    "records": Rows(BLOCK, keys=TAG),
    "double_tags": Rows(Int(8), keys=TAG),
    "masked": Rows(BLOCK, keys=TAG),
}


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(MESSAGES)
def align(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    alignment: cpn.json_model_output(roles=[GUEST, HOST]),
) -> None:
    """Each party gets additive shares of the matched records' features and label; nobody learns which ids matched."""
    from .run import run

    shares, facts = run(ctx, settings, input_data.read())
    output_data.write(shares)
    alignment.write(facts.to_json(), metadata={})
