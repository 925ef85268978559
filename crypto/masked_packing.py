"""Sends encrypted sums to the owner of the key under additive masks, several to a ciphertext.

Each sum ``v`` with |v| < 2^PRODUCT_BITS becomes ``v + 2^PRODUCT_BITS + r`` with ``r`` uniform below
2^(PRODUCT_BITS + 41): the owner of the key decrypts numbers whose distribution is within 2^-40 (statistical distance,
per slot) of one that does not depend on ``v``. Slots cannot overflow into each other: a slot is one bit wider than the
largest masked value. Each ciphertext is blinded with a full ``r^n``, as the owner of the key receives it.
"""
import secrets
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from gmpy2 import mpz

from .ciphertext import Ciphertext, EncryptedSum
from .fixed_point import PRODUCT_BITS
from .paillier import PrivateKey, PublicKey

STATISTICAL_BITS = 40
MASK_BITS = PRODUCT_BITS + 1 + STATISTICAL_BITS
SLOT_BITS = MASK_BITS + 1


@dataclass(frozen=True)
class Masks:
    """What the sender keeps: one mask per sum, needed to read the answer."""

    values: Tuple[int, ...]


def slots_per_ciphertext(public_key: PublicKey) -> int:
    """Sums that fit into one plaintext below n."""
    return (public_key.key_length - 1) // SLOT_BITS


def mask_and_pack(sums: Sequence[EncryptedSum], public_key: PublicKey) -> Tuple[List[bytes], Masks]:
    """Encrypted sums -> fully blinded ciphertexts for the owner of the key, and the masks that the sender keeps."""
    masks = tuple(secrets.randbits(MASK_BITS) for _ in sums)
    per_ciphertext, packed = slots_per_ciphertext(public_key), []
    for start in range(0, len(sums), per_ciphertext):
        chunk = slice(start, start + per_ciphertext)
        packed.append(_pack(sums[chunk], masks[chunk], public_key))
    return packed, Masks(masks)


def _pack(sums: Sequence[EncryptedSum], masks: Sequence[int], public_key: PublicKey) -> bytes:
    packed, offset = EncryptedSum(mpz(1), public_key), 0
    for value, mask in zip(reversed(sums), reversed(masks)):
        packed = packed.times(1 << SLOT_BITS) + value
        offset = (offset << SLOT_BITS) + mask + (1 << PRODUCT_BITS)
    return packed.plus(offset).fully_blinded().to_bytes()


def decrypt_masked(packed: Sequence[bytes], private_key: PrivateKey) -> List[bytes]:
    """The key owner's part: decrypts, and returns plaintexts that say nothing to it."""
    width = (private_key.public_key.key_length + 7) // 8
    ciphertexts = [Ciphertext.from_bytes(item, private_key.public_key) for item in packed]
    return [int(private_key.decrypt(ciphertext)).to_bytes(width, "big") for ciphertext in ciphertexts]


def unpack_and_unmask(plaintexts: Sequence[bytes], masks: Masks, public_key: PublicKey) -> List[int]:
    """The sender's part: signed integer sums in units of 2^-64.

    Raises:
        ValueError: the answer does not fit the masks, so it was not made from what was sent.
    """
    per_ciphertext, slots = slots_per_ciphertext(public_key), []
    for plaintext in plaintexts:
        value = int.from_bytes(plaintext, "big")
        slots.extend(value >> (SLOT_BITS * at) & ((1 << SLOT_BITS) - 1) for at in range(per_ciphertext))
    sums = [slot - mask - (1 << PRODUCT_BITS) for slot, mask in zip(slots, masks.values)]
    if len(slots) < len(masks.values) or any(abs(value) >= 1 << PRODUCT_BITS for value in sums):
        raise ValueError("The arbiter's answer does not fit the masks that were sent; it must decrypt what it received.")
    return sums
