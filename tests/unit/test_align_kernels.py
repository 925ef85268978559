"""The protocol's kernels without FATE: shares add up in every order, non-members vanish, malformed input is refused."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.components.align.preflight import dummy_names, record_name
from fate_dp.components.align.settings import Settings, hide_size
from fate_dp.components.align.tagged_tables import (
    Blinding,
    blinded_records,
    encrypted_records,
    opened_records,
    share_rows,
    tagged_again,
)
from fate_dp.components.common.parameters import parameters_of
from fate_dp.components.protocols.joined_tables import Alignment
from fate_dp.crypto.joined_records import SHARE_BITS, TagKey, join_shares, split_shares
from fate_dp.crypto.paillier import generate_keypair

LARGEST = (1 << SHARE_BITS) - 1


@lru_cache(maxsize=2)
def keys(_):
    return generate_keypair(2048)


def blinding(owner, columns, mask_key=bytes(32)):
    return Blinding(columns, keys(owner)[0], mask_key, 4)


class Side:
    """A party of the protocol, played step by step."""

    def __init__(self, owner, names, matrix):
        self.owner, self.matrix, self.tagger = owner, matrix, TagKey().for_workers()
        self.sent = sorted(encrypted_records(names, matrix, self.tagger, keys(owner)[1].encryption(), len(names) or 1))

    def doubled(self, received):
        self.others = dict(tagged_again(received, self.tagger))
        return sorted(self.others)

    def blinded(self, own_tags, columns):
        matched = [(tag, self.others[tag]) for tag in own_tags if tag in self.others]
        made = blinded_records(matched, blinding(1 - self.owner, columns))
        self.kept = {tag: kept for tag, (_, kept) in made}
        return [(tag, record) for tag, (record, _) in made]

    def opened(self, returned):
        joined = [(tag, (record, self.kept[tag])) for tag, record in returned]
        found = opened_records(joined, self.matrix.shape[1], keys(self.owner)[1].decryption())
        return tuple(map(join_shares, share_rows([pair for _, pair in sorted(found)]))) if found else None


def aligned(first, second):
    sides = [Side(owner, names, matrix) for owner, (names, matrix) in enumerate((first, second))]
    pairs = list(zip(sides, sides[::-1]))
    doubled = [side.doubled(other.sent) for side, other in pairs]
    blinded = [side.blinded(tags, other.matrix.shape[1]) for (side, other), tags in zip(pairs, doubled[::-1])]
    opened = [side.opened(records) for side, records in zip(sides, blinded[::-1])]
    if opened[0] is None:
        return []
    (own, of_second), (second_own, of_first) = opened
    return np.hstack([own + of_first, second_own + of_second]).tolist()


def side_of(ids, columns, offset):
    rows = [[100 * number + column + offset for column in range(columns)] for number in ids]
    return [record_name(str(number)) for number in ids], np.array(rows, dtype=np.int64).reshape(len(ids), columns)


@settings(max_examples=6)
@given(st.permutations(range(4)), st.permutations(range(5)), st.integers(0, 4))
def test_shares_add_up_to_the_joined_records_whatever_the_order(first_ids, second_ids, common):
    """Of the second's ids ``common`` are the first's; the others vanish."""
    second_ids = [number if number < common else number + 100 for number in second_ids]
    joined = aligned(side_of(first_ids, 2, 7), side_of(second_ids, 3, -50))
    expected = [[100 * at + 7, 100 * at + 8, *(100 * at + column - 50 for column in range(3))] for at in range(common)]
    assert sorted(joined) == expected


def test_dummies_match_as_often_as_both_drew_and_are_no_records():
    guest, host = dummy_names("guest", 3, 8), dummy_names("host", 5, 8)
    assert len(set(guest) & set(host)) == 3 + 5
    assert len(set(guest)) == len(guest) == len(set(host)) == len(host) == 16
    assert len(dummy_names("guest", 0, 8)) == len(dummy_names("guest", 8, 8)) == 16
    assert not {record_name(name) for name in guest + host} & {*guest, *host}


def test_the_same_work_done_twice_gives_the_same_shares_and_other_ciphertexts():
    side = Side(0, ["a", "b"], np.array([[1, 2], [3, 4]]))
    first, second = (blinded_records(side.sent, blinding(0, 2)) for _ in range(2))
    assert [kept for _, (_, kept) in first] == [kept for _, (_, kept) in second]
    assert not {record for _, (record, _) in first} & {record for _, (record, _) in second}
    other = blinded_records(side.sent, blinding(0, 2, b"\x01" * 32))
    assert not {kept for _, (_, kept) in first} & {kept for _, (_, kept) in other}
    rows = np.stack([np.frombuffer(kept, dtype=np.int64) for _, (_, kept) in first])
    assert len(set(join_shares(rows).flat)) == 4


def test_malformed_tags_and_records_are_refused():
    side = Side(0, ["a"], np.array([[1, 2]]))
    ((tag, record),) = side.sent
    for bad in (b"", tag[:-1], tag.hex(), 5):
        with pytest.raises(ValueError, match="something that is no tag of 32 bytes"):
            tagged_again([(bad, record)], side.tagger)
    with pytest.raises(ValueError, match="no point of prime order"):
        tagged_again([(bytes(32), record)], side.tagger)
    with pytest.raises(ValueError, match="must have 512 bytes with its columns under this key, got 511"):
        blinded_records([(tag, record[:-1])], blinding(0, 2))
    with pytest.raises(ValueError):
        blinded_records([(tag, bytes(len(record)))], blinding(0, 2))
    with pytest.raises(ValueError, match="must be invertible|outside|not invertible"):
        opened_records([(tag, (bytes(len(record)), b""))], 2, keys(0)[1].decryption())


@given(st.lists(st.lists(st.integers(-LARGEST, LARGEST), min_size=3, max_size=3), max_size=5))
def test_halves_of_shares_are_int64_and_exact(rows):
    matrix = np.array(rows, dtype=object).reshape(len(rows), 3)
    halves = split_shares(matrix)
    assert halves.dtype == np.int64 and halves.shape == (len(rows), 6)
    assert (join_shares(halves) == matrix).all()
    assert (halves[:, 1::2] >= 0).all()


def test_shares_that_are_too_wide_are_refused():
    with pytest.raises(ValueError, match="A share reaches 2\\^65"):
        split_shares(np.array([[LARGEST + 1]], dtype=object))


def test_an_alignment_survives_json_and_others_are_refused():
    facts = Alignment("ab", 3, ("guest_x0",), ("host_x0",), True, {"epsilon": 1.0, "delta": 0.1, "pool": 2}, ("age",))
    assert Alignment.from_json(facts.to_json()) == facts
    assert facts.names == ["guest_x0", "host_x0", "label", "membership"]
    for bad in ({}, {**facts.to_json(), "columns": 3}, {"data": {}, "meta": {}}):
        with pytest.raises(ValueError, match="no model that align wrote"):
            Alignment.from_json(bad)
    with pytest.raises(ValueError, match="this version reads"):
        Alignment.from_json({**facts.to_json(), "fraction_bits": 24})


def test_parameters_are_checked_before_any_work():
    assert hide_size(None) is hide_size(False) is None
    assert hide_size(True) == hide_size({"epsilon": 1, "delta": 1e-8}) == hide_size({"pool": 40})
    assert hide_size({"pool": 50}).delta < hide_size(True).delta <= 1e-8
    for bad, sentence in (
        ("yes", "hide_size must be a mapping with keys among .*, got 'yes'"),
        ({"k": 3}, "a key of hide_size must be one of .*, got 'k'"),
        ({"epsilon": 0}, "hide_size.epsilon must be .*, got 0"),
        ({"delta": 1}, "hide_size.delta must be .*, got 1"),
        ({"pool": 38}, "hide_size.pool must be at least 40 with epsilon 1 and delta 1e-08, got 38"),
        ({"pool": 41}, "pool must be an even number.*, got 41"),
        ({"epsilon": 1e-5}, "needs a pool of more than"),
    ):
        with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
            hide_size(bad)
    for bad in (1024, 2048.5, "2048", None):
        with pytest.raises(ValueError, match="key_length must be"):
            parameters_of(Settings)["he_param"].check({"key_length": bad})
