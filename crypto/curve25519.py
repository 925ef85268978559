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


def multiples(scalars: bytes, points: Sequence[bytes]) -> list[bytes]:
    """X25519 (RFC 7748) of u-coordinates and one scalar, or as many, one after the other; zeros for points of small order.

    Scalars are clamped, hence multiples of 8, and what is returned lies in the subgroup of prime order, of the
    curve or, for a u-coordinate that no point of it has, of its twist.
    """
    library = _checked_library()
    return _by_libsodium(scalars, points) if library is None else _multiples_by_kernel(scalars, points, library)


def in_lanes() -> bool:
    """Whether many points at once take less time each."""
    return _checked_library() is not None


@lru_cache(maxsize=1)
def _checked_library() -> ctypes.CDLL | None:
    """The kernel, if there is one and it agrees with libsodium on random and extreme values: 2 ms, once a process."""
    library = kernel().library
    if library is None:
        return None
    hashes = [secrets.token_bytes(POINT_BYTES) for _ in range(9)]
    points = [*(number.to_bytes(32, "little") for number in (0, 1, 9, PRIME - 1)), *map(_mapped_by_libsodium, hashes)]
    agree = _by_kernel("elligator", hashes, library) == points[4:]
    for scalars in (secrets.token_bytes(POINT_BYTES), secrets.token_bytes(POINT_BYTES * len(points))):
        agree &= _multiples_by_kernel(scalars, points, library) == _by_libsodium(scalars, points)
    if not agree:
        logger.warning("The native kernel differs from libsodium on Curve25519; libsodium computes instead.")
    return library if agree else None


def _multiples_by_kernel(scalars: bytes, points: Sequence[bytes], library: ctypes.CDLL) -> list[bytes]:
    clamped = np.frombuffer(_all_of(scalars, points), dtype=np.uint8).reshape(-1, POINT_BYTES).copy()
    clamped[:, 0] &= 248
    clamped[:, 31] = clamped[:, 31] & 127 | 64
    return _by_kernel("x25519", points, library, ctypes.c_void_p(clamped.ctypes.data), ctypes.c_int64(len(clamped) > 1))


def _all_of(scalars: bytes, points: Sequence[bytes]) -> bytes:
    if len(scalars) not in (POINT_BYTES, POINT_BYTES * len(points)):
        raise ValueError(f"Scalars of {len(scalars)} bytes for {len(points)} points; there is one, or one for each.")
    return scalars


def _by_kernel(
    name: str, items: Sequence[bytes], library: ctypes.CDLL, *scalars: ctypes.c_void_p | ctypes.c_int64
) -> list[bytes]:
    if any(len(each) != POINT_BYTES for each in items):
        raise ValueError(f"A point or a hash does not have {POINT_BYTES} bytes.")
    out, held = np.empty(_WORDS * len(items), np.uint64), np.frombuffer(b"".join(items), dtype=np.uint64)
    passed = [ctypes.c_void_p(array.ctypes.data) for array in (out, held)]
    getattr(library, f"kernel_{name}")(*passed, *scalars, ctypes.c_int64(len(items)))
    data = out.tobytes()
    return [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]


def _by_libsodium(scalars: bytes, points: Sequence[bytes]) -> list[bytes]:
    each = [scalars[at : at + POINT_BYTES] for at in range(0, len(_all_of(scalars, points)), POINT_BYTES)]
    return [_multiple_by_libsodium(scalar, u) for scalar, u in zip(each * (len(points) // len(each) or 1), points)]


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
