"""Points of Curve25519 by their u-coordinate, many at once: the native kernel's lanes, or libsodium one by one.

Both give the same bytes. Neither branches on a point or on a scalar; hashes to be mapped are not secret from their party.
"""

from __future__ import annotations

import ctypes
import logging
import secrets
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from nacl import bindings, exceptions

from .kernel import kernel

POINT_BYTES = 32
PRIME = 2**255 - 19
_WORDS = POINT_BYTES // 8

logger = logging.getLogger(__name__)


def mapped(hashes: Sequence[bytes]) -> list[bytes]:
    """For each hash of 32 bytes the u-coordinate of eight times Elligator's image of it, a point of prime order."""
    library = _checked_library()
    return (
        [_mapped_by_libsodium(each) for each in hashes] if library is None else _by_kernel("elligator", hashes, library)
    )


def multiples(scalar: bytes, points: Sequence[bytes]) -> list[bytes]:
    """X25519 (RFC 7748) of one scalar and each u-coordinate below the prime; zeros where a point has a small order.

    The scalar is clamped, hence a multiple of 8, and what is returned lies in the subgroup of prime order, of the
    curve or, for a u-coordinate that no point of it has, of its twist.
    """
    library = _checked_library()
    if library is None:
        return [_multiple_by_libsodium(scalar, point) for point in points]
    return _by_kernel("x25519", points, library, _clamped(scalar))


@lru_cache(maxsize=1)
def _checked_library() -> ctypes.CDLL | None:
    """The kernel, if there is one and it agrees with libsodium on random and extreme values: 2 ms, once a process."""
    library = kernel().library
    if library is None:
        return None
    scalar, hashes = secrets.token_bytes(32), [secrets.token_bytes(32) for _ in range(9)]
    points = [*(number.to_bytes(32, "little") for number in (0, 1, 9, PRIME - 1)), *map(_mapped_by_libsodium, hashes)]
    agree = _by_kernel("elligator", hashes, library) == points[4:] and _by_kernel(
        "x25519", points, library, _clamped(scalar)
    ) == [_multiple_by_libsodium(scalar, point) for point in points]
    if not agree:
        logger.warning("The native kernel differs from libsodium on Curve25519; libsodium computes instead.")
    return library if agree else None


def _clamped(scalar: bytes) -> bytes:
    return bytes([scalar[0] & 248, *scalar[1:31], scalar[31] & 127 | 64])


def _by_kernel(name: str, items: Sequence[bytes], library: ctypes.CDLL, *secret: bytes) -> list[bytes]:
    if any(len(each) != POINT_BYTES for each in [*items, *secret]):
        raise ValueError(f"A point, a hash or a scalar does not have {POINT_BYTES} bytes.")
    arrays = [np.empty(_WORDS * len(items), np.uint64), np.frombuffer(b"".join(items), dtype=np.uint64)]
    arrays += [np.frombuffer(each, dtype=np.uint64) for each in secret]
    passed = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    getattr(library, f"kernel_{name}")(*passed, ctypes.c_int64(len(items)))
    data = arrays[0].tobytes()
    return [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]


def _mapped_by_libsodium(hashed: bytes) -> bytes:
    point: bytes = bindings.crypto_sign_ed25519_pk_to_curve25519(bindings.crypto_core_ed25519_from_uniform(hashed))
    return point


def _multiple_by_libsodium(scalar: bytes, point: bytes) -> bytes:
    try:
        product: bytes = bindings.crypto_scalarmult(scalar, point)
    except exceptions.RuntimeError:
        # So libsodium answers a point of small order.
        return bytes(POINT_BYTES)
    return product
