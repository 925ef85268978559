"""FATE 2.2.0: a host reads the labels off the places of the rows in a stratified split's parts."""

import numpy as np
import pandas as pd
from fate.arch.dataframe import PandasReader
from fate.ml.model_selection.data_split import sample_per_label
from own_context import make_context

ctx = make_context()
labels = (np.random.default_rng(1).random(200) < 0.3).astype(int)
table = pd.DataFrame({"sample_id": [f"s{i:03d}" for i in range(200)], "id": range(200), "y": labels, "x": 0.5})
reader = PandasReader(sample_id_name="sample_id", match_id_name="id", label_name="y", dtype="float64", partition=2)
frame = reader.to_frame(ctx, table)

# The guest, as in ml/model_selection/data_split.py, and the indexer that it sends to hosts.
train, _, _ = sample_per_label(frame, sample_count=160, random_state=3)
sent = list(train.get_indexer(target="sample_id").collect())

# The host has the same rows, in the blocks and the order of the table before the split.
order = {sample: place for sample, place in frame.get_indexer(target="sample_id").collect()}
blocks = {}
for _, sample in sorted((place, sample) for sample, place in sent):
    blocks.setdefault(order[sample][0], []).append(sample)
guesses = {}
for rows in blocks.values():
    # One class stands before the other, each in the old order, which falls where the second class begins.
    second = next(at for at in range(1, len(rows)) if order[rows[at]] < order[rows[at - 1]])
    guesses.update({sample: int(at >= second) for at, sample in enumerate(rows)})
truth = dict(zip(table["sample_id"], labels))
right = np.mean([truth[sample] == guess for sample, guess in guesses.items()])
print(f"labels that the host reads of {len(guesses)} rows:", f"{right:.3f}")
ctx.computing.get_standalone_session()._pool.shutdown()
