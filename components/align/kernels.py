"""What a party does to records, some at a time: tag and encrypt, tag again, blind, open. No FATE in here.

A kernel gets the secrets that it needs in forms that may travel to the party's own workers. The order in which results
leave the party is the caller's concern.
"""
from typing import Callable, List, NamedTuple, Sequence, Tuple

import numpy as np

from fate_dp.crypto.blinding import drawn_blinding
from fate_dp.crypto.id_tags import POINT_BYTES, InvalidTag, TagCipher
from fate_dp.crypto.joined_records import (
    blind_records, draw_masks, encrypt_records, kept_shares, open_records, record_bytes,
)  # fmt: skip
from fate_dp.crypto.owner_decryption import OwnerDecryption
from fate_dp.crypto.owner_encryption import OwnerEncryption
from fate_dp.crypto.paillier import PublicKey
from fate_dp.privacy.noise.stream import KeyedStream

from .halves import split_shares

Tagged = Tuple[bytes, bytes]
"""(tag, encrypted record)."""


class Blinding(NamedTuple):
    """How this party blinds the other's records.

    Attributes:
        columns: of the other party's records.
        public_key: the other party's.
        mask_key: 32 secret bytes of this job, from which all masks follow: a worker may do its work twice.
        expected: records to be blinded in all; only the speed depends on it.
    """

    columns: int
    public_key: PublicKey
    mask_key: bytes
    expected: int


def encrypted_records(
    names: Sequence[str], matrix: np.ndarray, cipher: TagCipher, encryption: OwnerEncryption, expected: int
) -> List[Tagged]:
    """This party's records, int64 (n, c) in units of 2^-20, under its own two keys.

    Args:
        names: what is hashed, one for each record; see `records.record_name`.
        expected: records that will be encrypted in all; only the speed depends on it.
    """
    return list(zip(cipher.tags(names), encrypt_records(matrix, encryption, expected)))


def tagged_again(received: Sequence[Tagged], cipher: TagCipher) -> List[Tagged]:
    """The other party's records under their double tags.

    Raises:
        InvalidTag: something there is no tag.
    """
    tags = [tag for tag, _ in received]
    if not all(isinstance(tag, bytes) and len(tag) == POINT_BYTES for tag in tags):
        raise InvalidTag(f"The other party sent something that is no tag of {POINT_BYTES} bytes.")
    return list(zip(cipher.again(b"".join(tags)), (record for _, record in received)))


def blinded_records(matched: Sequence[Tagged], blinding: Blinding) -> List[Tuple[bytes, Tuple[bytes, bytes]]]:
    """[(double tag, (what the owner may decrypt, this party's shares))] of the other party's records.

    Raises:
        ValueError: a record that holds no ciphertexts of the other party's key.
    """
    if not matched:
        return []
    key, columns = blinding.public_key, blinding.columns
    masks = [mask for tag, _ in matched for mask in draw_masks(1, columns, key, _bits_of(tag, blinding))]
    factors = drawn_blinding(key, blinding.expected * ciphertexts_of(columns, key))
    blinded = blind_records([record for _, record in matched], masks, factors)
    kept = split_shares(kept_shares(masks, columns, key))
    return [(tag, (record, row.tobytes())) for (tag, _), record, row in zip(matched, blinded, kept)]


def opened_records(joined: Sequence[Tuple[bytes, Tuple[bytes, bytes]]], columns: int, decryption: OwnerDecryption):
    """[(double tag, (this party's shares of its own record, of the other's))], each as bytes of int64.

    Args:
        joined: [(double tag, (own record, blinded; shares of the other's record))].

    Raises:
        ValueError: a record that was not made from one of this party's own.
    """
    if not joined:
        return []
    own = split_shares(open_records([blinded for _, (blinded, _) in joined], columns, decryption))
    return [(tag, (row.tobytes(), kept)) for (tag, (_, kept)), row in zip(joined, own)]


def share_rows(opened: Sequence[Tuple[bytes, bytes]]) -> Tuple[np.ndarray, np.ndarray]:
    """int64 (rows, 2 c) of own records and of the other's, from pairs that `opened_records` made."""
    own, others = ([np.frombuffer(pair[side], dtype=np.int64) for pair in opened] for side in (0, 1))
    return np.stack(own), np.stack(others)


def ciphertexts_of(columns: int, public_key: PublicKey) -> int:
    """Ciphertexts of one record."""
    return record_bytes(columns, public_key) // public_key.ciphertext_bytes


def _bits_of(tag: bytes, blinding: Blinding) -> Callable[[int], int]:
    """Random bits that the same key and double tag give again."""
    return KeyedStream(blinding.mask_key, f"align masks of {tag.hex()}").integer
