"""FATE entry point of ``share_lr``: logistic and linear regression on what align left, shares of all columns."""
from fate.components.core import GUEST, HOST, Role, cpn
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.share_lr import parameters
from fate_dp.components.share_lr.settings import ShareSettings


@cpn.component(roles=[GUEST, HOST], provider="fate")
def share_lr(ctx, role):
    """Stages train and predict."""


@share_lr.train()
@with_plain_messages
def train(
    ctx,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    alignment: cpn.json_model_input(roles=[GUEST, HOST]),
    epochs: parameters.EPOCHS,
    optimizer: parameters.OPTIMIZER,
    learning_rate_scheduler: parameters.LEARNING_RATE_SCHEDULER,
    init_param: parameters.INIT_PARAM,
    tol: parameters.TOL,
    early_stop: parameters.EARLY_STOP,
    threshold: parameters.THRESHOLD,
    he_param: parameters.HE_PARAM,
    family: parameters.FAMILY,
    reveal: parameters.REVEAL,
    train_scores: parameters.TRAIN_SCORES,
    train_output_data: cpn.dataframe_output(roles=[GUEST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST]),
):
    from . import train as stage

    settings = ShareSettings.of(
        epochs=epochs, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler, init_param=init_param,
        tol=tol, early_stop=early_stop, threshold=threshold, he_param=he_param, family=family, reveal=reveal,
        train_scores=train_scores,
    )  # fmt: skip
    if role.is_host:
        output_model.write(stage.train_host(ctx, settings, train_data.read(), alignment.read()), metadata={})
        return
    document, scored = stage.train_guest(ctx, settings, train_data.read(), alignment.read())
    output_model.write(document, metadata={})
    if scored is not None:
        train_output_data.write(scored)


@share_lr.predict()
@with_plain_messages
def predict(
    ctx,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST]),
    alignment: cpn.json_model_input(roles=[GUEST, HOST]),
    # fate_client's deploy gives the trained model to the last model input: this one.
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    he_param: parameters.HE_PARAM,
    true_labels: parameters.TRUE_LABELS,
    test_output_data: cpn.dataframe_output(roles=[GUEST]),
):
    from . import predict as stage

    key_length = ShareSettings.of(he_param=he_param).training.he_param["key_length"]
    arguments = (ctx, input_model.read(), test_data.read(), alignment.read(), key_length)
    if role.is_host:
        stage.predict_host(*arguments)
    else:
        test_output_data.write(stage.predict_guest(*arguments, bool(true_labels)))
