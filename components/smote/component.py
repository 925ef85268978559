"""FATE entry point of ``smote``: over-sampling of each party's own training table."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
def smote(ctx: Context, role: Role) -> None:
    """Over-samples each party's training rows; has the stage train only, since models are tested on real rows."""


@smote.train()
@party_stage(AGREEMENT)
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    """Brings every class to the size of the largest one, at each party alone; no record has a guarantee afterwards."""
    from .party import over_sample_table

    over_sample_table(ctx, train_data.read(), train_output_data, settings)
