"""Several signed integers side by side in one Paillier plaintext, and their shares under one mask for all of it.

A value ``v`` with |v| < 2^value_bits has a slot of ``value_bits + 41`` bits. Whoever hides values from the owner of the
key adds **one** mask r, uniform in [0, n), to the whole plaintext V: the owner decrypts ``V + r mod n``, which is uniform
whatever V is, also one that the owner wrote beyond its slots. The owner's shares are the digits of what it decrypts, in
base 2^slot_bits; the other's are minus the digits of r (`SlotLayout.digits`). They add up to the values, unless a digit
of r is so near to an end of its range that adding v, or what lies below, leaves it: a chance below 2^-39 for each value,
the wrap modulo n included. Then a sum of shares is off by a multiple of 2^slot_bits or by one; nothing leaks.
"""
import secrets
from dataclasses import dataclass
from typing import Callable, List, Sequence

STATISTICAL_BITS = 40


@dataclass(frozen=True)
class SlotLayout:
    """How values share a plaintext.

    Attributes:
        value_bits: every value v that is to be masked satisfies |v| < 2^value_bits.
        key_length: bits of the key's n.
    """

    value_bits: int
    key_length: int

    def __post_init__(self):
        if self.value_bits < 1:
            raise ValueError(f"value_bits is {self.value_bits!r}; a slot needs values of at least 1 bit.")
        if self.slots < 1:
            room = self.key_length - 1 - (self.slot_bits - self.value_bits)
            raise ValueError(
                f"value_bits is {self.value_bits}; beside its spare bits a value of at most {room} bits fits into a "
                f"plaintext of a key with {self.key_length} bits."
            )

    @property
    def slot_bits(self) -> int:
        """Bits of one slot, and of a share."""
        return self.value_bits + 1 + STATISTICAL_BITS

    @property
    def slots(self) -> int:
        """Values that one plaintext holds."""
        return (self.key_length - 1) // self.slot_bits

    def plaintexts(self, values: int) -> int:
        """Plaintexts that ``values`` values take up."""
        return -(-values // self.slots)

    def pack(self, values: Sequence[int]) -> int:
        """At most `slots` Python integers -> one signed plaintext, the first value in the lowest slot.

        Raises:
            ValueError: more values than slots, or a value outside [-2^(slot_bits - 1), 2^(slot_bits - 1)).
        """
        bits = self.slot_bits
        half = 1 << (bits - 1)
        if len(values) > self.slots:
            raise ValueError(f"{len(values)} values do not fit into a plaintext with {self.slots} slots.")
        if values and not (-half <= min(values) and max(values) < half):
            raise ValueError(f"A value does not fit into a slot of {bits} bits, one of them for the sign.")
        plaintext = 0
        for value in reversed(values):
            plaintext = (plaintext << bits) + value
        return plaintext

    def digits(self, number: int, count: int) -> List[int]:
        """The lowest ``count`` digits of a number in [0, n), each in [0, 2^slot_bits): the owner's shares, or a mask's."""
        bits, number = self.slot_bits, int(number)
        return [number >> (bits * slot) & ((1 << bits) - 1) for slot in range(count)]


def draw_mask(modulus: int, random_bits: Callable[[int], int] = secrets.randbits) -> int:
    """A mask for one plaintext, uniform in [0, modulus); by default from operating-system entropy.

    Args:
        random_bits: makes a uniform integer of so many bits. Where a worker may compute the same mask twice, it must
            give the same bits again, and nobody else must be able to: a keystream under a secret key.
    """
    while True:
        mask = random_bits(modulus.bit_length())
        if mask < modulus:
            return mask
