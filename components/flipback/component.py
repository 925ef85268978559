"""FATE entry point of ``flipback``: better labels for a second training, from the scores of a first one."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.common.parameters import checked
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.flipback import settings as allowed


@cpn.component(roles=[GUEST, HOST], provider="fate")
@with_plain_messages
def flipback(
    ctx,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    scores: cpn.dataframe_input(roles=[GUEST]),
    mode: cpn.parameter(
        type=checked(allowed.mode, "FlipbackMode"), default="auto",
        desc="how labels are revised: auto, none, posterior, swap or resample",
    ),
    fraction: cpn.parameter(
        type=checked(allowed.fraction, "FlipbackFraction"),
        default=0.02,
        desc="share of records that swap and resample touch",
    ),
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    """``scores`` is the train_output_data of dp_hetero_lr on the same table; hosts pass their table through."""
    if role.is_guest:
        from .guest import revise_labels

        revise_labels(ctx, input_data, scores, output_data, mode=mode, fraction=fraction)
    else:
        from fate_dp.components.common.pass_through import pass_through

        pass_through(ctx, input_data, output_data)
