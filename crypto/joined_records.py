"""Records that two parties have in common: found by tags of their ids, then shared between them.

Tags come from a commutative cipher: equal ids get equal tags once both parties have encrypted them, in either order. An
id becomes a point of Curve25519, and its tag is the u-coordinate of that point times a secret scalar, as in X25519. It
looks random to whoever does not know the scalar (decisional Diffie-Hellman in the subgroup of prime order, ids hashed as
by a random oracle).
"""

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from . import paillier
from .curve25519 import POINT_BYTES as POINT_BYTES
from .curve25519 import PRIME, mapped, multiples
from .paillier import Ciphertext, DrawnBlinding, OwnerDecryption, OwnerEncryption, PrivateKey, PublicKey
from .powers import IntArray, ObjectArray
from .slots import STATISTICAL_BITS, FloatArray, SlotLayout, draw_mask

_DOMAIN = b"fate-dp align id to curve25519 "


class TagCipher:
    """Makes tags with a secret scalar. A secret that travels to this party's own workers only; see `TagKey`."""

    def __init__(self, scalar: bytes) -> None:
        self._scalar = scalar

    def tags(self, ids: Iterable[str]) -> list[bytes]:
        """Tags of ids, in their order: the caller permutes them before they are sent."""
        return multiples(self._scalar, points_of(ids))

    def again(self, tags: bytes) -> list[bytes]:
        """What another party sent, each tag encrypted under this key as well, in the order received.

        ValueError as of `split_tags`, or for a point of small order, which would make equal tags of all ids.
        """
        doubled = multiples(self._scalar, split_tags(tags))
        if bytes(POINT_BYTES) in doubled:
            raise ValueError(_NO_TAG)
        return doubled

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"


class TagKey(TagCipher):
    """A secret scalar for one job, so that tags of two jobs cannot be linked. It never leaves the process."""

    def __init__(self) -> None:
        super().__init__(secrets.token_bytes(POINT_BYTES))

    def for_workers(self) -> TagCipher:
        """The same tags, in a form that can be pickled: for this party's own workers alone."""
        return TagCipher(self._scalar)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A tag key is never pickled: it stays in the process that made it.")


_NO_TAG = "The other party sent a tag that is no point of prime order; it was not made by TagKey."


def points_of(ids: Iterable[str]) -> list[bytes]:
    """The u-coordinates of the points of ids, 32 bytes each: Elligator's images of their hashes, times the cofactor.

    An image reaches about half of the curve's points. That suffices here: docs/cryptography.md, on tags.
    """
    return mapped([hashlib.sha512(_DOMAIN + each.encode()).digest()[:POINT_BYTES] for each in ids])


def split_tags(data: bytes) -> list[bytes]:
    """Tags that another party sent one after the other, each in the one form that a number has.

    ValueError for a length that is no multiple of 32 bytes, or a number that is not below the field's prime.
    """
    if len(data) % POINT_BYTES:
        raise ValueError(f"The other party's tags must be a multiple of {POINT_BYTES} bytes, got {len(data)}.")
    tags = [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]
    if any(tag[31] >= 127 and int.from_bytes(tag, "little") >= PRIME for tag in tags):
        raise ValueError(_NO_TAG)
    return tags


# Additive shares of records
#
# The owner encrypts every record once under its own key, its columns side by side in as few plaintexts as hold them. The
# other party adds a fresh mask to every plaintext, blinds the ciphertext anew with bases of its own, so that the owner
# cannot tell which of its records came back, and returns it in an order of its own. The digits of what the owner decrypts
# are its share, minus those of the masks the other's. What the owner decrypts is uniform below n, whatever it encrypted.

FRACTION_BITS = 20
MAGNITUDE_BITS = 4
VALUE_BITS = FRACTION_BITS + MAGNITUDE_BITS
"""Every value is below 2^24 units in magnitude."""
SHARE_BITS = VALUE_BITS + 1 + STATISTICAL_BITS
"""Every share is below 2^65 in magnitude."""
LOW_BITS = 33
"""A share is kept in two int64: share = high 2^33 + low with 0 <= low < 2^33."""


def split_shares(shares: ObjectArray) -> IntArray:
    """Integers below 2^65 in magnitude, object array (rows, c) -> int64 (rows, 2 c): high and low of each column."""
    if shares.size and max(abs(share) for share in shares.flat) >> SHARE_BITS:
        raise ValueError(f"A share reaches 2^{SHARE_BITS} in magnitude; align makes none so large.")
    high = shares >> LOW_BITS
    pairs = np.stack([high, shares - (high << LOW_BITS)], axis=2)
    halves: IntArray = pairs.reshape(len(shares), 2 * shares.shape[1]).astype(np.int64)
    return halves


def join_shares(halves: IntArray) -> ObjectArray:
    """The inverse of `split_shares`."""
    wide = halves.astype(object)
    joined: ObjectArray = (wide[:, ::2] << LOW_BITS) + wide[:, 1::2]
    return joined


def encode_values(values: npt.ArrayLike, names: Sequence[str]) -> IntArray:
    """Float array (n, c) -> int64 array in units of 2^-20, rounded to the nearest.

    ValueError names the column, by ``names``, with a value that is not finite or not below 2^4 in magnitude.
    """
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    fitting = (np.abs(numbers) < 2.0**MAGNITUDE_BITS - 2.0**-FRACTION_BITS).all(axis=0)
    if not fitting.all():
        column = names[int(np.argmin(fitting))]
        raise ValueError(
            f"The column {column!r} holds a value that is not a number below {2**MAGNITUDE_BITS} in magnitude; "
            "standardise it."
        )
    encoded: IntArray = np.rint(numbers * 2.0**FRACTION_BITS).astype(np.int64)
    return encoded


def record_layout(public_key: PublicKey) -> SlotLayout:
    return SlotLayout(VALUE_BITS, public_key.key_length)


def record_bytes(columns: int, public_key: PublicKey) -> int:
    return record_layout(public_key).plaintexts(columns) * public_key.ciphertext_bytes


def encrypt_records(matrix: IntArray, encryption: OwnerEncryption, expected: int) -> list[bytes]:
    """int64 (n, c) in units of 2^-20 -> n encrypted records of `record_bytes` each.

    This process will encrypt ``expected`` records under the key in all; only the speed depends on it.
    """
    if matrix.dtype != np.int64 or matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError(f"Records must be int64 (n, c), c > 0, got {matrix.dtype} of shape {matrix.shape}.")
    if matrix.size and int(np.abs(matrix).max()) >> VALUE_BITS:
        raise ValueError(f"A value reaches 2^{VALUE_BITS} units; encode_values refuses those.")
    layout = record_layout(encryption.public_key)
    of_each = layout.plaintexts(matrix.shape[1])
    ciphertexts = encryption.encrypt(layout.pack_rows(matrix.tolist()), expected * of_each)
    return [paillier.column_to_bytes(ciphertexts[at : at + of_each]) for at in range(0, len(ciphertexts), of_each)]


def draw_masks(
    records: int, columns: int, public_key: PublicKey, random_bits: Callable[[int], int] = secrets.randbits
) -> list[list[int]]:
    """Masks for `blind_records`, see `slots.draw_mask`: for each record one below the owner's n for every ciphertext."""
    plaintexts = record_layout(public_key).plaintexts(columns)
    return [[draw_mask(public_key.n, random_bits) for _ in range(plaintexts)] for _ in range(records)]


def kept_shares(masks: Sequence[Sequence[int]], columns: int, public_key: PublicKey) -> IntArray:
    """The shares of the party that drew the masks, int64 (records, 2 columns) as of `split_shares`."""
    digits = _digits(list(chain.from_iterable(masks)), columns, record_layout(public_key))
    high, low = digits[:, ::2], digits[:, 1::2]
    negative = np.stack([-high - (low > 0), -low & _LOW_MASK], axis=2)
    shares: IntArray = negative.reshape(digits.shape)
    return shares


def blind_records(records: Sequence[bytes], masks: Sequence[Sequence[int]], blinding: DrawnBlinding) -> list[bytes]:
    """Another party's encrypted records with masks, never used twice, added, blinded anew by the owner's `drawn_blinding`.

    ValueError for a record of another length, or one that holds no ciphertexts under the owner's key.
    """
    key, counts = blinding.public_key, [len(row) for row in masks]
    ciphertexts = _ciphertexts(records, counts, key)
    sums = [ciphertext.plus(mask) for ciphertext, mask in zip(ciphertexts, chain.from_iterable(masks))]
    blinded = iter(paillier.blinded_for_owner(sums, blinding))
    return [paillier.column_to_bytes(list(islice(blinded, len(row)))) for row in masks]


def open_records(records: Sequence[bytes], columns: int, private_key: PrivateKey | OwnerDecryption) -> IntArray:
    """The owner's shares, int64 (n, 2 columns) as of `split_shares`, from what `blind_records` made; ValueError as there."""
    key = private_key.public_key
    layout = record_layout(key)
    of_each = layout.plaintexts(columns)
    opened = private_key.decrypt_all(_ciphertexts(records, [of_each] * len(records), key))
    return _digits(opened, columns, layout)


def _ciphertexts(records: Sequence[bytes], counts: Sequence[int], public_key: PublicKey) -> list[Ciphertext]:
    """Those of all records, one after the other: checked together, which is quicker."""
    for record, count in zip(records, counts, strict=True):
        if len(record) != count * public_key.ciphertext_bytes:
            raise ValueError(
                f"An encrypted record must have {count * public_key.ciphertext_bytes} bytes with its columns under this "
                f"key, got {len(record)}."
            )
    return paillier.column_from_bytes(b"".join(records), public_key)


_LOW_MASK = (1 << LOW_BITS) - 1


def _digits(numbers: Sequence[int], columns: int, layout: SlotLayout) -> IntArray:
    """The slots of the plaintexts or masks of records, one record after the other: int64 (records, 2 columns).

    Each digit, of 65 bits, is cut out of 64-bit words in two halves, of all records at once.
    """
    of_each, words = layout.plaintexts(columns), layout.key_length // 64 + 2
    data = b"".join(int(number).to_bytes(8 * words, "little") for number in numbers)
    rows = np.frombuffer(data, dtype=np.uint64).reshape(len(numbers) // of_each, of_each * words)
    halves = np.empty((len(rows), 2 * columns), dtype=np.int64)
    for column in range(columns):
        plaintext, slot = divmod(column, layout.slots)
        first = 64 * words * plaintext + layout.slot_bits * slot
        halves[:, 2 * column] = _bits(rows, first + LOW_BITS, layout.slot_bits - LOW_BITS)
        halves[:, 2 * column + 1] = _bits(rows, first, LOW_BITS)
    return halves


def _bits(rows: npt.NDArray[np.uint64], first: int, count: int) -> npt.NDArray[np.uint64]:
    """So many bits, below 64, of each row of words, from the bit ``first`` on."""
    word, shift = divmod(first, 64)
    found = rows[:, word] >> np.uint64(shift)
    if shift + count > 64:
        found = found | rows[:, word + 1] << np.uint64(64 - shift)
    return found & np.uint64((1 << count) - 1)
