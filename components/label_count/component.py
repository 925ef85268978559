"""FATE entry point of ``label_count``: noisy counts of each party's label classes."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(AGREEMENT)
def label_count(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    settings: Settings,
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
) -> None:
    """Tells all parties how many labels of each class every party has, with discrete Laplace noise."""
    from .party import publish

    publish(ctx, settings, input_data.read() if input_data is not None else None, output_model)
