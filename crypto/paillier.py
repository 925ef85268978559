"""Paillier's cryptosystem over gmpy2, with keys that are fit for short blinding exponents.

Keys come first, then ciphertexts, the blinding factors that they spend, and what the owner of a key does faster.

``g = n + 1``, so ``Enc(m; r) = (1 + m n) r^n mod n^2`` (Paillier 1999, with the generator of Damgard and Jurik 2001).
Keys made here also publish ``blinding_base = h^n mod n^2`` with ``h = -x^2 mod n`` for a random ``x``, or ``h = x^2`` where
n has three primes (Damgard, Jurik and Nielsen 2010, section 4.2): ``blinding_base^s`` with a short random ``s`` hides a
plaintext under the decisional composite residuosity assumption **and** the assumption that short exponents are
indistinguishable from full ones. Keys made elsewhere have no such base and are blinded with a full ``r^n``.

gmpy2 is not constant time: see docs/cryptography.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from typing import Any, NoReturn, TypeGuard

import gmpy2
from gmpy2 import mpz

from .modulus_proof import MAX_PRIMES, check_modulus, prove
from .powers import FixedBasePowers, IntArray, comb_height, same_power, units

MIN_KEY_LENGTH = 2048
MAX_KEY_LENGTH = 8192
"""Of another party's key: what a longer one costs, only its owner would decide."""
_PRIME_TEST_ROUNDS = 40
_HALF_WORD = 32
"""A plaintext is read modulo one prime only where another number would pass as one with chance 2^-128: whoever found a
larger number that passes would know a multiple of the prime, nearly, and so the key."""


@dataclass(frozen=True)
class PublicKey:
    """Public half of a key pair; ``n`` is a product of two or three different primes, see `generate_keypair`.

    ``blinding_base`` is ``h^n mod n^2`` for short blinding exponents, or None for a key made elsewhere.
    """

    n: int
    blinding_base: int | None = None

    @cached_property
    def modulus(self) -> mpz:
        return mpz(self.n)

    @cached_property
    def modulus_squared(self) -> mpz:
        return self.modulus**2

    @property
    def key_length(self) -> int:
        return self.n.bit_length()

    @property
    def ciphertext_bytes(self) -> int:
        return (2 * self.key_length + 7) // 8

    def shifted(self, value: mpz, plaintext: int) -> mpz:
        """``value (1 + plaintext n) mod n^2`` of a value in [0, n^2), by products of half the width."""
        added = value + value % self.modulus * plaintext % self.modulus * self.modulus
        return added - self.modulus_squared if added >= self.modulus_squared else added

    @classmethod
    def from_wire(cls, message: dict[str, Any]) -> PublicKey:
        """The key of another party, as `PrivateKey.to_wire` made it.

        Raises ValueError for an n that is too short, too long or unsound (see `modulus_proof`), and for a base that cannot
        blind. Whether the owner made its base well cannot be seen: so what returns to the owner never rests on it.
        """
        message = message if isinstance(message, dict) else {}
        n, base = message.get("n"), message.get("blinding_base")
        if not _is_integer(n) or not (base is None or _is_integer(base)):
            raise ValueError("The public key's n and blinding_base must be whole numbers.")
        key = cls(n, base)
        check_key_length(key.key_length)
        check_modulus(n, message.get("proof"))
        # Powers of 1 and -1 hide nothing; that another base has many powers cannot be seen from here.
        if base is not None and not (0 < base < n**2 and gmpy2.gcd(base, n) == 1 and base % n not in (1, n - 1)):
            raise ValueError("The public key's blinding_base must be invertible below n^2 and not 1 or -1 modulo n.")
        return key


class _Owner:
    """Holds the different primes of a key: a secret that travels to this party's own workers only."""

    def __init__(self, public_key: PublicKey, *primes: int) -> None:
        if len(set(primes)) < 2 or len(set(primes)) != len(primes) or prod(map(int, primes)) != public_key.n:
            raise ValueError("The primes must differ, and their product must be n of this public key, which it is not.")
        self.public_key = public_key
        self._primes = tuple(sorted(map(mpz, primes)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Owner) and type(other) is type(self) and other.public_key == self.public_key

    def __hash__(self) -> int:
        return hash(self.public_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public_key.key_length} bits)"


class OwnerDecryption(_Owner):
    """Decrypts by the Chinese remainder theorem, for this party's own workers."""

    @cached_property
    def _parts(self) -> list[tuple[mpz, mpz, mpz]]:
        """For each prime: it, what its part of a decryption is multiplied with, and its unit."""
        base = 1 + self.public_key.modulus
        powers = [(gmpy2.powmod(base, prime - 1, prime**2) - 1) // prime for prime in self._primes]
        factors = map(gmpy2.invert, powers, self._primes)
        return list(zip(self._primes, factors, units(self._primes)))

    def decrypt(self, ciphertext: Encrypted | int) -> mpz:
        """Plaintext in [0, n) of a `Ciphertext`, an `EncryptedSum` or the bare number; ValueError as `decrypt_all`."""
        return self.decrypt_all([ciphertext])[0]

    def decrypt_all(self, ciphertexts: Sequence[Encrypted | int]) -> list[mpz]:
        """Plaintexts in [0, n), in the order of the ciphertexts; many at once take less time each.

        Raises ValueError for a number that no key of this modulus can have produced, and for a ciphertext under another
        key. Any other number is an encryption of something, so a changed one cannot be told here.
        """
        values = [self._checked(ciphertext) for ciphertext in ciphertexts]
        parts = [_modulo(values, *part) for *part, _ in self._parts]
        of_primes, modulus = [unit for *_, unit in self._parts], self.public_key.modulus
        return [sum(part * unit for part, unit in zip(of_one, of_primes)) % modulus for of_one in zip(*parts)]

    def _checked(self, ciphertext: Encrypted | int) -> mpz:
        value: mpz = ciphertext
        if isinstance(ciphertext, Encrypted):
            value = ciphertext.value
            if ciphertext.public_key.n != self.public_key.n:
                raise ValueError(
                    "The ciphertext was made under another public key; only its own private key decrypts it."
                )
        if not 0 < value < self.public_key.modulus_squared or not all(value % prime for prime in self._primes):
            raise ValueError("The ciphertext must be invertible modulo n^2, got one that was not made under this key.")
        return value


def _modulo(values: Sequence[mpz], prime: mpz, factor: mpz) -> list[mpz]:
    square = prime**2
    powers = same_power([value % square for value in values], int(prime - 1), square)
    return [(power - 1) // prime * factor % prime for power in powers]


class PrivateKey(OwnerDecryption):
    """Secret half of a Paillier key pair, which never leaves the process that made it."""

    @cached_property
    def _proof(self) -> bytes:
        return prove(self.public_key.n, self._primes)

    def to_wire(self) -> dict[str, Any]:
        """The public half for another party, with the proof that `PublicKey.from_wire` checks; builtins only."""
        return {"n": self.public_key.n, "blinding_base": self.public_key.blinding_base, "proof": self._proof}

    def encryption(self) -> OwnerEncryption:
        """Encryption with the help of the primes, for this party's own workers."""
        return OwnerEncryption(self.public_key, *map(int, self._primes))

    def decryption(self) -> OwnerDecryption:
        return OwnerDecryption(self.public_key, *map(int, self._primes))

    def __reduce__(self) -> NoReturn:
        raise TypeError("A Paillier private key is never pickled: it stays in the process that made it.")


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def check_key_length(key_length: int) -> None:
    """Refuse a modulus that is too short, or longer than others take (one sentence, ValueError)."""
    if not _is_integer(key_length) or not MIN_KEY_LENGTH <= key_length <= MAX_KEY_LENGTH:
        raise ValueError(
            f"he_param.key_length must be a whole number from {MIN_KEY_LENGTH} to {MAX_KEY_LENGTH} bits, got {key_length!r}."
        )


def generate_keypair(key_length: int = MIN_KEY_LENGTH, primes: int = 2) -> tuple[PublicKey, PrivateKey]:
    """A key pair whose primes are 3 modulo 4 and have 2 as greatest common divisor less 1, as short blinding needs.

    ``n`` has ``key_length`` bits, at least `MIN_KEY_LENGTH`, and 2 primes, or 3 where decryption of numbers up to n is
    most of the work, which takes half as long with them. Prime factors of 672 bits are no easier to find than those of
    1024 (RFC 8017 admits them).
    """
    check_key_length(key_length)
    return keypair_of_any_length(key_length, primes)


def keypair_of_any_length(key_length: int, primes: int = 2) -> tuple[PublicKey, PrivateKey]:
    """As `generate_keypair` without the lower limit: small keys are for tests only.

    >>> public_key, private_key = keypair_of_any_length(256)
    >>> three, minus_four = private_key.encryption().encrypt([3, -4])
    >>> int(private_key.decrypt(three.times(2) + minus_four))
    2
    """
    # A square that fills its words is cheaper to compute with than one that has a word for a few bits.
    unit = _HALF_WORD if key_length >= MIN_KEY_LENGTH and key_length % _HALF_WORD == 0 else 1
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


# Ciphertexts


class Encrypted:
    """A value modulo n^2 under a key, and what Paillier lets anybody do with it.

    There are two types, so that nothing leaves the party unblinded by mistake.
    """

    __slots__ = ("_value", "_public_key")
    _value: mpz
    _public_key: PublicKey

    @property
    def value(self) -> mpz:
        """The number modulo n^2, for kernels; it is no plaintext, but see the type for where it may go."""
        return self._value

    @property
    def public_key(self) -> PublicKey:
        return self._public_key

    def __add__(self, other: Encrypted) -> EncryptedSum:
        if not isinstance(other, Encrypted):
            return NotImplemented
        if other.public_key.n != self.public_key.n:
            raise ValueError("Ciphertexts must be under one public key to be added, got different ones.")
        return EncryptedSum(self.value * other.value % self.public_key.modulus_squared, self.public_key)

    def plus(self, plaintext: int) -> EncryptedSum:
        """The sum with a plaintext that need not be encrypted."""
        return EncryptedSum(self.public_key.shifted(self.value, plaintext), self.public_key)

    def times(self, factor: int) -> EncryptedSum:
        """The product with a signed plaintext."""
        power = gmpy2.powmod(self.value, factor, self.public_key.modulus_squared)
        return EncryptedSum(power, self.public_key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Encrypted) or type(other) is not type(self):
            return False
        return bool(other.value == self.value and other.public_key.n == self.public_key.n)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public_key.key_length} bits)"


class EncryptedSum(Encrypted):
    """A value under encryption that is *not* fit to leave the party: its blinding is missing, or known to others.

    Arithmetic on ciphertexts gives one, whose randomness is a known combination of that of its terms. It has no byte
    form, cannot be pickled, and leaves only as the `Ciphertext` that `fully_blinded` or `blinded_for_owner` makes of it.
    """

    __slots__ = ()

    def __init__(self, value: mpz, public_key: PublicKey) -> None:
        self._value, self._public_key = mpz(value), public_key

    def fully_blinded(self) -> Ciphertext:
        return fully_blinded([self])[0]

    def __reduce__(self) -> NoReturn:
        raise TypeError("An encrypted sum is never pickled: it leaves as a Ciphertext, blinded.")


class Ciphertext(Encrypted):
    """A blinded ciphertext: fit to leave the party, and alone in having a byte form.

    It comes into being in two ways only: with a `BlindingFactor`, which it spends, or from bytes of another party.
    """

    __slots__ = ()

    def __init__(self, content: EncryptedSum, factor: BlindingFactor) -> None:
        if factor.public_key.n != content.public_key.n:
            raise ValueError("The blinding factor must be made for the sum's public key, got another's.")
        self._public_key = content.public_key
        self._value = content.value * factor.spend() % content.public_key.modulus_squared

    @classmethod
    def of(cls, plaintext: int, factor: BlindingFactor) -> Ciphertext:
        """A plaintext, encrypted with a factor."""
        ciphertext = cls.__new__(cls)
        ciphertext._value = factor.public_key.shifted(factor.spend(), plaintext)
        ciphertext._public_key = factor.public_key
        return ciphertext

    def to_bytes(self) -> bytes:
        """`PublicKey.ciphertext_bytes` bytes, big endian: one width whatever the plaintext."""
        return int(self._value).to_bytes(self.public_key.ciphertext_bytes, "big")

    @classmethod
    def from_bytes(cls, data: bytes, public_key: PublicKey) -> Ciphertext:
        """What another party sent; see `column_from_bytes` for what is refused."""
        if len(data) != public_key.ciphertext_bytes:
            raise ValueError(
                f"A ciphertext must have {public_key.ciphertext_bytes} bytes under this key, got {len(data)}."
            )
        return column_from_bytes(data, public_key)[0]


def fully_blinded(sums: Sequence[EncryptedSum]) -> list[Ciphertext]:
    """Sums under one key, each blinded with ``r^n`` for a uniform r: for whatever goes back to the owner of the key."""
    factors = full_blindings(sums[0].public_key, len(sums)) if sums else []
    return [Ciphertext(each, factor) for each, factor in zip(sums, factors)]


def blinded_for_owner(sums: Sequence[EncryptedSum], blinding: DrawnBlinding) -> list[Ciphertext]:
    """Sums under one key, fit to go back to its owner; many at once are quicker than `EncryptedSum.fully_blinded`."""
    return [Ciphertext(each, factor) for each, factor in zip(sums, blinding.factors(len(sums)))]


def encrypt_with(factors: Iterable[BlindingFactor], plaintexts: Iterable[int]) -> list[Ciphertext]:
    """Each plaintext encrypted with the next factor, under the factor's key."""
    return [Ciphertext.of(plaintext, factor) for plaintext, factor in zip(plaintexts, factors)]


def column_to_bytes(ciphertexts: Sequence[Ciphertext]) -> bytes:
    """Ciphertexts under one key, one after the other."""
    if not all(isinstance(ciphertext, Ciphertext) for ciphertext in ciphertexts):
        raise TypeError(
            "Only blinded ciphertexts may leave the party; call fully_blinded() or blinded_for_owner() first."
        )
    return b"".join(ciphertext.to_bytes() for ciphertext in ciphertexts)


def column_from_bytes(data: bytes, public_key: PublicKey) -> list[Ciphertext]:
    """Ciphertexts that another party sent.

    Raises ValueError where the length is no multiple of a ciphertext's, or a value is one that no honest encryption under
    this modulus gives: outside (0, n^2), not invertible, or without blinding. Any other number encrypts something.
    """
    width = public_key.ciphertext_bytes
    if len(data) % width:
        raise ValueError(f"An encrypted column must be a multiple of {width} bytes, got {len(data)}.")
    received, product, n = [], mpz(1), public_key.modulus
    for at in range(0, len(data), width):
        value = mpz(int.from_bytes(data[at : at + width], "big"))
        if not 0 < value < public_key.modulus_squared:
            raise ValueError("An encrypted column holds a value outside (0, n^2); it was not made under this key.")
        residue = value % n
        if residue == 1:
            raise ValueError("An encrypted column holds a value without blinding; its sender shows its plaintexts.")
        product = product * residue % n
        ciphertext = Ciphertext.__new__(Ciphertext)
        ciphertext._value, ciphertext._public_key = value, public_key
        received.append(ciphertext)
    if gmpy2.gcd(product, n) != 1:
        raise ValueError("An encrypted column holds a value that is not invertible; it was not made under this key.")
    return received


def encrypt_column(values: IntArray, public_key: PublicKey) -> bytes:
    """int64 array (n,) -> n ciphertexts of fixed width; negative v is encrypted as n - |v|."""
    factors = blinding_of(public_key).factors(len(values))
    return column_to_bytes(encrypt_with(factors, values.tolist()))


def sum_of_columns(columns: list[bytes], public_key: PublicKey) -> list[mpz]:
    """Row-wise sums of columns that other parties sent, for a kernel of this party: they are not blinded anew."""
    if len({len(column) for column in columns}) != 1:
        lengths = " and ".join(str(len(column)) for column in columns)
        raise ValueError(f"Encrypted columns must be of one length to be added, got {lengths} bytes.")
    first, *others = ([c.value for c in column_from_bytes(column, public_key)] for column in columns)
    for other in others:
        first = [a * b % public_key.modulus_squared for a, b in zip(first, other)]
    return first


# Blinding

_HEIGHT = 10
_STATISTICAL_BITS = 40
_HIGHEST_COMB_OF_OWNER = 12
"""Rows; three primes have a table each, 33 MB in all at 2048 bits, and a higher one is no quicker."""
_BASES = MAX_PRIMES + _STATISTICAL_BITS - 2


class BlindingFactor:
    """A random n-th residue modulo n^2; spent by the one ciphertext that it blinds, and never copied or pickled."""

    __slots__ = ("_value", "public_key")

    def __init__(self, value: mpz, public_key: PublicKey) -> None:
        self._value: mpz | None = value
        self.public_key = public_key

    def spend(self) -> mpz:
        """The factor, once. Two ciphertexts with one factor would tell the difference of their plaintexts."""
        value, self._value = self._value, None
        if value is None:
            raise ValueError("This blinding factor is spent; every ciphertext needs a fresh one.")
        return value

    def __repr__(self) -> str:
        return f"BlindingFactor({'spent' if self._value is None else 'fresh'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A blinding factor is never pickled or copied: a copy could be spent twice.")


def full_blindings(public_key: PublicKey, count: int) -> list[BlindingFactor]:
    """``r^n mod n^2`` with ``r`` uniform in Z_n*, so many times; several at once take less time each.

    What goes back to the owner of the secret key must carry this one, or one of `DrawnBlinding`: the owner can strip a
    ciphertext of its plaintext and look at the randomness, and a power of a base that the owner chose may hide nothing.
    """
    drawn = [mpz(1 + secrets.randbelow(public_key.n - 1)) for _ in range(count)]
    residues = same_power(drawn, public_key.n, public_key.modulus_squared)
    return [BlindingFactor(residue, public_key) for residue in residues]


class FixedBaseBlinding:
    """Draws blinding factors ``blinding_base^s`` for one public key, ``s`` short and uniform; not for its owner's eyes.

    A key without a blinding base gets a full ``r^n`` each time: correct, but slow.
    """

    def __init__(self, public_key: PublicKey) -> None:
        self.public_key = public_key
        self.exponent_bits = public_key.key_length // 2
        self._powers = None
        if public_key.blinding_base is not None:
            base = mpz(public_key.blinding_base)
            self._powers = FixedBasePowers([base], public_key.modulus, self.exponent_bits, _HEIGHT)

    def factors(self, count: int) -> list[BlindingFactor]:
        """``count`` fresh blinding factors, from operating-system entropy."""
        if self._powers is None:
            return full_blindings(self.public_key, count)
        return _factors(self._powers, count, self.public_key)


class DrawnBlinding:
    """Draws blinding factors for what goes back to the owner of a key, at a tenth of the price of full ones.

    A factor is the product of powers of 48 bases that are uniform n-th residues, drawn here, with exponents that are
    uniform and 80 bits longer in all than n, and one bit more for each base. But for a chance of 2^-38 over the bases a
    factor is within 2^-40 of a uniform n-th residue, even for an owner that knows the bases and chose its primes for
    this: docs/proofs-crypto.md. The owner's key was checked by `PublicKey.from_wire`; for the height see `comb_height`.
    """

    def __init__(self, public_key: PublicKey, height: int = _HEIGHT) -> None:
        self.public_key = public_key
        bases = [factor.spend() for factor in full_blindings(public_key, _BASES)]
        self.exponent_bits = _BASES * (-(-(public_key.key_length + 2 * _STATISTICAL_BITS) // _BASES) + 1)
        self._powers = FixedBasePowers(bases, public_key.modulus, self.exponent_bits, height)

    def factors(self, count: int) -> list[BlindingFactor]:
        return _factors(self._powers, count, self.public_key)


def _factors(powers: FixedBasePowers, count: int, public_key: PublicKey) -> list[BlindingFactor]:
    return [BlindingFactor(power, public_key) for power in powers.powers(powers.random_digits(count))]


@lru_cache(maxsize=4)
def blinding_of(public_key: PublicKey) -> FixedBaseBlinding:
    """The table for a key, made once per process: worker processes see the same key in every epoch."""
    return FixedBaseBlinding(public_key)


@lru_cache(maxsize=4)
def drawn_blinding(public_key: PublicKey, expected: int = 10_000) -> DrawnBlinding:
    """Bases and table for a key, made once per process (at 2048 bits in about half a second).

    ``expected`` ciphertexts will be blinded with it in this process; only the speed depends on it.
    """
    return DrawnBlinding(public_key, comb_height(expected))


# What the owner of a key does: modulo the squares of its primes, where numbers are half as wide


class OwnerEncryption(_Owner):
    """Encrypts under a key whose primes are known, for this party's own workers.

    Ciphertexts are the same as anybody's: ``(1 + m n) h^(n s)`` with ``s`` uniform below 2^(key_length / 2), or with
    a uniform n-th residue for a key without a blinding base.
    """

    def encrypt(self, plaintexts: Sequence[int], expected: int = 10_000) -> list[Ciphertext]:
        """Signed plaintexts ``|m| < n / 2``, each with a fresh blinding factor; ``expected`` as in `drawn_blinding`."""
        if any(2 * abs(plaintext) >= self.public_key.n for plaintext in plaintexts):
            raise ValueError("A plaintext must be below n / 2 in magnitude, got one that does not fit the key.")
        return encrypt_with(self._factors(len(plaintexts), expected), plaintexts)

    def _factors(self, count: int, expected: int) -> list[BlindingFactor]:
        if self.public_key.blinding_base is None:
            # Modulo prime^2 the n-th residues are the prime-th powers, one for each residue class modulo prime.
            below = [[1 + secrets.randbelow(int(prime) - 1) for _ in range(count)] for prime in self._primes]
            parts = [same_power(list(map(mpz, of_prime)), int(p), p**2) for of_prime, p in zip(below, self._primes)]
        else:
            tables = _tables(self, comb_height(expected, _HIGHEST_COMB_OF_OWNER))
            digits = tables[0].random_digits(count)
            parts = [table.powers(digits) for table in tables]
        modulus, of_primes = self.public_key.modulus_squared, _units(self)
        values = (sum(part * unit for part, unit in zip(of_one, of_primes)) % modulus for of_one in zip(*parts))
        return [BlindingFactor(value, self.public_key) for value in values]


@lru_cache(maxsize=2)
def _tables(encryption: OwnerEncryption, height: int) -> tuple[FixedBasePowers, ...]:
    public_key = encryption.public_key
    base, bits = mpz(public_key.blinding_base), public_key.key_length // 2
    return tuple(FixedBasePowers([base % prime**2], prime, bits, height) for prime in encryption._primes)


@lru_cache(maxsize=2)
def _units(encryption: OwnerEncryption) -> list[mpz]:
    return units([prime**2 for prime in encryption._primes])
