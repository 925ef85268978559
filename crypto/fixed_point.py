"""Fixed-point numbers of one global format: features and scores become integers with fixed exponents.

Every ciphertext on the wire has the same exponent, so the exponent says nothing about its plaintext (python-paillier
sends an exponent per number, which does). The bounds are public constants; whatever exceeds them is refused before it
is encrypted, so that sums cannot overflow: see `PRODUCT_BITS`.
"""
import numpy as np

FEATURE_FRACTION_BITS = 24
SCORE_FRACTION_BITS = 40
MAGNITUDE_BITS = 20
"""Features and quarter-scores lie strictly inside +-2^20."""
ROW_BITS = 30
"""At most 2^30 rows enter one sum."""

PRODUCT_FRACTION_BITS = FEATURE_FRACTION_BITS + SCORE_FRACTION_BITS
MAXIMUM_HOSTS = 16
PRODUCT_BITS = PRODUCT_FRACTION_BITS + 2 * MAGNITUDE_BITS + 12 + ROW_BITS
"""Bits of the largest sum: the scores of 16 hosts add up, and the loss has 2 h + h (2 h + 2) <= 2^12 such terms."""


def _encode(values: np.ndarray, fraction_bits: int, what: str) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    if not np.all(np.abs(values) < 2.0**MAGNITUDE_BITS):
        raise ValueError(f"{what} must be finite and below 2^{MAGNITUDE_BITS} in magnitude; standardise the features.")
    return np.rint(values * 2.0**fraction_bits).astype(np.int64)


def encode_features(values: np.ndarray) -> np.ndarray:
    """float array -> int64 array of the same shape, unit 2^-24."""
    return _encode(values, FEATURE_FRACTION_BITS, "Feature values")


def encode_scores(values: np.ndarray) -> np.ndarray:
    """float array -> int64 array of the same shape, unit 2^-40."""
    return _encode(values, SCORE_FRACTION_BITS, "Scores (the training diverged)")


def encode_loss(value: float) -> int:
    """Float -> integer in units of 2^-64, refused where it could not be added to encrypted sums."""
    if not abs(value) < 2.0 ** (PRODUCT_BITS - PRODUCT_FRACTION_BITS - 1):
        raise ValueError(f"The loss reached {value:g}; the training diverged, so lower the learning rate or alpha.")
    return int(round(value * 2.0**PRODUCT_FRACTION_BITS))


def decode_product(value: int) -> float:
    """Integer in units of 2^-64 (feature x score) -> float."""
    return int(value) / 2.0**PRODUCT_FRACTION_BITS
