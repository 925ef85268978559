"""Additive shares of records that one party holds and another only matches: encrypt, blind, open.

The owner encrypts every record once, its columns side by side in as few Paillier plaintexts as hold them, under its own
key. The other party adds a fresh mask to every value (`draw_masks`, `blind_records`), floods the ciphertext's randomness, so that the
owner cannot tell which of its records came back, and returns it in an order of its own. What the owner decrypts is its
share (value plus mask); minus the mask is the other's. Shares are integers that add up exactly, with no modulus: a mask
is 2^41 times wider than any value, so each share of a value is within 2^-40 (statistical distance) of a number that
does not depend on it.

Values are fixed-point numbers of unit 2^-20, below 2^4 in magnitude.
"""
import secrets
from typing import Callable, List, Sequence, Union

import numpy as np

from .blinding import FixedBaseBlinding, blinding_of
from .ciphertext import STATISTICAL_BITS, Ciphertext, column_from_bytes, column_to_bytes, flood
from .fixed_base import comb_height
from .owner_decryption import OwnerDecryption
from .owner_encryption import OwnerEncryption
from .paillier import PrivateKey, PublicKey
from .slots import SlotLayout

FRACTION_BITS = 20
MAGNITUDE_BITS = 4
VALUE_BITS = FRACTION_BITS + MAGNITUDE_BITS
"""Every value is below 2^24 units in magnitude."""
SHARE_BITS = VALUE_BITS + 1 + STATISTICAL_BITS + 1
"""Every share is below 2^66 in magnitude."""


class InvalidRecords(ValueError):
    """Values outside the fixed-point range, or records of another shape; the message is one sentence."""


def encode_values(values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Float array (n, c) -> int64 array in units of 2^-20, rounded to the nearest.

    Raises:
        InvalidRecords: naming the column with a value that is not finite or not below 2^4 in magnitude.
    """
    values = np.asarray(values, dtype=np.float64)
    fitting = np.abs(values) < 2.0**MAGNITUDE_BITS - 2.0**-FRACTION_BITS
    if not fitting.all():
        column = names[int(np.argmin(fitting.all(axis=0)))]
        raise InvalidRecords(
            f"The column {column!r} holds a value that is not a number below {2 ** MAGNITUDE_BITS} in magnitude; "
            "standardise it."
        )
    return np.rint(values * 2.0**FRACTION_BITS).astype(np.int64)


def record_layout(public_key: PublicKey) -> SlotLayout:
    """The slots of one plaintext under a key."""
    return SlotLayout(VALUE_BITS, public_key.key_length)


def flooding(public_key: PublicKey, expected: int = 10_000) -> FixedBaseBlinding:
    """The table for `blind_records`, made once per process and key.

    A record's ciphertexts are its owner's own, each used once, so exponents that are 40 bits longer hide theirs.

    Args:
        expected: ciphertexts that this process will blind under the key; only the speed depends on it.
    """
    return blinding_of(public_key, STATISTICAL_BITS, comb_height(expected))


def record_bytes(columns: int, public_key: PublicKey) -> int:
    """Bytes of one encrypted record."""
    return record_layout(public_key).plaintexts(columns) * public_key.ciphertext_bytes


def encrypt_records(matrix: np.ndarray, encryption: OwnerEncryption, expected: int) -> List[bytes]:
    """int64 (n, c) in units of 2^-20 -> n encrypted records of `record_bytes` each.

    Args:
        expected: records that this process will encrypt under the key in all; only the speed depends on it.
    """
    if matrix.dtype != np.int64 or matrix.ndim != 2 or not matrix.shape[1]:
        raise InvalidRecords(f"Records are {matrix.dtype} of shape {matrix.shape}; they must be int64 (n, c), c > 0.")
    if matrix.size and int(np.abs(matrix).max()) >> VALUE_BITS:
        raise InvalidRecords(f"A value reaches 2^{VALUE_BITS} units; encode_values refuses those.")
    layout = record_layout(encryption.public_key)
    starts = range(0, matrix.shape[1], layout.slots)
    plaintexts = [layout.pack(row[at : at + layout.slots]) for row in matrix.tolist() for at in starts]
    ciphertexts = encryption.encrypt(plaintexts, expected * len(starts))
    return [column_to_bytes(ciphertexts[at : at + len(starts)]) for at in range(0, len(ciphertexts), len(starts))]


def draw_masks(records: int, columns: int, random_bits: Callable[[int], int] = secrets.randbits) -> np.ndarray:
    """Masks for `blind_records`, object array (records, columns); minus the masks is this party's share.

    Args:
        random_bits: makes a uniform integer of so many bits. Where a worker may compute the same block twice, it must
            give the same masks again, and nobody else must be able to: a keystream under a secret key.
    """
    bits = SHARE_BITS - 1
    return _matrix([[random_bits(bits) for _ in range(columns)] for _ in range(records)], columns)


def blind_records(records: Sequence[bytes], masks: np.ndarray, table: FixedBaseBlinding) -> List[bytes]:
    """Another party's encrypted records with masks added, and flooded.

    Args:
        masks: from `draw_masks`, one row per record; never used twice.
        table: from `flooding` of the owner's key.

    Raises:
        ValueError: a record of another length, or one that holds no ciphertexts under the owner's key.
    """
    key, columns = table.public_key, masks.shape[1]
    layout = record_layout(key)
    starts, sums = range(0, columns, layout.slots), []
    for record, row in zip(records, masks.tolist(), strict=True):
        parts = [layout.pack(row[at : at + layout.slots]) for at in starts]
        sums += [ciphertext.plus(part) for ciphertext, part in zip(_ciphertexts(record, columns, key), parts)]
    blinded = flood(sums, table, 0)
    return [column_to_bytes(blinded[at : at + len(starts)]) for at in range(0, len(blinded), len(starts))]


def open_records(records: Sequence[bytes], columns: int, private_key: Union[PrivateKey, OwnerDecryption]) -> np.ndarray:
    """The owner's shares, object array (n, columns), from what `blind_records` made of its own records.

    Raises:
        ValueError: as `blind_records`, or a plaintext that holds no masked values.
    """
    layout, opened = record_layout(private_key.public_key), []
    for record in records:
        row, left = [], columns
        for ciphertext in _ciphertexts(record, columns, private_key.public_key):
            count = min(left, layout.slots)
            row += layout.unpack_masked(private_key.decrypt_signed(ciphertext, count * layout.slot_bits), count)
            left -= count
        opened.append(row)
    return _matrix(opened, columns)


def _ciphertexts(record: bytes, columns: int, public_key: PublicKey) -> List[Ciphertext]:
    if len(record) != record_bytes(columns, public_key):
        raise InvalidRecords(
            f"An encrypted record has {len(record)} bytes; with {columns} columns under this key it must have "
            f"{record_bytes(columns, public_key)}."
        )
    return column_from_bytes(record, public_key)


def _matrix(rows: Sequence[Sequence[int]], columns: int) -> np.ndarray:
    matrix = np.empty((len(rows), columns), dtype=object)
    for at, row in enumerate(rows):
        matrix[at] = row
    return matrix
