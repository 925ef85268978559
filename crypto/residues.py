"""Several integers in one, by their remainders: one sum or product of such numbers is a sum or product of all parts.

A number below ``m_1 m_2 ... m_s`` with pairwise coprime moduli is known by its remainders (Chinese remainder theorem;
Garner 1959 for arithmetic on them). Under Paillier, where only whole integers are added and multiplied, that does ``s``
products modulo ``m_1, ..., m_s`` for the price of one, and no part can run over into the next one.
"""
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import List, Sequence, Tuple


@dataclass(frozen=True)
class ResidueSystem:
    """Pairwise coprime moduli."""

    moduli: Tuple[int, ...]

    @classmethod
    def below(cls, bits: int, count: int) -> "ResidueSystem":
        """The largest ``count`` odd numbers below 2^bits that are pairwise coprime, found from the top: public, and the
        same at every party. For 64 bits and more each exceeds 2^bits (1 - 2^-32)."""
        return _below(bits, count)

    @property
    def count(self) -> int:
        return len(self.moduli)

    @cached_property
    def product(self) -> int:
        return prod(self.moduli)

    @cached_property
    def _units(self) -> Tuple[int, ...]:
        """Numbers that leave remainder 1 for one modulus and 0 for all others."""
        cofactors = (self.product // modulus for modulus in self.moduli)
        return tuple(cofactor * pow(cofactor, -1, modulus) for cofactor, modulus in zip(cofactors, self.moduli))

    def join(self, remainders: Sequence[int]) -> int:
        """The number in [0, product) with these remainders, one for each modulus."""
        if len(remainders) != self.count:
            raise ValueError(f"{len(remainders)} remainders for {self.count} moduli; their numbers must agree.")
        return sum(int(remainder) * unit for remainder, unit in zip(remainders, self._units)) % self.product

    def split(self, number: int) -> List[int]:
        """Remainders of a number of any size and sign."""
        return [int(number) % modulus for modulus in self.moduli]

    def part(self, first: int, last: int) -> "ResidueSystem":
        """The moduli ``first`` to ``last - 1``."""
        return ResidueSystem(self.moduli[first:last])


@lru_cache(maxsize=32)
def _below(bits: int, count: int) -> ResidueSystem:
    moduli: List[int] = []
    candidate = (1 << bits) - 1
    while len(moduli) < count:
        if candidate < 3:
            raise ValueError(f"There are no {count} pairwise coprime odd numbers below 2^{bits}; take fewer or wider.")
        if all(gcd(candidate, modulus) == 1 for modulus in moduli):
            moduli.append(candidate)
        candidate -= 2
    return ResidueSystem(tuple(moduli))
