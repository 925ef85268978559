"""Powers of one base modulo a square, from a table that is laid down once (Brickell and others 1992)."""
import secrets
from typing import List, Tuple

import gmpy2
import numpy as np
from gmpy2 import mpz

from .split_residues import join, split

_AT_ONCE = 1024
"""Powers that walk through the table together: each of its rows then stays in the processor's cache."""
_ENTRY_COST = 1.5
"""Price of a table entry in multiplications."""


class FixedBasePowers:
    """Powers of ``base`` modulo ``root^2`` with random exponents below ``2^exponent_bits``.

    Digit k of width w selects ``base^(d 2^(w k))``; a power is one multiplication per digit, by entries that are split
    (see `split_residues`) and so half as wide as the modulus.
    """

    def __init__(self, base: mpz, root: mpz, exponent_bits: int, window: int):
        self._root = root
        self._widths = [min(window, exponent_bits - at) for at in range(0, exponent_bits, window)]
        self._rows: List[Tuple[List[mpz], List[mpz]]] = []
        for width in self._widths:
            self._rows.append(_powers_below(base, 1 << width, root))
            base = gmpy2.powmod(base, 1 << width, root**2)

    def random_digits(self, count: int) -> np.ndarray:
        """Digits of ``count`` exponents, each uniform below ``2^exponent_bits``, from operating-system entropy.

        Shape (count, digits), least significant first; bases with exponents of equal length can share them.
        """
        entropy = np.frombuffer(secrets.token_bytes(2 * count * len(self._widths)), dtype=np.uint16)
        masks = np.array([(1 << width) - 1 for width in self._widths], dtype=np.uint16)
        return entropy.reshape(count, len(self._widths)) & masks

    def powers(self, digits: np.ndarray) -> List[mpz]:
        """``base^e mod root^2`` for each of the exponents with these digits."""
        return [power for at in range(0, len(digits), _AT_ONCE) for power in self._together(digits[at : at + _AT_ONCE])]

    def _together(self, digits: np.ndarray) -> List[mpz]:
        modulus = self._root**2
        products, slopes = [mpz(1)] * len(digits), [mpz(0)] * len(digits)
        for (row_residues, row_slopes), row_digits in zip(self._rows, digits.T.tolist()):
            products = [product * row_residues[digit] % modulus for product, digit in zip(products, row_digits)]
            slopes = [slope + row_slopes[digit] for slope, digit in zip(slopes, row_digits)]
        return [join(product, slope, self._root) for product, slope in zip(products, slopes)]


def window_bits(expected: int) -> int:
    """Bits of a digit that make ``expected`` powers cheapest, their table included; 10 bits take 80 MB."""
    return min(range(4, 11), key=lambda width: (_ENTRY_COST * (1 << width) + expected) / width)


def _powers_below(base: mpz, count: int, root: mpz) -> Tuple[List[mpz], List[mpz]]:
    """Residues and slopes of ``base^0, ..., base^(count - 1)``: a product of split values, split anew at each step.

    ``r r' = q root + r'' = r'' (1 + q / r'' root)``, so the slopes add up with ``q / r''``.
    """
    (first,), (first_slope,) = split([base], root)
    first_inverse = gmpy2.invert(first, root)
    residue, slope, inverse = mpz(1), mpz(0), mpz(1)
    residues, slopes = [residue], [slope]
    for _ in range(count - 1):
        quotient, residue = gmpy2.f_divmod(residue * first, root)
        inverse = inverse * first_inverse % root
        slope = (slope + first_slope + quotient * inverse) % root
        residues.append(residue)
        slopes.append(slope)
    return residues, slopes
