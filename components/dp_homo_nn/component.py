"""FATE entry point of ``dp_homo_nn``: horizontal training with record-level or client-level differential privacy."""
from fate.components.core import ARBITER, GUEST, HOST, Role, cpn
from fate_dp.components.common.wire.task import with_plain_messages
from fate_dp.components.dp_homo_nn import parameters


@cpn.component(roles=[GUEST, HOST, ARBITER], provider="fate")
def dp_homo_nn(ctx, role):
    """Stages train and predict."""


@dp_homo_nn.train()
@with_plain_messages
def train(
    ctx,
    role: Role,
    train_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    model: parameters.MODEL,
    loss: parameters.LOSS,
    optimizer: parameters.OPTIMIZER,
    learning_rate_scheduler: parameters.LEARNING_RATE_SCHEDULER,
    init_param: parameters.INIT_PARAM,
    rounds: parameters.ROUNDS,
    batch_size: parameters.BATCH_SIZE,
    records: parameters.RECORDS,
    classes: parameters.CLASSES,
    class_weights: parameters.CLASS_WEIGHTS,
    epsilon: parameters.EPSILON,
    noise_multiplier: parameters.NOISE_MULTIPLIER,
    epsilon0: parameters.EPSILON0,
    delta: parameters.DELTA,
    relation: parameters.RELATION,
    clip: parameters.CLIP,
    trust: parameters.TRUST,
    unit: parameters.UNIT,
    tolerated: parameters.TOLERATED,
    local_steps: parameters.LOCAL_STEPS,
    local_learning_rate: parameters.LOCAL_LEARNING_RATE,
    local_batch_size: parameters.LOCAL_BATCH_SIZE,
    client_weights: parameters.CLIENT_WEIGHTS,
    upload_fraction: parameters.UPLOAD_FRACTION,
    noise: parameters.NOISE,
    adaptive: parameters.ADAPTIVE,
    shuffler: parameters.SHUFFLER,
    split: parameters.SPLIT,
    threshold: parameters.THRESHOLD,
    train_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
    output_model: cpn.json_model_output(roles=[GUEST, HOST, ARBITER]),
):
    from .train import train_party

    given = dict(
        model=model, loss=loss, optimizer=optimizer, learning_rate_scheduler=learning_rate_scheduler,
        init_param=init_param, rounds=rounds, batch_size=batch_size, records=records, classes=classes,
        class_weights=class_weights, epsilon=epsilon,
        noise_multiplier=noise_multiplier, epsilon0=epsilon0, delta=delta, relation=relation, clip=clip, trust=trust,
        unit=unit, tolerated=tolerated, local_steps=local_steps, local_learning_rate=local_learning_rate,
        local_batch_size=local_batch_size, client_weights=client_weights, upload_fraction=upload_fraction, noise=noise,
        adaptive=adaptive, shuffler=shuffler, split=split, threshold=threshold,
    )  # fmt: skip
    document, scored = train_party(ctx, given, None if train_data is None else train_data.read())
    output_model.write(document, metadata={})
    if scored is not None:
        train_output_data.write(scored)


@dp_homo_nn.predict()
@with_plain_messages
def predict(
    ctx,
    role: Role,
    test_data: cpn.dataframe_input(roles=[GUEST, HOST], optional=True),
    input_model: cpn.json_model_input(roles=[GUEST, HOST]),
    test_output_data: cpn.dataframe_output(roles=[GUEST, HOST]),
):
    from .predict import predict_party

    # Every party scores its own rows with a model that all data parties hold; nobody needs another one's help.
    if test_data is not None and not role.is_arbiter:
        test_output_data.write(predict_party(ctx, input_model.read(), test_data.read()))
