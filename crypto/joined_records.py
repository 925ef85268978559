"""Additive shares of records that one party holds and another only matches: encrypt, blind, open.

The owner encrypts every record once, its columns side by side in as few Paillier plaintexts as hold them, under its own
key. The other party adds a fresh mask to every plaintext (`draw_masks`, `blind_records`), blinds the ciphertext anew with
bases of its own, so that the owner cannot tell which of its records came back, and returns it in an order of its own. The
digits of what the owner decrypts are its share (`open_records`); minus the digits of the masks are the other's
(`kept_shares`). They are integers that add up to the values, but for a chance below 2^-39 for each (see `slots`). What the
owner decrypts is uniform below n, whatever it encrypted.

Values are fixed-point numbers of unit 2^-20, below 2^4 in magnitude.
"""
import secrets
from itertools import chain, islice
from typing import Callable, List, Sequence, Union

import numpy as np

from .blinding import DrawnBlinding
from .ciphertext import Ciphertext, blinded_for_owner, column_from_bytes, column_to_bytes
from .owner_decryption import OwnerDecryption
from .owner_encryption import OwnerEncryption
from .paillier import PrivateKey, PublicKey
from .slots import STATISTICAL_BITS, SlotLayout, draw_mask

FRACTION_BITS = 20
MAGNITUDE_BITS = 4
VALUE_BITS = FRACTION_BITS + MAGNITUDE_BITS
"""Every value is below 2^24 units in magnitude."""
SHARE_BITS = VALUE_BITS + 1 + STATISTICAL_BITS
"""Every share is below 2^65 in magnitude."""


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


def draw_masks(
    records: int, columns: int, public_key: PublicKey, random_bits: Callable[[int], int] = secrets.randbits
) -> List[List[int]]:
    """Masks for `blind_records`: for each record one below n for every ciphertext.

    Args:
        public_key: the owner's.
        random_bits: where masks come from, see `slots.draw_mask`.
    """
    plaintexts = record_layout(public_key).plaintexts(columns)
    return [[draw_mask(public_key.n, random_bits) for _ in range(plaintexts)] for _ in range(records)]


def kept_shares(masks: Sequence[Sequence[int]], columns: int, public_key: PublicKey) -> np.ndarray:
    """The share of the party that drew the masks: object array (records, columns)."""
    return -_digits(masks, columns, record_layout(public_key))


def blind_records(records: Sequence[bytes], masks: Sequence[Sequence[int]], blinding: DrawnBlinding) -> List[bytes]:
    """Another party's encrypted records with masks added, blinded anew.

    Args:
        masks: from `draw_masks`, for each record; never used twice.
        blinding: from `drawn_blinding` of the owner's key.

    Raises:
        ValueError: a record of another length, or one that holds no ciphertexts under the owner's key.
    """
    key, counts = blinding.public_key, [len(row) for row in masks]
    ciphertexts = _ciphertexts(records, counts, key)
    sums = [ciphertext.plus(mask) for ciphertext, mask in zip(ciphertexts, chain.from_iterable(masks))]
    blinded = iter(blinded_for_owner(sums, blinding))
    return [column_to_bytes(list(islice(blinded, len(row)))) for row in masks]


def open_records(records: Sequence[bytes], columns: int, private_key: Union[PrivateKey, OwnerDecryption]) -> np.ndarray:
    """The owner's shares, object array (n, columns), from what `blind_records` made of its own records.

    Raises:
        ValueError: as `blind_records`.
    """
    key = private_key.public_key
    layout = record_layout(key)
    of_each = layout.plaintexts(columns)
    opened = map(private_key.decrypt, _ciphertexts(records, [of_each] * len(records), key))
    return _digits([list(islice(opened, of_each)) for _ in records], columns, layout)


def _ciphertexts(records: Sequence[bytes], counts: Sequence[int], public_key: PublicKey) -> List[Ciphertext]:
    """Those of all records, one after the other: checked together, which is quicker."""
    for record, count in zip(records, counts, strict=True):
        if len(record) != count * public_key.ciphertext_bytes:
            raise InvalidRecords(
                f"An encrypted record has {len(record)} bytes; with its columns under this key it must have "
                f"{count * public_key.ciphertext_bytes}."
            )
    return column_from_bytes(b"".join(records), public_key)


def _digits(numbers: Sequence[Sequence[int]], columns: int, layout: SlotLayout) -> np.ndarray:
    """The slots of each record's plaintexts or masks, in the order of its columns."""
    matrix = np.empty((len(numbers), columns), dtype=object)
    for at, of_record in enumerate(numbers):
        counts = [min(layout.slots, columns - first) for first in range(0, columns, layout.slots)]
        matrix[at] = [digit for number, count in zip(of_record, counts) for digit in layout.digits(number, count)]
    return matrix
