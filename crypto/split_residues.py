"""Values modulo ``n^2`` as ``c = r (1 + l n)`` with residue ``r = c mod n`` and slope ``l``: cheaper to multiply.

``(1 + l n)(1 + l' n) = 1 + (l + l') n mod n^2``. So a product of powers is the product of the same powers of the
residues, which are half as wide as the modulus, times ``1 + s n`` where s is the sum of the slopes times the exponents:
additions instead of half of the work of every multiplication. Holds for any modulus n, Paillier's or one of its primes.
"""
from typing import List, NamedTuple, Sequence, Tuple

import gmpy2
from gmpy2 import mpz


class Split(NamedTuple):
    """Residues and slopes of some values, in their order."""

    residues: List[mpz]
    slopes: List[mpz]


def split(values: Sequence[mpz], n: mpz) -> Split:
    """Residues and slopes of values modulo n^2."""
    return split_with_inverses(values, n)[0]


def split_with_inverses(values: Sequence[mpz], n: mpz) -> Tuple[Split, Split]:
    """Residues and slopes of values modulo n^2, and those of their inverses.

    Raises:
        ValueError: a value has no inverse.
    """
    pairs = [gmpy2.f_divmod(value, n) for value in values]
    residues = [residue for _, residue in pairs]
    inverses = _inverses(residues, n)
    slopes = [quotient * inverse % n for (quotient, _), inverse in zip(pairs, inverses)]
    # The integers r and 1 / r have the product 1 + k n, which their slopes must cancel.
    inverse_slopes = [-slope - r * inverse // n for slope, r, inverse in zip(slopes, residues, inverses)]
    return Split(residues, slopes), Split(inverses, inverse_slopes)


def join(product: mpz, slope: mpz, n: mpz) -> mpz:
    """``product * (1 + slope n) mod n^2``: a product of residues and the sum of their slopes, made one value again."""
    return (product + product * slope % n * n) % n**2


def _inverses(values: Sequence[mpz], modulus: mpz) -> List[mpz]:
    """Inverses of all values for the price of one inversion (Montgomery's trick)."""
    prefix = [mpz(1)]
    for value in values:
        prefix.append(prefix[-1] * value % modulus)
    if gmpy2.gcd(prefix[-1], modulus) != 1:
        raise ValueError("A ciphertext is not invertible modulo n^2; it was not made under this key.")
    running, inverses = gmpy2.invert(prefix[-1], modulus), [mpz(1)] * len(values)
    for at in range(len(values) - 1, -1, -1):
        inverses[at] = running * prefix[at] % modulus
        running = running * values[at] % modulus
    return inverses
