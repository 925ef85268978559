"""Points of Curve25519 by their u-coordinate, many at once: the native kernel's lanes, or libsodium one by one.

Both give the same bytes. Neither branches on a point or on a scalar; hashes to be mapped are not secret from their party.
"""

import ctypes
import logging
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import cycle

import numpy as np
from nacl import bindings, exceptions

from .kernel import kernel

POINT_BYTES = 32
PRIME = 2**255 - 19
_WORDS = POINT_BYTES // 8

logger = logging.getLogger(__name__)


def mapped(hashes: Sequence[bytes]) -> list[bytes]:
    """For each hash of 32 bytes the u-coordinate of eight times Elligator's image, a point of prime order; 0 for 0 modulo p."""
    library = _checked_library()
    _refuse_other_sizes(hashes)
    return (
        [_mapped_by_libsodium(each) for each in hashes] if library is None else _by_kernel("elligator", hashes, library)
    )


def multiples(scalars: bytes, points: Sequence[bytes]) -> list[bytes]:
    """X25519 (RFC 7748) of u-coordinates and one scalar, or as many, one after the other; zeros for points of small order.

    Scalars are clamped, hence multiples of 8, and what is returned lies in the subgroup of prime order, of the
    curve or, for a u-coordinate that no point of it has, of its twist.
    """
    library = _checked_library()
    _refuse_other_sizes(points)
    if len(scalars) not in (POINT_BYTES, POINT_BYTES * len(points)):
        raise ValueError(f"scalars must have {POINT_BYTES} bytes, or as many for each point, got {len(scalars)}.")
    return _by_libsodium(scalars, points) if library is None else _multiples_by_kernel(scalars, points, library)


def _refuse_other_sizes(items: Sequence[bytes]) -> None:
    """Neither libsodium's binding nor the kernel looks, and both would read beyond the end."""
    if others := {len(each) for each in items} - {POINT_BYTES}:
        raise ValueError(f"A point or a hash must have {POINT_BYTES} bytes, got {min(others)}.")


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
    clamped = np.frombuffer(scalars, dtype=np.uint8).reshape(-1, POINT_BYTES).copy()
    clamped[:, 0] &= 248
    clamped[:, 31] = clamped[:, 31] & 127 | 64
    return _by_kernel("x25519", points, library, ctypes.c_void_p(clamped.ctypes.data), ctypes.c_int64(len(clamped) > 1))


def _by_kernel(
    name: str, items: Sequence[bytes], library: ctypes.CDLL, *scalars: ctypes.c_void_p | ctypes.c_int64
) -> list[bytes]:
    out, held = np.empty(_WORDS * len(items), np.uint64), np.frombuffer(b"".join(items), dtype=np.uint64)
    passed = [ctypes.c_void_p(array.ctypes.data) for array in (out, held)]
    getattr(library, f"kernel_{name}")(*passed, *scalars, ctypes.c_int64(len(items)))
    data = out.tobytes()
    return [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]


def _by_libsodium(scalars: bytes, points: Sequence[bytes]) -> list[bytes]:
    each = [scalars[at : at + POINT_BYTES] for at in range(0, len(scalars), POINT_BYTES)]
    pairs = zip(each if len(each) > 1 else cycle(each), points)
    return [_or_zeros(bindings.crypto_scalarmult, scalar, point) for scalar, point in pairs]


def _mapped_by_libsodium(hashed: bytes) -> bytes:
    from_uniform, to_u = bindings.crypto_core_ed25519_from_uniform, bindings.crypto_sign_ed25519_pk_to_curve25519
    return _or_zeros(lambda: to_u(from_uniform(hashed)))


def _or_zeros(compute: Callable[..., bytes], *arguments: bytes) -> bytes:
    try:
        return compute(*arguments)
    except exceptions.RuntimeError:
        # So libsodium answers a point of small order.
        return bytes(POINT_BYTES)
