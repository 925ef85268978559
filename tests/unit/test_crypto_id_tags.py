"""Tags of ids: they commute, differ between jobs, are the same with and without the kernel, and foreign points are refused."""

import ctypes
import logging
import pickle
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from fate_dp.crypto import curve25519
from fate_dp.crypto.joined_records import TagCipher, TagKey, points_of, split_tags
from fate_dp.crypto.kernel import kernel

LIBRARY = kernel().library
needs_kernel = pytest.mark.skipif(LIBRARY is None, reason=kernel().sentence)
PRIME = curve25519.PRIME
# Their orders divide 8, on the curve or on its twist (listed at cr.yp.to/ecdh.html).
SMALL_ORDER = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    PRIME - 1,
]


@pytest.fixture(params=[pytest.param("kernel", marks=needs_kernel), "libsodium"])
def arithmetic(request, monkeypatch):
    """The curve by the native kernel, and without it."""
    monkeypatch.setattr(curve25519, "_checked_library", lambda: LIBRARY if request.param == "kernel" else None)
    return request.param


def number(value: int) -> bytes:
    return value.to_bytes(32, "little")


@given(st.lists(st.text(max_size=12), max_size=4, unique=True))
def test_both_orders_give_the_same_double_tags(ids):
    first, second = TagKey(), TagKey()
    assert second.again(b"".join(first.tags(ids))) == first.again(b"".join(second.tags(ids)))


def test_different_ids_have_different_points_and_tags(arithmetic):
    ids = ["", "1", "01", "1 ", "\u0131", "a\x00b", "a"]
    assert len(set(points_of(ids))) == len(ids)
    assert len(set(TagKey().tags(ids))) == len(ids)


def test_a_new_key_gives_tags_that_share_nothing_with_the_old_ones():
    ids = [str(number) for number in range(50)]
    assert not set(TagKey().tags(ids)) & set(TagKey().tags(ids))


def test_the_point_and_the_tag_of_an_id_are_fixed(arithmetic):
    # Goldens of this construction: tags of parties with different releases must still match.
    (point,) = points_of(["record 1"])
    assert point.hex() == POINT_OF_RECORD_1
    assert TagCipher(bytes(range(32))).tags(["record 1"])[0].hex() == TAG_OF_RECORD_1


POINT_OF_RECORD_1 = "41c183142f6e7066efe80d21c1a51266a7d6bd62271620e5b44ce86f0b89f60e"
TAG_OF_RECORD_1 = "7e182799afd6f7681984d109401cfd07f353abf3b70bf81f9308238bc474e509"


def test_points_lie_on_the_curve_and_have_prime_order(arithmetic):
    """A scalar and then its inverse modulo the subgroup's order give the point again."""
    scalar = 2**254 + 8 * 12345
    inverse = _clamped_inverse(scalar)
    for point in points_of(f"id {at}" for at in range(20)):
        u = int.from_bytes(point, "little")
        assert pow(u * (u * u + 486662 * u + 1), (PRIME - 1) // 2, PRIME) == 1
        (there,) = curve25519.multiples(number(scalar), [point])
        assert there != point and curve25519.multiples(number(inverse), [there]) == [point]


def _clamped_inverse(scalar: int) -> int:
    """1 / scalar or -1 / scalar modulo the order, as a clamped scalar: both give the same u-coordinate."""
    order = 2**252 + 27742317777372353535851937790883648493
    residues = (pow(scalar, -1, order), order - pow(scalar, -1, order))
    candidates = [residue + multiple * order for residue in residues for multiple in range(8)]
    return next(each for each in candidates if each % 8 == 0 and 2**254 <= each < 2**255)


@pytest.mark.parametrize("zero", [0, PRIME, 2**255, 2**255 + PRIME])
def test_a_hash_that_is_zero_has_no_point_and_gives_zeros(zero, arithmetic):
    assert curve25519.mapped([number(zero), number(9)])[0] == bytes(32)


def test_what_is_not_of_32_bytes_is_refused_before_anything_is_read(arithmetic):
    for point in (bytes(31), bytes(33)):
        for call in (lambda: curve25519.multiples(bytes(32), [point]), lambda: curve25519.mapped([number(9), point])):
            with pytest.raises(ValueError, match=f"must have 32 bytes, got {len(point)}"):
                call()
    for scalars, count in ((bytes(31), 1), (bytes(64), 1), (b"", 1), (bytes(64), 3)):
        with pytest.raises(ValueError, match=f"scalars must have 32 bytes.*, got {len(scalars)}"):
            curve25519.multiples(scalars, [number(9)] * count)
    assert curve25519.multiples(b"", []) == curve25519.multiples(bytes(32), []) == curve25519.mapped([]) == []


@needs_kernel
@pytest.mark.parametrize("name", ["kernel_x25519", "kernel_elligator"])
def test_a_kernel_that_differs_from_libsodium_is_not_used_and_the_log_says_so(name, monkeypatch, caplog):
    def faulty(out, *arguments):
        getattr(LIBRARY, name)(out, *arguments)
        ctypes.cast(out, ctypes.POINTER(ctypes.c_uint64))[0] ^= 1

    functions = {each: getattr(LIBRARY, each) for each in ("kernel_x25519", "kernel_elligator")}
    library = SimpleNamespace(**{**functions, name: faulty})
    monkeypatch.setattr(curve25519, "kernel", lambda: SimpleNamespace(library=library))
    with caplog.at_level(logging.WARNING, logger=curve25519.__name__):
        assert curve25519._checked_library.__wrapped__() is None
    assert caplog.messages == ["The native kernel differs from libsodium on Curve25519; libsodium computes instead."]


@pytest.mark.parametrize("bad", [*SMALL_ORDER, PRIME, PRIME + 9, 2**255 + 9, 2**256 - 1])
def test_points_of_small_order_and_second_forms_of_a_number_are_refused(bad, arithmetic):
    good = TagKey().tags(["1"])[0]
    with pytest.raises(ValueError, match="no point of prime order"):
        TagKey().again(good + number(bad))


def test_a_part_of_small_order_in_a_tag_changes_nothing(arithmetic):
    """Scalars are multiples of 8, so a point of mixed order has the tag of its part of prime order: it links nothing."""
    edwards = bindings.crypto_core_ed25519_from_uniform(bytes(range(32)))
    order_eight = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    pure, mixed = map(_u_of, (edwards, bindings.crypto_core_ed25519_add(edwards, order_eight)))
    key = TagKey()
    assert pure != mixed and key.again(pure) == key.again(mixed)


def _u_of(edwards: bytes) -> bytes:
    y = int.from_bytes(edwards, "little") % 2**255
    return number((1 + y) * pow(1 - y, -1, PRIME) % PRIME)


def test_a_broken_length_is_refused():
    with pytest.raises(ValueError, match="must be a multiple of 32 bytes, got 33"):
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
