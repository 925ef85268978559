"""Sealed boxes: bytes that only the owner of one key can read, from senders that they do not show.

A box is libsodium's (``crypto_box_seal`` through PyNaCl): an ephemeral X25519 key for every box, XSalsa20 and Poly1305.
Boxes of one size hold contents of one size, and two boxes of one content have nothing in common. Inside, before the
content, stands the `Label` of what it is for: a box that was sealed for another session, direction or round is refused.

A sealed box is not signed: anybody who knows the public key can seal one, and the opener cannot tell who did. A refusal
says how many boxes were wrong and never which, since their place might tell their sender.

Boxes are sealed and opened on several threads, since libsodium works outside of Python's lock: on two cores that was
faster than two processes, which copy every box twice more (python -m bench.shuffler_throughput). Most of the time goes
into X25519; where the native kernel multiplies points eight at a time, the steps of ``crypto_box_seal`` are taken here one
after the other, of many boxes together, and give boxes of the same form.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt
from nacl import bindings
from nacl.bindings import crypto_box_SEALBYTES as BOX_BYTES
from nacl.exceptions import CryptoError

from .curve25519 import POINT_BYTES, in_lanes, multiples
from .pairwise_masks import check_public_key, check_round

TAG_BYTES, ROUND_BYTES = 16, 8
OVERHEAD_BYTES = BOX_BYTES + TAG_BYTES + ROUND_BYTES
"""How much longer a box is than its content."""
_PURPOSE = b"fate-dp sealed"
_MIN_PER_THREAD = 64
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Label:
    """What boxes are for; public, and the same at the sender and the opener.

    ``direction`` says from whom to whom, by role, such as 'client to server'; rounds count from 0.
    """

    session: str
    direction: str
    round_number: int

    def __post_init__(self) -> None:
        check_round(self.round_number)

    @property
    def tag(self) -> bytes:
        session, direction = self.session.encode("utf-8"), self.direction.encode("utf-8")
        content = len(session).to_bytes(8, "little") + session + direction
        return blake2b(content, digest_size=TAG_BYTES, person=_PURPOSE).digest()

    @property
    def prefix(self) -> bytes:
        return self.tag + int(self.round_number).to_bytes(ROUND_BYTES, "little")


class BoxKey:
    """A key pair that opens sealed boxes; from the operating system's entropy, never pickled or copied."""

    __slots__ = ("_secret", "public_bytes")

    def __init__(self) -> None:
        self.public_bytes, self._secret = bindings.crypto_box_keypair()

    def open_all(
        self, boxes: Sequence[bytes], label: Label, content_bytes: int, threads: int | None = None
    ) -> list[bytes]:
        """The contents of all boxes, in their order, sealed for ``label``, each of ``content_bytes``.

        ``threads`` are None for as many as this process has cores. Raises ValueError where a box has another size, was
        sealed to another key or changed, or is for something else: then no box is opened, and the sentence holds counts
        only.
        """
        check_sizes(boxes, content_bytes + OVERHEAD_BYTES)
        together = self._opened_together if in_lanes() else self._opened_by_libsodium
        opened = [content for content in _in_parts(together, boxes, threads) if content is not None]
        tag, prefix = label.tag, label.prefix
        if unread := len(boxes) - len(opened):
            raise ValueError(
                f"{unread} of {len(boxes)} messages cannot be opened: sealed to another key, or changed on the way."
            )
        if foreign := sum(not content.startswith(tag) for content in opened):
            raise ValueError(f"{foreign} of {len(boxes)} messages belong to another session or direction.")
        if late := sum(not content.startswith(prefix) for content in opened):
            raise ValueError(
                f"{late} of {len(boxes)} messages belong to another round than {label.round_number}; each counts once."
            )
        return [content[len(prefix) :] for content in opened]

    def _opened_by_libsodium(self, boxes: Sequence[bytes]) -> list[bytes | None]:
        return [_or_none(bindings.crypto_box_seal_open, box, self.public_bytes, self._secret) for box in boxes]

    def _opened_together(self, boxes: Sequence[bytes]) -> list[bytes | None]:
        senders = [box[:POINT_BYTES] for box in boxes]
        shared = multiples(self._secret, senders)
        pairs = zip(boxes, senders, shared, _cipher_keys(shared))
        return [
            # libsodium shares no key with a point of small order, either.
            _or_none(bindings.crypto_secretbox_open_easy, box[POINT_BYTES:], _nonce(sender, self.public_bytes), key)
            if any(point)
            else None
            for box, sender, point, key in pairs
        ]

    def __repr__(self) -> str:
        return f"BoxKey(public {self.public_bytes.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret key is never pickled or copied: it stays in the process that made it.")


def seal_all(contents: Sequence[bytes], public_key: bytes, label: Label, threads: int | None = None) -> list[bytes]:
    """A box for each private content, in their order, each ``OVERHEAD_BYTES`` longer than the content.

    The owner of ``public_key``, 32 bytes, may open them; ``threads`` as in `BoxKey.open_all`. Raises ValueError where the
    key is malformed or of low order, or contents differ in size.
    """
    key, prefix = check_public_key(public_key, "the receiver"), label.prefix
    if len({len(content) for content in contents}) > 1:
        raise ValueError("Contents of sealed boxes differ in size, which would show; pad them to one size.")
    if in_lanes():
        return _in_parts(lambda part: _sealed_together(part, prefix, key), contents, threads)
    return _in_parts(
        lambda part: [bindings.crypto_box_seal(prefix + content, key) for content in part], contents, threads
    )


_BASE = (9).to_bytes(POINT_BYTES, "little")


def _sealed_together(contents: Sequence[bytes], prefix: bytes, key: bytes) -> list[bytes]:
    scalars = secrets.token_bytes(POINT_BYTES * len(contents))
    senders = multiples(scalars, [_BASE] * len(contents))
    keys = _cipher_keys(multiples(scalars, [key] * len(contents)))
    return [
        sender + bindings.crypto_secretbox_easy(prefix + content, _nonce(sender, key), cipher_key)
        for content, sender, cipher_key in zip(contents, senders, keys)
    ]


def _nonce(sender: bytes, receiver: bytes) -> bytes:
    return blake2b(sender + receiver, digest_size=24).digest()


def _cipher_keys(shared: Sequence[bytes]) -> list[bytes]:
    """HSalsa20 of each shared point and sixteen zeros, as ``crypto_box`` has it (Bernstein 2011, "Extending the Salsa20 nonce")."""
    points = np.frombuffer(b"".join(shared), dtype="<u4").reshape(-1, 8).T
    constants = np.frombuffer(b"expand 32-byte k", dtype="<u4")
    words: list[npt.NDArray[np.uint32]] = [np.zeros(len(shared), dtype=np.uint32)] * 16
    for place, constant in zip((0, 5, 10, 15), constants):
        words[place] = np.full(len(shared), constant)
    words[1:5], words[11:15] = list(points[:4]), list(points[4:])
    for _ in range(10):
        for quarters in (_COLUMNS, _ROWS):
            for a, b, c, d in quarters:
                words[b] = words[b] ^ _rotated(words[a] + words[d], 7)
                words[c] = words[c] ^ _rotated(words[b] + words[a], 9)
                words[d] = words[d] ^ _rotated(words[c] + words[b], 13)
                words[a] = words[a] ^ _rotated(words[d] + words[c], 18)
    data = np.stack([words[place] for place in (0, 5, 10, 15, 6, 7, 8, 9)], axis=1).tobytes()
    return [data[at : at + 32] for at in range(0, len(data), 32)]


_COLUMNS = ((0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11))
_ROWS = ((0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14))


def _rotated(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return words << np.uint32(bits) | words >> np.uint32(32 - bits)


def _or_none(opened: Callable[..., bytes], *arguments: bytes) -> bytes | None:
    try:
        return opened(*arguments)
    except CryptoError:
        return None


def check_sizes(boxes: Sequence[bytes], size: int) -> None:
    if odd := sum(not isinstance(box, bytes) or len(box) != size for box in boxes):
        raise ValueError(f"Messages must have {size} bytes, got another size in {odd} of {len(boxes)}.")


_AT_ONCE = 1024


def _in_parts(
    work: Callable[[Sequence[bytes]], list[_Made]], items: Sequence[bytes], threads: int | None
) -> list[_Made]:
    """What ``work`` makes of the items, done in consecutive parts on several threads."""
    wanted = len(os.sched_getaffinity(0)) if threads is None else threads
    count = max(1, min(wanted, len(items) // _MIN_PER_THREAD))
    size = min(-(-len(items) // count), _AT_ONCE) or 1
    parts = [items[at : at + size] for at in range(0, len(items), size)]
    if count == 1:
        return [made for part in parts for made in work(part)]
    with ThreadPoolExecutor(count) as pool:
        return [made for of_part in pool.map(work, parts) for made in of_part]
