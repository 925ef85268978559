"""One honest object of each class that the fence's list has, made by FATE itself, and whether two are alike."""

from __future__ import annotations

import enum
import io
import pickle
import types

import numpy as np
import pandas as pd
import pytest
import torch
from fate.arch.computing.api import KVTable
from fate.arch.context import Context
from fate.arch.dataframe import DataFrame
from fate.arch.dataframe.manager import DataManager
from fate.arch.dataframe.manager.block_manager import BlockType
from fate.arch.federation.api import _serdes
from fate.arch.histogram._histogram_distributed import DistributedHistogram
from fate.arch.histogram._histogram_splits import HistogramSplits
from fate.arch.histogram.values._cipher import HistogramEncryptedValues
from fate.arch.histogram.values._plain import HistogramPlainValues
from fate.arch.histogram.values._values import HistogramValuesContainer
from fate.arch.protocol.phe import ou, paillier
from fate.arch.tensor.distributed._tensor import DTensor, Shardings
from fate.arch.tensor.inside._op_quantile import GKSummary
from fate.arch.tensor.phe._keypair import PHETensorCoder, PHETensorEncryptor
from fate.arch.unify import device
from fate.ml.ensemble.learner.decision_tree.tree_core.decision_tree import Node

from fate_dp.components.dp_hetero_lr.per_epoch.protocol import Slice, Sums
from fate_dp.components.dp_hetero_lr.rows import Block, Seen
from fate_dp.components.dp_scorecard.tables import Binned
from fate_dp.deploy.fate_patches import fence


class Table(KVTable):
    """A table of which nothing but the form is known."""

    def __init__(self) -> None:
        super().__init__(0, 0, 0, 3)


class Federation:
    """Gives back the tables that were sent."""

    def __init__(self) -> None:
        self.tables: dict = {}

    def push_table(self, table, name, tag, parties):
        self.tables[name] = table

    def pull_table(self, name, tag, parties, table_metas):
        return [self.tables[name]]


def encrypted(scheme) -> dict:
    """What a scheme's ciphertexts consist of, from a key of 512 bits."""
    _, key, coder = scheme.keygen(512)
    coder = PHETensorCoder(coder)
    encryptor = PHETensorEncryptor(key, coder, scheme.evaluator)
    encoded = coder.encode(torch.arange(-2, 4, dtype=torch.int64).reshape(2, 3))
    return {"encryptor": encryptor, "coder": coder, "encoded": encoded, "tensor": encryptor.encrypt_encoded(encoded)}


def histogram(scheme) -> HistogramSplits:
    made = encrypted(scheme)
    cipher = made["tensor"]
    of_ciphertexts = HistogramEncryptedValues(
        made["encryptor"], scheme.evaluator, cipher.data, made["coder"], torch.int64, 6, 1
    )
    plain = HistogramPlainValues(torch.arange(4), torch.int64, 4, 1)
    return HistogramSplits(0, 1, 0, 4, HistogramValuesContainer({"g": of_ciphertexts, "cnt": plain}))


def data_manager() -> DataManager:
    """Of a table with a column of every kind."""
    manager = DataManager()
    kinds = {"x": "float32", "d": "float64", "i": "int32", "l": "int64", "b": "bool", "o": "np_object"}
    manager.init_from_local_file(
        *("extend_sid", ["id", *kinds], [], "id", None, None, None, None), dtype=kinds, anonymous_site_name="guest_9999"
    )
    made = encrypted(paillier)
    manager.append_columns(["e"], BlockType.phe_tensor)
    manager.blocks[-1].set_extra_kwargs(made["encryptor"], paillier.evaluator, made["coder"], torch.float32, device.CPU)
    return manager


def summary() -> GKSummary:
    found = GKSummary(0.01)
    found += np.arange(50.0)
    return found


def in_tables() -> dict:
    """Values of tables that have objects in them."""
    rows = np.arange(6).reshape(3, 2)
    return {
        "data manager": data_manager(),
        **{
            f"{kind} of {scheme.__name__}": value
            for scheme in (paillier, ou)
            for kind, value in encrypted(scheme).items()
        },
        "histogram of paillier": histogram(paillier),
        "histogram of ou": histogram(ou),
        "summary": [summary(), GKSummary(0.01)],
        "nodes": [Node(nid=1, sitename="host", bid=np.int64(3), grad=0.5), Node()],
        "our tuples": [
            Slice(rows, rows[:, 0] / 4, 0.5, (b"x",)),
            Sums((2**700,), (3,), 0.5),
            Block(0, rows, None),
            Block(3, rows, rows[:, 1]),
            Seen([rows[0]], rows),
            Binned(rows),
        ],
    }


def in_messages(context: Context) -> dict:
    """Values of messages that come with tables."""
    shards = Shardings(Table(), [torch.Size([2, 3])], 0, torch.float32, device.CPU)
    return {
        "data frame": DataFrame(context, Table(), {"a": {"start_index": 0, "end_index": 3}}, data_manager()),
        "tensor in shards": DTensor(shards),
        "histogram": DistributedHistogram(Table(), 2, 3, 4, global_seed=5),
        "tensors": [torch.rand(2, 3), np.arange(3), torch.tensor([True]), np.arange(2, dtype="u2")],
    }


def send(value) -> tuple[bytes, Federation]:
    """The bytes of a message as FATE writes it, and what keeps the tables that go with it."""
    federation, file = Federation(), io.BytesIO()
    _serdes.TableRemotePersistentPickler(federation, "name", "tag", [], file).dump(value)
    return bytes(1) + file.getvalue(), federation


def alike(one, other) -> bool:
    """Whether two values are of the same types, down to the last, and equal."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.stride() == other.stride() and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and alike(one.tolist(), other.tolist())
    if isinstance(one, pd.Index | pd.Series):
        return one.equals(other) and one.dtype == other.dtype and one.name == other.name
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and alike(list(one.values()), list(other.values()))
    if type(one).__module__.startswith("fate_utils."):
        return one.__getstate__() == other.__getstate__()
    if isinstance(one, type | enum.Enum | Table | Context | types.NoneType):
        return one is other
    if isinstance(one, DistributedHistogram):
        return alike(one.__getstate__(), other.__getstate__())
    if type(one).__module__.startswith("fate."):
        return alike(vars(one), vars(other))
    return one == other


def read(data):
    """What the fence makes of the value of a table."""
    return fence.FencedSerdes.deserialize(data)


def refused(data):
    """The sentence with which a pickle is refused; a value is pickled first."""
    with pytest.raises(fence.FencedOff) as refusal:
        read(data if isinstance(data, bytes) else pickle.dumps(data))
    assert str(refusal.value).count("FATE-DP's fence") == 1
    return str(refusal.value)


def receive(data, context=None, federation=None):
    """What a party gets from these bytes."""
    module = types.SimpleNamespace(**vars(_serdes))
    fence.fence_messages(module)
    return module.TableRemotePersistentUnpickler.pull(data, context, federation, "name", "tag", ("guest", "9999"))
