"""Fixed-point numbers of one global format: features and scores become integers with fixed exponents.

Every ciphertext on the wire has the same exponent, so the exponent says nothing about its plaintext (python-paillier
sends an exponent per number, which does). The bounds are public constants; whatever exceeds them is refused before it
is encrypted, so that sums cannot overflow: see `PRODUCT_BITS`.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .paillier import Ciphertext, EncryptedSum, PrivateKey, PublicKey
from .powers import IntArray

FloatArray = npt.NDArray[np.float64]

FEATURE_FRACTION_BITS = 24
SCORE_FRACTION_BITS = 40
MAGNITUDE_BITS = 20
"""Features and quarter-scores lie strictly inside +-2^20."""
ROW_BITS = 30
"""At most 2^30 rows enter one sum."""

PRODUCT_FRACTION_BITS = FEATURE_FRACTION_BITS + SCORE_FRACTION_BITS
MAX_HOSTS = 16
PRODUCT_BITS = PRODUCT_FRACTION_BITS + 2 * MAGNITUDE_BITS + 12 + ROW_BITS
"""Bits of the largest sum: the scores of 16 hosts add up, and the loss has 2 h + h (2 h + 2) <= 2^12 such terms."""


def _encode(values: npt.ArrayLike, fraction_bits: int, what: str) -> IntArray:
    numbers: FloatArray = np.asarray(values, dtype=np.float64)
    if not np.all(np.abs(numbers) < 2.0**MAGNITUDE_BITS):
        raise ValueError(f"{what} must be finite and below 2^{MAGNITUDE_BITS} in magnitude; standardise the features.")
    encoded: IntArray = np.rint(numbers * 2.0**fraction_bits).astype(np.int64)
    return encoded


def encode_features(values: npt.ArrayLike) -> IntArray:
    """float array -> int64 array of the same shape, unit 2^-24."""
    return _encode(values, FEATURE_FRACTION_BITS, "Feature values")


def encode_scores(values: npt.ArrayLike) -> IntArray:
    """float array -> int64 array of the same shape, unit 2^-40."""
    return _encode(values, SCORE_FRACTION_BITS, "Scores (the training diverged)")


def encode_loss(value: float) -> int:
    """Float -> integer in units of 2^-64, refused where it could not be added to encrypted sums."""
    if not abs(value) < 2.0 ** (PRODUCT_BITS - PRODUCT_FRACTION_BITS - 1):
        raise ValueError(f"The loss reached {value:g}; the training diverged, so lower the learning rate or alpha.")
    return int(round(value * 2.0**PRODUCT_FRACTION_BITS))


def decode_product(value: int) -> float:
    """Integer in units of 2^-64 (feature x score) -> float."""
    return int(value) / 2.0**PRODUCT_FRACTION_BITS


# Several signed integers side by side in one plaintext

STATISTICAL_BITS = 40


@dataclass(frozen=True)
class SlotLayout:
    """How signed integers share one plaintext, and one mask for all of it.

    A value ``v`` with |v| < 2^value_bits has a slot of ``value_bits + 41`` bits. Whoever hides values from the owner of
    the key adds **one** mask r, uniform in [0, n), to the whole plaintext V. The owner decrypts ``V + r mod n``, which is
    uniform whatever V is; its shares are the digits of that in base 2^slot_bits, the other's are minus the digits of r.
    They add up to the values but for a chance below 2^-39 for each (docs/proofs-crypto.md); nothing leaks then.
    """

    value_bits: int
    key_length: int

    def __post_init__(self) -> None:
        if self.value_bits < 1:
            raise ValueError(f"value_bits must be at least 1, got {self.value_bits!r}.")
        if self.slots < 1:
            room = self.key_length - 1 - (self.slot_bits - self.value_bits)
            raise ValueError(
                f"value_bits is {self.value_bits}; beside its spare bits a value of at most {room} bits fits into a "
                f"plaintext of a key with {self.key_length} bits."
            )

    @property
    def slot_bits(self) -> int:
        return self.value_bits + 1 + STATISTICAL_BITS

    @property
    def slots(self) -> int:
        return (self.key_length - 1) // self.slot_bits

    def plaintexts(self, values: int) -> int:
        """Plaintexts that ``values`` values take up."""
        return -(-values // self.slots)

    def slots_used(self, values: int) -> list[int]:
        """Slots in use in each of these plaintexts."""
        return [min(self.slots, values - first) for first in range(0, values, self.slots)]

    def pack(self, values: Sequence[int]) -> int:
        """At most `slots` Python integers -> one signed plaintext, the first value in the lowest slot.

        ValueError for more values than slots, or a value outside [-2^(slot_bits - 1), 2^(slot_bits - 1)).
        """
        bits = self.slot_bits
        half = 1 << (bits - 1)
        if len(values) > self.slots:
            raise ValueError(f"{len(values)} values do not fit into a plaintext with {self.slots} slots.")
        if values and not (-half <= min(values) and max(values) < half):
            raise ValueError(f"A value does not fit into a slot of {bits} bits, one of them for the sign.")
        return sum(value << bits * slot for slot, value in enumerate(values))

    def pack_rows(self, rows: Iterable[Sequence[int]]) -> list[int]:
        """The plaintexts of every row, `plaintexts` for each, one row after the other."""
        slots = self.slots
        return [self.pack(row[first : first + slots]) for row in rows for first in range(0, len(row), slots)]

    def digits(self, number: int, count: int) -> list[int]:
        """The lowest ``count`` digits of a number in [0, n), each in [0, 2^slot_bits): the owner's shares, or a mask's."""
        bits, number = self.slot_bits, int(number)
        return [number >> (bits * slot) & ((1 << bits) - 1) for slot in range(count)]


def draw_mask(modulus: int, random_bits: Callable[[int], int] = secrets.randbits) -> int:
    """A mask for one plaintext, uniform in [0, modulus), of uniform ``random_bits``, so many at a time.

    Where a worker may compute the same mask twice, these must be the same bits again, and nobody else must be able to
    make them: a keystream under a secret key.
    """
    while True:
        mask = random_bits(modulus.bit_length())
        if mask < modulus:
            return mask


# Encrypted sums to the owner of the key under additive masks, several to a ciphertext (`solver: per_epoch`)

MASK_BITS = PRODUCT_BITS + 1 + STATISTICAL_BITS
SLOT_BITS = MASK_BITS + 1


def slots_per_ciphertext(public_key: PublicKey) -> int:
    """Sums that fit into one plaintext below n."""
    return (public_key.key_length - 1) // SLOT_BITS


def mask_and_pack(sums: Sequence[EncryptedSum], public_key: PublicKey) -> tuple[list[bytes], tuple[int, ...]]:
    """Encrypted sums -> fully blinded ciphertexts for the owner of the key, and the masks that the sender keeps.

    Each sum ``v`` with |v| < 2^PRODUCT_BITS becomes ``v + 2^PRODUCT_BITS + r`` with ``r`` uniform below
    2^(PRODUCT_BITS + 41): what the owner decrypts is within 2^-40 (statistical distance, for each slot) of a number that
    does not depend on ``v``. Slots cannot overflow: one is a bit wider than the largest masked value.
    """
    masks = tuple(secrets.randbits(MASK_BITS) for _ in sums)
    per_ciphertext, packed = slots_per_ciphertext(public_key), []
    for start in range(0, len(sums), per_ciphertext):
        chunk = slice(start, start + per_ciphertext)
        offset = sum(mask + (1 << PRODUCT_BITS) << SLOT_BITS * at for at, mask in enumerate(masks[chunk]))
        packed.append(packed_sums(sums[chunk], SLOT_BITS).plus(offset).fully_blinded().to_bytes())
    return packed, masks


def packed_sums(sums: Sequence[EncryptedSum], slot_bits: int) -> EncryptedSum:
    """Encrypted sums side by side in slots of so many bits, the first in the lowest one."""
    packed, *others = reversed(sums)
    for value in others:
        packed = packed.times(1 << slot_bits) + value
    return packed


def decrypt_masked(packed: Sequence[bytes], private_key: PrivateKey) -> list[bytes]:
    """The key owner's part: decrypts, and returns plaintexts that say nothing to it."""
    width = (private_key.public_key.key_length + 7) // 8
    ciphertexts = [Ciphertext.from_bytes(item, private_key.public_key) for item in packed]
    return [int(plaintext).to_bytes(width, "big") for plaintext in private_key.decrypt_all(ciphertexts)]


def unpack_and_unmask(plaintexts: Sequence[bytes], masks: Sequence[int], public_key: PublicKey) -> list[int]:
    """The sender's part: signed integer sums in units of 2^-64; ValueError where the answer does not fit the masks."""
    per_ciphertext = slots_per_ciphertext(public_key)
    slots: list[int] = []
    for plaintext in plaintexts:
        value = int.from_bytes(plaintext, "big")
        slots.extend(value >> (SLOT_BITS * at) & ((1 << SLOT_BITS) - 1) for at in range(per_ciphertext))
    sums = [slot - mask - (1 << PRODUCT_BITS) for slot, mask in zip(slots, masks)]
    if len(slots) < len(masks) or any(abs(value) >= 1 << PRODUCT_BITS for value in sums):
        raise ValueError("The arbiter's answer does not fit the masks that were sent, so it is no decryption of them.")
    return sums
