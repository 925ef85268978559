"""Sealed boxes: read by one key, for one purpose, all of one size, and a refusal that points at nobody."""

import copy
import pickle
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_box, crypto_scalarmult_base
from nacl.public import PrivateKey, SealedBox

from fate_dp.crypto import sealed_box
from fate_dp.crypto.curve25519 import in_lanes
from fate_dp.crypto.kernel import kernel
from fate_dp.crypto.pairwise_masks import AgreementKey
from fate_dp.crypto.sealed_box import OVERHEAD_BYTES, BoxKey, Label, seal_all

KEY = BoxKey()
LABEL = Label("job 1", "client to server", 3)
LOW_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
]


@pytest.fixture(params=["together", "by libsodium"])
def way(request, monkeypatch):
    """Boxes many at a time, by whatever multiplies points, and one by one."""
    monkeypatch.setattr(sealed_box, "in_lanes", lambda: request.param == "together")
    return request.param


def sealed(contents, label=LABEL, key=KEY.public_bytes):
    return seal_all(contents, key, label)


def of_one_size(size):
    return st.lists(st.binary(min_size=size, max_size=size), min_size=1, max_size=6)


@settings(max_examples=30)
@given(st.integers(0, 40).flatmap(of_one_size))
def test_the_owner_reads_all_in_order(contents):
    assert KEY.open_all(sealed(contents), LABEL, len(contents[0])) == contents


@pytest.mark.parametrize("count", [0, 1, 127, 128, 301])
def test_threads_keep_the_order(count, way):
    contents = [number.to_bytes(4, "little") for number in range(count)]
    boxes = seal_all(contents, KEY.public_bytes, LABEL, threads=3)
    assert KEY.open_all(boxes, LABEL, 4, threads=2) == contents == KEY.open_all(boxes, LABEL, 4, threads=1)


def test_boxes_of_one_way_are_opened_in_the_other(monkeypatch):
    contents = [bytes([number]) * 100 for number in range(20)]
    for first in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(sealed_box, "in_lanes", lambda: first)
            boxes = sealed(contents)
            patched.setattr(sealed_box, "in_lanes", lambda: not first)
            assert KEY.open_all(boxes, LABEL, 100) == contents


def test_for_one_ephemeral_key_a_box_of_many_is_libsodiums_to_the_byte(monkeypatch):
    private, scalar = PrivateKey.generate(), bytes(range(32))
    receiver, sender = bytes(private.public_key), crypto_scalarmult_base(scalar)
    monkeypatch.setattr(sealed_box.secrets, "token_bytes", lambda count: scalar * (count // 32))
    nonce = blake2b(sender + receiver, digest_size=24).digest()
    expected = sender + crypto_box(b"prefix" + b"content", nonce, receiver, scalar)
    assert sealed_box._sealed_together([b"content"] * 3, b"prefix", receiver) == [expected] * 3


def test_a_box_from_a_point_of_small_order_is_not_opened(way):
    boxes = sealed([b"content"] * 3)
    boxes[1] = bytes(32) + boxes[1][32:]
    with pytest.raises(ValueError, match="1 of 3 messages cannot be opened"):
        KEY.open_all(boxes, LABEL, 7)


def test_which_way_is_taken_is_the_kernels_concern():
    assert in_lanes() == (kernel().library is not None)


def test_the_box_is_libsodiums_and_holds_tag_round_and_content(way):
    private = PrivateKey.generate()
    (box,) = sealed([b"content"], key=bytes(private.public_key))
    names = (5).to_bytes(8, "little") + b"job 1client to server"
    tag = blake2b(names, digest_size=16, person=b"fate-dp sealed").digest()
    assert SealedBox(private).decrypt(box) == tag + (3).to_bytes(8, "little") + b"content"
    assert len(box) == 7 + OVERHEAD_BYTES == 7 + 72


def test_boxes_of_one_content_have_nothing_in_common():
    first, second = sealed([bytes(64)] * 2)
    alike = sum(a == b for a, b in zip(first, second))
    assert len(first) == len(second) and alike < 8  # 136 bytes: chance below 1e-7


@pytest.mark.parametrize(
    "other, reason",
    [
        (Label("job 2", "client to server", 3), "1 of 2 messages belong to another session or direction."),
        (Label("job 1", "server to client", 3), "1 of 2 messages belong to another session or direction."),
        (Label("job 1c", "lient to server", 3), "1 of 2 messages belong to another session or direction."),
        (Label("job 1", "client to server", 4), "1 of 2 messages belong to another round than 3; each counts once."),
    ],
)
def test_a_box_for_something_else_is_refused(other, reason):
    with pytest.raises(ValueError) as caught:
        KEY.open_all(sealed([b"a"]) + sealed([b"b"], other), LABEL, 1)
    assert str(caught.value) == reason


@pytest.mark.parametrize("at", [0, 31, 32, 47, 48, 72, 79])
def test_a_changed_box_is_refused(at):
    (box,) = sealed([bytes(8)])
    changed = box[:at] + bytes([box[at] ^ 1]) + box[at + 1 :]
    with pytest.raises(ValueError, match="^1 of 1 messages cannot be opened: sealed to another key, or changed"):
        KEY.open_all([changed], LABEL, 8)


@pytest.mark.parametrize("point", LOW_ORDER)
def test_a_box_with_a_low_order_ephemeral_key_is_refused(point):
    (box,) = sealed([bytes(8)])
    with pytest.raises(ValueError, match="cannot be opened"):
        KEY.open_all([point + box[32:]], LABEL, 8)


def test_a_wrong_key_and_wrong_sizes_are_refused_by_counts():
    boxes = sealed([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="^3 of 3 messages cannot be opened"):
        BoxKey().open_all(boxes, LABEL, 1)
    with pytest.raises(ValueError, match=r"Messages must have 73 bytes, got another size in 2 of 3\."):
        KEY.open_all([boxes[0], boxes[1][:-1], b""], LABEL, 1)
    with pytest.raises(ValueError, match="differ in size"):
        sealed([b"a", b"bc"])


def test_the_refusal_does_not_depend_on_which_box_was_wrong():
    wrong, right = sealed([b"x"], key=BoxKey().public_bytes), sealed([b"a", b"b"])
    sentences = set()
    for boxes in (wrong + right, right + wrong):
        with pytest.raises(ValueError) as caught:
            KEY.open_all(boxes, LABEL, 1)
        sentences.add(str(caught.value))
    assert len(sentences) == 1


@pytest.mark.parametrize("key", [*LOW_ORDER, b"", bytes(31), bytes(33), "ab" * 16, None])
def test_malformed_and_low_order_public_keys_are_refused(key):
    with pytest.raises(ValueError, match="^The public key of the receiver"):
        sealed([b"a"], key=key)


@pytest.mark.parametrize("number", [-1, 2**63, 1.0, True, "3"])
def test_the_round_is_a_whole_number(number):
    with pytest.raises(ValueError, match="round_number"):
        Label("job", "up", number)


@pytest.mark.parametrize("secret", [KEY, AgreementKey()])
def test_secret_keys_are_neither_shown_nor_copied(secret):
    for spread in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="never pickled or copied"):
            spread(secret)
    assert KEY._secret.hex() not in repr(KEY) and "0x" not in repr(secret)
