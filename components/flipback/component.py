"""FATE entry point of ``flipback``: better labels for a second training, from the scores of a first one."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(AGREEMENT)
def flipback(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    scores: cpn.dataframe_input(roles=[GUEST]),
    settings: Settings,
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    """``scores`` is the train_output_data of dp_hetero_lr on the same table; hosts pass their table through."""
    if role.is_guest:
        from .guest import revise_labels

        revise_labels(ctx, settings, input_data, scores, output_data)
    else:
        from ..common.frames import pass_through

        pass_through(ctx, input_data, output_data)
