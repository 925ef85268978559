"""A side of the benchmarks: dp_hetero_lr as a job would run it, on labels declared public."""

from bench import epoch_task
from bench.epoch_clock import EpochClock
from fate_dp.components.common.wire.channel import with_plain_messages
from fate_dp.components.dp_hetero_lr.component import MESSAGES

LABEL_SOURCE = "bench/task/y"


@with_plain_messages(MESSAGES)
def train(ctx, task, epochs, solver):
    """One party's `PartyCost`."""
    from fate_dp.components.dp_hetero_lr import train as stage
    from fate_dp.components.dp_hetero_lr.model import columns_of
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings

    role = ctx.federation.local_party[0]
    settings = TrainSettings(epochs=epochs, **epoch_task.OURS, label_source=LABEL_SOURCE, solver=solver)
    if role == "arbiter":
        clock = EpochClock()
        stage.train_arbiter(ctx, settings)
        return clock.cost()
    if role == "guest":
        _declare_public(ctx, task.tables()["guest"])
    frame, blinded = task.frame(ctx, role), encryptions_differ(solver)
    clock = EpochClock()
    if role == "guest":
        model, _ = stage.train_guest(ctx, settings, frame, None, None)
    else:
        model = stage.train_host(ctx, settings, frame, None, None)
    return clock.cost(columns_of(model)[0], blinded)


def encryptions_differ(solver):
    """Whether two encryptions of one value differ, made as the solver makes what it sends."""
    import numpy as np

    from fate_dp.crypto.paillier import column_to_bytes, encrypt_column, keypair_of_any_length

    public_key, private_key = keypair_of_any_length(512)
    if solver == "cross_product":
        column = column_to_bytes(private_key.encryption().encrypt([7, 7]))
    else:
        column = encrypt_column(np.array([7, 7]), public_key)
    return column[: public_key.ciphertext_bytes] != column[public_key.ciphertext_bytes :]


def _declare_public(ctx, table):
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.ledger.ledger import declare_public_labels

    declare_public_labels(home_of(ctx).path, LABEL_SOURCE, table[epoch_task.ID], table[epoch_task.LABEL])
