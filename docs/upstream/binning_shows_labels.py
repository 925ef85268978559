"""FATE 2.2.0: a host of HeteroFeatureBinning reads every label of the guest off the ciphertexts that it is sent."""

import pickle

import pandas as pd
import torch
from fate.arch.dataframe import PandasReader
from own_context import make_context

ctx = make_context()
labels = [0, 1, 1, 0, 1, 0, 0, 1]
table = pd.DataFrame({"sample_id": [f"s{i}" for i in range(8)], "id": range(8), "y": labels, "x": [0.5] * 8})
reader = PandasReader(sample_id_name="sample_id", match_id_name="id", label_name="y", dtype="float64", partition=1)
frame = reader.to_frame(ctx, table)

# The guest, as in ml/feature_binning/hetero_feature_binning.py, compute_federated_metrics.
key = ctx.cipher.phe.setup({"kind": "paillier", "key_length": 1024})
encryptor = key.get_tensor_encryptor()
sent = encryptor.encrypt_tensor(frame.label.as_tensor())

# The host has the public key, by the same message, and no other.
shard = sent.shardings.map_reduce_shard(lambda shard: shard, lambda only, _: only)
received = [pickle.dumps(shard.data.slice(row, 1)) for row in range(8)]
guesses = [pickle.dumps(encryptor.encrypt_tensor(torch.tensor([[label]])).data) for label in (0, 1)]
guests_own = frame.as_pd_df()["y"].astype(int).tolist()
print("different ciphertexts:", len(set(received)))
print("labels that the host reads:", [guesses.index(each) for each in received])
print("labels of the guest:       ", guests_own)
ctx.computing.get_standalone_session()._pool.shutdown()
