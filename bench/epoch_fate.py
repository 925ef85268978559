"""A side of the benchmarks: FATE's CoordinatedLR as shipped, and with its blinding repaired.

CoordinatedLR calls ``encrypt_tensor(tensor, obfuscate=True)``. For a distributed tensor
``PHETensorEncryptor.encrypt_encoded`` hands over to ``tensor.encrypt_encoded(self)`` without the flag, and every shard
is encrypted with its default, False.
"""

import warnings

from bench import epoch_task
from bench.epoch_clock import EpochClock

# The smallest that FATE allows: the question is whether it blinds, not how long that takes.
PROBE_KEY_LENGTH = 1024


def train(ctx, task, epochs, repaired):
    """One party's `PartyCost`."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="fate")
    if repaired:
        repair_blinding()
    role = ctx.federation.local_party[0]
    if role == "arbiter":
        module = _arbiter(epochs)
        ctx.cipher.set_phe(ctx.device, epoch_task.HE_PARAM)
        clock = EpochClock()
        module.fit(ctx)
        return clock.cost()
    frame, module = task.frame(ctx, role), _data_party(role, epochs)
    blinded = encryptions_differ(ctx)
    clock = EpochClock()
    module.fit(ctx, frame)
    param = module.get_model()["data"]["estimator"]["param"]
    return clock.cost(_weights(param), blinded)


def repair_blinding():
    """Blind whatever a party encrypts, in this process and the workers it has yet to start.

    Blinded are thereby u and X w, their squares and the penalty; gradients and loss are sums over blinded ciphertexts.
    """
    from fate.arch.tensor.phe import PHETensorEncryptor

    as_shipped = PHETensorEncryptor.encrypt_encoded

    def encrypt_encoded(self, tensor, obfuscate=True):
        return as_shipped(self, tensor, obfuscate=True)

    PHETensorEncryptor.encrypt_encoded = encrypt_encoded


def encryptions_differ(ctx):
    """Whether two encryptions of one value, asked for as CoordinatedLR asks, differ when they leave the worker."""
    import pickle

    import torch
    from fate.arch.tensor.distributed import DTensor

    column = torch.full((2, 1), 0.5, dtype=torch.float64)
    tensor = DTensor.from_sharding_list(ctx, [column], num_partitions=1)
    key = ctx.cipher.phe.setup({"kind": "paillier", "key_length": PROBE_KEY_LENGTH})
    encrypted = key.get_tensor_encryptor().encrypt_tensor(tensor, obfuscate=True)
    shard = encrypted.shardings.map_reduce_shard(lambda shard: shard, lambda only, _: only)
    first, second = (pickle.dumps(shard.data.slice(row, 1)) for row in (0, 1))
    return first != second


def _data_party(role, epochs):
    from fate.ml.glm import CoordinatedLRModuleGuest, CoordinatedLRModuleHost

    module = CoordinatedLRModuleGuest if role == "guest" else CoordinatedLRModuleHost
    init_param = {**epoch_task.INIT_PARAM, "fit_intercept": role == "guest"}
    return module(
        epochs=epochs,
        batch_size=None,
        optimizer_param=epoch_task.OPTIMIZER,
        learning_rate_param=epoch_task.SCHEDULER,
        init_param=init_param,
    )


def _arbiter(epochs):
    from fate.ml.glm import CoordinatedLRModuleArbiter

    return CoordinatedLRModuleArbiter(
        epochs=epochs,
        early_stop="diff",
        tol=0,
        batch_size=None,
        optimizer_param=epoch_task.OPTIMIZER,
        learning_rate_param=epoch_task.SCHEDULER,
    )


def _weights(param):
    import numpy as np

    intercept = [] if param["intercept_"] is None else [param["intercept_"]]
    return np.asarray([*param["coef_"], *intercept], dtype=np.float64).ravel()
