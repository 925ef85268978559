"""Products of powers ``prod_i c_i^{x_ij}``: the encrypted matrix product X^T c, by signed buckets (Pippenger 1976)."""
from typing import List, Sequence

import gmpy2
import numpy as np
from gmpy2 import mpz


def powers_product(ciphertexts: Sequence[mpz], exponents: np.ndarray, modulus: mpz) -> List[mpz]:
    """For each column j of ``exponents`` the product over i of ``ciphertexts[i] ** exponents[i, j] mod modulus``.

    Args:
        ciphertexts: n values invertible modulo ``modulus``.
        exponents: int64 array of shape (n, m); negative values are powers of the inverse.
        modulus: n^2 of the key.

    Returns:
        m values. They are *not* blinded anew: the caller does that before they leave the party.
    """
    if exponents.shape[0] != len(ciphertexts):
        raise ValueError(f"{exponents.shape[0]} rows of exponents for {len(ciphertexts)} ciphertexts; they must agree.")
    if not len(ciphertexts):
        return [mpz(1)] * exponents.shape[1]
    largest = int(np.abs(exponents).max()).bit_length() + 1
    window = _window_bits(len(ciphertexts), largest)
    digits = _signed_digits(exponents, window)
    bases = [*ciphertexts, *_inverses(ciphertexts, modulus)]
    return [_column_product(bases, digits[:, :, j], window, modulus) for j in range(exponents.shape[1])]


def _window_bits(rows: int, bits: int) -> int:
    """The window width that minimises multiplications: one per row and window, two per bucket."""
    return min(range(2, 14), key=lambda width: -(-bits // width) * (rows + (1 << width)))


def _signed_digits(exponents: np.ndarray, window: int) -> np.ndarray:
    """Digits in [-2^(w-1), 2^(w-1)), least significant window first: shape (windows, n, m)."""
    remaining, half, digits = exponents.astype(np.int64), 1 << (window - 1), []
    while remaining.any():
        digit = ((remaining + half) & ((1 << window) - 1)) - half
        digits.append(digit)
        remaining = (remaining - digit) >> window
    return np.stack(digits) if digits else np.empty((0, *exponents.shape), dtype=np.int64)


def _inverses(values: Sequence[mpz], modulus: mpz) -> List[mpz]:
    """Inverses of all values for the price of one inversion (Montgomery's trick)."""
    prefix = [mpz(1)]
    for value in values:
        prefix.append(prefix[-1] * value % modulus)
    running, inverses = gmpy2.invert(prefix[-1], modulus), [mpz(1)] * len(values)
    for at in range(len(values) - 1, -1, -1):
        inverses[at] = running * prefix[at] % modulus
        running = running * values[at] % modulus
    return inverses


def _column_product(bases: List[mpz], digits: np.ndarray, window: int, modulus: mpz) -> mpz:
    """Product for one column: ``digits`` has shape (windows, n); ``bases`` holds n values, then their inverses."""
    result, rows = mpz(1), digits.shape[1]
    for level in range(digits.shape[0] - 1, -1, -1):
        if result != 1:
            result = gmpy2.powmod(result, 1 << window, modulus)
        row_digits = digits[level]
        used = np.flatnonzero(row_digits)
        if not len(used):
            continue
        buckets = [None] * ((1 << (window - 1)) + 1)
        at_base = np.where(row_digits[used] > 0, used, used + rows).tolist()
        for base, bucket in zip(at_base, np.abs(row_digits[used]).tolist()):
            held = buckets[bucket]
            buckets[bucket] = bases[base] if held is None else held * bases[base] % modulus
        result = result * _bucket_sum(buckets, modulus) % modulus
    return result


def _bucket_sum(buckets: list, modulus: mpz) -> mpz:
    """``prod_d buckets[d]^d`` by running products from the highest digit down."""
    running, total = mpz(1), mpz(1)
    for held in reversed(buckets[1:]):
        if held is not None:
            running = running * held % modulus
        if running != 1:
            total = total * running % modulus
    return total
