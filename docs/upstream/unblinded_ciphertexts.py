"""FATE 2.2.0: CoordinatedLR and SSHE-LR send ciphertexts that are functions of the public key and the number alone."""

import pickle

import torch
from fate.arch.tensor.distributed import DTensor
from own_context import make_context

ctx = make_context()
key = ctx.cipher.phe.setup({"kind": "paillier", "key_length": 1024})
encryptor = key.get_tensor_encryptor()


def bytes_of(tensor):
    return pickle.dumps(tensor.data)


# SSHE-LR (arch/protocol/mpc/primitives/sshe.py) leaves `obfuscate` at its default, which is False.
guest_sends = encryptor.encrypt_tensor(torch.tensor([3]))
host_guesses = [encryptor.encrypt_tensor(torch.tensor([guess])) for guess in range(5)]
print("SSHE-LR, decrypted without a key:", [bytes_of(each) for each in host_guesses].index(bytes_of(guest_sends)))

# CoordinatedLR (ml/glm/hetero/coordinated_lr/guest.py) asks for it, but a distributed tensor loses the argument.
two_equal_rows = DTensor.from_sharding_list(ctx, [torch.full((2, 1), 0.5, dtype=torch.float64)], num_partitions=1)
guest_sends = encryptor.encrypt_tensor(two_equal_rows, obfuscate=True)
shard = guest_sends.shardings.map_reduce_shard(lambda shard: shard, lambda only, _: only)
first, second = (pickle.dumps(shard.data.slice(row, 1)) for row in (0, 1))
print("CoordinatedLR, two ciphertexts of one number are equal:", first == second)
ctx.computing.get_standalone_session()._pool.shutdown()
