"""FATE entry point of ``smote``: over-sampling of each party's own training table."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import with_parameters
from ..common.federation import Context
from ..common.wire.channel import with_plain_messages
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
def smote(ctx: Context, role: Role) -> None:
    """Over-samples each party's training rows; has the stage train only, since models are tested on real rows."""


@smote.train()
@with_plain_messages(AGREEMENT)
@with_parameters
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
