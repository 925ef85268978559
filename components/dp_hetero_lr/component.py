"""FATE entry point of ``dp_hetero_lr``: vertical logistic regression under Paillier on (flipped) labels."""

from fate.components.core import ARBITER, GUEST, HOST, Role, cpn

from ..common.entry_point import party_stage
from ..common.federation import Context
from ..common.wire.kinds import DOCUMENT, Array, Float, Int, List, Messages, Rows, Text
from ..protocols.messages import AGREEMENT, BLOCK, CIPHERTEXT, FOLDS, MANY, SHARED_DESCENT
from .settings import FoldSettings, PredictSettings, TrainSettings

MESSAGES: Messages = {
    **AGREEMENT,
    **SHARED_DESCENT,
    **FOLDS,
    # Of every fold, which agrees on terms of its own.
    "terms": DOCUMENT,
    "mean_square_bits": Int(64),
    "encrypted_rows": Rows(BLOCK),
    "masked_products": List(List(CIPHERTEXT, MANY), MANY),
    "training_state": Text(20),
    "scores": Rows(Array(("int8", "int16", "int32", "int64", "float64"))),
    # Solver per_epoch.
    "encrypted_scores": Rows(BLOCK),
    "masked": List(CIPHERTEXT, MANY),
    "decrypted": List(CIPHERTEXT, MANY),
    "weight_change": Float(),
    "loss_part": CIPHERTEXT,
    # Encrypted prediction.
    "queries": Rows(BLOCK),
    "answers": Rows(BLOCK),
}


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_hetero_lr(ctx: Context, role: Role) -> None:
    """Stages train, predict and cross_validation."""


@dp_hetero_lr.train()
@party_stage(MESSAGES)
def train(
    ctx: Context,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    validate_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    settings: TrainSettings,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
    warm_start_model: cpn.json_model_input(roles=[GUEST, HOST, ARBITER], optional=True),
) -> None:
    from . import train as stage

    if role.is_arbiter:
        output_model.write(stage.train_arbiter(ctx, settings), metadata={})
        return
    warm_start = warm_start_model.read() if warm_start_model is not None else None
    validation = validate_data.read() if validate_data is not None else None
    if role.is_host:
        output_model.write(stage.train_host(ctx, settings, train_data.read(), validation, warm_start), metadata={})
        return
    document, scored = stage.train_guest(ctx, settings, train_data.read(), validation, warm_start)
    output_model.write(document, metadata={})
    if scored is not None:
        train_output_data.write(scored)


@dp_hetero_lr.predict()
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

    if role.is_arbiter:
        stage.predict_arbiter(ctx)
        return
    encrypted = settings.scoring == "encrypted"
    given = ctx, settings, input_model.read(), test_data.read() if test_data is not None else None
    if role.is_guest:
        predict_guest = stage.predict_guest_encrypted if encrypted else stage.predict_guest
        test_output_data.write(predict_guest(*given))
    elif encrypted:
        stage.predict_host_encrypted(*given)
    else:
        stage.predict_host(*given)


@dp_hetero_lr.cross_validation()
@party_stage(MESSAGES, leave_out=("train_scores", "epsilon", "delta", "clip"))
def cross_validation(
    ctx: Context,
    role: Role,
    cv_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    settings: TrainSettings,
    folds: FoldSettings,
    cv_output_datas: cpn.dataframe_outputs(roles=[GUEST, HOST], optional=True),
) -> None:
    from . import train as stage

    if role.is_arbiter:
        stage.validate_arbiter(ctx, settings, folds.cv_param)
    elif role.is_host:
        stage.validate_host(ctx, settings, folds.cv_param, cv_data.read())
    else:
        for scored in stage.validate_guest(ctx, settings, folds.cv_param, cv_data.read()):
            next(cv_output_datas).write(df=scored)
