"""The fence: messages, whole and in slices, and what comes beside them."""

import pickle
import struct
import types

import pytest

from fate_dp.deploy.fate_patches import fence
from tests import fence_values as values
from tests import hostile_pickles as hostile
from tests.fence_values import receive


def test_a_message_leaves_the_receivers_context_alone():
    context = types.SimpleNamespace(cipher="own")
    with pytest.raises(fence.FencedOff, match="changes what it did not make"):
        receive(b"\0" + hostile.change_context("cipher"), context)
    assert vars(context) == {"cipher": "own"}
    assert receive(b"\0" + hostile.PROTOCOL + hostile.refer("_ContextPersistentId", key="x") + b".", context) is context


@pytest.mark.parametrize(
    "data, what",
    [
        (hostile.text("anything") + b"Q", "neither table, tensor nor context"),
        (hostile.name("torch", "Size") + b")\x81Q", "neither table, tensor nor context"),
        (hostile.refer("_ContextPersistentId", key="x", more="y"), "with other fields than FATE gives it"),
        (hostile.refer("_ContextPersistentId", key="x")[:-1], "without a reference to it"),
        (hostile.refer("_TorchSafeTensorPersistentId", bytes="x"), "whose field bytes"),
        (hostile.refer("_TablePersistentId", key="x", table_meta="y"), "whose field table_meta"),
    ],
)
def test_a_message_refers_to_what_fate_knows_only(data, what):
    with pytest.raises(fence.FencedOff, match=what):
        receive(b"\0" + hostile.PROTOCOL + data + b".")


def table_beside(key="name__table_persistent_0__", **form):
    """A message that refers to a table."""
    from fate.arch.federation.api._serdes import _TablePersistentId
    from fate.arch.federation.api._table_meta import TableMeta

    known = {"num_partitions": 3, "key_serdes_type": 0, "value_serdes_type": 0, "partitioner_type": 0}
    identity = _TablePersistentId(key, TableMeta(**{**known, **form}))
    return b"\0" + pickle.dumps(identity)[:-1] + b"Q."


@pytest.mark.parametrize(
    "message, what",
    [
        *(
            (table_beside(key), "did not come with it")
            for key in ("other__table_persistent_0__", "name__table_persistent_x__", "0")
        ),
        *((table_beside(num_partitions=count), "form that FATE does not send") for count in (0, -1, 2**31)),
        (table_beside(key_serdes_type=2), "form that FATE does not send"),
        (table_beside(value_serdes_type=7), "form that FATE does not send"),
        (table_beside(partitioner_type=9), "form that FATE does not send"),
        (table_beside(key_serdes_type="0"), "whose field key_serdes_type"),
    ],
)
def test_a_table_is_one_that_came_with_the_message(message, what):
    """A peer's number of partitions would be that many queues at this party's broker."""
    federation = values.Federation()
    federation.tables["name__table_persistent_0__"] = sent = values.Table()
    assert receive(table_beside(), None, federation) is sent
    with pytest.raises(fence.FencedOff, match=what):
        receive(message, None, federation)


def safe(header, numbers=b"\0" * 8):
    from fate.arch.federation.api._serdes import _NumpySafeTensorPersistentId

    head = header if isinstance(header, bytes) else str(header).replace("'", '"').encode()
    identity = _NumpySafeTensorPersistentId(struct.pack("<Q", len(head)) + head + numbers)
    return b"\0" + pickle.dumps(identity)[:-1] + b"Q."


ENTRY = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "message",
    [
        *(safe({"n": {**ENTRY, "shape": shape}}) for shape in ([2], [-1, -1], [1.0], 1, [2**62, 4])),
        *(safe({"n": {**ENTRY, "data_offsets": offsets}}) for offsets in ([0, 16], [8, 16], [1], 0)),
        *(safe({"n": {**ENTRY, "dtype": kind}}) for kind in ("O8", "F8", "BOOL", "V64", 3)),
        *(safe({"n": ENTRY, "m": ENTRY}), safe({}), safe(b"[" * 4000), safe(b"x"), safe({"n": {**ENTRY, "more": 1}})),
        safe({"n": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\2"),
        safe({"n": {**ENTRY, "data_offsets": [1, 8]}}),
        safe(b" " * 5000 + str({"n": ENTRY}).replace("'", '"').encode()),
        safe({"n": ENTRY}, b"\0" * 7),
    ],
)
def test_a_tensor_beside_a_message_is_its_bytes(message):
    assert receive(safe({"n": ENTRY})).tolist() == [0.0]
    with pytest.raises(fence.FencedOff):
        receive(message)


def test_the_same_bytes_do_not_fill_the_memory():
    head = b'{"n":{"dtype":"F64","shape":[131072],"data_offsets":[0,1048576]}}'
    data = struct.pack("<Q", len(head)) + head + bytes(2**20)
    one = hostile.name(hostile.SERDES, "_NumpySafeTensorPersistentId")
    state = b"}" + hostile.text("bytes") + b"B" + struct.pack("<I", len(data)) + data + b"\x94s"
    again = b"}" + hostile.text("bytes") + b"h\1s"
    whole = b"](" + one + b"\x94)\x81" + state + b"bQ" + (b"h\0)\x81" + again + b"bQ") * 80 + b"e."
    with pytest.raises(fence.FencedOff, match="more than 64 bytes of numbers for each byte"):
        receive(b"\0" + hostile.PROTOCOL + whole)


def sliced(parts, size=6, count=2, **form):
    """What a party gets from a message in slices."""
    from fate.arch.federation.api import TableMeta
    from fate.arch.federation.api._serdes import _FederationBytesCoder

    federation = values.Federation()
    federation.tables["name__table_persistent_split__"] = types.SimpleNamespace(collect=lambda: iter(parts))
    meta = TableMeta(form.get("partitions", 3), 0, 0, 0)
    return receive(_FederationBytesCoder.encode_split(meta, size, count, 3), None, federation)


def test_slices_are_as_many_as_announced():
    """A number of a slice, times their size, was where its bytes were written: a peer's 2^60 would be all memory."""
    whole = pickle.dumps("ab")
    halves = [(1, whole[8:]), (0, whole[:8])]
    assert sliced(halves, len(whole)) == "ab"
    for parts in (
        [(2**60, b"x"), halves[1]],
        [(2, whole[8:]), halves[1]],
        [(1, "x" * len(whole[8:])), halves[1]],
        [("1", b"x"), halves[1]],
        [(1, "x"), halves[1]],
        halves[:1],
        [*halves, (2, b"")],
    ):
        with pytest.raises(fence.FencedOff):
            sliced(parts, len(whole))
    for size, count in ((len(whole) + 1, 2), (len(whole), 3)):
        with pytest.raises(fence.FencedOff):
            sliced(halves, size, count)
    with pytest.raises(fence.FencedOff):
        sliced(halves, len(whole), partitions=2**31)


@pytest.mark.parametrize("data", [b"", b"\2" + pickle.dumps(1), b"\1short"])
def test_a_message_is_whole_or_in_slices(data):
    with pytest.raises(fence.FencedOff):
        receive(data)
