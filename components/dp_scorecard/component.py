"""FATE entry point of ``dp_scorecard``: an additive model on bins of guest and hosts, as a table of points."""

from typing import Any

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import with_parameters
from ..common.wire.channel import with_plain_messages
from .settings import PredictSettings, TrainSettings


@cpn.component(roles=[GUEST, HOST], provider="fate")
def dp_scorecard(ctx: Any, role: Role) -> None:
    """An additive model on bins of guest and hosts as a table of points: stages train and predict."""


@dp_scorecard.train()
@with_plain_messages
@with_parameters
def train(
    ctx: Any,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: TrainSettings,
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
    binning_model: cpn.json_model_input(roles=[GUEST, HOST], optional=True),
) -> None:
    from . import train as stage

    run = stage.train_guest if role.is_guest else stage.train_host
    bins = binning_model.read() if binning_model is not None else None
    output_model.write(run(ctx, settings, train_data.read(), bins), metadata={})


@dp_scorecard.predict()
@with_plain_messages
@with_parameters
def predict(
    ctx: Any,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    settings: PredictSettings,
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    from . import predict as stage

    if role.is_guest:
        test_output_data.write(stage.predict_guest(ctx, settings, input_model.read(), test_data.read()))
    else:
        stage.predict_host(ctx, input_model.read(), test_data.read())
