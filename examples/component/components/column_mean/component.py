"""FATE entry point of ``column_mean``: noisy means of columns of every party."""

from typing import Any

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(AGREEMENT)
def column_mean(
    ctx: Any,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
) -> None:
    """Tells all parties the means of columns of every party, with discrete Laplace noise."""
    from .party import publish

    publish(ctx, settings, input_data.read(), output_model)
