"""Sealed boxes: bytes that only the owner of one key can read, from senders that they do not show.

A box is libsodium's (``crypto_box_seal`` through PyNaCl): an ephemeral X25519 key for every box, XSalsa20 and Poly1305.
Boxes of one size hold contents of one size, and two boxes of one content have nothing in common. Inside, before the
content, stands the `Label` of what it is for: a box that was sealed for another session, direction or round is refused.

A sealed box is not signed: anybody who knows the public key can seal one, and the opener cannot tell who did. A refusal
says how many boxes were wrong and never which, since their place might tell their sender.

Boxes are sealed and opened on several threads, since libsodium works outside of Python's lock: on two cores that was
faster than two processes, which copy every box twice more (python -m fate_dp.bench.shuffler_throughput).
"""
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral
from typing import Callable, List, Optional, Sequence

from nacl.bindings import crypto_box_keypair, crypto_box_seal, crypto_box_seal_open
from nacl.bindings import crypto_box_SEALBYTES as BOX_BYTES
from nacl.exceptions import CryptoError

from .key_agreement import check_public_key

TAG_BYTES, ROUND_BYTES = 16, 8
OVERHEAD_BYTES = BOX_BYTES + TAG_BYTES + ROUND_BYTES
"""How much longer a box is than its content."""
LARGEST_ROUND = 2**63 - 1
_PURPOSE = b"fate-dp sealed"
_LEAST_PER_THREAD = 64


class InvalidBox(ValueError):
    """Boxes cannot be opened, or they were sealed for something else."""


@dataclass(frozen=True)
class Label:
    """What boxes are for; public, and the same at the sender and the opener.

    Attributes:
        session: name of the job.
        direction: from whom to whom, by role, such as 'client to server'.
        round_number: from 0.
    """

    session: str
    direction: str
    round_number: int

    def __post_init__(self):
        number = self.round_number
        if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number <= LARGEST_ROUND:
            raise ValueError(f"round_number is {number!r}; it must be a whole number from 0 to 2^63 - 1.")

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

    def __init__(self):
        self.public_bytes, self._secret = crypto_box_keypair()

    def open_all(
        self, boxes: Sequence[bytes], label: Label, content_bytes: int, threads: Optional[int] = None
    ) -> List[bytes]:
        """The contents of all boxes, in their order.

        Args:
            boxes: what arrived.
            label: what they must have been sealed for.
            content_bytes: the size that every content must have.
            threads: None for as many as this process has cores.

        Raises:
            InvalidBox: a box has another size, was sealed to another key or changed, or is for something else. Then
                nothing is opened to the caller; the sentence holds counts only.
        """
        check_sizes(boxes, content_bytes + OVERHEAD_BYTES)
        opened = _in_parts(self._open_part, boxes, threads)
        tag, prefix, start = label.tag, label.prefix, TAG_BYTES + ROUND_BYTES
        unread = opened.count(None)
        if unread:
            raise InvalidBox(
                f"{unread} of {len(boxes)} messages cannot be opened: sealed to another key, or changed on the way."
            )
        if not all(content.startswith(prefix) for content in opened):
            foreign = sum(not content.startswith(tag) for content in opened)
            if foreign:
                raise InvalidBox(f"{foreign} of {len(boxes)} messages belong to another session or direction.")
            late = sum(not content.startswith(prefix) for content in opened)
            raise InvalidBox(
                f"{late} of {len(boxes)} messages belong to another round than {label.round_number}; each counts once."
            )
        return [content[start:] for content in opened]

    def _open_part(self, boxes: Sequence[bytes]) -> List[Optional[bytes]]:
        return [self._opened(box) for box in boxes]

    def _opened(self, box: bytes) -> Optional[bytes]:
        try:
            return crypto_box_seal_open(box, self.public_bytes, self._secret)
        except CryptoError:
            return None

    def __repr__(self) -> str:
        return f"BoxKey(public {self.public_bytes.hex()})"

    def __reduce__(self):
        raise TypeError("A secret key is never pickled or copied: it stays in the process that made it.")


def seal_all(
    contents: Sequence[bytes], public_key: bytes, label: Label, threads: Optional[int] = None
) -> List[bytes]:
    """A box for each content, in their order, each ``OVERHEAD_BYTES`` longer than the content.

    Args:
        contents: private; all of one size.
        public_key: 32 bytes, of who may open them.
        label: what they are for.
        threads: None for as many as this process has cores.

    Raises:
        InvalidPublicKey: the key is malformed or of low order.
        ValueError: contents differ in size.
    """
    key, prefix = check_public_key(public_key, "the receiver"), label.prefix
    if len({len(content) for content in contents}) > 1:
        raise ValueError("Contents of sealed boxes differ in size, which would show; pad them to one size.")
    return _in_parts(lambda part: [crypto_box_seal(prefix + content, key) for content in part], contents, threads)


def check_sizes(boxes: Sequence[bytes], size: int) -> None:
    """Raises `InvalidBox` unless each box is ``size`` bytes."""
    odd = sum(not isinstance(box, bytes) or len(box) != size for box in boxes)
    if odd:
        raise InvalidBox(f"{odd} of {len(boxes)} messages have another size than {size} bytes; all must have it.")


def _in_parts(work: Callable[[Sequence[bytes]], list], items: Sequence[bytes], threads: Optional[int]) -> list:
    """``work(items)``, done in consecutive parts on several threads."""
    wanted = len(os.sched_getaffinity(0)) if threads is None else threads
    count = max(1, min(wanted, len(items) // _LEAST_PER_THREAD))
    if count == 1:
        return work(items)
    edges = [len(items) * at // count for at in range(count + 1)]
    with ThreadPoolExecutor(count) as pool:
        parts = pool.map(work, [items[first:last] for first, last in zip(edges, edges[1:])])
        return [item for part in parts for item in part]
