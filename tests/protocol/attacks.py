"""What a curious party tries on the messages that it received: each attack returns where it succeeds.

An attack has to succeed somewhere to mean anything where it does not: the tests run each one on what parties would
receive without masks, without blinding, or in FATE's own protocol.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import gmpy2
import numpy as np
from scipy.stats import kstest

from .messages import Ciphertexts, byte_strings, ciphertexts, numbers, public_moduli

CLOSE = 1e-6
"""Relative distance below which a number that was received is one that it should not tell.

Of some thousand pairs of masked and secret numbers chance brings one so near in one run of hundreds, and two of one
message and one secret in less than one run of ten million: see `ENOUGH`.
"""
ENOUGH = 2
"""How many different numbers of a secret, by as many different readings, are no chance any more."""


@dataclass(frozen=True)
class Public:
    """What everybody knows.

    Attributes:
        keys: moduli n of Paillier keys.
        moduli: what hidden numbers count modulo.
        layouts: `SlotLayout` of values that share a plaintext.
    """

    keys: Sequence[int] = ()
    moduli: Sequence[int] = ()
    layouts: Sequence = ()


@dataclass(frozen=True)
class Secret:
    """Numbers that nobody must read, and the fractional bits that the protocol gives such numbers."""

    values: Sequence[float]
    fraction_bits: tuple[int, ...]

    def sizes(self) -> np.ndarray:
        """log2 of the different magnitudes, each in all units (n, units); numbers nearly 0 cannot be told from others."""
        values = np.unique(np.abs(np.ravel(self.values).astype(float)))
        return np.add.outer(np.log2(values[values > 1e-3]), np.array((0, *self.fraction_bits), dtype=float))


def combined(received, again=()) -> list:
    """The messages, and what adding and subtracting them gives.

    That is changes between messages of one name and sender, sums of all of these so far, sums over all senders, and the
    changes of those; and differences to the same messages of another run.
    """
    streams, others = _streams(received), _streams(again)
    found = list(received)
    for (sender, name), stream in streams.items():
        found.extend((sender, f"{name}, {how}", values) for how, values in _along(stream))
        between_runs = map(_minus, stream, others.get((sender, name), []))
        found.extend((sender, f"{name}, run to run", values) for values in between_runs)
    for name in {name for _, name in streams}:
        of_senders = [stream for (_, other), stream in streams.items() if other == name]
        sums = [[sum(entries) for entries in zip(*step)] for step in zip(*of_senders) if len({*map(len, step)}) == 1]
        if len(of_senders) > 1:
            found.extend(("all", f"{name}, summed", values) for values in sums)
            found.extend(("all", f"{name}, summed, {how}", values) for how, values in _along(sums))
    return found


def labels_readable(received, labels, public: Public | None = None) -> list:
    """Names of the messages from which whoever received them reads the labels, knowing public numbers alone.

    Tries the plaintexts of unblinded Paillier ciphertexts, c = 1 + m n, of ciphertexts with one blinding factor, single
    slots of these, and numbers sent in clear, as they are and centred around 0 below a modulus. Any vector of as many
    numbers as there are labels gives them away if a threshold or the parity splits it as they do.
    """
    return _where(
        received, public, len(labels), lambda vector: _splits(vector, labels) or _correlation(vector, labels) > 0.99
    )


def columns_readable(received, columns, public: Public | None = None) -> list:
    """Names of the messages that hold a vector, found as above, correlating above 0.99 with a column of the table."""
    return _where(
        received, public, len(columns), lambda vector: any(_correlation(vector, column) > 0.99 for column in columns.T)
    )


def numbers_readable(received, secrets: dict[str, Secret], public: Public) -> list:
    """(message name, secret) wherever numbers of a message, centred or not, are `ENOUGH` of the secret numbers."""
    sizes = {name: secret.sizes() for name, secret in secrets.items()}
    read = ((name, _readings(value, public)) for _, name, value in received)
    return sorted({(name, secret) for name, readings in read for secret in _matches(readings, sizes)})


def unblinded_ciphertexts(received, public: Public | None = None) -> list:
    """Names of the messages with a ciphertext of the form 1 + m n, which anybody decrypts."""
    keys = public_moduli(received) if public is None else public.keys
    return sorted(
        {
            name
            for _, name, value in received
            if any((number - 1) % n == 0 for n in keys for number in ciphertexts(value, n))
        }
    )


def blinding_left(returned: list[int], encrypted: list[int], multipliers: list[list[int]], n: int) -> list[int]:
    """What the owner of a key, who may guess the multipliers, finds of the blinding of ciphertexts that came back.

    Modulo n a ciphertext is its blinding factor, whatever its plaintext. In a sum of a_i times ciphertext i that is the
    product of theirs to the a_i, times the answer's own factor. If that is 1, or the same for all answers, it confirms
    the right a_i.

    Args:
        multipliers: for each of ``returned`` the signed a_i of all of ``encrypted``.

    Returns:
        The own factor modulo n of each of ``returned``.
    """
    left = []
    for value, of_value in zip(returned, multipliers, strict=True):
        for ciphertext, multiplier in zip(encrypted, of_value, strict=True):
            value = value * gmpy2.powmod(ciphertext, -multiplier, n) % n
        left.append(int(value))
    return left


def uniformity(pool: Sequence[tuple[int, int]]) -> float:
    """p-value of the hypothesis that the integers of (integer, width) are uniform below their widths and independent.

    Looks at the high bits, and where widths have more than 32 bits at those below the middle and at the lowest 16; and
    at the differences of neighbours, which are uniform and independent if the numbers are.
    """
    wide = [(value, width) for value, width in pool if width >> 32]
    middle = [(value % edge, edge) for value, width in wide for edge in (1 << width.bit_length() // 2,)]
    low = [(value % (1 << 16), 1 << 16) for value, _ in wide]
    neighbours = [(one, other, width) for (one, width), (other, its) in pairwise(pool) if width == its]
    differences = [((other - one) % width, width) for one, other, width in neighbours]
    pvalues = [_uniform(part) for part in (pool, middle, low, differences) if part]
    return min(1.0, min(pvalues) * len(pvalues))


def _uniform(pool) -> float:
    # Each number somewhere within its unit, the same place in every run: the test is of continuous numbers, and steps of
    # a sixteenth would look like a distance from the uniform law.
    places = np.random.default_rng(0).integers(1 << 32, size=len(pool)).tolist()
    return kstest([((value << 32) + at) / (width << 32) for (value, width), at in zip(pool, places)], "uniform").pvalue


def closest(pool: Sequence[tuple[int, int]]) -> float:
    """The least distance of two integers of (integer, width) in units of the width: tiny where one mask hides both."""
    of_width = {}
    for value, width in pool:
        of_width.setdefault(width, []).append(value)
    return min(
        (after - value) / width
        for width, values in of_width.items()
        if len(values) > 1
        for value, after in pairwise(sorted(values))
    )


def nearer_to_first(values: Sequence[int], first: Sequence[int], second: Sequence[int]) -> list[bool]:
    """Which of two candidates each number is nearer to: tells unmasked numbers apart, if the candidates are right."""
    return [abs(value - a) < abs(value - b) for value, a, b in zip(values, first, second, strict=True)]


def _streams(received) -> dict:
    """{(sender, name): lists of numbers, one for each message}; ciphertexts count as the numbers that they are."""
    keys, streams = public_moduli(received), {}
    for sender, name, value in received:
        said = numbers(value) or next((found for n in keys if (found := ciphertexts(value, n))), [])
        if said and name not in ("public_key", "verdict", "preflight"):
            streams.setdefault((sender, name), []).append(said)
    return streams


def _along(stream):
    """Changes between successive messages, and sums of all so far."""
    if len({*map(len, stream)}) == 1:
        yield from (("changes", _minus(*pair)) for pair in zip(stream[1:], stream))
        yield from (("so far", values) for values in list(accumulate(stream, lambda a, b: [*map(sum, zip(a, b))]))[1:])


def _minus(values, others) -> list:
    return [value - other for value, other in zip(values, others)]


def _where(received, public, length, tells) -> list:
    public = Public(public_moduli(received)) if public is None else public
    return sorted({name for _, name, value in received if any(map(tells, _vectors(value, public, length)))})


def _vectors(value, public: Public, length: int):
    """Every vector of ``length`` numbers that a message gives, as floats up to 1 in magnitude."""
    for n in public.keys:
        of_key = ciphertexts(value, n)
        if of_key and len(of_key) % length == 0:
            for column in np.array(of_key, dtype=object).reshape(length, -1).T.tolist():
                yield _scaled(column)
                yield _scaled([ciphertext % n for ciphertext in column])
                for plaintexts in _plaintexts(column, n):
                    yield from map(_scaled, [plaintexts, *_slots(plaintexts, public)])
    said = numbers(value)
    if said and len(said) % length == 0:
        table = np.array(said, dtype=object)
        for vector in [*table.reshape(length, -1).T.tolist(), *table.reshape(-1, length).tolist()]:
            yield _scaled(vector)
            if all(isinstance(number, int) for number in vector):
                yield np.array([number % 2 for number in vector], dtype=float)
                yield from (_scaled(_centred(vector, modulus)) for modulus in public.moduli)


def _plaintexts(column, n):
    """Plaintexts of ciphertexts without blinding; and differences of plaintexts under one blinding factor."""
    inverse = int(gmpy2.invert(column[0], n**2)) if gmpy2.gcd(column[0], n) == 1 else 0
    for values in (column, [ciphertext * inverse % n**2 for ciphertext in column]):
        if all((value - 1) % n == 0 for value in values):
            yield _centred([(value - 1) // n for value in values], n)


def _slots(plaintexts, public: Public):
    """The values that share plaintexts, one vector for each slot."""
    for layout in public.layouts:
        if all(abs(plaintext) < 1 << (layout.slots * layout.slot_bits - 1) for plaintext in plaintexts):
            yield from map(list, zip(*(_signed_digits(plaintext, layout) for plaintext in plaintexts)))


def _signed_digits(plaintext: int, layout) -> list:
    """What all slots of a plaintext without a mask hold: digits in [-2^(slot_bits - 1), 2^(slot_bits - 1))."""
    width, found = 1 << layout.slot_bits, []
    for _ in range(layout.slots):
        digit = (plaintext + width // 2) % width - width // 2
        plaintext = (plaintext - digit) // width
        found.append(digit)
    return found


def _readings(value, public: Public) -> list:
    """Every number in a message, as it is and centred below the moduli; short byte strings count as integers."""
    if isinstance(value, Ciphertexts):
        return []
    integers = [int.from_bytes(data, "big") for data in byte_strings(value) if len(data) <= 512]
    # Small integers are counts and leading bits: too few different ones for a match to mean anything.
    whole = [number for number in [*numbers(value), *integers] if isinstance(number, int) and abs(number) >= 1 << 16]
    fractions = [number for number in numbers(value) if isinstance(number, float)]
    return [*fractions, *whole, *(number for modulus in public.moduli for number in _centred(whole, modulus))]


def _matches(readings, sizes: dict[str, np.ndarray]) -> list:
    """The secrets of which enough numbers are among the readings."""
    # Beyond a float's range no number that is told in any unit lies.
    logarithms = np.unique([np.log2(float(abs(number))) for number in readings if 0 < abs(number) < 1 << 900])
    return [name for name, wanted in sizes.items() if _enough_near(logarithms, wanted)]


def _enough_near(sorted_values, wanted) -> bool:
    first, last = (np.searchsorted(sorted_values, wanted + np.log2(1 + edge)) for edge in (-CLOSE, CLOSE))
    near = first < last
    readings = {place for edges in zip(first[near], last[near]) for place in range(*edges)}
    enough = min(ENOUGH, len(wanted))
    return bool(enough) and near.any(axis=1).sum() >= enough and len(readings) >= enough


def _centred(values, modulus) -> list:
    remainders = [value % modulus for value in values]
    return [value - modulus if 2 * value > modulus else value for value in remainders]


def _scaled(vector) -> np.ndarray:
    peak = max(map(abs, vector)) or 1
    return np.array([number / peak for number in vector])


def _splits(vector, labels) -> bool:
    ones, zeros = vector[labels == 1], vector[labels == 0]
    return bool(ones.min() > zeros.max() or ones.max() < zeros.min())


def _correlation(first, second) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return abs(float(np.corrcoef(first, second)[0, 1]))
