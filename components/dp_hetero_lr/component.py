"""FATE entry point of ``dp_hetero_lr``: vertical logistic regression under Paillier on (flipped) labels."""
from fate.components.core import ARBITER, GUEST, HOST, Role, cpn
from fate_dp.components.common.checks import label_source as check_label_source
from fate_dp.components.common.parameters import checked
from fate_dp.components.dp_hetero_lr import settings as allowed


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_hetero_lr(ctx, role):
    """Stages train, predict and cross_validation."""


@dp_hetero_lr.train()
def train(
    ctx,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    validate_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    epochs: cpn.parameter(type=checked(allowed.epochs, "Epochs"), default=30, desc="most epochs"),
    batch_size: cpn.parameter(
        type=checked(allowed.batch_size, "BatchSize"),
        default=None,
        desc="rows per batch, the same batches in every epoch; None means all rows",
    ),
    optimizer: cpn.parameter(
        type=checked(allowed.optimizer, "Optimizer"),
        default=None,
        desc="method, penalty, alpha, optimizer_params; None means values made from public numbers",
    ),
    learning_rate_scheduler: cpn.parameter(
        type=checked(allowed.learning_rate_scheduler, "LearningRateScheduler"),
        default=None,
        desc="method (constant, linear, step), scheduler_params",
    ),
    init_param: cpn.parameter(
        type=checked(allowed.init_param, "InitParam"), default=None, desc="method (kaiming by default), fit_intercept, ..."
    ),
    tol: cpn.parameter(type=checked(allowed.tolerance, "Tolerance"), default=1e-4, desc="tolerance of early_stop"),
    early_stop: cpn.parameter(
        type=checked(allowed.early_stop, "EarlyStop"), default="diff", desc="diff, abs or weight_diff"
    ),
    threshold: cpn.parameter(
        type=checked(allowed.threshold, "Threshold"), default=0.5, desc="scores above it predict label 1"
    ),
    he_param: cpn.parameter(
        type=checked(allowed.he_param, "HEParam"), default=None, desc="kind paillier, key_length of at least 2048"
    ),
    flipback: cpn.parameter(
        type=checked(allowed.flipback, "Flipback"), default=None, desc="mode, every, fraction, max_rounds"
    ),
    train_scores: cpn.parameter(
        type=checked(allowed.train_scores, "TrainScores"),
        default=True,
        desc="whether the guest gets the joint scores of the training rows; each host's ledger counts it",
    ),
    label_source: cpn.parameter(
        type=checked(check_label_source, "LabelSource"),
        default=None,
        desc="namespace/name/column, needed for labels that are not flipped: it must be declared public at the guest",
    ),
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
    warm_start_model: cpn.json_model_input(roles=[GUEST, HOST, ARBITER], optional=True),
):
    from . import train as stage

    settings = _settings(
        epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler,
        init_param=init_param, tol=tol, early_stop=early_stop, threshold=threshold, he_param=he_param,
        flipback=flipback, train_scores=train_scores, label_source=label_source,
    )  # fmt: skip
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
def predict(
    ctx,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    from . import predict as stage

    if role.is_guest:
        test_output_data.write(stage.predict_guest(ctx, input_model.read(), test_data.read()))
    elif role.is_host:
        stage.predict_host(ctx, input_model.read(), test_data.read())
    else:
        stage.predict_arbiter(ctx)


@dp_hetero_lr.cross_validation()
def cross_validation(
    ctx,
    role: Role,
    cv_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    epochs: cpn.parameter(type=checked(allowed.epochs, "Epochs"), default=30, desc="most epochs"),
    batch_size: cpn.parameter(
        type=checked(allowed.batch_size, "BatchSize"),
        default=None,
        desc="rows per batch, the same batches in every epoch; None means all rows",
    ),
    optimizer: cpn.parameter(
        type=checked(allowed.optimizer, "Optimizer"),
        default=None,
        desc="method, penalty, alpha, optimizer_params; None means values made from public numbers",
    ),
    learning_rate_scheduler: cpn.parameter(
        type=checked(allowed.learning_rate_scheduler, "LearningRateScheduler"),
        default=None,
        desc="method (constant, linear, step), scheduler_params",
    ),
    init_param: cpn.parameter(
        type=checked(allowed.init_param, "InitParam"), default=None, desc="method (kaiming by default), fit_intercept, ..."
    ),
    tol: cpn.parameter(type=checked(allowed.tolerance, "Tolerance"), default=1e-4, desc="tolerance of early_stop"),
    early_stop: cpn.parameter(
        type=checked(allowed.early_stop, "EarlyStop"), default="diff", desc="diff, abs or weight_diff"
    ),
    threshold: cpn.parameter(
        type=checked(allowed.threshold, "Threshold"), default=0.5, desc="scores above it predict label 1"
    ),
    he_param: cpn.parameter(
        type=checked(allowed.he_param, "HEParam"), default=None, desc="kind paillier, key_length of at least 2048"
    ),
    flipback: cpn.parameter(
        type=checked(allowed.flipback, "Flipback"), default=None, desc="mode, every, fraction, max_rounds"
    ),
    label_source: cpn.parameter(
        type=checked(check_label_source, "LabelSource"),
        default=None,
        desc="namespace/name/column, needed for labels that are not flipped: it must be declared public at the guest",
    ),
    cv_param: cpn.parameter(
        type=checked(allowed.cv_param, "CVParam"), default=None, desc="n_splits, shuffle, random_state"
    ),
    cv_output_datas: cpn.dataframe_outputs(roles=[GUEST, HOST], optional=True),
):
    from . import cross_validation as stage

    settings = _settings(
        epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler,
        init_param=init_param, tol=tol, early_stop=early_stop, threshold=threshold, he_param=he_param,
        flipback=flipback, label_source=label_source,
    )  # fmt: skip
    folds = allowed.cv_param({} if cv_param is None else cv_param)
    if role.is_arbiter:
        stage.validate_arbiter(ctx, settings, folds)
    elif role.is_host:
        stage.validate_host(ctx, settings, folds, cv_data.read())
    else:
        for scored in stage.validate_guest(ctx, settings, folds, cv_data.read()):
            next(cv_output_datas).write(df=scored)


def _settings(**parameters) -> allowed.TrainSettings:
    """Settings from parameters; FATE gives None for one that was not set, which means the default of the dataclass."""
    return allowed.TrainSettings(**{name: value for name, value in parameters.items() if value is not None})
