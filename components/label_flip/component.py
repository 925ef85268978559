"""FATE entry point of ``label_flip``: k-ary randomised response, or unbiased noise, on the guest's label column."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import Flag, Messages, Tuple
from ..protocols.messages import AGREEMENT
from .settings import Settings

MESSAGES: Messages = {**AGREEMENT, "asks": Tuple((Flag(), Flag()))}


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(MESSAGES)
def label_flip(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    """Releases each record's label once per epsilon; hosts pass their table through."""
    from . import guest

    if role.is_guest:
        from ..common.job_files import JobFiles

        guest.flip(ctx, settings, input_data, output_data, JobFiles.of_this_task())
    else:
        guest.pass_on(ctx, input_data, output_data)
