"""Products modulo odd numbers: all of small ones, the edges of the limbs, and drawn cases, against gmpy2 and Python's integers."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Sequence
from functools import partial
from math import gcd, prod

import numpy as np
from gmpy2 import invert, mpz, powmod

from fate_dp.crypto.kernel import Ring, Rows, fits

from .tally import Tally

LIMB = 52
SPARE = 4
"""Bits by which limbs exceed a modulus of pairs; 2 for the others."""
LIMBS_AT_EDGES = (4, 5, 12, 13, 14, 15, 20, 39, 40, 41, 80, 159, 160)
"""Those with a copy of their own, odd and even ones, one word less and more than a register has, and the most of pairs."""


def exhaustive(tally: Tally, library: ctypes.CDLL, below: int = 64, squares_below: int = 24) -> None:
    """All products and squares below all odd moduli below 64 and their squares below 24^2; powers to 39."""
    for n in range(3, below, 2):
        for modulus in (n, n * n) if n < squares_below else (n,):
            ring, values = Ring(modulus, library), [mpz(value) for value in range(modulus)]
            rows = ring.enter(values)
            for value in range(modulus):
                found = ring.leave(ring.products(rows, rows[value]))
                tally.same("products", (modulus, value), found, [value * other % modulus for other in range(modulus)])
            tally.same("products", modulus, ring.leave(ring.products(rows, rows)), [v * v % modulus for v in values])
            for exponent in range(40):
                expected = [powmod(value, exponent, modulus) for value in values]
                tally.same("powers", (modulus, exponent), ring.leave(ring.powers(rows, exponent)), expected)


def rings_at_edges(library: ctypes.CDLL, limbs: Sequence[int], reach: int = 4) -> Iterator[Ring]:
    """Moduli and squares of so many limbs less the spare bits, give or take some: all ones, one more than a power, and between."""
    for many in limbs:
        for bits in range(LIMB * many - SPARE - reach, LIMB * many + reach + 1):
            for root in ((1 << bits) - 1, (1 << bits - 1) + 1, (1 << bits) - (1 << bits // 2) - 1):
                yield from (Ring(modulus, library) for modulus in (root, root**2) if fits(modulus, library))


def widest_rings(library: ctypes.CDLL) -> Iterator[Ring]:
    """The most limbs that there are, full of ones: each sum of products has the most terms, and each the greatest."""
    most = library.kernel_max_limbs()
    yield Ring((1 << LIMB * most - 2) - 1, library)
    yield Ring(((1 << LIMB * most // 2 - SPARE) - 1) ** 2, library)


class Raw:
    """Rows of a ring as words, with the greatest parts that a product may leave, which `Ring.enter` does not give.

    Attributes:
        rows: (count, stride); every part is below twice the root.
        values: what they stand for.
    """

    def __init__(self, ring: Ring, count: int, draw: random.Random) -> None:
        form, root = ring._form, int(ring._form.root)
        full = (1 << 2 * root.bit_length()) - 1
        greatest = [2 * root - 1, 2 * root - 2, root, root - 1, root + 1, 0, 1]
        # All limbs full of ones, but for the highest.
        greatest += [full & (1 << LIMB * (form.limbs - 1)) - 1, full & (1 << root.bit_length()) - 1]
        greatest = [part for part in greatest if part < 2 * root]
        chosen = [draw.choice(greatest) if draw.random() < 0.8 else draw.randrange(2 * root) for _ in range(2 * count)]
        # The greatest of all stand first, beside each other.
        chosen[: 2 * form.parts] = [2 * root - 1] * (2 * form.parts)
        self.parts = [chosen[form.parts * at : form.parts * (at + 1)] for at in range(count)]
        self.rows = _as_rows(ring, self.parts)
        self.values = [_value(ring, *parts) for parts in self.parts]

    def comb_values(self, ring: Ring) -> list[mpz]:
        """What the rows stand for as entries of a comb: r (1 + s root)."""
        slopes = [_value(ring, slope, 0) for _, slope in self.parts]
        units = [_value(ring, residue, 0) for residue, _ in self.parts]
        return [unit * (1 + slope * ring._form.root) % ring.modulus for unit, slope in zip(units, slopes)]


def _value(ring: Ring, low: int, high: int = 0) -> mpz:
    radix = mpz(1) << LIMB * ring._form.limbs
    return (low + high * ring._form.root) * invert(radix, ring.modulus) % ring.modulus


def _as_rows(ring: Ring, parts: Sequence[Sequence[int]]) -> Rows:
    form, mask = ring._form, (1 << LIMB) - 1
    words = [
        [part >> LIMB * at & mask if at < form.limbs else 0 for part in of_row for at in range(form.part)]
        for of_row in parts
    ]
    return np.array(words, dtype=np.uint64)


def compare(tally: Tally, kind: str, ring: Ring, rows: Rows, values: Sequence[mpz], draw: random.Random) -> None:
    """All functions of a ring on rows and what they stand for, with drawn digits, orders, groups and exponents."""
    n, count = ring.modulus, len(values)
    what = f"a modulus of {n.bit_length()} bits, {n % 2**32:x} at its end"
    # A copy, since one row times itself in the same memory is a square.
    others, turned = rows[::-1].copy(), list(values)[::-1]

    def check(name: str, found: Rows, expected: Sequence[mpz]) -> None:
        tally.same(kind, f"{name}, {what}", ring.leave(found), [value % n for value in expected])

    check("products", ring.products(rows, others), [a * b for a, b in zip(values, turned)])
    check("squares", ring.powers(rows, 2), [a * a for a in values])
    check("by one row", ring.products(rows, rows[0]), [a * values[0] for a in values])
    exponent = draw.choice([0, 1, 15, 16, 17, draw.getrandbits(30), (1 << 33) - 1])
    check(f"powers {exponent}", ring.powers(rows, exponent), [powmod(a, exponent, n) for a in values])
    # Each result is a factor of the next one, so that parts keep what they are left with.
    chain, expected = rows, list(values)
    for _ in range(6):
        chain, expected = (
            ring.products(ring.powers(chain, 2), others),
            [a * a * b % n for a, b in zip(expected, turned)],
        )
    check("chains", chain, expected)
    tables, steps, squarings, powers = (draw.randint(*ends) for ends in ((1, 3), (1, 4), (0, 3), (1, 17)))
    digits = np.array([draw.randrange(count) for _ in range(powers * steps * tables)]).reshape(powers, steps, tables)
    walked = partial(_walked, digits=digits.tolist(), modulus=n)
    entries = np.stack([rows] * tables)
    check("tables", ring.table_products(entries, digits, squarings), walked(values, squarings=squarings))
    order = np.array([draw.randrange(count) for _ in range(40)])
    bounds = np.array(sorted(draw.randrange(41) for _ in range(13)))
    grouped = [prod([values[at] for at in order[a:b].tolist()]) for a, b in zip(bounds, bounds[1:])]
    check("groups", ring.group_products(rows, order, bounds[:-1], bounds[1:]), grouped)
    weighted = [prod(powmod(value, weight, n) for weight, value in enumerate(each, 1)) for each in (values, turned)]
    check("weighted", ring.weighted_products(np.stack([rows, others])), weighted)


def _walked(values: Sequence[mpz], *, digits: list[list[list[int]]], modulus: mpz, squarings: int) -> list[mpz]:
    products = []
    for steps in digits:
        product = mpz(1)
        for step in steps:
            product = powmod(product, 1 << squarings, modulus)
            for digit in step:
                product = product * values[digit] % modulus
        products.append(product)
    return products


def compare_combs(tally: Tally, kind: str, ring: Ring, draw: random.Random, shape: tuple[int, int, int]) -> None:
    """Walks of (count, steps, tables) through raw entries whose slopes are the greatest."""
    raw = Raw(ring, 9, draw)
    count, steps, tables = shape
    digits = np.array([draw.randrange(9) for _ in range(count * steps * tables)]).reshape(shape)
    # The first power takes the greatest slope in every place.
    digits[0] = 0
    found = ring.comb_products(np.broadcast_to(raw.rows, (tables, *raw.rows.shape)), digits)
    expected = _walked(raw.comb_values(ring), digits=digits.tolist(), modulus=ring.modulus, squarings=1)
    tally.same(kind, f"combs of {shape}, a root of {ring._form.root.bit_length()} bits", ring.leave(found), expected)


def edges(tally: Tally, library: ctypes.CDLL, seed: int, limbs: Sequence[int], reach: int = 4) -> None:
    """Every function at the greatest words that it may meet, for moduli at the edges of the limbs."""
    draw = random.Random(seed)
    for ring in (*rings_at_edges(library, limbs, reach), *widest_rings(library)):
        raw = Raw(ring, 17, draw)
        compare(tally, "at edges", ring, raw.rows, raw.values, draw)
        if ring.has_pairs:
            compare_combs(tally, "at edges", ring, draw, (9, draw.randint(1, 9), draw.randint(1, 20)))
    # As many tables as a comb may have, and more steps than any has: the sums of slopes, where the highest limb has all its bits.
    for ring in (Ring(((1 << LIMB * many - SPARE) - 1) ** 2, library) for many in (4, 13)):
        compare_combs(tally, "at edges", ring, draw, (1, 3, 1 << 10))
        compare_combs(tally, "at edges", ring, draw, (1, 70, 2))


def drawn(tally: Tally, library: ctypes.CDLL, seed: int, rings: int, most_bits: int) -> None:
    """Drawn moduli of up to so many bits, and numbers that enter the ordinary way."""
    draw = random.Random(seed)
    for _ in range(rings):
        bits = draw.choice([draw.randrange(2, most_bits), draw.randrange(2, 300)])
        root = draw.choice([(1 << bits) - 1, (1 << bits) + 1, draw.getrandbits(bits) | 1 << bits - 1 | 1])
        ring = Ring(max(root, 3) ** draw.choice([1, 2]), library)
        n, of_ring = ring.modulus, int(ring._form.root)
        often = [0, 1, n - 1, of_ring % n, of_ring - 1, n // 2]
        count = draw.choice([1, 7, 8, 9, 24])
        values = [mpz(draw.choice(often) if draw.random() < 0.4 else draw.randrange(int(n))) for _ in range(count)]
        rows = ring.enter(values)
        tally.same("drawn", n, ring.leave(rows), values)
        compare(tally, "drawn", ring, rows, values, draw)
        if not ring.has_pairs:
            continue
        units = [value if gcd(value, n) == 1 else mpz(1) for value in values]
        entries = (np.stack([ring.enter(each)] * 3) for each in (units, [invert(unit, n) for unit in units]))
        digits = np.array([draw.randrange(count) for _ in range(5 * 2 * 3)]).reshape(5, 2, 3)
        walked = _walked(units, digits=digits.tolist(), modulus=n, squarings=1)
        tally.same("drawn", ("comb", n), ring.leave(ring.comb_products(ring.comb_entries(*entries), digits)), walked)
