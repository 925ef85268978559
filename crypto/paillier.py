"""Paillier's cryptosystem over gmpy2, with keys that are fit for short blinding exponents.

``g = n + 1``, so ``Enc(m; r) = (1 + m n) r^n mod n^2`` (Paillier 1999, with the generator of Damgard and Jurik 2001).
Keys made here also publish ``blinding_base = h^n mod n^2`` with ``h = -x^2 mod n`` for a random ``x``, or ``h = x^2`` where
n has three primes (Damgard, Jurik and Nielsen 2010, section 4.2): ``blinding_base^s`` with a short random ``s`` hides a
plaintext under the decisional composite residuosity assumption **and** the assumption that short exponents are
indistinguishable from full ones. Keys made elsewhere have no such base and are blinded with a full ``r^n``.

gmpy2 is not constant time: see the README's limits.
"""
import secrets
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Optional, Sequence, Tuple, Union

import gmpy2
from gmpy2 import mpz

from .modulus_proof import check_modulus, prove

if TYPE_CHECKING:
    from .ciphertext import Encrypted
    from .owner_decryption import OwnerDecryption
    from .owner_encryption import OwnerEncryption

MINIMUM_KEY_LENGTH = 2048
MAXIMUM_KEY_LENGTH = 8192
"""Of another party's key: what a longer one costs, only its owner would decide."""
_PRIME_TEST_ROUNDS = 40
_HALF_WORD = 32
_SPARE_BITS = 128
"""A plaintext is read modulo one prime only where another number would pass as one with chance 2^-128: whoever found a
larger number that passes would know a multiple of the prime, nearly, and so the key."""


@dataclass(frozen=True)
class PublicKey:
    """Public half of a Paillier key pair.

    Attributes:
        n: modulus, product of different primes: two or three, see `generate_keypair`.
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

    @classmethod
    def from_wire(cls, message: dict) -> "PublicKey":
        """The key of another party, as `PrivateKey.to_wire` made it.

        Raises:
            ValueError: what no honest party sends: an n that is too short, too long or unsound (see `modulus_proof`), or
                a base that cannot blind. That the owner made its base well cannot be seen: so what returns to the owner
                never rests on it.
        """
        message = message if isinstance(message, dict) else {}
        n, base = message.get("n"), message.get("blinding_base")
        if not _is_integer(n) or not (base is None or _is_integer(base)):
            raise ValueError("The public key's n and blinding_base must be whole numbers.")
        key = cls(n, base)
        check_key_length(key.key_length)
        if key.key_length > MAXIMUM_KEY_LENGTH:
            raise ValueError(
                f"The public key's n has {key.key_length} bits; allowed are {MINIMUM_KEY_LENGTH} to {MAXIMUM_KEY_LENGTH}."
            )
        check_modulus(n, message.get("proof"))
        if base is not None and not key._is_sound_base(base):
            raise ValueError("The public key's blinding_base must be invertible below n^2 and not 1 or -1 modulo n.")
        return key

    def _is_sound_base(self, base: int) -> bool:
        # Powers of 1 and -1 hide nothing; that another base has many powers cannot be seen from here.
        return 0 < base < self.n**2 and gmpy2.gcd(base, self.n) == 1 and base % self.n not in (1, self.n - 1)


class PrivateKey:
    """Secret half of a Paillier key pair; decrypts by the Chinese remainder theorem."""

    def __init__(self, public_key: PublicKey, *primes: int):
        check_primes(public_key, primes)
        self.public_key = public_key
        self._primes = tuple(sorted(map(mpz, primes)))
        self._factors = [self._decryption_factor(prime) for prime in self._primes]
        self._units = [self._unit(prime) for prime in self._primes]

    def _decryption_factor(self, prime: mpz) -> mpz:
        generator = (1 + self.public_key.modulus) % prime**2
        return gmpy2.invert((gmpy2.powmod(generator, prime - 1, prime**2) - 1) // prime, prime)

    def _unit(self, prime: mpz) -> mpz:
        cofactor = self.public_key.modulus // prime
        return cofactor * gmpy2.invert(cofactor, prime)

    def _modulo(self, value: mpz, at: int) -> mpz:
        """The plaintext modulo one of the primes."""
        prime = self._primes[at]
        return (gmpy2.powmod(value, prime - 1, prime**2) - 1) // prime * self._factors[at] % prime

    @cached_property
    def _proof(self) -> bytes:
        return self.prove_modulus()

    def prove_modulus(self) -> bytes:
        """The proof that `to_wire` sends, which makes it once: see `modulus_proof`."""
        return prove(self.public_key.n, self._primes)

    def to_wire(self) -> dict:
        """The public half for another party, with the proof that `PublicKey.from_wire` checks; builtins only."""
        return {"n": self.public_key.n, "blinding_base": self.public_key.blinding_base, "proof": self._proof}

    def decrypt(self, ciphertext: Union[int, "Encrypted"]) -> mpz:
        """Plaintext in [0, n) of a `Ciphertext`, an `EncryptedSum` or the bare number.

        Raises:
            ValueError: a number that no key of this modulus can have produced, or a ciphertext under another key. Any
                other number is an encryption of something, so a changed one cannot be told here; where the plaintext
                has a known bound, `decrypt_signed` tells nearly all of them.
        """
        value = self._checked(ciphertext)
        return sum(self._modulo(value, at) * unit for at, unit in enumerate(self._units)) % self.public_key.modulus

    def decrypt_signed(self, ciphertext: Union[int, "Encrypted"], bits: Optional[int] = None) -> int:
        """Plaintext in (-n/2, n/2), where a bound is known one with ``|m| < 2^bits``.

        A bound far enough below the least prime p lets the plaintext be read modulo p alone, in less time.

        Raises:
            ValueError: as `decrypt`, or the plaintext is not within its bound. What was changed or made under another
                key decrypts to a number as good as uniform, below n or below p, and passes with a chance of about
                2^(bits + 1) / n, or of at most 2^-128.
        """
        if bits is not None and bits + 1 + _SPARE_BITS < self._primes[0].bit_length():
            plaintext, modulus = self._modulo(self._checked(ciphertext), 0), self._primes[0]
        else:
            plaintext, modulus = self.decrypt(ciphertext), self.public_key.n
        signed = int(plaintext - modulus if 2 * plaintext > modulus else plaintext)
        if bits is not None and abs(signed) >= 1 << bits:
            raise ValueError(f"A plaintext is not below 2^{bits}; it was changed or made under another key.")
        return signed

    def _checked(self, ciphertext: Union[int, "Encrypted"]) -> mpz:
        value = getattr(ciphertext, "value", ciphertext)
        if getattr(ciphertext, "public_key", self.public_key).n != self.public_key.n:
            raise ValueError("The ciphertext was made under another public key; only its own private key decrypts it.")
        if not 0 < value < self.public_key.modulus_squared or not all(value % prime for prime in self._primes):
            raise ValueError("The ciphertext was not made under this key; it must be invertible modulo n^2.")
        return value

    def encryption(self) -> "OwnerEncryption":
        """Encryption with the help of the primes, for this party's own workers."""
        # Imported late: ciphertexts are built on public keys.
        from .owner_encryption import OwnerEncryption

        return OwnerEncryption(self.public_key, *map(int, self._primes))

    def decryption(self) -> "OwnerDecryption":
        """Decryption for this party's own workers."""
        from .owner_decryption import OwnerDecryption

        return OwnerDecryption(self.public_key, *map(int, self._primes))

    def __repr__(self) -> str:
        return f"PrivateKey({self.public_key.key_length} bits)"

    def __reduce__(self):
        raise TypeError("A Paillier private key is never pickled: it stays in the process that made it.")


def check_primes(public_key: PublicKey, primes: Sequence[int]) -> None:
    """Refuse primes that are not those of the key: at least two different ones whose product is n."""
    if len(set(primes)) < 2 or len(set(primes)) != len(primes) or prod(map(int, primes)) != public_key.n:
        raise ValueError("The primes do not belong to this public key; they must differ and their product must be n.")


def _is_integer(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def check_key_length(key_length: int) -> None:
    """Refuse a modulus that is too short (one sentence, ValueError)."""
    if isinstance(key_length, bool) or not isinstance(key_length, int) or key_length < MINIMUM_KEY_LENGTH:
        raise ValueError(
            f"he_param.key_length is {key_length!r}; Paillier needs a whole number of at least {MINIMUM_KEY_LENGTH} bits."
        )


def generate_keypair(key_length: int = MINIMUM_KEY_LENGTH, primes: int = 2) -> Tuple[PublicKey, PrivateKey]:
    """A key pair whose primes are 3 modulo 4 and have 2 as greatest common divisor less 1, as short blinding needs.

    Args:
        key_length: bits of ``n``, at least `MINIMUM_KEY_LENGTH`.
        primes: factors of ``n``: 2, or 3 where decryption of numbers up to n is most of the work, which takes half as
            long with them. Prime factors of 672 bits are no easier to find than those of 1024 (RFC 8017 admits them).
    """
    check_key_length(key_length)
    return keypair_of_any_length(key_length, primes)


def keypair_of_any_length(key_length: int, primes: int = 2) -> Tuple[PublicKey, PrivateKey]:
    """As `generate_keypair` without the lower limit: small keys are for tests only."""
    # A square that fills its words is cheaper to compute with than one that has a word for a few bits.
    unit = _HALF_WORD if key_length >= MINIMUM_KEY_LENGTH and key_length % _HALF_WORD == 0 else 1
    lengths = [unit * ((key_length // unit + at) // primes) for at in range(primes)]
    while True:
        found = [_prime_3_mod_4(length) for length in lengths]
        n = prod(found)
        pairs = combinations(found, 2)
        if n.bit_length() == key_length and all(p != q and gmpy2.gcd(p - 1, q - 1) == 2 for p, q in pairs):
            break
    x = 1 + secrets.randbelow(int(n) - 1)
    # Minus a square has the Jacobi symbol 1, as it should, for an even number of such primes only.
    h = (-1 if primes % 2 == 0 else 1) * mpz(x) ** 2 % n
    public_key = PublicKey(int(n), int(gmpy2.powmod(h, n, n**2)))
    return public_key, PrivateKey(public_key, *found)


def _prime_3_mod_4(bits: int) -> mpz:
    # The two top bits are set so that the product of two such primes has the full length.
    while True:
        candidate = mpz(secrets.randbits(bits)) | (mpz(3) << (bits - 2)) | 3
        if gmpy2.is_prime(candidate, _PRIME_TEST_ROUNDS):
            return candidate
