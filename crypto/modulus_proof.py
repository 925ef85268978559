"""Proofs that n and phi(n) have no common factor and that n has few primes, made once for a key, checked by whoever uses it.

Only without a common factor do a uniform mask and a full ``r^n`` together make a ciphertext uniform whatever it was; and
the number of primes bounds how many bases reach all n-th residues (`DrawnBlinding`). The owner of n shows n-th roots of
eight numbers that a hash of n gives, and square roots of small multiples of eighteen others. A wrong n passes with a
chance of 2^-128: docs/proofs-crypto.md.

S. Goldberg, L. Reyzin, O. Sagga, F. Baldimtsi, "Efficient noninteractive certification of RSA moduli and beyond",
ASIACRYPT 2019, section 3.2; J. van de Graaf, R. Peralta, "A simple and secure way to show the validity of your public
key", CRYPTO 1987. The hash stands for a random oracle.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

import gmpy2
from gmpy2 import mpz

from .powers import units

TRIAL_DIVISORS_BELOW = 1 << 16
ROOTS = 8
SQUARE_ROOTS = 18
MAX_PRIMES = 10
_DOMAIN = b"fate-dp Paillier modulus, gcd(n, phi(n)) = 1"
_SQUARES_DOMAIN = b"fate-dp Paillier modulus, few primes"
_SMALL_PRIMES = gmpy2.primorial(TRIAL_DIVISORS_BELOW)
_FACTORS = 2
"""Small numbers, one byte each, by which, and by -1, a challenge may be multiplied to make it a square."""
_SPARE_BITS = 128
"""Hash outputs are so much longer than n: reduced modulo n, they are within 2^-128 of uniform."""


def prove(n: int, primes: Iterable[int]) -> bytes:
    """`ROOTS` and `SQUARE_ROOTS` numbers below n, one after the other, and the small factors of the latter's squares.

    The primes, secret, are the two or three different factors of n, all 3 modulo 4; none divides another one less 1.
    """
    primes = list(map(mpz, primes))
    inverses = [gmpy2.invert(n, prime - 1) for prime in primes]
    factors = _factors_of(primes)
    squares = [
        next(each for each in _multiples(challenge, factors, n) if all(gmpy2.legendre(each, p) == 1 for p in primes))
        for challenge in _challenges(n, _SQUARES_DOMAIN + factors, SQUARE_ROOTS)
    ]
    roots = [_power(challenge, inverses, primes) for challenge in _challenges(n, _DOMAIN, ROOTS)]
    roots += [_power(square, [(prime + 1) // 4 for prime in primes], primes) for square in squares]
    return b"".join(int(root).to_bytes(_width(n), "big") for root in roots) + factors


def check_modulus(n: int, proof: object) -> None:
    """Refuse a modulus of another party's key, with what `prove` made there, under which masks would not hide.

    ValueError where n is even, prime, a power or has a factor below 2^16, or a proof does not hold.
    """
    if n % 2 == 0 or gmpy2.is_prime(n):
        raise ValueError("The public key's n must be a product of odd primes, got an even number or a prime.")
    if gmpy2.gcd(n, _SMALL_PRIMES) != 1:
        raise ValueError("The public key's n must be a product of large primes, got a factor below 2^16.")
    if gmpy2.is_power(n):
        raise ValueError("The public key's n must be a product of different primes, got a power.")
    width, roots = _width(n), ROOTS + SQUARE_ROOTS
    if not isinstance(proof, bytes) or len(proof) != roots * width + _FACTORS:
        raise ValueError("The public key comes without a proof of the length that its n needs.")
    numbers = [int.from_bytes(proof[at * width : (at + 1) * width], "big") for at in range(roots)]
    if not _are_roots(numbers[:ROOTS], n):
        raise ValueError("The public key comes without a sound proof that n and phi(n) have no common factor.")
    if not _are_square_roots(numbers[ROOTS:], proof[-_FACTORS:], n):
        raise ValueError(f"The public key comes without a sound proof that n has at most {MAX_PRIMES} prime factors.")


def _are_roots(roots: Sequence[int], n: int) -> bool:
    pairs = zip(roots, _challenges(n, _DOMAIN, ROOTS), strict=True)
    return all(root < n and gmpy2.powmod(root, n, n) == challenge for root, challenge in pairs)


def _are_square_roots(roots: Sequence[int], factors: bytes, n: int) -> bool:
    pairs = zip(roots, _challenges(n, _SQUARES_DOMAIN + factors, SQUARE_ROOTS), strict=True)
    return 0 not in factors and all(
        root < n and mpz(root) ** 2 % n in _multiples(challenge, factors, n) for root, challenge in pairs
    )


def _factors_of(primes: Sequence[mpz]) -> bytes:
    """The least factors of which, with -1, products lie in every class of squares and others modulo the primes."""
    if any(prime % 4 != 3 for prime in primes):
        raise ValueError(
            "The primes of a modulus that is to be proved must be 3 modulo 4, as those of keys made here are."
        )
    pairs = ((first, last) for last in range(1, 256) for first in range(1, last + 1))
    # Eight products cannot lie in the sixteen classes of four primes.
    for factors in pairs if len(primes) <= 3 else ():
        reached = {tuple(gmpy2.legendre(number, prime) for prime in primes) for number in _signed_products(factors)}
        if len(reached) == 1 << len(primes):
            return bytes(factors)
    raise ValueError("A key whose modulus is to be proved must have two or three primes.")


def _signed_products(factors: Sequence[int]) -> list[int]:
    return [prod(chosen) for chosen in product((1, -1), *((1, factor) for factor in factors))]


def _multiples(challenge: mpz, factors: bytes, n: int) -> set[mpz]:
    """At most eight."""
    return {challenge * number % n for number in _signed_products(factors)}


def _power(base: mpz, exponents: Sequence[mpz], primes: Sequence[mpz]) -> mpz:
    """The number below the product of the primes that is another power of the base modulo each of them."""
    powers = [gmpy2.powmod(base, exponent, prime) for exponent, prime in zip(exponents, primes)]
    return sum(power * unit for power, unit in zip(powers, units(primes))) % prod(primes)


def _challenges(n: int, domain: bytes, count: int) -> list[mpz]:
    content, length = int(n).to_bytes(_width(n), "big"), _width(n) + _SPARE_BITS // 8
    stream = hashlib.shake_256(domain + content).digest(count * length)
    return [mpz(int.from_bytes(stream[at : at + length], "big")) % n for at in range(0, len(stream), length)]


def _width(n: int) -> int:
    return (int(n).bit_length() + 7) // 8
