"""Pairwise masks: they cancel in the sum of any present set, hide every vector before that, and are used once."""

import hmac
import pickle
from hashlib import sha256
from itertools import count as count_up

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.bindings import crypto_scalarmult
from scipy.stats import chisquare

from fate_dp.crypto.pairwise_masks import AgreementKey, PairwiseMasks

NAMES = ("arthur", "berta", "carl", "dora", "emil")
INT64 = st.integers(-(2**63), 2**63 - 1)


KEYS = {name: AgreementKey() for name in NAMES}
PUBLIC = {name: key.public_bytes for name, key in KEYS.items()}


def party(name):
    """A party that has masked nothing yet, always with the same keys."""
    return PairwiseMasks(name, KEYS[name], PUBLIC, "job")


PARTIES, ROUNDS = {name: party(name) for name in NAMES}, count_up()


def fresh_round():
    """Rounds of the shared parties must differ from test to test."""
    return next(ROUNDS)


def sum_of_masked(masked):
    """What the server computes."""
    return np.sum(list(masked.values()), axis=0, dtype=np.uint64)


@settings(max_examples=40)
@given(st.data(), st.sets(st.sampled_from(NAMES), min_size=2), st.integers(1, 20))
def test_masks_of_any_present_set_cancel_exactly(data, present, count):
    vectors = {name: data.draw(st.lists(INT64, min_size=count, max_size=count)) for name in sorted(present)}
    number = fresh_round()
    sent = {name: PARTIES[name].masked(np.array(vector), number, present) for name, vector in vectors.items()}
    expected = [sum(column) % 2**64 for column in zip(*vectors.values())]
    assert sum_of_masked(sent).tolist() == expected


def test_negative_steps_come_out_as_they_went_in():
    number, present = fresh_round(), ("arthur", "carl")
    sent = {name: PARTIES[name].masked(np.array([-3, 2**40, -(2**61)]), number, present) for name in present}
    assert sum_of_masked(sent).view(np.int64).tolist() == [-6, 2**41, -(2**62)]


def derived(secret, info):
    """HKDF-SHA256 of RFC 5869 without salt, one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def test_the_mask_is_x25519_hkdf_and_chacha20():
    low, high = AgreementKey(), AgreementKey()
    public = {"a": low.public_bytes, "b": high.public_bytes}
    secret = crypto_scalarmult(low._private.private_bytes_raw(), high.public_bytes)
    both = b"".join(sorted(public.values()))
    pair = derived(secret, b"fate-dp key of a pair" + (3).to_bytes(8, "little") + b"job" + both)
    one = (1).to_bytes(8, "little")
    occasion = sha256(one + b"a" + one + b"b").digest() + (7).to_bytes(8, "little")
    key = hmac.digest(pair, b"fate-dp mask of a round" + occasion + b"\x01", "sha256")
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(40))
    mask = np.frombuffer(stream, dtype="<u8")
    zeros = np.zeros(5, dtype=np.int64)
    assert np.array_equal(PairwiseMasks("a", low, public, "job").masked(zeros, 7, ("a", "b")), mask)
    assert np.array_equal(PairwiseMasks("b", high, public, "job").masked(zeros, 7, ("b", "a")), -mask)


def uniform(words):
    """p-value of the bytes of the words, place by place, against the uniform law."""
    places = words.astype("<u8").view(np.uint8).reshape(-1, 8)
    return min(chisquare(np.bincount(places[:, place], minlength=256)).pvalue for place in range(8))


def test_a_masked_vector_alone_is_uniform_and_its_steps_are_not():
    steps = np.arange(20_000) * 1_000_003
    words = PARTIES["berta"].masked(steps, fresh_round(), NAMES)
    assert uniform(words) > 1e-9
    assert uniform(steps.view(np.uint64)) < 1e-12
    assert uniform(words & np.uint64(2**60 - 1)) < 1e-12


def test_sums_of_fewer_than_all_are_uniform():
    """What the server sees if it leaves one party out, and what all parties but one and the server see together."""
    number = fresh_round()
    sent = [PARTIES[name].masked(np.zeros(20_000, dtype=np.int64), number, NAMES) for name in NAMES]
    assert uniform(np.sum(sent[1:], axis=0, dtype=np.uint64)) > 1e-9
    assert not np.sum(sent, axis=0, dtype=np.uint64).any()


def test_every_round_set_session_and_pair_has_its_own_mask():
    zeros, number = np.zeros(50, dtype=np.int64), fresh_round()
    sets = [NAMES, NAMES[:4], NAMES[:3], ("arthur", "berta"), ("arthur", "carl")]
    masks = [party("arthur").masked(zeros, number, present) for present in sets]
    masks.append(PARTIES["arthur"].masked(zeros, fresh_round(), NAMES))
    keys = {name: AgreementKey() for name in "ab"}
    public = {name: key.public_bytes for name, key in keys.items()}
    masks += [PairwiseMasks("a", keys["a"], public, session).masked(zeros, 0, "ab") for session in ("one", "two")]
    words = np.concatenate(masks).tolist()
    assert len(set(words)) == len(words)


def test_a_set_has_one_mask_whatever_its_order():
    zeros, number = np.zeros(3, dtype=np.int64), fresh_round()
    first, second = (PARTIES["carl"].masked(zeros, number, names) for names in (NAMES, NAMES[::-1]))
    assert np.array_equal(first, second)


def test_masks_are_used_once():
    steps, number = np.array([1, 2]), fresh_round()
    first = PARTIES["dora"].masked(steps, number, NAMES)
    assert np.array_equal(PARTIES["dora"].masked(steps.copy(), number, NAMES), first)
    for other in ([1, 3], [1, 2, 0], [1]):
        with pytest.raises(ValueError, match="^Another vector, or one for another set, was masked in this round"):
            PARTIES["dora"].masked(np.array(other), number, NAMES)


def test_a_round_has_one_set():
    """The sums over two sets would differ by what one party gave, with too little noise."""
    steps, number = np.array([1, 2]), fresh_round()
    PARTIES["dora"].masked(steps, number, NAMES)
    with pytest.raises(ValueError, match="or one for another set"):
        PARTIES["dora"].masked(steps, number, NAMES[1:])


def test_the_steps_of_the_caller_are_left_as_they_are():
    steps = np.array([5, -5])
    PARTIES["emil"].masked(steps, fresh_round(), NAMES)
    assert steps.tolist() == [5, -5]


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31), (2**255 - 20).to_bytes(32, "little"), b"short", None])
def test_low_order_and_malformed_keys_are_refused(key):
    own = AgreementKey()
    with pytest.raises(ValueError, match="^The public key of mallory"):
        PairwiseMasks("a", own, {"a": own.public_bytes, "mallory": key}, "job")


def test_keys_that_were_changed_or_shared_are_refused():
    own, other = AgreementKey(), AgreementKey()
    with pytest.raises(ValueError, match="another key for a than its own"):
        PairwiseMasks("a", own, {"a": other.public_bytes, "b": own.public_bytes}, "job")
    for twice in ({"b": own.public_bytes}, {"b": other.public_bytes, "c": other.public_bytes}):
        with pytest.raises(ValueError, match="Two parties sent one public key"):
            PairwiseMasks("a", own, {"a": own.public_bytes, **twice}, "job")
    with pytest.raises(ValueError, match="of the other party is one's own"):
        own.shared_with(own.public_bytes, "job")


@pytest.mark.parametrize(
    "present, reason",
    [
        (("arthur",), "at least one other party"),
        (("berta", "carl"), "arthur and at least"),
        ((), "at least one other"),
        (("arthur", "zoe"), "zoe is named as present, but it sent no public key"),
        (("arthur", "berta", "berta"), "present twice"),
    ],
)
def test_the_present_set_is_checked(present, reason):
    with pytest.raises(ValueError, match=reason):
        PARTIES["arthur"].masked(np.zeros(2, dtype=np.int64), fresh_round(), present)


@pytest.mark.parametrize("steps", [np.zeros(2), np.zeros((2, 2), dtype=np.int64), np.zeros(0, dtype=np.int64), [True]])
def test_only_int64_vectors_are_masked(steps):
    with pytest.raises(ValueError, match="must be an int64 vector"):
        PARTIES["arthur"].masked(steps, fresh_round(), NAMES)


@pytest.mark.parametrize(
    "occasion", [{"round_number": -1}, {"round_number": 2**63}, {"round_number": 1.0}, {"round_number": True}]
)
def test_rounds_are_whole_numbers(occasion):
    with pytest.raises(ValueError, match="must be a whole number from 0"):
        PARTIES["arthur"].masked(np.zeros(2, dtype=np.int64), present=NAMES, **occasion)


def test_masks_are_never_pickled():
    with pytest.raises(TypeError, match="never pickled or copied"):
        pickle.dumps(PARTIES["arthur"])
    assert repr(PARTIES["arthur"]) == "PairwiseMasks(arthur and 4 others)"
