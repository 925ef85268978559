"""Products of powers modulo n^2, for any modulus n, Paillier's or one of its primes.

A value is split as ``c = r (1 + l n)``, with residue ``r = c mod n`` and slope ``l``. As ``(1 + l n)(1 + l' n)`` is
``1 + (l + l') n mod n^2``, a product of powers is that of the residues, which are half as wide, times ``1 + s n``, where s
is the sum of the slopes times the exponents: additions instead of half of the work of every multiplication.

So it is with gmpy2. Where the native `kernel` runs, `lane_powers` computes the same numbers in its own way.
"""

import secrets
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from .kernel import IntArray as IntArray
from .kernel import kernel, ring_for
from .lane_powers import CombEntries, bin_products, bucket_products, window_products

Digits = npt.NDArray[np.uint16]
ObjectArray = npt.NDArray[Any]
"""Python integers of any size, which NumPy's types have no word for."""


class Split(NamedTuple):
    """Residues and slopes of some values, in their order."""

    residues: list[mpz]
    slopes: list[mpz]


def split_with_inverses(values: Sequence[mpz], n: mpz) -> tuple[Split, Split]:
    """Residues and slopes of values modulo n^2, and those of their inverses; ValueError where a value has none."""
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


def units(moduli: Sequence[mpz]) -> list[mpz]:
    """For each of pairwise coprime moduli a number that is 1 modulo it and 0 modulo all others (Chinese remainders)."""
    product = prod(moduli)
    return [product // modulus * gmpy2.invert(product // modulus, modulus) for modulus in moduli]


def _inverses(values: Sequence[mpz], modulus: mpz) -> list[mpz]:
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


# Random powers of given bases, from a table that is laid down once

_AT_ONCE = 1024
"""Powers that walk through the table together: each of its parts then stays in the processor's cache."""
_COLUMNS_OF_A_PART = 8
"""So many columns of the comb share one part of the table, for as many squarings less one."""
_FEWEST_FOR_LANES = 4
"""Powers at once: with fewer most of the kernel's lanes would idle, and gmpy2 is as fast."""
_ENTRY_COST = 2.5
"""Price of a table entry in multiplications."""
_LOWEST_COMB = 4
_HIGHEST_COMB, _HIGHEST_COMB_OF_LANES = 11, 13
"""Higher tables leave the processor's cache; what they save in multiplications is lost again, or costs too much memory."""
_ENTRY_COST_OF_LANES = 12.0
"""The same where the native kernel runs, whose entries are split."""


class FixedBasePowers:
    """Products of powers of the bases modulo ``root^2``, by a comb (Lim and Lee 1994).

    The exponent bits lie one after the other, those of the first base first; each base has about as many. They stand in a
    rectangle, row by row; a column of it is one digit, whose bits lie a row's length apart. A power takes one
    multiplication per digit, by entries that are split (see `split_with_inverses`) and so half as wide as the modulus, and a few
    squarings: one part of the table serves eight columns beside each other.

    Bases are invertible modulo ``root^2``, root is n or a prime, ``exponent_bits`` count the random exponents of all bases
    together, and height is that of the rectangle, see `comb_height`; only the speed depends on it.
    """

    def __init__(self, bases: Sequence[mpz], root: mpz, exponent_bits: int, height: int) -> None:
        self._root = root
        columns = -(-exponent_bits // height)
        self._widths = [len(range(column, exponent_bits, columns)) for column in range(columns)]
        firsts = range(0, columns, _COLUMNS_OF_A_PART)
        places = [at for first in firsts for at in range(first, exponent_bits, columns)]
        powers = dict(_powers_at(bases, root**2, places, -(-exponent_bits // len(bases))))
        factors = [[powers[at] for at in range(first, exponent_bits, columns)] for first in firsts]
        ring = ring_for(root**2)
        self._entries = None if ring is None else CombEntries(factors, columns, _COLUMNS_OF_A_PART, ring)
        self._parts = [] if self._entries else [_products(of_part, root) for of_part in factors]

    def random_digits(self, count: int) -> Digits:
        """Digits of ``count`` exponents, each uniform below ``2^exponent_bits``, from operating-system entropy.

        Shape (count, digits): bit i of digit k is bit ``i digits + k`` of the exponent. Tables for exponents of
        equal length can share them.
        """
        entropy = np.frombuffer(secrets.token_bytes(2 * count * len(self._widths)), dtype=np.uint16)
        masks = np.array([(1 << width) - 1 for width in self._widths], dtype=np.uint16)
        return entropy.reshape(count, len(self._widths)) & masks

    def powers(self, digits: Digits) -> list[mpz]:
        """The product of powers for each of the exponents with these digits."""
        if self._entries:
            return self._entries.powers(digits)
        return [power for at in range(0, len(digits), _AT_ONCE) for power in self._together(digits[at : at + _AT_ONCE])]

    def _together(self, digits: Digits) -> list[mpz]:
        modulus, columns = self._root**2, digits.T.tolist()
        products, slopes = [mpz(1)] * len(digits), [mpz(0)] * len(digits)
        for offset in reversed(range(min(_COLUMNS_OF_A_PART, len(columns)))):
            products = [product * product % modulus for product in products]
            slopes = [2 * slope for slope in slopes]
            for (residues, part_slopes), column in zip(self._parts, columns[offset::_COLUMNS_OF_A_PART]):
                products = [product * residues[digit] % modulus for product, digit in zip(products, column)]
                slopes = [slope + part_slopes[digit] for slope, digit in zip(slopes, column)]
        return [join(product, slope, self._root) for product, slope in zip(products, slopes)]


def comb_height(expected: int, highest: int = _HIGHEST_COMB_OF_LANES) -> int:
    """Rows of a comb that make ``expected`` powers cheapest, their table included.

    11 rows take 15 MB at 2048 bits with gmpy2; with the native kernel, which asks for entries early, 13 rows take 110 MB.
    """
    lanes = kernel().library is not None
    entry_cost = _ENTRY_COST_OF_LANES if lanes else _ENTRY_COST
    heights = range(_LOWEST_COMB, min(highest, _HIGHEST_COMB_OF_LANES if lanes else _HIGHEST_COMB) + 1)
    return min(heights, key=lambda height: (entry_cost * (1 << height) / _COLUMNS_OF_A_PART + expected) / height)


def _powers_at(
    bases: Sequence[mpz], modulus: mpz, places: Sequence[int], bits_of_each: int
) -> Iterator[tuple[int, mpz]]:
    """(place, the power of its base that a bit there counts) for all places; a base's first place counts 1."""
    at, reached, power = -1, 0, mpz(1)
    for place in sorted(places):
        if place // bits_of_each != at:
            at = place // bits_of_each
            reached, power = place, bases[at]
        power = gmpy2.powmod(power, 1 << place - reached, modulus)
        reached = place
        yield place, power


def _products(factors: list[mpz], root: mpz) -> tuple[list[mpz], list[mpz]]:
    """Residues and slopes of the products of all subsets of factors; bit i of an index says whether factor i is in it.

    ``r r' = q root + r'' = r'' (1 + q / r'' root)``, so the slopes add up with ``q / r''``.
    """
    residues, slopes, inverses = [mpz(1)], [mpz(0)], [mpz(1)]
    own, inverted = split_with_inverses(factors, root)
    for factor, factor_slope, factor_inverse in zip(own.residues, own.slopes, inverted.residues):
        pairs = [gmpy2.f_divmod(residue * factor, root) for residue in residues]
        inverses_of_new = [inverse * factor_inverse % root for inverse in inverses]
        slopes += [
            (slope + factor_slope + quotient * inverse) % root
            for slope, (quotient, _), inverse in zip(slopes, pairs, inverses_of_new)
        ]
        residues += [residue for _, residue in pairs]
        inverses += inverses_of_new
    return residues, slopes


def same_power(values: Sequence[mpz], exponent: int, modulus: mpz) -> list[mpz]:
    """``value ** exponent mod modulus`` of each value in [0, modulus), for one exponent >= 0."""
    ring = ring_for(modulus) if len(values) >= _FEWEST_FOR_LANES else None
    if ring is not None:
        return ring.leave(ring.powers(ring.enter(values), exponent))
    return [gmpy2.powmod(value, exponent, modulus) for value in values]


# Products of powers with given exponents: the encrypted matrix product X^T c

_FULL_COST = 1.7
"""Price of a multiplication of two full-width values, in multiplications of one with a residue."""
_LARGEST = 1 << 61


def powers_product(ciphertexts: Sequence[mpz], exponents: IntArray, modulus: mpz) -> list[mpz]:
    """For each column j of ``exponents`` the product over i of ``ciphertexts[i] ** exponents[i, j] mod modulus``.

    For many bases and short exponents: signed buckets (Pippenger 1976), one column at a time.

    Exponents are an int64 array (rows, columns), below 2^61 in magnitude; negative ones are powers of the inverse. The
    products are *not* blinded anew: the caller does that before they leave the party.
    """
    if exponents.shape[0] != len(ciphertexts):
        raise ValueError(f"Rows of exponents must be one per ciphertext, {len(ciphertexts)}, got {exponents.shape[0]}.")
    if exponents.size and not -_LARGEST < int(exponents.min()) <= int(exponents.max()) < _LARGEST:
        raise ValueError("An exponent reaches 2^61 in magnitude; fixed-point features lie far below.")
    n, ring = _root(modulus), ring_for(modulus)
    if ring is not None:
        return bucket_products(ciphertexts, exponents, ring)
    bases = _both_signs(ciphertexts, n)
    return [_column_product(bases, np.ascontiguousarray(column), n) for column in exponents.T]


def products_by_bin(values: Sequence[mpz], places: IntArray, bins: int, modulus: mpz) -> list[mpz]:
    """For each bin the product of the values in it, 1 where there is none.

    ``places`` are int64 (values, columns) below ``bins``: each value counts once in the bin of each of its columns.
    """
    ring = ring_for(modulus)
    if ring is not None:
        return bin_products(values, places, bins, ring)
    products = [mpz(1)] * bins
    for value, bins_of_value in zip(values, places.tolist()):
        for place in bins_of_value:
            products[place] = products[place] * value % modulus
    return products


def few_bases_products(bases: Sequence[mpz], exponents: Sequence[Sequence[int]], modulus: mpz) -> list[mpz]:
    """For each row k of ``exponents`` the product over i of ``bases[i] ** exponents[k][i] mod modulus``.

    For few bases and many outputs: windows with tables that all outputs share (Straus 1964), digits signed and sparse.
    Exponents are signed integers of any size, and zeros cost nothing. As in `powers_product`, what is returned is *not*
    blinded anew.
    """
    if any(len(row) != len(bases) for row in exponents):
        raise ValueError(f"A row of exponents does not have one exponent for each of the {len(bases)} bases.")
    n = _root(modulus)
    ring = ring_for(modulus) if bases and len(exponents) >= _FEWEST_FOR_LANES else None
    if ring is not None:
        return window_products(bases, _inverses(bases, modulus), exponents, ring)
    bits = max((int(exponent).bit_length() for row in exponents for exponent in row), default=0)
    # 2^(w-1) table entries per base against bits / (w + 1) multiplications per output.
    outputs = len(exponents)
    width = min(range(2, 10), key=lambda w: _ENTRY_COST * (1 << (w - 1)) + outputs * bits / (w + 1))
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


def _column_product(bases: Split, exponents: IntArray, n: mpz) -> mpz:
    """Product for one column; ``bases`` holds the rows' values, then their inverses."""
    values, group_of_row = np.unique(exponents, return_inverse=True)
    if 4 * len(values) <= len(exponents):
        # A column of few values, as of a category: one multiplication per row instead of one per row and digit.
        merged = _both_signs(_merged(bases, group_of_row, len(values), n), n)
        return _bucket_product(merged, values, n)
    return _bucket_product(bases, exponents, n)


def _merged(bases: Split, group_of_row: IntArray, groups: int, n: mpz) -> list[mpz]:
    """One base per group of rows that share an exponent: the product of the rows' bases."""
    modulus, products, slopes = n**2, [mpz(1)] * groups, [mpz(0)] * groups
    for residue, slope, group in zip(bases.residues, bases.slopes, group_of_row.tolist()):
        products[group] = products[group] * residue % modulus
        slopes[group] += slope
    return [join(product, slope, n) for product, slope in zip(products, slopes)]


def _bucket_product(bases: Split, exponents: IntArray, n: mpz) -> mpz:
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


def _signed_digits(exponents: IntArray) -> tuple[int, list[IntArray]]:
    """An odd radix R and digits in [-(R - 1) / 2, (R - 1) / 2], least significant first."""
    largest = int(np.abs(exponents).max(initial=0))
    _, radix = min(_radices(largest), key=lambda choice: choice[0] * (len(exponents) + _FULL_COST * choice[1]))
    digits, half = [], radix // 2
    while exponents.any():
        shifted = exponents + half
        digits.append(shifted % radix - half)
        exponents = shifted // radix
    return radix, digits


def _radices(largest: int) -> Iterator[tuple[int, int]]:
    """Pairs (digits, radix): the smallest odd radix with which so many digits reach ``largest``."""
    for count in range(1, 64):
        radix = int(gmpy2.iroot(2 * largest, count)[0]) + 1 | 1
        yield count, radix
        if radix <= 3:
            return


def _level_product(residues: list[mpz], digits: IntArray, radix: int, modulus: mpz) -> mpz:
    """``prod_i c_i^digit_i``: every base is multiplied into the bucket of its digit."""
    used = np.flatnonzero(digits)
    at_base = np.where(digits[used] > 0, used, used + len(digits)).tolist()
    buckets: list[mpz | None] = [None] * (radix // 2 + 1)
    for base, bucket in zip(at_base, np.abs(digits[used]).tolist()):
        held = buckets[bucket]
        buckets[bucket] = residues[base] if held is None else held * residues[base] % modulus
    # prod_d buckets[d]^d by running products from the highest digit down.
    running, total = mpz(1), mpz(1)
    for held in reversed(buckets[1:]):
        if held is not None:
            running = running * held % modulus
        if running != 1:
            total = total * running % modulus
    return total


def _odd_powers(bases: Sequence[mpz], width: int, n: mpz) -> list[dict[int, tuple[mpz, mpz]]]:
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


def _shared_windows(tables: list[dict[int, tuple[mpz, mpz]]], exponents: Sequence[int], width: int, n: mpz) -> mpz:
    by_level: dict[int, list[mpz]] = {}
    slope, modulus = mpz(0), n**2
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


def _sparse_digits(exponent: int, width: int) -> Iterator[tuple[int, int]]:
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
