"""Our messages over a federation that carries bytes: order, slices, what is refused, and how a party stops."""

import pickle
import queue
from itertools import cycle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.common import peers, progress
from fate_dp.components.common.wire import channel as channels
from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.channel import QUEUE, Channel, MalformedMessage, Stopped
from fate_dp.components.common.wire.kinds import DOCUMENT, Array, Bytes, Flag, Int, Messages, Rows, Text
from fate_dp.crypto.pairwise_masks import AgreementKey
from tests.support.sealed_slices import push_open, push_sealed

GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "10002")
EVERYBODY = (GUEST, HOST, ARBITER)
MESSAGES: Messages = {
    "terms": Int(64),
    "other": Text(10),
    "weights": Array(("uint16",)),
    "answers": Bytes(5000),
    "scores": Int(64),
    "ready": Flag(),
    "facts": DOCUMENT,
    "rows": Rows(Bytes(9)),
    "flood_*": Bytes(400),
    "a" * 100: Bytes(5000),
}


def test_loops_tell_together_how_far_they_are_and_not_at_every_step(caplog, monkeypatch):
    clock = iter(np.arange(0, 100, 2.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(progress, "_told", [-9.0])
    with caplog.at_level("INFO", logger=progress.__name__):
        for epoch in progress.counted("ab", 2, "iterations"):
            for batch in progress.counted(range(9), 3, "batches"):
                if batch == 2:
                    break
    assert caplog.messages == [
        "progress: 0 of 2 iterations",
        "progress: 0 of 2 iterations, 2 of 3 batches",
        "progress: 1 of 2 iterations, 1 of 3 batches",
    ]
    assert not progress._within


class Mail:
    """What any of FATE's federations does with bytes, without waiting: a message that never came raises queue.Empty."""

    def __init__(self, me, shelves, slice_bytes, session):
        self.local_party, self.parties, self._shelves, self._slice_bytes = me, list(EVERYBODY), shelves, slice_bytes
        self.session_id = session

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


def channel_of(me, shelves, slice_bytes=1 << 20, session="task") -> Channel:
    parties = [SimpleNamespace(party=party, role=party[0], rank=rank) for rank, party in enumerate(EVERYBODY)]
    federation = Mail(me, shelves, slice_bytes, session)
    ctx = SimpleNamespace(federation=federation, parties=parties, rank=EVERYBODY.index(me))
    return Channel(ctx, MESSAGES)


def channels_of(shelves, **more) -> list[Channel]:
    """Of all three parties, which have greeted each other."""
    return [channel_of(party, shelves, **more) for party in EVERYBODY]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("FATE_DP_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def shelves():
    return {}


def test_messages_are_read_in_any_order_and_by_namespace(shelves):
    guest, host, arbiter = channels_of(shelves)
    for number in range(3):
        guest.send([HOST], f"epoch-{number}", "terms", number)
    guest.send([HOST, ARBITER], "epoch-0", "other", "x")
    assert [host.receive(GUEST, f"epoch-{number}", "terms") for number in (2, 0, 1)] == [2, 0, 1]
    assert host.receive(GUEST, "epoch-0", "other") == arbiter.receive(GUEST, "epoch-0", "other") == "x"


@given(st.integers(1, 5000), st.integers(0, 5000))
def test_a_message_of_any_size_travels_in_slices_that_the_federation_takes(slice_bytes, size):
    shelves, value = {}, np.arange(size, dtype=np.uint16)
    guest, host, _ = channels_of(shelves, slice_bytes=slice_bytes)
    guest.send([HOST], "task", "weights", value)
    assert max(map(len, shelves.values())) <= max(slice_bytes, 1024)
    assert np.array_equal(host.receive(GUEST, "task", "weights"), value)
    assert all(ARBITER in place for place in shelves)


def test_a_header_may_be_longer_than_the_first_slice(shelves):
    guest, host, _ = channels_of(shelves, slice_bytes=1024)
    guest.send([HOST], "n" * 1000, "a" * 100, bytes(5000))
    assert host.receive(GUEST, "n" * 1000, "a" * 100) == bytes(5000)


def test_a_message_has_few_bytes_beside_its_value(shelves):
    channels_of(shelves)[0].send([HOST], "task", "answers", bytes(100))
    assert len(shelves[GUEST, HOST, "1"]) < 100 + 50


def message(what, namespace, name, content: bytes) -> bytes:
    """In one slice."""
    return b"." + codec.encode((what, namespace, name)) + content


def of_terms(content: bytes) -> bytes:
    return message(channels.VALUE, "task", "terms", content)


def of_rows(facts) -> bytes:
    return message(channels.TABLE, "task", "rows", codec.encode(facts))


def stop(content) -> bytes:
    return message(channels.STOP, "", "", codec.encode(content))


# What a party seals while the host waits for 'terms', and the end of the sentence that it says.
HOSTILE = {
    "another mark": (b"?", "does not begin as a message does"),
    "FATE's small message": (b"\x00" + pickle.dumps([1]), "does not begin"),
    "FATE's large message": (b"\x01" + bytes(32), "does not begin"),
    "a pickle": (b"." + pickle.dumps([1]), "wrong type of value"),
    "a list as its header": (
        b"." + codec.encode([channels.VALUE, "task", "terms"]) + codec.encode(2),
        "wrong type of value",
    ),
    "a header of bytes": (
        b"." + codec.encode((channels.VALUE, b"task", "terms")) + codec.encode(2),
        "wrong type of value",
    ),
    "a message that is neither": (message(3, "task", "terms", codec.encode(2)), "no such message"),
    "a name that nothing has": (message(channels.VALUE, "task", "weight", codec.encode(2)), "no such message"),
    "a value for a table": (message(channels.VALUE, "task", "rows", codec.encode(b"")), "no such message"),
    "a table for a value": (message(channels.TABLE, "task", "terms", codec.encode([1, 1, 0, 0])), "no such message"),
    "a namespace of 1001 bytes": (message(channels.VALUE, "n" * 1001, "terms", codec.encode(2)), "more than 1000"),
    "a name of 101 bytes": (message(channels.VALUE, "task", "n" * 101, codec.encode(2)), "more than 100"),
    "more than its kind allows": (message(channels.VALUE, "task", "ready", codec.encode(bytes(20))), "more than the"),
    "no value": (of_terms(b""), "ends too early"),
    "a pickle as the value": (of_terms(pickle.dumps(2)), "wrong type of value"),
    "two values": (of_terms(codec.encode(2) * 2), "bytes after its end"),
    "another kind of value": (of_terms(codec.encode([2])), "wrong type of value"),
    "a truncated value": (of_terms(codec.encode(1 << 40)[:-1]), "ends too early"),
    "2 MiB of a pickle": (of_terms(pickle.dumps(bytes(1 << 21))), "more than the"),
    "a stop without a sentence": (stop(7), "wrong type of value"),
    "a stop of two lines": (stop("a\nb"), "not in one sentence"),
    "a stop of many words": (stop("a" * 2001), "not in one sentence"),
    "a stop of too many bytes": (stop("a" * 10000), "more than the"),
    "small slices": (b"+" + bytes(100), "slices that are too small"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_message_is_refused_with_the_name_and_the_sender(shelves, name):
    (guest, host, _), (part, why) = channels_of(shelves, slice_bytes=1 << 22), HOSTILE[name]
    push_sealed(guest, HOST, part)
    assert_refused(host, why)


def assert_refused(host, why):
    with pytest.raises(
        MalformedMessage, match=f"^The message 'terms' from guest 9999 cannot be read: .*{why}[^\n]*[.]$"
    ):
        host.receive(GUEST, "task", "terms")
    assert not host._lines[GUEST].kept and host._lines[GUEST].stopped is None


@pytest.mark.parametrize(
    "facts", [[1], [1, 1 << 30, 0, 0], [1, 1, 2, 0], [-1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, "a"]]
)
def test_what_is_said_of_a_table_is_refused_before_it_is_pulled(shelves, facts):
    """The federation here has no tables: whoever asks for one fails."""
    guest, host, _ = channels_of(shelves)
    push_sealed(guest, HOST, of_rows(facts))
    with pytest.raises(MalformedMessage, match="^The message 'rows' from guest 9999 cannot be read: "):
        host.receive(GUEST, "task", "rows")


def test_no_more_slices_are_taken_in_than_a_message_of_that_name_can_have(shelves):
    """The first ones say what it is, wherever its header is cut."""
    guest, host, _ = channels_of(shelves)
    large = codec.encode((channels.VALUE, "n" * 990, "answers")) + codec.encode(bytes(1 << 20))
    for at in range(0, len(large), 1023):
        push_sealed(guest, HOST, b"+" + large[at : at + 1023])
    before = len(shelves) - 1
    with pytest.raises(MalformedMessage, match="more than the 6[0-9]{3} bytes"):
        host.receive(GUEST, "task", "terms")
    assert before - len(shelves) == 6


def test_what_nobody_asked_for_is_bounded_with_its_namespaces(shelves, monkeypatch):
    guest, host, _ = channels_of(shelves)
    monkeypatch.setattr(channels, "MAX_BYTES", 5000)
    for number in range(3):
        guest.send([HOST], "n" * 900, f"flood_{number}", bytes(100))
    with pytest.raises(MalformedMessage, match="more than 5000 bytes of messages wait"):
        host.receive(GUEST, "task", "terms")
    assert len(host._lines[GUEST].kept) == 2


def test_every_message_that_waits_counts_however_small_it_is(shelves, monkeypatch):
    guest, host, _ = channels_of(shelves)
    monkeypatch.setattr(channels, "MAX_BYTES", 10 * channels.KEPT_BYTES)
    for number in range(10):
        guest.send([HOST], str(number), "ready", True)
    with pytest.raises(MalformedMessage, match="bytes of messages wait"):
        host.receive(GUEST, "task", "terms")


def test_what_was_read_waits_no_more(shelves, monkeypatch):
    guest, host, _ = channels_of(shelves)
    monkeypatch.setattr(channels, "MAX_BYTES", 2 * channels.KEPT_BYTES)
    for number in range(10):
        guest.send([HOST], str(number), "ready", True)
        assert host.receive(GUEST, str(number), "ready") is True


def test_one_name_is_not_sent_twice(shelves):
    guest, host, _ = channels_of(shelves)
    guest.send([HOST], "task", "terms", 1)
    guest.send([HOST], "task", "terms", 2)
    with pytest.raises(MalformedMessage, match="another message with its name"):
        host.receive(GUEST, "task", "weights")


@pytest.mark.parametrize(
    "name, value, why",
    [
        ("facts", {1}, "A set is no plain value"),
        ("unknown", 1, "does not declare it"),
        ("rows", b"", "does not declare it"),
        ("ready", bytes(9), "it has 11 bytes, and no message of this name may have more than 1"),
    ],
)
def test_what_no_message_is_like_is_refused_before_anything_leaves(shelves, name, value, why):
    guest, before = channels_of(shelves)[0], dict(shelves)
    with pytest.raises(codec.NotPlain, match=f"The message {name!r} cannot be sent: .*{why}"):
        guest.send([HOST], "task", name, value)
    assert shelves == before


def test_a_message_of_another_component_has_no_name_here(shelves):
    guest, host, _ = channels_of(shelves)
    guest.send([HOST], "task", "scores", 1)
    host._messages = {"terms": Int(64)}
    with pytest.raises(MalformedMessage, match="this component has no such message"):
        host.receive(GUEST, "task", "terms")


def test_a_party_that_cannot_read_a_message_tells_all_others(shelves):
    guest, host, arbiter = channels_of(shelves)
    push_open(guest, HOST, b"hostile")
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
    guest, host, _ = channels_of(shelves)
    host.send([GUEST], "task", "scores", 5)
    host.stop(KeyError("private"))
    assert guest.receive(HOST, "task", "scores") == 5
    with pytest.raises(Stopped) as stopped:
        guest.receive(HOST, "task", "more")
    assert (
        str(stopped.value) == "host 10000: The task failed before the first message (KeyError); see that party's log."
    )


def _of_another_task(shelves):
    other = {}
    channels_of(other, session="another")[0].send([HOST], "task", "terms", 1)
    return other[GUEST, HOST, "1"]


# What whoever carries messages leaves in place of the guest's first one to the host.
CARRIED = {
    "open": lambda shelves: of_terms(codec.encode(1)),
    "changed": lambda shelves: shelves[GUEST, HOST, "1"][:-1] + bytes([shelves[GUEST, HOST, "1"][-1] ^ 1]),
    "cut": lambda shelves: shelves[GUEST, HOST, "1"][:9],
    "one that goes on": lambda shelves: b"+" + shelves[GUEST, HOST, "3"][1:],
    "a later one": lambda shelves: shelves[GUEST, HOST, "2"],
    "to another party": lambda shelves: shelves[GUEST, ARBITER, "1"],
    "of another party": lambda shelves: shelves[ARBITER, HOST, "1"],
    "back to its sender": lambda shelves: shelves[HOST, GUEST, "1"],
    "of another task": _of_another_task,
}


@pytest.mark.parametrize("name", CARRIED)
def test_what_is_not_sealed_for_its_place_is_refused(shelves, name, monkeypatch):
    """Parties that had the same keys in two tasks would tell these apart, too."""
    monkeypatch.setattr(peers, "AgreementKey", cycle([AgreementKey() for _ in EVERYBODY]).__next__)
    guest, host, arbiter = channels_of(shelves)
    for party in (guest, host, arbiter):
        others = [each for each in EVERYBODY if each != party._meeting._own]
        party.send(others, "task", "terms", 1)
    guest.send([HOST], "task", "other", "x")
    guest.send([HOST], "task", "answers", bytes(3000))
    shelves[GUEST, HOST, "1"] = CARRIED[name](shelves)
    assert_refused(host, channels.FOREIGN)


def test_a_message_that_comes_twice_is_refused(shelves):
    guest, host, _ = channels_of(shelves)
    guest.send([HOST], "1", "terms", 1)
    shelves[GUEST, HOST, "2"] = shelves[GUEST, HOST, "1"]
    assert host.receive(GUEST, "1", "terms") == 1
    assert_refused(host, channels.FOREIGN)


def test_no_number_seals_two_slices_even_if_the_first_did_not_leave(shelves, monkeypatch):
    guest, host, _ = channels_of(shelves)
    pushed, push = [], Mail.push_bytes

    def failing(mail, v, name, tag, parties):
        pushed.append(tag)
        if len(pushed) == 1:
            raise ConnectionError
        push(mail, v, name, tag, parties)

    monkeypatch.setattr(Mail, "push_bytes", failing)
    with pytest.raises(ConnectionError):
        guest.send([HOST], "task", "terms", 1)
    guest.send([HOST], "task", "terms", 2)
    assert pushed == ["1", "2"]


def test_a_party_that_stops_before_it_has_read_a_greeting_says_so_openly(shelves):
    host = channel_of(HOST, shelves)
    sentence = host.stop(KeyError("private"))
    with pytest.raises(Stopped) as stopped:
        channel_of(GUEST, shelves).receive(HOST, "task", "terms")
    assert str(stopped.value) == sentence


def test_an_open_stop_is_taken_in_before_anything_sealed_alone(shelves):
    guest, host, _ = channels_of(shelves)
    guest.send([HOST], "1", "terms", 1)
    push_open(guest, HOST, b"!" + stop("guest 9999: no.")[1:])
    assert host.receive(GUEST, "1", "terms") == 1
    assert_refused(host, "does not begin as a message does")


def test_nothing_but_a_stop_is_taken_in_openly(shelves):
    guest, host, _ = channels_of(shelves)
    push_open(guest, HOST, b"!" + of_terms(codec.encode(1))[1:])
    assert_refused(host, "is not sealed")


def test_who_greets_in_another_way_is_refused(shelves):
    host, shelves[GUEST, HOST, "0"] = channel_of(HOST, shelves), b"." + codec.encode((channels.VALUE, "task", "terms"))
    with pytest.raises(MalformedMessage, match="^The message 'greeting' from guest 9999 cannot be read: .*one version"):
        host.receive(GUEST, "task", "terms")


def test_a_greeting_that_comes_back_to_its_sender_is_refused(shelves):
    host = channel_of(HOST, shelves)
    shelves[GUEST, HOST, "0"] = shelves[HOST, GUEST, "0"]
    with pytest.raises(MalformedMessage, match="'greeting' from guest 9999 .*no secret"):
        host.receive(GUEST, "task", "terms")


def test_nobody_waits_for_the_greeting_of_a_party_that_never_comes(shelves):
    guest, host = (channel_of(party, shelves) for party in (GUEST, HOST))
    guest.send([HOST], "task", "terms", 1)
    assert host.receive(GUEST, "task", "terms") == 1
    with pytest.raises(queue.Empty):
        guest.send([ARBITER], "task", "terms", 1)
