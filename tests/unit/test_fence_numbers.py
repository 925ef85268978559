"""The fence: arrays, tensors and what pandas makes of them are their bytes, and no more."""

import collections
import pickle
import struct

import numpy as np
import pandas as pd
import pytest
import torch

from tests import fence_values as values
from tests import hostile_pickles as hostile
from tests.fence_values import read, refused
from tests.hostile_pickles import Built, filled

PLAIN_OBJECTS = (3, "|", None, None, None, -1, -1, 63)
NO_OBJECTS = (3, "|", None, None, None, -1, -1, 0)
reconstruct, scalar = np.core.multiarray._reconstruct, np.core.multiarray.scalar
rebuild, load = torch._utils._rebuild_tensor_v2, torch.storage._load_from_bytes
EMPTY = collections.OrderedDict()


@pytest.mark.parametrize(
    "kind, state",
    [
        *(("O8", NO_OBJECTS), ("f8", PLAIN_OBJECTS), ("S8", (3, "|", None, None, None, 10**6, 1, 0)), ("O8", None)),
        ("f8", (3, "<", None, None, None, -1, -1, 0, 0)),
    ],
    ids=str,
)
def test_numpy_takes_no_bytes_of_a_peer_for_addresses(kind, state):
    """Told that they are no objects, it would follow 8 bytes of a message as if they were the address of one."""
    assert "state that is not numpy's own" in refused(Built(np.dtype, kind, False, True, state=state))
    assert read(pickle.dumps(Built(np.dtype, "O8", False, True, state=PLAIN_OBJECTS))) == np.dtype("O")


@pytest.mark.parametrize(
    "kind", [np.dtype("V8"), np.dtype("M8[s]"), np.dtype("O,i4"), np.dtype("f16"), np.dtype("S0")], ids=str
)
def test_an_array_is_of_numbers_texts_or_objects(kind):
    assert "numbers, texts and objects" in refused(kind)


def array(shape, kind, contents, by_columns=False):
    return Built(reconstruct, np.ndarray, (0,), b"b", state=(1, shape, np.dtype(kind), by_columns, contents))


def of_kind(kind):
    return Built(reconstruct, np.ndarray, (0,), b"b", state=(1, (1,), kind, False, b"12345678"))


@pytest.mark.parametrize(
    "value, what",
    [
        (Built(np.ndarray, (1,), np.dtype("O"), b"12345678"), "a call of numpy.ndarray"),
        (Built(scalar, np.dtype("O"), np.dtype("O")), "a number of numpy that is not one"),
        (Built(scalar, np.dtype("O"), b"12345678"), "a number of numpy that is not one"),
        (Built(scalar, np.dtype, b"12345678"), "a number of numpy that is not one"),
        (Built(scalar, np.dtype("f8"), b"1234"), "a number of numpy that is not one"),
        (Built(scalar, np.dtype("?"), b"\2"), "neither true nor false"),
        (array((1,), "O", b"12345678"), "whose shape its objects do not fill"),
        (array((2,), "O", [None]), "whose shape its objects do not fill"),
        (array((2,), "f8", b"12345678"), "whose shape its bytes do not fill"),
        (array((2**62, 2**62), "f8", b""), "did not write"),
        (array((-1, -1), "f8", b"12345678"), "did not write"),
        (array((1.0,), "f8", b"12345678"), "did not write"),
        (array((1,) * 64, "f8", b"12345678"), "did not write"),
        (array([1], "f8", b"12345678"), "did not write"),
        (array((1,), "f8", b"12345678", 1), "did not write"),
        (array((1,), "?", b"\2"), "neither true nor false"),
        (array((1,), "U1", b"\xff\xff\xff\xff"), "a text of no characters"),
        (array((1,), ">U1", b"\xff\0\0\0"), "a text of no characters"),
        (Built(reconstruct, np.ndarray, (4,), b"O", state=(1, (4,), np.dtype("O"), False, [1] * 4)), "did not write"),
        (
            Built(reconstruct, collections.OrderedDict, (0,), b"b", state=(1, (0,), np.dtype("O"), False, [])),
            "did not write",
        ),
        (Built(reconstruct, np.ndarray, (0,), b"b"), "did not write"),
        *((of_kind(kind), "did not write") for kind in (np.dtype, "f8", None, torch.Size([1]))),
    ],
)
def test_an_array_is_its_bytes_and_no_more(value, what):
    assert what in refused(value)


def storage(change=lambda parts: None, numbers=struct.pack("<q4f", 4, 1, 2, 3, 4)):
    """The numbers of a tensor, as torch writes them but for a change."""
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = {
        "magic": 0x1950A86A20F9469CFC6C,
        "protocol": 1001,
        "system": system,
        "count": 4,
        "place": "cpu",
        "keys": ["1"],
    }
    parts |= {"kind": b"ctorch\nFloatStorage\n", "label": "storage", "view": None}
    change(parts)
    described = b"\x80\x02(" + b"".join(
        each if isinstance(each, bytes) else pickle.dumps(each, 2)[2:-1].replace(b"q\0", b"")
        for each in (parts["label"], parts["kind"], "1", parts["place"], parts["count"], parts["view"])
    )
    before = b"".join(pickle.dumps(parts[each], 2) for each in ("magic", "protocol", "system"))
    return before + described + b"tQ." + pickle.dumps(parts["keys"], 2) + numbers


def tensor(shape=(4,), strides=(1,), offset=0, hooks=EMPTY, trained=False, data=None):
    return Built(rebuild, Built(load, storage() if data is None else data), offset, shape, strides, trained, hooks)


def test_a_storage_comes_back_as_it_is_made_here():
    assert torch.equal(read(pickle.dumps(tensor())), torch.arange(1.0, 5.0))
    assert read(pickle.dumps(tensor((2, 2), (1, 2)))).tolist() == [[1, 3], [2, 4]]


def changed(**parts):
    return storage(lambda found: found.update(parts))


@pytest.mark.parametrize(
    "value, what",
    [
        *((tensor(**form), "larger than its storage") for form in ({"offset": 1}, {"strides": (2,)}, {"shape": (5,)})),
        *(
            (tensor(**form), "larger than its storage")
            for form in ({"strides": (2**47,)}, {"shape": (0,), "offset": 5})
        ),
        (tensor((4, 4), (1, 0)), "larger than its storage"),
        *(
            (tensor(**form), "no shape")
            for form in ({"strides": (-1,)}, {"offset": -1}, {"shape": (-4,)}, {"strides": ()})
        ),
        (tensor((True,)), "no shape"),
        (tensor(hooks=collections.OrderedDict(a=1)), "with hooks"),
        (tensor(hooks={}), "a tensor that is not one"),
        (tensor(hooks=collections.OrderedDict), "a tensor that is not one"),
        (Built(rebuild, [1.0], 0, (1,), (1,), False, EMPTY), "a tensor that is not one"),
        (tensor(data=b"text"), "no sound pickle"),
        (tensor(data=hostile.archive("true")), "which no value of FATE needs"),
        (tensor(data=hostile.old_tensor("true")), "that name posix.system"),
        (tensor(data=changed(kind=b"cos\nsystem\n")), "that name os.system"),
        (tensor(data=changed(kind=b"ctorch\nload\n")), "that name torch.load"),
        *((tensor(data=changed(**part)), "did not write") for part in ({"magic": 1}, {"protocol": 1}, {"system": {}})),
        *((tensor(data=changed(**part)), "did not write") for part in ({"keys": ["2"]}, {"label": "x"}, {"view": 1})),
        *((tensor(data=changed(count=count)), "not as many as it says") for count in (3, 5, -1, 2**61)),
        (tensor(data=changed(kind=b"cos\nFloatStorage\n")), "that name os.FloatStorage"),
        (tensor(data=changed(kind=b"ctorch\nFloatStorage\n)R")), "did not write"),
        (tensor(data=storage(numbers=struct.pack("<q4f", 5, 1, 2, 3, 4))), "not as many as it says"),
        (tensor(hooks=Built(collections.OrderedDict, state={"a": 1})), "with hooks"),
        (tensor(data=changed(place="cuda:0")), "on the device 'cuda:0'; send it from the CPU"),
        (tensor(data=storage(numbers=struct.pack("<q3f", 4, 1, 2, 3))), "not as many as it says"),
        (tensor(data=changed(kind=b"ctorch\nBoolStorage\n")[:-12]), "neither true nor false"),
        *(
            (Built(torch.device, *place), "a device that is not one")
            for place in (("meta",), ("cuda", -1), ("cuda", 64), (1,))
        ),
        (Built(torch.Size, (-1,)), "a shape that is not one"),
        (Built(slice, "a", None, None), "a slice that is not one"),
    ],
)
def test_a_tensor_lies_within_its_bytes(value, what):
    """Beyond them lie a task's keys and rows; and torch.load would run what it reads."""
    assert what in refused(value)


def test_the_same_bytes_do_not_fill_the_memory():
    """A message of 1 MB that named them again and again would be as large as it likes where it is read."""
    numbers = changed(kind=b"ctorch\nDoubleStorage\n", count=2**17)[:-24] + struct.pack("<q", 2**17) + bytes(2**20)
    state = struct.pack("<QiQ", 1, 16, 600_000) + b"7" * 600_000 + bytes(4)
    vector = type(values.encrypted(values.ou)["tensor"].data)
    size = hostile.name("torch", "Size") + b"\x94)\x85\x94R"
    for many in (
        [Built(load, numbers) for _ in range(80)],
        [filled(vector, state) for _ in range(90)],
        hostile.PROTOCOL + b"](" + size + b"h\0h\1R" * 2 * 10**5 + b"e.",
    ):
        assert "more than 64 bytes of numbers for each byte" in refused(many)
    shared = np.zeros(2**17).tobytes()
    assert "more than 64 bytes of numbers for each byte" in refused([array((2**17,), "f8", shared) for _ in range(70)])
    assert len(read(pickle.dumps([array((2**17,), "f8", shared) for _ in range(50)]))) == 50


INDEX = pd.Index(["a"])


def series(axes, parts, name=None):
    manager = filled(pd.core.internals.managers.SingleBlockManager, (axes, parts, [], {}))
    return filled(pd.Series, {"_mgr": manager, "_name": name})


@pytest.mark.parametrize(
    "value, what",
    [
        (
            Built(pd.core.indexes.base._new_Index, np.dtype, {"data": np.arange(2), "name": None}),
            "an index that is not one",
        ),
        (Built(pd.core.indexes.base._new_Index, pd.Index, {"data": [1], "name": None}), "an index that is not one"),
        (
            Built(pd.core.indexes.base._new_Index, pd.Index, {"data": np.ones((2, 2)), "name": None}),
            "more than one dimension",
        ),
        (Built(pd.core.indexes.base._new_Index, pd.Index, {"data": np.ones(2), "name": [1]}), "an index of no name"),
        (
            Built(pd.core.indexes.base._new_Index, pd.Index, {"data": np.ones(2), "name": None, "dtype": "O"}),
            "an index",
        ),
        (Built(pd.core.indexes.base._new_Index, pd.Index, {"data": np.ones(2, "f2"), "name": None}), "cannot be made"),
        *((filled(pd.Series, {"_mgr": part}), "a Series that pandas did not write") for part in (1, pd.Index(["a"]))),
        *((series([INDEX], values), "a Series that pandas did not write") for values in ([], [np.ones(1)] * 2, [1])),
        (series([], [np.ones(1)]), "a Series that pandas did not write"),
        (series([INDEX], [np.ones(2)]), "whose index is of another length"),
        (series([INDEX], [np.ones((1, 1))]), "whose index is of another length"),
        (series([INDEX], [np.ones(1)], [1]), "a Series that pandas did not write"),
    ],
)
def test_an_index_and_a_series_are_made_of_arrays(value, what):
    assert what in refused(value)
