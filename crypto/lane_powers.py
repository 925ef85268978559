"""What `powers` computes, by the native kernel: comb, buckets and windows over whole products, eight of them at a time.

Values are not split into residues and slopes here, as they are for gmpy2: in Montgomery's form a product of full width is
cheap, and what splitting costs for each value is more than it saves. Results are the same numbers.
"""

from collections.abc import Sequence

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

from .kernel import IntArray, Ring, Rows

_AT_ONCE = 1024
"""Powers that walk through a table together: each of its parts then stays in the processor's cache."""
_COLUMNS_AT_ONCE = 4
"""Columns of exponents whose buckets are in memory together; with two digits and two signs they fill the lanes."""
_LONGEST = 64
"""Longer groups are multiplied in pieces, so that no lane waits for another one's long group."""
_BUCKET_COST = 2.0
"""Price of a bucket on either side of zero in products."""


class CombEntries:
    """The table of `powers.FixedBasePowers`, and the walk through it: see there for digits and parts.

    Each of ``parts`` holds the factors of one part of the table, of which a digit's bits choose a subset.
    """

    def __init__(self, parts: Sequence[Sequence[mpz]], columns: int, columns_of_a_part: int, ring: Ring) -> None:
        self._ring, self._steps = ring, min(columns_of_a_part, columns)
        inverses = [[gmpy2.invert(factor, ring.modulus) for factor in part] for part in parts]
        tables = (_subset_products(ring, of_parts) for of_parts in (parts, inverses))
        self._entries = ring.comb_entries(*tables)

    def powers(self, digits: npt.NDArray[np.uint16]) -> list[mpz]:
        """The powers with these digits, (count, columns)."""
        parts = len(self._entries)
        padded = np.zeros((len(digits), parts * self._steps), dtype=np.uint16)
        padded[:, : digits.shape[1]] = digits
        # The last column of each part is squared most often.
        walk = padded.reshape(len(digits), parts, self._steps).swapaxes(1, 2)[:, ::-1]
        spans = [walk[at : at + _AT_ONCE] for at in range(0, len(walk), _AT_ONCE)]
        return [power for span in spans for power in self._ring.leave(self._ring.comb_products(self._entries, span))]


def _subset_products(ring: Ring, parts: Sequence[Sequence[mpz]]) -> Rows:
    """Rows (parts, 2^bits): bit i of an index says whether factor i of the part is in the product."""
    bits, one = max(map(len, parts)), ring.enter([mpz(1)])[0]
    products = np.empty((len(parts), 1 << bits, len(one)), dtype=np.uint64)
    products[:, 0] = one
    for bit in range(bits):
        size = 1 << bit
        factors = ring.enter([part[bit] if bit < len(part) else mpz(1) for part in parts])
        for of_part, factor in zip(products, factors):
            of_part[size : 2 * size] = ring.products(of_part[:size], factor)
    return products


def bucket_products(values: Sequence[mpz], exponents: IntArray, ring: Ring) -> list[mpz]:
    """For each column j of ``exponents`` the product over i of ``values[i] ** exponents[i, j]``.

    Buckets (Pippenger 1976) for each column, digit and sign; negative exponents go through one inversion a column, and a
    value without an inverse raises ValueError.
    """
    rows = ring.enter(values)
    whole = _group_products(ring, rows, np.arange(len(rows)), np.zeros(1, dtype=np.int64), np.array([len(rows)]))
    if gmpy2.gcd(ring.leave(whole)[0], ring.modulus) != 1:
        raise ValueError("A ciphertext is not invertible modulo n^2; it was not made under this key.")
    largest = int(np.abs(exponents).max(initial=0))
    half, levels = _digits(largest, len(rows))
    products: list[mpz] = []
    for first in range(0, exponents.shape[1], _COLUMNS_AT_ONCE):
        columns = exponents[:, first : first + _COLUMNS_AT_ONCE].T
        sets = [buckets for column in columns for buckets in _buckets(ring, rows, column, half, levels)]
        totals = ring.leave(ring.weighted_products(np.stack(sets))) if sets else []
        for at in range(len(columns)):
            products.append(_joined(totals[2 * levels * at : 2 * levels * (at + 1)], 2 * half + 1, ring.modulus))
    return products


def bin_products(values: Sequence[mpz], places: IntArray, bins: int, ring: Ring) -> list[mpz]:
    """For each bin the product of the values in it; ``places`` are (values, columns) below ``bins``."""
    by_bin = np.argsort(places, axis=None, kind="stable")
    ends = np.cumsum(np.bincount(places.ravel(), minlength=bins))
    starts = np.concatenate([[0], ends[:-1]])
    return ring.leave(_group_products(ring, ring.enter(values), by_bin // max(places.shape[1], 1), starts, ends))


def _digits(largest: int, rows: int) -> tuple[int, int]:
    """(half, levels): digits in [-half, half] reach ``largest`` at the least cost; no levels where all exponents are 0."""
    choices = []
    for levels in range(1, 64 if largest else 1):
        half = int(gmpy2.iroot(2 * largest, levels)[0]) // 2 + 1
        choices.append((levels * (rows + 2 * _BUCKET_COST * half), half, levels))
        if half <= 2:
            break
    _, half, levels = min(choices, default=(0.0, 1, 0))
    return half, levels


def _buckets(ring: Ring, rows: Rows, exponents: IntArray, half: int, levels: int) -> list[Rows]:
    """For each digit, lowest first, the buckets of 1, ..., half, then those of -1, ..., -half."""
    radix, found = 2 * half + 1, []
    for _ in range(levels):
        shifted = exponents + half
        # Small numbers are sorted by counting.
        digits = (shifted % radix).astype(np.uint16 if radix < 1 << 16 else np.int64)
        exponents = shifted // radix
        ends = np.cumsum(np.bincount(digits, minlength=radix))
        starts = np.concatenate([[0], ends[:-1]])
        order = np.argsort(digits, kind="stable")
        places = np.concatenate([np.arange(half + 1, radix), np.arange(half - 1, -1, -1)])
        products = _group_products(ring, rows, order, starts[places], ends[places])
        found += [products[:half], products[half:]]
    return found


def _group_products(ring: Ring, rows: Rows, order: IntArray, starts: IntArray, ends: IntArray) -> Rows:
    """As `Ring.group_products`: lanes take pieces of nearly equal length, and long groups are put together of pieces."""
    pieces = np.maximum(-(-(ends - starts) // _LONGEST), 1)
    lasts = np.cumsum(pieces)
    group = np.repeat(np.arange(len(pieces)), pieces)
    first = starts[group] + _LONGEST * (np.arange(len(group)) - (lasts - pieces)[group])
    last = np.minimum(first + _LONGEST, ends[group])
    by_length = np.argsort(first - last, kind="stable")
    products = np.empty((len(group), rows.shape[1]), dtype=np.uint64)
    products[by_length] = ring.group_products(rows, order, first[by_length], last[by_length])
    if len(group) == len(pieces):
        return products
    return _group_products(ring, products, np.arange(len(products)), lasts - pieces, lasts)


def _joined(totals: Sequence[mpz], radix: int, modulus: mpz) -> mpz:
    """One column's product from the totals of its digits, lowest first, those of negative digits behind the others."""
    above, below = mpz(1), mpz(1)
    for at in range(len(totals) - 2, -1, -2):
        above = gmpy2.powmod(above, radix, modulus) * totals[at] % modulus
        below = gmpy2.powmod(below, radix, modulus) * totals[at + 1] % modulus
    return above * gmpy2.invert(below, modulus) % modulus


def window_products(
    bases: Sequence[mpz], inverses: Sequence[mpz], exponents: Sequence[Sequence[int]], ring: Ring
) -> list[mpz]:
    """For each row k of ``exponents`` the product over i of ``bases[i] ** exponents[k][i]``, with at least one base.

    Windows of equal width (Straus 1964). A table holds the powers from -half to half - 1, so an exponent's digits are those
    of its sum with half in every place, and none is negative. That half takes up to two thirds of what the places hold,
    and an exponent a quarter, hence the two bits more.
    """
    bits = 2 + max(int(exponent).bit_length() for row in exponents for exponent in row)
    # Beside a product each digit takes the reading of its whole table.
    width = min(range(2, 9), key=lambda w: len(bases) * ((1 << w) + len(exponents) * bits / w * (1 + (1 << w) / 256)))
    steps, half = -(-bits // width), 1 << width - 1
    rows, power = ring.enter(bases), ring.enter([gmpy2.powmod(each, half, ring.modulus) for each in inverses])
    entries = [power]
    for _ in range(2 * half - 1):
        entries.append(ring.products(entries[-1], rows))
    places, mask = range(width * (steps - 1), -1, -width), 2 * half - 1
    offset = sum(half << place for place in places)
    digits = [[[(int(exponent) + offset) >> place & mask for exponent in row] for place in places] for row in exponents]
    return ring.leave(ring.table_products(np.stack(entries, axis=1), np.array(digits, dtype=np.uint16), width))
