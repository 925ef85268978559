"""Messages of the shuffle model: one size whatever they hold, told apart by random numbers only.

A message is, inside its sealed box: session, direction and round (`crypto.sealed_box.Label`), a random 128-bit id, the
position of a piece in its vector, the payload's length, the payload, and zeros up to the fixed size.
"""
import os
import struct
from dataclasses import dataclass
from typing import List, NamedTuple, Sequence

from fate_dp.crypto.sealed_box import OVERHEAD_BYTES, Label
from fate_dp.privacy.number_kinds import is_whole

ID_BYTES = 16
DIRECTION = "client to server through the shuffler"
MOST_PAYLOAD_BYTES = MOST_POSITIONS = 2**31
_HEADER = struct.Struct(f"<{ID_BYTES}sII")


class InvalidMessage(ValueError):
    """A message does not keep to the format, or it was there before."""


class TooFewMessages(ValueError):
    """Fewer messages arrived than the guarantee was computed for; the round ends before anything is passed on."""


class Piece(NamedTuple):
    """Part of a vector: ``position`` counts from 0; a payload that is not split has position 0."""

    position: int
    payload: bytes


@dataclass(frozen=True)
class MessageFormat:
    """Public; the same at all parties.

    Attributes:
        payload_bytes: the largest payload; a shorter one is padded to it.
    """

    payload_bytes: int

    def __post_init__(self):
        size = self.payload_bytes
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= MOST_PAYLOAD_BYTES:
            raise ValueError(f"payload_bytes is {size!r}; it must be a whole number from 1 to {MOST_PAYLOAD_BYTES}.")

    @property
    def content_bytes(self) -> int:
        """Size of what is sealed."""
        return _HEADER.size + self.payload_bytes

    @property
    def ciphertext_bytes(self) -> int:
        """Size of every message that leaves a client."""
        return self.content_bytes + OVERHEAD_BYTES

    def contents(self, pieces: Sequence[Piece]) -> List[bytes]:
        """What is to be sealed for each piece, with a fresh id from the operating system's entropy.

        Raises:
            InvalidMessage: a payload is no bytes or too long, or a position out of range.
        """
        ids = os.urandom(ID_BYTES * len(pieces))
        return [self._content(piece, ids[ID_BYTES * at : ID_BYTES * (at + 1)]) for at, piece in enumerate(pieces)]

    def _content(self, piece: Piece, message_id: bytes) -> bytes:
        position, payload = piece
        if not isinstance(payload, bytes) or len(payload) > self.payload_bytes:
            raise InvalidMessage(f"A payload must be at most {self.payload_bytes} bytes, the fixed size of a message.")
        if not 0 <= position < MOST_POSITIONS:
            raise InvalidMessage(f"A piece has position {position!r}; it must be from 0 to {MOST_POSITIONS - 1}.")
        header = _HEADER.pack(message_id, position, len(payload))
        return header + payload + bytes(self.payload_bytes - len(payload))

    def pieces(self, contents: Sequence[bytes]) -> List[Piece]:
        """The pieces of opened messages, in their order.

        Raises:
            InvalidMessage: two messages have one id, or a message does not keep to the format. The sentence holds
                counts only, nothing that points to a sender.
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


def label_of(session: str, round_number: int) -> Label:
    """What a message of one round is sealed for."""
    return Label(session, DIRECTION, round_number)


def check_least(least_messages: int) -> None:
    """Raises ValueError unless ``least_messages`` is a whole number of at least 1."""
    if not is_whole(least_messages) or least_messages < 1:
        raise ValueError(f"least_messages is {least_messages!r}; it must be a whole number of at least 1.")


def check_enough(arrived: int, least_messages: int, presumed_dishonest: int = 0) -> None:
    """Raises `TooFewMessages` unless ``arrived - presumed_dishonest`` messages are at least ``least_messages``."""
    check_least(least_messages)
    if arrived - presumed_dishonest < least_messages:
        without = f", {presumed_dishonest} of them not counted as honest" if presumed_dishonest else ""
        raise TooFewMessages(
            f"{arrived} messages arrived in this round{without}; it takes at least {least_messages}, so it was ended."
        )
