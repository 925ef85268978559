"""FATE entry point of ``dp_scorecard``: an additive model on bins of guest and hosts, as a table of points."""

from fate.components.core import GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import Array, Float, Int, Integers, List, Map, Messages, OneOf, Record, Rows
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, FOLDS, MANY, PAILLIER_KEY
from .settings import FoldSettings, PredictSettings, TrainSettings

COUNTS = OneOf((Array(("int64",), dims=2), Integers(1 << 10, dims=2)))
MESSAGES: Messages = {
    **AGREEMENT,
    **PAILLIER_KEY,
    **FOLDS,
    "encrypted_rows": Rows(BLOCK),
    "masked_products": List(CIPHERTEXT, MANY),
    # By the position of the other party.
    "contingency_tables": Record({"own": COUNTS, "cross": Map(Int(64), COUNTS, 1 << 10)}),
    "points": Record(
        {
            "weights": List(Float(), MANY),
            "points": List(Int(64), MANY),
            "base": Int(64),
            "slope": Float(),
            "intercept": Float(),
        }
    ),
    "scores": Rows(Array(("int64",))),
}


@cpn.component(roles=[GUEST, HOST], provider="fate")
def dp_scorecard(ctx: Context, role: Role) -> None:
    """An additive model on bins of guest and hosts as a table of points: stages train, predict and cross_validation."""


@dp_scorecard.train()
@party_stage(MESSAGES)
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: TrainSettings,
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
    binning_model: cpn.json_model_input(roles=[GUEST, HOST], optional=True),
) -> None:
    from .train import train as stage

    bins = binning_model.read() if binning_model is not None else None
    output_model.write(stage(ctx, settings, train_data.read(), bins), metadata={})


@dp_scorecard.predict()
@party_stage(MESSAGES)
def predict(
    ctx: Context,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    settings: PredictSettings,
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
) -> None:
    from . import predict as stage

    given = ctx, settings, input_model.read(), test_data.read() if test_data is not None else None
    if role.is_guest:
        test_output_data.write(stage.predict_guest(*given))
    else:
        stage.predict_host(*given)


@dp_scorecard.cross_validation()
@party_stage(MESSAGES)
def cross_validation(
    ctx: Context,
    role: Role,
    cv_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: TrainSettings,
    folds: FoldSettings,
    cv_output_datas: cpn.dataframe_outputs(roles=[GUEST, HOST], optional=True),
    binning_model: cpn.json_model_input(roles=[GUEST, HOST], optional=True),
) -> None:
    from . import folds as stage

    bins = binning_model.read() if binning_model is not None else None
    if role.is_host:
        stage.validate_host(ctx, settings, folds.cv_param, cv_data.read(), bins)
        return
    for scored in stage.validate_guest(ctx, settings, folds.cv_param, cv_data.read(), bins):
        next(cv_output_datas).write(df=scored)
