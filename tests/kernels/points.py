"""X25519 and Elligator's map: vectors of Wycheproof and RFC 7748, and the edges of the field, against libsodium."""

from __future__ import annotations

import ctypes
import json
import random
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fate_dp.crypto import curve25519

from .tally import Tally

VECTORS = Path(__file__).with_name("x25519.json")
P = curve25519.PRIME
# RFC 7748, section 5.2: the scalar and the point are 9, and each product becomes the scalar, each scalar the point.
ITERATED = {
    1: "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
    1000: "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51",
}
SMALL_ORDER = (
    *(0, 1, P - 1, P, P + 1),
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
LIMB = 51


def vectors(tally: Tally, library: ctypes.CDLL | None, *, are_iterated: bool) -> None:
    """All vectors, each counted once, by all X25519 that the product uses: the kernel's, libsodium's and OpenSSL's."""
    tests = json.loads(VECTORS.read_text(encoding="utf-8"))["tests"]
    numbers, privates, publics, shared = zip(*tests)
    points, scalars = [bytes.fromhex(each) for each in publics], bytes.fromhex("".join(privates))
    tally.same("vectors", "libsodium", [each.hex() for each in curve25519._by_libsodium(scalars, points)], shared)
    tally.same("vectors by OpenSSL", "cryptography", [_by_openssl(*pair) for pair in zip(privates, publics)], shared)
    if library is None:
        return
    found = curve25519._multiples_by_kernel(scalars, points, library)
    tally.same("vectors by the kernel", f"{numbers[0]} and on", [each.hex() for each in found], shared)
    scalar = point = (9).to_bytes(32, "little")
    for times in range(1, 1 + (max(ITERATED) if are_iterated else 1)):
        point, scalar = scalar, curve25519._multiples_by_kernel(scalar, [point], library)[0]
        if times in ITERATED:
            tally.same("vectors", f"RFC 7748, {times} times", [scalar.hex()], [ITERATED[times]])


def edges(tally: Tally, library: ctypes.CDLL, seed: int, drawn: int) -> None:
    """Points of small order, numbers near 0, p, 2^255 and 2^256, full and empty limbs; and drawn ones."""
    draw = random.Random(seed)
    near = {base + offset for base in (0, P, 2 * P, 1 << 255, (1 << 256) - 21) for offset in range(-20, 21)}
    near |= set(SMALL_ORDER) | {number + (1 << 255) for number in SMALL_ORDER}
    for low in range(0, 256, LIMB):
        near |= {1 << low, (1 << low) - 1, (1 << 256) - (1 << low), (1 << 255) - (1 << low), ((1 << LIMB) - 1) << low}
    limits = [number for number in sorted(near) if 0 <= number < 1 << 256]
    items = [number.to_bytes(32, "little") for number in limits] + [draw.randbytes(32) for _ in range(drawn)]
    ours = curve25519._by_kernel("elligator", items, library)
    tally.same("points", f"map, seed {seed}", ours, [curve25519._mapped_by_libsodium(each) for each in items])
    of_each = b"".join(draw.choice([bytes(32), b"\xff" * 32, draw.randbytes(32)]) for _ in items)
    for scalars in (bytes(32), b"\xff" * 32, draw.randbytes(32), of_each):
        ours = curve25519._multiples_by_kernel(scalars, items, library)
        tally.same("points", f"multiples, seed {seed}", ours, curve25519._by_libsodium(scalars, items))
    for count in range(18):
        ours = curve25519._multiples_by_kernel(of_each[:32], items[-count:] if count else [], library)
        expected = curve25519._by_libsodium(of_each[:32], items[-count:] if count else [])
        tally.same("points", f"{count} at once", ours, expected)


def _by_openssl(private: str, public: str) -> str:
    try:
        return (
            X25519PrivateKey.from_private_bytes(bytes.fromhex(private))
            .exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(public)))
            .hex()
        )
    except ValueError:
        # So it answers a point of small order.
        return bytes(32).hex()
