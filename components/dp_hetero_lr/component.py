"""FATE entry point of ``dp_hetero_lr``: vertical logistic regression under Paillier on (flipped) labels."""
from fate.components.core import ARBITER, GUEST, HOST, Role, cpn
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.dp_hetero_lr import parameters
from fate_dp.components.dp_hetero_lr.settings import TrainSettings, cv_param as default_folds


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_hetero_lr(ctx, role):
    """Stages train, predict and cross_validation."""


@dp_hetero_lr.train()
@with_plain_messages
def train(
    ctx,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    validate_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    epochs: parameters.EPOCHS,
    batch_size: parameters.BATCH_SIZE,
    optimizer: parameters.OPTIMIZER,
    learning_rate_scheduler: parameters.LEARNING_RATE_SCHEDULER,
    init_param: parameters.INIT_PARAM,
    tol: parameters.TOL,
    early_stop: parameters.EARLY_STOP,
    threshold: parameters.THRESHOLD,
    he_param: parameters.HE_PARAM,
    flipback: parameters.FLIPBACK,
    train_scores: parameters.TRAIN_SCORES,
    score_step: parameters.SCORE_STEP,
    label_source: parameters.LABEL_SOURCE,
    classes: parameters.CLASSES,
    solver: parameters.SOLVER,
    family: parameters.FAMILY,
    sigmoid: parameters.SIGMOID,
    sigmoid_rounds: parameters.SIGMOID_ROUNDS,
    noise: parameters.NOISE,
    noise_epsilon: parameters.NOISE_EPSILON,
    noise_delta: parameters.NOISE_DELTA,
    noise_radius: parameters.NOISE_RADIUS,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
    warm_start_model: cpn.json_model_input(roles=[GUEST, HOST, ARBITER], optional=True),
):
    from . import train as stage

    settings = _settings(
        epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler,
        init_param=init_param, tol=tol, early_stop=early_stop, threshold=threshold, he_param=he_param,
        flipback=flipback, train_scores=train_scores, score_step=score_step,
        label_source=label_source, classes=classes, solver=solver, family=family,
        sigmoid=sigmoid, sigmoid_rounds=sigmoid_rounds, noise=noise, noise_epsilon=noise_epsilon,
        noise_delta=noise_delta, noise_radius=noise_radius,
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
@with_plain_messages
def predict(
    ctx,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    scoring: parameters.SCORING,
    score_step: parameters.SCORE_STEP,
    he_param: parameters.HE_PARAM,
    true_labels: parameters.TRUE_LABELS,
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    from . import encrypted_predict, predict as joint_predict

    stage = encrypted_predict if scoring == "encrypted" else joint_predict
    if role.is_arbiter:
        stage.predict_arbiter(ctx)
        return
    frame = test_data.read() if test_data is not None else None
    settings = _settings(he_param=he_param, score_step=score_step)
    # What both need beside the model and the rows: one encrypts, the other rounds.
    needed = settings.he_param["key_length"] if scoring == "encrypted" else settings.score_step
    if role.is_guest:
        test_output_data.write(stage.predict_guest(ctx, input_model.read(), frame, needed, bool(true_labels)))
    elif scoring == "encrypted":
        stage.predict_host(ctx, input_model.read(), frame)
    else:
        stage.predict_host(ctx, input_model.read(), frame, needed)


@dp_hetero_lr.cross_validation()
@with_plain_messages
def cross_validation(
    ctx,
    role: Role,
    cv_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    epochs: parameters.EPOCHS,
    batch_size: parameters.BATCH_SIZE,
    optimizer: parameters.OPTIMIZER,
    learning_rate_scheduler: parameters.LEARNING_RATE_SCHEDULER,
    init_param: parameters.INIT_PARAM,
    tol: parameters.TOL,
    early_stop: parameters.EARLY_STOP,
    threshold: parameters.THRESHOLD,
    he_param: parameters.HE_PARAM,
    flipback: parameters.FLIPBACK,
    score_step: parameters.SCORE_STEP,
    label_source: parameters.LABEL_SOURCE,
    classes: parameters.CLASSES,
    solver: parameters.SOLVER,
    family: parameters.FAMILY,
    sigmoid: parameters.SIGMOID,
    sigmoid_rounds: parameters.SIGMOID_ROUNDS,
    noise: parameters.NOISE,
    cv_param: parameters.CV_PARAM,
    cv_output_datas: cpn.dataframe_outputs(roles=[GUEST, HOST], optional=True),
):
    from . import cross_validation as stage

    settings = _settings(
        epochs=epochs, batch_size=batch_size, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler,
        init_param=init_param, tol=tol, early_stop=early_stop, threshold=threshold, he_param=he_param,
        flipback=flipback, score_step=score_step, label_source=label_source, classes=classes, solver=solver,
        family=family, sigmoid=sigmoid, sigmoid_rounds=sigmoid_rounds, noise=noise,
    )  # fmt: skip
    folds = default_folds({}) if cv_param is None else cv_param
    if role.is_arbiter:
        stage.validate_arbiter(ctx, settings, folds)
    elif role.is_host:
        stage.validate_host(ctx, settings, folds, cv_data.read())
    else:
        for scored in stage.validate_guest(ctx, settings, folds, cv_data.read()):
            next(cv_output_datas).write(df=scored)


def _settings(**given) -> TrainSettings:
    """Settings from parameters; FATE gives None for one that was not set, which means the default of the dataclass."""
    return TrainSettings(**{name: value for name, value in given.items() if value is not None})
