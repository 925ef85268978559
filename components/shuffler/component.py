"""FATE entry point of ``shuffler``: private mean, histogram and frequency of columns over all parties' records."""

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import AnyKind, Bytes, Float, Int, List, Messages, OneOf, Record, Text
from ..protocols.messages import AGREEMENT, BLOCK, MANY
from .settings import Settings

ESTIMATE: dict[str, AnyKind] = {"estimate": Float(), "standard_error": Float(), "interval": List(Float(), 2)}
VALUE = OneOf((Int(64), Float(), Text()))
SHARE = Record(ESTIMATE, {"from": VALUE, "to": VALUE, "value": VALUE})
MESSAGES: Messages = {
    **AGREEMENT,
    "records": Int(64),
    "server_key": Bytes(32),
    # One for every statistic.
    "messages_*": BLOCK,
    "statistics": List(
        Record(
            {"column": Text(1 << 12), "kind": Text(100), "messages": Int(64)}, {**ESTIMATE, "shares": List(SHARE, MANY)}
        ),
        1 << 14,
    ),
}


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
