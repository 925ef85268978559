"""Records that two parties have in common: found by tags of their ids, then shared between them.

Tags come from a commutative cipher: equal ids get equal tags once both parties have encrypted them, in either order. An
id becomes a point of the prime-order subgroup of edwards25519, and its tag is that point times a secret scalar, which
looks random to whoever does not know the scalar (decisional Diffie-Hellman, ids hashed as by a random oracle).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from nacl import bindings

from .paillier import (
    Ciphertext,
    DrawnBlinding,
    OwnerDecryption,
    OwnerEncryption,
    PrivateKey,
    PublicKey,
    blinded_for_owner,
    column_from_bytes,
    column_to_bytes,
)
from .powers import IntArray, ObjectArray
from .slots import STATISTICAL_BITS, FloatArray, SlotLayout, draw_mask

POINT_BYTES = 32
_ORDER = 2**252 + 27742317777372353535851937790883648493
_DOMAIN = b"fate-dp align id to edwards25519, half "


class TagCipher:
    """Makes tags with a secret scalar. A secret that travels to this party's own workers only; see `TagKey`.

    Neither libsodium's multiplication nor its Elligator map branches on secrets.
    """

    def __init__(self, scalar: bytes) -> None:
        self._scalar = scalar

    def tags(self, ids: Iterable[str]) -> list[bytes]:
        """Tags of ids, in their order: the caller permutes them before they are sent."""
        return [bindings.crypto_scalarmult_ed25519_noclamp(self._scalar, point_of(each)) for each in ids]

    def again(self, tags: bytes) -> list[bytes]:
        """What another party sent, each tag encrypted under this key as well, in the order received; see `split_tags`."""
        return [bindings.crypto_scalarmult_ed25519_noclamp(self._scalar, tag) for tag in split_tags(tags)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"


class TagKey(TagCipher):
    """A secret scalar for one job, so that tags of two jobs cannot be linked. It never leaves the process."""

    def __init__(self) -> None:
        super().__init__((1 + secrets.randbelow(_ORDER - 1)).to_bytes(32, "little"))

    def for_workers(self) -> TagCipher:
        """The same tags, in a form that can be pickled: for this party's own workers alone."""
        return TagCipher(self._scalar)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A tag key is never pickled: it stays in the process that made it.")


def point_of(match_id: str) -> bytes:
    """The point of an id, 32 bytes: the sum of two Elligator images of independent hashes.

    It is close to uniform on the subgroup, of which one image alone reaches about half: E. Brier et al., "Efficient
    indifferentiable hashing into ordinary elliptic curves", CRYPTO 2010. libsodium multiplies images by the cofactor.
    """
    halves = [
        bindings.crypto_core_ed25519_from_uniform(hashlib.sha512(_DOMAIN + half + match_id.encode()).digest()[:32])
        for half in (b"1:", b"2:")
    ]
    return bindings.crypto_core_ed25519_add(*halves)


def split_tags(data: bytes) -> list[bytes]:
    """Tags that another party sent one after the other, checked: a point of small order would make equal tags of all ids.

    Raises:
        ValueError: a length that is no multiple of 32 bytes, or a tag that is no point of the subgroup.
    """
    if len(data) % POINT_BYTES:
        raise ValueError(f"The other party's tags have {len(data)} bytes; allowed is a multiple of {POINT_BYTES}.")
    tags = [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]
    if not all(map(bindings.crypto_core_ed25519_is_valid_point, tags)):
        raise ValueError(
            "The other party sent a tag that is no point of the prime-order group; it was not made by TagKey."
        )
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


def encode_values(values: npt.ArrayLike, names: Sequence[str]) -> IntArray:
    """Float array (n, c) -> int64 array in units of 2^-20, rounded to the nearest; messages name columns by ``names``.

    Raises:
        ValueError: naming the column with a value that is not finite or not below 2^4 in magnitude.
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
    """The slots of one plaintext under a key."""
    return SlotLayout(VALUE_BITS, public_key.key_length)


def record_bytes(columns: int, public_key: PublicKey) -> int:
    """Bytes of one encrypted record."""
    return record_layout(public_key).plaintexts(columns) * public_key.ciphertext_bytes


def encrypt_records(matrix: IntArray, encryption: OwnerEncryption, expected: int) -> list[bytes]:
    """int64 (n, c) in units of 2^-20 -> n encrypted records of `record_bytes` each.

    This process will encrypt ``expected`` records under the key in all; only the speed depends on it.
    """
    if matrix.dtype != np.int64 or matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError(f"Records are {matrix.dtype} of shape {matrix.shape}; they must be int64 (n, c), c > 0.")
    if matrix.size and int(np.abs(matrix).max()) >> VALUE_BITS:
        raise ValueError(f"A value reaches 2^{VALUE_BITS} units; encode_values refuses those.")
    layout = record_layout(encryption.public_key)
    of_each = layout.plaintexts(matrix.shape[1])
    ciphertexts = encryption.encrypt(layout.pack_rows(matrix.tolist()), expected * of_each)
    return [column_to_bytes(ciphertexts[at : at + of_each]) for at in range(0, len(ciphertexts), of_each)]


def draw_masks(
    records: int, columns: int, public_key: PublicKey, random_bits: Callable[[int], int] = secrets.randbits
) -> list[list[int]]:
    """Masks for `blind_records`, see `slots.draw_mask`: for each record one below the owner's n for every ciphertext."""
    plaintexts = record_layout(public_key).plaintexts(columns)
    return [[draw_mask(public_key.n, random_bits) for _ in range(plaintexts)] for _ in range(records)]


def kept_shares(masks: Sequence[Sequence[int]], columns: int, public_key: PublicKey) -> ObjectArray:
    """The share of the party that drew the masks: object array (records, columns)."""
    return -_digits(masks, columns, record_layout(public_key))


def blind_records(records: Sequence[bytes], masks: Sequence[Sequence[int]], blinding: DrawnBlinding) -> list[bytes]:
    """Another party's encrypted records with masks, never used twice, added, blinded anew by the owner's `drawn_blinding`.

    Raises:
        ValueError: a record of another length, or one that holds no ciphertexts under the owner's key.
    """
    key, counts = blinding.public_key, [len(row) for row in masks]
    ciphertexts = _ciphertexts(records, counts, key)
    sums = [ciphertext.plus(mask) for ciphertext, mask in zip(ciphertexts, chain.from_iterable(masks))]
    blinded = iter(blinded_for_owner(sums, blinding))
    return [column_to_bytes(list(islice(blinded, len(row)))) for row in masks]


def open_records(records: Sequence[bytes], columns: int, private_key: PrivateKey | OwnerDecryption) -> ObjectArray:
    """The owner's shares, object array (n, columns), from what `blind_records` made of its own records.

    Raises:
        ValueError: as `blind_records`.
    """
    key = private_key.public_key
    layout = record_layout(key)
    of_each = layout.plaintexts(columns)
    opened = iter(private_key.decrypt_all(_ciphertexts(records, [of_each] * len(records), key)))
    return _digits([list(islice(opened, of_each)) for _ in records], columns, layout)


def _ciphertexts(records: Sequence[bytes], counts: Sequence[int], public_key: PublicKey) -> list[Ciphertext]:
    """Those of all records, one after the other: checked together, which is quicker."""
    for record, count in zip(records, counts, strict=True):
        if len(record) != count * public_key.ciphertext_bytes:
            raise ValueError(
                f"An encrypted record has {len(record)} bytes; with its columns under this key it must have "
                f"{count * public_key.ciphertext_bytes}."
            )
    return column_from_bytes(b"".join(records), public_key)


def _digits(numbers: Sequence[Sequence[int]], columns: int, layout: SlotLayout) -> ObjectArray:
    """The slots of each record's plaintexts or masks, in the order of its columns."""
    matrix: ObjectArray = np.empty((len(numbers), columns), dtype=object)
    for at, of_record in enumerate(numbers):
        pairs = zip(of_record, layout.slots_used(columns))
        matrix[at] = [digit for number, count in pairs for digit in layout.digits(number, count)]
    return matrix
