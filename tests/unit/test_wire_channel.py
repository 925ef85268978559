"""Our messages over a federation that carries bytes: order, slices, what is refused, and how a party stops."""

import pickle
import queue
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.common.wire import channel as channels
from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.channel import QUEUE, Channel, MalformedMessage, Stopped
from fate_dp.components.common.wire.codec import KINDS as OURS
from fate_dp.components.common.wire.codec import Rows, is_one_of, kinds_of, rows_of

GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "10002")
EVERYBODY = (GUEST, HOST, ARBITER)
KINDS = (int, bytes, str, np.ndarray, Rows(bytes))


class Mail:
    """What any of FATE's federations does with bytes, without waiting: a message that never came raises queue.Empty."""

    def __init__(self, me, shelves, slice_bytes):
        self.local_party, self.parties, self._shelves, self._slice_bytes = me, list(EVERYBODY), shelves, slice_bytes

    def get_default_max_message_size(self):
        return self._slice_bytes

    def push_bytes(self, v, name, tag, parties):
        assert type(v) is bytes and name == QUEUE and len(v) <= max(self._slice_bytes, 1024)
        for party in parties:
            assert self._shelves.setdefault((self.local_party, party, tag), v) is v

    def pull_bytes(self, name, tag, parties):
        try:
            return [self._shelves.pop((party, self.local_party, tag)) for party in parties]
        except KeyError:
            raise queue.Empty from None


def channel_of(me, shelves, slice_bytes=1 << 20) -> Channel:
    parties = [SimpleNamespace(party=party, role=party[0], rank=rank) for rank, party in enumerate(EVERYBODY)]
    federation = Mail(me, shelves, slice_bytes)
    ctx = SimpleNamespace(federation=federation, parties=parties, rank=EVERYBODY.index(me))
    return Channel(ctx, lambda name: None if name == "unknown" else KINDS)


@pytest.fixture
def shelves():
    return {}


def test_messages_are_read_in_any_order_and_by_namespace(shelves):
    guest, host = channel_of(GUEST, shelves), channel_of(HOST, shelves)
    for number in range(3):
        guest.send([HOST], f"epoch-{number}", "terms", number)
    guest.send([HOST, ARBITER], "epoch-0", "other", "x")
    assert [host.receive(GUEST, f"epoch-{number}", "terms") for number in (2, 0, 1)] == [2, 0, 1]
    assert (
        host.receive(GUEST, "epoch-0", "other")
        == channel_of(ARBITER, shelves).receive(GUEST, "epoch-0", "other")
        == "x"
    )


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_a_message_of_any_size_travels_in_slices_that_the_federation_takes(slice_bytes, size):
    shelves, value = {}, np.arange(size, dtype=np.uint16)
    channel_of(GUEST, shelves, slice_bytes).send([HOST], "task", "weights", value)
    assert max(map(len, shelves.values())) <= max(slice_bytes, 1024)
    assert np.array_equal(channel_of(HOST, shelves, slice_bytes).receive(GUEST, "task", "weights"), value)
    assert not shelves


def test_a_message_has_few_bytes_beside_its_value(shelves):
    channel_of(GUEST, shelves).send([HOST], "task", "weights", bytes(100))
    assert len(shelves[GUEST, HOST, "0"]) < 100 + 30


HEADER = (channels.VALUE, "task", "weights")
HOSTILE = {
    "nothing": b"",
    "FATE's small message": b"\x00" + pickle.dumps([1]),
    "FATE's large message": b"\x01" + bytes(32),
    "a pickle": b"." + pickle.dumps([1]),
    "no header": b"." + codec.encode([1]) + codec.encode(2),
    "another kind": b"." + codec.encode((3, "task", "weights")) + codec.encode(2),
    "a header of lists": b"." + codec.encode(list(HEADER)) + codec.encode(2),
    "no value": b"." + codec.encode(HEADER),
    "a pickle as the value": b"." + codec.encode(HEADER) + pickle.dumps(2),
    "two values": b"." + codec.encode(HEADER) + codec.encode(2) * 2,
    "another kind of value": b"." + codec.encode(HEADER) + codec.encode([2]),
    "a truncated value": b"." + codec.encode(HEADER) + codec.encode(bytes(9))[:-1],
    "2 MiB of a pickle": b"." + codec.encode(HEADER) + pickle.dumps(bytes(1 << 21)),
    "a stop without a sentence": b"." + codec.encode((channels.STOP, "", "")) + codec.encode(7),
    "a stop of two lines": b"." + codec.encode((channels.STOP, "", "")) + codec.encode("a\nb"),
    "a stop of many words": b"." + codec.encode((channels.STOP, "", "")) + codec.encode("a" * 2001),
    "a table of one fact": b"." + codec.encode((channels.TABLE, "task", "weights")) + codec.encode([1]),
    "a table of endless partitions": b"."
    + codec.encode((channels.TABLE, "task", "weights"))
    + codec.encode([1, 1 << 30, 0, 0]),
    "a table of keys that FATE unpickles": b"."
    + codec.encode((channels.TABLE, "task", "weights"))
    + codec.encode([1, 1, 2, 0]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_message_is_refused_with_the_name_and_the_sender(shelves, name):
    shelves[GUEST, HOST, "0"] = HOSTILE[name]
    with pytest.raises(MalformedMessage, match="^The message 'weights' from guest 9999 cannot be read: [^\n]*[.]$"):
        channel_of(HOST, shelves).receive(GUEST, "task", "weights")


def test_what_nobody_asked_for_is_bounded(shelves, monkeypatch):
    guest, host = channel_of(GUEST, shelves), channel_of(HOST, shelves)
    monkeypatch.setattr(channels, "MAX_BYTES", 1000)
    for number in range(3):
        guest.send([HOST], "task", f"flood {number}", bytes(400))
    with pytest.raises(MalformedMessage, match="more than 1000 bytes of messages wait"):
        host.receive(GUEST, "task", "weights")
    guest.send([ARBITER], "task", "weights", bytes(1000))
    with pytest.raises(MalformedMessage, match="more than 1000 bytes"):
        channel_of(ARBITER, shelves).receive(GUEST, "task", "weights")


def test_one_name_is_not_sent_twice(shelves):
    guest, host = channel_of(GUEST, shelves), channel_of(HOST, shelves)
    guest.send([HOST], "task", "terms", 1)
    guest.send([HOST], "task", "terms", 2)
    with pytest.raises(MalformedMessage, match="another message with its name"):
        host.receive(GUEST, "task", "weights")


def test_a_value_that_is_not_plain_is_refused_before_anything_leaves(shelves):
    with pytest.raises(codec.NotPlain, match="The message 'weights' cannot be sent: A set is no plain value"):
        channel_of(GUEST, shelves).send([HOST], "task", "weights", {1})
    assert not shelves


def test_a_message_without_a_known_name_is_not_sent(shelves):
    with pytest.raises(codec.NotPlain, match="'unknown' cannot be sent"):
        channel_of(GUEST, shelves).send([HOST], "task", "unknown", 1)


@pytest.mark.parametrize(
    "value, kinds",
    [
        (1, (int,)),
        (None, (str, None)),
        ([], ([int],)),
        ([[1], []], ([[int]],)),
        ({"a": None}, ({"a": (int, None)},)),
        (b"", (Rows(int), bytes)),
    ],
)
def test_kinds_of_values(value, kinds):
    assert is_one_of(value, kinds) and not is_one_of(value, ())
    for other in (True, 1.0, (1,), [True], {"b": 1}, {"a": 1, "b": 1}):
        assert not is_one_of(other, kinds)


def test_numbered_messages_are_of_one_name():
    assert kinds_of("messages_7") == OURS["messages"] and kinds_of("terms_of") is None is kinds_of("other")
    assert rows_of(kinds_of("records")) == (bytes,) and rows_of(kinds_of("terms")) == ()


def test_a_party_that_cannot_read_a_message_tells_all_others(shelves):
    shelves[GUEST, HOST, "0"] = b"hostile"
    guest, host, arbiter = (channel_of(party, shelves) for party in EVERYBODY)
    with pytest.raises(MalformedMessage) as refused:
        host.receive(GUEST, "task", "weights")
    sentence = host.stop(refused.value)
    assert sentence.startswith("host 10000: The message 'weights' from guest 9999 cannot be read: ")
    for other in (guest, arbiter):
        for _ in range(2):
            with pytest.raises(Stopped) as stopped:
                other.receive(HOST, "task", "answers")
            assert str(stopped.value) == sentence
    # Whoever waits for a party that stopped for another one's sake learns the same.
    assert guest.stop(stopped.value) == sentence
    with pytest.raises(Stopped):
        arbiter.receive(GUEST, "task", "terms")


def test_what_was_sent_before_a_stop_is_still_read(shelves):
    guest, host = channel_of(GUEST, shelves), channel_of(HOST, shelves)
    host.send([GUEST], "task", "scores", 5)
    host.stop(KeyError("private"))
    assert guest.receive(HOST, "task", "scores") == 5
    with pytest.raises(Stopped) as stopped:
        guest.receive(HOST, "task", "more")
    assert (
        str(stopped.value) == "host 10000: The task failed before the first message (KeyError); see that party's log."
    )
