"""Paillier's cryptosystem over gmpy2, with keys that are fit for short blinding exponents.

``g = n + 1``, so ``Enc(m; r) = (1 + m n) r^n mod n^2`` (Paillier 1999, with the generator of Damgard and Jurik 2001).
Keys made here also publish ``blinding_base = h^n mod n^2`` with ``h = -x^2 mod n`` for a random ``x``
(Damgard, Jurik and Nielsen 2010, section 4.2): ``blinding_base^s`` with a short random ``s`` hides a plaintext under
the decisional composite residuosity assumption **and** the assumption that short exponents are indistinguishable from
full ones. Keys made elsewhere have no such base and are blinded with a full ``r^n``.

gmpy2 is not constant time: see the README's limits.
"""
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Optional, Tuple, Union

import gmpy2
from gmpy2 import mpz

if TYPE_CHECKING:
    from .ciphertext import Encrypted
    from .owner_decryption import OwnerDecryption
    from .owner_encryption import OwnerEncryption

MINIMUM_KEY_LENGTH = 2048
_PRIME_TEST_ROUNDS = 40
_SPARE_BITS = 128
"""A plaintext is read modulo one prime only where another number would pass as one with chance 2^-128: whoever found a
larger number that passes would know a multiple of the prime, nearly, and so the key."""


@dataclass(frozen=True)
class PublicKey:
    """Public half of a Paillier key pair.

    Attributes:
        n: modulus, product of two primes.
        blinding_base: ``h^n mod n^2`` for short blinding exponents, or None for a key made elsewhere.
    """

    n: int
    blinding_base: Optional[int] = None

    @cached_property
    def modulus(self) -> mpz:
        return mpz(self.n)

    @cached_property
    def modulus_squared(self) -> mpz:
        return self.modulus**2

    @property
    def key_length(self) -> int:
        """Bits of ``n``."""
        return self.n.bit_length()

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of one ciphertext on the wire."""
        return (2 * self.key_length + 7) // 8

    def raw_encrypt(self, plaintext: int, r: int) -> mpz:
        """``Enc(plaintext; r)`` for a given ``r``: for test vectors and for callers that draw ``r`` themselves."""
        if not 0 <= plaintext < self.n:
            raise ValueError(f"plaintext has {int(plaintext).bit_length()} bits or is negative; it must lie in [0, n).")
        return self.embed(plaintext) * gmpy2.powmod(r, self.modulus, self.modulus_squared) % self.modulus_squared

    def embed(self, plaintext: int) -> mpz:
        """``1 + plaintext n mod n^2``: a plaintext *without* blinding, only ever multiplied onto a blinded value."""
        return (1 + plaintext * self.modulus) % self.modulus_squared

    def to_wire(self) -> dict:
        """Builtins only, as FATE's message filter asks."""
        return {"n": self.n, "blinding_base": self.blinding_base}

    def _is_sound_base(self, base: int) -> bool:
        # Powers of 1 and -1 hide nothing; that another base has many powers cannot be seen from here.
        return 0 < base < self.n**2 and gmpy2.gcd(base, self.n) == 1 and base % self.n not in (1, self.n - 1)

    @classmethod
    def from_wire(cls, message: dict) -> "PublicKey":
        """The key of another party; refuses what no honest one sends.

        That the owner of the key made its base well cannot be checked from outside: parties are semi-honest.
        """
        key = cls(int(message["n"]), message["blinding_base"])
        check_key_length(key.key_length)
        if key.n % 2 == 0 or gmpy2.is_prime(key.n):
            raise ValueError("The public key's n is even or prime; it must be a product of two odd primes.")
        base = key.blinding_base
        if base is not None and not key._is_sound_base(base):
            raise ValueError("The public key's blinding_base must be invertible below n^2 and not 1 or -1 modulo n.")
        return key


class PrivateKey:
    """Secret half of a Paillier key pair; decrypts by the Chinese remainder theorem."""

    def __init__(self, public_key: PublicKey, p: int, q: int):
        if p * q != public_key.n or p == q:
            raise ValueError("p and q do not belong to this public key; their product must be n.")
        self.public_key = public_key
        self._p, self._q = mpz(p), mpz(q)
        self._p_squared, self._q_squared = self._p**2, self._q**2
        self._h_p = self._decryption_factor(self._p, self._p_squared)
        self._h_q = self._decryption_factor(self._q, self._q_squared)
        self._p_inverse = gmpy2.invert(self._p, self._q)

    def _decryption_factor(self, prime: mpz, prime_squared: mpz) -> mpz:
        generator = (1 + self.public_key.modulus) % prime_squared
        return gmpy2.invert((gmpy2.powmod(generator, prime - 1, prime_squared) - 1) // prime, prime)

    def decrypt(self, ciphertext: Union[int, "Encrypted"]) -> mpz:
        """Plaintext in [0, n) of a `Ciphertext`, an `EncryptedSum` or the bare number.

        Raises:
            ValueError: a number that no key of this modulus can have produced, or a ciphertext under another key. Any
                other number is an encryption of something, so a changed one cannot be told here; where the plaintext
                has a known bound, `decrypt_signed` tells nearly all of them.
        """
        value = self._checked(ciphertext)
        at_p = (gmpy2.powmod(value, self._p - 1, self._p_squared) - 1) // self._p * self._h_p % self._p
        at_q = (gmpy2.powmod(value, self._q - 1, self._q_squared) - 1) // self._q * self._h_q % self._q
        return at_p + self._p * ((at_q - at_p) * self._p_inverse % self._q)

    def decrypt_signed(self, ciphertext: Union[int, "Encrypted"], bits: Optional[int] = None) -> int:
        """Plaintext in (-n/2, n/2), where a bound is known one with ``|m| < 2^bits``.

        A bound far enough below the prime p lets the plaintext be read modulo p alone, in half the time.

        Raises:
            ValueError: as `decrypt`, or the plaintext is not within its bound. What was changed or made under another
                key decrypts to a number as good as uniform, below n or below p, and passes with a chance of about
                2^(bits + 1) / n, or of at most 2^-128.
        """
        if bits is not None and bits + 1 + _SPARE_BITS < self._p.bit_length():
            value = self._checked(ciphertext)
            plaintext = (gmpy2.powmod(value, self._p - 1, self._p_squared) - 1) // self._p * self._h_p % self._p
            signed = int(plaintext - self._p if 2 * plaintext > self._p else plaintext)
        else:
            plaintext = self.decrypt(ciphertext)
            signed = int(plaintext - self.public_key.n if 2 * plaintext > self.public_key.n else plaintext)
        if bits is not None and abs(signed) >= 1 << bits:
            raise ValueError(f"A plaintext is not below 2^{bits}; it was changed or made under another key.")
        return signed

    def _checked(self, ciphertext: Union[int, "Encrypted"]) -> mpz:
        value = getattr(ciphertext, "value", ciphertext)
        if getattr(ciphertext, "public_key", self.public_key).n != self.public_key.n:
            raise ValueError("The ciphertext was made under another public key; only its own private key decrypts it.")
        if not 0 < value < self.public_key.modulus_squared or gmpy2.gcd(value, self.public_key.n) != 1:
            raise ValueError("The ciphertext was not made under this key; it must be invertible modulo n^2.")
        return value

    def encryption(self) -> "OwnerEncryption":
        """Encryption with the help of the primes, for this party's own workers."""
        # Imported late: ciphertexts are built on public keys.
        from .owner_encryption import OwnerEncryption

        return OwnerEncryption(self.public_key, int(self._p), int(self._q))

    def decryption(self) -> "OwnerDecryption":
        """Decryption for this party's own workers."""
        from .owner_decryption import OwnerDecryption

        return OwnerDecryption(self.public_key, int(self._p), int(self._q))

    def __repr__(self) -> str:
        return f"PrivateKey({self.public_key.key_length} bits)"

    def __reduce__(self):
        raise TypeError("A Paillier private key is never pickled: it stays in the process that made it.")


def check_key_length(key_length: int) -> None:
    """Refuse a modulus that is too short (one sentence, ValueError)."""
    if isinstance(key_length, bool) or not isinstance(key_length, int) or key_length < MINIMUM_KEY_LENGTH:
        raise ValueError(
            f"he_param.key_length is {key_length!r}; Paillier needs a whole number of at least {MINIMUM_KEY_LENGTH} bits."
        )


def generate_keypair(key_length: int = MINIMUM_KEY_LENGTH) -> Tuple[PublicKey, PrivateKey]:
    """A key pair whose primes are 3 modulo 4 with ``gcd(p - 1, q - 1) = 2``, as short blinding needs.

    Args:
        key_length: bits of ``n``, an even number of at least `MINIMUM_KEY_LENGTH`.
    """
    check_key_length(key_length)
    return keypair_of_any_length(key_length)


def keypair_of_any_length(key_length: int) -> Tuple[PublicKey, PrivateKey]:
    """As `generate_keypair` without the lower limit: small keys are for tests only."""
    p = _prime_3_mod_4(key_length // 2)
    while True:
        q = _prime_3_mod_4(key_length - key_length // 2)
        n = p * q
        if p != q and n.bit_length() == key_length and gmpy2.gcd(p - 1, q - 1) == 2:
            break
    x = 1 + secrets.randbelow(int(n) - 1)
    blinding_base = gmpy2.powmod(-(mpz(x) ** 2) % n, n, n**2)
    public_key = PublicKey(int(n), int(blinding_base))
    return public_key, PrivateKey(public_key, int(p), int(q))


def _prime_3_mod_4(bits: int) -> mpz:
    # The two top bits are set so that the product of two such primes has the full length.
    while True:
        candidate = mpz(secrets.randbits(bits)) | (mpz(3) << (bits - 2)) | 3
        if gmpy2.is_prime(candidate, _PRIME_TEST_ROUNDS):
            return candidate
