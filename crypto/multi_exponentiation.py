"""Products of powers ``prod_i c_i^{x_ij}``: the encrypted matrix product X^T c.

Many bases and short exponents: signed buckets (Pippenger 1976), one column at a time. Few bases and many outputs:
windows with tables that all outputs share (Straus 1964), digits signed and sparse. Bases are split (`split_residues`),
so that nearly all multiplications are by numbers half as wide as the modulus.
"""
from typing import Iterator, List, Sequence, Tuple

import gmpy2
import numpy as np
from gmpy2 import mpz

from .split_residues import Split, join, split_with_inverses

_FULL_COST = 1.7
"""Price of a multiplication of two full-width values, in multiplications of one with a residue."""
_ENTRY_COST = 2.5
"""Price of an entry of a shared table in the same unit."""
_LARGEST = 1 << 61


def powers_product(ciphertexts: Sequence[mpz], exponents: np.ndarray, modulus: mpz) -> List[mpz]:
    """For each column j of ``exponents`` the product over i of ``ciphertexts[i] ** exponents[i, j] mod modulus``.

    Args:
        ciphertexts: values invertible modulo ``modulus``, one for each row.
        exponents: int64 array (rows, columns), below 2^61 in magnitude; negative ones are powers of the inverse.
        modulus: n^2 of the key.

    Returns:
        One value per column. They are *not* blinded anew: the caller does that before they leave the party.
    """
    if exponents.shape[0] != len(ciphertexts):
        raise ValueError(f"{exponents.shape[0]} rows of exponents for {len(ciphertexts)} ciphertexts; they must agree.")
    if exponents.size and not -_LARGEST < int(exponents.min()) <= int(exponents.max()) < _LARGEST:
        raise ValueError("An exponent reaches 2^61 in magnitude; fixed-point features lie far below.")
    n = _root(modulus)
    bases = _both_signs(ciphertexts, n)
    return [_column_product(bases, np.ascontiguousarray(column), n) for column in exponents.T]


def few_bases_products(bases: Sequence[mpz], exponents: Sequence[Sequence[int]], modulus: mpz) -> List[mpz]:
    """For each row k of ``exponents`` the product over i of ``bases[i] ** exponents[k][i] mod modulus``.

    Args:
        bases: values invertible modulo ``modulus``; each gets a table, so few of them.
        exponents: signed integers of any size, one row for each output; zeros cost nothing.
        modulus: n^2 of the key.

    Returns:
        One value per row. They are *not* blinded anew.
    """
    if any(len(row) != len(bases) for row in exponents):
        raise ValueError(f"A row of exponents does not have one exponent for each of the {len(bases)} bases.")
    n = _root(modulus)
    bits = max((int(exponent).bit_length() for row in exponents for exponent in row), default=0)
    width = _sparse_width(bits, len(exponents))
    tables = _odd_powers(bases, width, n)
    return [_shared_windows(tables, row, width, n) for row in exponents]


def _root(modulus: mpz) -> mpz:
    n, rest = gmpy2.isqrt_rem(mpz(modulus))
    if rest:
        raise ValueError("The modulus is no square; ciphertexts are multiplied modulo n^2 of their key.")
    return n


def _both_signs(values: Sequence[mpz], n: mpz) -> Split:
    """Split values, followed by their split inverses."""
    plain, inverse = split_with_inverses(values, n)
    return Split(plain.residues + inverse.residues, plain.slopes + inverse.slopes)


def _column_product(bases: Split, exponents: np.ndarray, n: mpz) -> mpz:
    """Product for one column; ``bases`` holds the rows' values, then their inverses."""
    values, group_of_row = np.unique(exponents, return_inverse=True)
    if 4 * len(values) <= len(exponents):
        # A column of few values, as of a category: one multiplication per row instead of one per row and digit.
        merged = _both_signs(_merged(bases, group_of_row, len(values), n), n)
        return _bucket_product(merged, values, n)
    return _bucket_product(bases, exponents, n)


def _merged(bases: Split, group_of_row: np.ndarray, groups: int, n: mpz) -> List[mpz]:
    """One base per group of rows that share an exponent: the product of the rows' bases."""
    modulus, products, slopes = n**2, [mpz(1)] * groups, [mpz(0)] * groups
    for residue, slope, group in zip(bases.residues, bases.slopes, group_of_row.tolist()):
        products[group] = products[group] * residue % modulus
        slopes[group] += slope
    return [join(product, slope, n) for product, slope in zip(products, slopes)]


def _bucket_product(bases: Split, exponents: np.ndarray, n: mpz) -> mpz:
    radix, digits = _signed_digits(exponents)
    product, modulus = mpz(1), n**2
    for level in reversed(digits):
        if product != 1:
            product = gmpy2.powmod(product, radix, modulus)
        product = product * _level_product(bases.residues, level, radix, modulus) % modulus
    # Exponents of the bases and of their inverses, with which their slopes count.
    levels = [digit * radix**at for at, digit in enumerate(digits)]
    used = [sum((np.maximum(sign * level, 0) for level in levels), 0 * exponents) for sign in (1, -1)]
    slope = sum(map(mpz.__mul__, bases.slopes, np.concatenate(used).tolist()), mpz(0))
    return join(product, slope, n)


def _signed_digits(exponents: np.ndarray) -> Tuple[int, List[np.ndarray]]:
    """An odd radix R and digits in [-(R - 1) / 2, (R - 1) / 2], least significant first."""
    largest = int(np.abs(exponents).max(initial=0))
    _, radix = min(_radices(largest), key=lambda choice: choice[0] * (len(exponents) + _FULL_COST * choice[1]))
    digits, half = [], radix // 2
    while exponents.any():
        shifted = exponents + half
        digits.append(shifted % radix - half)
        exponents = shifted // radix
    return radix, digits


def _radices(largest: int) -> Iterator[Tuple[int, int]]:
    """Pairs (digits, radix): the smallest odd radix with which so many digits reach ``largest``."""
    for count in range(1, 64):
        radix = int(gmpy2.iroot(2 * largest, count)[0]) + 1 | 1
        yield count, radix
        if radix <= 3:
            return


def _level_product(residues: List[mpz], digits: np.ndarray, radix: int, modulus: mpz) -> mpz:
    """``prod_i c_i^digit_i``: every base is multiplied into the bucket of its digit."""
    used = np.flatnonzero(digits)
    at_base = np.where(digits[used] > 0, used, used + len(digits)).tolist()
    buckets = [None] * (radix // 2 + 1)
    for base, bucket in zip(at_base, np.abs(digits[used]).tolist()):
        held = buckets[bucket]
        buckets[bucket] = residues[base] if held is None else held * residues[base] % modulus
    return _bucket_sum(buckets, modulus)


def _bucket_sum(buckets: list, modulus: mpz) -> mpz:
    """``prod_d buckets[d]^d`` by running products from the highest digit down."""
    running, total = mpz(1), mpz(1)
    for held in reversed(buckets[1:]):
        if held is not None:
            running = running * held % modulus
        if running != 1:
            total = total * running % modulus
    return total


def _sparse_width(bits: int, outputs: int) -> int:
    """Width of sparse digits: 2^(w-1) table entries per base against bits / (w + 1) multiplications per output."""
    return min(range(2, 10), key=lambda width: _ENTRY_COST * (1 << (width - 1)) + outputs * bits / (width + 1))


def _odd_powers(bases: Sequence[mpz], width: int, n: mpz) -> List[dict]:
    """For each base its split powers with the exponents +-1, +-3, ..., below 2^(width - 1) in magnitude."""
    modulus, exponents, powers = n**2, range(1, 1 << (width - 1), 2), []
    for base in bases:
        square, power = base * base % modulus, base
        for _ in exponents:
            powers.append(power)
            power = power * square % modulus
    both = _both_signs(powers, n)
    entries, tables = list(zip(both.residues, both.slopes)), []
    for first in range(0, len(powers), len(exponents)):
        table = {}
        for at, exponent in enumerate(exponents, first):
            table[exponent], table[-exponent] = entries[at], entries[at + len(powers)]
        tables.append(table)
    return tables


def _shared_windows(tables: List[dict], exponents: Sequence[int], width: int, n: mpz) -> mpz:
    by_level, slope, modulus = {}, mpz(0), n**2
    for table, exponent in zip(tables, exponents):
        for level, digit in _sparse_digits(int(exponent), width):
            residue, residue_slope = table[digit]
            by_level.setdefault(level, []).append(residue)
            slope += residue_slope << level
    product = mpz(1)
    for level in range(max(by_level, default=-1), -1, -1):
        if product != 1:
            product = gmpy2.square(product) % modulus
        for residue in by_level.get(level, ()):
            product = product * residue % modulus
    return join(product, slope, n)


def _sparse_digits(exponent: int, width: int) -> Iterator[Tuple[int, int]]:
    """Pairs (level, digit) with ``exponent = sum digit 2^level``, digits odd and below 2^(width - 1) in magnitude."""
    level = 0
    while exponent:
        zeros = (exponent & -exponent).bit_length() - 1
        exponent, level = exponent >> zeros, level + zeros
        digit = exponent & ((1 << width) - 1)
        if digit >> (width - 1):
            digit -= 1 << width
        yield level, digit
        exponent -= digit
