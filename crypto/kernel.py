"""The native kernel: products modulo one odd number or its square, eight at a time, where the processor has AVX-512 IFMA.

`native/montgomery.c` says how they are computed, and what of it takes constant time. It is optional: without a compiler at
installation, on another processor, with ``FATE_DP_KERNEL=off``, or if it ever differs from gmpy2 in the check at the
start of a process, `ring_for` gives None, gmpy2 computes the same numbers, and one line in the log says why.

A look around for a library came first. OpenSSL and Intel's cryptography library (``crypto_mb``) have such products inside,
but what they export are whole powers, one exponent for each base; a comb, buckets and windows need the products.
"""

import ctypes
import importlib
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from operator import index
from typing import Any

import gmpy2
import numpy as np
import numpy.typing as npt
from gmpy2 import mpz

IntArray = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint64]
"""Numbers as rows of limbs, in the form in which they are multiplied; of one `Ring`."""

SWITCH = "FATE_DP_KERNEL"
"""Environment variable: ``off`` leaves the kernel unused."""
_MODULE = "fate_dp.crypto._montgomery"
_LIMB_BITS = 52
_LANES = 8
_SPARE_BITS, _SPARE_BITS_OF_PAIRS = 2, 4
"""By which the limbs hold more than the modulus."""
_WINDOW = 4
"""Bits of an exponent's digit, as in the C file."""
_MAX_TABLES = 1 << 10
"""Of a comb, whose sums of slopes stay within their words then."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Kernel:
    """The library, or None, and a sentence that says which and why."""

    library: ctypes.CDLL | None
    sentence: str


@lru_cache(maxsize=1)
def kernel() -> Kernel:
    """Whether this process computes with the native kernel; looked up and checked once."""
    found = _found()
    logger.info(found.sentence)
    return found


def ring_for(modulus: int) -> "Ring | None":
    """Arithmetic modulo an odd number by the kernel, or None where gmpy2 is to be used."""
    library = kernel().library
    return None if library is None or not fits(modulus, library) else Ring(modulus, library)


def fits(modulus: int, library: ctypes.CDLL) -> bool:
    return bool(modulus % 2) and modulus > 1 and _Form.of(modulus).stride <= library.kernel_max_limbs()


def is_wanted() -> bool:
    """Whether the environment leaves native code in use; ValueError if it says neither."""
    switch = os.environ.get(SWITCH, "")
    if switch not in ("", "on", "off"):
        raise ValueError(f"{SWITCH} must be on (the default) or off, got {switch!r}.")
    return switch != "off"


def _found() -> Kernel:
    if not is_wanted():
        return Kernel(None, f"The native kernel is switched off by {SWITCH}; gmpy2 computes instead.")
    try:
        path = importlib.import_module(_MODULE).__file__
        library = ctypes.CDLL(path)
    except (ImportError, OSError) as error:
        return Kernel(None, f"The native kernel was not built or cannot be loaded ({error}); gmpy2 computes instead.")
    if not library.kernel_supported():
        return Kernel(None, "This processor has no AVX-512 IFMA for the native kernel; gmpy2 computes instead.")
    return checked(library)


def checked(library: ctypes.CDLL) -> Kernel:
    """The kernel if it agrees with gmpy2 on random and extreme values, for moduli of 1024 to 4096 bits; milliseconds."""
    for bits, power in ((1024, 1), (2048, 1), (672, 2), (704, 2), (2048, 2)):
        root = secrets.randbits(bits) | 1 << bits - 1 | 1
        if not _agrees(Ring(root**power, library)):
            square = "in squares at" if power == 2 else "at"
            sentence = f"The native kernel differs from gmpy2 {square} {bits} bits; gmpy2 computes instead."
            logger.warning(sentence)
            return Kernel(None, sentence)
    return Kernel(library, "The native kernel computes products, with AVX-512 IFMA.")


def _agrees(ring: "Ring") -> bool:
    modulus, count = ring.modulus, 11
    root = gmpy2.isqrt(modulus)
    values = [mpz(0), mpz(1), modulus - 1, root, root - 1]
    values += [mpz(secrets.randbelow(int(modulus))) for _ in range(count - len(values))]
    rows, exponent = ring.enter(values), secrets.randbits(64)
    # Every power is made of three steps with two tables, both of which hold the values.
    digits = (np.arange(6 * count) % count).astype(np.uint16).reshape(count, 3, 2)
    steps = [[values[left] * values[right] for left, right in of_one] for of_one in digits.tolist()]
    reversed_order, bounds = np.arange(count)[::-1], np.array([0, 1, 1, count])
    weighted = prod(gmpy2.powmod(value, weight, modulus) for weight, value in enumerate(values[1:], 1))
    pairs = [
        (ring.products(rows, rows[::-1]), [left * right for left, right in zip(values, values[::-1])]),
        (ring.products(rows, rows[2]), [-value for value in values]),
        (ring.powers(rows, exponent), [gmpy2.powmod(value, exponent, modulus) for value in values]),
        (ring.table_products(np.stack([rows, rows]), digits, 2), [(a**4 * b) ** 4 * c for a, b, c in steps]),
        (ring.group_products(rows, reversed_order, bounds[:-1], bounds[1:]), [values[-1], mpz(1), prod(values[:-1])]),
        (ring.weighted_products(rows[np.newaxis, 1:]), [weighted]),
    ]
    if ring.has_pairs:
        units = [_unit(root) + root * secrets.randbits(64) for _ in range(count)]
        split = ring.comb_entries(
            *(np.stack([ring.enter(each)] * 2) for each in (units, [gmpy2.invert(unit, modulus) for unit in units]))
        )
        walked = [[units[left] * units[right] % modulus for left, right in of_one] for of_one in digits.tolist()]
        pairs.append((ring.comb_products(split, digits), [(a**2 * b) ** 2 * c for a, b, c in walked]))
    return all(ring.leave(found) == [value % modulus for value in expected] for found, expected in pairs)


def _unit(modulus: mpz) -> mpz:
    """A random number that has an inverse; most have one, and a prime modulus would take longer to find than all checks."""
    while True:
        unit = mpz(secrets.randbelow(int(modulus)))
        if gmpy2.gcd(unit, modulus) == 1:
            return unit


class _RingStruct(ctypes.Structure):
    """`ring_t` of the C file."""

    _fields_ = [
        ("limbs", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("part", ctypes.c_int64),
        ("negative_inverse", ctypes.c_uint64),
        ("modulus", ctypes.c_void_p),
        ("one", ctypes.c_void_p),
        ("one_minus_r", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class _Form:
    """How numbers modulo one modulus are laid out: in one part, or modulo a square in two, ``x + y root``.

    Two parts take half of the work or little more: products of parts are a quarter as large, and three or two suffice.
    A part has four or more ``limbs`` in ``part`` words, and is reduced by ``root``.
    """

    root: mpz
    parts: int
    limbs: int
    part: int

    @classmethod
    def of(cls, modulus: int) -> "_Form":
        root, rest = gmpy2.isqrt_rem(mpz(modulus))
        root, parts, spare = (mpz(modulus), 1, _SPARE_BITS) if rest else (root, 2, _SPARE_BITS_OF_PAIRS)
        limbs = -(-(root.bit_length() + spare) // _LIMB_BITS)
        limbs = max(limbs, 4)
        return cls(root, parts, limbs, -(-limbs // _LANES) * _LANES)

    @property
    def stride(self) -> int:
        """Words of a row."""
        return self.parts * self.part


class Ring:
    """Batches of numbers modulo one odd modulus, which may be secret: `Rows` of shape (count, stride).

    Results are exact, and the same as gmpy2's. Only `enter` and `leave` see plain numbers.
    """

    def __init__(self, modulus: int, library: ctypes.CDLL) -> None:
        if not fits(modulus, library):
            raise ValueError(f"The kernel takes odd moduli of at most {library.kernel_max_limbs()} limbs of 52 bits.")
        self.modulus, self._form, self._library = mpz(modulus), _Form.of(modulus), library
        root, self._stride = self._form.root, self._form.stride
        # What leaves may exceed the root by two.
        self._words = -(-(root + 2).bit_length() // 64)
        radix = mpz(1) << _LIMB_BITS * self._form.limbs
        inverse = int(-gmpy2.invert(root, mpz(1) << _LIMB_BITS) % (1 << _LIMB_BITS))
        self._struct = _RingStruct(self._form.limbs, self._stride, self._form.part, inverse, None, None, None)
        self._constants = self._parts([root, (1 - radix) % root])
        self._plain_one, self.one, self._entering = self._limbs([mpz(1), radix % self.modulus, radix**2 % self.modulus])
        self._struct.modulus, self._struct.one_minus_r = (row.ctypes.data for row in self._constants)
        self._struct.one = self.one.ctypes.data

    @property
    def has_pairs(self) -> bool:
        """Whether the modulus is a square, so that numbers have two parts."""
        return self._form.parts == 2

    def enter(self, values: Sequence[mpz]) -> Rows:
        """Numbers in [0, modulus), as rows."""
        return self.products(self._limbs(values), self._entering)

    def leave(self, rows: Rows) -> list[mpz]:
        """The numbers that rows stand for, in [0, modulus)."""
        reduced, width = self.products(rows, self._plain_one), 8 * self._words
        words = np.empty((len(rows) * self._form.parts, self._words), dtype=np.uint64)
        self._call("to_words", words, reduced, self._words, len(words))
        data = words.tobytes()
        parts = [mpz(int.from_bytes(data[at : at + width], "little")) for at in range(0, len(data), width)]
        if self._form.parts == 1:
            # A multiple of the modulus that is not the row of zeros leaves as the modulus itself.
            return [mpz(0) if part == self.modulus else part for part in parts]
        root, modulus = self._form.root, self.modulus
        numbers = (low + high * root for low, high in zip(parts[::2], parts[1::2]))
        return [number % modulus if number >= modulus else number for number in numbers]

    def products(self, rows: Rows, others: Rows) -> Rows:
        """Each row times its partner in ``others``, or times the one row that ``others`` is."""
        left, right = self._rows(rows, 2), self._rows(others, 1 if np.ndim(others) == 1 else 2)
        if right.shape not in (left.shape, (self._stride,)):
            raise ValueError(
                f"The other rows must have the shape {left.shape} or ({self._stride},), got {right.shape}."
            )
        return self._made("products", len(left), left, right, int(right.ndim == 2), len(left))

    def table_products(self, entries: Rows, digits: npt.NDArray[np.uint16], squarings: int) -> Rows:
        """For each i the product over steps s and tables t of ``entries[t, digits[i, s, t]]``.

        What the earlier steps gave is squared ``squarings`` times before each further step. Entries have the shape
        (tables, height, stride), digits (count, steps, tables), with at least one step and one table. All entries are
        read for each digit, so that time and caches do not show which one it names.
        """
        held = self._rows(entries, 3)
        tables, height = held.shape[:2]
        if not 0 <= squarings < 1 << 16:
            raise ValueError(f"squarings must lie in [0, 65536), got {squarings}.")
        taken = self._taken(digits, tables, height)
        walk = (held, tables, height, taken, taken.shape[1], squarings, len(taken))
        return self._made("table_products", len(taken), *walk)

    @staticmethod
    def _taken(digits: npt.NDArray[np.integer[Any]], tables: int, height: int) -> npt.NDArray[np.uint16]:
        taken = _indices("digits", digits, min(height, 1 << 16), 3)
        if not taken.shape[1] or not tables or taken.shape[2] != tables:
            raise ValueError(f"digits must have the shape (count, steps, {max(tables, 1)}), got {taken.shape}.")
        return taken.astype(np.uint16)

    def comb_entries(self, entries: Rows, inverses: Rows) -> Rows:
        """For `comb_products`, modulo a square: entries ``e = r (1 + s root)`` given with their inverses, as rows of r and s."""
        slopes, others, part = np.array(self._rows(entries, 3)), self._rows(inverses, 3), self._form.part
        self._refuse_unless_pairs()
        slopes[..., :part] = 0
        split = self.products(slopes.reshape(-1, self._stride), others.reshape(-1, self._stride))
        split = split.reshape(entries.shape)
        split[..., :part] = entries[..., :part]
        return split

    def comb_products(self, entries: Rows, digits: npt.NDArray[np.uint16]) -> Rows:
        """As `table_products` with one squaring, of `comb_entries`: one part of a product is saved.

        Which entries are read leaves traces in the processor's caches.
        """
        self._refuse_unless_pairs()
        held = self._rows(entries, 3)
        tables, height = held.shape[:2]
        if tables > _MAX_TABLES:
            raise ValueError(f"A comb must have at most {_MAX_TABLES} tables, got {tables}.")
        taken = self._taken(digits, tables, height)
        sums = np.zeros((len(taken), self._form.part), dtype=np.uint64)
        walk = (sums, held, tables, height, taken, taken.shape[1], len(taken))
        return self._made("comb_products", len(taken), *walk)

    def _refuse_unless_pairs(self) -> None:
        if not self.has_pairs:
            raise ValueError(f"The modulus must be a square for a comb, got one of {self.modulus.bit_length()} bits.")

    def group_products(self, rows: Rows, order: IntArray, starts: IntArray, ends: IntArray) -> Rows:
        """For each g the product of ``rows[order[i]]`` over ``starts[g] <= i < ends[g]``; one for an empty group.

        Eight groups that stand beside each other take as long as the longest of them.
        """
        held = self._rows(rows, 2)
        taken = _indices("order", order, len(held), 1)
        first, last = (_indices(name, each, len(taken) + 1, 1) for name, each in (("starts", starts), ("ends", ends)))
        if first.shape != last.shape or not (first <= last).all():
            raise ValueError(f"ends must be at or behind the {len(first)} starts, one for each, got {len(last)} ends.")
        return self._made("group_products", len(first), held, taken, first, last, len(first))

    def weighted_products(self, buckets: Rows) -> Rows:
        """For each set s the product over d of ``buckets[s, d] ** (d + 1)``; buckets are (sets, height, stride)."""
        held = self._rows(buckets, 3)
        sets, height = held.shape[:2]
        if not height:
            raise ValueError("A set must have at least one bucket, got 0.")
        return self._made("weighted_products", sets, held, height, sets)

    def powers(self, rows: Rows, exponent: int) -> Rows:
        """Every row to the power of one exponent >= 0. Of that and of the rows time and caches show its length alone."""
        if exponent < 0:
            raise ValueError("exponent must be 0 or more, got a negative one; take the inverse to its magnitude.")
        held = self._rows(rows, 2)
        places = range((max(exponent.bit_length(), 1) - 1) // _WINDOW * _WINDOW, -1, -_WINDOW)
        digits = np.array([exponent >> place & (1 << _WINDOW) - 1 for place in places], dtype=np.uint8)
        return self._made("powers", len(held), held, digits, len(digits), len(held))

    def _limbs(self, values: Sequence[mpz]) -> Rows:
        if any(not 0 <= value <= self.modulus for value in values):
            raise ValueError("Numbers must lie in [0, modulus), got one outside.")
        if self._form.parts == 2:
            pairs = [gmpy2.f_divmod(value, self._form.root) for value in values]
            values = [part for high, low in pairs for part in (low, high)]
        return self._parts(values).reshape(-1, self._stride)

    def _parts(self, values: Sequence[mpz]) -> Rows:
        data = b"".join(index(value).to_bytes(8 * self._words, "little") for value in values)
        out = np.empty((len(values), self._form.part), dtype=np.uint64)
        self._call("to_limbs", out, np.frombuffer(data, dtype=np.uint64), self._words, len(values))
        return out

    def _rows(self, rows: Rows, axes: int) -> Rows:
        if not isinstance(rows, np.ndarray) or rows.dtype != np.uint64 or rows.ndim != axes:
            kind = getattr(rows, "dtype", type(rows).__name__)
            raise ValueError(f"Rows must be an array of uint64 of {axes} axes, got {kind} of {np.ndim(rows)}.")
        if rows.shape[-1] != self._stride:
            raise ValueError(f"Rows of this ring must have {self._stride} words, got {rows.shape[-1]}.")
        return np.ascontiguousarray(rows)

    def _made(self, name: str, count: int, *arguments: int | npt.NDArray[np.generic]) -> Rows:
        out = np.empty((count, self._stride), dtype=np.uint64)
        self._call(name, out, *arguments)
        return out

    def _call(self, name: str, *arguments: int | npt.NDArray[np.generic]) -> None:
        function = getattr(self._library, f"kernel_{name}")
        passed = [
            ctypes.c_void_p(each.ctypes.data) if isinstance(each, np.ndarray) else ctypes.c_int64(each)
            for each in arguments
        ]
        function(*passed, ctypes.byref(self._struct))


def _indices(name: str, values: npt.NDArray[np.integer[Any]], limit: int, axes: int) -> IntArray:
    """Whole numbers below a limit, whatever type of integer holds them; the refusal does not tell them, as they may be secret."""
    given = np.asarray(values)
    if given.ndim != axes or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be whole numbers of {axes} axes, got {given.dtype} of {given.ndim}.")
    if given.size and not 0 <= int(given.min()) <= int(given.max()) < limit:
        raise ValueError(f"{name} must lie in [0, {limit}), got one outside.")
    return np.ascontiguousarray(given, dtype=np.int64)
