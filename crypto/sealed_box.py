"""Sealed boxes: bytes that only the owner of one key can read, from senders that they do not show.

A box is libsodium's (``crypto_box_seal`` through PyNaCl): an ephemeral X25519 key for every box, XSalsa20 and Poly1305.
Boxes of one size hold contents of one size, and two boxes of one content have nothing in common. Inside, before the
content, stands the `Label` of what it is for: a box that was sealed for another session, direction or round is refused.

A sealed box is not signed: anybody who knows the public key can seal one, and the opener cannot tell who did. A refusal
says how many boxes were wrong and never which, since their place might tell their sender.

Boxes are sealed and opened on several threads, since libsodium works outside of Python's lock: on two cores that was
faster than two processes, which copy every box twice more (python -m bench.shuffler_throughput).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from typing import NoReturn, TypeVar

from nacl.bindings import crypto_box_keypair, crypto_box_seal, crypto_box_seal_open
from nacl.bindings import crypto_box_SEALBYTES as BOX_BYTES
from nacl.exceptions import CryptoError

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
        """16 bytes that stand for session and direction."""
        session, direction = self.session.encode("utf-8"), self.direction.encode("utf-8")
        content = len(session).to_bytes(8, "little") + session + direction
        return blake2b(content, digest_size=TAG_BYTES, person=_PURPOSE).digest()

    @property
    def prefix(self) -> bytes:
        """What stands before the content in every box."""
        return self.tag + int(self.round_number).to_bytes(ROUND_BYTES, "little")


class BoxKey:
    """A key pair that opens sealed boxes; from the operating system's entropy, never pickled or copied."""

    __slots__ = ("_secret", "public_bytes")

    def __init__(self) -> None:
        self.public_bytes, self._secret = crypto_box_keypair()

    def open_all(
        self, boxes: Sequence[bytes], label: Label, content_bytes: int, threads: int | None = None
    ) -> list[bytes]:
        """The contents of all boxes, in their order, sealed for ``label``, each of ``content_bytes``.

        ``threads`` are None for as many as this process has cores.

        Raises:
            ValueError: a box has another size, was sealed to another key or changed, or is for something else. Then
                nothing is opened to the caller; the sentence holds counts only.
        """
        check_sizes(boxes, content_bytes + OVERHEAD_BYTES)
        opened = [content for content in _in_parts(self._opened, boxes, threads) if content is not None]
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

    def _opened(self, box: bytes) -> bytes | None:
        try:
            return crypto_box_seal_open(box, self.public_bytes, self._secret)
        except CryptoError:
            return None

    def __repr__(self) -> str:
        return f"BoxKey(public {self.public_bytes.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret key is never pickled or copied: it stays in the process that made it.")


def seal_all(contents: Sequence[bytes], public_key: bytes, label: Label, threads: int | None = None) -> list[bytes]:
    """A box for each private content, in their order, each ``OVERHEAD_BYTES`` longer than the content.

    The owner of ``public_key``, 32 bytes, may open them; ``threads`` as in `BoxKey.open_all`.

    Raises:
        ValueError: the key is malformed or of low order, or contents differ in size.
    """
    key, prefix = check_public_key(public_key, "the receiver"), label.prefix
    if len({len(content) for content in contents}) > 1:
        raise ValueError("Contents of sealed boxes differ in size, which would show; pad them to one size.")
    return _in_parts(lambda content: crypto_box_seal(prefix + content, key), contents, threads)


def check_sizes(boxes: Sequence[bytes], size: int) -> None:
    """Raises `ValueError` unless each box is ``size`` bytes."""
    if odd := sum(not isinstance(box, bytes) or len(box) != size for box in boxes):
        raise ValueError(f"{odd} of {len(boxes)} messages have another size than {size} bytes; all must have it.")


def _in_parts(work: Callable[[bytes], _Made], items: Sequence[bytes], threads: int | None) -> list[_Made]:
    """What ``work`` makes of each item, done in consecutive parts on several threads."""
    wanted = len(os.sched_getaffinity(0)) if threads is None else threads
    count = max(1, min(wanted, len(items) // _MIN_PER_THREAD))
    if count == 1:
        return list(map(work, items))
    edges = [len(items) * at // count for at in range(count + 1)]
    parts = [items[first:last] for first, last in zip(edges, edges[1:])]
    with ThreadPoolExecutor(count) as pool:
        return [made for of_part in pool.map(lambda part: list(map(work, part)), parts) for made in of_part]
