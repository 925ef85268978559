"""Powers of given bases modulo a square, from a table that is laid down once: a comb (Lim and Lee 1994)."""
import secrets
from typing import Iterator, List, Sequence, Tuple

import gmpy2
import numpy as np
from gmpy2 import mpz

from .split_residues import join, split_with_inverses

_AT_ONCE = 1024
"""Powers that walk through the table together: each of its parts then stays in the processor's cache."""
_COLUMNS_OF_A_PART = 8
"""So many columns of the comb share one part of the table, for as many squarings less one."""
_ENTRY_COST = 2.5
"""Price of a table entry in multiplications."""
_HEIGHTS = range(4, 12)
"""Higher tables leave the processor's cache, and what they save in multiplications is lost again."""


class FixedBasePowers:
    """Products of powers of the bases modulo ``root^2`` with random exponents, ``exponent_bits`` long in all.

    The exponent bits lie one after the other, those of the first base first; each base has about as many. They stand in a
    rectangle, row by row; a column of it is one digit, whose bits lie a row's length apart. A power takes one
    multiplication per digit, by entries that are split (see `split_residues`) and so half as wide as the modulus, and a few
    squarings: one part of the table serves eight columns beside each other.
    """

    def __init__(self, bases: Sequence[mpz], root: mpz, exponent_bits: int, height: int):
        """
        Args:
            height: rows of the rectangle, see `comb_height`; only the speed depends on it.
        """
        self._root = root
        columns = -(-exponent_bits // height)
        self._widths = [len(range(column, exponent_bits, columns)) for column in range(columns)]
        firsts = range(0, columns, _COLUMNS_OF_A_PART)
        places = [at for first in firsts for at in range(first, exponent_bits, columns)]
        powers = dict(_powers_at(bases, root**2, places, -(-exponent_bits // len(bases))))
        self._parts = [_products([powers[at] for at in range(first, exponent_bits, columns)], root) for first in firsts]

    def random_digits(self, count: int) -> np.ndarray:
        """Digits of ``count`` exponents, each uniform below ``2^exponent_bits``, from operating-system entropy.

        Shape (count, digits): bit i of digit k is bit ``i digits + k`` of the exponent. Tables for exponents of
        equal length can share them.
        """
        entropy = np.frombuffer(secrets.token_bytes(2 * count * len(self._widths)), dtype=np.uint16)
        masks = np.array([(1 << width) - 1 for width in self._widths], dtype=np.uint16)
        return entropy.reshape(count, len(self._widths)) & masks

    def powers(self, digits: np.ndarray) -> List[mpz]:
        """The product of powers for each of the exponents with these digits."""
        return [power for at in range(0, len(digits), _AT_ONCE) for power in self._together(digits[at : at + _AT_ONCE])]

    def _together(self, digits: np.ndarray) -> List[mpz]:
        modulus, columns = self._root**2, digits.T.tolist()
        products, slopes = [mpz(1)] * len(digits), [mpz(0)] * len(digits)
        for offset in reversed(range(min(_COLUMNS_OF_A_PART, len(columns)))):
            products = [product * product % modulus for product in products]
            slopes = [2 * slope for slope in slopes]
            for (residues, part_slopes), column in zip(self._parts, columns[offset::_COLUMNS_OF_A_PART]):
                products = [product * residues[digit] % modulus for product, digit in zip(products, column)]
                slopes = [slope + part_slopes[digit] for slope, digit in zip(slopes, column)]
        return [join(product, slope, self._root) for product, slope in zip(products, slopes)]


def comb_height(expected: int) -> int:
    """Rows of a comb that make ``expected`` powers cheapest, their table included; 11 rows take 15 MB at 2048 bits."""
    return min(_HEIGHTS, key=lambda height: (_ENTRY_COST * (1 << height) / _COLUMNS_OF_A_PART + expected) / height)


def _powers_at(
    bases: Sequence[mpz], modulus: mpz, places: Sequence[int], bits_of_each: int
) -> Iterator[Tuple[int, mpz]]:
    """(place, the power of its base that a bit there counts) for all places; a base's first place counts 1."""
    at, reached, power = -1, 0, mpz(1)
    for place in sorted(places):
        if place // bits_of_each != at:
            at = place // bits_of_each
            reached, power = place, bases[at]
        power = gmpy2.powmod(power, 1 << place - reached, modulus)
        reached = place
        yield place, power


def _products(factors: List[mpz], root: mpz) -> Tuple[List[mpz], List[mpz]]:
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
