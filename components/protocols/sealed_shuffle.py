"""Messages of the shuffle model: one size whatever they hold, told apart by random numbers only.

A message is, inside its sealed box: session, direction and round (`crypto.sealed_box.Label`), a random 128-bit id, the
position of a piece in its vector, the payload's length, the payload, and zeros up to the fixed size.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fate_dp.crypto.pairwise_masks import check_public_key
from fate_dp.crypto.sealed_box import OVERHEAD_BYTES, BoxKey, Label, seal_all
from fate_dp.privacy.mechanisms.sampling import random_permutation
from fate_dp.privacy.noise.stream import Stream
from fate_dp.privacy.validation import one_of, refusal, whole

from ..common.preflight import Refusal

ID_BYTES = 16
DIRECTION = "client to server through the shuffler"
MAX_PAYLOAD_BYTES = MAX_POSITIONS = 2**31
_HEADER = struct.Struct(f"<{ID_BYTES}sII")


class InvalidMessage(ValueError):
    """A message does not keep to the format, or it was there before."""


class TooFewMessages(Refusal):
    """Fewer messages arrived than the guarantee was computed for; the round ends before anything is passed on."""


class Piece(NamedTuple):
    """Part of a vector: ``position`` counts from 0; a payload that is not split has position 0."""

    position: int
    payload: bytes


@dataclass(frozen=True)
class MessageFormat:
    """Public; the same at all parties. A payload that is shorter than ``payload_bytes`` is padded to it."""

    payload_bytes: int

    def __post_init__(self) -> None:
        whole("payload_bytes", self.payload_bytes, 1, MAX_PAYLOAD_BYTES)

    @property
    def content_bytes(self) -> int:
        return _HEADER.size + self.payload_bytes

    @property
    def ciphertext_bytes(self) -> int:
        return self.content_bytes + OVERHEAD_BYTES

    def contents(self, pieces: Sequence[Piece]) -> list[bytes]:
        """What is to be sealed for each piece, with a fresh id; InvalidMessage for a payload or position that does not fit."""
        return [self._content(*piece) for piece in pieces]

    def _content(self, position: int, payload: bytes) -> bytes:
        if not isinstance(payload, bytes) or len(payload) > self.payload_bytes:
            raise InvalidMessage(f"A payload must be at most {self.payload_bytes} bytes, the fixed size of a message.")
        if not 0 <= position < MAX_POSITIONS:
            raise InvalidMessage(refusal("position of a piece", position, f"from 0 to {MAX_POSITIONS - 1}"))
        header = _HEADER.pack(os.urandom(ID_BYTES), position, len(payload))
        return header + payload + bytes(self.payload_bytes - len(payload))

    def pieces(self, contents: Sequence[bytes]) -> list[Piece]:
        """The pieces of opened messages, in their order.

        InvalidMessage for two messages with one id, or one that does not keep to the format, tells counts alone.
        """
        headers = [_HEADER.unpack_from(content) for content in contents]
        repeated = len(headers) - len({message_id for message_id, _, _ in headers})
        if repeated:
            raise InvalidMessage(f"{repeated} of {len(contents)} messages are duplicates of others in this round.")
        ends = [_HEADER.size + length for _, _, length in headers]
        zeros = bytes(self.payload_bytes)
        broken = sum(
            end > len(content) or content[end:] != zeros[: len(content) - end] for content, end in zip(contents, ends)
        )
        if broken:
            raise InvalidMessage(f"{broken} of {len(contents)} messages do not keep to the format of a message.")
        return [
            Piece(position, content[_HEADER.size : end])
            for content, (_, position, _), end in zip(contents, headers, ends)
        ]


def check_enough(arrived: int, min_messages: int, presumed_dishonest: int = 0) -> None:
    """Raises `TooFewMessages` unless ``arrived - presumed_dishonest`` messages are at least ``min_messages``."""
    whole("min_messages", min_messages, 1)
    if arrived - presumed_dishonest < min_messages:
        without = f", {presumed_dishonest} of them not counted as honest" if presumed_dishonest else ""
        raise TooFewMessages(
            f"{arrived} messages arrived in this round{without}; it takes at least {min_messages}, so it was ended."
        )


# Vectors cut into pieces that are shuffled one by one: ``message_splitting: none | block | coordinate``.
#
# A piece holds its position and nothing of its vector: the server cannot tell which pieces one sender sent, and adds them
# up by position, which is all that a sum needs. Shuffling pieces apart is post-processing of shuffling whole vectors, so
# it is never worse; it is **accounted as whole vectors**, as no better bound is proved here.
#
# What it costs: a message is 96 bytes longer than its payload and takes about 0.1 ms of one core to seal, shuffle
# and open (python -m bench.shuffler_throughput, which measures the three ways).

SPLITS = ("none", "block", "coordinate")
NUMBER = np.dtype("<f4")
"""As which numbers travel, whose rounding is post-processing; they are added as float64."""


@dataclass(frozen=True)
class Splitting:
    """How vectors of d numbers travel; public, the same at all parties.

    ``block_size`` counts the numbers in a piece for 'block', the last of which is filled up with zeros.
    """

    dimension: int
    split: str = "none"
    block_size: int = 1024

    def __post_init__(self) -> None:
        for field in ("dimension", "block_size"):
            whole(field, getattr(self, field), 1)
        one_of("split", self.split, SPLITS)

    @property
    def numbers_per_piece(self) -> int:
        return {"none": self.dimension, "block": min(self.block_size, self.dimension), "coordinate": 1}[self.split]

    @property
    def positions(self) -> int:
        return -(-self.dimension // self.numbers_per_piece)

    @property
    def payload_bytes(self) -> int:
        return self.numbers_per_piece * NUMBER.itemsize

    def pieces(self, vector: np.ndarray) -> list[Piece]:
        """The pieces of one vector (d,), private until sealed; InvalidMessage unless it is one of finite floats."""
        vector = np.asarray(vector)
        if vector.shape != (self.dimension,) or vector.dtype.kind != "f":
            raise InvalidMessage(refusal("A vector", vector, f"of shape ({self.dimension},) and type float32"))
        padded = np.zeros(self.positions * self.numbers_per_piece, dtype=NUMBER)
        with np.errstate(over="ignore"):
            padded[: self.dimension] = vector
        self._check_finite(padded)
        data, size = padded.tobytes(), self.payload_bytes
        return [Piece(position, data[size * position : size * (position + 1)]) for position in range(self.positions)]

    def sum_of(self, pieces: Sequence[Piece]) -> tuple[np.ndarray, int]:
        """The sum of the vectors, float64 (d,), and how many there were; InvalidMessage for pieces of no such vectors."""
        positions = np.fromiter((piece.position for piece in pieces), dtype=np.int64, count=len(pieces))
        if not len(pieces) or positions.max() >= self.positions:
            raise InvalidMessage(f"Pieces have positions from 0 to {self.positions - 1}; one has not, or none came.")
        if any(len(piece.payload) != self.payload_bytes for piece in pieces):
            raise InvalidMessage(f"Every piece must be of {self.payload_bytes} bytes, got another size.")
        counts = np.bincount(positions, minlength=self.positions)
        if counts.min() != counts.max():
            raise InvalidMessage(
                f"Between {counts.min()} and {counts.max()} pieces came for a position; a piece is missing or surplus."
            )
        order = np.argsort(positions, kind="stable").tolist()
        numbers = np.frombuffer(b"".join([pieces[at].payload for at in order]), dtype=NUMBER)
        self._check_finite(numbers)
        sums = numbers.reshape(self.positions, counts[0], -1).sum(axis=1, dtype=np.float64).ravel()
        return sums[: self.dimension], int(counts[0])

    def _check_finite(self, numbers: np.ndarray) -> None:
        if not np.isfinite(numbers).all():
            raise InvalidMessage("A vector must be finite, or the sum says nothing, got a NaN or an infinity.")


def shuffle(
    ciphertexts: Sequence[bytes], min_messages: int, presumed_dishonest: int = 0, rng: Stream | None = None
) -> list[bytes]:
    """The shuffler's part: all messages of a round in a uniformly random order, which says nothing of who sent them.

    It waits until the round is complete, so that what is passed on depends neither on the order in which messages came
    nor on when. The guarantee was computed for ``min_messages``, all pieces of vectors among them; ``presumed_dishonest``
    of those that came are of parties not counted as honest, since messages of parties that collude with the server hide
    nobody. ``rng`` None is the operating system's entropy: a stream that the server can repeat would hide nothing.

    Raises TooFewMessages where fewer arrived, and InvalidMessage where ciphertexts differ in size, or one arrived twice.
    """
    check_enough(len(ciphertexts), min_messages, presumed_dishonest)
    if len({len(ciphertext) for ciphertext in ciphertexts}) > 1:
        raise InvalidMessage("Messages of this round must be of one size, got several, which show their senders.")
    repeated = len(ciphertexts) - len(set(ciphertexts))
    if repeated:
        raise InvalidMessage(f"{repeated} messages of this round arrived twice; every message counts once.")
    return [ciphertexts[at] for at in random_permutation(len(ciphertexts), rng).tolist()]


class Encoder:
    """A client's part: seals the messages of one round, which only the server can read.

    ``payload_bytes``, the size of the largest payload, is public and the same for all clients, and rounds count from 0;
    ``threads`` None is one for each core.
    """

    def __init__(
        self, server_key: bytes, round_number: int, payload_bytes: int, session: str = "", threads: int | None = None
    ) -> None:
        self.format = MessageFormat(payload_bytes)
        self._server_key = check_public_key(server_key, "the server")
        self._label, self._threads = Label(session, DIRECTION, round_number), threads

    def encode(self, payloads: Sequence[bytes]) -> list[bytes]:
        """A ciphertext of `MessageFormat.ciphertext_bytes` for each payload; InvalidMessage where one is too long."""
        return self.encode_pieces([Piece(0, payload) for payload in payloads])

    def encode_pieces(self, pieces: Sequence[Piece]) -> list[bytes]:
        """The same for pieces of vectors (`Splitting.pieces`)."""
        return seal_all(self.format.contents(pieces), self._server_key, self._label, self._threads)


class Analyzer:
    """The server's part: it opens each round once and learns what was sent, not by whom; a refused round gives nothing.

    Whoever spoils one message spoils the round (parties are semi-honest). A refusal counts wrong messages and never
    points at one.

    ``private_key`` was made for this session; vectors in pieces count towards ``min_messages`` with all of them.
    """

    def __init__(
        self, private_key: BoxKey, payload_bytes: int, min_messages: int, session: str = "", threads: int | None = None
    ) -> None:
        whole("min_messages", min_messages, 1)
        self.format, self.min_messages = MessageFormat(payload_bytes), min_messages
        self._key, self._session, self._threads = private_key, session, threads
        self._opened_rounds: set = set()

    @property
    def public_key(self) -> bytes:
        """32 bytes that clients seal to."""
        return self._key.public_bytes

    def open(self, ciphertexts: Sequence[bytes], round_number: int) -> list[bytes]:
        """The payloads of a round, in the order of the shuffler.

        Raises InvalidMessage where the round was opened before or a message is a duplicate, malformed, or a piece of a
        vector, TooFewMessages for fewer than ``min_messages``, and ValueError where a message has another size, was
        sealed to another key, or is of another round or session.
        """
        pieces = self.open_pieces(ciphertexts, round_number)
        if any(piece.position for piece in pieces):
            raise InvalidMessage(
                "Messages hold pieces of vectors where whole payloads were expected (message_splitting: none)."
            )
        return [piece.payload for piece in pieces]

    def open_pieces(self, ciphertexts: Sequence[bytes], round_number: int) -> list[Piece]:
        """The same for pieces of vectors, to be added by `Splitting.sum_of`."""
        label = Label(self._session, DIRECTION, round_number)
        if round_number in self._opened_rounds:
            raise InvalidMessage(f"Round {round_number} was opened before; every round is opened once.")
        check_enough(len(ciphertexts), self.min_messages)
        contents = self._key.open_all(ciphertexts, label, self.format.content_bytes, self._threads)
        pieces = self.format.pieces(contents)
        self._opened_rounds.add(round_number)
        return pieces
