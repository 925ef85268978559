"""Several signed integers side by side in one Paillier plaintext, each in a slot with room for its mask.

A value ``v`` with |v| < 2^value_bits is hidden by a mask ``r`` uniform below 2^(value_bits + 41): the distribution of
``v + r`` is within 2^-40 (statistical distance, per slot) of one that does not depend on ``v``. A slot is a digit in
[-2^(slot_bits - 1), 2^(slot_bits - 1)) of the plaintext written in base 2^slot_bits, and ``slot_bits`` is two bits more
than the mask: one for the sum of value and mask, one for the sign. So a slot holds more than any masked value can
reach, and a plaintext full of the most extreme digits stays below n/2 of every key with ``key_length`` bits.
"""
import secrets
from dataclasses import dataclass
from typing import List, Sequence

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
            room = self.key_length - 2 - (self.slot_bits - self.value_bits)
            raise ValueError(
                f"value_bits is {self.value_bits}; under its mask a value of at most {room} bits fits into a plaintext "
                f"of a key with {self.key_length} bits."
            )

    @property
    def mask_bits(self) -> int:
        """Masks are uniform in [0, 2^mask_bits)."""
        return self.value_bits + 1 + STATISTICAL_BITS

    @property
    def slot_bits(self) -> int:
        """Bits of one slot."""
        return self.mask_bits + 2

    @property
    def slots(self) -> int:
        """Values that one plaintext holds."""
        return (self.key_length - 2) // self.slot_bits

    def plaintexts(self, values: int) -> int:
        """Plaintexts that ``values`` values take up."""
        return -(-values // self.slots)

    def draw_masks(self, count: int) -> List[int]:
        """Fresh masks from operating-system entropy."""
        return [secrets.randbits(self.mask_bits) for _ in range(count)]

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

    def unpack(self, plaintext: int) -> List[int]:
        """The signed plaintext of `pack` -> the values of all `slots`, zero where none was packed.

        Raises:
            ValueError: the plaintext is none that slots of this layout add up to.
        """
        bits = self.slot_bits
        half = 1 << (bits - 1)
        # Half a slot added to each slot makes every digit non-negative, so that no slot borrows from the next one.
        digits = int(plaintext) + half * (((1 << (bits * self.slots)) - 1) // ((1 << bits) - 1))
        if digits >> (bits * self.slots):
            raise ValueError(f"A plaintext of {int(plaintext).bit_length()} bits does not fit its {self.slots} slots.")
        return [(digits >> (bits * slot) & ((1 << bits) - 1)) - half for slot in range(self.slots)]

    def unpack_masked(self, plaintext: int, count: int) -> List[int]:
        """The first ``count`` values of a plaintext of masked values; the other slots must be empty.

        Raises:
            ValueError: a value lies outside (-2^value_bits, 2^mask_bits + 2^value_bits), so it is no masked value, or a
                slot beyond ``count`` holds something.
        """
        values, bound = self.unpack(plaintext), 1 << self.value_bits
        fitting = all(-bound < value < (1 << self.mask_bits) + bound for value in values[:count])
        if not fitting or any(values[count:]):
            raise ValueError(f"A plaintext does not hold {count} masked values; it was not made for this layout.")
        return values[:count]
