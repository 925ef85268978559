"""FATE entry point of ``keyed_split``: rows for training and for testing, by their match ids alone."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..protocols.messages import AGREEMENT
from .settings import Settings


@cpn.component(roles=[GUEST, HOST], provider="fate")
@party_stage(AGREEMENT)
def keyed_split(
    ctx: Context,
    role: Role,
    input_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: Settings,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    """Splits rows by a hash of their match ids: no row's side depends on another row, and all parties agree."""
    from .party import split

    split(ctx, settings, input_data.read(), (train_output_data, test_output_data))
