"""FATE entry point of share_above."""

from typing import Any

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.wire.kinds import Int, List, Messages
from ..protocols.messages import AGREEMENT, MANY
from .settings import Settings

MESSAGES: Messages = {**AGREEMENT, "above": List(Int(64), MANY)}


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(MESSAGES)
def share_above(
    ctx: Any,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    output_model: cpn.json_model_output(roles=[GUEST]),
) -> None:
    """Tells the guest how many values of a host's columns lie above a threshold."""
    from .party import count_at_host, read_at_guest

    if role.is_guest:
        read_at_guest(ctx, settings, input_data.read(), output_model)
    else:
        count_at_host(ctx, settings, input_data.read())
