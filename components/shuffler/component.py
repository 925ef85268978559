"""FATE entry point of ``shuffler``: private mean, histogram and frequency of columns over all parties' records."""

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from .messages import MESSAGES
from .settings import Settings


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
@party_stage(MESSAGES)
def shuffler(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    settings: Settings,
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
) -> None:
    """Every record answers each request by randomised response; a host without data shuffles the sealed answers."""
    from .run import run

    frame = input_data.read() if input_data is not None else None
    output_model.write(run(ctx, settings, frame), metadata={})
