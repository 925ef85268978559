"""Ciphertexts that may leave the party, and sums that may not: two types, so that nothing leaves unblinded by mistake.

A `Ciphertext` comes into being in two ways only: with a `BlindingFactor`, which it spends, or from the bytes that
another party sent. It alone has a byte form. Arithmetic on ciphertexts gives an `EncryptedSum`, whose randomness is a
known combination of that of its terms: it has no byte form, cannot be pickled, and leaves only as the `Ciphertext` that
`EncryptedSum.fully_blinded` or `blinded_for_owner` makes of it.
"""
from typing import Iterable, List, Sequence

import gmpy2
from gmpy2 import mpz

from .blinding import BlindingFactor, DrawnBlinding, full_blinding
from .paillier import PublicKey


class Encrypted:
    """A value modulo n^2 under a key, and what Paillier lets anybody do with it."""

    __slots__ = ("_value", "_public_key")

    @property
    def value(self) -> mpz:
        """The number modulo n^2, for kernels; it is no plaintext, but see the class for where it may go."""
        return self._value

    @property
    def public_key(self) -> PublicKey:
        return self._public_key

    def __add__(self, other: "Encrypted") -> "EncryptedSum":
        if not isinstance(other, Encrypted):
            return NotImplemented
        if other.public_key.n != self.public_key.n:
            raise ValueError("Ciphertexts under different keys cannot be added; both must be under one public key.")
        return EncryptedSum(self.value * other.value % self.public_key.modulus_squared, self.public_key)

    def plus(self, plaintext: int) -> "EncryptedSum":
        """The sum with a plaintext that need not be encrypted."""
        product = self.value * self.public_key.embed(plaintext) % self.public_key.modulus_squared
        return EncryptedSum(product, self.public_key)

    def times(self, factor: int) -> "EncryptedSum":
        """The product with a signed plaintext."""
        power = gmpy2.powmod(self.value, factor, self.public_key.modulus_squared)
        return EncryptedSum(power, self.public_key)

    def __eq__(self, other) -> bool:
        return type(other) is type(self) and (other.value, other.public_key.n) == (self.value, self.public_key.n)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public_key.key_length} bits)"


class EncryptedSum(Encrypted):
    """A value under encryption that is *not* fit to leave the party: its blinding is missing, or known to others."""

    __slots__ = ()

    def __init__(self, value: mpz, public_key: PublicKey):
        self._value, self._public_key = mpz(value), public_key

    def fully_blinded(self) -> "Ciphertext":
        """Blinded with ``r^n`` for a uniform r: for whatever goes back to the owner of the key."""
        return Ciphertext(self, full_blinding(self.public_key))

    def __reduce__(self):
        raise TypeError("An encrypted sum is never pickled: it leaves as a Ciphertext, blinded.")


class Ciphertext(Encrypted):
    """A blinded ciphertext: fit to leave the party.

    Args:
        content: what is encrypted.
        factor: the blinding, spent here.
    """

    __slots__ = ()

    def __init__(self, content: EncryptedSum, factor: BlindingFactor):
        if factor.public_key.n != content.public_key.n:
            raise ValueError("The blinding factor belongs to another public key; it must be made for the sum's own.")
        self._public_key = content.public_key
        self._value = content.value * factor.spend() % content.public_key.modulus_squared

    def to_bytes(self) -> bytes:
        """`PublicKey.ciphertext_bytes` bytes, big endian: one width whatever the plaintext."""
        return int(self._value).to_bytes(self.public_key.ciphertext_bytes, "big")

    @classmethod
    def from_bytes(cls, data: bytes, public_key: PublicKey) -> "Ciphertext":
        """What another party sent; see `column_from_bytes` for what is refused."""
        if len(data) != public_key.ciphertext_bytes:
            raise ValueError(
                f"A ciphertext has {len(data)} bytes; under this key it must have {public_key.ciphertext_bytes}."
            )
        return column_from_bytes(data, public_key)[0]


def blinded_for_owner(sums: Sequence[EncryptedSum], blinding: DrawnBlinding) -> List[Ciphertext]:
    """Sums under one key, fit to go back to its owner; many at once are quicker than `EncryptedSum.fully_blinded`."""
    return [Ciphertext(each, factor) for each, factor in zip(sums, blinding.factors(len(sums)))]


def encrypt_with(
    factors: Iterable[BlindingFactor], plaintexts: Iterable[int], public_key: PublicKey
) -> List[Ciphertext]:
    """Each plaintext encrypted with the next factor."""
    return [
        Ciphertext(EncryptedSum(public_key.embed(plaintext), public_key), factor)
        for plaintext, factor in zip(plaintexts, factors)
    ]


def column_to_bytes(ciphertexts: Sequence[Ciphertext]) -> bytes:
    """Ciphertexts under one key, each of `PublicKey.ciphertext_bytes`, one after the other."""
    if not all(isinstance(ciphertext, Ciphertext) for ciphertext in ciphertexts):
        raise TypeError("Only blinded ciphertexts may leave the party; call fully_blinded() or blinded_for_owner() first.")
    return b"".join(ciphertext.to_bytes() for ciphertext in ciphertexts)


def column_from_bytes(data: bytes, public_key: PublicKey) -> List[Ciphertext]:
    """Ciphertexts that another party sent.

    Raises:
        ValueError: the length is no multiple of a ciphertext's, or a value is one that no honest encryption under a key
            of this modulus gives: outside (0, n^2), not invertible, or without blinding. Nothing else can be told: any
            other number is an encryption of something under this key.
    """
    width = public_key.ciphertext_bytes
    if len(data) % width:
        raise ValueError(f"An encrypted column has {len(data)} bytes; it must be a multiple of {width}.")
    values = [mpz(int.from_bytes(data[at : at + width], "big")) for at in range(0, len(data), width)]
    _check_values(values, public_key)
    return [_received(value, public_key) for value in values]


def _check_values(values: Sequence[mpz], public_key: PublicKey) -> None:
    product, n = mpz(1), public_key.modulus
    for value in values:
        if not 0 < value < public_key.modulus_squared:
            raise ValueError("An encrypted column holds a value outside (0, n^2); it was not made under this key.")
        residue = value % n
        if residue == 1:
            raise ValueError("An encrypted column holds a value without blinding; its sender shows its plaintexts.")
        product = product * residue % n
    if gmpy2.gcd(product, n) != 1:
        raise ValueError("An encrypted column holds a value that is not invertible; it was not made under this key.")


def _received(value: mpz, public_key: PublicKey) -> Ciphertext:
    ciphertext = Ciphertext.__new__(Ciphertext)
    ciphertext._value, ciphertext._public_key = value, public_key
    return ciphertext
