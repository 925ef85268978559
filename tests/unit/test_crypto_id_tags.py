"""Tags of ids: they commute, differ between jobs, and foreign points are refused."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from fate_dp.crypto.joined_records import TagKey, point_of, split_tags

NEUTRAL = bytes([1]) + bytes(31)
ORDER_TWO = bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f")
ORDER_EIGHT = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")


@given(st.lists(st.text(max_size=12), max_size=4, unique=True))
def test_both_orders_give_the_same_double_tags(ids):
    first, second = TagKey(), TagKey()
    assert second.again(b"".join(first.tags(ids))) == first.again(b"".join(second.tags(ids)))


def test_different_ids_have_different_points_and_tags():
    ids = ["", "1", "01", "1 ", "\u0131", "a\x00b", "a"]
    assert len({point_of(each) for each in ids}) == len(ids)
    assert len(set(TagKey().tags(ids))) == len(ids)


def test_a_new_key_gives_tags_that_share_nothing_with_the_old_ones():
    ids = [str(number) for number in range(50)]
    assert not set(TagKey().tags(ids)) & set(TagKey().tags(ids))


def test_points_lie_in_the_prime_order_subgroup():
    for number in range(20):
        assert bindings.crypto_core_ed25519_is_valid_point(point_of(f"id {number}"))


def test_the_point_of_an_id_is_fixed():
    # A golden of this construction: tags of parties with different releases must still match.
    assert point_of("record 1").hex() == POINT_OF_RECORD_1


POINT_OF_RECORD_1 = "329f9d9b5cac9de964d0ccf74d469e3440a4d31a0b7aca4d16ab5a0258d78656"


@pytest.mark.parametrize(
    "bad",
    [NEUTRAL, ORDER_TWO, ORDER_EIGHT, bytes(32), b"\xff" * 32, (2**255 - 18).to_bytes(32, "little")],
    ids=["neutral", "order two", "order eight", "zero", "not canonical", "neutral plus the field's prime"],
)
def test_points_outside_the_group_are_refused(bad):
    good = TagKey().tags(["1"])[0]
    with pytest.raises(ValueError, match="no point of the prime-order group"):
        TagKey().again(good + bad)


def test_a_point_of_mixed_order_is_refused():
    mixed = bindings.crypto_core_ed25519_add(point_of("1"), ORDER_EIGHT)
    with pytest.raises(ValueError, match="no point of the prime-order group"):
        split_tags(mixed)


def test_a_broken_length_is_refused():
    with pytest.raises(ValueError, match="have 33 bytes; allowed is a multiple of 32"):
        split_tags(bytes(33))


def test_a_key_has_no_byte_form_and_shows_nothing():
    key = TagKey()
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(key)
    assert repr(key) == "TagKey(secret)"


def test_what_travels_to_workers_makes_the_same_tags_and_shows_nothing():
    key = TagKey()
    worker = pickle.loads(pickle.dumps(key.for_workers()))
    assert worker.tags(["1", "2"]) == key.tags(["1", "2"])
    assert worker.again(b"".join(TAGS)) == key.again(b"".join(TAGS))
    assert repr(worker) == "TagCipher(secret)"


TAGS = TagKey().tags(["a", "b"])
